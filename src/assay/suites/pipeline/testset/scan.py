"""Reads one testset file and checks it: every record, duplicate ids, dependencies.

    problems: list[Problem] = []
    file = scan_file(Path("tests.jsonl"), problems)

`assay check` prints all problems. A run stops if one of them is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from assay.core.errors import InputError, Problem
from assay.files.json_objects import REPEATED_KEY, FileObject, first_object, read_objects, repeated_keys
from assay.files.schema import ValueSource, shorten
from assay.suites.pipeline.testset.case import TestCase, id_list
from assay.suites.pipeline.testset.dependencies import Dependencies
from assay.suites.pipeline.testset.validation import (
    V2_KEYS,
    check_record,
    check_steps,
    has_hop_tag,
    inputs_beside,
    is_v2,
)

_AGENTS = "agents"


CaseCheck = Callable[[TestCase, ValueSource, list[Problem]], None]
"""A further check of a case whose types are right. It appends problems to the list."""


class ScannedRecord(NamedTuple):
    """A record with an id. `case` is None if the record has errors.

    Its ids and dependencies count even then, so that one error does not cause others, such as a missing id.
    """

    record: FileObject
    ids: list[str]
    needs: list[str]
    case: TestCase | None


class ScannedFile(NamedTuple):
    """The records of one file in order, and their dependency graph."""

    path: Path
    records: list[ScannedRecord]
    dependencies: Dependencies


def scan_file(
    path: Path,
    problems: list[Problem],
    declared: frozenset[str] = frozenset(),
    steps: frozenset[str] | None = None,
) -> ScannedFile:
    """Read and check a file. Problems are appended to the list.

    `declared` and `steps` are the names of the pipeline's inputs and steps, if the pipeline is known.
    """
    records: list[ScannedRecord] = []
    without_id: list[FileObject] = []
    count = 0
    problems_before = len(problems)
    try:
        for raw_record in read_objects(path, problems):
            count += 1
            record = with_line_as_id(raw_record, path)
            if record is not raw_record:
                without_id.append(record)
            try:
                checked = _check(record, declared, steps, problems)
            except RecursionError:
                problems.append(record.problem((), "nested too deeply"))
                continue
            if checked is not None:
                records.append(checked)
    except InputError as error:
        problems += error.problems
    if without_id:
        # One warning for the file: in a testset without ids every line would have one.
        further = f", here and in {len(without_id) - 1:,} more" if len(without_id) > 1 else ""
        message = f"the id is missing{further}; the line number is used. With ids, runs stay comparable"
        problems.append(without_id[0].problem((), message, "warning"))
    if not count and len(problems) == problems_before:
        problems.append(Problem(str(path), "there is no test case in this file"))
    if "_" not in path.stem or any(character.isspace() for character in path.name):
        example = "_".join(path.stem.split()) + "_basic_v1.jsonl"
        message = f"unusual file name; the convention is <feature>_<type>_<version>.jsonl, such as {example}"
        problems.append(Problem(str(path), message, "advice"))
    _check_ids(records, problems)
    dependencies = Dependencies([record.ids for record in records], [record.needs for record in records])
    _check_dependencies(dependencies, records, problems)
    return ScannedFile(path, records, dependencies)


def with_line_as_id(record: FileObject, path: Path) -> FileObject:
    """Return a v1 record without an id with its line number as the id, if the file is a testset of an agent.

    Prompt Lab's agents have such testsets, `agents/NAME/testsets/*.jsonl`. Other records are returned as they are: the
    format of pipelines requires an id.
    """
    if "id" in record.value or is_v2(record.value) or not record.line:
        return record
    if _AGENTS not in (folder.name for folder in path.resolve().parents[2:3]):
        return record
    return record._replace(value={"id": record.line, **record.value})


def check_testset(
    path: Path,
    steps: frozenset[str] | None = None,
    declared: frozenset[str] = frozenset(),
    check: CaseCheck | None = None,
) -> list[Problem]:
    """Return the errors, warnings and advice for a file, in the order of its lines."""
    problems: list[Problem] = []
    file = scan_file(path, problems, declared, steps)
    for record in file.records:
        if check is not None and record.case is not None:
            check(record.case, record.record, problems)
    return in_file_order(path, problems)


def in_file_order(path: Path, problems: list[Problem]) -> list[Problem]:
    """Sort the problems of one file by line, and cut the list if it is very long."""

    def line(problem: Problem) -> int:
        number = problem.where.removeprefix(f"{path}:").partition(" ")[0]
        return int(number) if number.isdigit() else 0

    return shorten(sorted(problems, key=line), path)


def is_testset(path: Path) -> bool:
    """Return whether a file is a testset: it is in a folder `testsets`, or its first record has keys of the format.

    Many data sets have a key `inputs`, so this key counts only with an id or tags. A record with
    `expected_output` is a testset's, unless it has a `tag`: then it is a row of a HOP file.
    """
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    if "testsets" in path.resolve().parent.parts:
        return True
    first = first_object(path)
    if first is None:
        return False
    keys = first.value.keys()
    if "expected_output" in keys and not has_hop_tag(first.value, frozenset()):
        return True
    if keys & (V2_KEYS - {"inputs"}):
        return True
    return "inputs" in keys and bool(keys & {"id", "tags"})


def _check(
    record: FileObject, declared: frozenset[str], steps: frozenset[str] | None, problems: list[Problem]
) -> ScannedRecord | None:
    """Check one record on its own. Returns None if the record has no usable id."""
    value = record.value
    record_problems: list[Problem] = []
    check_record(value, declared, record, record_problems)
    if steps is not None:
        check_steps(value, steps, record, record_problems)
    record_problems += [
        record.problem(path, REPEATED_KEY, "warning") for path in repeated_keys(record.raw, record.value)
    ]
    problems += record_problems
    key = value.get("id")
    if isinstance(key, bool) or not isinstance(key, (str, int)) or not str(key).strip():
        return None
    errors = [problem for problem in record_problems if problem.level == "error"]
    needs: list[str] = []
    # Dependencies of a record with other errors are read too, so that cycles and missing ids are still found.
    if "depends_on" in value and "depends_on" not in inputs_beside(value, declared):
        place = record.where(("depends_on",))
        if not any(problem.where.startswith(place) for problem in errors):
            needs = id_list(value["depends_on"])
    if errors:
        return ScannedRecord(record, [str(key)], needs, None)
    case = TestCase.of(value, record.where(), declared)
    ids = [case.key]
    if case.parameters:
        ids += case.expanded_keys()
    return ScannedRecord(record, ids, needs, case)


def _check_ids(records: list[ScannedRecord], problems: list[Problem]) -> None:
    first: dict[str, int] = {}
    for record, ids, _, _ in records:
        for key in ids:
            if key not in first:
                first[key] = record.line
                continue
            line = f"line {first[key]}" if first[key] != record.line else "the same line"
            problems.append(record.problem(("id",), f"duplicate id {key!r}, first used on {line}"))


def _check_dependencies(dependencies: Dependencies, records: list[ScannedRecord], problems: list[Problem]) -> None:
    for place, target in dependencies.missing:
        message = f"there is no case {target!r} in this file"
        problems.append(records[place].record.problem(("depends_on",), message))
    for cycle in dependencies.cycles():
        names = " → ".join(records[place].ids[0] for place in [*cycle, cycle[0]])
        message = f"these cases wait for each other: {names}"
        problems.append(records[cycle[0]].record.problem(("depends_on",), message))
