"""Every example line of the document, its `...` filled in, is read as the document says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.suites.hop.batch_lines import view_record
from assay.suites.hop.contract import Contract
from assay.suites.hop.rows import RowFile, read_rows

from support.hop_document import FLAT_SHORT, GENERAL, META, RESULT, VERIFY, VIEW, VIEW_SHORT


def rows_of(tmp_path: Path, *lines: str, contract: Contract | None = None) -> RowFile:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read_rows(path, contract)


@pytest.mark.parametrize(
    ("line", "fields", "expected"),
    [
        (GENERAL, {"question": "q"}, {"answer": True}),
        (
            VERIFY[0],
            {"context_window": "A公司2023年营收120亿元", "model_output": "A公司2023年营收200亿元"},
            {"hallucination_detected": True},
        ),
        (
            VERIFY[1],
            {"context_window": "B公司成立于2010年", "model_output": "B公司成立于2010年"},
            {"hallucination_detected": False},
        ),
        (FLAT_SHORT, {"question": "..."}, {}),
        (VIEW_SHORT, {"question": "..."}, {}),
        (RESULT, {"context_window": "...", "model_output": "..."}, {}),
        (VIEW[0], {"question": "HOP 是什么？"}, {}),
        (VIEW[1], {"question": "fail case"}, {}),
    ],
)
def test_every_line_of_the_document_is_read(
    tmp_path: Path, line: str, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    """As an input, whichever form it has; a meta line above it is no row."""
    (row,) = rows_of(tmp_path, META, line).rows
    assert (row.fields, row.expected) == (fields, expected)
    assert row.id == (1 if '"id"' in line and '"id": 2' not in line else row.id)


def test_the_verify_rows_fit_their_contract(tmp_path: Path) -> None:
    """Nothing is missing, so nothing is said."""
    contract = Contract(inputs={"context_window": "string", "model_output": "string"})
    rows = rows_of(tmp_path, *VERIFY, contract=contract)
    assert rows.warnings == []
    assert [(row.id, row.tag, row.description) for row in rows.rows] == [
        (1, "fabrication", "完全虚构的数据"),
        (2, "clean", "忠实原文的输出"),
    ]


@pytest.mark.parametrize("wrapper", ["flat", "view"])
@pytest.mark.parametrize(
    "lines", [VERIFY, [GENERAL], VIEW, [VIEW_SHORT], ['{"question": "no id"}', FLAT_SHORT.replace("1", "7")]]
)
def test_three_rounds_over_own_output_ask_the_same(tmp_path: Path, lines: list[str], wrapper: str) -> None:
    """Nothing is nested, nothing is lost, whichever form is written and however many profiles there are."""
    rows = rows_of(tmp_path, *lines)
    first = rows.rows
    asked, gold = rows.keys_sha256, rows.gold_sha256
    for _ in range(3):
        written = [META, META.replace("kimi-full", "other")]
        for profile in ("kimi-full", "other"):
            for row in rows.rows:
                stats = {"retry_count": 0, "execution_path": [], "status": "OK"}
                flat = {**row.record, "hop_result": "{}", "hop_stats": stats, "profile": profile}
                done = flat if wrapper == "flat" else view_record(row.record, result="{}")
                written.append(json.dumps(done, ensure_ascii=False))
        rows = rows_of(tmp_path, *written)
        assert (rows.keys_sha256, rows.gold_sha256) == (asked, gold)
        again = rows.rows
        assert [row.record for row in again] == [row.record for row in first]
        assert [(row.id, row.fields, row.expected, row.key) for row in again] == [
            (row.id, row.fields, row.expected, row.key) for row in first
        ]
