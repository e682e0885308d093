r"""LaTeX of reports and comparisons: a table for a paper, with rules of the package booktabs.

Names and texts come from data files and models. Every character that LaTeX would obey is escaped, so the table
compiles and shows them as they are. The document needs `\usepackage{booktabs}` and nothing else.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from assay.core.report import Report
from assay.store.render.tables import (
    TextTable,
    comparison_table,
    is_number,
    judge_lines,
    report_notes,
    report_table,
    row_remarks,
    slice_remarks,
    slice_table,
)

if TYPE_CHECKING:
    from assay.store.comparison import ComparisonResult

# What a character is written as. A bracket or a star after the end of a row would be read as an argument of `\\`.
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"{\char34}",
    "`": r"{\char96}",
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "·": r"\textperiodcentered{}",
    "→": r"$\rightarrow$",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "×": r"$\times$",
    "±": r"$\pm$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "\N{REPLACEMENT CHARACTER}": "?",
}
# Two dashes or quotes in a row would become one long dash or another quote.
_LIGATURE = re.compile(r"(?<=[-'])(?=[-'])|(?<=[?!])(?=`)")
# pdfLaTeX knows the letters of European languages. Other scripts need another program.
_LAST_LATIN = "\u017f"


def report_latex(report: Report, caption: str = "") -> str:
    """Return the table of a report with its notes below it: values, intervals, denominators and what was left out."""
    return _document(_table(report_table({"": report}), caption, report_notes(report)))


def comparison_latex(result: ComparisonResult) -> str:
    """Return a table for each comparison and, with slices, one for them. Flips and costs are left to other formats."""
    lines = []
    for each in result.comparisons:
        notes = [*row_remarks(each.rows), *judge_lines([*each.base.judges, *each.new.judges]), *each.notes]
        lines += _table(comparison_table(each.rows), each.title, notes)
        if each.slices:
            caption = f"{each.title}, by {each.slices[0].by}"
            lines += _table(slice_table(each.slices), caption, slice_remarks(each.slices))
    return _document(lines)


def _table(table: TextTable, caption: str, notes: list[str]) -> list[str]:
    columns = list(zip(*table.rows, strict=True)) or [("",)] * len(table.header)
    alignment = "".join("r" if all(map(is_number, column)) else "l" for column in columns)
    lines = [r"\begin{table}", r"\centering"]
    if caption:
        lines.append(rf"\caption{{{escape(caption)}}}")
    lines += [rf"\begin{{tabular}}{{{alignment}}}", r"\toprule", _row(table.header), r"\midrule"]
    before = ""
    for row in table.rows:
        # A rule between entries, such as models or tasks, keeps their metrics together.
        if before and row[0] != before and table.names > 1 and len({each[0] for each in table.rows}) < len(table.rows):
            lines.append(r"\addlinespace")
        before = row[0]
        lines.append(_row(row))
    lines += [r"\bottomrule", r"\end{tabular}"]
    if notes:
        lines += ["", r"\medskip", r"\begin{minipage}{\linewidth}\footnotesize"]
        lines += [f"{escape(note)}\\par" for note in notes]
        lines.append(r"\end{minipage}")
    return [*lines, r"\end{table}"]


def _document(lines: list[str]) -> str:
    head = [r"% \usepackage{booktabs}"]
    if any(char > _LAST_LATIN for char in "\n".join(lines)):
        head.append(
            "% Some names have letters that pdfLaTeX does not know: use XeLaTeX or LuaLaTeX with a font that has them."
        )
    return "\n".join([*head, *lines]) + "\n"


def escape(text: str) -> str:
    """Return a text that LaTeX prints as it is, in one line."""
    flat = " ".join(text.split())
    printable = "".join(char if char.isprintable() else "?" for char in flat)
    return "".join(_ESCAPES.get(char, char) for char in _LIGATURE.sub("\x00", printable)).replace("\x00", "{}")


def _row(cells: list[str]) -> str:
    texts = []
    for cell in cells:
        text = escape(cell)
        # A minus is longer than the hyphen of a text, and as wide as a plus.
        texts.append(f"${cell}$" if re.fullmatch(r"[+-][\d.]+", cell) else text)
    return " & ".join(texts) + r" \\"
