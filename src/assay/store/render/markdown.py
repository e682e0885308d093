"""Markdown of reports, comparisons and gates, as GitHub and GitLab show it in pull requests and CI summaries.

Names and texts come from data files and models. They are escaped, so that they show as they are: no link, no heading,
no HTML, no mention of a person (`@name`) and no reference to an issue (`#12`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from assay.core.report import Report
from assay.store.render.flips import flip_facts, flip_title
from assay.store.render.tables import (
    TextTable,
    comparison_table,
    cost_table,
    gate_table,
    is_number,
    judge_lines,
    overview_table,
    purpose_table,
    report_notes,
    report_table,
    row_remarks,
    slice_remarks,
    slice_table,
)

if TYPE_CHECKING:
    from assay.store.comparison import Comparison, ComparisonResult, Flips
    from assay.store.gate import GateResult
    from assay.store.render.case_diff import CaseDiff

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
    if len(result.comparisons) > 1:
        lines += ["### Overview", "", *_table(overview_table(result.comparisons)), ""]
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


def case_diff_markdown(diff: CaseDiff, titles: Sequence[str]) -> str:
    """Return two cases with the lines that differ, as blocks of the language `diff`, which most viewers colour."""
    lines = [f"- left: {escape(titles[0])}", f"- right: {escape(titles[1])}"]
    if not diff.same_row:
        lines.append("- these are different rows of the data")
    lines += ["", *_table(diff.scores)] if diff.scores.rows else []
    equal = [pair.name for pair in diff.texts if pair.same]
    for pair in diff.texts:
        if pair.same:
            continue
        signed = []
        for kind, text in pair.lines:
            sign = {"same": " ", "removed": "-", "added": "+"}[kind]
            signed += [f"{sign} {line}" for line in text.split("\n")]
        lines += ["", f"**{escape(pair.name)}**", "", *_fence("\n".join(signed), "diff")]
    if equal:
        lines += ["", f"The same in both: {escape(', '.join(equal))}"]
    return _document(lines)


def escape(text: str) -> str:
    """Return a text that Markdown shows as it is, in one line."""
    flat = " ".join(_printable(text).split())
    return _SPECIAL.sub(r"\\\g<0>", flat.translate(_ENTITIES))


def _comparison(comparison: Comparison) -> list[str]:
    lines = [f"### {escape(comparison.title)}", ""]
    for name, side in (("base", comparison.base), ("new", comparison.new)):
        reference = " (reference)" if side.reference else ""
        lines.append(f"- {name}: {escape(side.run)}, {escape(side.subject)}{reference}, {side.cases:,} cases")
        lines += [f"  - {escape(line)}" for line in judge_lines(side.judges)]
    lines += ["", *_table(comparison_table(comparison.rows))]
    lines += _notes(row_remarks(comparison.rows))
    if comparison.slices:
        slices = [*_table(slice_table(comparison.slices)), *_notes(slice_remarks(comparison.slices))]
        lines += _details(f"by {comparison.slices[0].by}", slices)
    lines += _flips("now failing", comparison.now_failing)
    lines += _flips("now passing", comparison.now_passing)
    for name, only in (("base", comparison.only_base), ("new", comparison.only_new)):
        if only.count:
            cases = ", ".join(map(escape, only.shown))
            more = f" and {only.count - len(only.shown):,} more" if only.count > len(only.shown) else ""
            lines += ["", f"Only in {name}: {only.count:,} ({cases}{more})"]
    lines += ["", *_table(cost_table(comparison))]
    purposes = purpose_table(comparison)
    if purposes.rows:
        lines += ["", *_table(purposes)]
    return [*lines, *_notes(comparison.notes), ""]


def _flips(name: str, flips: Flips) -> list[str]:
    if not flips.count:
        return []
    lines = []
    for flip in flips.shown:
        facts = "\n".join(f"{name}: {text}" for name, text in flip_facts(flip))
        lines += [f"**{escape(flip_title(flip))}**", "", *_fence(facts), ""]
    if more := flips.count - len(flips.shown):
        lines.append(f"… {more:,} more")
    return _details(f"{name}: {flips.count:,}", lines)


def _details(summary: str, lines: list[str]) -> list[str]:
    """Return lines that a page shows after a click on their summary."""
    # GitHub reads Markdown inside HTML only after an empty line.
    return ["", f"<details><summary>{escape(summary)}</summary>", "", *lines, "", "</details>"]


def _table(table: TextTable) -> list[str]:
    """Return the lines of a table. Columns that hold one number each are aligned to the right."""
    columns = list(zip(*table.rows, strict=True)) or [("",)] * len(table.header)
    right = [all(is_number(cell) for cell in column) for column in columns]
    lines = ["| " + " | ".join(map(escape, table.header)) + " |"]
    lines.append("|" + "|".join(" ---: " if to_right else " --- " for to_right in right) + "|")
    lines += ["| " + " | ".join(map(escape, row)) + " |" for row in table.rows]
    return lines


def _notes(notes: list[str]) -> list[str]:
    return ["", *(f"- {escape(note)}" for note in notes)] if notes else []


def _fence(text: str, language: str = "text") -> list[str]:
    """Return a block of code. Its fence is longer than any run of backticks in the text."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", _printable(text, keep="\n\t"), fence]


def _printable(text: str, keep: str = "") -> str:
    """Return the text with `�` for control characters, which some viewers obey."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else "�" for char in text)


def _document(lines: list[str]) -> str:
    return "\n".join(lines).strip("\n") + "\n"
