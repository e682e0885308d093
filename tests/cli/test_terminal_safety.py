"""Texts of endpoints, models and data reach a terminal without control characters."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from assay.runner.progress import Bar
from assay.store.render.screen import SafeTerminal

from support.runs import run_of
from support.terminal import Terminal

# Clears the screen, sets the title, moves the cursor, turns the direction of the text.
HOSTILE = "a\x1b[2Jb\x1b]0;title\x07c\x9b1Ad\re\u202ef"
CLEAN = "a�[2Jb�]0;title�c�1Ad�e�f"


def test_a_terminal_keeps_styles_and_replaces_other_control_characters() -> None:
    stream = io.StringIO()
    terminal = SafeTerminal(stream)
    terminal.write(f"\x1b[1mheading\x1b[0m\t{HOSTILE}\n")
    terminal.writelines(["中文\n"])
    assert stream.getvalue() == f"\x1b[1mheading\x1b[0m\t{CLEAN}\n中文\n"


def test_a_terminal_without_the_replacement_character_gets_a_question_mark() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="latin-1", write_through=True)
    SafeTerminal(stream).write("é\x1b[2J")
    stream.seek(0)
    assert stream.read() == "é?[2J"


def test_a_note_above_the_bar_has_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    Bar().note(f"waiting 3 s: {HOSTILE}")
    assert CLEAN in capsys.readouterr().err


@pytest.mark.parametrize("format_name", ["csv", "json", "table"])
def test_a_command_prints_no_control_characters_on_a_terminal(tmp_path: Path, format_name: str) -> None:
    folder = run_of(tmp_path / "run", {"a": True})
    query = "select 'begin' || chr(27) || '[2J' || 'end' as x"
    with Terminal("sql", query, str(folder), "--format", format_name, cwd=tmp_path) as terminal:
        terminal.wait_for("end")
        assert "\x1b[2J" not in terminal.raw
