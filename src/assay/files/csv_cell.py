"""Cells of CSV files that nobody's spreadsheet executes. Answers and names in them are texts of others."""

from __future__ import annotations

import re

# Spreadsheets execute a cell that starts with one of these characters as a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def csv_cell(text: str) -> str:
    """Return a text with a quote before it if a spreadsheet would execute it as a formula. A number stays: `-1.5`."""
    if text.startswith(_FORMULA_STARTS) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text
