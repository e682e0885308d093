"""A row of a HOP batch test for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from assay.core.case_details import CaseDetails, CheckDetail, StepDetail, TestDetail
from assay.core.suite_pages import Section, StoredCase, SuitePages, as_text, case_details, score_sections
from assay.core.types import Record
from assay.scoring.expectations import MISSING, Check
from assay.suites.hop.result import OK


class HopPages(SuitePages):
    """A row of a HOP batch test for people."""

    def sections(self, case: StoredCase) -> Sequence[Section]:
        """Return the traced steps, the result, then each score with its checks."""
        sections = []
        for record in case.records:
            data = record.data
            if record.kind == "step":
                # A step of an imported run may have neither a duration nor a task.
                facts = [f"{data['duration']:.3f} s"] if data.get("duration") is not None else []
                if data.get("retry_count"):
                    facts.append(f"{data['retry_count']:,} × retried")
                heading = f"step {data['step']} {data['op']}: {data['status']}"
                heading += f" ({', '.join(facts)})" if facts else ""
                sections.append(Section(heading=heading, text=data.get("task", ""), max_chars=300))
                lines = [f"{name}: {value}" for name, value in data.get("metadata", {}).items()]
                sections.append(Section(text="\n".join(lines), indent=1))
            elif record.kind == "answer":
                sections.append(Section(heading=f"result: {data['status']}", text=data["result"], max_chars=4000))
        for score, section in zip(case.scores, score_sections(case), strict=True):
            sections.append(section)
            for result in (score.data or {}).get("checks", []):
                sections += _check_sections(msgspec.convert(result, Check))
        return sections

    def answer_text(self, records: Sequence[Record]) -> str:
        """Return the values of the result, after the status unless it is OK."""
        answers = [record.data for record in records if record.kind == "answer"]
        return result_text(answers[-1]) if answers else ""

    def details(self, case: StoredCase) -> CaseDetails:
        """Return the traced steps and the checks of the result."""
        steps = [_step_detail(record.data) for record in case.records if record.kind == "step"]
        checks = [
            _check_detail(msgspec.convert(check, Check))
            for score in case.scores
            for check in (score.data or {}).get("checks", [])
        ]
        details = case_details(case)
        if checks:
            details.pairs.clear()  # the checks say field by field what was expected
        if steps or checks:
            details.tests.append(TestDetail(name="", steps=steps, checks=checks))
        return details


def _step_detail(data: dict[str, Any]) -> StepDetail:
    # A step of an imported run may have neither a duration nor a task.
    retries = data.get("retry_count")
    return StepDetail(
        name=f"{data['step']} {data['op']}",
        status=data["status"],
        seconds=data.get("duration"),
        input=data.get("task", ""),
        output="\n".join(f"{name}: {value}" for name, value in data.get("metadata", {}).items()),
        facts=[f"{retries:,} × retried"] if retries else [],
    )


def _check_detail(check: Check) -> CheckDetail:
    return CheckDetail(
        place=check.path,
        kind=check.kind,
        passed=check.passed,
        expected=None if check.expected is MISSING else as_text(check.expected),
        found=None if check.actual is MISSING else as_text(check.actual),
        why=check.why,
    )


def _check_sections(result: Check) -> list[Section]:
    """Return the lines that `assay show` prints for a check: ✓ or ✗ and its path.

    For a failed check also the reason, the expected value (-) and the actual value (+).
    """
    if result.passed:
        return [Section(text=f"✓ {result.path}", indent=1)]
    lines = [f"{result.path}: {result.why}"]
    for sign, value in (("-", result.expected), ("+", result.actual)):
        text = "(nothing)" if value is MISSING else json.dumps(value, ensure_ascii=False)
        lines.append(f"{sign} {text}")
    sections = [Section(text=f"✗ {result.path}", indent=1)]
    sections += [Section(text=line, indent=2, max_chars=300) for line in lines]
    return sections


def result_text(data: Mapping[str, Any]) -> str:
    """Return a result as people read it: `found: Oslo · score: 5`, or `FAIL: no such town`."""
    text = data["result"]
    try:
        value = json.loads(text)
    except ValueError:  # a result of an imported run may be plain text
        value = text
    if isinstance(value, dict):
        fields = [f"{name}: {_inline(each)}" for name, each in value.items()]
        value = " · ".join(fields) if len(fields) != 1 else _inline(*value.values())
    status = "" if data["status"] == OK else f"{data['status']}: "
    return f"{status}{_inline(value)}"


def _inline(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
