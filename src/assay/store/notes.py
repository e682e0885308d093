"""Notes and tags that people give to runs: `notes.json` in the run folder.

    change_notes(folder, text="new prompt, see the discussion of May 3", add_tags=["baseline"])
    read_notes(folder).tags

They are no part of the run: no fingerprint covers them, and a start of the run neither reads nor writes them. So a
run that another process works on can have notes too, and so can an imported one.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct, field

from assay.core.errors import InputError, Problem, UsageError
from assay.files.plain_files import read_plain
from assay.files.write import write_json

FILE = "notes.json"
# A tag is typed in commands and stands in narrow columns.
_MAX_TAG = 40


class Note(Struct, frozen=True):
    """One note, and when it was written in seconds since 1970."""

    at: float
    text: str


class RunNotes(Struct, kw_only=True):
    """Everything that people wrote about a run: notes, oldest first, and tags in the order in which they came."""

    notes: list[Note] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)


def read_notes(folder: Path) -> RunNotes:
    """Return the notes and tags of a run; empty ones if it has none. Raises InputError for a file that is no notes."""
    path = folder / FILE
    try:
        return msgspec.json.decode(read_plain(path), type=RunNotes)
    except FileNotFoundError:
        return RunNotes()
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        advice = "mend or remove the file; the run itself does not need it"
        raise InputError(Problem(str(path), f"these are not notes of a run: {error}; {advice}")) from None


def notes_or_warning(folder: Path, warn: Callable[[str], object]) -> RunNotes:
    """Return the notes of a run. A file that cannot be read hides nothing else of the run: `warn` gets the message."""
    try:
        return read_notes(folder)
    except InputError as error:
        warn(str(error))
        return RunNotes()


def change_notes(
    folder: Path,
    *,
    text: str = "",
    add_tags: Collection[str] = (),
    remove_tags: Collection[str] = (),
    clear: bool = False,
) -> RunNotes:
    """Change the notes of a run and return them. `clear` removes all earlier notes and tags first.

    Raises UsageError for a tag that cannot be one, or that is to be removed and is not there.
    """
    for tag in add_tags:
        _refuse_bad_tag(tag)
    with _locked(folder):
        before = RunNotes() if clear else read_notes(folder)
        notes, tags = list(before.notes), dict.fromkeys(before.tags)
        for tag in remove_tags:
            if tag not in tags:
                there = f"it has: {', '.join(tags)}" if tags else "it has no tags"
                raise UsageError(f"the run {folder.name} has no tag {tag!r}; {there}")
            del tags[tag]
        tags |= dict.fromkeys(add_tags)
        if text.strip():
            notes.append(Note(round(time.time(), 3), text.strip()))
        after = RunNotes(notes=notes, tags=list(tags))
        path = folder / FILE
        try:
            if after.notes or after.tags:
                write_json(path, after)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    return after


def _refuse_bad_tag(tag: str) -> None:
    if not tag or len(tag) > _MAX_TAG or not tag.isprintable() or any(char.isspace() or char == "," for char in tag):
        raise UsageError(f"{tag!r} cannot be a tag: write one word without commas, at most {_MAX_TAG} characters")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the notes of a run: of two commands at once, the second one waits and adds to the notes of the first.

    The lock is on the folder, because the file `lock` belongs to the process that works on the run.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
