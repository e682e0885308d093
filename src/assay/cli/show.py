"""`assay show`: a run, or one of its cases."""

from __future__ import annotations

import json
from functools import cache
from itertools import islice
from statistics import fmean
from typing import Any

import click

from assay import api
from assay.api import Run
from assay.cli.printer import print_run, print_sections
from assay.cli.screen import block, heading, rule, table
from assay.core.errors import AssayError
from assay.core.suite import Suite, record_sections, score_sections
from assay.core.types import Call, Request, Response
from assay.store.cases import CaseView, RunCases
from assay.suites import BUILT_IN, find_suite

OLD_SUITES: tuple[str, ...] = ()
_MOST_CHARACTERS = 4000
_MOST_SCORES = 8
_REPORTS: dict[str, Any] = {}
_CLOSING = ("fed", "used", "imported")
"""Kinds of last records that hold no answer."""


@click.command("show", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", metavar="RUN")
@click.argument("case", required=False, metavar="[CASE]")
@click.option("--failed", is_flag=True, help="Only cases that have no answer or a score of 0.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most this many cases."
)
def command(run: str, case: str | None, failed: bool, limit: int) -> int:
    """Show a run's summary; with CASE, its prompt as sent, each reply, the votes of filters, and scores.

    RUN is a run folder, an output folder with one run, or the beginning of a run's name. CASE is a number in
    data order, the beginning of a case's key, or a test of a pipeline, a row or a conversation: its id or
    SET/ID.

    \b
    Examples:
      assay show results
      assay show results --failed --limit 5
      assay show results 17
    """
    found = api.load(run)
    cases = RunCases(found.folder)
    if case is not None:
        show_case(cases, cases.find(case), found.info.suite)
        return 0
    report_run(found)
    chosen = (view for view in cases if view.failed or not failed)
    rows = [_row(view, found.info.suite) for view in islice(chosen, limit)]
    click.echo()
    if rows:
        table(["case", "set", "key", "status", "scores", "reply"], rows)
    else:
        click.echo("no case failed" if failed else "no case has ended yet")
    return 0


def report_run(run: Run) -> None:
    """A run's summary, in the way of its suite."""
    if run.report is not None or is_subclass(run.info.suite):
        print_run(run)
    else:
        _REPORTS[run.info.suite](run)


def is_subclass(suite: str) -> bool:
    """Whether a suite is a subclass of Suite, which not all of ours are yet."""
    return suite not in OLD_SUITES or suite in BUILT_IN


def _row(view: CaseView, suite: str) -> list[str]:
    end = view.end
    key = " ".join([end.case, *_row_of(view, suite)])
    return [str(end.index), end.set, key, end.status, _scores(view), _preview(view)]


def _scores(view: CaseView) -> str:
    """Each of a few; of many, the mean by metric and how many they are."""
    final = [score for score in view.scores if not score.interim]
    if len(final) == len(view.scores) <= _MOST_SCORES:
        return ", ".join(
            f"{','.join(filter(None, (s.metric, s.part)))} {'–' if s.value is None else format(s.value, 'g')}"
            for s in final
        )
    values: dict[str, list[float]] = {}
    for score in final:
        if score.value is not None:
            values.setdefault(score.metric, []).append(score.value)
    return ", ".join(f"{name} {fmean(found):.3f} of {len(found):,}" for name, found in values.items())


def _row_of(view: CaseView, suite: str) -> list[str]:
    """What people call the case: `row 3 with fast`."""
    if is_subclass(suite):
        if not view.end.label:
            return []
        found = loadable_suite(suite)
        return [f"{found.case_word if found else 'case'} {view.end.label} with {view.end.subject}"]
    return [] if view.id is None else [f"row {view.id} with {view.end.subject}"]


@cache
def loadable_suite(name: str) -> type[Suite[Any, Any]] | None:
    """The suite of a run; None if it cannot be imported any more, since its runs can be read without it."""
    try:
        return find_suite(name)
    except AssayError:
        return None


def _preview(view: CaseView) -> str:
    if view.end.failure:
        text = f"{view.end.failure.kind}: {view.end.failure.message}"
    else:
        replies = (
            _texts(view.records[-1].data) if view.records and view.records[-1].kind not in _CLOSING else []
        )
        text = replies[0] if replies else ""
    flat = " ".join(text.split())
    return flat if len(flat) <= 50 else flat[:49] + "…"


def _texts(data: Any) -> list[str]:
    if isinstance(data, list):
        return [text for item in data for text in _texts(item)]
    if isinstance(data, dict):
        return [json.dumps(data.get("outputs", data), ensure_ascii=False)]
    return [str(data)]


def show_case(cases: RunCases, view: CaseView, suite: str) -> None:
    """Everything about one case, readable; what it gave in the way of its suite."""
    end = view.end
    heading(" · ".join([f"case {end.index}", end.set, end.case, *_row_of(view, suite), end.status]))
    if end.failure:
        block(f"{end.failure.kind}: {end.failure.message}")
        if end.failure.traceback:
            block(end.failure.traceback.rstrip("\n"), indent="    ")
    asked: list[Request] = []
    calls = cases.calls(end.index)
    for call in calls:
        if call.request is not None:
            asked.append(call.request)
            rule()
            _show_request(asked)
        _show_reply(call)
    rule()
    if is_subclass(suite):
        found = loadable_suite(suite)
        case = view._replace(calls=calls)
        print_sections(found.sections(case) if found else [*record_sections(case), *score_sections(case)])
        return
    _show_scores(view)


def _show_request(asked: list[Request]) -> None:
    """The last request; a prompt that is that of the one before is not shown again."""
    request = asked[-1]
    heading(f"prompt {len(asked)}")
    for message in request.messages or []:
        heading(f"  [{message.get('role')}]")
        block(str(message.get("content")), indent="    ", most=_MOST_CHARACTERS)
    if request.prompt is not None:
        same = len(asked) > 1 and asked[-2].prompt == request.prompt
        block("(the same)" if same else request.prompt, most=_MOST_CHARACTERS)
    if request.continuation is None:
        block(json.dumps(request.params, ensure_ascii=False))
    else:
        heading("how likely is" if request.prompt is not None else "how likely is the whole text")
        block(repr(request.continuation), most=_MOST_CHARACTERS)


def _show_reply(call: Call) -> None:
    tries = f", {call.attempts} attempts" if call.attempts > 1 else ""
    if call.response is None:
        heading(f"reply {call.n} failed ({call.seconds:.2f} s{tries})")
        block(f"{call.failure.kind}: {call.failure.message}" if call.failure else "")
        return
    if likely := _likelihood(call.response):
        heading(f"{likely} ({call.seconds:.2f} s{tries})")
        return
    if call.response.reasoning:
        heading(f"reasoning {call.n}")
        block(call.response.reasoning, most=_MOST_CHARACTERS)
    heading(f"reply {call.n} ({call.seconds:.2f} s{tries}, {call.response.finish or 'no finish reason'})")
    block(call.response.text, most=_MOST_CHARACTERS)


def _likelihood(response: Response) -> str:
    """`logprob -1.2345, greedy`: greedy where the model would have said the same."""
    data = response.data
    if not isinstance(data, dict) or "logprob" not in data:
        return ""
    return f"logprob {data['logprob']:.4f}, {'greedy' if data.get('greedy') else 'not greedy'}"


def _show_scores(view: CaseView) -> None:
    for score in view.scores:
        data = score.data or {}
        value = f"{score.value:g}" if score.value is not None else json.dumps(data.get("value"))
        said = (
            f"{score.part}: {data['verdict']}"
            if "verdict" in data
            else f"{' by '.join(filter(None, (score.metric, score.part)))}: {value}"
        )
        said += f", {data['label']}" if "label" in data else ""
        heading(said + (f" ({score.status})" if score.status != "scored" else ""))
        if score.reason:
            block(score.reason)
        if "filtered" in data:
            block(f"filtered: {json.dumps(data['filtered'], ensure_ascii=False)}")
        if "votes" in data:
            block("votes: " + ", ".join(f"{vote!r} × {count}" for vote, count in data["votes"]))
