"""Markdown of reports, comparisons and gates, as GitHub and GitLab show it in pull requests and CI summaries.

Names and texts come from data files and models. They are escaped, so that they show as they are: no link, no heading,
no HTML, no mention of a person (`@name`) and no reference to an issue (`#12`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from assay.core.report import Report
from assay.store.render.tables import (
    TextTable,
    comparison_table,
    cost_table,
    gate_table,
    judge_lines,
    report_notes,
    report_table,
)

if TYPE_CHECKING:
    from assay.store.comparison import Comparison, ComparisonResult, Flip, Flips
    from assay.store.gate import GateResult

# Longer answers are cut. `assay show RUN CASE` prints them in full.
MAX_CHARS = 400

_SPECIAL = re.compile(r"[\\`*_{}\[\]()|~$!]")
# Characters that a backslash does not protect in all places: HTML, mentions and references to issues.
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;", "#": "&#35;"})


def report_markdown(reports: Mapping[str, Report]) -> str:
    """Return the table of one report, or one table of several with a column for each, and their notes."""
    lines = _table(report_table(reports))
    notes: dict[str, None] = {}
    for name, report in reports.items():
        for note in report_notes(report):
            notes[note if len(reports) == 1 else f"{name}: {note}"] = None
    return _document([*lines, *_notes(list(notes))])


def comparison_markdown(result: ComparisonResult) -> str:
    """Return all comparisons of a command."""
    lines: list[str] = []
    for comparison in result.comparisons:
        lines += _comparison(comparison)
    return _document([*lines, *_notes(result.notes)])


def gate_markdown(result: GateResult) -> str:
    """Return the decisions of a gate, for the summary of a CI job."""
    about = ", ".join(filter(None, (result.suite, result.model, f"{result.cases:,} cases")))
    lines = [f"### assay gate: {result.verdict}", "", f"{escape(result.run)} ({escape(about)})"]
    if result.against:
        lines.append(f"against {escape(result.against)}")
    if result.point:
        lines += ["", "Decided by the values alone (`--point`), not by their intervals."]
    return _document(
        [
            *lines,
            "",
            *_table(gate_table(result.decisions)),
            *_notes(judge_lines(result.judges) + result.notes),
        ]
    )


def escape(text: str) -> str:
    """Return a text that Markdown shows as it is, in one line."""
    flat = " ".join(_printable(text).split())
    return _SPECIAL.sub(r"\\\g<0>", flat.translate(_ENTITIES))


def _comparison(comparison: Comparison) -> list[str]:
    base, new = comparison.base, comparison.new
    lines = [f"### {escape(base.subject)} → {escape(new.subject)}", ""]
    for name, side in (("base", base), ("new", new)):
        reference = " (reference)" if side.reference else ""
        lines.append(f"- {name}: {escape(side.run)}, {escape(side.subject)}{reference}, {side.cases:,} cases")
        lines += [f"  - {escape(line)}" for line in judge_lines(side.judges)]
    lines += ["", *_table(comparison_table(comparison.rows))]
    left_out = []
    for row in [row for row in comparison.rows if row.set] or comparison.rows:
        left_out += [f"{row.name}: {count:,} left out, {reason}" for reason, count in row.left_out.items()]
    lines += _notes(left_out)
    lines += _flips("now failing", comparison.now_failing)
    lines += _flips("now passing", comparison.now_passing)
    for name, only in (("base", comparison.only_base), ("new", comparison.only_new)):
        if only.count:
            cases = ", ".join(map(escape, only.shown))
            more = f" and {only.count - len(only.shown):,} more" if only.count > len(only.shown) else ""
            lines += ["", f"Only in {name}: {only.count:,} ({cases}{more})"]
    return [*lines, "", *_table(cost_table(comparison)), *_notes(comparison.notes), ""]


def _flips(name: str, flips: Flips) -> list[str]:
    if not flips.count:
        return []
    lines = ["", f"<details><summary>{name}: {flips.count:,}</summary>", ""]
    for flip in flips.shown:
        lines += [f"**{escape(flip_title(flip))}**", "", *_fence(flip_text(flip)), ""]
    if more := flips.count - len(flips.shown):
        lines += [f"… {more:,} more", ""]
    return [*lines, "</details>"]


def flip_title(flip: Flip) -> str:
    """Return one line about a flip: case, metric and both values."""
    part = f",{flip.part}" if flip.part else ""
    row = "" if flip.id is None else f" · row {flip.id}"
    values = f"{flip.base.value:g} → {flip.new.value:g}"
    return f"case {flip.new.index} · {flip.set}/{flip.case}{row} · {flip.metric}{part} · {values}"


def flip_text(flip: Flip) -> str:
    """Return the lines of a flip: the check that differs, or target, answers and reasons of both sides."""
    return "\n".join(f"{name}: {value}" for name, value in flip_facts(flip))


def flip_facts(flip: Flip) -> list[tuple[str, str]]:
    """Return names and texts: the check that differs, or target, answers and reasons of both sides."""
    facts: list[tuple[str, Any]] = []
    check = flip.check
    if check is not None:
        place = " ".join(filter(None, (check.get("step"), check["path"])))
        facts += [(f"{place} ({check['kind']}) expected", check["expected"])]
        facts += [(name, check[name]) for name in ("base", "new", "why")]
    else:
        facts.append(("target", flip.target))
        for name, side in (("base", flip.base), ("new", flip.new)):
            answer = side.answer
            if isinstance(answer, list) and len(answer) == 1:
                answer = answer[0]
            facts += [(name, answer), (f"{name}, why", side.reason or None)]
    texts = []
    for name, value in facts:
        if value is not None:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            if len(text) > MAX_CHARS:
                text = f"{text[:MAX_CHARS]}… ({len(text):,} characters)"
            texts.append((name, text))
    return texts


def _table(table: TextTable) -> list[str]:
    """Return the lines of a table. Columns that hold one number each are aligned to the right."""
    columns = list(zip(*table.rows, strict=True)) or [("",)] * len(table.header)
    right = [all(_is_number(cell) for cell in column) for column in columns]
    lines = ["| " + " | ".join(map(escape, table.header)) + " |"]
    lines.append("|" + "|".join(" ---: " if to_right else " --- " for to_right in right) + "|")
    lines += ["| " + " | ".join(map(escape, row)) + " |" for row in table.rows]
    return lines


def _is_number(cell: str) -> bool:
    return not cell or (cell[0] in "+-–0123456789" and " " not in cell)


def _notes(notes: list[str]) -> list[str]:
    return ["", *(f"- {escape(note)}" for note in notes)] if notes else []


def _fence(text: str) -> list[str]:
    """Return a block of code. Its fence is longer than any run of backticks in the text."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", _printable(text, keep="\n\t"), fence]


def _printable(text: str, keep: str = "") -> str:
    """Return the text with `�` for control characters, which some viewers obey."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else "�" for char in text)


def _document(lines: list[str]) -> str:
    return "\n".join(lines).strip("\n") + "\n"
