"""The card of one HOP result: gauges, badges, a table of errors, what is missing, and the JSON.

    content = CardContent(heading="Result", status="OK", fields={"score": 4}, raw={"score": 4})
    card = make_card(content, contract.outputs)

It shows results of the Run tab and records of result files, from assay and from other tools. The contract says which
fields there are; without one, the values do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from assay.suites.hop.batch_lines import EXPECTED
from assay.suites.hop.contract import OutputField
from assay.suites.hop.result import FAIL, LACK_OF_INFO, OK, UNCERTAIN
from assay.suites.hop.scorer import RowVerdict
from assay.view.hop.history import HistoryRecord
from assay.view.text import TextBlock, as_text, preview

# HOP's View looks for these fields, the first that is there.
_SUMMARIES = ("answer", "summary", "verification_summary", "presentation", "problem_summary")
_QUESTIONS = ("clarification_questions", "clarification_needed", "missing_info")
_NO_REASON = "Task failed"
_SEVERITY = "severity"
_SEVERE = frozenset({"critical", "high", "error", "severe", "fatal", "major", "严重", "高"})
_MILD = frozenset({"medium", "warning", "warn", "moderate", "中"})
_BOOLEANS = {"true": True, "false": False}
# Limits of a table of errors. The raw JSON below it has everything.
_MAX_ROWS, _MAX_COLUMNS, _MAX_CELL = 50, 8, 500


class Gauge(Struct, frozen=True):
    """A number on its scale. `tone` is good, middling or bad by its band; plain without bands."""

    value: str
    share: float
    band: str
    tone: str


class CardTable(Struct):
    """A list of objects. The cell under `severity` is a badge."""

    columns: list[str]
    rows: list[list[str]]
    tones: list[str]
    """The tone of each row's severity; empty without one."""
    total: int


class CardValue(Struct):
    """A value as it is shown. Exactly one of the fields is set."""

    gauge: Gauge | None = None
    flag: bool | None = None
    table: CardTable | None = None
    items: list[str] | None = None
    text: str | None = None
    block: TextBlock | None = None


class CardField(Struct):
    """A field of the result, with the expected value beside it if the row has one."""

    name: str
    label: str
    value: CardValue | None
    """None if the result has no such field."""
    expected: CardValue | None = None
    is_same: bool | None = None
    """Whether the contract takes both values for the same, for example by their bands. None without an expectation."""


class ResultCard(Struct, kw_only=True):
    """The values of the macro `result_card`."""

    heading: str
    status: str
    """OK, FAIL, UNCERTAIN, LACK_OF_INFO, or ERROR if the function raised. Other tools may write others."""
    tone: str
    facts: list[tuple[str, str]]
    error: str
    summary: TextBlock | None
    questions: list[str]
    fields: list[CardField]
    raw: TextBlock


class CardContent(Struct, kw_only=True):
    """A result of which a card is made."""

    heading: str
    status: str
    fields: Mapping[str, Any]
    raw: Any
    """What "Raw JSON" shows."""
    error: str = ""
    expected: Mapping[str, Any] = {}
    verdict: RowVerdict | None = None
    facts: list[tuple[str, str]] = []


def make_card(
    content: CardContent, outputs: Mapping[str, OutputField], prefix: str = "text", whole: str = ""
) -> ResultCard:
    """Return the card of a result. `prefix` makes the ids of its texts; `whole` is the id of one to show in full."""
    fields, expected, error = content.fields, content.expected, content.error
    summary_name = next((name for name in _SUMMARIES if fields.get(name)), "")
    question_name = next((name for name in _QUESTIONS if fields.get(name)), "")
    # A summary with an expected value stays with the other fields, where both stand side by side.
    shown_apart = {name for name in (summary_name, question_name) if name and name not in expected}
    names = [name for name in outputs if name in fields or name in expected]
    names += [name for name in (*fields, *expected) if name not in names]
    if not error and content.status in (FAIL, "ERROR"):
        error = as_text(fields.get("error") or _NO_REASON)
    if error and error == as_text(fields.get("error", "")):
        shown_apart.add("error")
    lines: list[CardField] = []
    for name in dict.fromkeys(names):
        if name in shown_apart:
            continue
        output = outputs.get(name, OutputField())
        lines.append(
            CardField(
                name=name,
                label=output.label or name,
                value=_value(fields[name], output, f"{prefix}-{len(lines)}", whole) if name in fields else None,
                expected=_value(expected[name], output, f"{prefix}-{len(lines)}e", whole) if name in expected else None,
                is_same=_is_same(name, content.verdict) if name in expected else None,
            )
        )
    return ResultCard(
        heading=content.heading,
        status=content.status,
        tone={OK: "good", UNCERTAIN: "middling", LACK_OF_INFO: "middling"}.get(content.status, "bad"),
        facts=content.facts,
        error=error,
        summary=_block(fields[summary_name], f"{prefix}-summary", whole, summary_name)
        if summary_name in shown_apart
        else None,
        questions=_texts(fields[question_name]) if question_name in shown_apart else [],
        fields=lines,
        raw=_block(content.raw, f"{prefix}-raw", whole, "raw JSON"),
    )


def card_of_record(record: HistoryRecord, outputs: Mapping[str, OutputField], whole: str = "") -> ResultCard:
    """Return the card of a record of a result file."""
    audit = record.audit
    assert audit is not None
    row = audit.row
    facts = [
        (title, as_text(row[name]))
        for name, title in (("tag", "Tag"), ("difficulty", "Difficulty"), ("description", "Description"))
        if row.get(name)
    ]
    if audit.profile:
        facts.append(("Profile", audit.profile))
    if retries := audit.stats.get("retry_count"):
        facts.append(("Retries", as_text(retries)))
    expected = {name.removeprefix(EXPECTED): value for name, value in row.items() if name.startswith(EXPECTED)}
    # With a status such as FAIL, a text that is no JSON is the function's explanation.
    error = audit.error or ((audit.raw or "") if audit.outcome not in (None, OK) else "")
    if audit.parse_error and not error:
        error = "The result is not JSON."
    content = CardContent(
        heading=f"Row {row['id']}" if "id" in row else f"Record #{record.number}",
        status="ERROR" if audit.failed else audit.outcome or OK,
        fields=audit.fields,
        raw=record.value,
        error=error,
        expected=expected,
        verdict=record.verdict,
        facts=facts,
    )
    return make_card(content, outputs, f"r{record.number}", whole)


def as_gauge(value: Any, output: OutputField) -> Gauge | None:
    """Return the gauge of a number, or None if its scale is not known.

    The scale is that of the contract's bands, or 0 to 1 for a float. Bands are listed from the worst to the best.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    ends = [end for values in output.bands.values() for end in values if isinstance(end, (int, float))]
    if not ends:
        return Gauge(f"{value:g}", value, "", "plain") if output.type == "float" and 0 <= value <= 1 else None
    low, high = min(0, *ends), max(ends)
    share = (value - low) / (high - low) if high > low else 1.0
    band, names = output.band_of(value), list(output.bands)
    tone = "plain"
    if band is not None and len(names) > 1:
        tone = {0: "bad", len(names) - 1: "good"}.get(names.index(band), "middling")
    return Gauge(f"{value:g}", min(1.0, max(0.0, share)), band or "(no band)", tone)


def _value(value: Any, output: OutputField, block_id: str, whole: str) -> CardValue:
    if (gauge := as_gauge(value, output)) is not None:
        return CardValue(gauge=gauge)
    # hop_judge writes its judgements as texts.
    if output.type == "bool" and isinstance(value, str):
        value = _BOOLEANS.get(value.strip().lower(), value)
    if isinstance(value, bool):
        return CardValue(flag=value)
    if isinstance(value, list) and value:
        if all(isinstance(item, dict) for item in value):
            return CardValue(table=_table(value))
        if len(value) <= _MAX_ROWS and all(isinstance(item, (str, int, float)) for item in value):
            return CardValue(items=[_cell(item) for item in value])
    text = "null" if value is None else as_text(value)
    if len(text) <= _MAX_CELL and "\n" not in text:
        return CardValue(text=text)
    return CardValue(block=_block(value, block_id, whole))


def _table(items: list[dict[str, Any]]) -> CardTable:
    columns = list(dict.fromkeys(key for item in items[:_MAX_ROWS] for key in item))[:_MAX_COLUMNS]
    tones = []
    for item in items[:_MAX_ROWS]:
        word = str(item.get(_SEVERITY, "")).strip().lower()
        tones.append("" if not word else "bad" if word in _SEVERE else "middling" if word in _MILD else "plain")
    rows = [[_cell(item[column]) if column in item else "–" for column in columns] for item in items[:_MAX_ROWS]]
    return CardTable(columns, rows, tones, len(items))


def _cell(value: Any) -> str:
    text = as_text(value)
    return text if len(text) <= _MAX_CELL else text[:_MAX_CELL] + "…"


def _texts(value: Any) -> list[str]:
    items = value if isinstance(value, list) else [value]
    return [_cell(item) for item in items[:_MAX_ROWS]]


def _block(value: Any, block_id: str, whole: str, heading: str = "") -> TextBlock:
    return TextBlock(block_id, heading, preview(as_text(value), whole=whole == block_id))


def _is_same(name: str, verdict: RowVerdict | None) -> bool | None:
    """Return whether all checks of a field passed. The path of a check begins with the name of its field."""
    if verdict is None:
        return None
    checks = [
        check for check in verdict.checks if check.path == name or check.path.startswith((f"{name}.", f"{name}["))
    ]
    return all(check.passed for check in checks) if checks else None
