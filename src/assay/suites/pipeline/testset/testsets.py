"""Loads the tests of a run: reads the testset files, selects cases by tags and ids, and groups them.

    testsets = Testsets(["testsets/"], CaseSelection.of(include_tags=["smoke"]))
    for group in testsets.load().groups:
        run(group.cases)

A group is usually one case. Cases that depend on each other are one group, with dependencies first.
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

from assay.core.errors import InputError, Problem, UsageError, similar_file, unknown
from assay.core.row_keys import row_key
from assay.core.spec import apply_limit
from assay.suites.pipeline.testset.case import TestCase
from assay.suites.pipeline.testset.dependencies import DependencyChain
from assay.suites.pipeline.testset.scan import CaseCheck, ScannedFile, in_file_order, scan_file

# An unknown id is compared with at most this many ids to suggest a similar one; more would take too long.
_MOST_NAMES = 10_000
_encode = msgspec.json.Encoder(order="deterministic").encode


class CaseSelection(NamedTuple):
    """Selects cases: with at least one of `include_tags`, none of `exclude_tags`, and one of `ids`.

    An empty set selects all. Tags are compared exactly, including upper and lower case.
    """

    include_tags: frozenset[str] = frozenset()
    exclude_tags: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, include_tags: Iterable[str] = (), exclude_tags: Iterable[str] = (), ids: Iterable[str | int] = ()
    ) -> CaseSelection:
        """Build a selection from lists. Ids are compared as text."""
        return cls(frozenset(include_tags), frozenset(exclude_tags), frozenset(map(str, ids)))

    def has_tags(self, tags: Iterable[str]) -> bool:
        """Return whether a case with these tags is selected, whatever its id."""
        if not self.exclude_tags.isdisjoint(tags):
            return False
        return not self.include_tags or not self.include_tags.isdisjoint(tags)

    def expand(self, case: TestCase) -> list[TestCase]:
        """Return the selected parameter combinations of a case. The id in the file selects all of them."""
        if not self.has_tags(case.tags):
            return []
        if self.ids and case.key not in self.ids and self.ids.isdisjoint(case.expanded_keys()):
            return []
        return [
            expanded for expanded in case.expand() if not self.ids or not self.ids.isdisjoint((case.key, expanded.key))
        ]

    def __str__(self) -> str:
        """The command-line options for this selection, for messages."""
        options = {
            "--include-tags": self.include_tags,
            "--exclude-tags": self.exclude_tags,
            "--ids": self.ids,
        }
        return " ".join(f"{flag} {','.join(sorted(names))}" for flag, names in options.items() if names)


ALL_TESTS = CaseSelection()


@dataclass(slots=True)
class CaseGroup:
    """Cases that run together, dependencies first. Usually it is one case.

    `unselected` are the ids of cases that run only because selected ones depend on them.
    """

    index: int
    set: str
    key: str
    cases: list[TestCase]
    unselected: list[str] = field(default_factory=list)
    _positions: dict[str, list[int]] = field(default_factory=dict, compare=False, repr=False)

    def waits_for(self, case: TestCase) -> list[str]:
        """Return the ids of the cases in this group that must pass before this one.

        A dependency on a case with parameters is a dependency on all its combinations.
        """
        names = case.depends_on
        if names and not self._positions:
            for position, other in enumerate(self.cases):
                for name in {other.key, other.origin}:
                    self._positions.setdefault(name, []).append(position)
        positions = {position for name in names for position in self._positions.get(name, ())}
        return [self.cases[position].key for position in sorted(positions)]


class LoadedTests(NamedTuple):
    """The tests of a run. `sets` has the number of groups of each testset, by name.

    `inputs_fingerprint` covers everything that affects requests: ids, inputs, conditions, order.
    `gold_fingerprint` covers the expectations. They are separate, because a changed expectation sends no
    request again.
    """

    groups: list[CaseGroup]
    inputs_fingerprint: str
    gold_fingerprint: str
    sets: dict[str, int]
    notes: list[Problem]

    @property
    def tests(self) -> int:
        """The number of cases in all groups."""
        return sum(len(group.cases) for group in self.groups)


class Testsets:
    """Testset files for one pipeline. `names` are files, patterns and folders.

    `declared` and `steps` are the names of the pipeline's inputs and steps. `limit` keeps the first groups of
    each testset; below 1 it is a share of them, rounded up. `check` is called for each selected case.
    """

    __test__ = False  # pytest would collect a class whose name starts with Test

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
        """Read and check all files on the first call. Raises InputError with the errors of all files."""
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
            file_problems: list[Problem] = []
            file = scan_file(path, file_problems, self._declared, self._steps)
            # Dependencies of a file with errors may have cycles, so they are not sorted. Its selected cases are
            # still checked, to report all problems at once.
            has_errors = any(problem.level == "error" for problem in file_problems)
            selected: dict[int, list[TestCase]] = {}
            for position, record in enumerate(file.records):
                cases = self._selection.expand(record.case) if record.case is not None else []
                if cases:
                    selected[position] = cases
            chains = [] if has_errors else file.dependencies.chains(set(selected))
            positions = set(selected).union(*(chain.unselected for chain in chains))
            for position in sorted(positions):
                record = file.records[position]
                assert record.case is not None
                if self._check is not None:
                    self._check(record.case, record.record, file_problems)
                gold.update(_encode(record.case.expectations()))
            problems += in_file_order(path, file_problems)
            files.append(file)
            if not has_errors:
                set_groups = list(_groups(file, name, len(groups), selected, chains))
                sets[name] = apply_limit(self._limit, len(set_groups))
                groups += set_groups[: sets[name]]
        errors = [problem for problem in problems if problem.level == "error"]
        if errors:
            raise InputError(errors)
        self._check_selection(files, groups)
        notes = [problem for problem in problems if problem.level != "error"]
        return LoadedTests(groups, _fingerprint(groups), gold.hexdigest(), sets, notes)

    def _check_selection(self, files: list[ScannedFile], groups: list[CaseGroup]) -> None:
        """Raise UsageError for an unknown id, and if the selection has no test."""
        ids = [key for file in files for record in file.records for key in record.ids]
        missing = sorted(self._selection.ids.difference(ids)) if self._selection.ids else []
        if missing:
            raise UsageError("\n".join(unknown("case", name, ids[:_MOST_NAMES]) for name in missing))
        if not groups:
            raise UsageError(f"no test case matches the selection: {self._selection}")


def group_key(cases: list[TestCase]) -> str:
    """Return a group's key. It covers the inputs of its cases, but not their expectations and tags."""
    return row_key(_encode([[case.id, case.inputs, case.step_inputs, case.batch_items] for case in cases]))


def _groups(
    file: ScannedFile,
    name: str,
    index: int,
    selected: dict[int, list[TestCase]],
    chains: list[DependencyChain],
) -> Iterator[CaseGroup]:
    """Yield the groups of a file in file order. A chain has the position of its first case."""
    by_first = {min(chain.members): chain for chain in chains}
    in_chain = {position for chain in chains for position in chain.members}
    for position in range(len(file.records)):
        if position in by_first:
            cases: list[TestCase] = []
            unselected: list[str] = []
            for member in by_first[position].members:
                if member in selected:
                    cases += selected[member]
                    continue
                other = file.records[member].case
                assert other is not None
                expanded = list(other.expand())
                cases += expanded
                unselected += [case.key for case in expanded]
            yield CaseGroup(index, name, group_key(cases), cases, unselected)
            index += 1
        elif position not in in_chain:
            for case in selected.get(position, ()):
                yield CaseGroup(index, name, group_key([case]), [case])
                index += 1


def _fingerprint(groups: list[CaseGroup]) -> str:
    """Return the fingerprint of everything that affects requests."""
    digest = hashlib.sha256()
    for group in groups:
        digest.update(group.key.encode())
        for case in group.cases:
            if case.conditions or case.depends_on:
                # Only a condition can read tags. Changing the tags of other cases does not start a new run.
                tags = case.tags if case.conditions else None
                digest.update(_encode([group.waits_for(case), case.conditions, tags]))
    return digest.hexdigest()


def find_files(names: list[str]) -> list[Path]:
    """Return the files for paths, patterns and folders, each once. A folder means all `*.jsonl` below it."""
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
                raise UsageError(
                    f"there is no testset {name!r}; pass a .jsonl file, a pattern or a folder{similar_file(path)}"
                )
        for match in matches:
            files.setdefault(match.resolve(), match)
    if not files:
        raise UsageError("no testset given; pass --testset")
    return list(files.values())


def set_names(files: list[Path]) -> dict[str, Path]:
    """Return the files by testset name, which is the file's stem.

    Files with the same stem are named by their path below the common folder, with the extension if needed.
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
    # A stem may equal the path of another file. Then all names are full relative paths.
    if len(set(names)) < len(names):
        names = list(map(str, paths))
    return dict(zip(names, files, strict=True))
