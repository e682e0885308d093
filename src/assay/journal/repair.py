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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from assay.core.errors import cannot_write
from assay.core.types import ASK, Call, Commit, End, Failure, Record, Score
from assay.journal.index import CALLS, RECORDS, SCORES, RunIndex
from assay.journal.lines import (
    DamagedLine,
    Header,
    JournalFile,
    place_of,
    read_blocks,
    read_header,
    run_id,
    seed,
)

DAMAGED = "damaged"
"""Folder in the run folder that keeps damaged journal files."""

# Damaged lines that the notices list by name. A missing line displaces all lines after it.
_MAX_LISTED = 5
_decoder = msgspec.json.Decoder(Call | Record | Score | End | Header)
Line = Call | Record | Score | End


class Repair(NamedTuple):
    """The damage of one file, and where the damaged file is kept."""

    damage: list[DamagedLine]
    kept: Path


def repair_notices(repairs: Sequence[Repair]) -> list[str]:
    """Return the sentences that tell the user what was damaged, and what happens now."""
    notices = []
    for damage, kept in repairs:
        notices += [str(line) for line in damage[:_MAX_LISTED]]
        count = "1 damaged line" if len(damage) == 1 else f"{len(damage):,} damaged lines"
        notices.append(
            f"{damage[0].path.name} had {count}. The damaged file is kept as {kept}. assay goes on with the intact "
            "lines, and runs or scores again only the cases of changed lines"
        )
    return notices


def repair(folder: Path, index: RunIndex) -> list[Repair]:
    """Rewrite each journal file in which `index` has damage. Raises StopRun if the disk is full.

    Only the process that holds the run's lock may call it.
    """
    by_path: dict[Path, list[DamagedLine]] = {}
    for line in index.damage.values():
        by_path.setdefault(line.path, []).append(line)
    run = run_id(folder) or _run_of_headers(folder)
    repairs = []
    for path, damage in by_path.items():
        try:
            repairs.append(Repair(damage, _rewrite(path, run)))
        except OSError as error:
            raise cannot_write(path, error) from error
    if any(path.name == RECORDS for path in by_path):
        _reopen_cases(folder, run)
    return repairs


def _run_of_headers(folder: Path) -> str:
    """Return the run's id from the header of any journal file, for a run whose `run.json` is damaged too."""
    for name in (CALLS, RECORDS, SCORES):
        damage: list[DamagedLine] = []
        if (folder / name).is_file():
            header = read_header(folder / name, damage=damage)
            if not damage:
                return header.run
    return ""


def _rewrite(path: Path, run: str) -> Path:
    """Replace a file by one with its intact lines, in the order in which they were written. Keeps the old file."""
    work, damaged = path.parent / ".repair", path.parent / DAMAGED
    shutil.rmtree(work, ignore_errors=True)  # an earlier repair was killed
    work.mkdir()
    damaged.mkdir(exist_ok=True)
    target = JournalFile(work / path.name, run=run)
    places: dict[int, int] = {}
    added = 0
    for place, line in _intact_lines(path, run):
        moved = _with_new_places(line, places)
        if moved is None:
            continue  # one of the lines that it commits is lost
        places[place] = target.add(moved)
        added += 1
        if added % 1000 == 0:
            target.write()
    target.write()
    target.close()
    kept = damaged / f"{path.stem}-{len(list(damaged.iterdir())) + 1}.jsonl"
    # The old file gets a second name before the new one takes its place, so a kill between the two loses nothing.
    os.link(path, kept)
    (work / path.name).replace(path)
    work.rmdir()
    return kept


def _intact_lines(path: Path, run: str) -> Iterator[tuple[int, Line]]:
    """Yield (place, line) of every unchanged line in the order of their places. Copies of a line are left out."""
    start = seed(run, path.stem)
    found: dict[int, tuple[int, int]] = {}
    with path.open("rb") as file:
        offset = 0
        for raw in file:
            place = place_of(raw.rstrip(b"\n"), start)
            if place:  # not 0: the header is written anew
                found.setdefault(place, (offset, len(raw)))
            offset += len(raw)
        for place in sorted(found):
            offset, size = found[place]
            file.seek(offset)
            line = _decoder.decode(file.read(size))
            if not isinstance(line, Header):
                yield place, line


def _with_new_places(line: Line, places: dict[int, int]) -> Line | None:
    """Return the line with the new offsets of the lines that it commits; None if one of them is lost."""
    if isinstance(line, Call):
        return line
    commit: Commit | End | None = line if isinstance(line, End) else line.end
    if commit is None:
        return line
    if not all(place in places for place in commit.lines):
        return None
    lines = [places[place] for place in commit.lines]
    if isinstance(line, End):
        return replace(line, lines=lines)
    return replace(line, end=replace(commit, lines=lines))


def _reopen_cases(folder: Path, run: str) -> None:
    """Mark the cases whose last try lost its end.

    An earlier try of such a case may have an end that was superseded. Calls and scores of a later try show it. The
    case gets the end `infra_error` for that later try, so the next start runs it again.
    """
    last_end: dict[int, End | Record] = {}
    for _, line in _lines(folder / RECORDS):
        if isinstance(line, End) or (isinstance(line, Record) and line.end is not None):
            last_end[line.index] = line
    later: dict[int, int] = {}
    for name in (CALLS, SCORES):
        for _, line in _lines(folder / name):
            end = last_end.get(line.index)
            if end is None or (isinstance(line, Call) and line.stage != ASK):
                continue
            tried = line.end.try_ if isinstance(line, Score) and line.end else 0
            if isinstance(line, (Call, End)):
                tried = line.try_
            if tried > _try_of(end):
                later[line.index] = max(tried, later.get(line.index, 0))
    if not later:
        return
    file = JournalFile(folder / RECORDS, run=run)
    failure = Failure("damaged", "the end of this case was damaged in records.jsonl")
    for index, tried in later.items():
        end = last_end[index]
        file.add(End(end.index, end.case, end.set, end.subject, ASK, tried, "infra_error", [], failure))
    file.write()
    file.close()


def _try_of(line: End | Record) -> int:
    return line.end.try_ if isinstance(line, Record) and line.end else line.try_


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    if path.is_file():
        for begin, sizes, lines in read_blocks(path, _decoder, damage=[]):
            offset = begin
            for size, line in zip(sizes, lines, strict=True):
                yield offset, line
                offset += size
