"""`junit.xml` has each suite in one piece, although all variants of a test arrive together."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from assay.core.types import Score
from assay.suites.pipeline import result_files
from assay.suites.pipeline.output_checks import TestOutput
from assay.suites.pipeline.result_files import JunitFile, TestResult
from assay.suites.pipeline.testset.case import TestCase

SETS, VARIANTS = ("first", "second"), ("baseline", "short")


def _row(set_: str, variant: str, test: str, verdict: str) -> TestResult:
    checks = [{"of": "final", "step": "s", "passed": False, "why": "line one\nline <two>"}]
    data = {"verdict": verdict, "checks": checks}
    score = Score(0, "k", set_, variant, "pipeline@0", "passed", part=test, reason="é & more", data=data)
    return TestResult(set_, variant, TestCase(test), TestOutput(seconds=0.25), None, score)


def _written(folder: Path) -> ET.Element:
    file = JunitFile(folder, "flow", VARIANTS)
    for set_ in SETS:
        for number in range(3):
            for variant in VARIANTS:
                file.add(_row(set_, variant, f"{set_}-{variant}-{number}", "failed" if number else "passed"))
    counts = {set_: {"passed": 1, "failed": 2} for set_ in SETS}
    file.close(dict.fromkeys(VARIANTS, counts))
    return ET.parse(file.path).getroot()


@pytest.mark.parametrize("piece", [3, 1 << 16])
def test_each_suite_has_its_own_cases_in_order(piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Suites are ordered by variant, then by testset, however small the copied pieces are."""
    monkeypatch.setattr(result_files, "_COPY_BYTES", piece)
    result = {suite.get("name"): [case.get("name") for case in suite] for suite in _written(tmp_path).iter("testsuite")}
    assert result == {
        f"{set_} ({variant})": [f"{set_}-{variant}-{number}" for number in range(3)]
        for variant in VARIANTS
        for set_ in SETS
    }
    assert list(result)[:2] == ["first (baseline)", "second (baseline)"]


def test_no_temporary_file_is_left(tmp_path: Path) -> None:
    """The temporary files have no name."""
    _written(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["junit.xml"]


def test_a_failure_keeps_its_lines(tmp_path: Path) -> None:
    """A test is copied by bytes, so line breaks in it do not matter."""
    failure = _written(tmp_path).find(".//failure")
    assert failure is not None
    assert (failure.text or "").endswith("line one\nline <two>")
