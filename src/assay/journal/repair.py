"""Repairs a journal with damaged lines: keeps every intact line, and the damaged file beside.

    index = RunIndex.of_run(folder)
    if index.damage:
        repairs = repair(folder, index)  # then build the index again

A line that was changed is dropped. A line that was moved or displaced is intact and returns to its place. The case of
a dropped line has no end any more, so the next start runs or scores it again; replies that are still in `calls.jsonl`
are not requested again. A dropped call of a case that has ended costs nothing: the records of the case are intact.
"""

from __future__ import annotations

import os
import shutil
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from assay.core.errors import DamagedRun, Problem, cannot_write
from assay.core.types import ASK, Call, End, Failure, Record, Score
from assay.files.plain_files import is_plain, open_plain_file
from assay.journal.index import RunIndex
from assay.journal.line_types import CALLS, RECORDS, SCORES, WHOLE_LINES
from assay.journal.lines import (
    MAX_LISTED,
    NO_LINE,
    DamagedLine,
    JournalFile,
    UnchangedLine,
    read_blocks,
    run_id,
    seed,
    unchanged_line,
)

DAMAGED = "damaged"
"""Folder in the run folder that keeps damaged journal files."""

# Lines of a new file that are written at once.
_LINES_PER_WRITE = 1000
# A line that commits other lines has this text. Others may have it in their data, which costs a decoding.
_COMMITS = b'"lines"'


class Repair(NamedTuple):
    """The damage of one file, and where the damaged file is kept."""

    damage: list[DamagedLine]
    kept: Path


def repair_notices(repairs: Sequence[Repair]) -> list[str]:
    """Return the sentences that tell the user what was damaged, and what happens now."""
    notices = []
    for damage, kept in repairs:
        notices += [str(line) for line in damage[:MAX_LISTED]]
        count = "1 damaged line" if len(damage) == 1 else f"{len(damage):,} damaged lines"
        notices.append(
            f"{damage[0].path.name} had {count}. The damaged file is kept as {kept}. assay goes on with the intact "
            "lines, and runs or scores again only the cases of changed lines"
        )
    return notices


def repair(folder: Path, index: RunIndex) -> list[Repair]:
    """Rewrite each journal file in which `index` has damage. Raises StopRun if the disk is full.

    Raises DamagedRun for a whole file of another run: two files were mixed up, and the right one probably still exists.
    Only the process that holds the run's lock may call it.
    """
    damage: dict[Path, list[DamagedLine]] = {}
    for line in index.damage.values():
        damage.setdefault(line.path, []).append(line)
    run = run_id(folder)
    lines = {path: _unchanged_lines(path, seed(run, path.stem)) for path in damage}
    for path, damaged_lines in damage.items():
        if damaged_lines[0].what == "foreign" and not lines[path].places:
            message = (
                "the file belongs to another run, or is another file of this run. Put the right file back; or delete "
                "this one and repeat the command of the run, which goes on without its lines"
            )
            raise DamagedRun(Problem(str(path), message))
    repairs = []
    for path, damaged_lines in damage.items():
        try:
            repairs.append(Repair(damaged_lines, _rewrite(path, run, lines[path])))
        except OSError as error:
            raise cannot_write(path, error) from error
    if any(path.name == RECORDS for path in damage):
        reopen_cases(folder)
    return repairs


class _UnchangedLines(NamedTuple):
    """The unchanged lines of a file: where each was written, in ascending order, and where it is now."""

    places: array[int]
    offsets: array[int]


def _unchanged_lines(path: Path, start: int) -> _UnchangedLines:
    """Find the unchanged lines after the header. Of several copies of a line, the first one counts."""
    lines = _UnchangedLines(array("q"), array("q"))
    offset = 0
    with open_plain_file(path) as file:
        for raw in file:
            line = unchanged_line(raw.rstrip(b"\n"), start)
            # The header, at 0, is written anew.
            if line is not None and line.place > 0 and not _is_forged(line.content, path.name):
                lines.places.append(line.place)
                lines.offsets.append(offset)
            offset += len(raw)
    order = sorted(range(len(lines.places)), key=lines.places.__getitem__)
    in_order = _UnchangedLines(array("q"), array("q"))
    for number in order:
        if not in_order.places or in_order.places[-1] != lines.places[number]:
            in_order.places.append(lines.places[number])
            in_order.offsets.append(lines.offsets[number])
    return in_order


def _is_forged(content: bytes, file: str) -> bool:
    """Return whether a line has a matching checksum and a content that assay does not write."""
    try:
        WHOLE_LINES[file].decode(content)
    except NO_LINE:
        return True
    return False


def _rewrite(path: Path, run: str, lines: _UnchangedLines) -> Path:
    """Replace a file by one with these lines, in the order in which they were written. Returns the kept old file."""
    work = path.parent / ".repair"
    shutil.rmtree(work, ignore_errors=True)  # an earlier repair was killed
    work.mkdir()
    target = JournalFile(work / path.name, run=run)
    copy_lines(_read_again(path, seed(run, path.stem), lines.offsets), target)
    target.close()
    kept = _keep(path)
    (work / path.name).replace(path)
    work.rmdir()
    return kept


def _read_again(path: Path, start: int, offsets: Iterable[int]) -> Iterator[UnchangedLine]:
    with open_plain_file(path) as file:
        for offset in offsets:
            file.seek(offset)
            line = unchanged_line(file.readline().rstrip(b"\n"), start)
            if line is not None:
                yield line


def _keep(path: Path) -> Path:
    """Give a damaged file a second name in the folder `damaged`. A kill before its replacement loses nothing."""
    folder = path.parent / DAMAGED
    folder.mkdir(exist_ok=True)
    number = 1
    while (kept := folder / f"{path.stem}-{number}.jsonl").exists():
        number += 1
    try:
        os.link(path, kept)
    except OSError:  # a file system without hard links
        shutil.copyfile(path, kept)
    return kept


def copy_lines(lines: Iterable[UnchangedLine], target: JournalFile) -> list[int]:
    """Append lines of a journal file, which come in the order of their places, to another one.

    A line that commits others gets the new places of those. It is left out if one of them is not in the target.
    Returns the places of the lines that were left out.
    """
    places, new_places = array("q"), array("q")
    left_out: list[int] = []
    for number, line in enumerate(lines, 1):
        content: bytes | None = line.content
        if _COMMITS in line.content and target.name != CALLS:
            content = _with_new_places(line.content, places, new_places)
        if content is None:
            left_out.append(line.place)
        else:
            places.append(line.place)
            new_places.append(target.add_encoded(content))
        if number % _LINES_PER_WRITE == 0:
            target.write()
    target.write()
    return left_out


def _with_new_places(content: bytes, places: array[int], new_places: array[int]) -> bytes | None:
    """Return the line with the new places of the lines that it commits; None if one of them has none."""
    try:
        line = _decode_line(content)
    except NO_LINE:
        return None
    commit = line if isinstance(line, End) else line.end
    if commit is None or not commit.lines:
        return content
    new = []
    for place in commit.lines:
        number = bisect_left(places, place)
        # A commit follows its lines, so their new places are known.
        if number == len(places) or places[number] != place:
            return None
        new.append(new_places[number])
    commit = replace(commit, lines=new)
    return msgspec.json.encode(commit if isinstance(line, End) else replace(line, end=commit))


_decode_line = msgspec.json.Decoder(Record | Score | End).decode


def reopen_cases(folder: Path) -> None:
    """Mark the cases whose last try lost its end in `records.jsonl`.

    An earlier try of such a case may have an end that was superseded. Calls and scores of a later try show it. The
    case gets the end `infra_error` for that later try, so the next start runs it again.
    """
    last_tries = array("l")
    for line in _lines(folder / RECORDS):
        if try_ := _ended_try(line):
            last_tries.extend([0] * (line.index + 1 - len(last_tries)))
            last_tries[line.index] = max(last_tries[line.index], try_)
    lost: dict[int, End] = {}
    failure = Failure("damaged", "the end of this case was damaged in records.jsonl")
    for name in (CALLS, SCORES):
        for line in _lines(folder / name):
            if not 0 <= line.index < len(last_tries) or (isinstance(line, Call) and line.stage != ASK):
                continue
            try_ = line.try_ if isinstance(line, Call) else _ended_try(line)
            known = lost[line.index].try_ if line.index in lost else last_tries[line.index]
            if known and try_ > known:
                head = (line.index, line.case, line.set, line.subject)
                lost[line.index] = End(*head, ASK, try_, "infra_error", [], failure)
    if not lost:
        return
    file = JournalFile(folder / RECORDS)
    for end in lost.values():
        file.add(end)
    file.write()
    file.close()


def _ended_try(line: Call | Record | Score | End) -> int:
    """Return the number of the try that a line of records or scores ends, or 0 if it ends none."""
    if isinstance(line, End):
        return line.try_
    return line.end.try_ if not isinstance(line, Call) and line.end is not None else 0


def _lines(path: Path) -> Iterator[Call | Record | Score | End]:
    if is_plain(path):
        for _, _, lines in read_blocks(path, WHOLE_LINES[path.name], damage=[]):
            yield from lines
