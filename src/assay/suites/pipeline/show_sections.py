"""What `assay show` prints of a pipeline's case."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from assay.core.suite_pages import Section, StoredCase
from assay.core.types import Score

# Characters of a step's output, and of a failed check's values.
_LONGEST_OUTPUT = 4000
_LONGEST_DIFFERENCE = 300


def test_sections(case: StoredCase) -> Sequence[Section]:
    """Return the output of each step in the order in which the steps ended, then the checks of each test."""
    sections: list[Section] = []
    for record in case.records:
        if record.kind in ("step", "aggregation"):
            result = record.data
            seconds = result.get("seconds", 0.0)
            text = result.get("error") or json.dumps(result.get("output"), ensure_ascii=False)
            heading = f"{record.kind} {record.part}: {result['status']} ({seconds:.3f} s)"
            sections.append(Section(heading=heading, text=text, max_chars=_LONGEST_OUTPUT))
        elif record.kind == "skipped":
            sections.append(Section(heading=f"{record.part}: skipped, {record.data['why']}"))
    for score in case.scores:
        sections += _score_sections(score)
    return sections


def _score_sections(score: Score) -> Iterator[Section]:
    """Yield a test's verdict and its checks. A check that did not pass has the expected and the actual value."""
    status = "" if score.status == "scored" else f" ({score.status})"
    yield Section(heading=f"{score.part}: {score.data['verdict']}{status}", text=score.reason)
    for check in score.data.get("checks", ()):
        sign = {True: "✓", False: "✗", None: "?"}[check.get("passed")]
        names = [str(check[key]) for key in ("of", "step", "path") if check.get(key)]
        yield Section(text=" ".join([sign, *names]), indent=1)
        if check.get("passed") is True:
            continue
        lines = [f"{check.get('path') or 'output'}: {check.get('why', '')}"]
        for mark, side in (("-", "expected"), ("+", "actual")):
            value = json.dumps(check[side], ensure_ascii=False) if side in check else "(nothing)"
            lines.append(f"{mark} {value}")
        for line in lines:
            yield Section(text=line, indent=2, max_chars=_LONGEST_DIFFERENCE)
