"""Writes `results.jsonl` of a pipeline run, for `assay export RUN --to pipeline`.

A run of assay has written the file itself, so it is copied. The file of an imported run is made from its journal.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from assay.core.exported import ExportedRun, Exporter
from assay.core.suite_pages import StoredCase
from assay.formats.prompt_lab.results import FILE_NAME, POINTS, TESTS, TestFields
from assay.suites.pipeline.output_checks import read_output, records_by_test
from assay.suites.pipeline.result_files import TestResult
from assay.suites.pipeline.scorer import METRIC

_encode = msgspec.json.Encoder().encode


class PipelineExporter(Exporter):
    """Writes one file with a line for each test and variant."""

    suffix: ClassVar[str] = ".jsonl"

    def refusal(self, run: ExportedRun) -> str:
        """Refuse runs of other suites, and a run of assay whose file is gone."""
        if run.about.suite != "pipeline":
            return "only pipeline runs have tests and steps. `--to json` writes a table of any run"
        if run.about.imported is None and _own_file(run) is None:
            return f"its {FILE_NAME} is gone. Repeat the command of the run, which writes it again"
        return ""

    def loses(self, run: ExportedRun) -> list[str]:
        """Return what the file has no place for. The report can be computed from the file."""
        if run.about.imported is not None:
            return []
        lost = ["requests and replies", "models"]
        if any(entry.judges for entry in run.report.entries):
            lost.append("the judge and its calls")
        return lost

    def write(self, run: ExportedRun, target: Path) -> list[Path]:
        """Copy the run's own file, or write a new one."""
        own = _own_file(run)
        if own is not None:
            shutil.copyfile(own, target)
            return [target]
        with target.open("wb") as file:
            for case in run.cases(calls=False):
                for record in _lines(case):
                    file.write(_encode(record) + b"\n")
        return [target]


def _own_file(run: ExportedRun) -> Path | None:
    return next((path for path in run.about.files if path.name == FILE_NAME and path.is_file()), None)


def _lines(stored: StoredCase) -> list[dict[str, Any]]:
    """Return the lines of a case of an imported run, one for each test."""
    tests = [
        msgspec.convert(test, TestFields) for record in stored.records if record.kind == TESTS for test in record.data
    ]
    cases = [test.case() for test in tests]
    records = records_by_test(stored.records, cases)
    verdicts = {score.part: score for score in stored.scores if score.metric == METRIC}
    points = {score.part: score.value for score in stored.scores if score.metric == POINTS}
    lines = []
    for test, case in zip(tests, cases, strict=True):
        output = read_output(records[case.key], case.key)
        if not output.steps and len(tests) == 1:
            output.seconds = stored.end.seconds
        result = TestResult(
            stored.end.set,
            stored.end.subject,
            case,
            output,
            stored.end,
            verdicts.get(case.key),
            test.depends_on,
        )
        line = result.record()
        if case.key in points:
            line[POINTS] = points[case.key]
        lines.append(line)
    return lines
