"""Compares what a test gave with what it expects, step by step, without asking a judge.

`scoring/expectations` compares values (tolerance, ignored fields, prefixes, rules). This module knows which value
of a pipeline each expectation is about, and which step to blame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from assay.core.types import Record
from assay.scoring.expectations import (
    MISSING,
    Check,
    Rule,
    apply_rules,
    as_text,
    compare,
    matching_of,
    rule_of,
)
from assay.solvers.steps.pipeline import Pipeline, Step
from assay.suites.pipeline.testset.case import TestCase

FINAL, AGGREGATION, INTERMEDIATE, PERFORMANCE, RULES = (
    "final",
    "aggregation",
    "intermediate",
    "performance",
    "rules",
)
REFERENCE_RUBRIC = (
    "The text says what the reference says, in whatever words; nothing of it is missing or wrong."
)


class StepCheck(NamedTuple):
    """One check, the kind of expectation it belongs to, and the step whose output it looks at."""

    of: str
    step: str
    check: Check
    reference: str | None = None


class TestOutput(Struct):
    """What one test gave, read from its records."""

    __test__ = False  # pytest collects classes of this name

    steps: dict[str, dict[str, Any]] = {}
    outputs: dict[str, Any] = {}
    missing: dict[str, str] = {}
    skipped: str = ""
    answered: bool = False
    seconds: float = 0.0
    tokens: int = 0


def read_output(records: Iterable[Record], test: str) -> TestOutput:
    """Return what a test gave. A case may hold several tests; the part of a record names its test."""
    output = TestOutput(steps={}, outputs={}, missing={})
    for record in records:
        if record.kind in ("step", "aggregation"):
            # A test's id may hold a slash, a step's id may not.
            owner, _, step = record.part.rpartition("/")
            if owner == test:
                output.steps[step] = record.data
                output.seconds += record.data.get("seconds", 0.0)
                output.tokens += sum(record.data.get("tokens", ()))
        elif record.part == test and record.kind == "answer":
            output.answered = True
            output.outputs = record.data["outputs"]
            output.missing = record.data.get("missing", {})
        elif record.part == test and record.kind == "skipped":
            output.skipped = record.data["why"]
    return output


def records_by_test(records: list[Record], tests: Sequence[TestCase]) -> dict[str, list[Record]]:
    """Return each test's records, in one pass: thousands of tests may form a single case."""
    if len(tests) == 1:
        return {tests[0].key: records}
    by_test: dict[str, list[Record]] = {test.key: [] for test in tests}
    for record in records:
        test = record.part
        if record.kind in ("step", "aggregation"):
            test = record.part.rpartition("/")[0]
        if test in by_test:
            by_test[test].append(record)
    return by_test


class Evaluation:
    """The checks of one pipeline. `rules` are those its outputs have in the file."""

    def __init__(self, pipeline: Pipeline, rules: list[Rule]) -> None:
        self._pipeline = pipeline
        self._rules = rules
        self._steps = {step.id: step for step in pipeline.steps}
        self._by_key = {step.output_key: step for step in pipeline.steps}
        self._of_output = {output.key: output.step for output in pipeline.outputs}

    def checks(self, test: TestCase, output: TestOutput) -> list[StepCheck]:
        """Return every check, in the order of the format's document: steps, aggregation, final, the rest."""
        checks: list[StepCheck] = []
        if test.should_evaluate_intermediate():
            checks += self._check_intermediate(test, output)
        if test.should_evaluate_aggregation():
            checks += self._check_aggregation(test, output)
        if test.should_evaluate_final():
            checks += self._check_final(test, output)
        checks += self._check_rules(test, output)
        checks += self._check_performance(test, output)
        return checks

    def first_wrong(self, output: TestOutput, checks: list[StepCheck]) -> dict[str, Any] | None:
        """Return the first step, in the order of the pipeline, that failed or whose output is not as expected."""
        for step in self._pipeline.steps:
            result = output.steps.get(step.id, {})
            if result.get("status") == "failed":
                return {"step": step.id, "path": "", "why": result["error"]}
            for item in checks:
                if item.step == step.id and item.check.passed is False:
                    return _shown_difference(item)
        for item in checks:
            if item.check.passed is False:
                return _shown_difference(item)
        return None

    def error(self, output: TestOutput) -> str:
        """Return the required step that has no output, with the reason; empty if all have one."""
        required = [step for step in self._pipeline.steps if step.required]
        for status in ("failed", "skipped"):
            for step in required:
                result = output.steps.get(step.id, {})
                if result.get("status") == status:
                    return f"step {step.id}: {result.get('error', '')}"
        return ""

    def _check_intermediate(self, test: TestCase, output: TestOutput) -> Iterator[StepCheck]:
        matching = matching_of(test.evaluation_config)
        for name, expected in test.intermediate_expectations.items():
            step = self._step(name)
            if step is None:
                why = f"the pipeline has no step {name!r}; it has: {', '.join(self._steps)}"
                yield StepCheck(INTERMEDIATE, name, _missing_check(name, expected, why))
                continue
            actual, why = _step_output(output, step)
            for check in compare(expected, actual, matching):
                yield StepCheck(INTERMEDIATE, step.id, _explain_missing(check, why))

    def _check_aggregation(self, test: TestCase, output: TestOutput) -> Iterator[StepCheck]:
        """Without an aggregate step, the final output is the aggregation."""
        step = self._pipeline.aggregate
        if step is not None:
            name = step.id
            actual, why = _step_output(output, step)
        else:
            name, why = self._pipeline.target, ""
            outputs = self._pipeline.outputs
            if len(outputs) == 1 and not outputs[0].source.path:
                actual = output.outputs.get(outputs[0].key, MISSING)
            else:
                actual = output.outputs
        for check in compare(test.expected_aggregation, actual, matching_of(test.evaluation_config)):
            yield StepCheck(AGGREGATION, name, _explain_missing(check, why))

    def _check_final(self, test: TestCase, output: TestOutput) -> Iterator[StepCheck]:
        if test.reference is not None:
            yield self._check_reference(as_text(test.reference), output)
        expected = test.expected_outputs
        if not expected:
            return
        outputs = self._with_output_key(expected, output)
        for check in compare(expected, outputs, matching_of(test.evaluation_config)):
            step, why = self._maker(_root(check.path), output)
            yield StepCheck(FINAL, step, _explain_missing(check, why))

    def _check_reference(self, reference: str, output: TestOutput) -> StepCheck:
        """A bare `expected` is a text that a judge compares with the evaluated step's output."""
        step = self._steps[self._pipeline.target]
        actual, why = _step_output(output, step)
        if actual is MISSING:
            return StepCheck(FINAL, step.id, _missing_check("", reference, why), reference)
        check = Check(path="", kind="judge", expected=REFERENCE_RUBRIC, actual=actual, passed=None)
        return StepCheck(FINAL, step.id, check, reference)

    def _check_rules(self, test: TestCase, output: TestOutput) -> Iterator[StepCheck]:
        own = [rule_of(rule) for rule in test.evaluation_config.get("rules", ())]
        if not own and not self._rules:
            return
        outputs = {**self._with_output_key({"output": None}, output), **output.outputs}
        for check in apply_rules([*self._rules, *own], outputs):
            yield StepCheck(RULES, self._maker(_root(check.path), output)[0], check)

    def _check_performance(self, test: TestCase, output: TestOutput) -> Iterator[StepCheck]:
        """`performance_baseline`: at most so many seconds or tokens, of the test or of a step."""
        baseline = test.performance_baseline
        if not baseline:
            return
        yield from _check_limits(baseline, "", output.seconds, output.tokens)
        for name, limits in (baseline.get("steps") or {}).items():
            step = self._step(name)
            result = output.steps.get(step.id, {}) if step else {}
            if step is not None and result.get("status") != "skipped":
                tokens = sum(result.get("tokens", ()))
                yield from _check_limits(limits, step.id, result.get("seconds", 0.0), tokens)
                continue
            why = "it did not run"
            if step is None:
                why = f"the pipeline has no such step; it has: {', '.join(self._steps)}"
            yield StepCheck(PERFORMANCE, name, _missing_check(name, limits, why))

    def _step(self, name: str) -> Step | None:
        """Tests may name a step by its id or by the key of its output."""
        return self._steps.get(name) or self._by_key.get(name)

    def _maker(self, key: str, output: TestOutput) -> tuple[str, str]:
        """Return the step that makes an output, and why there is none."""
        if key == "output" and key not in self._of_output:
            if len(self._of_output) > 1:
                return self._pipeline.target, _step_output(output, self._steps[self._pipeline.target])[1]
            key = next(iter(self._of_output))
        return self._of_output.get(key) or self._pipeline.target, output.missing.get(key, "")

    def _with_output_key(self, expected: dict[str, Any], output: TestOutput) -> dict[str, Any]:
        """Return the outputs as the test names them: `output` means the pipeline's one output."""
        if "output" not in expected or "output" in self._of_output:
            return output.outputs
        keys = list(self._of_output)
        if len(keys) == 1:
            outputs = {key: value for key, value in output.outputs.items() if key != keys[0]}
            if keys[0] in output.outputs:
                outputs["output"] = output.outputs[keys[0]]
            return outputs
        actual, _ = _step_output(output, self._steps[self._pipeline.target])
        if actual is MISSING:
            return output.outputs
        return {**output.outputs, "output": actual}


def _step_output(output: TestOutput, step: Step) -> tuple[Any, str]:
    """Return a step's output; where it has none, MISSING and the reason."""
    result = output.steps.get(step.id, {})
    if result.get("status") == "ok":
        return result.get("output"), ""
    return MISSING, f"the step {step.id} has no output: {result.get('error', 'it did not run')}"


def _missing_check(path: str, expected: Any, why: str) -> Check:
    return Check(path=path, kind="missing", expected=expected, actual=None, passed=False, why=why)


def _explain_missing(check: Check, why: str) -> Check:
    """A missing value has a reason: the step that should have made it."""
    if why and check.passed is False and check.kind == "missing":
        return replace(check, why=why)
    return check


def _root(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]


def _shown_difference(item: StepCheck) -> dict[str, Any]:
    """A side that is not there has no key, as in the check itself."""
    check = item.check
    difference: dict[str, Any] = {"step": item.step, "path": check.path}
    if check.expected is not MISSING:
        difference["expected"] = check.expected
    if check.actual is not MISSING:
        difference["actual"] = check.actual
    return {**difference, "why": check.why}


def _check_limits(limits: dict[str, Any], step: str, seconds: float, tokens: int) -> Iterator[StepCheck]:
    for kind, actual in (("max_seconds", seconds), ("max_tokens", tokens)):
        if kind in limits:
            most = limits[kind]
            why = "" if actual <= most else f"{actual:g} is more than {most:g}"
            check = Check(path=step, kind=kind, passed=not why, expected=most, actual=actual, why=why)
            yield StepCheck(PERFORMANCE, step, check)
