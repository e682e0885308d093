"""The prompt of `assay sql`: queries over several lines, commands that begin with a dot, a history."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.sql import FORMATS, print_result
from assay.core.errors import AssayError, UsageError, unknown
from assay.store.render.screen import table, tell

if TYPE_CHECKING:
    from assay.store.sql import SqlProcess

_HELP = """\
Type a SELECT and end it with ; on the same or a later line.
  .views          the views and what a row of each is
  .schema VIEW    the columns of a view
  .format NAME    print results as table, csv or json
  .help           this text
  .quit           leave; so does Ctrl-D
Ctrl-C stops a query, or forgets the lines typed so far."""
_MAX_HISTORY = 1000


class Prompt:
    """Reads queries from the terminal, or from a pipe, and prints their results."""

    def __init__(self, open_database: Callable[[], SqlProcess], format_name: str) -> None:
        self._open = open_database
        self._format = format_name
        self._database: SqlProcess | None = None
        self._quit = False

    def run(self) -> int:
        """Read until the end of the input or `.quit`. Returns the exit code: 2 if a query of a pipe failed."""
        interactive = sys.stdin.isatty()
        history = _History() if interactive else None
        failed = False
        self._database = self._open()
        if interactive:
            tell(".help lists the commands, .views the views. A query ends with ;")
        lines: list[str] = []
        try:
            while not self._quit:
                try:
                    line = _read("assay> " if not lines else "  ...> ", interactive)
                except KeyboardInterrupt:
                    lines.clear()
                    click.echo(err=True)
                    continue
                if line is None:
                    break
                if not lines and line.strip().startswith("."):
                    failed = not self._try(self._command, line) or failed
                elif line.strip() or lines:
                    lines.append(line)
                    if line.rstrip().endswith(";"):
                        failed = not self._try(self._query, "\n".join(lines)) or failed
                        lines.clear()
            if lines and not interactive:
                failed = not self._try(self._query, "\n".join(lines)) or failed
        finally:
            if history is not None:
                history.save()
            if self._database is not None:
                self._database.close()
        return 2 if failed and not interactive else 0

    def _try(self, action: Callable[[str], None], text: str) -> bool:
        """Execute a command or query and print its error. Returns whether it went well.

        Ctrl-C ends the query, not the prompt.
        """
        try:
            action(text)
        except KeyboardInterrupt:
            tell("stopped")
        except AssayError as error:
            tell(str(error))
            return False
        return True

    def _query(self, text: str) -> None:
        assert self._database is not None
        if self._database.is_stale():
            # A run has grown. The database shows the runs as they were when it was opened.
            self._database.close()
            self._database = self._open()
        print_result(self._database.query(text), self._format)

    def _command(self, line: str) -> None:
        word, _, argument = line.strip().partition(" ")
        argument = argument.strip().rstrip(";")
        if word in (".quit", ".exit", ".q"):
            self._quit = True
        elif word == ".help":
            click.echo(_HELP)
        elif word == ".views":
            from assay.store.sql import ROWS, ROWS_ABOUT, VIEWS

            views = [[view.name, view.about] for view in VIEWS.values()]
            table(["view", "content"], [*views, [ROWS, ROWS_ABOUT]])
        elif word == ".schema":
            self._schema(argument)
        elif word == ".format":
            if argument not in FORMATS[:3]:
                raise UsageError("the formats at the prompt are table, csv and json: .format csv")
            self._format = argument
        else:
            raise UsageError(unknown("command", word, [".views", ".schema", ".format", ".help", ".quit"]))

    def _schema(self, name: str) -> None:
        from assay.store.sql import ROWS, ROWS_COLUMNS, VIEWS

        if name not in VIEWS and name != ROWS:
            raise UsageError(unknown("view", name, [*VIEWS, ROWS]) if name else "name a view: .schema scores")
        assert self._database is not None
        about = ROWS_COLUMNS if name == ROWS else VIEWS[name].columns
        described = self._database.query(f"describe {name}").rows()
        table(
            ["column", "type", "content"],
            [[str(row[0]), str(row[1]), about.get(str(row[0]), "")] for row in described],
        )


def _read(prompt: str, interactive: bool) -> str | None:
    """Return the next line, or None at the end of the input."""
    if interactive:
        try:
            return input(prompt)
        except EOFError:
            click.echo(err=True)
            return None
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


class _History:
    """The lines of earlier sessions, for the arrow keys. Without a folder to write to, there is no history."""

    def __init__(self) -> None:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        self._path = Path(state) / "assay" / "sql_history"
        try:
            import readline
        except ImportError:
            return
        readline.set_history_length(_MAX_HISTORY)
        with suppress(OSError):
            readline.read_history_file(self._path)

    def save(self) -> None:
        """Write the history, readable only by the user: queries may contain private texts."""
        with suppress(OSError, ImportError):
            import readline

            self._path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            self._path.chmod(0o600)
            readline.write_history_file(self._path)
