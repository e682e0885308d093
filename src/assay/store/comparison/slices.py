"""Slices of a comparison: the rows of the cases that share a tag, a set or a subject (`assay compare --by`).

Tags are in the journal. A case has its tags in its `end`; a part of a case (a test, a question) has them in its scores.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from assay.core.errors import UsageError
from assay.core.report import PairedMetric, Report, Slice
from assay.scoring.paired import adjust_metrics
from assay.store.comparison.paired_metrics import PairedScores, PairedTable
from assay.store.comparison.selection import SelectedSubject

if TYPE_CHECKING:
    from numpy.typing import NDArray

TAG, SET, SUBJECT = "tag", "set", "subject"
# Nobody reads a longer table. A tag for each case, such as an id, would give a table as long as the data.
MAX_SLICES = 1000
_MAX_NAMES = 12  # tags that an error message lists


class PairedSlice(Struct, kw_only=True):
    """The rows of one group of cases: `by="category", name="2"`. `label` is the name to print, if it differs."""

    by: str
    name: str
    label: str = ""
    rows: list[PairedMetric]

    @property
    def title(self) -> str:
        """The name to print."""
        return self.label or self.name


def paired_slices(
    by: str, sides: tuple[SelectedSubject, SelectedSubject], scores: PairedScores, table: PairedTable
) -> list[PairedSlice]:
    """Return the slices of a comparison, sorted by name.

    `by` is `set`, `subject`, `tag` for every tag, or the word before the colon of tags such as `category:2`. Some
    suites have tags without that word; then the slices in the runs' reports tell which tags are meant. Raises
    UsageError if no case has such a tag.
    """
    known = _report_slices(by, (sides[0].run.report, sides[1].run.report))
    slices = []
    for name, positions in sorted(_groups(by, sides, scores, known), key=lambda group: _natural(group[0])):
        label = known[name].label if name in known else ""
        slices.append(PairedSlice(by=by, name=name, label=label, rows=table.slice_rows(positions)))
    # Many slices have small p values by chance, as many metrics have.
    adjust_metrics((row for each in slices for row in each.rows), table.apart)
    return slices


def _report_slices(by: str, reports: Iterable[Report]) -> dict[str, Slice]:
    """Return the slices of the reports that have this word, by name."""
    entries = [entry for report in reports for entry in report.entries]
    return {each.name: each for entry in entries for each in entry.slices if each.by == by}


def _groups(
    by: str, sides: tuple[SelectedSubject, SelectedSubject], scores: PairedScores, known: dict[str, Slice]
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the name of each slice with the positions of its pairs. A pair with two tags is in two slices."""
    import numpy as np

    if by == SUBJECT:
        yield sides[1].subject, np.arange(len(scores.set))
        return
    if by == SET:
        for number in np.unique(scores.set).tolist():
            yield scores.set_names[number], np.flatnonzero(scores.set == number)
        return
    tag_sets = _PairTags(sides, scores)
    members: dict[str, list[int]] = {}
    for number, tags in enumerate(tag_sets.names):
        for name in {_slice_name(by, tag, known) for tag in tags} - {None}:
            members.setdefault(str(name), []).append(number)
    if not members:
        raise UsageError(_no_such_tag(by, sides, tag_sets.names))
    if len(members) > MAX_SLICES:
        raise UsageError(
            f"--by {by}: there are {len(members):,} different values, and at most {MAX_SLICES:,} are compared. "
            "Choose a tag that groups the cases."
        )
    for name, numbers in members.items():
        is_member = np.zeros(len(tag_sets.names), dtype=bool)
        is_member[numbers] = True
        yield name, np.flatnonzero(is_member[tag_sets.numbers])


def _slice_name(by: str, tag: str, known: dict[str, Slice]) -> str | None:
    """Return the slice of a tag: `2` for `category:2` and `category=2`; None if the tag is about something else."""
    if by == TAG:
        return tag
    if tag.startswith((f"{by}:", f"{by}=")):
        return tag[len(by) + 1 :]
    return tag if tag in known else None


def _no_such_tag(by: str, sides: tuple[SelectedSubject, SelectedSubject], tag_sets: list[tuple[str, ...]]) -> str:
    folders = " and ".join(dict.fromkeys(str(side.run.folder) for side in sides))
    tags = list(dict.fromkeys(tag for tags in tag_sets for tag in tags))
    if not tags:
        return f"--by {by}: no case of {folders} has a tag. --by set compares each data set"
    shown = ", ".join(map(repr, tags[:_MAX_NAMES])) + (" and others" if len(tags) > _MAX_NAMES else "")
    return (
        f"--by {by}: no case of {folders} has a tag such as '{by}:NAME'. There are the tags {shown}; "
        "--by tag compares each of them"
    )


class _PairTags:
    """The tags of each pair: `numbers` has, for each pair, the position of its tags in `names`."""

    def __init__(self, sides: tuple[SelectedSubject, SelectedSubject], scores: PairedScores) -> None:
        import numpy as np

        base, new = (_ScoreTags(side) for side in sides)
        self.names = [*base.names, *new.names]
        in_base, in_new = scores.pairs.base >= 0, scores.pairs.new >= 0
        # The new side has the present tags of the data. A run that was imported from another program may have none.
        use_new = in_new & (any(new.names) | ~in_base)
        self.numbers = np.where(
            use_new,
            new.numbers[scores.pairs.new] + len(base.names) if len(new.numbers) else 0,
            base.numbers[scores.pairs.base] if len(base.numbers) else 0,
        )


class _ScoreTags:
    """The tags of each score of one side, those of its case included. Few distinct sets of tags occur in a run."""

    def __init__(self, side: SelectedSubject) -> None:
        import numpy as np

        columns, names = side.columns, side.run.tag_names
        # The tags of the case and those of the part in one number, so that one pass finds the combinations.
        case_tags = columns.tags[columns.score_case].astype(np.int64)
        combined = case_tags * len(names) + columns.score_tags
        distinct, self.numbers = np.unique(combined, return_inverse=True)
        self.names: list[tuple[str, ...]] = []
        for number in distinct.tolist():
            case_number, part_number = divmod(number, len(names))
            self.names.append(tuple(dict.fromkeys((*names[case_number], *names[part_number]))))


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Return a key that sorts `2` before `10`."""
    return [
        (not piece.isdecimal(), int(piece) if piece.isdecimal() else 0, piece) for piece in re.split(r"(\d+)", name)
    ]
