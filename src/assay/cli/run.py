"""`assay run`: runs a suite from the user's own Python file."""

from __future__ import annotations

import click

from assay.cli.completion import complete_suites
from assay.cli.suite_command import suite_command
from assay.core.errors import UsageError
from assay.suites import absolute, is_path, suite_names


class RunCommand(click.Command):
    """Passes all words after the suite, also `--help`, to the suite's own command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words unparsed if the first one names a suite."""
        if not args or args[0] in ("-h", "--help"):
            return super().parse_args(ctx, args)
        ctx.args = list(args)
        return ctx.args


def run_named_suite() -> int:
    """Run the suite that the first word names. The other words are its options."""
    context = click.get_current_context()
    name, *words = context.args
    if not is_path(name) and name not in suite_names():
        raise UsageError(f"there is no suite {name!r}. Pass a suite's name, or path/to/file.py:Name")
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
    help="""Run a suite from a Python file.

    FILE.py:NAME is a file and the name of a class in it, a subclass of assay.Suite. The options are the suite's
    own: `assay run FILE.py:NAME --help` lists them. A suite that a package installs with an entry point in the
    group assay.suites has a command of its own.

    \b
    Example:
      assay run examples/suites/quiz.py:Quiz examples/suites/quiz.jsonl --model local/smollm2
    """,
    context_settings={"help_option_names": ["-h", "--help"]},
)
