"""Checks each test before the run starts: invalid expectations, code without permission, a missing judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from assay.core.errors import Problem
from assay.core.schema import ValueSource
from assay.scoring.expectations import expectation_problems, rule_problems
from assay.suites.pipeline.testset.case import TestCase


class Preflight:
    """Checks tests one by one, and records whether a judge is needed and for how many checks.

    Code without --allow-code and an expectation `judge:…` without --judge are errors.
    """

    def __init__(self, *, allow_code: bool, judge: bool) -> None:
        self._allow_code = allow_code
        self._judge = judge
        self.needs_judge = False
        # The number of judge calls per variant, for the estimate of --dry-run.
        self.judged_checks = 0
        # Numbers of tests with expectations that this run does not evaluate.
        self._without_judge = self._without_steps = 0

    def check(self, test: TestCase, source: ValueSource, problems: list[Problem]) -> None:
        """Append the problems of a test whose types are already checked."""
        expected: dict[str, Any] = {
            "expected_outputs": test.expected_outputs,
            "expected_aggregation": test.expected_aggregation,
            "intermediate_expectations": test.intermediate_expectations,
        }
        for name, value in expected.items():
            if value:
                for path, message in expectation_problems(value):
                    problems.append(source.problem((name, path) if path else (name,), message))
        rules = test.evaluation_config.get("rules")
        if rules:
            for path, message in rule_problems(rules):
                problems.append(source.problem(("evaluation_config", f"rules{path}"), message))
        if test.step_inputs and not self._allow_code:
            for place in test.code_paths():
                message = f"{place} is code; code in a testset needs --allow-code"
                problems.append(source.problem((), message))
        judged = _count_judged(list(expected.values()))
        self.judged_checks += judged
        if judged:
            self.needs_judge = True
            if not self._judge:
                message = "the expectation judge:… needs a judge; pass --judge PROVIDER/NAME"
                problems.append(source.problem((), message))
        if test.intermediate_expectations and not test.should_evaluate_intermediate():
            self._without_steps += 1
        if test.reference is not None and self._judge:
            self.needs_judge = True
            self.judged_checks += 1
        elif test.reference is not None:
            self._without_judge += 1

    def notices(self) -> Iterator[str]:
        """Yield sentences about expectations that this run does not evaluate."""
        if self._without_steps:
            yield (
                f"not evaluated: intermediate_expectations of {_tests(self._without_steps)}; "
                "set evaluate_intermediate: true in evaluation_config to evaluate them"
            )
        if self._without_judge:
            yield (
                f"not evaluated: the reference text `expected` of {_tests(self._without_judge)}; "
                "pass --judge PROVIDER/NAME to evaluate it"
            )


def _tests(count: int) -> str:
    return f"{count:,} test{'s' * (count != 1)}"


def _count_judged(value: Any) -> int:
    """Return the number of texts `judge:…` in an expectation."""
    if isinstance(value, str):
        return value.startswith("judge:")
    if isinstance(value, dict):
        return sum(map(_count_judged, value.values()))
    if isinstance(value, list):
        return sum(map(_count_judged, value))
    return 0
