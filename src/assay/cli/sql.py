"""`assay sql`: asks runs in SQL, with one query or at a prompt."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click
import msgspec

from assay.cli.completion import complete_runs
from assay.core.errors import UsageError
from assay.files.paths import can_exist
from assay.files.write import csv_cell
from assay.store.render.screen import block, counted, table, tell

if TYPE_CHECKING:
    from assay.store.sql import QueryResult, SqlProcess

FORMATS = ("table", "csv", "json", "parquet")
# Rows that a table shows. The other formats write all rows.
MAX_ROWS = 1000
# Rows after the last shown one that are counted. To count them all, an endless query would have to end.
MAX_COUNTED = 1_000_000
# Characters of a cell in a table.
MAX_CELL = 60
_MAX_WHERE_CELL = 50
# Columns of the view `rows` that the table of `assay show --where` leaves out. --json has them.
_NOT_IN_TABLE = frozenset({"run", "suite", "key", "reason", "seconds", "calls"})


@click.command("sql", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("query", required=False, metavar="[QUERY]")
@click.argument("places", nargs=-1, metavar="[RUN|DIR|FILE]...", shell_complete=complete_runs)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(FORMATS),
    help="table (the first 1,000 rows), csv, json or parquet. Default: the ending of --output, else table.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the result to this file. It must not exist.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    show_default=True,
    help="Stop a query after this many seconds.",
)
def command(
    query: str | None, places: tuple[str, ...], format_name: str | None, output: Path | None, timeout: float
) -> int:
    """Ask runs in SQL. Without QUERY, a prompt opens; `.help` lists its commands.

    QUERY is one SELECT in DuckDB's dialect over the views runs, cases, answers, steps, scores, metrics, judgements,
    calls, failures and rows; `.views` at the prompt explains them. A place is a run, a folder with runs (default: the
    current folder), or a result file that `assay import` reads. Queries change nothing and reach no other file and
    no network.

    \b
    Examples:
      assay sql
      assay sql "select run, model, ok, cost from runs order by started" results
      assay sql "select tag, avg(value) from (select unnest(tags) as tag, value from scores) group by tag" results
      assay sql "select prompt, reply from calls where error is null" my-run --output calls.csv
      assay sql "select metric, value, low, high from metrics" out/results_2026-11-15T18-25-44.json
    """
    from assay.runner import api

    if query is not None and not query.strip():
        raise UsageError("the query is empty. Leave it out to open the prompt")
    # `assay sql results` opens the prompt: a query has several words.
    is_place = query is not None and can_exist(query) and Path(query).exists()
    if query is not None and (" " not in query.strip() or is_place) and "\n" not in query:
        places, query = (query, *places), None
    chosen = _format(format_name, output)
    if output is not None and output.exists():
        raise UsageError(f"{output} exists. Pass another name with --output, or remove it first")
    if query is None:
        from assay.cli.sql_prompt import Prompt

        if output is not None:
            raise UsageError('--output needs a query: assay sql "select ..." --output FILE')
        return Prompt(lambda: api.open_sql(places, warn=tell, timeout=timeout), chosen).run()
    with api.open_sql(places, warn=tell, timeout=timeout) as database:
        _write(database, query, chosen, output)
    return 0


def _format(format_name: str | None, output: Path | None) -> str:
    """Return the format of the result. Raises UsageError if it does not fit the output."""
    if format_name is None and output is not None:
        format_name = output.suffix.removeprefix(".")
        if format_name not in FORMATS[1:]:
            raise UsageError(f"--output {output} has no ending .csv, .json or .parquet. Pass --format")
    if format_name == "parquet" and output is None:
        raise UsageError("Parquet is not text: name a file with --output FILE.parquet")
    if format_name == "table" and output is not None:
        raise UsageError("a table goes to the terminal. With --output, pass --format csv, json or parquet")
    return format_name or "table"


def _write(database: SqlProcess, query: str, format_name: str, output: Path | None) -> None:
    if output is None:
        print_result(database.query(query), format_name)
        return
    try:
        if format_name == "parquet":
            rows = database.write_parquet(query, output)
        else:
            result = database.query(query)
            # Removed if the query stops between two rows: half a result looks like a whole one.
            with output.open("x", encoding="utf-8", newline="") as file:
                try:
                    rows = _write_text(result, format_name, file)
                except BaseException:
                    output.unlink()
                    raise
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from None
    block(f"wrote {output}: {counted(rows, 'row')}", indent="")


def print_result(result: QueryResult, format_name: str) -> None:
    """Print the rows of a query on stdout: as a table, as CSV or as JSON."""
    if format_name != "table":
        _write_text(result, format_name, sys.stdout)
        return
    shown: list[list[str]] = []
    more = 0
    for row in result.rows():
        if len(shown) < MAX_ROWS:
            shown.append([table_cell(value) for value in row])
        elif more == MAX_COUNTED:
            break
        else:
            more += 1
    table(result.columns, shown)
    if more:
        at_least = "at least " if more == MAX_COUNTED else ""
        tell(f"{at_least}{counted(more, 'more row')}. A table shows {MAX_ROWS:,}; --format csv writes all")
    elif not shown:
        tell("no rows")


def table_cell(value: Any, max_chars: int = MAX_CELL) -> str:
    """Return a value as a cell of a table: one line, cut where it is long. NULL is a dash."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        text = ", ".join(map(table_cell, value))
    elif isinstance(value, datetime):
        text = value.isoformat(sep=" ", timespec="seconds")
    elif isinstance(value, dict):
        text = _encode(value).decode()
    else:
        text = str(value)
    line = " ".join(text.split())
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"


_encoder = msgspec.json.Encoder(decimal_format="number", enc_hook=str)


def _encode(value: Any) -> bytes:
    return _encoder.encode(value)


def _write_text(result: QueryResult, format_name: str, stream: TextIO) -> int:
    """Write all rows as they come, so that a large result needs little memory. Return their number."""
    count = 0
    if format_name == "csv":
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(map(csv_cell, result.columns))
        for row in result.rows():
            writer.writerow([_csv_value(value) for value in row])
            count += 1
    else:
        for row in result.rows():
            fields = dict(zip(result.columns, row, strict=True))
            stream.write((",\n" if count else "[\n") + _encode(fields).decode())
            count += 1
        stream.write("\n]\n" if count else "[]\n")
    return count


def _csv_value(value: Any) -> Any:
    """Return a value for a CSV file. NULL is empty; lists and objects are JSON; no text is a formula."""
    if isinstance(value, str):
        return csv_cell(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _encode(value).decode() if isinstance(value, (list, dict, tuple)) else value


def print_where(run: str, where: str, limit: int, as_json: bool) -> int:
    """Print the rows of a run for which a condition holds, and how many there are: `assay show --where`."""
    from assay.runner import api
    from assay.store.runs import find_run

    if not where.strip():
        raise UsageError("--where is empty. Write a condition, such as: score < 0.5")
    folder = find_run(run)
    with api.open_sql([folder], warn=tell) as database:
        # The line breaks keep a comment in the condition from hiding the rest. `query` checks the whole statement.
        rows_where = f"from rows where (\n{where}\n)"
        try:
            result = database.query(f'select * {rows_where} order by "index", part limit {limit}')
        except UsageError as error:
            # Its second paragraph shows lines of the whole statement, which the user did not write.
            reason = str(error).partition("\n\n")[0].removeprefix("the query cannot be read: ")
            raise UsageError(f"--where {where!r} is no condition: {reason}") from None
        if as_json:
            print_result(result, "json")
            return 0
        rows = result.fetch()
        if rows and not _print_questions(folder, where, result.columns, rows):
            shown = [
                number
                for number, column in enumerate(result.columns)
                if column not in _NOT_IN_TABLE and any(row[number] not in (None, "", []) for row in rows)
            ]
            cells = [[table_cell(row[number], _MAX_WHERE_CELL) for number in shown] for row in rows]
            table([result.columns[number] for number in shown], cells, names=2)
        ((total,),) = database.query(f"select count(*) {rows_where}").fetch()
    if total > len(rows):
        tell(f"… {total - len(rows):,} more (--limit {total} shows all)")
    elif not rows:
        tell(f"no row of the run meets the condition {where!r}")
    return 0


def _print_questions(folder: Path, where: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> bool:
    """Print rows that are whole cases as questions with their expected values and answers, if they have them.

    The columns that the condition names follow. Returns False if nothing was printed.
    """
    from assay.cli.case_list import print_cases
    from assay.runner import api
    from assay.runner.results import load
    from assay.store.cases import RunCases

    run = load(folder)
    if run.info.score_parts == "rows":
        return False
    cases = RunCases(folder)
    position = columns.index("index")
    stored_cases = [case for row in rows if (case := cases.case(row[position])) is not None]
    if len(stored_cases) < len(rows):
        return False
    words = set(re.findall(r"\w+", where)) - {"index", "question", "answer", "expected"}
    asked = {
        column: [table_cell(row[number], _MAX_WHERE_CELL) for row in rows]
        for number, column in enumerate(columns)
        if column in words
    }
    return print_cases(cases, stored_cases, api.suite_pages(run.info.suite), run, asked)
