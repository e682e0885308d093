"""The pipeline files while a run is in progress: every sample is added to them as soon as its answers are there.

    files = CheckpointFiles(run_folder, gold, folders)
    if not files.has("bm25", "june"):
        files.add("bm25", "june", session_lines, question_lines)

A kill may cut off the sample that is being added. So `pipeline.json` in the run folder has the sizes and hashes of the
files without it: `--eval-only` reads no further, and the next sample is written over it. Samples stand in the order in
which they were answered; the end of the run writes the files anew, in the order of the data.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from assay.files.write import FILE_MODE, sync_data
from assay.suites.memory.eval.recorded import (
    PIPELINE_FILES,
    RecordedFiles,
    WrittenFiles,
    add_written_files,
    first_bytes,
    read_written_files,
)


class CheckpointFiles:
    """The pipeline files of all memories of a run that is not finished."""

    def __init__(self, run: Path, gold: str, folders: Mapping[str, Path]) -> None:
        self._run = run
        self._gold = gold
        self._is_begun = False
        earlier = read_written_files(run)
        written = _latest(earlier, gold, folders)
        # The run was finished once, and its files are gone: a later run has overwritten them.
        self._gives_way = written is None and any(not each.sizes for each in earlier)
        self._samples: dict[str, set[str]] = {name: set() for name in folders}
        self._files: dict[str, dict[str, _GrowingFile]] = {}
        for name, folder in folders.items():
            folder.mkdir(parents=True, exist_ok=True)
            sizes = dict.fromkeys(PIPELINE_FILES, 0)
            if written is not None:
                sizes = written.sizes.get(name) or {file: (folder / file).stat().st_size for file in PIPELINE_FILES}
                self._samples[name].update(RecordedFiles(folder, sizes).samples)
            self._files[name] = {file: _GrowingFile(folder / file, size) for file, size in sizes.items()}

    def has(self, memory: str, sample_id: str) -> bool:
        """Return whether the files have a sample, also from an earlier start. True if they are those of a later run."""
        return self._gives_way or sample_id in self._samples[memory]

    def add(self, memory: str, sample_id: str, sessions: Sequence[bytes], questions: Sequence[bytes]) -> None:
        """Add the lines of a sample to both files of a memory. Raises OSError if they cannot be written."""
        if not self._is_begun:
            self._begin()
        for name, lines in zip(PIPELINE_FILES, (sessions, questions), strict=True):
            self._files[memory][name].add(lines)
        self._note()
        self._samples[memory].add(sample_id)

    def _begin(self) -> None:
        """Make the files if they do not exist, and cut off what a kill has left."""
        # Noted first: a kill right after it must not leave files that no run knows.
        self._note()
        for files in self._files.values():
            for file in files.values():
                file.add(())
        self._is_begun = True

    def _note(self) -> None:
        written = WrittenFiles(self._gold, {}, {})
        for name, files in self._files.items():
            written.files[name] = {file: each.sha256.hexdigest() for file, each in files.items()}
            written.sizes[name] = {file: each.size for file, each in files.items()}
        add_written_files(self._run, written)


def _latest(earlier: Sequence[WrittenFiles], gold: str, folders: Mapping[str, Path]) -> WrittenFiles | None:
    """Return what the run wrote last, if the files are still there and are about the same gold."""
    for written in reversed(earlier):
        # Finished files are not given up before the new ones are finished, even if the gold has changed.
        if written.sizes and written.gold != gold:
            continue
        if all(written.has(name, folder / file) for name, folder in folders.items() for file in PIPELINE_FILES):
            return written
    return None


class _GrowingFile:
    """A file of whole lines: its first `size` bytes, and their SHA-256."""

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self.size = size
        self.sha256 = hashlib.sha256()
        if size:
            for piece in first_bytes(path, size):
                self.sha256.update(piece)

    def add(self, lines: Sequence[bytes]) -> None:
        """Write lines behind the first `size` bytes. Whatever stood there is lost."""
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        sha256, size = self.sha256.copy(), self.size
        try:
            os.ftruncate(fd, self.size)
            with os.fdopen(fd, "wb", closefd=False) as file:
                file.seek(self.size)
                for line in lines:
                    for piece in (line, b"\n"):
                        file.write(piece)
                        sha256.update(piece)
                        size += len(piece)
            sync_data(fd)
            self.size, self.sha256 = size, sha256
        except OSError:
            with suppress(OSError):  # the first error has the cause
                os.ftruncate(fd, self.size)
            raise
        finally:
            os.close(fd)
