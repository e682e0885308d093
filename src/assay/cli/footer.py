"""Prints the last lines about a run: its cost, its failures, its files, and how to continue it."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.core.dollars import dollars, known_cost
from assay.core.error_counts import ErrorCount
from assay.core.run_end import BAD_INPUT
from assay.core.types import BAD_CASE, SUBJECT_KINDS
from assay.store.render.screen import block, counted, duration, tell

if TYPE_CHECKING:
    from assay.runner.results import Run

# If there are more files than this, only their folders are listed, with counts.
MOST_FILES = 8
# Errors of user code that are listed with file and line.
MOST_ERRORS = 3
# Characters of a failure's message. `assay show RUN CASE` prints all of it.
MAX_MESSAGE = 160


def print_footer(run: Run, *, hints_at_errors: bool = True) -> None:
    """Print calls and tokens, failures, result files, and the command that continues the run if it is not complete.

    `hints_at_errors` adds the command that lists the cases without an answer.
    """
    click.echo(_cost(run))
    summary = run.summary
    if summary.adapted:
        block(f"requests were adapted to the endpoint: {', '.join(summary.adapted)}")
    for sentence in summary.reply_problems:
        block(sentence)
    failures = [f"{count:,} × {kind}{_failure_message(run, kind, count)}" for kind, count in summary.failures.items()]
    # Failures of the infrastructure are over if all cases have their answers and scores.
    are_over = not summary.infra_error and not summary.unscored
    failed_calls = [
        f"{counted(count, 'call')} failed, {kind}{_first_message(run, kind, count)}"
        for kind, count in summary.failed_calls.items()
        if kind not in summary.failures and (kind in SUBJECT_KINDS or not are_over)
    ]
    for line in [*failures, *failed_calls]:
        block(line)
    for error in _located_errors(run, [*failures, *failed_calls, summary.end_sentence]):
        block(f"{error.count:,} × {error}")
    if summary.failures and hints_at_errors:
        click.echo(f"  list them with: assay show {run.folder} --errors")
    files = run.files
    if run.summary.newest:
        # The run folder has the same files. These are the copies that a user opens.
        newest = Path(run.summary.newest)
        own = [file for file in files if file.absolute().is_relative_to(run.folder.absolute())]
        elsewhere = [file for file in files if file not in own]
        files = [*(newest / file.name for file in (*own, Path("summary.json"))), *elsewhere]
    lines = [str(file) for file in files]
    if len(files) > MOST_FILES:
        folders = Counter(file.parent for file in files)
        lines = [f"{folder}/ ({counted(count, 'file')})" for folder, count in folders.items()]
    for line in lines:
        click.echo(f"wrote {line}" if run.asked else f"found {line}")
    for scoring in run.earlier:
        click.echo(f"earlier scoring {scoring.folder} ({scoring.numbers})")
    click.echo(f"run   {run.folder}")
    _tell_if_all_refused(run)
    if run.exit_code in (3, 130):
        _print_how_to_continue(run)
    elif summary.exit_reason:
        tell(summary.end_sentence)
    if run.exit_code == BAD_INPUT:
        click.echo("Correct the task or its data; `assay check` lists every problem.", err=True)


def print_errors(run: Run) -> None:
    """Print what `--quiet` prints of a run: why it stopped, or which cases failed and how to continue."""
    if run.reason:
        tell(run.reason)
    _tell_if_all_refused(run)
    summary = run.summary
    if run.exit_code not in (3, 130) and summary.exit_reason:
        tell(summary.end_sentence)
    failed = summary.infra_error + summary.unscored
    if run.exit_code != 3 or run.reason or not failed:
        return
    kinds = {kind: count for kind, count in summary.failures.items() if kind not in SUBJECT_KINDS}
    if not kinds:
        kinds = {kind: count for kind, count in summary.failed_calls.items() if kind not in SUBJECT_KINDS}
    causes = [f"{count:,} × {kind}{_first_message(run, kind, count)}" for kind, count in kinds.items()]
    failures = f"{failed:,} of {counted(summary.total, 'case')} failed"
    if problem := _judge_problem(run):
        tell(f"{failures}. {problem}. Correct it, then continue with: {_continue_command(run)}")
        return
    tell(f"{failures} ({'; '.join(causes)}). Continue with: {_continue_command(run)}")


def _located_errors(run: Run, lines: list[str]) -> list[ErrorCount]:
    """Return the most frequent errors with their place in the user's code, but for one that a line names already."""
    errors = [error for error in (run.report.errors if run.report else []) if error.place]
    # One of several errors stays: the lines do not say how often it came.
    if len(errors) == 1 and any(errors[0].place in line for line in lines):
        return []
    return errors[:MOST_ERRORS]


def _tell_if_all_refused(run: Run) -> None:
    """Say loudly that no case has an answer, if each one ended as a refusal or did not fit into the context."""
    failures = run.summary.failures
    refused, too_long = failures.get("refusal", 0), failures.get("context_overflow", 0)
    if not run.summary.total or refused + too_long < run.summary.total:
        return
    if not too_long:
        tell(f"Every case was refused by the endpoint{_first_message(run, 'refusal')}")
    elif not refused:
        tell(f"Every case was too long for the model{_first_message(run, 'context_overflow')}")
    else:
        tell("Every case was refused by the endpoint or was too long for the model. No case has an answer")


def _first_message(run: Run, kind: str, count: int = 1) -> str:
    """Return the message of the first failure of a kind, after a comma if there are more. Empty if it is not known."""
    message = " ".join(run.summary.first_failures.get(kind, "").split())
    if len(message) > MAX_MESSAGE:
        message = message[: MAX_MESSAGE - 1] + "…"
    if not message:
        return ""
    return f": {message}" if count == 1 else f", the first: {message}"


def _failure_message(run: Run, kind: str, count: int) -> str:
    """Return the message of failures of a kind. If all of them are one error of user code, it has its place.

    Without the place, the error would be listed a second time below, with it.
    """
    message = _first_message(run, kind, count)
    errors = _located_errors(run, [message, run.summary.end_sentence])
    is_one_error = kind == "user_code" and len(errors) == 1 and errors[0].count == count
    return f": {errors[0]}" if is_one_error else message


def _cost(run: Run) -> str:
    """Return calls and tokens of all starts, and what this start added."""
    summary, spent, now = run.summary, run.summary.spent, run.summary.this_start
    ended = summary.ok + summary.subject_error + summary.infra_error
    parts = [f"{ended:,} of {counted(summary.total, 'case')}", counted(spent.calls, "call")]
    if spent.retries:
        parts.append(counted(spent.retries, "retry", "retries"))
    if spent.input_tokens or spent.output_tokens:
        tokens = f"{spent.input_tokens or 0:,} tokens in, {spent.output_tokens or 0:,} out"
        if spent.reasoning_tokens:
            tokens += f" ({spent.reasoning_tokens:,} reasoning)"
        parts.append(tokens)
    if summary.cost is not None:
        judged = f", {dollars(summary.scoring_cost)} of it for scoring" if summary.scoring_cost else ""
        unpriced = spent.unpriced_calls
        cost = f"cost {known_cost(summary.cost, unpriced)}{judged}{_price_source(summary.price_tables)}"
        if unpriced:
            cost += f"; {counted(unpriced, 'call')} {'has' if unpriced == 1 else 'have'} no price"
        parts.append(cost)
    if not run.asked:
        state = "already finished" if summary.state == "finished" else summary.state
        return " · ".join([*parts, f"{state}; no requests sent"])
    if now.get("paid", 0) != spent.calls:
        parts.append(f"{now.get('paid', 0):,} of them now")
    if now.get("replayed"):
        parts.append(f"{now['replayed']:,} replayed")
    if summary.ran_on:
        parts.append(f"on {summary.ran_on}")
    return " · ".join([*parts, duration(summary.seconds)])


def _price_source(tables: list[str]) -> str:
    """Return where prices come from, such as ` (prices of 2026-01-31)`. Empty if endpoints reported all of them."""
    dates = dict.fromkeys(table.partition("/")[0] for table in tables)
    return f" (prices of {', '.join(dates)})" if dates else ""


def _print_how_to_continue(run: Run) -> None:
    if run.reason:
        tell(run.reason)
    invalid = run.summary.failures.get(BAD_CASE, 0)
    if invalid:
        click.echo(
            f"{counted(invalid, 'case')} with bad data cannot be asked; `assay check` lists the problems.",
            err=True,
        )
    if (unanswered := run.summary.infra_error - invalid) > 0:
        click.echo(f"{_again(unanswered, 'got no answer')} be run again.", err=True)
    if unscored := run.summary.unscored:
        click.echo(f"{_again(unscored, 'could not be judged')} be judged again.", err=True)
    if problem := _judge_problem(run):
        click.echo(
            f"{problem}. Correct it first: the same code would fail again. All replies so far are saved. "
            f"Then continue with: {_continue_command(run)}",
            err=True,
        )
        return
    # The progress has told how many replies could not be saved.
    saved = "All other replies" if run.summary.this_start.get("lost") else "All replies so far"
    click.echo(f"{saved} are saved. Continue with: {_continue_command(run)}", err=True)


def _judge_problem(run: Run) -> str:
    """Return the error of a judge of the user's own, with its place; empty if another failure left cases unjudged."""
    summary = run.summary
    kinds = set(summary.failed_calls) - set(summary.failures)
    if not summary.unscored or kinds != {"user_code"}:
        return ""
    return f"The code of the judge raised{_first_message(run, 'user_code').replace(':', '', 1)}"


def _continue_command(run: Run) -> str:
    # These commands send no requests, so they would stop again. The run's own command gets the missing replies.
    asks = run.asked and sys.argv[1:2] not in (["rescore"], ["merge"])
    words = (sys.argv if asks else run.info.command)[1:]
    return shlex.join(["assay", *[word for word in words if word != "--fresh"]])


def _again(count: int, what: str) -> str:
    return f"{counted(count, 'case')} {what}; {'it' if count == 1 else 'they'} will"
