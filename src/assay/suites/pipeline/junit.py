"""`junit.xml`: what CI systems show. A suite for each testset and variant."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any
from xml.sax.saxutils import escape, quoteattr

from assay.suites.pipeline.rows import Row
from assay.suites.pipeline.scorer import ERRORED, FAILED, PASSED
from assay.suites.pipeline.tally import NO_ANSWER

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MOST = 2000
_PIECE = 1 << 16


class JunitFile:
    """Cases come in data order, suites stand whole: each variant's cases wait in an unnamed file."""

    def __init__(self, folder: Path, name: str, variants: Iterable[str]) -> None:
        self.path = folder / "junit.xml"
        self._name = name
        self._waiting = {name: _unnamed(folder) for name in variants}
        self._sizes: Counter[tuple[str, str]] = Counter()

    def add(self, row: Row) -> None:
        """One case of the suite of its set and variant. Sets come one after the other."""
        suite, name, seconds = suite_name(row.set, row.variant), row.test.key, row.found.seconds
        head = f'    <testcase classname={_attribute(suite)} name={_attribute(name)} time="{seconds:.3f}"'
        inside = _inside(row.score)
        line = f"{head}>{inside}</testcase>\n" if inside else f"{head}/>\n"
        self._sizes[row.set, row.variant] += self._waiting[row.variant].write(line.encode())

    def close(self, suites: Mapping[str, Mapping[str, dict[str, int]]]) -> None:
        """Write the document. `suites` has the counts of each set, in their order, by variant."""
        with self.path.open("wb") as file:
            file.write(b'<?xml version="1.0" encoding="UTF-8"?>\n')
            file.write(f"<testsuites name={_attribute(self._name)}>\n".encode())
            for variant, waiting in self._waiting.items():
                waiting.seek(0)
                for set_, counts in suites[variant].items():
                    suite = suite_name(set_, variant)
                    file.write(_head(suite, counts).encode())
                    _copy(waiting, file, self._sizes[set_, variant])
                    file.write(b"  </testsuite>\n")
                waiting.close()
            file.write(b"</testsuites>\n")


def _unnamed(folder: Path) -> IO[bytes]:
    """On the disk of the run, and gone with this process."""
    return TemporaryFile(dir=folder)


def suite_name(set_: str, variant: str) -> str:
    """As CI systems list it."""
    return f"{set_} ({variant})"


def _head(suite: str, counts: dict[str, int]) -> str:
    total, without = sum(counts.values()), counts.get(NO_ANSWER, 0)
    return (
        f'  <testsuite name={_attribute(suite)} tests="{total}" failures="{counts.get(FAILED, 0)}" '
        f'errors="{counts.get(ERRORED, 0) + counts.get("invalid", 0) + without}" '
        f'skipped="{counts.get("skipped", 0) + counts.get("not_evaluated", 0)}">\n'
    )


def _copy(source: IO[bytes], target: IO[bytes], size: int) -> None:
    while piece := source.read(min(size, _PIECE)):
        target.write(piece)
        size -= len(piece)


def _inside(score: Any) -> str:
    if score is None:
        return '<error message="the model gave no answer"/>'
    result, reason = score.data["verdict"], score.reason
    if result == PASSED:
        return ""
    if result == FAILED:
        return f"<failure message={_attribute(_headline(score))}>{_text(_details(score))}</failure>"
    if result in (ERRORED, "invalid"):
        return f"<error message={_attribute(reason)}>{_text(_details(score))}</error>"
    return f"<skipped message={_attribute(reason)}/>"


def _headline(score: Any) -> str:
    wrong = score.data.get("first_wrong") or {}
    return f"{wrong.get('step', '')}: {wrong.get('path', '')}: {score.reason}"


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
