"""Reads `results.jsonl` of a pipeline run for `assay import`: a line per test and variant.

Verdicts, checks, steps and outputs are in the file, so every number of the report is that of the run. The pipeline and
the testset are not needed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from assay.core.errors import InputError, Problem
from assay.core.imported import UNPLACED, ImportedCase, ImportedRun, ImportPlan, imported_scorer
from assay.core.report import Metric, Report
from assay.core.types import Failure, Record, Score, Usage
from assay.files.read import BY_PROGRAMS, Line, convert_json, decode_json, json_lines
from assay.files.result_lines import ResultLines
from assay.scoring.metric_builders import mean_metric
from assay.suites.pipeline.output_checks import TestOutput
from assay.suites.pipeline.pipeline_file import BASELINE
from assay.suites.pipeline.result_files import RESULT_KEYS
from assay.suites.pipeline.scorer import ERRORED, SKIPPED, verdict_score
from assay.suites.pipeline.tally import NO_ANSWER, VariantTally, build_report
from assay.suites.pipeline.testset.case import TestCase
from assay.suites.pipeline.testset.testsets import group_key

FORMAT = "pipeline"
FILE_NAME = "results.jsonl"
TESTS = "tests"
"""The kind of the first record of an imported case: its tests without results, so that the run can be exported."""
POINTS = "overall_score"
"""A metric that only runs imported from Prompt Lab have: the points of a judge."""
_SCORER = imported_scorer("pipeline")
# The reason of a test without an answer is `kind: message`.
_FAILURE = re.compile(r"(?P<kind>[a-z_]+): (?P<message>.*)", re.DOTALL)

# Also refuses NaN and infinity, which JSON of Python programs may have.
_LARGEST = 1e15
_Count = Annotated[int, Meta(ge=0)]
_Seconds = Annotated[float, Meta(ge=0, le=_LARGEST)]
_Points = Annotated[float, Meta(ge=-_LARGEST, le=_LARGEST)]


class StepFields(Struct):
    """The fields of a step that the report counts."""

    status: Literal["ok", "failed", "skipped"]
    error: str = ""
    items: _Count | None = None
    failed_items: list[Any] = field(default_factory=list)
    calls: _Count = 0
    stopped_calls: _Count = 0
    tokens: Annotated[list[_Count], Meta(min_length=2, max_length=2)] | None = None
    seconds: _Seconds = 0.0


class CheckFields(Struct):
    """The fields of a check that the report and `assay show` read."""

    path: str
    kind: str
    passed: bool | None
    of: str = ""
    step: str = ""
    why: str = ""


class FirstWrong(Struct):
    """The first step that went wrong."""

    step: str
    path: str
    why: str = ""


class ResultFields(Struct):
    """A line of the file."""

    id: int | str
    result: Literal["passed", "failed", "errored", "not_evaluated", "skipped", "invalid", "no_answer"]
    steps: dict[str, StepFields]
    checks: list[CheckFields]
    set: str = ""
    variant: str = BASELINE
    tags: list[str] = field(default_factory=list)
    reason: str = ""
    inputs: dict[str, Any] = field(default_factory=dict)
    step_inputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    batch_items: list[dict[str, Any]] | None = None
    outputs: dict[str, Any] = field(default_factory=dict)
    first_wrong: FirstWrong | None = None
    seconds: _Seconds | None = None
    depends_on: list[str] = field(default_factory=list)
    gold: str | None = None
    overall_score: _Points | None = None


class TestFields(Struct, kw_only=True):
    """The part of a line that a TESTS record keeps."""

    __test__ = False  # pytest would collect a class whose name starts with Test

    id: int | str
    tags: list[str] = field(default_factory=list)
    inputs: dict[str, Any] = field(default_factory=dict)
    step_inputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    batch_items: list[dict[str, Any]] | None = None
    depends_on: list[str] = field(default_factory=list)

    def case(self) -> TestCase:
        """Return the test, without its expectations."""
        return TestCase(self.id, self.tags, self.inputs, self.step_inputs, self.batch_items)

    @classmethod
    def of(cls, test: TestCase, depends_on: Sequence[str] = ()) -> Self:
        """Return the fields of a test."""
        return cls(
            id=test.id,
            tags=test.tags,
            inputs=test.inputs,
            step_inputs=test.step_inputs,
            batch_items=test.batch_items,
            depends_on=list(depends_on),
        )

    @classmethod
    def record(cls, tests: list[Self]) -> Record:
        """Return the record of a case with these tests."""
        return Record(*UNPLACED, try_=1, kind=TESTS, data=tests)


def points_score(test: TestCase, points: float, reason: str = "") -> Score:
    """Return the score of a test with a judge's points."""
    return Score(
        *UNPLACED,
        scorer=_SCORER,
        metric=POINTS,
        part=test.key,
        value=points,
        reason=reason,
        label=test.key,
        tags=tuple(test.tags),
    )


def points_metric(points: list[float]) -> Metric:
    """Return the mean of a judge's points."""
    return mean_metric(POINTS, points, label="overall score", unit="test")


def find_results(path: Path) -> ImportedRun | None:
    """Return the results in a file of this form, or in a folder whose `results.jsonl` has it. Else None."""
    if path.is_dir():
        path = path / FILE_NAME
    if path.suffix != ".jsonl" or not path.is_file():
        return None
    for line in json_lines(path, BY_PROGRAMS):
        try:
            value = decode_json(line.raw, str(path))
        except InputError:
            # A torn line of this file is named when the import reads it.
            return PipelineRun(path) if b'"first_wrong"' in line.raw else None
        return PipelineRun(path) if isinstance(value, dict) and value.keys() >= RESULT_KEYS else None
    return None


class PipelineRun(ImportedRun):
    """The results of one `results.jsonl`."""

    def __init__(self, path: Path) -> None:
        self._lines = ResultLines(path)
        self._groups = _TestGroups()
        self._steps: dict[str, dict[str, None]] = {}  # by variant: its steps, in the order of the file
        self._is_judged = False
        self._index()
        self._tallies = {name: VariantTally(list(steps)) for name, steps in self._steps.items()}
        self._points: dict[str, list[float]] = defaultdict(list)
        self._count = 0
        missing = ["models", "requests and replies", "expected values that no check has"]
        if self._is_judged:
            missing.append("the judge")
        super().__init__(
            ImportPlan(
                format=FORMAT,
                suite="pipeline",
                files=[path],
                total=self._groups.cases,
                subjects=self._lines.subjects,
                scorers=[_SCORER],
                score_parts="rows",
                missing=missing,
                facts={"sets": self._groups.sets, "variants": self._lines.subjects},
            )
        )

    def _index(self) -> None:
        """Note the place of every line. Raises InputError at the first bad line."""
        path = self._lines.path
        for line in json_lines(path, BY_PROGRAMS):
            where = f"{path}:{line.number}"
            fields = _read_line(line, where).fields
            row = _row_name(fields.set, str(fields.id))
            repeated = self._lines.add(row, fields.variant, line)
            if repeated:
                message = f"line {repeated} has the test {str(fields.id)!r} with the variant {fields.variant!r} too"
                raise InputError(Problem(where, message))
            self._groups.add(row, fields)
            self._steps.setdefault(fields.variant, {}).update(dict.fromkeys(fields.steps))
            self._is_judged |= any(check.kind == "judge" for check in fields.checks)

    def cases(self) -> Iterator[ImportedCase]:
        """Yield the cases in the order of the file: a test, or the tests that depend on each other."""
        path = self._lines.path
        waiting: dict[str, list[dict[str, _TestLine]]] = defaultdict(list)
        for row, lines in self._lines.rows():
            group = self._groups.leader(row)
            tests = {variant: _read_line(line, f"{path}:{line.number}") for variant, line in lines}
            waiting[group].append(tests)
            if len(waiting[group]) == self._groups.sizes[group]:
                rows = waiting.pop(group)
                for variant in self._lines.subjects:
                    of_variant = [row_tests[variant] for row_tests in rows if variant in row_tests]
                    if of_variant:
                        yield self._case(variant, of_variant)

    def _case(self, variant: str, lines: list[_TestLine]) -> ImportedCase:
        scores: list[Score] = []
        records = [TestFields.record([TestFields.of(line.test, line.fields.depends_on) for line in lines])]
        for line in lines:
            score = line.score()
            if score is not None:
                scores.append(score)
                score = replace(score, index=self._count)
            points = line.fields.overall_score
            if points is not None:
                scores.append(points_score(line.test, points))
                self._points[variant].append(points)
            records += line.records()
            self._tallies[variant].add(line.fields.set, line.test, line.output, score)
        self._count += 1
        tests = [line.test for line in lines]
        tokens = [step["tokens"] for line in lines for step in line.output.steps.values() if step.get("tokens")]
        return ImportedCase(
            key=group_key(tests),
            set=lines[0].fields.set,
            subject=variant,
            label=tests[-1].key,
            tags=tuple(tests[0].tags) if len(tests) == 1 else (),
            failure=next(filter(None, (line.failure() for line in lines)), None),
            records=records,
            scores=scores,
            # A file without tokens has no usage: 0 would be a measured number.
            usage=Usage(sum(pair[0] for pair in tokens), sum(pair[1] for pair in tokens)) if tokens else None,
            seconds=sum(line.output.seconds for line in lines),
        )

    def report(self) -> Report:
        """Return the numbers of all variants."""
        report = build_report(self._tallies, [])
        for entry in report.entries:
            if self._points:
                entry.metrics.append(points_metric(self._points[entry.name]))
        return report


class _TestLine(NamedTuple):
    """A line of the file. `fields` are checked; `value` has also the keys that nobody checks."""

    fields: ResultFields
    value: dict[str, Any]
    test: TestCase
    output: TestOutput

    def score(self) -> Score | None:
        """Return the score of the test; None if it has no answer."""
        fields = self.fields
        if fields.result == NO_ANSWER:
            return None
        data: dict[str, Any] = {"gold": fields.gold} if fields.gold else {}
        if fields.result != SKIPPED:
            data["checks"] = self.value["checks"]
        if fields.first_wrong is not None:
            data["first_wrong"] = self.value["first_wrong"]
        return verdict_score(UNPLACED, _SCORER, self.test, fields.result, fields.reason, data)

    def records(self) -> Iterator[Record]:
        """Yield the records of the steps, then the answer."""
        fields, key = self.fields, self.test.key
        if fields.result == SKIPPED:
            yield Record(*UNPLACED, try_=1, kind="skipped", part=key, data={"why": fields.reason})
            return
        for step, data in self.output.steps.items():
            yield Record(*UNPLACED, try_=1, kind="step", part=f"{key}/{step}", data=data)
        # A test without an answer of its judge has outputs.
        if fields.result != NO_ANSWER or fields.outputs:
            yield Record(*UNPLACED, try_=1, kind="answer", part=key, data={"outputs": self.output.outputs})

    def failure(self) -> Failure | None:
        """Return why the test has no answer, or which required step failed."""
        fields = self.fields
        if fields.result == ERRORED:
            return Failure("failed_step", fields.reason, self.test.key)
        match = _FAILURE.fullmatch(fields.reason) if fields.result == NO_ANSWER else None
        return Failure(match["kind"], match["message"]) if match else None


class _TestGroups:
    """Tests that depend on each other. A run has them as one case, whose key covers all of them."""

    def __init__(self) -> None:
        self.sizes: Counter[str] = Counter()
        self._leaders: dict[str, str] = {}
        self._variants: dict[str, set[str]] = {}
        self._needs: list[tuple[str, str]] = []
        self._sets: dict[str, str] = {}

    def add(self, row: str, fields: ResultFields) -> None:
        """Add a line."""
        self._leaders.setdefault(row, row)
        self._variants.setdefault(row, set()).add(fields.variant)
        self._sets.setdefault(row, fields.set)
        self._needs += [(row, _row_name(fields.set, other)) for other in fields.depends_on]

    def leader(self, row: str) -> str:
        """Return the test that stands for the group of a test."""
        while self._leaders[row] != row:
            row = self._leaders[row]
        return row

    @property
    def cases(self) -> int:
        """The number of groups times their variants. Joins the groups, so all lines must have been added."""
        for row, other in self._needs:
            if other in self._leaders:  # the file may have been filtered
                self._leaders[self.leader(row)] = self.leader(other)
        self._needs.clear()
        self.sizes = Counter(map(self.leader, self._leaders))
        variants: dict[str, set[str]] = defaultdict(set)
        for row, names in self._variants.items():
            variants[self.leader(row)] |= names
        return sum(map(len, variants.values()))

    @property
    def sets(self) -> dict[str, int]:
        """The number of groups in each testset."""
        return dict(Counter(self._sets[leader] for leader in self.sizes))


def _read_line(line: Line, where: str) -> _TestLine:
    value = decode_json(line.raw, where)
    fields = convert_json(value, ResultFields, where)
    test = TestCase(
        fields.id,
        tags=fields.tags,
        inputs=fields.inputs,
        step_inputs=fields.step_inputs,
        batch_items=fields.batch_items,
    )
    # Files of Prompt Lab have the time of a test, and none of its steps.
    seconds = sum(step.seconds for step in fields.steps.values()) if fields.steps else fields.seconds or 0.0
    return _TestLine(fields, value, test, TestOutput(steps=value["steps"], outputs=fields.outputs, seconds=seconds))


def _row_name(set_name: str, test: str) -> str:
    # A tab cannot be confused with a part of the name: JSON texts of both may contain anything else.
    return f"{set_name}\t{test}"
