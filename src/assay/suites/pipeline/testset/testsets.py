"""Several testset files as one sequence of groups."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Union

import msgspec

from assay.core.errors import Problem, UsageError
from assay.core.hashing import row_key
from assay.core.registry import unknown
from assay.core.spec import limited
from assay.suites.pipeline.testset.case import TestCase
from assay.suites.pipeline.testset.expansion import expanded, expanded_keys
from assay.suites.pipeline.testset.findings import Findings
from assay.suites.pipeline.testset.looking import Digests, FileLook, Frame, Inspect
from assay.suites.pipeline.testset.selection import Selection
from assay.suites.pipeline.testset.stream import Record, raise_first, record_at, records
from assay.suites.pipeline.testset.ties import Tied

_encode = msgspec.json.Encoder(order="deterministic").encode
_MOST_NAMES = 10_000
_EVERYTHING = Selection()


class Look(NamedTuple):
    """What one pass over all files found. `sets` has the number of groups of each file, by its set's name."""

    groups: int
    tests: int
    asked: str
    gold: str
    sets: dict[str, int]
    notes: list[Problem]


@dataclass(slots=True)
class Group:
    """Cases that run together, dependencies first; mostly one. `brought` are ids that nobody selected."""

    index: int
    set: str
    key: str
    cases: list[TestCase]
    brought: list[str] = field(default_factory=list)
    _places: dict[str, list[int]] = field(default_factory=dict, compare=False, repr=False)

    def waits_for(self, case: TestCase) -> list[str]:
        """The ids of the cases in this group that must have passed before this one."""
        named = case.depends_on
        if named and not self._places:
            for at, other in enumerate(self.cases):
                for name in {other.key, other.origin}:
                    self._places.setdefault(name, []).append(at)
        places = {at for name in named for at in self._places.get(name, ())}
        return [self.cases[at].key for at in sorted(places)]


class Testsets:
    """Files, patterns and folders of testsets, for a pipeline with these input names and steps.

    `limit` keeps the first groups of each set; below 1 it is a share of them, rounded up.
    """

    __test__ = False  # pytest collects classes of this name

    def __init__(
        self,
        names: list[str],
        selection: Selection = _EVERYTHING,
        declared: frozenset[str] = frozenset(),
        steps: frozenset[str] | None = None,
        limit: float | None = None,
        inspect: Inspect | None = None,
    ) -> None:
        self.files = set_names(find_files(names))
        self._frame, self._limit = Frame(selection, declared, steps, inspect), limit
        self._looks: list[FileLook] = []
        self._look: Look | None = None

    def look(self) -> Look:
        """Read and check everything once; raises InputError with the errors of all files."""
        if self._look is None:
            findings, digests = Findings(), Digests()
            self._looks = [FileLook(path, self._frame, findings, digests) for path in self.files.values()]
            findings.refuse()
            self._refuse_nothing()
            kept = {name: self._kept(look) for name, look in zip(self.files, self._looks, strict=True)}
            tests = sum(map(self._tests, self._looks))
            notes = findings.told("warning", "advice")
            self._look = Look(sum(kept.values()), tests, digests.asked, digests.gold, kept, notes)
        return self._look

    def groups(self, skip: Callable[[int], bool] = lambda _: False) -> Iterator[Group]:
        """Every group in the order of the files, except those whose index is to be skipped."""
        self.look()
        index = 0
        for name, look in zip(self.files, self._looks, strict=True):
            kept = self._kept(look)
            for at, build in zip(range(index, index + kept), _builders(look), strict=False):
                if not skip(at):
                    yield build(at, name)
            index += kept

    def _kept(self, look: FileLook) -> int:
        return limited(self._limit, look.groups)

    def _tests(self, look: FileLook) -> int:
        """How many cases the kept groups have; ties make it worth counting where a limit cuts."""
        kept = self._kept(look)
        if kept == look.groups:
            return look.tests
        return sum(group.tests for group in islice(_builders(look), kept)) if look.tied else kept

    def _refuse_nothing(self) -> None:
        """An id that no file has, or a selection that leaves nothing, is a mistake."""
        selection = self._frame.selection
        seen = set[str]().union(*(look.ids_seen for look in self._looks))
        if missing := sorted(selection.ids - seen):
            known = self._some_ids()
            raise UsageError("\n".join(unknown("case", name, known) for name in missing))
        if not any(look.tests for look in self._looks):
            raise UsageError(f"no test case is left by the selection: {_said(selection)}")

    def _some_ids(self) -> list[str]:
        found: list[str] = []
        for path in self.files.values():
            for record in records(path, raise_first):
                found += expanded_keys(TestCase.of(record.value, "", self._frame.declared))
                if len(found) >= _MOST_NAMES:
                    return found
        return found


def _said(selection: Selection) -> str:
    parts = {
        "--include-tags": selection.include_tags,
        "--exclude-tags": selection.exclude_tags,
        "--ids": selection.ids,
    }
    return " ".join(f"{flag} {','.join(sorted(values))}" for flag, values in parts.items() if values)


Builder = Union["_Alone", "_Built", "_Together"]


def _builders(look: FileLook) -> Iterator[Builder]:
    """One for each group of a file, in its order. Nothing is built before it is called."""
    everything = look.frame.selection.all
    for ordinal, record in enumerate(records(look.path, raise_first)):
        if ordinal in look.spots:
            if tied := look.tied.get(ordinal):
                yield _Together(look, tied)
        elif everything and "parameters" not in record.value:
            yield _Alone(look, record)
        else:
            case = look.case(record)
            keys = set(look.frame.selection.keys(case))
            yield from (_Built(one) for one in (expanded(case) if keys else ()) if one.key in keys)


class _Alone:
    """A record that is tied to no other and stands for one case."""

    tests = 1

    def __init__(self, look: FileLook, record: Record) -> None:
        self._look, self._record = look, record

    def __call__(self, index: int, name: str) -> Group:
        case = self._look.case(self._record)
        return Group(index, name, group_key([case]), [case])


class _Built:
    """A case that had to be built to be chosen."""

    tests = 1

    def __init__(self, case: TestCase) -> None:
        self._case = case

    def __call__(self, index: int, name: str) -> Group:
        return Group(index, name, group_key([self._case]), [self._case])


class _Together:
    """Cases that are tied, read from their places in the file."""

    def __init__(self, look: FileLook, tied: Tied) -> None:
        self._look, self._tied = look, tied
        self.tests = look.sizes[tied.first]

    def __call__(self, index: int, name: str) -> Group:
        cases: list[TestCase] = []
        brought: list[str] = []
        look = self._look
        for at in self._tied.members:
            case = look.case(record_at(look.path, look.spots[at]))
            new = list(expanded(case))
            if at in self._tied.brought:
                brought += [one.key for one in new]
            else:
                keys = set(look.frame.selection.keys(case))
                new = [one for one in new if one.key in keys]
            cases += new
        return Group(index, name, group_key(cases), cases, brought)


def group_key(cases: list[TestCase]) -> str:
    """A group by what is asked in it; expectations and tags do not count."""
    said = [[case.id, case.inputs, case.step_inputs, case.batch_items] for case in cases]
    return row_key(_encode(said))


def find_files(names: list[str]) -> list[Path]:
    """Files by name, pattern or folder (all `*.jsonl` below it), each once."""
    found: dict[Path, Path] = {}
    for name in names:
        for path in _named(name):
            found.setdefault(path.resolve(), path)
    if not found:
        raise UsageError("no testset is named")
    return list(found.values())


def _named(name: str) -> list[Path]:
    path = Path(name)
    if not name:
        raise UsageError("the name of a testset is empty")
    if path.is_dir():
        below = sorted(found for found in path.rglob("*.jsonl") if found.is_file())
        if not below:
            raise UsageError(f"there is no .jsonl file below {name!r}")
        return below
    if path.exists():
        return [path]
    matches = [Path(found) for found in sorted(glob.glob(name, recursive=True))]  # noqa: PTH207
    files = [found for found in matches if found.is_file()]
    if not files:
        raise UsageError(f"there is no testset {name!r}; name a .jsonl file, a pattern or a folder")
    return files


def set_names(files: list[Path]) -> dict[str, Path]:
    """Each file by its stem; where stems clash, by its path below the folder that is common to all.

    Files that differ in nothing but their ending keep it.
    """
    folders = [path.parent.resolve() for path in files]
    common = Path(os.path.commonpath(folders))
    whole = [(folder / path.name).relative_to(common) for path, folder in zip(files, folders, strict=True)]
    short = [path.with_suffix("") for path in whole]
    stems, paths = Counter(path.stem for path in whole), Counter(short)
    names = [
        path.stem if stems[path.stem] == 1 else str(path if paths[cut] > 1 else cut)
        for path, cut in zip(whole, short, strict=True)
    ]
    if len(set(names)) < len(names):  # a stem may look like another one's path
        names = list(map(str, whole))
    return dict(zip(names, files, strict=True))
