"""Judges the tests of a case: passed, failed, errored, not evaluated, skipped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from assay.core.hashing import fingerprint
from assay.core.protocols import Context, Scorer, View
from assay.core.types import Case, Record, Score
from assay.scoring.expectations import verdict
from assay.scoring.judges.rubric import RubricJudge
from assay.suites.pipeline.evaluation import Evaluation, Finding, Given, by_test, given
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


class PipelineScorer(Scorer):
    """One score a test: 1 if all checks pass, 0 if one or a step failed, null if nothing is expected."""

    def __init__(
        self, scorer_id: str, evaluations: Mapping[str, Evaluation], judge: RubricJudge | None
    ) -> None:
        self.id = scorer_id
        self._evaluations = evaluations
        self._judge = judge

    async def score(self, view: View, ctx: Context) -> list[Score]:
        """In the order of the tests."""
        tests: list[TestCase] = view.case.gold
        records = by_test(view.records, tests)
        return [await self._test(view, test, given(records[test.key], test.key), ctx) for test in tests]

    async def _test(self, view: View, test: TestCase, found: Given, ctx: Context) -> Score:
        evaluation = self._evaluations[view.case.subject]
        if found.skipped:
            return self._said(view.case, test, SKIPPED, found.skipped, {})
        findings = [one for one in evaluation.findings(test, found) if self._can_be_said(one)]
        if any(finding.check.passed is None for finding in findings):
            findings = await ctx.map(lambda finding: self._judged(finding, ctx), findings)
        result, reason = self._result(evaluation, found, findings)
        if (
            not found.answered and view.end.failure is not None
        ):  # something broke that no step is to blame for
            result, reason = ERRORED, view.end.failure.message
        data: dict[str, Any] = {"checks": [_shown(finding) for finding in findings]}
        if wrong := evaluation.first_wrong(found, findings):
            data["first_wrong"] = wrong
        if test.intermediate_expectations and not test.evaluation_config.get("evaluate_intermediate", False):
            data["not_evaluated"] = "intermediate_expectations"
        return self._said(view.case, test, result, reason, data)

    def _can_be_said(self, finding: Finding) -> bool:
        """Words in `expected` are compared by a judge only; where nobody named one, nothing is expected."""
        return self._judge is not None or finding.check.passed is not None or finding.reference is None

    def _result(self, evaluation: Evaluation, found: Given, findings: list[Finding]) -> tuple[str, str]:
        if error := evaluation.errored(found):
            return ERRORED, error
        said = verdict([finding.check for finding in findings])
        if said is None:
            undecided = next((f.check.why for f in findings if f.check.passed is None), None)
            return (NOT_EVALUATED, "nothing is expected") if undecided is None else (INVALID, undecided)
        return (
            (PASSED, "") if said else (FAILED, next(f.check.why for f in findings if f.check.passed is False))
        )

    async def _judged(self, finding: Finding, ctx: Context) -> Finding:
        """A judge's word where one is needed; one that cannot be read stays without a verdict."""
        check = finding.check
        if check.passed is not None:
            return finding
        if self._judge is None:
            return finding._replace(check=replace(check, why="it needs a judge; name one with --judge"))
        text = check.actual if isinstance(check.actual, str) else json.dumps(check.actual, ensure_ascii=False)
        said = await self._judge.judge(ctx.model("judge"), str(check.expected), text, finding.reference)
        return finding._replace(check=replace(check, passed=said.passed, why=said.reason))

    def _said(self, case: Case, test: TestCase, result: str, reason: str, data: dict[str, Any]) -> Score:
        value = {PASSED: 1.0, FAILED: 0.0, ERRORED: 0.0}.get(result)
        return Score(
            *case.head,
            scorer=self.id,
            metric=METRIC,
            part=test.key,
            status="scored" if value is not None else "invalid" if result == INVALID else "not_applicable",
            value=value,
            reason=reason,
            data={"verdict": result, "gold": gold_of(test), **data},
        )

    def passed(self, case: Case, records: list[Record], part: str) -> bool:
        """Whether a test failed no check that needs no judge. What is not expected cannot fail."""
        test = next(test for test in case.gold if test.key == part)
        evaluation, found = self._evaluations[case.subject], given(records, part)
        if evaluation.errored(found):
            return False
        return all(finding.check.passed is not False for finding in evaluation.findings(test, found))


def gold_of(test: TestCase) -> str:
    """Return a fingerprint of what a test expects: two runs of other expectations are not compared by it."""
    return fingerprint(test.expectations())


def _shown(finding: Finding) -> dict[str, Any]:
    check: dict[str, Any] = msgspec.to_builtins(finding.check)
    return {"of": finding.of, "step": finding.step, **check}
