"""Looks at each test before anything runs: expectations that cannot be read, code, and who must judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from assay.scoring.expectations import expectation_problems, rule_problems
from assay.suites.pipeline.testset.case import TestCase, carries_code
from assay.suites.pipeline.testset.validation import Fault

_JUDGE = "judge:"


class Inspector:
    """Remembers what these tests need. Code without permission is an error; so is a missing judge."""

    def __init__(self, *, allow_code: bool, judge: bool) -> None:
        self._allow_code = allow_code
        self._judge = judge
        self.judged = False
        self.unjudged = self.unlooked = 0

    def faults(self, test: TestCase) -> list[Fault]:
        """What is wrong with a test besides its types."""
        found = list(_expectations(test))
        if "step_inputs" in test.raw_data:
            found += self._code(test)
        if _any_judge([test.expected_outputs, test.expected_aggregation, test.intermediate_expectations]):
            self.judged = True
            if not self._judge:
                found.append(
                    Fault((), "it expects a judge's word (judge:…); name one with --judge PROVIDER/NAME")
                )
        self.unlooked += bool(test.intermediate_expectations) and not test.should_evaluate_intermediate()
        if test.reference is not None:
            self.judged |= self._judge
            self.unjudged += not self._judge
        return found

    def _code(self, test: TestCase) -> Iterator[Fault]:
        for path in carries_code(test):
            if not self._allow_code:
                yield Fault((), f"{path} is code, and code of a testset runs only with --allow-code")

    def notices(self) -> Iterator[str]:
        """What a person should know before it runs."""
        if self.unlooked:
            yield (
                f"not evaluated: intermediate_expectations of {_tests(self.unlooked)}; "
                "evaluate_intermediate: true in evaluation_config does so"
            )
        if self.unjudged:
            yield (
                f"not evaluated: what {_tests(self.unjudged)} expected in words (`expected`); "
                "--judge PROVIDER/NAME does so"
            )


def _tests(count: int) -> str:
    return f"{count:,} test{'s' * (count != 1)}"


def _expectations(test: TestCase) -> Iterator[Fault]:
    parts: tuple[tuple[str, Any], ...] = (
        ("expected_outputs", test.expected_outputs),
        ("expected_aggregation", test.expected_aggregation),
        ("intermediate_expectations", test.intermediate_expectations),
    )
    for name, expected in parts:
        if expected:
            for path, message in expectation_problems(expected):
                yield Fault((name, path) if path else (name,), message)
    if rules := test.evaluation_config.get("rules"):
        for path, message in rule_problems(rules):
            yield Fault(("evaluation_config", f"rules{path}"), message)


def _any_judge(value: Any) -> bool:
    if isinstance(value, str):
        return value.startswith(_JUDGE)
    if isinstance(value, dict):
        return any(map(_any_judge, value.values()))
    return isinstance(value, list) and any(map(_any_judge, value))
