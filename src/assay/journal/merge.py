"""Makes one run folder of the folders of several shards.

    folder = create_merged_run(home, info, shards, code_files)      # a run folder without summary: not finished yet

All lines of all shards are copied, shard after shard, each with its new place and checksum. Every line is verified as
it is copied. The folder is made as `assay/.merge/NAME` and gets its place at the end by one rename: after a kill there
is no folder that looks like a run, and the next merge begins again.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from assay.core.errors import DamagedRun, Problem, cannot_write
from assay.files import write
from assay.files.plain_files import is_plain
from assay.journal.folder import free_start, run_name
from assay.journal.lines import JournalFile, UnchangedLine, advice, line_content, read_lines
from assay.journal.repair import copy_lines
from assay.journal.run_files import FILES, ROWS, RunInfo, write_info
from assay.usercode.opened_files import CODE_FILES, CodeFile, CodeFiles

# The folder in which a merged run is made.
_WORK = ".merge"
_raw_lines = msgspec.json.Decoder(msgspec.Raw)


def create_merged_run(home: Path, info: RunInfo, shards: Sequence[Path], code_files: Iterable[CodeFile]) -> Path:
    """Make a run folder with all lines of the shards. Raises DamagedRun at a damaged line, StopRun on a full disk.

    The caller holds `selection_lock(home)` and has called `remove_killed_merge`. `id` and `started` of `info` are set.
    """
    info.id = secrets.token_hex(8)
    info.started = free_start(home, info.started)
    target = home / run_name(info)
    work = home / _WORK / target.name  # of the same name: the checksums of code_files.jsonl contain it
    try:
        work.parent.mkdir(mode=write.FOLDER_MODE)
        work.mkdir(mode=write.FOLDER_MODE)
        for name in FILES:
            _merge_file([shard / name for shard in shards], work / name, info.id)
        CodeFiles(work / CODE_FILES, known=code_files)
        if is_plain(shards[0] / ROWS):
            shutil.copyfile(shards[0] / ROWS, work / ROWS, follow_symlinks=False)
            write.close_to_others(work / ROWS)
        write_info(work, info)
        work.rename(target)
        _sync_folder(home)
    except OSError as error:
        raise cannot_write(error.filename2 or error.filename or work, error) from error
    finally:
        remove_killed_merge(home)  # on a full disk, the room counts
    return target


def remove_killed_merge(home: Path) -> None:
    """Remove the folder in which a merge works, which a kill leaves behind. The caller holds `selection_lock(home)`."""
    shutil.rmtree(home / _WORK, ignore_errors=True)


def _merge_file(sources: Sequence[Path], target: Path, run: str) -> None:
    file = JournalFile(target, run=run)
    try:
        for source in sources:
            if left_out := copy_lines(_unchanged_lines(source), file):
                raise DamagedRun(_lost_line(source, left_out[0]))
    finally:
        file.close()


def _unchanged_lines(path: Path) -> Iterator[UnchangedLine]:
    for offset, line in read_lines(path, _raw_lines):
        yield UnchangedLine(offset, line_content(bytes(line), offset))


def _lost_line(path: Path, offset: int) -> Problem:
    what = f"the line at byte {offset} belongs to a case of which another line is missing"
    return Problem(str(path), f"{what}. {advice(path.parent)}")


def _sync_folder(path: Path) -> None:
    """Flush the names in a folder to the disk, so that a power cut does not undo a rename."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
