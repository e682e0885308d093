"""The tests of a run: several testset files, selected by tags and ids, as one sequence of groups.

    testsets = Testsets(["testsets/"], CaseSelection.of(include_tags=["smoke"]))
    for group in testsets.load().groups:
        run(group.cases)

A group is mostly one case. Cases that depend on each other stand in one group and run in that order.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.core.errors import InputError, Problem, UsageError
from assay.core.hashing import row_key
from assay.core.registry import unknown
from assay.core.spec import apply_limit
from assay.suites.pipeline.testset.case import TestCase
from assay.suites.pipeline.testset.dependencies import DependencyChain
from assay.suites.pipeline.testset.scan import CaseCheck, ScannedFile, in_file_order, scan_file

# Enough ids to find the nearest one to a name that is mistyped.
_MOST_NAMES = 10_000
_encode = msgspec.json.Encoder(order="deterministic").encode


class CaseSelection(NamedTuple):
    """Which cases run: any of the tags is enough, an excluded one always wins, ids narrow further. Case matters."""

    include_tags: frozenset[str] = frozenset()
    exclude_tags: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, include_tags: Iterable[str] = (), exclude_tags: Iterable[str] = (), ids: Iterable[str | int] = ()
    ) -> CaseSelection:
        """Build a selection from any lists; ids are compared as text."""
        return cls(frozenset(include_tags), frozenset(exclude_tags), frozenset(map(str, ids)))

    def has_tags(self, tags: Iterable[str]) -> bool:
        """Whether a case with these tags is selected, its id aside."""
        if not self.exclude_tags.isdisjoint(tags):
            return False
        return not self.include_tags or not self.include_tags.isdisjoint(tags)

    def expand(self, case: TestCase) -> list[TestCase]:
        """Return the selected expansions of a case; the id as written selects all of them."""
        if not self.has_tags(case.tags):
            return []
        if self.ids and case.key not in self.ids and self.ids.isdisjoint(case.expanded_keys()):
            return []
        return [one for one in case.expand() if not self.ids or not self.ids.isdisjoint((case.key, one.key))]

    def __str__(self) -> str:
        """The options that make this selection."""
        options = {
            "--include-tags": self.include_tags,
            "--exclude-tags": self.exclude_tags,
            "--ids": self.ids,
        }
        return " ".join(f"{flag} {','.join(sorted(names))}" for flag, names in options.items() if names)


ALL_TESTS = CaseSelection()


@dataclass(slots=True)
class CaseGroup:
    """Cases that run together, dependencies first; mostly one. `brought` are ids that nobody selected."""

    index: int
    set: str
    key: str
    cases: list[TestCase]
    brought: list[str] = field(default_factory=list)
    _places: dict[str, list[int]] = field(default_factory=dict, compare=False, repr=False)

    def waits_for(self, case: TestCase) -> list[str]:
        """Return the ids of the cases in this group that must have passed before this one."""
        names = case.depends_on
        if names and not self._places:
            for place, other in enumerate(self.cases):
                for name in {other.key, other.origin}:
                    self._places.setdefault(name, []).append(place)
        places = {place for name in names for place in self._places.get(name, ())}
        return [self.cases[place].key for place in sorted(places)]


class LoadedTests(NamedTuple):
    """The tests of a run. `sets` has the number of groups of each file, by its set's name.

    `asked` and `gold` are fingerprints: of what the tests ask (ids, inputs, conditions, order), and of what
    they expect. An edited expectation asks nothing again.
    """

    groups: list[CaseGroup]
    asked: str
    gold: str
    sets: dict[str, int]
    notes: list[Problem]

    @property
    def tests(self) -> int:
        """How many cases all groups have."""
        return sum(len(group.cases) for group in self.groups)


class Testsets:
    """Files, patterns and folders of testsets, for a pipeline with these input names and steps.

    `limit` keeps the first groups of each set; below 1 it is a share of them, rounded up. `check` looks at
    each selected case.
    """

    __test__ = False  # pytest collects classes of this name

    def __init__(
        self,
        names: list[str],
        selection: CaseSelection = ALL_TESTS,
        declared: frozenset[str] = frozenset(),
        steps: frozenset[str] | None = None,
        limit: float | None = None,
        check: CaseCheck | None = None,
    ) -> None:
        self.files = set_names(find_files(names))
        self._selection, self._declared, self._steps = selection, declared, steps
        self._limit, self._check = limit, check
        self._loaded: LoadedTests | None = None

    def load(self) -> LoadedTests:
        """Read and check all files, once. Raises InputError with the errors of all of them."""
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    def _load(self) -> LoadedTests:
        groups: list[CaseGroup] = []
        sets: dict[str, int] = {}
        problems: list[Problem] = []
        files: list[ScannedFile] = []
        gold = hashlib.sha256()
        for name, path in self.files.items():
            own: list[Problem] = []
            file = scan_file(path, own, self._declared, self._steps)
            # A wrong file has no order of dependencies. Its selected cases are still checked.
            wrong = any(problem.level == "error" for problem in own)
            selected: dict[int, list[TestCase]] = {}
            for place, record in enumerate(file.records):
                cases = self._selection.expand(record.case) if record.case is not None else []
                if cases:
                    selected[place] = cases
            chains = [] if wrong else file.dependencies.chains(set(selected))
            places = set(selected).union(*(chain.brought for chain in chains))
            for place in sorted(places):
                record = file.records[place]
                assert record.case is not None
                if self._check is not None:
                    self._check(record.case, record.record, own)
                gold.update(_encode(record.case.expectations()))
            problems += in_file_order(path, own)
            files.append(file)
            if not wrong:
                of_set = list(_groups(file, name, len(groups), selected, chains))
                sets[name] = apply_limit(self._limit, len(of_set))
                groups += of_set[: sets[name]]
        errors = [problem for problem in problems if problem.level == "error"]
        if errors:
            raise InputError(errors)
        self._refuse_nothing(files, groups)
        notes = [problem for problem in problems if problem.level != "error"]
        return LoadedTests(groups, _fingerprint(groups), gold.hexdigest(), sets, notes)

    def _refuse_nothing(self, files: list[ScannedFile], groups: list[CaseGroup]) -> None:
        """An id that no file has, or a selection that leaves nothing, is a mistake."""
        ids = [key for file in files for record in file.records for key in record.ids]
        missing = sorted(self._selection.ids.difference(ids)) if self._selection.ids else []
        if missing:
            raise UsageError("\n".join(unknown("case", name, ids[:_MOST_NAMES]) for name in missing))
        if not groups:
            raise UsageError(f"no test case is left by the selection: {self._selection}")


def group_key(cases: list[TestCase]) -> str:
    """Return a group's key, made of what is asked in it; expectations and tags do not count."""
    return row_key(_encode([[case.id, case.inputs, case.step_inputs, case.batch_items] for case in cases]))


def _groups(
    file: ScannedFile,
    name: str,
    index: int,
    selected: dict[int, list[TestCase]],
    chains: list[DependencyChain],
) -> Iterator[CaseGroup]:
    """Yield the groups of a file in its order. A chain stands at the place of its first case."""
    by_first = {min(chain.members): chain for chain in chains}
    in_chain = {place for chain in chains for place in chain.members}
    for place in range(len(file.records)):
        if place in by_first:
            cases: list[TestCase] = []
            brought: list[str] = []
            for member in by_first[place].members:
                if member in selected:
                    cases += selected[member]
                    continue
                other = file.records[member].case
                assert other is not None
                expanded = list(other.expand())
                cases += expanded
                brought += [case.key for case in expanded]
            yield CaseGroup(index, name, group_key(cases), cases, brought)
            index += 1
        elif place not in in_chain:
            for case in selected.get(place, ()):
                yield CaseGroup(index, name, group_key([case]), [case])
                index += 1


def _fingerprint(groups: list[CaseGroup]) -> str:
    """Return the fingerprint of what the tests ask."""
    asked = hashlib.sha256()
    for group in groups:
        asked.update(group.key.encode())
        for case in group.cases:
            if case.conditions or case.depends_on:
                # Only a condition can look at tags, so other cases may be tagged without asking again.
                tags = case.tags if case.conditions else None
                asked.update(_encode([group.waits_for(case), case.conditions, tags]))
    return asked.hexdigest()


def find_files(names: list[str]) -> list[Path]:
    """Return the files that are named, by path, pattern or folder (all `*.jsonl` below it), each once."""
    files: dict[Path, Path] = {}
    for name in names:
        path = Path(name)
        if not name:
            raise UsageError("the name of a testset is empty")
        if path.is_dir():
            matches = sorted(file for file in path.rglob("*.jsonl") if file.is_file())
            if not matches:
                raise UsageError(f"there is no .jsonl file below {name!r}")
        elif path.exists():
            matches = [path]
        else:
            matches = [Path(match) for match in sorted(glob.glob(name, recursive=True))]  # noqa: PTH207
            matches = [match for match in matches if match.is_file()]
            if not matches:
                raise UsageError(f"there is no testset {name!r}; name a .jsonl file, a pattern or a folder")
        for match in matches:
            files.setdefault(match.resolve(), match)
    if not files:
        raise UsageError("no testset is named")
    return list(files.values())


def set_names(files: list[Path]) -> dict[str, Path]:
    """Name each file by its stem; where stems clash, by its path below the folder that is common to all.

    Files that differ in nothing but their ending keep it.
    """
    folders = [path.parent.resolve() for path in files]
    common = Path(os.path.commonpath(folders))
    paths = [(folder / file.name).relative_to(common) for file, folder in zip(files, folders, strict=True)]
    stems = Counter(path.stem for path in paths)
    without_ending = Counter(path.with_suffix("") for path in paths)
    names: list[str] = []
    for path in paths:
        if stems[path.stem] == 1:
            names.append(path.stem)
        elif without_ending[path.with_suffix("")] > 1:
            names.append(str(path))
        else:
            names.append(str(path.with_suffix("")))
    if len(set(names)) < len(names):  # a stem may look like another one's path
        names = list(map(str, paths))
    return dict(zip(names, files, strict=True))
