from __future__ import annotations

import pytest

from assay.files.write import csv_cell


@pytest.mark.parametrize("text", ["=1+1", "+a", "-x", "@SUM(A1)", "\tx", "\r=1", "-1+cmd()", "+1 2", "-", "--1"])
def test_a_cell_that_a_spreadsheet_would_execute_gets_a_quote(text: str) -> None:
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "a=1", "-1.5", "+3", "-2e-05", "'=1", " =1"])
def test_numbers_and_other_texts_stay(text: str) -> None:
    assert csv_cell(text) == text
