"""Writes the five files of a baseline, line by line. No file appears under its name before all are complete."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from assay.core.files import write_json
from assay.suites.memory_eval.eval_columns import Aggregate, SampleEvals
from assay.suites.memory_eval.recorded import QUESTIONS, SESSIONS
from assay.suites.memory_eval.row_source import SampleLines
from assay.suites.memory_eval.rows import QaEval, SessionEval, encode

SESSION_RECORDS, QA_RECORDS, AGGREGATE = "session_records.jsonl", "qa_records.jsonl", "aggregate_metrics.json"


class BaselineFiles:
    """The files of one baseline. Pipeline files that were read are not written again."""

    def __init__(self, folder: Path, baseline: str, *, writes_pipeline: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._baseline = baseline
        self._pipeline = (SESSIONS, QUESTIONS) if writes_pipeline else ()
        names = (*self._pipeline, SESSION_RECORDS, QA_RECORDS)
        self._files = {name: OutputLines(folder / name) for name in names}
        self._aggregate = Aggregate()

    def add_sample(self, lines: SampleLines, evals: SampleEvals) -> None:
        """Write the lines of a sample: as they are, and with their evals."""
        for line, session in zip(lines.sessions, evals.sessions, strict=True):
            self._add(SESSIONS, SESSION_RECORDS, line, session)
            self._aggregate.add_session(session)
        for line, question in zip(lines.questions, evals.questions, strict=True):
            self._add(QUESTIONS, QA_RECORDS, line, question)
            self._aggregate.add_question(question)

    def _add(self, pipeline: str, records: str, line: bytes, columns: SessionEval | QaEval) -> None:
        if pipeline in self._pipeline:
            self._files[pipeline].add(line)
        # The eval goes behind the line's last key.
        self._files[records].add(line[:-1] + b',"eval":' + encode(columns) + b"}")

    def close(self) -> dict[str, str]:
        """Bring all lines to the disk under temporary names; returns the hashes of the pipeline files."""
        for file in self._files.values():
            file.close()
        return {name: self._files[name].sha256 for name in self._pipeline}

    def appear(self) -> list[Path]:
        """Give all files their names, the aggregate last."""
        paths = [file.appear() for file in self._files.values()]
        metrics: dict[str, Any] = self._aggregate.metrics(self._baseline)
        return [*paths, write_json(self._folder / AGGREGATE, metrics)]

    def discard(self) -> None:
        """Leave nothing behind of files that did not become complete."""
        for file in self._files.values():
            file.discard()


class OutputLines:
    """One file under a temporary name, with the sha256 of its content."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._temporary = path.with_name(f".{path.name}.tmp")
        self._file: BinaryIO = self._temporary.open("wb")
        self._sha256 = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """The hash of all lines so far."""
        return self._sha256.hexdigest()

    def add(self, line: bytes) -> None:
        """Write one line."""
        for piece in (line, b"\n"):
            self._file.write(piece)
            self._sha256.update(piece)

    def close(self) -> None:
        """Bring everything to the disk, under the temporary name."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def appear(self) -> Path:
        """Give the file its name."""
        self._temporary.replace(self.path)
        return self.path

    def discard(self) -> None:
        """Remove the file, if it did not appear."""
        # On a full disk closing fails too: buffered bytes still do not fit.
        with suppress(OSError):
            self._file.close()
        self._temporary.unlink(missing_ok=True)
