"""Writes the five files of a memory, line by line.

Lines go to temporary files first. The files get their names only when all of them are complete, so a run that is killed
leaves no half-written file.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from assay.files.write import open_new, write_json
from assay.suites.memory.eval.eval_columns import Aggregate, SampleEvals
from assay.suites.memory.eval.recorded import QUESTIONS, SESSIONS
from assay.suites.memory.eval.result_lines import QaEval, SessionEval, encode
from assay.suites.memory.eval.sample_source import SampleLines

SESSION_RECORDS, QA_RECORDS, AGGREGATE = "session_records.jsonl", "qa_records.jsonl", "aggregate_metrics.json"


class MemoryFiles:
    """The output files of one memory. With `writes_pipeline=False` only the record files and the aggregate."""

    def __init__(self, folder: Path, memory: str, *, writes_pipeline: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._memory = memory
        self._pipeline = (SESSIONS, QUESTIONS) if writes_pipeline else ()
        names = (*self._pipeline, SESSION_RECORDS, QA_RECORDS)
        self._files = {name: OutputLines(folder / name) for name in names}
        # Of the pipeline files only: `--eval-only` recognises them by their content.
        self._sha256 = {name: hashlib.sha256() for name in self._pipeline}
        self._aggregate = Aggregate()

    def add_sample(self, lines: SampleLines, evals: SampleEvals) -> None:
        """Write the lines of a sample to the pipeline files, and with their evals to the record files."""
        for line, session in zip(lines.sessions, evals.sessions, strict=True):
            self._add(SESSIONS, SESSION_RECORDS, line, session)
            self._aggregate.add_session(session)
        for line, question in zip(lines.questions, evals.questions, strict=True):
            self._add(QUESTIONS, QA_RECORDS, line, question)
            self._aggregate.add_question(question)

    def _add(self, pipeline: str, records: str, line: bytes, columns: SessionEval | QaEval) -> None:
        if pipeline in self._pipeline:
            self._files[pipeline].add(line)
            self._sha256[pipeline].update(line)
            self._sha256[pipeline].update(b"\n")
        # The eval is appended to the JSON object as bytes, so that all other keys stay exactly as in the pipeline file.
        # A session line has all memories of a long conversation, so it is cut without a copy.
        self._files[records].add(memoryview(line)[:-1], b',"eval":' + encode(columns) + b"}")

    def close(self) -> dict[str, str]:
        """Flush the temporary files to disk. Returns the sha256 of the pipeline files."""
        for file in self._files.values():
            file.close()
        return {name: sha256.hexdigest() for name, sha256 in self._sha256.items()}

    def publish(self) -> list[Path]:
        """Rename the temporary files to their final names, and write the aggregate last."""
        paths = [file.publish() for file in self._files.values()]
        metrics: dict[str, Any] = self._aggregate.metrics(self._memory)
        return [*paths, write_json(self._folder / AGGREGATE, metrics)]

    def discard(self) -> None:
        """Delete the temporary files that were not published."""
        for file in self._files.values():
            file.discard()


class OutputLines:
    """One temporary output file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._temporary = path.with_name(f".{path.name}.tmp")
        self._file: BinaryIO = open_new(self._temporary)

    def add(self, *pieces: bytes | memoryview) -> None:
        """Write one line, which may come in pieces, and a line break."""
        self._file.writelines((*pieces, b"\n"))

    def close(self) -> None:
        """Flush all lines to disk and close the file."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def publish(self) -> Path:
        """Rename the temporary file to its final name."""
        self._temporary.replace(self.path)
        return self.path

    def discard(self) -> None:
        """Delete the temporary file, if it was not published."""
        # On a full disk even closing fails, because it flushes the buffer.
        with suppress(OSError):
            self._file.close()
        self._temporary.unlink(missing_ok=True)
