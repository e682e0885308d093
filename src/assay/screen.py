"""Tables and lines on the terminal: plain where the output is no terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from unicodedata import combining, east_asian_width

import click


def table(header: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1) -> None:
    """Columns as wide as needed; numbers to the right. Cells may hold names that others gave.

    On a terminal that is too narrow it comes in parts one below the other, each with the first columns,
    which name the rows.
    """
    lines = [[safe(cell) for cell in row] for row in (header, *rows)]
    columns = list(zip(*lines, strict=True))
    widths = [max(map(columns_of, column)) for column in columns]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for numbers in parts(widths, names, room):
        _print([columns[number] for number in numbers], [widths[number] for number in numbers])


def parts(widths: Sequence[int], names: int, room: int | None) -> list[list[int]]:
    """The numbers of the columns in each part of a table, so that a line fits. One column alone may be too wide."""
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
    """The width of a text on a terminal: two columns for a Chinese character, none for a combining accent."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 1 + (east_asian_width(char) in "WF") for char in text)


def _is_number(cell: str) -> bool:
    """Whether a cell is one number, or empty. Several numbers in a cell begin alike, so they stand to the left."""
    return " " not in cell and (not cell or cell[0].isdigit() or cell[0] in "+-±–")


def counted(count: int, one: str, many: str = "") -> str:
    """`1 call`, `2 calls`, `1,000 retries`; `many` where an s is not enough."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def heading(text: str) -> None:
    """A heading. It may hold names that others gave."""
    click.echo(click.style(safe(text), bold=True))


def tell(text: str) -> None:
    """A message on stderr, beside the results. It may quote files and endpoints."""
    click.echo(safe(text, keep="\n\t"), err=True)


def block(text: str, *, indent: str = "  ", most: int | None = None) -> None:
    """A text of a model or a file, indented and without control characters, cut after `most` characters."""
    shown = safe(text, keep="\n\t")
    if most is not None and len(shown) > most:
        shown = f"{shown[:most]}… ({len(shown):,} characters)"
    for line in shown.split("\n"):
        click.echo(f"{indent}{line}")


def safe(text: str, keep: str = "") -> str:
    """A text without control characters: a terminal would obey those of a model or a file."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else "�" for char in text)


def rule() -> None:
    """A line across the screen."""
    click.echo("─" * min(100, shutil.get_terminal_size().columns))


def number(value: float | None) -> str:
    """Four digits; `n/a` for a value that was not measured."""
    return "n/a" if value is None else f"{value:.4f}"


def duration(seconds: float) -> str:
    """`8.1 s`, `3 m 05 s`, `2 h 10 m`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} m"
