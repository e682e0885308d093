"""Runs with forged lines: their checksums match, and their content has a form that no suite writes.

forge(run, "scores.jsonl", 3, lambda line: line | {"data": []})
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from assay.journal.lines import JournalFile, forget_sidecars
from assay.journal.run_files import journal_sizes, read_summary, write_summary

Line = dict[str, Any]
Change = Callable[[Line], Any]


def lines_of(run: Path, file: str) -> list[Line]:
    """Return the lines of a journal file after its header, without place and checksum."""
    lines = [json.loads(line) for line in (run / file).read_text().splitlines()[1:]]
    return [{key: value for key, value in line.items() if key not in ("at", "crc")} for line in lines]


def forge(run: Path, file: str, number: int, change: Change) -> None:
    """Change one line of a journal file as somebody who knows the format would: places and checksums match again.

    `change` returns the new line: a JSON value, or its text.
    """
    path = run / file
    header, *raw = [json.loads(line) for line in path.read_text().splitlines()]
    path.unlink()
    journal = JournalFile(path, run=header["run"])
    moved: dict[int, int] = {}
    for place, line in enumerate(raw):
        at = line.pop("at")
        del line["crc"]
        for commit in (line, line.get("end", {})):
            if "lines" in commit:
                commit["lines"] = [moved[offset] for offset in commit["lines"]]
        value = change(line) if place == number else line
        moved[at] = journal.add_encoded((value if isinstance(value, str) else json.dumps(value)).encode())
    journal.write()
    journal.close()
    forget_sidecars(run)
    summary = read_summary(run)
    assert summary is not None
    write_summary(run, replace(summary, journal=journal_sizes(run)))
