"""`TestsetLoader`: testset files for Python code, with the names that users of the format know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from assay.core.errors import InputError, Problem
from assay.suites.pipeline.testset.case import TestCase
from assay.suites.pipeline.testset.findings import Findings
from assay.suites.pipeline.testset.looking import Digests, FileLook, Frame
from assay.suites.pipeline.testset.reading import id_list
from assay.suites.pipeline.testset.selection import Selection
from assay.suites.pipeline.testset.stream import raise_first, records
from assay.suites.pipeline.testset.ties import Graph, Ids, Tie
from assay.suites.pipeline.testset.validation import faults_of, json_path

_NONE: frozenset[str] = frozenset()


class TestsetLoader:
    """Reads testsets whole or as a stream. Cases come as written: parameters are not filled in."""

    __test__ = False  # pytest collects classes of this name

    @staticmethod
    def load_testset(path: str | Path, declared: frozenset[str] = _NONE) -> list[TestCase]:
        """All cases of a file. Raises InputError with every error in it; a file without a case is one."""
        return list(checked(Path(path), declared))

    @staticmethod
    def iterate(path: str | Path, declared: frozenset[str] = _NONE) -> Iterator[TestCase]:
        """The cases one by one, each checked alone; the first error raises."""
        for record in records(Path(path), raise_first):
            where = f"{path}:{record.line}"
            errors = [fault for fault in faults_of(record.value, declared) if fault.level == "error"]
            if errors:
                raise InputError(
                    [Problem(f"{where} {json_path(fault.path)}", fault.message) for fault in errors]
                )
            yield TestCase.of(record.value, where, declared)

    @staticmethod
    def validate_testset(cases: Iterable[TestCase]) -> list[str]:
        """The errors of cases that are in memory, as sentences; empty if they can be used."""
        found: list[str] = []
        ids, ties, names, first = Ids(), list[Tie](), list[str](), dict[str, int]()
        for at, case in enumerate(cases):
            record = case.to_dict()
            name = case.where or f"case {at + 1}"
            errors = (fault for fault in faults_of(record) if fault.level == "error")
            found += [f"{name} {json_path(fault.path)}: {fault.message}" for fault in errors]
            if (before := first.setdefault(case.key, at)) != at:
                found.append(f"{name} $.id: the id {case.key!r} stands in case {before + 1} already")
            names.append(case.key)
            ids.add(case.key)
            ties += [Tie(at, target) for target in id_list(record.get("depends_on"))]
        return found + _tie_errors(Graph(ties, ids), names)

    @staticmethod
    def filter_by_tags(
        cases: Iterable[TestCase], include_tags: Iterable[str] = (), exclude_tags: Iterable[str] = ()
    ) -> list[TestCase]:
        """Cases with any of the included and none of the excluded tags; without included ones, all others."""
        selection = Selection.of(include_tags or (), exclude_tags or ())
        return [case for case in cases if selection.has_tags(case.tags)]


def checked(path: Path, declared: frozenset[str] = _NONE) -> Iterator[TestCase]:
    """The cases of a file as a stream, once the whole file is known to be without errors."""
    findings = Findings()
    FileLook(path, Frame(declared=declared), findings, Digests())
    findings.refuse()
    return TestsetLoader.iterate(path, declared)


def _tie_errors(graph: Graph, names: list[str]) -> list[str]:
    found = [f"{names[at]} $.depends_on: there is no case {target!r}" for at, target in graph.missing]
    for cycle in graph.cycles():
        ids = " → ".join(names[at] for at in [*cycle, cycle[0]])
        found.append(f"these cases wait for each other: {ids}")
    return found
