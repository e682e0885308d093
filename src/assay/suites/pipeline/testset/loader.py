"""`TestsetLoader` reads testset files in Python code, with the class and method names of Prompt Lab.

    from assay.suites.pipeline import filter_by_tags, load_testset

    cases = load_testset("testsets/reviews_basic_v1.jsonl")
    smoke = filter_by_tags(cases, include_tags=["smoke"])

`convert_testset` and `write_v2` write testsets in the v2 format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from assay.core.errors import InputError, InvalidTestset, MissingTestset, Problem, UsageError
from assay.files.json_objects import read_objects
from assay.files.schema import refuse
from assay.suites.pipeline.testset.case import TestCase
from assay.suites.pipeline.testset.dependencies import Dependencies
from assay.suites.pipeline.testset.scan import in_file_order, scan_file, with_line_as_id
from assay.suites.pipeline.testset.testsets import CaseSelection
from assay.suites.pipeline.testset.validation import MemoryRecord, check_record

_encode = msgspec.json.Encoder().encode


class BatchData(TypedDict):
    """The batches of a testset, as `TestsetLoader.organize_batch_data` returns them."""

    total_test_cases: int
    total_batch_items: int
    average_batch_size: float
    test_cases: list[TestCase]


class PipelineStructure(TypedDict):
    """The steps that a testset names, as `TestsetLoader.get_pipeline_structure` returns them."""

    total_steps: int
    all_step_ids: list[str]
    steps_with_inputs: list[str]
    steps_with_expectations: list[str]
    has_batch_processing: bool
    has_intermediate_evaluation: bool


class TestsetLoader:
    """Reads testsets, and selects and groups their cases. The methods are those of Prompt Lab's class.

    A case with `parameters` is returned once; `TestCase.expand` yields its combinations.
    """

    __test__ = False  # pytest would collect a class whose name starts with Test

    @staticmethod
    def load_testset(file_path: str | Path, declared: frozenset[str] = frozenset()) -> list[TestCase]:
        """Return all cases of a file. `declared` are the names of the pipeline's inputs, see `TestCase.from_dict`.

        Raises MissingTestset (a FileNotFoundError) if there is no such file, and InvalidTestset (a ValueError) with
        every error of the file. An empty file is an error.
        """
        path = _existing(file_path)
        problems: list[Problem] = []
        file = scan_file(path, problems, declared)
        _refuse(in_file_order(path, problems), path)
        return [record.case for record in file.records if record.case is not None]

    @staticmethod
    def load_testset_dict(file_path: str | Path) -> list[dict[str, Any]]:
        """Return all cases of a file as v2 records. Raises what `load_testset` raises."""
        return [case.to_dict() for case in TestsetLoader.load_testset(file_path)]

    @staticmethod
    def iterate(path: str | Path, declared: frozenset[str] = frozenset()) -> Iterator[TestCase]:
        """Yield the cases one by one. Raises at the first error. Ids and dependencies are not checked."""
        path = _existing(path)
        problems: list[Problem] = []
        for raw_record in read_objects(path, problems):
            record = with_line_as_id(raw_record, path)
            check_record(record.value, declared, record, problems)
            _refuse(problems, path)
            yield TestCase.of(record.value, record.where(), declared)
        _refuse(problems, path)

    @staticmethod
    def validate_testset(test_cases: Iterable[TestCase]) -> list[str]:
        """Return the errors of a list of cases as sentences; an empty list if there are none."""
        problems: list[Problem] = []
        keys: list[str] = []
        needs: list[list[str]] = []
        first: dict[str, int] = {}
        for number, case in enumerate(test_cases, 1):
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
        test_cases: Iterable[TestCase],
        include_tags: Iterable[str] | str | None = None,
        exclude_tags: Iterable[str] | str | None = None,
    ) -> list[TestCase]:
        """Return the cases with at least one of the included tags and none of the excluded tags.

        A text is one tag: `include_tags="critical"`.
        """
        include, exclude = ([tags] if isinstance(tags, str) else tags or () for tags in (include_tags, exclude_tags))
        selection = CaseSelection.of(include, exclude)
        return [case for case in test_cases if selection.has_tags(case.tags)]

    @staticmethod
    def get_batch_test_cases(test_cases: Iterable[TestCase]) -> list[TestCase]:
        """Return the cases with batch items."""
        return [case for case in test_cases if case.get_batch_size()]

    @staticmethod
    def get_step_input_test_cases(test_cases: Iterable[TestCase]) -> list[TestCase]:
        """Return the cases with values for single steps."""
        return [case for case in test_cases if case.has_step_inputs()]

    @staticmethod
    def get_intermediate_evaluation_test_cases(test_cases: Iterable[TestCase]) -> list[TestCase]:
        """Return the cases with expected outputs of single steps, whether or not `evaluate_intermediate` is set."""
        return [case for case in test_cases if case.has_intermediate_expectations()]

    @staticmethod
    def extract_step_data(test_case: TestCase, step_id: str) -> dict[str, Any]:
        """Return `inputs` and `expected` of one step. A key is missing if the case has no such value."""
        parts = {"inputs": test_case.step_inputs, "expected": test_case.intermediate_expectations}
        return {key: by_step[step_id] for key, by_step in parts.items() if step_id in by_step}

    @staticmethod
    def organize_batch_data(test_cases: Iterable[TestCase]) -> BatchData:
        """Return the cases with batch items, their number, and the number of items in total and on average."""
        cases = TestsetLoader.get_batch_test_cases(test_cases)
        items = sum(case.get_batch_size() for case in cases)
        average = items / len(cases) if cases else 0
        return BatchData(
            total_test_cases=len(cases), total_batch_items=items, average_batch_size=average, test_cases=cases
        )

    @staticmethod
    def get_pipeline_structure(test_cases: Iterable[TestCase]) -> PipelineStructure:
        """Return the steps that the cases name, and whether the cases have batches and expected outputs of steps."""
        cases = list(test_cases)
        with_inputs = {step for case in cases for step in case.step_inputs}
        with_expectations = {step for case in cases for step in case.intermediate_expectations}
        steps = with_inputs | with_expectations
        return PipelineStructure(
            total_steps=len(steps),
            all_step_ids=sorted(steps),
            steps_with_inputs=sorted(with_inputs),
            steps_with_expectations=sorted(with_expectations),
            has_batch_processing=any(case.get_batch_size() for case in cases),
            has_intermediate_evaluation=bool(with_expectations),
        )

    @staticmethod
    def group_by_pipeline_features(test_cases: Iterable[TestCase]) -> dict[str, list[TestCase]]:
        """Return the cases by feature. A case with several features is in several groups.

        `complex` are the cases with all three features, `simple` those with none.
        """
        groups: dict[str, list[TestCase]] = {
            "simple": [],
            "multi_step": [],
            "batch_processing": [],
            "intermediate_evaluation": [],
            "complex": [],
        }
        for case in test_cases:
            features = {
                "multi_step": case.has_step_inputs(),
                "batch_processing": bool(case.get_batch_size()),
                "intermediate_evaluation": case.has_intermediate_expectations(),
            }
            features |= {"simple": not any(features.values()), "complex": all(features.values())}
            for name, applies in features.items():
                if applies:
                    groups[name].append(case)
        return groups


load_testset = TestsetLoader.load_testset
load_testset_dict = TestsetLoader.load_testset_dict
validate_testset = TestsetLoader.validate_testset
filter_by_tags = TestsetLoader.filter_by_tags


def _existing(path: str | Path) -> Path:
    if not Path(path).exists():
        raise MissingTestset(Problem(str(path), "there is no such file"))
    return Path(path)


def _refuse(problems: list[Problem], path: Path) -> None:
    """Raise InvalidTestset with all errors among the problems, if there are any."""
    try:
        refuse(problems, path)
    except InputError as error:
        raise InvalidTestset(error.problems) from None


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
