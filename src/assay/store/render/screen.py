"""Prints tables and lines on the terminal. Output to a pipe or file is plain text.

Texts of models, data files and endpoints pass through `safe`, because a terminal would obey control characters in
them. `protect_terminal` does it for everything else that a command prints.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TextIO
from unicodedata import combining, east_asian_width

import click

_WORD = re.compile("[A-Za-z]{3}")
# The styles of `click.style`: bold, dim, underlined, struck through, and colours.
_STYLE = re.compile(r"(\x1b\[(?:[01249]|3[0-7]|9[0-7])m)")


def table(header: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1) -> None:
    """Print a table. Columns are as wide as needed, numbers are aligned to the right.

    A table that is too wide for the terminal is printed in pieces, one below the other. Each piece repeats the first
    `names` columns, which name the rows.
    """
    lines = [[safe(cell) for cell in row] for row in (header, *rows)]
    columns = list(zip(*lines, strict=True))
    widths = [max(map(columns_of, column)) for column in columns]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for numbers in split_columns(widths, names, room):
        _print([columns[number] for number in numbers], [widths[number] for number in numbers])


def split_columns(widths: Sequence[int], names: int, room: int | None) -> list[list[int]]:
    """Return the column numbers of each piece of a table, so that each piece fits. A single column may be too wide."""
    first = list(range(min(names, len(widths))))
    lines = [first]
    for column in range(len(first), len(widths)):
        line = [*lines[-1], column]
        fits = room is None or sum(widths[number] + 2 for number in line) - 2 <= room
        if fits or len(lines[-1]) == len(first):
            lines[-1] = line
        else:
            lines.append([*first, column])
    return lines


def _print(columns: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
    right = [all(_is_number(cell) for cell in column[1:]) for column in columns]
    header, *lines = (_line(cells, widths, right) for cells in zip(*columns, strict=True))
    click.echo(click.style(header, bold=True) if sys.stdout.isatty() else header)
    click.echo("  ".join("─" * width for width in widths))
    for line in lines:
        click.echo(line)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = []
    for cell, width, to_right in zip(cells, widths, right, strict=True):
        space = " " * (width - columns_of(cell))
        padded.append(space + cell if to_right else cell + space)
    return "  ".join(padded).rstrip()


def columns_of(text: str) -> int:
    """Return the width of a text on a terminal: two columns for a Chinese character, none for a combining accent."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 1 + (east_asian_width(char) in "WF") for char in text)


def cut_cell(text: str, columns: int, *, middle: bool = False) -> str:
    """Return a text that is at most so many columns wide, with … in place of its end, or of its middle."""
    if columns_of(text) <= columns:
        return text
    end = ""
    if middle:
        end = _first_columns(text[::-1], (columns - 1) // 2)[::-1]
    return f"{_first_columns(text, columns - 1 - columns_of(end))}…{end}"


def _first_columns(text: str, columns: int) -> str:
    """Return as many characters from the start as fit."""
    for count, char in enumerate(text):
        columns -= columns_of(char)
        if columns < 0:
            return text[:count]
    return text


def _is_number(cell: str) -> bool:
    """Return whether a cell is empty or one number. Cells with several numbers are aligned to the left."""
    if not cell:
        return True
    # A run's name begins with a digit too.
    return (cell[0].isdigit() or cell[0] in "+-±–$") and " " not in cell and not _WORD.search(cell)


def counted(count: int, singular: str, plural: str = "") -> str:
    """Return `1 call`, `2 calls` or `1,000 retries`. The default plural adds an s."""
    return f"{count:,} {singular if count == 1 else plural or f'{singular}s'}"


def heading(text: str) -> None:
    """Print a heading."""
    click.echo(click.style(safe(text), bold=True))


def tell(text: str) -> None:
    """Print a message on stderr, so that it does not mix with results on stdout.

    A message that cannot be printed, as to a full disk, is dropped: it must not stop a run.
    """
    with suppress(OSError):
        click.echo(safe(text, keep="\n\t"), err=True)


def block(text: str, *, indent: str = "  ", max_chars: int | None = None) -> None:
    """Print a text of several lines, indented. A longer text is cut to `max_chars` characters."""
    clean = safe(text, keep="\n\t")
    if max_chars is not None and len(clean) > max_chars:
        clean = f"{clean[:max_chars]}… ({len(clean):,} characters)"
    for line in clean.split("\n"):
        click.echo(f"{indent}{line}")


def safe(text: str, keep: str = "") -> str:
    """Return the text without control characters, except those in `keep`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else "�" for char in text)


def protect_terminal() -> None:
    """Replace control characters in all that is printed on a terminal from now on. Styles, as of headings, stay."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and stream.isatty():
            setattr(sys, name, SafeTerminal(stream))


class SafeTerminal:
    """A terminal without control characters. A progress bar writes to its `stream`."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write a text. Its characters are those that `safe` leaves, and styles."""
        parts = _STYLE.split(text) if "\x1b" in text else [text]
        clean = "".join(part if _STYLE.match(part) else safe(part, keep="\n\t") for part in parts)
        if clean != text:
            # Not every terminal has the replacement character.
            encoding = self.stream.encoding or "utf-8"
            clean = clean.encode(encoding, "replace").decode(encoding)
        self.stream.write(clean)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


def stderr_for_bars() -> TextIO:
    """Return stderr for a progress bar, which moves the cursor. What it prints must be `safe` before."""
    return sys.stderr.stream if isinstance(sys.stderr, SafeTerminal) else sys.stderr


def rule() -> None:
    """Print a horizontal line."""
    click.echo("─" * min(100, shutil.get_terminal_size().columns))


def duration(seconds: float) -> str:
    """Return a duration such as `8.1 s`, `3 m 05 s` or `2 h 10 m`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} m"
