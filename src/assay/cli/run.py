"""`assay run`: a suite that stands in a file of one's own."""

from __future__ import annotations

import click

from assay.cli.completion import complete_suites
from assay.cli.suite_command import suite_command
from assay.core.errors import UsageError
from assay.suites import absolute, is_path, suite_names


class RunCommand(click.Command):
    """Hands everything after the suite to the suite's own command, `--help` too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Everything is left as it is, unless no suite is named."""
        if not args or args[0] in ("-h", "--help"):
            return super().parse_args(ctx, args)
        ctx.args = list(args)
        return ctx.args


def run_named_suite() -> int:
    """Run the suite that the first word names, with the words after it."""
    context = click.get_current_context()
    name, *words = context.args
    if not is_path(name) and name not in suite_names():
        raise UsageError(f"{name!r} names no suite; name one as path/to/file.py:Name")
    command = suite_command(absolute(name), name)
    with command.make_context(f"{context.command_path} {name}", words, **command.context_settings) as inner:
        code: int = command.invoke(inner)
        return code


command = RunCommand(
    "run",
    callback=run_named_suite,
    params=[
        click.Argument(
            ["words"],
            nargs=-1,
            required=True,
            metavar="FILE.py:NAME [OPTIONS]...",
            shell_complete=complete_suites,
        )
    ],
    help="""Run a suite that stands in a file, or one by its name.

    FILE.py:NAME is a Python file and the name of the class in it, a subclass of assay.Suite. All further words are
    the suite's own: `assay run FILE.py:NAME --help` lists them. A suite that is installed with an entry point of the
    group assay.suites has a command of its own.

    \b
    Example:
      assay run examples/suites/quiz.py:Quiz examples/suites/quiz.jsonl --model local/smollm2
    """,
    context_settings={"help_option_names": ["-h", "--help"]},
)
