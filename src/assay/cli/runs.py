"""`assay runs`: lists the runs below a folder."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import click
import msgspec

from assay.core.dollars import known_cost
from assay.core.errors import UsageError, unknown
from assay.core.registry import short
from assay.store.render.screen import columns_of, safe, table, tell
from assay.store.run_list import ListedRun, RunFilter, list_runs, unique_starts
from assay.suites import BUILT_IN, suite_names

STATES = ("finished", "incomplete", "stopped", "unfinished", "running", "damaged", "unreadable")
_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DATES = ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H-%M-%S")
# A run without a score or without a time comes before all others.
_LOWEST = float("-inf")
SORTS: dict[str, Callable[[ListedRun], tuple[float | str, ...]]] = {
    "started": lambda run: (run.started,),
    "score": lambda run: (run.scores[0].value if run.scores else _LOWEST,),
    "model": lambda run: (run.model, run.started),
    "suite": lambda run: (run.suite, run.started),
    "state": lambda run: (run.state, run.started),
    "cases": lambda run: (run.total or 0,),
    "seconds": lambda run: (_LOWEST if run.seconds is None else run.seconds,),
}
# Columns that a narrow terminal leaves to the model and to the score at least.
_MIN_MODEL, _MIN_SCORE = 14, 14


@click.command("runs", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="[DIR]")
@click.option("--suite", "suites", multiple=True, metavar="SUITE", help="Only runs of this suite, such as task.")
@click.option("--model", default="", metavar="TEXT", help="Only runs whose model contains this text.")
@click.option("--state", "states", multiple=True, type=click.Choice(STATES), help="Only runs in this state.")
@click.option(
    "--since",
    metavar="2d|DATE",
    help="Only runs that started in the last 30m, 12h, 2d or 3w, or since a date.",
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only runs with this tag; see `assay note`.")
@click.option("--failed", is_flag=True, help="Only runs that stopped, or that ended with another exit code than 0.")
@click.option(
    "--search",
    default="",
    metavar="TEXT",
    help="Only runs with this text in name, model, command, notes or tags.",
)
@click.option(
    "--sort",
    type=click.Choice(list(SORTS)),
    default="started",
    show_default=True,
    help="The last line has the largest.",
)
@click.option("--reverse", is_flag=True, help="Reverse the order: the largest or newest first.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="At most N runs: the newest, or the largest by --sort.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of the runs, with all their fields.")
def command(  # noqa: PLR0913 - one parameter for each option
    folder: Path,
    suites: tuple[str, ...],
    model: str,
    states: tuple[str, ...],
    since: str | None,
    tags: tuple[str, ...],
    failed: bool,
    search: str,
    sort: str,
    reverse: bool,
    limit: int | None,
    as_json: bool,
) -> int:
    """List the runs below DIR (default: the current folder) with state, progress, score, tags and notes.

    Runs of the same suite and model are told apart by the options in which they differ. The first column is the
    beginning of a run's name; other commands accept it as RUN.

    A run with a damaged file is listed too, with the state `damaged`; what is wrong and what to do follows on stderr.
    The exit code stays 0. Of finished runs only run.json, summary.json and the sizes of the other files are read;
    `assay check RUN` verifies every line.

    \b
    Examples:
      assay runs results
      assay runs --suite task --model gpt-5 --since 2d
      assay runs --failed
      assay runs --tag baseline --sort score --limit 5
      assay runs --search "shorter prompt" --json
    """
    chosen = RunFilter(
        suites=tuple(_suite_name(name, folder) for name in suites),
        model=model,
        states=states,
        since=None if since is None else parse_since(since, time.time()),
        tags=tags,
        failed=failed,
        search=search,
    )
    warnings: list[str] = []
    runs = list_runs(folder, chosen, warn=warnings.append, ignored_options=_ignored_options)
    runs.sort(key=SORTS[sort])
    if limit is not None:
        runs = runs[-limit:]
    if reverse:
        runs.reverse()
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(runs), indent=2))
    elif not runs:
        click.echo(f"no runs below {folder}" if chosen == RunFilter() else f"no run below {folder} matches")
    elif sys.stdout.isatty():
        _print_for_terminal(runs)
    else:
        _print_table(runs)
    # Below the list, where they are seen.
    for warning in warnings:
        tell(warning)
    return 0


def parse_since(text: str, now: float) -> float:
    """Return the time that `--since` names, in seconds since 1970: `2d` before now, or a date in local time."""
    if match := re.fullmatch(r"(\d{1,6})\s*([mhdw])", text.strip()):
        return now - int(match[1]) * _SECONDS[match[2]]
    for pattern in _DATES:
        try:
            return time.mktime(time.strptime(text.strip(), pattern))
        except (ValueError, OverflowError):
            continue
    raise UsageError(f"--since {text!r} is no time: write 30m, 12h, 2d, 3w, 2026-01-28 or '2026-01-28 03:22'")


def _suite_name(text: str, folder: Path) -> str:
    """Return the name of a suite that is given by its name or by the words of its command.

    Raises UsageError if no suite and no run below the folder has this name.
    """
    if text in BUILT_IN:
        return text
    for name, suite in BUILT_IN.items():
        if suite.command == text:
            return name
    # A run's suite may be a file of the user, or a package that is no longer installed.
    used = {name for run in list_runs(folder, RunFilter()) for name in (run.suite, short(run.suite))}
    if text not in used and text not in suite_names():
        raise UsageError(unknown("suite", text, [*suite_names(), *sorted(used - set(suite_names()))]))
    return text


def _ignored_options(suite: str) -> Collection[str]:
    """Return the options of a suite that change no result. No code of a user is imported to list runs."""
    if suite not in BUILT_IN:
        return ()
    from assay.core.spec import fields
    from assay.suites import find_options

    return [option.name for option in fields(find_options(suite)) if option.mark == "how"]


def _suite_cell(run: ListedRun) -> str:
    # The name of a suite from a file is its path. Without the folder, it fits into the table. Many evaluations of one
    # program have the same suite and no model: only their names tell them apart.
    return " ".join(filter(None, (run.suite.rpartition("/")[2] if ".py:" in run.suite else run.suite, run.title)))


def _print_table(runs: Sequence[ListedRun]) -> None:
    """Print a line for each run with everything in full, for pipes and files."""
    rows = []
    for run in runs:
        started = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started))
        done = "–" if run.total is None else f"{run.done:,}/{run.total:,}"
        notes = " | ".join(" ".join(note.text.split()) for note in run.notes)
        cells = [run.name, started, _suite_cell(run), run.model, run.state, done, run.headline]
        cost = "" if run.cost is None else known_cost(run.cost, run.unpriced_calls)
        rows.append([*cells, cost, _differences(run), ",".join(run.tags), notes])
    header = ["run", "started", "suite", "model", "state", "done", "score"]
    header += ["cost", "differs in", "tags", "notes"]
    # Many lists have no prices, and most have neither tags nor notes.
    used = [number for number in range(len(header)) if number < 7 or any(row[number] for row in rows)]
    table([header[number] for number in used], [[row[number] for number in used] for row in rows])


def _differences(run: ListedRun) -> str:
    """Return `limit=5 num_fewshot=2`. Options that the run does not have, and other runs have, are left out."""
    return " ".join(f"{name}={value}" for name, value in run.differs.items() if value is not None)


def _print_for_terminal(runs: Sequence[ListedRun]) -> None:
    """Print a line for each run that fits into the terminal, and below it what tells the run apart, tags and notes."""
    room = shutil.get_terminal_size().columns
    starts = unique_starts([run.name for run in runs])
    rows = [["run", "suite", "model", "state", "score"]]
    for run in runs:
        done = ""
        if run.total is not None:
            done = f" {run.total:,}" if run.done == run.total else f" {run.done:,}/{run.total:,}"
        provider, _, path = run.model.partition("/")
        # The model of a function or of recorded replies is a path, of which the file tells most.
        model = f"{provider}/…/{path.rpartition('/')[2]}" if path.count("/") > 1 else run.model
        rows.append([starts[run.name], _suite_cell(run), model, f"{run.state}{done}", _short_scores(run)])
    rows = [[safe(cell) for cell in row] for row in rows]
    widths = [max(map(columns_of, column)) for column in zip(*rows, strict=True)]
    # The name and the state are never cut. A score begins with its number, so its end can be cut.
    for column, smallest in ((2, _MIN_MODEL), (4, _MIN_SCORE), (1, 8)):
        too_wide = sum(widths) + 2 * (len(widths) - 1) - room
        if too_wide > 0:
            widths[column] = max(min(widths[column], smallest), widths[column] - too_wide)
    for number, row in enumerate(rows):
        cells = [_fit(cell, width) for cell, width in zip(row, widths, strict=True)]
        line = "  ".join(cell + " " * (width - columns_of(cell)) for cell, width in zip(cells, widths, strict=True))
        click.echo(click.style(line.rstrip(), bold=True) if number == 0 else line.rstrip())
        if number == 0:
            click.echo("  ".join("─" * width for width in widths))
            continue
        run = runs[number - 1]
        details = [_differences(run), " ".join(f"#{tag}" for tag in run.tags)]
        details += ["" if run.cost is None else f"cost {known_cost(run.cost, run.unpriced_calls)}"]
        details += [" ".join(note.text.split()) for note in run.notes[-1:]]
        if any(details):
            click.echo(click.style(_fit(safe("    " + " · ".join(filter(None, details))), room), dim=True))


def _short_scores(run: ListedRun) -> str:
    """Return the scores with their numbers first: `0.6100 exact_match`, or `0.71 bm25, 0.66 dense` for several."""
    if len(run.scores) == 1:
        return f"{run.scores[0].value:.4f} {run.scores[0].metric}"
    return ", ".join(f"{score.value:.4f} {score.entry}" for score in run.scores)


def _fit(text: str, width: int) -> str:
    """Return the text, cut to this many columns of a terminal with `…` at its end."""
    if columns_of(text) <= width:
        return text
    while columns_of(text) > width - 1:
        text = text[:-1]
    return text + "…"
