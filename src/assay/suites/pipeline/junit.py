"""`junit.xml`: what CI systems show. A suite for each testset and variant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any
from xml.sax.saxutils import escape, quoteattr

from assay.suites.pipeline.scorer import ERRORED, FAILED, PASSED
from assay.suites.pipeline.tally import NO_ANSWER

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MOST = 2000


class JunitFile:
    """Written suite by suite; the numbers of each stand in its head."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / "junit.xml"
        self._file: IO[str] = self.path.open("w", encoding="utf-8")
        self._file.write(f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name={_attribute(name)}>\n')

    def suite(self, name: str, counts: dict[str, int], cases: Iterable[tuple[str, float, Any, str]]) -> None:
        """One suite; a case is its name, its seconds, its score, and why it has none if that is missing."""
        total, without = sum(counts.values()), counts.get(NO_ANSWER, 0)
        self._file.write(
            f'  <testsuite name={_attribute(name)} tests="{total}" failures="{counts.get(FAILED, 0)}" '
            f'errors="{counts.get(ERRORED, 0) + counts.get("invalid", 0) + without}" '
            f'skipped="{counts.get("skipped", 0) + counts.get("not_evaluated", 0)}">\n'
        )
        for case, seconds, score, reason in cases:
            head = f'    <testcase classname={_attribute(name)} name={_attribute(case)} time="{seconds:.3f}"'
            inside = _inside(score, reason)
            self._file.write(f"{head}>{inside}</testcase>\n" if inside else f"{head}/>\n")
        self._file.write("  </testsuite>\n")

    def close(self) -> None:
        """The end of the document."""
        self._file.write("</testsuites>\n")
        self._file.close()


def _inside(score: Any, reason: str) -> str:
    if score is None:
        return f"<error message={_attribute(reason)}/>"
    result = score.data["verdict"]
    if result == PASSED:
        return ""
    if result == FAILED:
        return f"<failure message={_attribute(_headline(score))}>{_text(_details(score))}</failure>"
    if result in (ERRORED, "invalid"):
        return f"<error message={_attribute(reason)}>{_text(_details(score))}</error>"
    return f"<skipped message={_attribute(reason)}/>"


def _headline(score: Any) -> str:
    wrong = score.data.get("first_wrong") or {}
    return ": ".join(filter(None, (wrong.get("step"), wrong.get("path"), score.reason)))


def _details(score: Any) -> str:
    lines = [
        f"{check['of']} {check['step']} {check.get('path', '')}: {check.get('why', '')}"
        for check in score.data.get("checks", ())
        if check.get("passed") is not True
    ]
    return "\n".join(lines)


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("�", text))


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("�", text[:_MOST]))
