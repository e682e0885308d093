"""`assay show`: prints the report of a run, or everything about one of its cases."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import click

from assay.cli.code_option import code_option
from assay.cli.completion import complete_runs
from assay.cli.note import print_notes
from assay.cli.printer import print_run, print_sections
from assay.cli.sql import print_where
from assay.core.dollars import dollars
from assay.core.errors import UsageError
from assay.core.suite_pages import SuitePages
from assay.files.excerpt import cut_end
from assay.store.notes import notes_or_warning
from assay.store.render.screen import block, counted, heading, rule, table, tell

if TYPE_CHECKING:
    from assay.core.suite_pages import StoredCase
    from assay.core.types import Call, Request
    from assay.runner.results import Run
    from assay.store.cases import RunCases

# Longer prompts and replies are cut. The journal has them in full.
MAX_CHARS = 4000
# If a case has more scores than this, means are printed. A conversation has thousands of scores.
MAX_SCORES = 8
# Characters of a reply in the table of cases.
MAX_PREVIEW = 50
# Characters of the reason of an invalid score, and rows in the table of them.
MAX_REASON, MAX_INVALID = 120, 100
# A case of many questions has a call for each of them. More calls than this are not printed.
MAX_CALLS = 20


@click.command("show", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", metavar="RUN", shell_complete=complete_runs)
@click.argument("case", required=False, metavar="[CASE]")
@click.option("--position", type=click.IntRange(min=0), metavar="N", help="Show the case at this position of the run.")
@click.option(
    "--failed",
    is_flag=True,
    help="Only cases that have no answer or a score of 0; those without an answer first.",
)
@click.option("--errors", is_flag=True, help="Only cases without an answer, with the error of each.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most this many cases.")
@click.option("--markdown", is_flag=True, help="Print the report as a Markdown table, for a pull request.")
@click.option("--latex", is_flag=True, help="Print the report as a LaTeX table (package booktabs), for a paper.")
@click.option(
    "--question",
    metavar="ID",
    help="Everything about one question of a memory run: its number (memory test), CHECKPOINT/NUMBER "
    "(memory eval), or its text. CASE says which conversation or sample.",
)
@click.option("--search", metavar="TEXT", help="Only cases whose prompts, replies or records contain this text.")
@click.option("--where", metavar="SQL", help="Only rows for which this SQL condition holds, as a table.")
@click.option("--json", "as_json", is_flag=True, help="With --where: print the rows as JSON, in full.")
@code_option
def command(  # noqa: PLR0913 - one argument per option
    run: str,
    case: str | None,
    position: int | None,
    failed: bool,
    errors: bool,
    limit: int,
    markdown: bool,
    latex: bool,
    search: str | None,
    where: str | None,
    as_json: bool,
    question: str | None,
) -> int:
    """Show the report of a run and its first cases; with CASE, the calls, records and scores of one case.

    RUN is a run folder, an output folder with one run, or the beginning of a run's name. CASE is the id in the data
    of a test, a row or a conversation, also as SET/ID or `row 4 with PROFILE`; the beginning of its key; or its
    position, which the list of cases shows first. A number is an id before it is a position.

    \b
    Examples:
      assay show results
      assay show results --failed --limit 5
      assay show results --errors
      assay show results 17
      assay show results "row 4 with fast"
      assay show results --position 0
      assay show results --markdown
      assay show results --latex > table.tex
      assay show results conv-26 --question 17
      assay show results --search Eiffel
      assay show results --where "category = 2 and score < 0.5"
      assay show results --where "answer ilike '%not mentioned%'" --json

    A row of --where is a question of a memory suite, a test of a pipeline, or a case of another suite. Its columns:
    index, label, subject, part, tags, status, score (the first metric), every metric by its name, answer, expected,
    reason, error, seconds, calls; a tag topic:law is a column topic. docs/sql.md has more.
    """
    # Imported here because completion and --help need neither.
    from assay.cli.case_list import print_cases
    from assay.runner import api
    from assay.runner.results import load
    from assay.store.cases import RunCases

    if where is not None or search is not None:
        other = case is not None or position is not None or failed or errors or markdown or latex
        if other or (where and search):
            raise UsageError("--where and --search select rows themselves; of the other options, pass --limit only")
        return print_where(run, where, limit, as_json) if where is not None else print_hits(run, search or "", limit)
    if as_json:
        raise UsageError("--json needs --where")
    if case is not None and position is not None:
        raise UsageError("CASE and --position name two cases; pass one of them")
    one_case = case if position is None else f"@{position}"
    if markdown or latex:
        if markdown and latex:
            raise UsageError("--markdown and --latex print the same report; pass one of them")
        if one_case is not None or failed or errors or question is not None:
            option = "--failed" if failed else "--errors" if errors else ""
            raise UsageError(
                f"{'--markdown' if markdown else '--latex'} prints the report of the whole run: leave out "
                f"{option or ('--question' if question is not None else 'the case')}"
            )
        loaded = load(run)
        RunCases(loaded.folder)  # refuses a damaged journal: the numbers would not be those of its lines
        print_document(loaded, latex=latex)
        return 0
    loaded = load(run)
    cases = RunCases(loaded.folder)
    if question is not None:
        from assay.cli.question import print_question

        print_question(loaded, cases, one_case, question)
        return 0
    remarks: list[str] = []
    pages = api.suite_pages(loaded.info.suite, remarks.append)
    if one_case is not None:
        _print_found_case(cases, one_case, pages)
    else:
        print_run(loaded, hints_at_errors=not errors)
    if remarks:
        tell(" ".join(remarks))
    if one_case is not None:
        return 0
    print_notes(notes_or_warning(loaded.folder, tell))
    if errors:
        positions = cases.positions_without_answer()
    else:
        positions = _failed_positions(cases) if failed else cases.ended_positions()
    stored_cases = [stored for stored in map(cases.case, positions[:limit]) if stored is not None]
    click.echo()
    if not stored_cases:
        what = "every case has an answer" if errors else "no case failed"
        click.echo(what if failed or errors else "no case has ended yet")
        return 0
    if not print_cases(cases, stored_cases, pages, loaded):
        _print_scores(stored_cases, loaded, pages)
    if more := len(positions) - len(stored_cases):
        click.echo(f"… {more:,} more (--limit {len(positions)} shows all)")
    if failed and not errors and (invalid := [row for stored in stored_cases for row in _invalid_rows(stored)]):
        click.echo("\ninvalid scores")
        table(["position", "part", "scores", "reason"], invalid[:MAX_INVALID])
        if len(invalid) > MAX_INVALID:
            click.echo(f"and {len(invalid) - MAX_INVALID:,} more")
    return 0


def _print_found_case(cases: RunCases, name: str, pages: SuitePages) -> None:
    """Print the case of this name, after a remark if the name is also the position of another one."""
    case = cases.find(name)
    if name.isdecimal() and case.end.index != int(name) and cases.case(int(name)) is not None:
        tell(
            f"{name} is the id of the case at position {case.end.index}. "
            f"--position {name} shows the case at position {name}."
        )
    print_case(case._replace(calls=cases.calls(case.end.index)), pages)


def _print_scores(cases: Sequence[StoredCase], run: Run, pages: SuitePages) -> None:
    """Print a list of cases that have no expected value to show: conversations, and cases without gold."""
    from assay.store.cases import answer_preview

    in_tables = {metric.name for _, metric in run.report.metrics() if metric.table} if run.report else set()
    rows = []
    for case in cases:
        end = case.end
        key = " ".join(filter(None, (end.case, _name_for_people(case, pages))))
        reply = answer_preview(pages, end.failure, case.records, MAX_PREVIEW)
        rows.append([str(end.index), end.set, key, end.outcome, _score_cell(case, in_tables), reply])
    table(["position", "set", "key", "status", "scores", "reply"], rows)


def _invalid_rows(case: StoredCase) -> list[list[str]]:
    """Return a row for each invalid verdict of a case. Several scores may be computed from one (data `verdict`)."""
    metrics: dict[tuple[str, str, object], list[str]] = {}
    for score in case.scores:
        if score.status == "invalid" and not score.interim:
            verdict = score.data.get("verdict", score.metric) if isinstance(score.data, dict) else score.metric
            metrics.setdefault((score.part, score.reason, verdict), []).append(score.metric)
    return [
        [str(case.end.index), part, ", ".join(names), cut_end(reason.partition("\n")[0], MAX_REASON)]
        for (part, reason, _), names in metrics.items()
    ]


def _failed_positions(cases: RunCases) -> list[int]:
    """Return the cases that failed, those without an answer first. The index knows them, so no case is read."""
    from assay.store.row_table import RowTable

    rows = RowTable(cases.folder)
    try:
        failed: list[int] = rows.case[rows.select(failed=True)].tolist()
    finally:
        rows.close()
    return list(dict.fromkeys([*cases.positions_without_answer(), *failed]))


def print_hits(run: str, text: str, limit: int) -> int:
    """Print the places of a run that contain a text, one for each case."""
    from assay.store.runs import find_run
    from assay.store.search import search

    folder = find_run(run)
    rows: dict[int, list[str]] = {}
    more = 0
    for hit in search(folder, text):
        if hit.case in rows:
            continue
        if len(rows) == limit:
            more = 1
            break
        rows[hit.case] = ["–" if hit.case < 0 else str(hit.case), hit.place, hit.excerpt]
    if not rows:
        click.echo(f"no prompt, reply or record of {folder} contains {text!r}")
        return 0
    table(["position", "in", "text"], list(rows.values()))
    if more:
        click.echo(f"there are more (--limit N shows more than {limit})")
    return 0


def print_document(run: Run, *, latex: bool) -> None:
    """Print the report of a run as Markdown or LaTeX. Raises UsageError if the run has no report."""
    from assay.store.render.latex import report_latex
    from assay.store.render.markdown import escape, report_markdown

    if run.report is None:
        raise UsageError(f"{run.folder} has no report yet: the run is {run.summary.state}")
    summary = run.summary
    ended = summary.ok + summary.subject_error + summary.infra_error
    cases = f"{ended:,} of {counted(summary.total, 'case')}"
    about = ", ".join(filter(None, (run.info.suite, str(run.info.spec.get("model") or ""), cases)))
    if summary.state != "finished":
        about += f", {summary.state}"
    about += f"; run {run.folder.name}"
    if latex:
        click.echo(report_latex(run.report, about), nl=False)
    else:
        click.echo(f"{escape(about)}\n\n{report_markdown({'': run.report})}", nl=False)


def _name_for_people(case: StoredCase, pages: SuitePages) -> str:
    """Return a name such as `row 3 with fast`. Empty if the case has no label."""
    return f"{pages.case_word} {case.end.label} with {case.end.subject}" if case.end.label else ""


def _score_cell(case: StoredCase, left_out: Collection[str]) -> str:
    """Return the scores of a case, without some metrics. If there are many, their mean and number by metric."""
    final = [score for score in case.scores if not score.interim and score.metric not in left_out]
    if len(final) == len(case.scores) <= MAX_SCORES:
        parts = []
        for score in final:
            name = ",".join(filter(None, (score.metric, score.part)))
            parts.append(f"{name} –" if score.value is None else f"{name} {score.value:g}")
        return ", ".join(parts)
    values: dict[str, list[float]] = {}
    for score in final:
        if score.value is not None:
            values.setdefault(score.metric, []).append(score.value)
    return ", ".join(f"{name} {fmean(numbers):.3f} of {len(numbers):,}" for name, numbers in values.items())


def print_case(case: StoredCase, pages: SuitePages) -> None:
    """Print how a case ended, its calls with prompts and replies, and the suite's sections."""
    end = case.end
    names = (f"case {end.index}", end.set, end.case, _name_for_people(case, pages), end.outcome)
    heading(" · ".join(filter(None, names)))
    if end.failure:
        block(f"{end.failure.kind}: {end.failure.message}")
        if end.failure.traceback:
            block(end.failure.traceback.rstrip("\n"), indent="    ")
    requests: list[Request] = []
    calls = case.calls
    if pages.has_questions and len(calls) > MAX_CALLS:
        click.echo(f"{len(calls):,} calls (not shown; --question ID shows one question)")
        calls = ()
    for call in calls:
        if call.request is not None:
            requests.append(call.request)
            rule()
            _print_request(requests)
        _print_reply(call)
    rule()
    print_sections(pages.sections(case))


def _print_request(requests: list[Request]) -> None:
    """Print the last request. A prompt that equals the one before is not repeated."""
    request = requests[-1]
    heading(f"prompt {len(requests)}")
    for message in request.messages or []:
        heading(f"  [{message.get('role')}]")
        block(str(message.get("content")), indent="    ", max_chars=MAX_CHARS)
    if request.prompt is not None:
        same = len(requests) > 1 and requests[-2].prompt == request.prompt
        block("(the same)" if same else request.prompt, max_chars=MAX_CHARS)
    if request.continuation is None:
        block(json.dumps(request.shown_params, ensure_ascii=False))
    else:
        heading("how likely is" if request.prompt is not None else "how likely is the whole text")
        block(repr(request.continuation), max_chars=MAX_CHARS)


def _print_reply(call: Call) -> None:
    # A call of an imported run has 0 attempts, and mostly no time.
    took = f"{call.seconds:.2f} s" if call.seconds or call.attempts else "time unknown"
    if call.attempts > 1:
        took += f", {call.attempts} attempts"
    response = call.response
    if response is not None and response.cost is not None:
        took += f", {dollars(response.cost)}"
    if response is None or call.failure is not None:
        heading(f"reply {call.n} failed ({took})")
        block(f"{call.failure.kind}: {call.failure.message}" if call.failure else "")
    elif isinstance(response.data, dict) and "logprob" in response.data:
        # "greedy" means that greedy decoding would yield this text.
        greedy = "greedy" if response.data.get("greedy") else "not greedy"
        heading(f"logprob {response.data['logprob']:.4f}, {greedy} ({took})")
    else:
        if response.reasoning:
            heading(f"reasoning {call.n}")
            block(response.reasoning, max_chars=MAX_CHARS)
        heading(f"reply {call.n} ({took}, {response.finish or 'no finish reason'})")
        block(response.text, max_chars=MAX_CHARS)
