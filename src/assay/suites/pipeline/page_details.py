"""What the page of a pipeline's case shows: each test with its steps as a timeline, and its checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.core.case_details import CaseDetails, CheckDetail, StepDetail, TestDetail, verdict_details
from assay.core.suite_pages import StoredCase, as_text
from assay.core.types import ASK, Call, Record, Score

_STEP_KINDS = ("step", "aggregation")
# The times of steps are rounded, so their sum may be a little longer than the case.
_ROUNDING_SECONDS = 0.01


def test_details(case: StoredCase) -> CaseDetails:
    """Return the tests of a case in order, with their steps and checks."""
    scores = {score.part: score for score in case.scores}
    steps = [record for record in case.records if record.kind in _STEP_KINDS]
    names = dict.fromkeys([*scores, *(each.part for each in case.records if each.kind in ("answer", "skipped"))])
    inputs = _step_inputs(steps, case.calls)
    # Steps of a graph run at the same time. The journal has only their durations, so their begin is not known then.
    one_by_one = sum(_seconds(step) for step in steps) <= case.end.seconds + _ROUNDING_SECONDS
    # One pass: a case may consist of thousands of tests.
    steps_of: dict[str, list[Record]] = {}
    for step in steps:
        steps_of.setdefault(step.part.rpartition("/")[0], []).append(step)
    skipped = {each.part: str(each.data["why"]) for each in case.records if each.kind == "skipped"}
    tests = [
        _test(
            name,
            steps_of.get(name, []),
            scores.get(name),
            skipped.get(name, ""),
            inputs,
            one_by_one=one_by_one,
        )
        for name in names
    ]
    return CaseDetails(tests=tests, verdicts=verdict_details(case.scores))


def _test(
    name: str,
    records: Sequence[Record],
    score: Score | None,
    skipped: str,
    inputs: Mapping[str, str],
    *,
    one_by_one: bool,
) -> TestDetail:
    data: Mapping[str, Any] = score.data if score is not None and isinstance(score.data, dict) else {}
    first_wrong = data.get("first_wrong") or {}
    steps, start = [], 0.0
    for record in records:
        step = record.part[len(name) + 1 :]
        seconds = _seconds(record)
        steps.append(
            StepDetail(
                name=step,
                status=str(record.data.get("status", "")),
                seconds=record.data.get("seconds"),
                start=start if one_by_one else None,
                input=inputs.get(record.part, ""),
                output=as_text(record.data["output"]) if record.data.get("output") is not None else "",
                error=record.data.get("error", ""),
                facts=_facts(record.data),
                is_first_wrong=step == first_wrong.get("step"),
            )
        )
        start += seconds
    return TestDetail(
        name=name,
        verdict=str(data.get("verdict", "skipped" if skipped else "")),
        reason=score.reason if score is not None and score.reason else skipped,
        steps=steps,
        checks=[check_detail(check) for check in data.get("checks", ())],
    )


def check_detail(check: Mapping[str, Any]) -> CheckDetail:
    """Return a check as it stands in the data of a score."""
    names = [str(check[key]) for key in ("step", "path") if check.get(key)]
    return CheckDetail(
        place=" ".join(names) or str(check.get("of", "")),
        kind=str(check.get("kind", "")),
        passed=check.get("passed"),
        expected=as_text(check["expected"]) if "expected" in check else None,
        found=as_text(check["actual"]) if "actual" in check else None,
        why=str(check.get("why") or ""),
    )


def _seconds(record: Record) -> float:
    return float(record.data.get("seconds") or 0.0)


def _facts(data: Mapping[str, Any]) -> list[str]:
    facts = []
    if data.get("calls"):
        facts.append(f"{data['calls']:,} call{'s' if data['calls'] != 1 else ''}")
    if data.get("tokens"):
        facts.append("{:,} + {:,} tokens".format(*data["tokens"]))
    if data.get("attempts", 1) > 1:
        facts.append(f"{data['attempts']:,} attempts")
    if data.get("items") is not None:
        facts.append(f"{data['items']:,} items")
    if data.get("failed_items"):
        facts.append(f"{len(data['failed_items']):,} items failed")
    return facts


def _step_inputs(steps: Sequence[Record], calls: Sequence[Call]) -> dict[str, str]:
    """Return the prompts of each step, by the part of its record.

    A call does not name its step. Calls and steps are both in the order in which they ended, so the first calls belong
    to the first step that made calls. Where tokens were counted they must agree; otherwise no step gets a prompt.
    """
    calls = [call for call in calls if call.stage == ASK]
    if sum(int(step.data.get("calls", 0)) for step in steps) != len(calls):
        return {}
    inputs, first = {}, 0
    for step in steps:
        own = calls[first : first + int(step.data.get("calls", 0))]
        first += len(own)
        usages = [call.response.usage for call in own if call.response and call.response.usage]
        tokens = step.data.get("tokens")
        if tokens and len(usages) == len(own) and sum(each.input for each in usages) != tokens[0]:
            return {}
        prompts = [_prompt(call) for call in own if call.request is not None]
        inputs[step.part] = "\n\n".join(prompts)
    return inputs


def _prompt(call: Call) -> str:
    assert call.request is not None
    if call.request.messages is None:
        return call.request.prompt or ""
    messages = call.request.messages
    if len(messages) == 1:
        return as_text(messages[0].get("content"))
    return "\n".join(f"[{each.get('role')}]\n{as_text(each.get('content'))}" for each in messages)
