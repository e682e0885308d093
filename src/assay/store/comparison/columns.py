"""Selects the columns of one subject of a run, and pairs the cases and scores of two runs.

Texts are not loaded. They are read from the journal when they are needed, by the index of the case.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.core.no_answer import is_measured
from assay.core.report import Report
from assay.core.suite_pages import StoredCase
from assay.core.types import CLOSING_KINDS, End, Record, Score
from assay.journal.columns import (
    INVALID,
    NO_NUMBER,
    NOT_APPLICABLE,
    SCORED,
    RunColumns,
    ScoreArrays,
    as_numpy,
)
from assay.journal.index import INFRA_ERROR
from assay.journal.integrity import refuse_damage
from assay.journal.reader import RunReader
from assay.journal.run_files import RunInfo, Summary
from assay.store.cases import RunCases

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Further states of a pair, after those of `journal.columns`.
NOT_SCORED, NO_ANSWER, UNMEASURED = 4, 5, 6
STATES = {
    SCORED: "scored",
    NO_NUMBER: "no number",
    NOT_APPLICABLE: "not_applicable",
    INVALID: "invalid",
    NOT_SCORED: "not scored",
    NO_ANSWER: "infra_error",
    UNMEASURED: "no answer",
}
"""Names of the values of `SubjectColumns.score_state`, for reports."""

# Large odd factors that combine several numbers into one 64-bit key, so that one sort finds all pairs. Odd
# factors keep different numbers different, and large ones spread the keys.
_MIX_SET, _MIX_NAME, _MIX_PAIR = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9


class ComparedScore(NamedTuple):
    """Identifies a row of the table within a set. `part` is the filter, or "" if the suite has no filters."""

    scorer: str
    metric: str
    part: str

    @property
    def title(self) -> str:
        """The name to print: `exact_match,strict`."""
        return f"{self.metric},{self.part}" if self.part else self.metric


class NameNumbers:
    """Assigns a number to each set and score name, the same in all runs of a comparison."""

    def __init__(self) -> None:
        self.sets: dict[str, int] = {}
        self.scores: dict[ComparedScore, int] = {}

    def of_set(self, name: str) -> int:
        """Return the number of a set."""
        return self.sets.setdefault(name, len(self.sets))

    def of_score(self, name: ComparedScore) -> int:
        """Return the number of a score name."""
        return self.scores.setdefault(name, len(self.scores))


class SubjectColumns(NamedTuple):
    """The cases and scores of one subject of a run, in the order of the data. All fields are numpy arrays.

    `indexes` are the numbers of the cases in the run. `score_case` is a position in the columns of the cases.
    """

    keys: NDArray[Any]
    sets: NDArray[Any]
    indexes: NDArray[Any]
    no_answer: NDArray[Any]
    seconds: NDArray[Any]
    input: NDArray[Any]
    output: NDArray[Any]
    calls: NDArray[Any]
    cost: NDArray[Any] | None
    """None if the endpoint reported no price."""
    tags: NDArray[Any]
    """Numbers of `ComparedRun.tag_names`."""
    score_case: NDArray[Any]
    score_name: NDArray[Any]
    score_part: NDArray[Any]
    score_value: NDArray[Any]
    score_state: NDArray[Any]
    score_gold: NDArray[Any]
    score_tags: NDArray[Any]
    """Tags of the part, in suites whose parts are rows; else those of the case."""


class ComparedRun:
    """One run: its columns by subject and its report. Texts are read on demand."""

    def __init__(self, folder: Path, info: RunInfo, summary: Summary, numbers: NameNumbers) -> None:
        self.folder = folder
        self.info = info
        self.summary = summary
        self.report = summary.report or Report()
        # Mapped columns stay in their file: the cases of a page need only a few of their offsets.
        columns = RunColumns.open_mapped(folder, info.score_parts)
        self._columns = columns = columns or RunColumns.open(folder, info.score_parts)
        refuse_damage(folder, summary, columns)
        self._reader = RunReader(folder, columns)
        self._cases: RunCases | None = None
        self.tag_names = columns.tags.names
        # The last two cases that were read, because both sides may be subjects of this run: the questions of a
        # conversation are asked for one by one.
        self._records: dict[int, list[Record]] = {}
        self.subjects = self._by_subject(numbers)

    @property
    def took_replies(self) -> bool:
        """Whether replies of this run come from another run or from another case. They took its cases no time."""
        # Such a call is a line of the log and is not counted as spent. The calls of an imported run are not either.
        return not self.info.imported and len(self._columns.call_offsets) > self._columns.spent.calls

    def _by_subject(self, numbers: NameNumbers) -> dict[str, SubjectColumns]:
        import numpy as np

        columns = self._columns
        codes = np.frombuffer(bytes(columns.ask.codes), dtype=np.uint8)
        indexes = np.flatnonzero(codes)
        subject_numbers = as_numpy(columns.subjects.numbers)
        set_numbers = np.array([numbers.of_set(name) for name in columns.sets.names], dtype=np.uint64)
        name_numbers = np.array(
            [
                numbers.of_score(ComparedScore(scorer_name(name.scorer), name.metric, name.filter))
                for name in columns.score_names.names
            ],
            dtype=np.uint64,
        )
        scores = columns.scores(self.summary.scorers)
        # An interim score is replaced by a later score of the same question.
        counted = np.flatnonzero(~scores.interim)
        case_tags = as_numpy(columns.tags.numbers)
        if self.info.score_parts == "rows":
            score_tags = as_numpy(columns.score_tags)[scores.position]
        else:
            score_tags = case_tags[scores.case]
        costs = columns.case_costs()
        subjects = {}
        for number, name in enumerate(columns.subjects.names):
            own = indexes[subject_numbers[indexes] == number]
            if not len(own):
                continue
            position_of_case = np.full(len(codes), -1, dtype=np.int32)
            position_of_case[own] = np.arange(len(own), dtype=np.int32)
            # Sorted by case: scores are in the file in the order in which cases ended.
            own_scores = counted[position_of_case[scores.case[counted]] >= 0]
            own_scores = own_scores[np.argsort(scores.case[own_scores], kind="stable")]
            subjects[name] = SubjectColumns(
                keys=as_numpy(columns.keys)[own],
                sets=set_numbers[as_numpy(columns.sets.numbers)[own]],
                indexes=own,
                no_answer=codes[own] == INFRA_ERROR,
                seconds=as_numpy(columns.seconds)[own],
                input=as_numpy(columns.input)[own],
                output=as_numpy(columns.output)[own],
                calls=as_numpy(columns.calls_made)[own],
                cost=None if costs is None else costs[own],
                tags=case_tags[own],
                score_case=position_of_case[scores.case[own_scores]],
                score_name=name_numbers[scores.name[own_scores]],
                score_part=scores.part[own_scores],
                score_value=scores.value[own_scores],
                score_state=self._measured_states(name, own_scores, scores),
                score_gold=scores.gold[own_scores],
                score_tags=score_tags[own_scores],
            )
        columns.release_pages()
        # In data order: the first subject is the base, and names are numbered in the order in which cases ended.
        return dict(sorted(subjects.items(), key=lambda item: int(item[1].indexes[0])))

    def _measured_states(self, subject: str, own: NDArray[Any], scores: ScoreArrays) -> NDArray[Any]:
        """Return the states of a subject's scores. Those that stand on no answer at all are not measured.

        An error counts as a wrong answer, so they are 0. The report leaves them out too.
        """
        states: NDArray[Any] = scores.state[own].copy()
        if not any(entry.answered and not entry.answered.count for entry in self.report.entries):
            return states
        set_numbers = as_numpy(self._columns.sets.numbers)[scores.case[own]]
        for number, name in enumerate(self._columns.score_names.names):
            for set_number, set_name in enumerate(self._columns.sets.names):
                if not is_measured(self.report, set_name, subject, name.metric):
                    chosen = (scores.name[own] == number) & (set_numbers == set_number)
                    states[chosen & (states == SCORED)] = UNMEASURED
        return states

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
        records = self._records.get(index)
        if records is None:
            records = self._reader.records(index)
            self._records = dict([*self._records.items(), (index, records)][-2:])
        for record in records:
            if part and record.part == part and isinstance(record.data, dict):
                hits = [hit[0] for hit in record.data.get("hits", [])]
                return record.data.get("answer") or hits
        return records[-1].data if records and records[-1].kind not in CLOSING_KINDS else None

    def case(self, index: int) -> StoredCase:
        """Return a case that is in the columns, with its calls."""
        if self._cases is None:
            self._cases = RunCases(self.folder, self._columns)
        case = self._cases.case(index)
        assert case is not None
        return case._replace(calls=self._cases.calls(index))

    def end(self, index: int) -> End:
        """Return the `end` of a case that is in the columns."""
        end = self._reader.end(index)
        assert end is not None
        return end

    def close(self) -> None:
        """Close the files."""
        self._reader.close()


@lru_cache(maxsize=64)
def scorer_name(scorer: str) -> str:
    """Return the name of a scorer without its fingerprint: `task` for `task@0123`."""
    return scorer.partition("@")[0]


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
    base_rest, new_rest = _others(len(base.keys), base_in_set), _others(len(new.keys), new_in_set)
    # Renaming a data file renames its set. The key is a hash of the content, so it stays the same.
    by_key = _match_unique(base.keys[base_rest], new.keys[new_rest])
    base_cases = np.concatenate([base_in_set, base_rest[by_key[0]]])
    new_cases = np.concatenate([new_in_set, new_rest[by_key[1]]])
    order = np.argsort(base_cases, kind="stable")
    return CasePairs(
        base_cases[order],
        new_cases[order],
        _others(len(base.keys), base_cases),
        _others(len(new.keys), new_cases),
    )


def _keys_in_sets(columns: SubjectColumns) -> NDArray[Any]:
    import numpy as np

    mixed: NDArray[Any] = columns.sets * np.uint64(_MIX_SET) + columns.keys
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

    # Two runs on the same data. Sorting values takes a tenth of the time of sorting positions.
    if len(base) and np.array_equal(base, new):
        ordered = np.sort(base)
        if not (ordered[1:] == ordered[:-1]).any():
            positions = np.arange(len(base))
            return positions, positions
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
    if not len(only_ours) and not len(only_theirs) and (in_ours[1:] > in_ours[:-1]).all():
        return pairs  # in order already: the scores of a side are sorted by case
    # Sort by case, then by score, in the order of the base.
    order = np.lexsort((pairs.new, pairs.base, pairs.pair))
    return ScorePairs(*(column[order] for column in pairs))


class _SideScores:
    """The scores of the paired cases of one side. `cases` has the position of each pair's case."""

    def __init__(self, columns: SubjectColumns, cases: NDArray[Any]) -> None:
        import numpy as np

        pair_of_case = np.full(len(columns.keys), -1, dtype=np.int32)
        pair_of_case[cases] = np.arange(len(cases), dtype=np.int32)
        pairs = pair_of_case[columns.score_case]
        self.rows = np.flatnonzero(pairs >= 0).astype(np.int32)
        self.pair = pairs[self.rows]
        self.name = columns.score_name[self.rows]
        self.state = columns.score_state[self.rows]
        self.keys = columns.score_part[self.rows]
        self.keys += self.name * np.uint64(_MIX_NAME)
        self.keys += self.pair.astype(np.uint64) * np.uint64(_MIX_PAIR)
        self._no_answer = columns.no_answer[cases]

    def missing_states(self, pairs: NDArray[Any]) -> NDArray[Any]:
        """Return the state of each pair that has no score on this side: no answer, or not scored."""
        import numpy as np

        return np.where(self._no_answer[pairs], NO_ANSWER, NOT_SCORED).astype(np.uint8)
