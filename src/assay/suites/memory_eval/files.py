"""Writes the five files of a baseline: line by line, and none appears before it is whole."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from assay.core.files import write_json
from assay.suites.memory_eval.pipelines import QUESTIONS, SESSIONS
from assay.suites.memory_eval.rows import QaEval, SessionEval, encode

SESSION_RECORDS, QA_RECORDS, AGGREGATE = "session_records.jsonl", "qa_records.jsonl", "aggregate_metrics.json"


class Lines:
    """One file under a temporary name, with the sha256 of what is in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._temporary = path.with_name(f".{path.name}.tmp")
        self._file: BinaryIO = self._temporary.open("wb")
        self._sha = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """Of all lines so far."""
        return self._sha.hexdigest()

    def add(self, line: bytes) -> None:
        """One line."""
        for piece in (line, b"\n"):
            self._file.write(piece)
            self._sha.update(piece)

    def close(self) -> None:
        """All is on the disk, under the temporary name."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def appear(self) -> Path:
        """Under its own name."""
        self._temporary.replace(self.path)
        return self.path

    def vanish(self) -> None:
        """As if it had not been written."""
        with suppress(OSError):  # what waits to be written does not fit on a full disk now either
            self._file.close()
        self._temporary.unlink(missing_ok=True)


class Files:
    """The files of one baseline; the pipeline files only where they are made and not read."""

    def __init__(self, folder: Path, *, writes: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._stages = (SESSIONS, QUESTIONS) if writes else ()
        self._lines = {name: Lines(folder / name) for name in (*self._stages, SESSION_RECORDS, QA_RECORDS)}

    def session(self, line: bytes, found: SessionEval) -> None:
        """One session: its line without an eval, and the eval."""
        self._row(SESSIONS, SESSION_RECORDS, line, found)

    def question(self, line: bytes, found: QaEval) -> None:
        """One question."""
        self._row(QUESTIONS, QA_RECORDS, line, found)

    def _row(self, stage: str, final: str, line: bytes, found: Struct) -> None:
        if stage in self._stages:
            self._lines[stage].add(line)
        self._lines[final].add(line[:-1] + b',"eval":' + encode(found) + b"}")

    def close(self) -> dict[str, str]:
        """All lines are on the disk, under temporary names; gives the pipeline files by content."""
        for lines in self._lines.values():
            lines.close()
        return {name: self._lines[name].sha256 for name in self._stages}

    def appear(self, aggregate: dict[str, Any]) -> list[Path]:
        """All files under their own names, the aggregate last."""
        written = [lines.appear() for lines in self._lines.values()]
        return [*written, write_json(self._folder / AGGREGATE, aggregate)]

    def vanish(self) -> None:
        """Leave nothing behind of files that did not become whole."""
        for lines in self._lines.values():
            lines.vanish()
