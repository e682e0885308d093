"""What `assay check` returns of a file: as what it was checked, what is in it, and every problem.

FileCheck(kind="conversations with questions (memory test)", contents=contents({"conversation": 2}), problems=[])
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from assay.core.errors import Problem, similar_names

PRICES, REPLIES, RESULTS = "prices", "replies", "results"
"""What `--as` takes besides the name of a suite, for files that belong to no suite."""
FOLDER = "folder"
"""The kind of the check that sums up a folder."""
NOT_RUN = "Python of this file was not run; --run-code runs it and checks what it returns"


class CheckOptions(Struct, frozen=True, kw_only=True):
    """How a file is checked. `beside` is a second file that it belongs to, such as the pipeline of a testset.

    Without `run_code` no Python of the user is run, and nothing is downloaded.
    """

    beside: Path | None = None
    run_code: bool = False


class FileCheck(Struct, frozen=True, kw_only=True):
    """The check of one file or folder.

    `kind` names the format and, in brackets, the command that reads it. `contents` counts what is in the file.
    `notes` say what was not checked, and how to choose another format.
    """

    kind: str
    contents: str = ""
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def contents(counts: Mapping[str, int]) -> str:
    """Return `2 conversations, 1 question` for counts by singular noun."""
    return ", ".join(f"{count:,} {noun}{'s' * (count != 1)}" for noun, count in counts.items())


def nearest(name: str, names: list[str]) -> str:
    """Return the name that `name` is probably a misspelling of; empty if none is near."""
    return next(iter(similar_names(name, names)), "")


def did_you_mean(name: str, names: list[str]) -> str:
    """Return `; did you mean 'x'?` for a misspelled name, else a list of the right ones."""
    near = nearest(name, names)
    if near:
        return f"; did you mean {near!r}?"
    return f"; known: {', '.join(names)}" if names else ""
