"""Gives each test a verdict: passed, failed, errored, not evaluated, skipped or invalid."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from assay.core.hashing import fingerprint
from assay.core.protocols import Context, Scorer, ScorerInput
from assay.core.types import Case, Record, Score, ScoreStatus
from assay.language.patterns import call_without_blocking
from assay.scoring.expectations import verdict
from assay.scoring.judges.rubric import RubricJudge
from assay.suites.pipeline.output_checks import (
    OutputChecker,
    StepCheck,
    TestOutput,
    is_stopped,
    read_output,
    records_by_test,
)
from assay.suites.pipeline.testset.case import TestCase

METRIC = "passed"
PASSED, FAILED, ERRORED, NOT_EVALUATED, SKIPPED, INVALID = (
    "passed",
    "failed",
    "errored",
    "not_evaluated",
    "skipped",
    "invalid",
)
VERDICTS = (PASSED, FAILED, ERRORED, NOT_EVALUATED, SKIPPED, INVALID)
# Tests with the other verdicts have no value and are left out of the pass rate.
_VALUES = {PASSED: 1.0, FAILED: 0.0, ERRORED: 0.0}


class PipelineScorer(Scorer):
    """Returns one score per test: 1 if all checks pass, 0 if a check or a required step failed, else None.

    None means that the test was skipped, expects nothing, has no valid verdict of the judge, or a pattern that was
    stopped.
    """

    def __init__(self, scorer_id: str, checkers: Mapping[str, OutputChecker], judge: RubricJudge | None) -> None:
        self.id = scorer_id
        self._checkers = checkers
        self._judge = judge

    async def score(self, given: ScorerInput, ctx: Context) -> list[Score]:
        """Return a score for each test of the case, in the order of the tests."""
        tests: list[TestCase] = given.case.gold
        records = records_by_test(given.records, tests)
        outputs = {test.key: read_output(records[test.key], test.key) for test in tests}
        return [await self._score_test(given, test, outputs[test.key], ctx) for test in tests]

    async def _score_test(self, given: ScorerInput, test: TestCase, output: TestOutput, ctx: Context) -> Score:
        checker = self._checkers[given.case.subject]
        if output.skipped:
            return self._score(given.case, test, SKIPPED, output.skipped, {})
        checks = await call_without_blocking(checker.checks, test, output)
        if self._judge is None:
            # Only a judge can compare a reference text (`expected`). Without a judge these checks are dropped.
            checks = [item for item in checks if item.check.passed is not None or item.reference is None]
        if any(item.check.passed is None for item in checks):
            checks = await ctx.map(lambda item: self._ask_judge(item, ctx), checks)
        result, reason = self._verdict(checker, output, checks)
        # The case failed outside its steps, for example in the solver.
        if not output.answered and given.end.failure is not None:
            result, reason = ERRORED, given.end.failure.message
        data: dict[str, Any] = {"checks": [_check_data(item) for item in checks]}
        first_wrong = checker.first_wrong(output, checks)
        if first_wrong:
            data["first_wrong"] = first_wrong
        if test.intermediate_expectations and not test.should_evaluate_intermediate():
            data["not_evaluated"] = "intermediate_expectations"
        return self._score(given.case, test, result, reason, data)

    def _verdict(self, checker: OutputChecker, output: TestOutput, checks: list[StepCheck]) -> tuple[str, str]:
        """Return the verdict of a test and its reason."""
        error = checker.error(output)
        if error:
            return ERRORED, error
        passed = verdict([item.check for item in checks])
        if passed:
            return PASSED, ""
        if passed is False:
            return FAILED, next(item.check.why for item in checks if item.check.passed is False)
        open_checks = [item.check.why for item in checks if item.check.passed is None]
        return (INVALID, open_checks[0]) if open_checks else (NOT_EVALUATED, "nothing is expected")

    async def _ask_judge(self, item: StepCheck, ctx: Context) -> StepCheck:
        """Return the check with the judge's verdict, if it needs one. An unreadable reply leaves it None."""
        check = item.check
        if check.passed is not None or is_stopped(check):
            return item
        if self._judge is None:
            return item._replace(check=replace(check, why="this check needs a judge; pass --judge"))
        text = check.actual if isinstance(check.actual, str) else json.dumps(check.actual, ensure_ascii=False)
        judged = await self._judge.judge(ctx.model("judge"), str(check.expected), text, item.reference)
        return item._replace(check=replace(check, passed=judged.passed, why=judged.reason))

    def _score(self, case: Case, test: TestCase, result: str, reason: str, data: dict[str, Any]) -> Score:
        expected = [test.expected_outputs, test.expected_aggregation, test.reference]
        return replace(
            verdict_score(case.head, self.id, test, result, reason, {"gold": fingerprint(test.expectations()), **data}),
            expected=next((value for value in expected if value), None),
        )

    async def passed(self, case: Case, records: Sequence[Record], part: str) -> bool:
        """Return whether a test has no error, no failed check and no stopped pattern. A judge's checks are ignored.

        This decides whether dependent tests run, before any judge is called. A test without expectations passes.
        """
        test = next(test for test in case.gold if test.key == part)
        checker, output = self._checkers[case.subject], read_output(records, part)
        if checker.error(output):
            return False
        checks = await call_without_blocking(checker.checks, test, output)
        return not any(item.check.passed is False or is_stopped(item.check) for item in checks)


def verdict_score(
    head: tuple[int, str, str, str],
    scorer: str,
    test: TestCase,
    result: str,
    reason: str,
    data: dict[str, Any],
) -> Score:
    """Return the score of a test with this verdict. `head` is the case's. Only some verdicts have a value."""
    value = _VALUES.get(result)
    status: ScoreStatus = "not_applicable"
    if value is not None:
        status = "scored"
    elif result == INVALID:
        status = "invalid"
    return Score(
        *head,
        scorer=scorer,
        metric=METRIC,
        part=test.key,
        status=status,
        value=value,
        reason=reason,
        data={"verdict": result, **data},
        label=test.key,
        tags=tuple(test.tags),
    )


def _check_data(item: StepCheck) -> dict[str, Any]:
    check: dict[str, Any] = msgspec.to_builtins(item.check)
    return {"of": item.of, "step": item.step, **check}
