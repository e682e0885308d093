"""Prints a list of cases: what was asked, what was expected, and what was found."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.core.suite import first_prompt
from assay.store.runs import origin_of

if TYPE_CHECKING:
    from assay.api import Run
    from assay.core.suite import CaseView, RunOrigin, Suite
    from assay.store.cases import RunCases

# Columns of a terminal that are not known, as in a pipe.
_WIDE = 140
# Columns for position, mark and the like, beside the three texts.
_NARROW_CELLS = 24
# A text has at least so many characters, however narrow the terminal is.
_LEAST_CHARS = 16


class CaseLine(NamedTuple):
    """One case of a list, with texts in full. `mark` is ✓ right, ✗ wrong, ! without an answer."""

    view: CaseView
    mark: str
    question: str
    expected: str
    found: str


def case_lines(
    cases: RunCases, views: Sequence[CaseView], suite: type[Suite[Any, Any]], run: Run
) -> list[CaseLine]:
    """Return the lines of some cases.

    Empty if a case consists of many questions, or if there is nothing to compare: no expected value and no error.
    """
    if suite.has_questions:
        return []
    origin = origin_of(run.folder, run.info)
    lines = [_line(view._replace(calls=cases.calls(view.end.index)), suite, origin) for view in views]
    is_useful = any(line.expected for line in lines) or all(line.mark == "!" for line in lines)
    return lines if is_useful else []


def _line(view: CaseView, suite: type[Suite[Any, Any]], origin: RunOrigin) -> CaseLine:
    failure = view.end.failure
    mark = "!" if failure else "✗" if view.failed else "✓"
    expected = found = ""
    pairs = suite.details(view).pairs
    if pairs:
        # Of several filters, the one that is wrong: the case is in the list because of it.
        wrong = [score.part for score in view.scores if score.value == 0 and score.metric not in view.neutral]
        pair = next((pair for pair in pairs if pair.name in wrong), pairs[0])
        expected, found = pair.expected or "", pair.found or ""
    if failure:
        found = f"{failure.kind}: {failure.message}"
        expecteds = (score.expected for score in view.scores if score.expected is not None)
        expected = expected or str(next(expecteds, ""))
    return CaseLine(view, mark, _question(view, suite, origin), expected, found)


def _question(view: CaseView, suite: type[Suite[Any, Any]], origin: RunOrigin) -> str:
    """Return the question of a case: the prompt without few-shot examples, where they can be told apart."""
    request = next((call.request for call in view.calls if call.request is not None), None)
    if request is None:
        return ""
    for piece in suite.prompt_pieces(request, view, origin):
        if piece.heading == "question":
            return piece.text
    return first_prompt(view)


def line_cells(lines: Sequence[CaseLine], run: Run) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a table.

    Set and subject are left out if the run has only one, and so is an empty column.
    """
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDE
    room = max(4 * _LEAST_CHARS, columns - _NARROW_CELLS)
    header = ["position"]
    named = {
        "set": [line.view.end.set for line in lines],
        "case": [line.view.end.label for line in lines],
        "subject": [line.view.end.subject for line in lines],
    }
    entries = run.report.entries if run.report else []
    several = {
        "set": len({entry.set for entry in entries if entry.set} | set(named["set"])) > 1,
        "subject": len({entry.subject for entry in entries if entry.subject} | set(named["subject"])) > 1,
    }
    shown = [name for name, is_shown in several.items() if is_shown]
    if any(line.view.end.label not in ("", str(line.view.end.index)) for line in lines):
        shown.insert(0, "case")
    has_expected = any(line.expected for line in lines)
    columns_of = {
        # The question stands at the end of a prompt.
        "question": [_last(line.question, room // 2) for line in lines],
        "expected": [_first(line.expected, room // 4) for line in lines],
        "found": [_first(line.found, room // 4 if has_expected else room // 2) for line in lines],
    }
    texts = {name: cells for name, cells in columns_of.items() if any(cells)}
    header += [*shown, "", *texts]
    rows = []
    for number, line in enumerate(lines):
        names = [named[name][number] for name in shown]
        cells = [column[number] for column in texts.values()]
        rows.append([str(line.view.end.index), *names, line.mark, *cells])
    return header, rows


def _first(text: str, most: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def _last(text: str, most: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else "…" + flat[len(flat) - most + 1 :]
