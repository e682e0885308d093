"""`TestsetLoader` reads testset files in Python code, with the class and method names of Prompt Lab.

    from assay.suites.pipeline import TestsetLoader

    cases = TestsetLoader.load_testset("testsets/reviews_basic_v1.jsonl")
    smoke = TestsetLoader.filter_by_tags(cases, include_tags=["smoke"])

`convert_testset` and `write_v2` write testsets in the v2 format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from assay.core.errors import Problem, UsageError
from assay.core.records import read_records
from assay.core.schema import refuse
from assay.suites.pipeline.testset.case import TestCase
from assay.suites.pipeline.testset.dependencies import Dependencies
from assay.suites.pipeline.testset.scan import in_file_order, scan_file
from assay.suites.pipeline.testset.testsets import CaseSelection
from assay.suites.pipeline.testset.validation import MemoryRecord, check_record

_encode = msgspec.json.Encoder().encode


class TestsetLoader:
    """Reads testsets. A case with `parameters` is returned once; `TestCase.expand` yields its combinations."""

    __test__ = False  # pytest would collect a class whose name starts with Test

    @staticmethod
    def load_testset(path: str | Path, declared: frozenset[str] = frozenset()) -> list[TestCase]:
        """Return all cases of a file. Raises InputError with every error; an empty file is an error.

        `declared` are the names of the pipeline's inputs, see `TestCase.from_dict`.
        """
        path = Path(path)
        problems: list[Problem] = []
        file = scan_file(path, problems, declared)
        refuse(in_file_order(path, problems), path)
        return [record.case for record in file.records if record.case is not None]

    @staticmethod
    def iterate(path: str | Path, declared: frozenset[str] = frozenset()) -> Iterator[TestCase]:
        """Yield the cases one by one. Raises InputError at the first error. Ids and dependencies are not checked."""
        problems: list[Problem] = []
        for record in read_records(Path(path), problems):
            check_record(record.value, declared, record, problems)
            refuse(problems, Path(path))
            yield TestCase.of(record.value, record.where(), declared)
        refuse(problems, Path(path))

    @staticmethod
    def validate_testset(cases: Iterable[TestCase]) -> list[str]:
        """Return the errors of a list of cases as sentences; an empty list if there are none."""
        problems: list[Problem] = []
        keys: list[str] = []
        needs: list[list[str]] = []
        first: dict[str, int] = {}
        for number, case in enumerate(cases, 1):
            source = MemoryRecord(case.where or f"case {number}")
            check_record(case.to_dict(), frozenset(), source, problems)
            if case.key in first:
                message = f"duplicate id {case.key!r}, first used in case {first[case.key]}"
                problems.append(source.problem(("id",), message))
            first.setdefault(case.key, number)
            keys.append(case.key)
            needs.append(case.depends_on)
        dependencies = Dependencies([[key] for key in keys], needs)
        for place, target in dependencies.missing:
            problems.append(Problem(f"{keys[place]} $.depends_on", f"there is no case {target!r}"))
        errors = [str(problem) for problem in problems if problem.level == "error"]
        for cycle in dependencies.cycles():
            names = " → ".join(keys[place] for place in [*cycle, cycle[0]])
            errors.append(f"these cases wait for each other: {names}")
        return errors

    @staticmethod
    def filter_by_tags(
        cases: Iterable[TestCase], include_tags: Iterable[str] = (), exclude_tags: Iterable[str] = ()
    ) -> list[TestCase]:
        """Return the cases with at least one of the included tags and none of the excluded tags."""
        selection = CaseSelection.of(include_tags or (), exclude_tags or ())
        return [case for case in cases if selection.has_tags(case.tags)]


def convert_testset(path: Path, output: Path | None = None) -> bytes:
    """Write the cases of a testset to `output` in the v2 format; without `output`, return the bytes.

    Raises InputError with every error of the testset.
    """
    cases = TestsetLoader.load_testset(path)
    if output is None:
        return b"".join(map(_v2_line, cases))
    write_v2(cases, output)
    return b""


def write_v2(cases: Iterable[TestCase], path: Path) -> None:
    """Write a testset in the v2 format. Creates missing folders. Loading the file gives equal cases."""
    # Written under another name and renamed, so that an interrupted write leaves no incomplete testset.
    temporary = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.writelines(map(_v2_line, cases))
        temporary.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def _v2_line(case: TestCase) -> bytes:
    return _encode(case.to_dict()) + b"\n"
