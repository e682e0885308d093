"""Looks at each test before anything runs: expectations that cannot be read, code, and who must judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from assay.core.errors import Problem
from assay.core.schema import ValueSource
from assay.scoring.expectations import expectation_problems, rule_problems
from assay.suites.pipeline.testset.case import TestCase


class Preflight:
    """Checks tests and remembers what they need. Code without permission and a missing judge are errors."""

    def __init__(self, *, allow_code: bool, judge: bool) -> None:
        self._allow_code = allow_code
        self._judge = judge
        self.needs_judge = False
        # How many questions the judge will be asked for each variant.
        self.judged_checks = 0
        self._without_judge = self._without_steps = 0

    def check(self, test: TestCase, source: ValueSource, problems: list[Problem]) -> None:
        """Append what is wrong with a test besides its types."""
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
                message = f"{place} is code, and code of a testset runs only with --allow-code"
                problems.append(source.problem((), message))
        judged = _count_judged(list(expected.values()))
        self.judged_checks += judged
        if judged:
            self.needs_judge = True
            if not self._judge:
                message = "it expects a judge's word (judge:…); name one with --judge PROVIDER/NAME"
                problems.append(source.problem((), message))
        if test.intermediate_expectations and not test.should_evaluate_intermediate():
            self._without_steps += 1
        if test.reference is not None and self._judge:
            self.needs_judge = True
            self.judged_checks += 1
        elif test.reference is not None:
            self._without_judge += 1

    def notices(self) -> Iterator[str]:
        """Yield what a person should know before it runs."""
        if self._without_steps:
            yield (
                f"not evaluated: intermediate_expectations of {_tests(self._without_steps)}; "
                "evaluate_intermediate: true in evaluation_config does so"
            )
        if self._without_judge:
            yield (
                f"not evaluated: what {_tests(self._without_judge)} expected in words (`expected`); "
                "--judge PROVIDER/NAME does so"
            )


def _tests(count: int) -> str:
    return f"{count:,} test{'s' * (count != 1)}"


def _count_judged(value: Any) -> int:
    """Return how many texts of an expectation only a judge can compare."""
    if isinstance(value, str):
        return value.startswith("judge:")
    if isinstance(value, dict):
        return sum(map(_count_judged, value.values()))
    if isinstance(value, list):
        return sum(map(_count_judged, value))
    return 0
