"""Loads runs as columns of numbers, and pairs the cases and scores of two runs.

A case takes 45 bytes and a score 33, so runs of a million cases fit in memory. Texts are not loaded. They are
read from the journal when they are needed, by the index of the case.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from hashlib import blake2b
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.core.report import Report
from assay.core.types import CLOSING_KINDS, End, Score
from assay.journal.folder import RunInfo, Summary
from assay.journal.index import RunIndex
from assay.journal.lines import damage_error
from assay.journal.reader import RunReader

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCORED, NO_NUMBER, NOT_APPLICABLE, INVALID, NOT_SCORED, NO_ANSWER = range(6)
STATES = ("scored", "no number", "not_applicable", "invalid", "not scored", "infra_error")
"""Names of the codes in the column `score_state`, for reports."""

# Large odd factors that combine several numbers into one 64-bit key, so that one sort finds all pairs. Odd
# factors keep different numbers different, and large ones spread the keys.
_MIX_SET, _MIX_NAME, _MIX_PAIR = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9


class ScoreName(NamedTuple):
    """Identifies a row of the table within a set. `part` is the filter, or "" if the suite has no filters."""

    scorer: str
    metric: str
    part: str


class NameNumbers:
    """Assigns a number to each set and score name, the same in all runs of a comparison."""

    def __init__(self) -> None:
        self.sets: dict[str, int] = {}
        self.scores: dict[ScoreName, int] = {}

    def of_set(self, name: str) -> int:
        """Return the number of a set."""
        return self.sets.setdefault(name, len(self.sets))

    def of_score(self, name: ScoreName) -> int:
        """Return the number of a score name."""
        return self.scores.setdefault(name, len(self.scores))


class SubjectColumns:
    """The cases and scores of one subject of a run, in the order of the data."""

    def __init__(self) -> None:
        self.keys = array("Q")
        self.sets = array("I")
        self.indexes = array("I")
        self.no_answer = array("B")
        self.seconds = array("d")
        self.input = array("Q")
        self.output = array("Q")
        self.calls = array("I")
        self.score_case = array("I")
        self.score_name = array("I")
        self.score_part = array("Q")
        self.score_value = array("d")
        self.score_state = array("B")
        self.score_gold = array("Q")

    def __len__(self) -> int:
        return len(self.keys)

    def add_case(self, end: End, set_number: int) -> None:
        """Add a finished case."""
        self.keys.append(_digest(end.case))
        self.sets.append(set_number)
        self.indexes.append(end.index)
        self.no_answer.append(end.status == "infra_error")
        self.seconds.append(end.seconds)
        self.input.append(end.usage.input if end.usage else 0)
        self.output.append(end.usage.output if end.usage else 0)
        self.calls.append(end.calls)

    def add_score(self, score: Score, name_number: int) -> None:
        """Add a score to the last case."""
        if score.status == "not_applicable":
            state = NOT_APPLICABLE
        elif score.status == "invalid":
            state = INVALID
        else:
            state = NO_NUMBER if score.value is None else SCORED
        gold = score.data.get("gold") if isinstance(score.data, dict) else None
        self.score_case.append(len(self.keys) - 1)
        self.score_name.append(name_number)
        self.score_part.append(part_digest(score.vote, score.part))
        self.score_value.append(nan if score.value is None else score.value)
        self.score_state.append(state)
        self.score_gold.append(_digest(str(gold)) if gold else 0)


class RunColumns:
    """One run: its columns by subject and its report. Texts are read on demand."""

    def __init__(self, folder: Path, info: RunInfo, summary: Summary, numbers: NameNumbers) -> None:
        self.folder = folder
        self.info = info
        self.summary = summary
        self.report = summary.report or Report()
        self._index = RunIndex.of_run(folder)
        if self._index.damage:
            raise damage_error(list(self._index.damage.values()))
        self._reader = RunReader(folder, self._index)
        self.subjects: dict[str, SubjectColumns] = {}
        for index in range(len(self._index.ask.codes)):
            end = self._reader.end(index)
            if end is None:
                continue
            columns = self.subjects.get(end.subject)
            if columns is None:
                columns = self.subjects[end.subject] = SubjectColumns()
            columns.add_case(end, numbers.of_set(end.set))
            for score in self.scores(index):
                # An interim score is replaced by a later score of the same question.
                if not score.interim:
                    part = score.part if info.score_parts == "filters" else ""
                    name = ScoreName(scorer_name(score.scorer), score.metric, part)
                    columns.add_score(score, numbers.of_score(name))

    def scores(self, index: int) -> list[Score]:
        """Return the scores of a case by all scorers."""
        scores = []
        for scorer in self.summary.scorers:
            scores += self._reader.scores(index, scorer)
        return scores

    def answer(self, index: int, part: str) -> Any:
        """Return the answer of a case, or of the question `part` of a conversation. None if there is no record of it.

        For a question that was only searched for, this is the list of the items that the search returned.
        """
        records = self._reader.records(index)
        for record in records:
            if part and record.part == part and isinstance(record.data, dict):
                hits = [hit[0] for hit in record.data.get("hits", [])]
                return record.data.get("answer") or hits
        return records[-1].data if records and records[-1].kind not in CLOSING_KINDS else None

    def end(self, index: int) -> End:
        """Return the `end` of a case that is in the columns."""
        end = self._reader.end(index)
        assert end is not None
        return end

    def close(self) -> None:
        """Close the files."""
        self._reader.close()


def as_numpy(column: array[Any]) -> NDArray[Any]:
    """Return a numpy view of the column, without a copy. Do not write to it."""
    import numpy as np

    if not column:
        # frombuffer refuses an empty buffer.
        return np.empty(0, dtype=column.typecode)
    return np.frombuffer(column, dtype=column.typecode)


@lru_cache(maxsize=64)
def scorer_name(scorer: str) -> str:
    """Return the name of a scorer without its fingerprint: `task` for `task@0123`."""
    return scorer.partition("@")[0]


@lru_cache(maxsize=1024)
def part_digest(vote: int, part: str) -> int:
    """Return a 64-bit number for vote and part of a score. Cached, because the same filters repeat in every case."""
    return _digest(f"{vote}/{part}")


def _digest(text: str) -> int:
    # 64 bits are enough: among a million different texts a collision has a probability of 3 in 100 million.
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


class CasePairs(NamedTuple):
    """Positions of the paired cases in the columns of both sides, in the base's order.

    `only_base` and `only_new` are the positions of cases without a partner.
    """

    base: NDArray[Any]
    new: NDArray[Any]
    only_base: NDArray[Any]
    only_new: NDArray[Any]


def pair_cases(base: SubjectColumns, new: SubjectColumns) -> CasePairs:
    """Pair cases with the same set and key. Then pair the rest by key alone, if the key is unique on each side."""
    import numpy as np

    base_in_set, new_in_set = _match_unique(_keys_in_sets(base), _keys_in_sets(new))
    base_rest, new_rest = _others(len(base), base_in_set), _others(len(new), new_in_set)
    # Renaming a data file renames its set. The key is a hash of the content, so it stays the same.
    by_key = _match_unique(as_numpy(base.keys)[base_rest], as_numpy(new.keys)[new_rest])
    base_cases = np.concatenate([base_in_set, base_rest[by_key[0]]])
    new_cases = np.concatenate([new_in_set, new_rest[by_key[1]]])
    order = np.argsort(base_cases, kind="stable")
    return CasePairs(
        base_cases[order], new_cases[order], _others(len(base), base_cases), _others(len(new), new_cases)
    )


def _keys_in_sets(columns: SubjectColumns) -> NDArray[Any]:
    import numpy as np

    mixed: NDArray[Any] = as_numpy(columns.sets) * np.uint64(_MIX_SET)
    mixed += as_numpy(columns.keys)
    return mixed


def _others(count: int, positions: NDArray[Any]) -> NDArray[Any]:
    """Return the positions below `count` that are not in `positions`."""
    import numpy as np

    is_other = np.ones(count, dtype=bool)
    is_other[positions] = False
    return np.flatnonzero(is_other)


def _match_unique(base: NDArray[Any], new: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the positions, in both arrays, of values that occur exactly once in each of them."""
    import numpy as np

    sides = []
    for values in (base, new):
        distinct, positions, counts = np.unique(values, return_index=True, return_counts=True)
        sides.append((distinct[counts == 1], positions[counts == 1]))
    (base_values, base_positions), (new_values, new_positions) = sides
    _, first, second = np.intersect1d(base_values, new_values, assume_unique=True, return_indices=True)
    return base_positions[first], new_positions[second]


class ScorePairs(NamedTuple):
    """One row per score of a paired case: its position on both sides (-1 if missing) and both states."""

    pair: NDArray[Any]
    name: NDArray[Any]
    base: NDArray[Any]
    new: NDArray[Any]
    base_state: NDArray[Any]
    new_state: NDArray[Any]


def pair_scores(base: SubjectColumns, new: SubjectColumns, cases: CasePairs) -> ScorePairs:
    """Pair scores of paired cases by name and part. A score without a partner has a row too."""
    import numpy as np

    ours, theirs = _SideScores(base, cases.base), _SideScores(new, cases.new)
    in_ours, in_theirs = _match_unique(ours.keys, theirs.keys)
    only_ours, only_theirs = _others(len(ours.keys), in_ours), _others(len(theirs.keys), in_theirs)
    missing = np.full(max(len(only_ours), len(only_theirs)), -1, dtype=np.int32)
    pairs = ScorePairs(
        pair=np.concatenate([ours.pair[in_ours], ours.pair[only_ours], theirs.pair[only_theirs]]),
        name=np.concatenate([ours.name[in_ours], ours.name[only_ours], theirs.name[only_theirs]]),
        base=np.concatenate([ours.rows[in_ours], ours.rows[only_ours], missing[: len(only_theirs)]]),
        new=np.concatenate([theirs.rows[in_theirs], missing[: len(only_ours)], theirs.rows[only_theirs]]),
        base_state=np.concatenate(
            [ours.state[in_ours], ours.state[only_ours], ours.missing_states(theirs.pair[only_theirs])]
        ),
        new_state=np.concatenate(
            [theirs.state[in_theirs], theirs.missing_states(ours.pair[only_ours]), theirs.state[only_theirs]]
        ),
    )
    # Sort by case, then by score, in the order of the base.
    order = np.lexsort((pairs.new, pairs.base, pairs.pair))
    return ScorePairs(*(column[order] for column in pairs))


class _SideScores:
    """The scores of the paired cases of one side. `cases` has the position of each pair's case."""

    def __init__(self, columns: SubjectColumns, cases: NDArray[Any]) -> None:
        import numpy as np

        pair_of_case = np.full(len(columns), -1, dtype=np.int32)
        pair_of_case[cases] = np.arange(len(cases), dtype=np.int32)
        pairs = pair_of_case[as_numpy(columns.score_case)]
        self.rows = np.flatnonzero(pairs >= 0).astype(np.int32)
        self.pair = pairs[self.rows]
        self.name = as_numpy(columns.score_name)[self.rows]
        self.state = as_numpy(columns.score_state)[self.rows]
        self.keys = as_numpy(columns.score_part)[self.rows]
        self.keys += self.name * np.uint64(_MIX_NAME)
        self.keys += self.pair.astype(np.uint64) * np.uint64(_MIX_PAIR)
        self._no_answer = as_numpy(columns.no_answer)[cases]

    def missing_states(self, pairs: NDArray[Any]) -> NDArray[Any]:
        """Return the state of each pair that has no score on this side: no answer, or not scored."""
        import numpy as np

        return np.where(self._no_answer[pairs], NO_ANSWER, NOT_SCORED).astype(np.uint8)
