"""`--code FILE`: names code of a run that a command may run, in every command that reads runs and has a use for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from assay.cli.completion import complete_files
from assay.usercode.named_code import name_code, unmatched_code

CommandT = TypeVar("CommandT", bound=Callable[..., object])


def code_option(command: CommandT) -> CommandT:
    """Add the option to a command. The function does not get its value: loaders of code know it."""

    def keep(context: click.Context, _option: click.Parameter, names: tuple[str, ...]) -> None:
        name_code(names)

        def tell_unmatched() -> None:
            if sentence := unmatched_code(names):
                click.echo(sentence, err=True)

        # The pages of `assay view` meet code whenever somebody opens them.
        if context.info_name != "view":
            context.call_on_close(tell_unmatched)

    option = click.option(
        "--code",
        multiple=True,
        metavar="FILE",
        expose_value=False,
        callback=keep,
        shell_complete=complete_files,
        help="Python file, folder or module that the run names and that may run: a suite or loader of your own, "
        "functions of a task. Default: nothing that a run names is run. Can be repeated.",
    )
    return option(command)
