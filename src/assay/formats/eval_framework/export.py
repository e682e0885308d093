"""Writes runs of the suite memory-eval as the five files of each memory, for `assay export`.

A native run has written these files itself, so they are copied. Of an imported run, the lines are those of the files it
was made from, and the aggregate file has the numbers of its report.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from assay.core.exported import ExportedRun, Exporter
from assay.core.report import Entry
from assay.files.write import write_json
from assay.formats.eval_framework.results import IMPORTED
from assay.store.runs import changed_file_message
from assay.suites.memory.eval.aggregate_file import fill_aggregate
from assay.suites.memory.eval.eval_columns import Aggregate
from assay.suites.memory.eval.output_files import AGGREGATE, QA_RECORDS, SESSION_RECORDS, OutputLines
from assay.suites.memory.eval.recorded import QUESTIONS, SESSIONS
from assay.suites.memory.eval.result_lines import QaEval, SessionEval, encode
from assay.suites.memory.eval.tally import JUDGED

_SUITE = "memory-eval"
# Keys of an imported record, with the pipeline file and the record file of its line.
_FILES = {"session": (SESSIONS, SESSION_RECORDS), "question": (QUESTIONS, QA_RECORDS)}


class EvalExporter(Exporter):
    """Writes the files into the folder itself, or into a subfolder for each memory if there are several."""

    def refusal(self, run: ExportedRun) -> str:
        """Refuse runs of other suites, and a native run whose files are gone or were overwritten."""
        if run.about.suite != _SUITE:
            return "the format has samples with sessions, which only runs of `assay memory eval` have"
        return "" if run.about.imported is not None else changed_file_message(run.about.folder)

    def loses(self, run: ExportedRun) -> list[str]:
        """Return what the files have no place for. An imported run came from such files, so it loses little."""
        lost = ["how intervals were computed"]
        if run.about.imported is not None:
            return lost
        lost += ["requests and replies", "times and tokens", "failed samples", "errors of single answers"]
        if any(entry.judges for entry in run.report.entries):
            lost += [
                "the judge and its votes",
                "which points and pieces of evidence are covered",
                "evidence in all retrieved items",
            ]
        return lost

    def write(self, run: ExportedRun, target: Path) -> list[Path]:
        """Copy the run's own files, or write new ones."""
        several = len(run.report.entries) > 1
        if run.about.imported is None:
            copies = []
            for path in run.about.files:
                copy = target / path.parent.name / path.name if several else target / path.name
                copy.parent.mkdir(exist_ok=True)
                shutil.copyfile(path, copy)
                copies.append(copy)
            return copies
        memories = {
            entry.name: _MemoryLines(target / entry.name if several else target, entry) for entry in run.report.entries
        }
        try:
            for case in run.cases(calls=False):
                for record in case.records:
                    if record.kind == IMPORTED:
                        memories[case.end.subject].add(record.data)
            return [path for memory in memories.values() for path in memory.publish()]
        finally:
            for memory in memories.values():
                memory.discard()


class _MemoryLines:
    """The files of one imported memory. A file is created with its first line."""

    def __init__(self, folder: Path, entry: Entry) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._entry = entry
        self._files: dict[str, OutputLines] = {}
        self._aggregate = Aggregate()

    def add(self, data: dict[str, Any]) -> None:
        """Write a line to its pipeline file, and with its `eval` to its record file."""
        ((kind, value),) = data.items()
        pipeline, records = _FILES[kind]
        row = {key: item for key, item in value.items() if key != "eval"}
        self._add_line(pipeline, row)
        if "eval" in value:
            self._add_line(records, value)
            # Other tools write null for a count that is not known. Its default is 0.
            verdicts = {key: item for key, item in value["eval"].items() if item is not None}
            # An eval in another form adds nothing here. The report has its numbers, see `publish`.
            with suppress(msgspec.ValidationError):
                if kind == "session":
                    verdicts.setdefault("session_id", row["session_id"])
                    self._aggregate.add_session(msgspec.convert(verdicts, SessionEval))
                else:
                    self._aggregate.add_question(msgspec.convert(verdicts, QaEval))

    def _add_line(self, name: str, value: dict[str, Any]) -> None:
        if name not in self._files:
            self._files[name] = OutputLines(self._folder / name)
        self._files[name].add(encode(value))

    def publish(self) -> list[Path]:
        """Give the files their names. A memory with verdicts or numbers of a judge has an aggregate file too."""
        paths = []
        for file in self._files.values():
            file.close()
            paths.append(file.publish())
        if any(metric.name in JUDGED for metric in self._entry.metrics):
            aggregate = self._aggregate.metrics(self._entry.name)
            fill_aggregate(aggregate, self._entry)
            paths.append(write_json(self._folder / AGGREGATE, aggregate))
        return paths

    def discard(self) -> None:
        """Delete the temporary files that were not published."""
        for file in self._files.values():
            file.discard()
