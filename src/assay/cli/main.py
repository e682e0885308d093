"""The `assay` command: a table of commands, each loaded when it is used."""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import threading
from contextlib import suppress
from typing import Any

import click

import assay
from assay.cli.screen import tell
from assay.core.errors import AssayError

COMMANDS = {
    "task": "Run model tasks in the format of lm-evaluation-harness.",
    "pipeline": "Run multi-step pipelines over testsets, with expectations for every step.",
    "hop": "Run an LLM function over the rows of a file, with every profile.",
    "memory": "Test memories of conversations: what they find, and what is answered from it.",
    "judge": "Calibrate judges: how well they agree with labels that people gave.",
    "rescore": "Grade a finished run anew with other filters or metrics; nothing is asked.",
    "runs": "List runs with their state, progress and score.",
    "show": "Show a run's summary, or one of its cases with prompt, replies and scores.",
    "compare": "Compare runs case by case: differences with intervals, what flipped, time and tokens.",
    "check": "Say what is wrong in task files, pipelines, testsets and data files.",
    "convert": "Write a testset as compact v2 records.",
    "models": "List model providers, or fetch the embedded model.",
}
_GRACE_SECONDS = 1.0
EXAMPLES = """\b
Examples:
  assay models pull smollm2
  assay task examples/task/quickstart.yaml --model local/smollm2
  assay task gsm8k --include-path tasks --model openai/NAME --base-url http://127.0.0.1:8000/v1
  assay runs
"""


class LazyGroup(click.Group):
    """Knows its commands by name; imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table, not of the alphabet."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of the module that has its name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"assay.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(assay.__version__, prog_name="assay")
def cli() -> None:
    """Evaluate LLM systems on one crash-safe engine. The same command continues what was interrupted."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; errors become one message on stderr and an exit code."""
    try:
        code: Any = cli.main(args=arguments, prog_name="assay", standalone_mode=False)
    except AssayError as error:
        tell(str(error))
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        code = 130
    except BrokenPipeError:
        code = 0
    code = code if isinstance(code, int) else 0
    if arguments is None:
        _end_soon(code)
    sys.exit(code)


def _end_soon(code: int) -> None:
    """Python waits for threads at its end; those that user code left behind may have none."""
    ended = threading.Event()
    atexit.register(ended.set)  # runs when no thread is waited for any more

    def end() -> None:
        if not ended.wait(_GRACE_SECONDS):
            with suppress(OSError, ValueError):
                sys.stdout.flush()
            os._exit(code)

    threading.Thread(target=end, name="assay-end", daemon=True).start()
