"""Finds out whether the journal of a run is as assay wrote it, before anybody believes it.

    index = intact_index(folder, summary)  # raises DamagedRun

Three things together find all damage: every line has its place and its checksum, `summary.json` has the sizes of the
three files, and `run.json` has the id of the run, on which all checksums depend. `assay.store.check` does more: it
lists every problem of a folder, and also compares the files with each other.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from assay.core.errors import DamagedRun, Problem
from assay.files.plain_files import PUBLISHED, open_plain_file, plain_problem, read_plain
from assay.journal.index import RunIndex
from assay.journal.lines import advice, damage_error
from assay.journal.run_files import (
    FILES,
    MAX_HEADER,
    ROWS,
    Summary,
    check_owner,
    journal_sizes,
    read_info,
    result_digests,
    usable_summary,
)

FINAL_STATES = frozenset({"finished", "incomplete", "stopped"})
"""States in which no process has written to the run folder since it wrote summary.json."""


def intact_index(folder: Path, summary: Summary | None) -> RunIndex:
    """Return the index of a run. Raises DamagedRun if the journal is damaged."""
    index = RunIndex.of_run(folder)
    refuse_damage(folder, summary, index)
    return index


def refuse_damage(folder: Path, summary: Summary | None, index: RunIndex) -> None:
    """Raise DamagedRun if the journal of a run is damaged: its numbers would be other ones. Every reader calls this.

    Lines that a sidecar of the index covers were not read now. They were intact when the sidecar was made, so its
    numbers are those that were measured, and each line is verified again when its text is read.
    """
    check_owner(folder, read_info(folder))
    refuse_lost_lines(folder, summary)
    if index.damage:
        raise damage_error(list(index.damage.values()))


def refuse_lost_lines(folder: Path, summary: Summary | None) -> None:
    """Raise DamagedRun if the sizes of the files show that lines of the journal are missing."""
    # No command of the run repairs these, so its advice is not for them.
    unplain = [problem for name in FILES if (problem := plain_problem(folder / name)) is not None]
    if unplain:
        raise DamagedRun(unplain)
    problems = file_problems(folder, summary)
    # A start of the run may have begun between the reading of the summary and of the sizes.
    if problems and (summary is None or usable_summary(folder) == summary):
        last = problems.pop()
        raise DamagedRun([*problems, Problem(last.where, f"{last.message}. {advice(folder)}")])


def is_damaged(folder: Path, summary: Summary | None) -> bool:
    """Return whether a command that continues the run has something to repair."""
    if published_problem(folder) is not None:
        return True
    digest = summary.digests.get(ROWS) if summary else None
    if digest is not None and result_digests(folder).get(ROWS) != digest:
        return True
    return bool(file_problems(folder, summary) or RunIndex.of_run(folder).damage)


def published_problem(folder: Path) -> Problem | None:
    """Return what is wrong with `pipeline.json`, which has no checksum; None if the run has none or it is JSON."""
    path = folder / PUBLISHED
    try:
        msgspec.json.decode(read_plain(path), type=msgspec.Raw)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        message = "the file was cut or changed: it is no JSON. Repeat the command of the run, which writes it again"
        return Problem(str(path), message)
    return None


def file_problems(folder: Path, summary: Summary | None) -> list[Problem]:
    """Return the problems of the journal that show without reading its lines: missing, emptied and cut files.

    A file of an unfinished run that ends early is no problem: the run was interrupted.
    """
    sizes = journal_sizes(folder)
    written = summary.journal if summary is not None and summary.state in FINAL_STATES else {}
    may_grow = summary is not None and summary.scoring_again
    problems = []
    for name in FILES:
        if (problem := plain_problem(folder / name)) is not None:
            problems.append(problem)
            continue
        size = sizes.get(name)
        before = written.get(name, size)
        if size is None or before is None:
            message = "the file is missing"
        elif size == 0 and max(sizes.values()) > MAX_HEADER:
            message = "the file is empty, although the run has lines in other files"
        elif size < before:
            message = f"the file ends at byte {size}, but it had {before} bytes: lines are missing"
        elif size > before and may_grow:
            continue
        elif size > before:
            message = f"the file has {size} bytes, but it had {before}: something was added after the run"
        elif name in written and not _ends_with_line_break(folder / name):
            message = "the last line of the file was changed after it was written: its line break is missing"
        else:
            continue
        problems.append(Problem(str(folder / name), message))
    return problems


def _ends_with_line_break(path: Path) -> bool:
    with open_plain_file(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return size == 0 or file.read() == b"\n"
