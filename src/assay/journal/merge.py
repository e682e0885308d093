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
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from assay.core.errors import DamagedRun, Problem, cannot_write
from assay.files import write
from assay.files.plain_files import is_plain
from assay.journal.folder import FILES, ROWS, RunInfo, free_start, run_name, write_info
from assay.journal.index import CALLS
from assay.journal.lines import JournalFile, advice, line_content, read_blocks
from assay.journal.repair import LINES_PER_WRITE, with_new_places
from assay.usercode.opened_files import CODE_FILES, CodeFile, CodeFiles

# The folder in which a merged run is made.
_WORK = ".merge"
# A line that commits other lines has this text. Others may have it in their data, which costs a decoding.
_COMMITS = b'"lines":['
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
            _copy_lines(source, file)
    finally:
        file.close()


def _copy_lines(source: Path, target: JournalFile) -> None:
    """Append the lines of a file. Lines that commit others get the new offsets of those."""
    # Where each line was, and where it is now. Calls refer to no line, so they need none.
    places, new_places = array("q"), array("q")
    is_calls = source.name == CALLS
    added = 0
    for begin, sizes, lines in read_blocks(source, _raw_lines):
        offset = begin
        for size, line in zip(sizes, lines, strict=True):
            content = line_content(bytes(line), offset)
            if is_calls:
                target.add_encoded(content)
            else:
                if _COMMITS in content:
                    moved = with_new_places(content, places, new_places)
                    if moved is None:
                        raise DamagedRun(_lost_line(source, offset))
                    content = moved
                places.append(offset)
                new_places.append(target.add_encoded(content))
            added += 1
            if added % LINES_PER_WRITE == 0:
                target.write()
            offset += size
    target.write()


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
