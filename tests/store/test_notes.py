"""Notes and tags of runs: whole or not at all, and no part of the run."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from assay.core.errors import InputError, UsageError
from assay.store.notes import change_notes, notes_or_warning, read_notes

from support.runs import run_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished run."""
    return run_of(tmp_path / "run", {"a": True})


def test_notes_grow_and_tags_are_a_set(folder: Path) -> None:
    """The file has nothing else, and no other file of the run changes."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    change_notes(folder, text="  first\nof two lines ", add_tags=["baseline", "paper"])
    notes = change_notes(folder, text="second", add_tags=["paper", "v2"], remove_tags=["baseline"])
    assert [note.text for note in notes.notes] == ["first\nof two lines", "second"]
    assert notes.tags == ["paper", "v2"]
    assert read_notes(folder) == notes
    written = json.loads((folder / "notes.json").read_text())
    assert written.keys() == {"notes", "tags"}
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "notes.json"} == before


def test_clear_leaves_no_file_behind(folder: Path) -> None:
    change_notes(folder, text="old", add_tags=["old"])
    assert change_notes(folder, clear=True, add_tags=["new"]).tags == ["new"]
    assert read_notes(folder).notes == []
    change_notes(folder, clear=True)
    assert not (folder / "notes.json").exists()


@pytest.mark.parametrize("tag", ["", "two words", "a,b", "tab\tstop", "x" * 41, "\x1b[2J"])
def test_a_tag_is_one_short_word(folder: Path, tag: str) -> None:
    with pytest.raises(UsageError, match="cannot be a tag"):
        change_notes(folder, add_tags=[tag])
    assert not (folder / "notes.json").exists()


def test_a_tag_that_is_not_there_cannot_be_removed(folder: Path) -> None:
    """A misspelt name would otherwise leave the tag in place, unnoticed."""
    change_notes(folder, add_tags=["paper"])
    with pytest.raises(UsageError, match="has no tag 'papre'; it has: paper"):
        change_notes(folder, remove_tags=["papre"])


@pytest.mark.parametrize("content", ["", "[1]", '{"tags": "x"}', '{"notes": [{"at": "now"}]}', "\udcff"])
def test_a_file_that_is_no_notes_is_named_and_never_overwritten(folder: Path, content: str) -> None:
    path = folder / "notes.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=r"notes\.json: these are not notes of a run"):
        change_notes(folder, text="more")
    assert path.read_bytes() == content.encode(errors="surrogateescape")
    warnings: list[str] = []
    assert notes_or_warning(folder, warnings.append).notes == []
    assert len(warnings) == 1


def test_two_people_at_once_lose_no_note(folder: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: change_notes(folder, text=str(number)), range(40)))
    assert sorted(int(note.text) for note in read_notes(folder).notes) == list(range(40))
