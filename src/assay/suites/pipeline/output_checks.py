"""Compares the outputs of a test with its expectations, step by step. No judge is called here.

`scoring/expectations` compares two values (tolerance, ignored fields, prefixes, rules). This module finds the
pipeline's value that belongs to each expectation, and the step that produced it. A check that needs a judge
has `passed=None`; the scorer asks the judge later.
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
from assay.suites.pipeline.steps.pipeline import Pipeline, Step
from assay.suites.pipeline.testset.case import TestCase

FINAL, AGGREGATION, INTERMEDIATE, PERFORMANCE, RULES = (
    "final",
    "aggregation",
    "intermediate",
    "performance",
    "rules",
)
REFERENCE_RUBRIC = "The text says what the reference says, in whatever words; nothing of it is missing or wrong."


class StepCheck(NamedTuple):
    """One check, its kind of expectation (`of`, such as `final`), and the step whose output it reads.

    `reference` is set if a judge compares the output with a reference text.
    """

    of: str
    step: str
    check: Check
    reference: str | None = None


class TestOutput(Struct):
    """The results of one test, read from its records.

    `steps` has the record of each step, `missing` the reason for each output that has no value. `skipped` is
    the reason if the test did not run. `answered` is false if the test did not reach its end.
    """

    __test__ = False  # pytest would collect a class whose name starts with Test

    steps: dict[str, dict[str, Any]] = {}
    outputs: dict[str, Any] = {}
    missing: dict[str, str] = {}
    skipped: str = ""
    answered: bool = False
    seconds: float = 0.0

    @property
    def ran(self) -> bool:
        """Whether the test has a measured time. Results of other programs may have a time without steps."""
        return bool(self.steps or self.seconds)

    @property
    def tokens(self) -> int | None:
        """Tokens of all steps; None if steps called models whose endpoints report none."""
        return _tokens(self.steps.values())


def read_output(records: Iterable[Record], test: str) -> TestOutput:
    """Return the results of one test. The records may be those of several tests; their `part` names the test."""
    output = TestOutput(steps={}, outputs={}, missing={})
    for record in records:
        if record.kind in ("step", "aggregation"):
            # The part is `test/step`. A test's id may contain a slash, a step's id may not.
            owner, _, step = record.part.rpartition("/")
            if owner == test:
                output.steps[step] = record.data
                output.seconds += record.data.get("seconds", 0.0)
        elif record.part == test and record.kind == "answer":
            output.answered = True
            output.outputs = record.data["outputs"]
            output.missing = record.data.get("missing", {})
        elif record.part == test and record.kind == "skipped":
            output.skipped = record.data["why"]
    return output


def records_by_test(records: list[Record], tests: Sequence[TestCase]) -> dict[str, list[Record]]:
    """Return the records of each test, in one pass: a case may consist of thousands of tests."""
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


class OutputChecker:
    """Checks the outputs of the tests of one pipeline. `rules` are the rules of its outputs in the pipeline file."""

    def __init__(self, pipeline: Pipeline, rules: list[Rule]) -> None:
        self._pipeline = pipeline
        self._rules = rules
        self._steps = {step.id: step for step in pipeline.steps}
        self._by_key = {step.output_key: step for step in pipeline.steps}
        self._step_of_output = {output.key: output.step for output in pipeline.outputs}

    def checks(self, test: TestCase, output: TestOutput) -> list[StepCheck]:
        """Return every check of a test, in the order that Prompt Lab's format describes."""
        checks: list[StepCheck] = []
        if test.should_evaluate_intermediate():
            checks += self._check_intermediate(test, output)
        if test.should_evaluate_aggregation():
            checks += self._check_aggregation(test, output)
        if test.should_evaluate_final():
            checks += self._check_final(test, output)
        checks += self._check_rules(test, output)
        checks += self._check_performance(test, output)
        return [_locate_stopped(item, test) for item in checks]

    def first_wrong(self, output: TestOutput, checks: list[StepCheck]) -> dict[str, Any] | None:
        """Return the first step, in pipeline order, that failed or has a failed check; None if there is none.

        A later step often fails only because of an earlier one, so the first one is the place to look.
        """
        for step in self._pipeline.steps:
            result = output.steps.get(step.id, {})
            if result.get("status") == "failed":
                return {"step": step.id, "path": "", "why": result["error"]}
            for item in checks:
                if item.step == step.id and item.check.passed is False:
                    return _difference(item)
        # A check may name a step that the pipeline does not have.
        for item in checks:
            if item.check.passed is False:
                return _difference(item)
        return None

    def error(self, output: TestOutput) -> str:
        """Return the required step without an output, with the reason; "" if all required steps have one."""
        required = [step for step in self._pipeline.steps if step.required]
        # A step is often skipped because another failed, so failed steps are reported first.
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
            names = {step.id, step.output_key}
            for check in compare(expected, actual, matching.within(names, expected, actual)):
                yield StepCheck(INTERMEDIATE, step.id, _explain_missing(check, why))

    def _check_aggregation(self, test: TestCase, output: TestOutput) -> Iterator[StepCheck]:
        """Yield the checks of `expected_aggregation`.

        They apply to the aggregate step. A pipeline without one is compared by its final output.
        """
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
        expected = test.expected_aggregation
        matching = matching_of(test.evaluation_config).within({name}, expected, actual)
        for check in compare(expected, actual, matching):
            yield StepCheck(AGGREGATION, name, _explain_missing(check, why))

    def _check_final(self, test: TestCase, output: TestOutput) -> Iterator[StepCheck]:
        if test.reference is not None:
            yield self._check_reference(as_text(test.reference), output)
        expected = test.expected_outputs
        if not expected:
            return
        outputs = self._with_output_key(expected, output)
        matching = matching_of(test.evaluation_config).below(expected, outputs)
        for check in compare(expected, outputs, matching):
            step, why = self._producer(_root(check.path), output)
            yield StepCheck(FINAL, step, _explain_missing(check, why))

    def _check_reference(self, reference: str, output: TestOutput) -> StepCheck:
        """Return the check of a bare `expected`: a judge compares this text with the target step's output."""
        step = self._steps[self._pipeline.target]
        actual, why = _step_output(output, step)
        if actual is MISSING:
            return StepCheck(FINAL, step.id, _missing_check("", reference, why), reference)
        check = Check(path="", kind="judge", expected=REFERENCE_RUBRIC, actual=actual, passed=None)
        return StepCheck(FINAL, step.id, check, reference)

    def _check_rules(self, test: TestCase, output: TestOutput) -> Iterator[StepCheck]:
        test_rules = [rule_of(rule) for rule in test.evaluation_config.get("rules", ())]
        if not test_rules and not self._rules:
            return
        outputs = {**self._with_output_key({"output": None}, output), **output.outputs}
        for check in apply_rules([*self._rules, *test_rules], outputs):
            yield StepCheck(RULES, self._producer(_root(check.path), output)[0], check)

    def _check_performance(self, test: TestCase, output: TestOutput) -> Iterator[StepCheck]:
        """Yield the checks of `performance_baseline`: maximum seconds and tokens of the test and of steps."""
        baseline = test.performance_baseline
        if not baseline:
            return
        yield from _check_limits(baseline, "", output.seconds, output.tokens)
        for name, limits in (baseline.get("steps") or {}).items():
            step = self._step(name)
            result = output.steps.get(step.id, {}) if step else {}
            if step is not None and result.get("status") != "skipped":
                tokens = _tokens([result])
                yield from _check_limits(limits, step.id, result.get("seconds", 0.0), tokens)
                continue
            why = "it did not run"
            if step is None:
                why = f"the pipeline has no such step; it has: {', '.join(self._steps)}"
            yield StepCheck(PERFORMANCE, name, _missing_check(name, limits, why))

    def _step(self, name: str) -> Step | None:
        """Return a step by its id or by its output key: tests may use either."""
        return self._steps.get(name) or self._by_key.get(name)

    def _producer(self, key: str, output: TestOutput) -> tuple[str, str]:
        """Return the step that produces an output, and the reason if the output is missing."""
        # `output` means the pipeline's only output, or the target step's if there are several.
        if key == "output" and key not in self._step_of_output:
            if len(self._step_of_output) > 1:
                return self._pipeline.target, _step_output(output, self._steps[self._pipeline.target])[1]
            key = next(iter(self._step_of_output))
        return self._step_of_output.get(key) or self._pipeline.target, output.missing.get(key, "")

    def _with_output_key(self, expected: dict[str, Any], output: TestOutput) -> dict[str, Any]:
        """Return the outputs by the names that the test uses.

        `output` means the pipeline's only output, or the target step's output if there are several.
        """
        if "output" not in expected or "output" in self._step_of_output:
            return output.outputs
        keys = list(self._step_of_output)
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
    """Return a step's output and "". Without an output, return MISSING and the reason."""
    result = output.steps.get(step.id, {})
    if result.get("status") == "ok":
        return result.get("output"), ""
    return MISSING, f"the step {step.id} has no output: {result.get('error', 'it did not run')}"


def _missing_check(path: str, expected: Any, why: str) -> Check:
    return Check(path=path, kind="missing", expected=expected, actual=None, passed=False, why=why)


def _explain_missing(check: Check, why: str) -> Check:
    """Replace the reason of a missing value by `why`, which tells why the step has no output."""
    if why and check.passed is False and check.kind == "missing":
        return replace(check, why=why)
    return check


def is_stopped(check: Check) -> bool:
    """Return whether the pattern of a check was stopped. A judge's check without a verdict is None too."""
    return check.passed is None and check.kind != "judge"


def _locate_stopped(item: StepCheck, test: TestCase) -> StepCheck:
    """Add the test's place to the reason of a stopped pattern, which names only the output."""
    if not is_stopped(item.check) or not test.where:
        return item
    return item._replace(check=replace(item.check, why=f"{test.where}: {item.check.why}"))


def _root(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]


def _difference(item: StepCheck) -> dict[str, Any]:
    """Return a failed check for the journal. `expected` and `actual` are left out if there is no such value."""
    check = item.check
    difference: dict[str, Any] = {"step": item.step, "path": check.path}
    if check.expected is not MISSING:
        difference["expected"] = check.expected
    if check.actual is not MISSING:
        difference["actual"] = check.actual
    return {**difference, "why": check.why}


def _tokens(steps: Iterable[dict[str, Any]]) -> int | None:
    """Return the tokens of steps. None if a step made calls without reported tokens: then the sum is not known."""
    total = 0
    for step in steps:
        tokens = step.get("tokens")
        if step.get("calls") and not tokens:
            return None
        total += sum(tokens or ())
    return total


def _check_limits(limits: dict[str, Any], step: str, seconds: float, tokens: int | None) -> Iterator[StepCheck]:
    for kind, actual in (("max_seconds", seconds), ("max_tokens", tokens)):
        # Tokens that the endpoint does not report cannot be checked; the report counts these tests.
        if kind in limits and actual is not None:
            limit = limits[kind]
            why = "" if actual <= limit else f"{actual:g} is more than {limit:g}"
            check = Check(
                path=f"{step}.{kind}" if step else kind,
                kind=kind,
                passed=not why,
                expected=limit,
                actual=actual,
                why=why,
            )
            yield StepCheck(PERFORMANCE, step, check)
