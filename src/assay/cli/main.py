"""The `assay` command: suites and other commands by their words, each imported when it is used."""

from __future__ import annotations

import atexit
import errno
import importlib
import os
import sys
import threading
from contextlib import suppress
from typing import Any

import click

import assay
from assay.cli.completion import COMPLETE_VARIABLE, answer_shell
from assay.cli.suite_command import SETTINGS, suite_command
from assay.core.errors import AssayError, StopRun, UsageError, unknown
from assay.core.events import on_read, on_slow
from assay.files.excerpt import cut_end
from assay.files.paths import MAX_NAME_BYTES
from assay.store.render.screen import protect_terminal, tell
from assay.suites import BUILT_IN, COMMAND_GROUPS, command_table
from assay.usercode.named_code import only_named_code_in_process
from assay.usercode.process_end import leave_threads, refuse_exits

COMMANDS = {
    "init": "Write a small project to start from: task, pipeline, hop or memory.",
    "run": "Run a suite of your own: FILE.py:NAME.",
    "rerun": "Run a run's own command again: with --failed, ask only what failed.",
    "rescore": "Score a finished run again from its replies, with other filters or metrics.",
    "merge": "Make one run of the shards of a run (--shard), with report and result files.",
    "runs": "List runs with their state, progress and score; find them by model, date, tag or text.",
    "view": "Look at runs in the browser: numbers, rows, cases, live progress.",
    "report": "Write runs as one HTML file, for mail and for the artefacts of CI.",
    "note": "Add notes and tags to a run.",
    "show": "Show the report of a run, or one of its cases with prompts, replies and scores.",
    "sql": "Ask runs in SQL: scores, calls, answers, numbers; one query or a prompt.",
    "label": "Label answers as right or wrong in the terminal, for `judge calibrate`.",
    "diff": "Show two cases beside each other, with the words in which prompts and replies differ.",
    "compare": "Compare runs case by case: differences with intervals, flipped cases, time and tokens.",
    "gate": "Decide for CI whether a run meets its requirements: pass, fail or inconclusive.",
    "power": "Plan a comparison: how many cases show an effect, or which effect so many cases show.",
    "import": "Make runs of results that other programs wrote: lm-eval, Inspect, promptfoo and more.",
    "export": "Write a run in the format of another program: lm-eval, Inspect, csv, json, parquet and more.",
    "check": "List the problems of task files, pipelines, testsets and data files.",
    "convert": "Write a testset as compact v2 records.",
    "schema": "Print the JSON Schema of a file format, for editors.",
    "models": "List the providers of models and the weights on disk, or fetch weights: smollm2, a file, a URL.",
    "doctor": "Examine the installation and a model: endpoint, key, parameters, JSON schema, seed, disk room.",
    "completion": "Print a script for bash, zsh or fish that completes commands, options, files and runs.",
}
"""Commands that belong to no suite, each in the module of its name."""
RUN_CODE = frozenset({"run", "rerun", "check", "doctor"})
"""Commands among them that run code: what their words name, the command of a run, `check --run-code`. The others read
runs, and run nothing that a run names unless `--code` names it too."""
OF_GROUPS = {
    "memory try": "Feed a conversation to a memory and show what it stores, finds and misses.",
}
"""Commands beside those of suites in a group, each in the module of its words."""
# Names of modules for commands whose name is a word of Python.
_MODULES = {"import": "import_results"}
# How long threads that user code left behind may keep the process alive.
GRACE_SECONDS = 1.0
# What a write to the output says on a full disk or a device that failed.
FULL_OUTPUT = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
# What a shell reports for a program that wrote into a pipe without a reader: 128 + SIGPIPE.
CLOSED_PIPE = 141
EXAMPLES = """\b
Examples:
  assay models pull smollm2
  assay task examples/task/quickstart.yaml --model local/smollm2
  assay task gsm8k --include-path tasks --model openai/NAME --base-url http://127.0.0.1:8000/v1
  assay runs
"""


class CommandGroup(click.Group):
    """The commands below some first words: none for `assay` itself, `memory` for `memory test`.

    Commands are known by name and imported only to run. Installed suites are imported for the list of commands,
    and when a word is neither a command nor a built-in suite.
    """

    def __init__(self, words: str = "", **settings: Any) -> None:
        super().__init__(**settings)
        self.words = words

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Suites first, then the other commands, in the order of their tables."""
        return list(self._summaries())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this word, or the group of commands that begin with it."""
        words = f"{self.words} {cmd_name}".strip()
        if words in COMMANDS or words in OF_GROUPS:
            module = _MODULES.get(words, words.replace(" ", "_"))
            command: click.Command = importlib.import_module(f"assay.cli.{module}").command
            return command
        for built_in, about in BUILT_IN.items():
            if about.command == words:
                return suite_command(built_in, words)
        if words in COMMAND_GROUPS:
            return CommandGroup(words, name=words, help=COMMAND_GROUPS[words], context_settings=SETTINGS)
        installed = command_table()
        if words in installed:
            return suite_command(installed[words].name, words)
        if any(command.startswith(f"{words} ") for command in installed):
            return CommandGroup(words, name=words, context_settings=SETTINGS)
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it; a word that is no command is refused with the nearest ones."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            raise UsageError(unknown("command", args[0], self.list_commands(ctx))) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of commands, without importing one of ours."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries().items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Return the commands and options that begin so. click's own method would import every command."""
        from click.shell_completion import CompletionItem

        commands = [
            CompletionItem(name, help=summary)
            for name, summary in self._summaries().items()
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def _summaries(self) -> dict[str, str]:
        """The next word of each command with a line about it."""
        summaries: dict[str, str] = {}
        commands = {words: command.summary for words, command in command_table().items()} | OF_GROUPS
        for words, summary in commands.items():
            if self.words and not words.startswith(f"{self.words} "):
                continue
            word, _, rest = words.removeprefix(self.words).strip().partition(" ")
            if rest:
                summaries.setdefault(word, COMMAND_GROUPS.get(word, summary))
            else:
                summaries[word] = summary
        return summaries if self.words else summaries | COMMANDS


@click.group(cls=CommandGroup, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(assay.__version__, prog_name="assay")
def cli() -> None:
    """Evaluate LLM systems on one crash-safe engine. The same command continues what was interrupted."""
    context = click.get_current_context()
    if context.invoked_subcommand in COMMANDS.keys() - RUN_CODE:
        context.with_resource(only_named_code_in_process())
    on_slow.set(tell)
    if sys.stderr.isatty():
        from assay.runner.progress import ReadingBar

        on_read.set(ReadingBar())


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; errors become one message on stderr and an exit code."""
    if arguments is None and COMPLETE_VARIABLE in os.environ:
        answer_shell(cli, os.environ[COMPLETE_VARIABLE])
        return
    if arguments is None:
        _open_closed_streams()
        protect_terminal()
    code: Any = 0
    try:
        # Not `cli.main`, which ends with 1 if the reader of a pipe has left.
        with (
            refuse_exits(),
            cli.make_context("assay", sys.argv[1:] if arguments is None else list(arguments)) as context,
        ):
            code = cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        code = end.exit_code
    except AssayError as error:
        tell(str(error))
        code = error.exit_code
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        code = error.exit_code
    except (click.Abort, EOFError, KeyboardInterrupt):
        tell("interrupted")
        code = 130
    except BrokenPipeError:
        code = CLOSED_PIPE  # `head` has read enough
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            tell(_long_name(str(error.filename or "")))
            code = UsageError.exit_code
        elif error.filename is None and error.errno in FULL_OUTPUT:
            tell(f"cannot write the output: {error.strerror}")
            code = StopRun.exit_code
        else:
            raise  # an error with the name of a file is about that file, not about the output
    code = code if isinstance(code, int) else 0
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            # Python flushes the streams when it ends. If that failed again, the exit code would be 120.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if arguments is None:
        _end_soon(code)
    sys.exit(code)


def _long_name(path: str) -> str:
    """Return the sentence about a path that the file system refuses."""
    longest = max(path.split("/"), key=len)
    return (
        f"{cut_end(longest, 60)!r} is too long for the name of a file or folder: it has "
        f"{len(os.fsencode(longest)):,} bytes, and {MAX_NAME_BYTES} are allowed. Pass a shorter name"
    )


def batchhoptest() -> None:
    """`assay hop` under the name of HOP's own tool: `batchhoptest TASK DATA [--workers N] [--profiles …]`."""
    sys.argv.insert(1, "hop")
    main()


def _open_closed_streams() -> None:
    """Open /dev/null for standard streams that the caller has closed, as with `>&-`.

    Otherwise the next file or socket gets their number, and would receive what is printed. libuv aborts at that.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def _end_soon(code: int) -> None:
    """End the process although threads of user code still run: Python would wait for them for ever."""
    if leave_threads.is_set():
        os._exit(code)
    ended = threading.Event()
    atexit.register(ended.set)  # Python calls it when it waits for no thread any more

    def end() -> None:
        if not ended.wait(GRACE_SECONDS):
            with suppress(OSError, ValueError):
                sys.stdout.flush()
            os._exit(code)

    threading.Thread(target=end, name="assay-end", daemon=True).start()
