"""Prints a list of cases: what was asked, what was expected, and what was found."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from assay.core.suite_pages import SuitePages, as_text, first_prompt
from assay.store.render.screen import block, columns_of, cut_cell, safe, table
from assay.store.runs import origin_of

if TYPE_CHECKING:
    from assay.core.case_details import CaseDetails
    from assay.core.suite_pages import RunOrigin, StoredCase
    from assay.runner.results import Run
    from assay.store.cases import RunCases

# Columns of a terminal that are not known, as in a pipe.
_WIDE = 140
# A text has at least so many columns, however narrow the terminal is.
_LEAST_COLUMNS = 16
# Characters of either end of a text that a cell may show.
_MAX_END = 2000
# Positions that are listed beside an error, and characters of its message.
_MAX_POSITIONS, _MAX_ERROR = 10, 2000


class CaseLine(NamedTuple):
    """One case of a list, with texts in full. `mark` is ✓ right, ✗ wrong, ! without an answer."""

    case: StoredCase
    mark: str
    question: str
    expected: str
    found: str
    """What was found; without an answer, the kind of the error."""
    error: str = ""


def print_cases(
    cases: RunCases,
    stored_cases: Sequence[StoredCase],
    pages: SuitePages,
    run: Run,
    further: Mapping[str, Sequence[str]] | None = None,
) -> bool:
    """Print a table of some cases, and below it their errors. `further` are columns to add, with a cell per case.

    Returns False, and prints nothing, if there is no table of cases: see `case_lines`.
    """
    origin = origin_of(run.folder, run.info)
    lines = case_lines([case._replace(calls=cases.calls(case.end.index)) for case in stored_cases], pages, origin)
    if not lines:
        return False
    entries = run.report.entries if run.report else []
    names = {
        "set": {entry.set for entry in entries if entry.set},
        "subject": {entry.subject for entry in entries if entry.subject},
    }
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDE
    table(*line_cells(lines, names, columns, further or {}))
    if errors := error_lines(lines):
        click.echo()
        for error in errors:
            block(error, indent="", max_chars=_MAX_ERROR)
    return True


def case_lines(cases: Sequence[StoredCase], pages: SuitePages, origin: RunOrigin) -> list[CaseLine]:
    """Return the lines of some cases.

    Empty if a case consists of many questions, or if there is nothing to compare: no expected value and no error.
    """
    if pages.has_questions:
        return []
    lines = [_line(case, pages, origin) for case in cases]
    is_useful = any(line.expected for line in lines) or all(line.mark == "!" for line in lines)
    return lines if is_useful else []


def _line(case: StoredCase, pages: SuitePages, origin: RunOrigin) -> CaseLine:
    question = _question(case, pages, origin)
    expected, found = _values(case, pages.details(case))
    if failure := case.end.failure:
        error = f"{failure.kind}: {failure.message}"
        return CaseLine(case, "!", question, expected, failure.kind, error)
    return CaseLine(case, "✗" if case.failed else "✓", question, expected, found or pages.answer_text(case.records))


def _values(case: StoredCase, details: CaseDetails) -> tuple[str, str]:
    """Return what was expected and what was found. `found` is empty if only the suite knows it."""
    if pairs := details.pairs:
        # Of several filters, the one that is wrong: the case is in the list because of it.
        wrong = [score.part for score in case.scores if score.value == 0 and score.metric not in case.neutral]
        pair = next((pair for pair in pairs if pair.name in wrong), pairs[0])
        found = pair.found or ""
        return pair.expected or "", f"{pair.name}: {found}" if len(pairs) > 1 else found
    checks = details.tests[0].checks if len(details.tests) == 1 else []
    if len(checks) == 1:
        return checks[0].expected or "", checks[0].found or ""
    if checks := [check for check in checks if not check.passed] or checks:
        expected_fields = [(check.place, check.expected) for check in checks]
        return _joined(expected_fields), _joined([(check.place, check.found) for check in checks])
    expected = next((score.expected for score in case.scores if score.expected is not None), None)
    return "" if expected is None else as_text(expected), ""


def _joined(values: Sequence[tuple[str, str | None]]) -> str:
    """Return the fields of a result, such as `city: Oslo · year: 1952`; empty if none has a value."""
    if all(value is None for _, value in values):
        return ""
    return " · ".join(f"{place}: {'–' if value is None else value}" for place, value in values)


def _question(case: StoredCase, pages: SuitePages, origin: RunOrigin) -> str:
    """Return the question of a case: the prompt without few-shot examples, where they can be told apart."""
    request = next((call.request for call in case.calls if call.request is not None), None)
    if request is None:
        return ""
    for piece in pages.prompt_pieces(request, case, origin):
        if piece.heading == "question":
            return piece.text
    return first_prompt(case)


def line_cells(
    lines: Sequence[CaseLine],
    names: Mapping[str, set[str]],
    columns: int,
    further: Mapping[str, Sequence[str]],
) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a table that fits into `columns`, if its texts can be cut to that.

    `names` are the sets and subjects of the run: each is left out if there is only one, and so is an empty column.
    """
    ends = [line.case.end for line in lines]
    cells = {"position": [str(end.index) for end in ends]}
    if any(end.label not in ("", str(end.index)) for end in ends):
        cells["case"] = [end.label for end in ends]
    if len(names["set"] | {end.set for end in ends}) > 1:
        cells["set"] = [end.set for end in ends]
    if len(names["subject"] | {end.subject for end in ends}) > 1:
        cells["subject"] = [end.subject for end in ends]
    cells[""] = [line.mark for line in lines]
    texts = {
        "question": [_flat(line.question) for line in lines],
        "expected": [_flat(line.expected) for line in lines],
        "found": [_flat(line.found) for line in lines],
    }
    texts = {name: column for name, column in texts.items() if any(column)}
    widths = {name: max(map(columns_of, [name, *column])) for name, column in texts.items()}
    others = [max(map(columns_of, [name, *column])) for name, column in (cells | dict(further)).items()]
    room = columns - sum(others) - 2 * (len(others) + len(texts) - 1)
    # From the shortest: each gets its share of the room, and leaves to the others what it does not need.
    for count, name in zip(range(len(texts), 0, -1), sorted(texts, key=widths.__getitem__), strict=True):
        widths[name] = min(widths[name], max(_LEAST_COLUMNS, room // count))
        room -= widths[name]
    for name, column in texts.items():
        # The end of a prompt is mostly the question itself, and its start is what tells questions apart.
        cells[name] = [cut_cell(text, widths[name], middle=name == "question") for text in column]
    for name, values in further.items():
        cells.setdefault(name, list(values))
    return list(cells), [list(row) for row in zip(*cells.values(), strict=True)]


def _flat(text: str) -> str:
    flat = " ".join(text.split())
    # No terminal shows more than both ends, and the width of a whole book takes long to compute.
    return safe(flat if len(flat) <= 2 * _MAX_END else flat[:_MAX_END] + flat[-_MAX_END:])


def error_lines(lines: Sequence[CaseLine]) -> list[str]:
    """Return each error of some cases once, in full, after the positions of its cases."""
    positions: dict[str, list[int]] = {}
    for line in lines:
        if line.error:
            positions.setdefault(line.error, []).append(line.case.end.index)
    texts = []
    for error, places in positions.items():
        more = f" and {len(places) - _MAX_POSITIONS:,} more" if len(places) > _MAX_POSITIONS else ""
        texts.append(f"{', '.join(map(str, places[:_MAX_POSITIONS]))}{more}  {error}")
    return texts
