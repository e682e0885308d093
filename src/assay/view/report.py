"""A report of runs as one HTML file, for mail and for the artefacts of CI: `assay report RUN... -o report.html`.

    report_html(["results-before", "results-now"], cases=10)

The file has the numbers of the pages of `assay view`, made by the same templates, and the first failed rows with their
texts. Several runs are compared first. It needs no network and no script, and its own content security policy forbids
both.
"""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from itertools import islice
from typing import Any

from markupsafe import Markup
from msgspec import Struct

import assay
from assay.core.errors import AssayError
from assay.core.types import CLOSING_KINDS, Call, Failure, Record, Score
from assay.runner import api
from assay.store.open_run import OpenRun, RowSelection
from assay.store.render.html import comparison_body
from assay.store.render.screen import counted
from assay.store.row_table import TableRow
from assay.store.runs import find_run
from assay.view.pages.run import RowsReader, RunPage, read_page
from assay.view.row_query import RowQuery
from assay.view.site import static_files, templates
from assay.view.text import Preview, as_text, preview

# A report is read from top to bottom, so its texts are shorter than those of a page.
_MAX_CHARS, _MAX_LINES = 2_000, 30
# JSON up to this length is shown on one line.
_MAX_LINE = 400
# Scores of a row. A rubric may have hundreds.
_MAX_SCORES = 8


class ReportText(Struct):
    """A text of a failed row. `kind` is a class of the style sheet."""

    heading: str
    text: Preview
    kind: str = ""


class ReportRow(Struct, kw_only=True):
    """A failed row."""

    title: str
    part: str
    subject: str
    status: str
    tags: tuple[str, ...]
    scores: list[tuple[str, float | None, str]]
    """Name, value, and the status that says why there is no value."""
    prompt: list[ReportText]
    outcome: list[ReportText]
    """What was expected, found and why that is wrong; shown beside each other."""
    note: str


class ReportRun(Struct, kw_only=True):
    """One run of a report."""

    prefix: str
    """Stands before the ids of the elements of this run."""
    page: RunPage
    failed: list[ReportRow]
    failed_total: int
    has_subjects: bool


class ReportPage(Struct, kw_only=True):
    """The values of `report.html`."""

    title: str
    made: float
    version: str
    runs: list[ReportRun]
    comparison: Markup
    no_comparison: str
    """Why there is no comparison of several runs."""


def report_html(runs: Sequence[str], *, cases: int = 10) -> str:
    """Return the report of runs, each with its first `cases` failed rows.

    A name is a run folder, an output folder with one run, or the beginning of a run's name. Raises UsageError for a
    name that fits no run, and DamagedRun for a journal that is not as assay wrote it.
    """
    shown = [_read_run(name, number, cases) for number, name in enumerate(runs, 1)]
    comparison, problem = _compare(runs, shown, cases)
    title = shown[0].page.title if len(shown) == 1 else f"{shown[0].page.title} and {len(shown) - 1} more"
    page = ReportPage(
        title=title,
        made=time.time(),
        version=assay.__version__,
        runs=shown,
        comparison=comparison,
        no_comparison=problem,
    )
    static = static_files()
    # The policy names the only style by its hash, so the text must be that of the element to the byte.
    style = "\n" + static["assay.css"].decode() + static["report.css"].decode()
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    template = templates().get_template("report.html")
    # `expanded`: what is closed on a page is not printed. Lone surrogates of a model cannot be encoded.
    text = template.render(page=page, style=Markup(style), policy=policy, expanded=True)  # noqa: S704 - our own file
    return text.encode(errors="replace").decode()


def _read_run(name: str, number: int, cases: int) -> ReportRun:
    run = OpenRun(find_run(name))
    try:
        table = run.table()
        failed = run.rows(RowSelection(failed=True))
        rows = table.read(failed[:cases])
        return ReportRun(
            prefix=f"run-{number}-",
            page=read_page(run, RowsReader(RowQuery(), "")),
            failed=[_row(run, row) for row in rows],
            failed_total=len(failed),
            has_subjects=len(table.subjects) > 1,
        )
    finally:
        run.close()


def _row(run: OpenRun, row: TableRow) -> ReportRow:
    end = row.end
    counted_scores = [score for score in row.scores if not score.interim]
    # A conversation with hundreds of questions has a row for each, but no call belongs to one of them.
    calls = [] if row.part and end.calls > _MAX_SCORES else run.case(end.index).calls
    return ReportRow(
        title=row.label or end.label or end.case,
        part=row.part,
        subject=end.subject,
        status=end.outcome if end.status != "ok" else "failed",
        tags=row.tags,
        scores=[(_score_name(score), score.value, score.status) for score in counted_scores[:_MAX_SCORES]],
        prompt=_prompt(calls),
        outcome=_outcome(row.records, counted_scores, end.failure),
        note=counted(len(calls), "call") if len(calls) > 1 else "",
    )


def _score_name(score: Score) -> str:
    """Return the name of a score. The part of a score is a filter, or the row itself."""
    is_filter = score.part and not score.label
    return f"{score.metric},{score.part}" if is_filter else score.metric


def _prompt(calls: Sequence[Call]) -> list[ReportText]:
    """Return the last message of the first prompt."""
    for call in islice(calls, 1):
        request = call.request
        if request is not None:
            messages = request.messages or []
            last = as_text(messages[-1].get("content")) if messages else request.prompt or ""
            return [_text("prompt", last + (request.continuation or ""))]
    return []


def _outcome(records: Sequence[Record], scores: Sequence[Score], failure: Failure | None) -> list[ReportText]:
    """Return what was expected, what was found, and why that is wrong."""
    texts = []
    expected = next((score.expected for score in scores if score.expected is not None), None)
    if expected is not None:
        texts.append(_text("expected", _json_text(expected)))
    if records and records[-1].kind not in CLOSING_KINDS:
        texts.append(_text("found", _json_text(_answer(records[-1].data)), "reply"))
    if failure is not None:
        texts.append(_text("failure", f"{failure.kind}: {failure.message}", "failed"))
    message = failure.message if failure is not None else ""
    reasons = dict.fromkeys(score.reason for score in scores if score.reason and score.reason != message)
    return [*texts, *(_text("reason", reason) for reason in islice(reasons, _MAX_SCORES))]


def _answer(data: Any) -> Any:
    """Return an answer without the lists and objects that suites wrap around it."""
    while isinstance(data, list) and len(data) == 1:
        data = data[0]
    return data["outputs"] if isinstance(data, dict) and data.get("outputs") else data


def _json_text(value: Any) -> str:
    """Return a JSON value as text, on one line if it is short."""
    if isinstance(value, str):
        return value
    line = json.dumps(value, ensure_ascii=False)
    return line if len(line) <= _MAX_LINE else as_text(value)


def _text(heading: str, text: str, kind: str = "") -> ReportText:
    return ReportText(heading, preview(text, max_chars=_MAX_CHARS, max_lines=_MAX_LINES), kind)


def _compare(names: Sequence[str], runs: Sequence[ReportRun], flips: int) -> tuple[Markup, str]:
    """Return the comparison of several runs, or of the subjects of one; or why there is none."""
    if len(runs) == 1 and not runs[0].has_subjects:
        return Markup(), ""
    try:
        result = api.compare(names, flips=flips)
    except AssayError as error:
        # The subjects of one run need not be comparable, and nobody asked for it.
        return Markup(), str(error) if len(runs) > 1 else ""
    return Markup(comparison_body(result)), ""  # noqa: S704 - its texts are escaped there
