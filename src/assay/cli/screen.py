"""What people read on the terminal: tables and short lines, plain where the output is no terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

import click


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as needed; numbers to the right. Cells may hold names that others gave."""
    rows = [[safe(cell) for cell in row] for row in rows]
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [all(_numeric(cell) for cell in column[1:]) for column in columns]
    click.echo(
        click.style(_line(header, widths, right), bold=True)
        if sys.stdout.isatty()
        else _line(header, widths, right)
    )
    click.echo("  ".join("─" * width for width in widths))
    for row in rows:
        click.echo(_line(row, widths, right))


def _line(cells: Sequence[str], widths: list[int], right: list[bool]) -> str:
    padded = [
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    ]
    return "  ".join(padded).rstrip()


def _numeric(cell: str) -> bool:
    return not cell or cell[0].isdigit() or cell[0] in "+-±–"


def heading(text: str) -> None:
    """A line that begins a part; it may hold names that others gave."""
    click.echo(click.style(safe(text), bold=True))


def tell(text: str) -> None:
    """A message beside the results, on stderr; it may quote files and endpoints."""
    click.echo(safe(text, keep="\n\t"), err=True)


def block(text: str, *, indent: str = "  ", most: int | None = None) -> None:
    """A text of somebody else's, set apart and without control characters; cut if it is too long."""
    shown = safe(text, keep="\n\t")
    if most is not None and len(shown) > most:
        shown = f"{shown[:most]}… ({len(shown):,} characters)"
    for line in shown.split("\n"):
        click.echo(f"{indent}{line}")


def safe(text: str, keep: str = "") -> str:
    """A text of somebody else's without the control characters that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else "�" for char in text)


def rule() -> None:
    """A line across the screen."""
    click.echo("─" * min(100, shutil.get_terminal_size().columns))


def number(value: float | None) -> str:
    """Four digits, or nothing to show."""
    return "n/a" if value is None else f"{value:.4f}"


def duration(seconds: float) -> str:
    """`8.1 s`, `3 m 05 s`, `2 h 10 m`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} m"
