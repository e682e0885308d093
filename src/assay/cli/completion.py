"""`assay completion`: the script that makes a shell complete `assay` commands, and the values it completes.

The script calls `assay` with the variable `_ASSAY_COMPLETE` at every press of Tab, so that everything here must be
quick: names come from file names and tables, and no module that runs an evaluation is imported. Only the names of
schemas need the suites.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMPLETE_VARIABLE = "_ASSAY_COMPLETE"
"""The environment variable by which the script asks for completions; click derives its name from `assay`."""

# Bash adds a space after a word that is complete. After `openai/` the name of the model has to follow. Without words of
# ours, bash lists files, which click's `nosort` would leave in the order of the disk.
_BASH_NO_SPACE = """
_assay_completion_no_space() {
    _assay_completion "$@"
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]]; then
        compopt -o nospace
    elif [[ ${#COMPREPLY[@]} -eq 0 ]]; then
        compopt +o nosort
    fi
}
complete -o nosort -F _assay_completion_no_space assay
"""
# More runs than this would fill the screen. The newest come first.
_MAX_RUNS = 50

Completer = Callable[[click.Context, click.Parameter, str], list[Any]]


@click.command("completion", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), metavar="bash|zsh|fish")
def command(shell: str) -> int:
    """Print the script that lets a shell complete commands, options, files, models and runs.

    bash needs version 4.4 or newer. Load the script in the startup file of the shell.

    \b
    Examples:
      echo 'eval "$(assay completion bash)"' >> ~/.bashrc
      echo 'eval "$(assay completion zsh)"' >> ~/.zshrc      # after the line with compinit
      assay completion fish > ~/.config/fish/completions/assay.fish
    """
    from click.shell_completion import get_completion_class

    from assay.cli.main import cli

    completion = get_completion_class(shell)
    assert completion is not None  # click knows the three shells of the argument
    click.echo(completion(cli, {}, "assay", COMPLETE_VARIABLE).source(), nl=False)
    if shell == "bash":
        click.echo(_BASH_NO_SPACE, nl=False)
    return 0


def answer_shell(cli: click.Command, instruction: str) -> None:
    """Print the completions that a shell asks for. A failure prints nothing: it would end up on the command line."""
    from click.shell_completion import shell_complete

    with suppress(Exception, SystemExit), redirect_stderr(io.StringIO()):
        shell_complete(cli, {}, "assay", COMPLETE_VARIABLE, instruction)


def completer_for(name: str, kind: Any) -> Completer | None:
    """Return the function that completes the values of an option, by its name and type; None for numbers.

    A text that has no list of values is completed as a file: most of them are files, and shells do the same.
    """
    if get_origin(kind) is Literal:
        choices = list(get_args(kind))

        def complete_choices(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
            return _starting_with(incomplete, choices)

        return complete_choices
    if name in _COMPLETERS:
        return _COMPLETERS[name]
    return None if kind in (int, float, bool) else complete_files


def complete_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Leave the completion of a file name to the shell."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def complete_runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Return the names of the runs below this folder, newest first; a folder where no name fits."""
    from click.shell_completion import CompletionItem

    from assay.store.runs import run_folders

    names = [folder.name for folder in run_folders(Path()) if folder.name.startswith(incomplete)]
    if names:
        return names[::-1][:_MAX_RUNS]
    return [CompletionItem(incomplete, type="dir")]


def complete_suites(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Return the names of suites; a file where no name fits, because FILE.py:NAME is a suite too."""
    from assay.suites import suite_names

    return _starting_with(incomplete, suite_names()) or complete_files(ctx, param, incomplete)


def complete_schemas(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of JSON Schemas. Imports the suites, which takes a third of a second."""
    from assay.runner import api

    return _starting_with(incomplete, list(api.file_schemas()))


def complete_models(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the providers of models as `openai/`. After `script/` and `python/`, return the files that fit."""
    from assay.core import registry

    provider, slash, rest = incomplete.partition("/")
    if not slash:
        providers = [f"{name}/" for name in registry.names("model")]
        judges = ["offline"] if param.name == "judge" else []
        return _starting_with(incomplete, [*providers, *judges])
    if provider not in ("script", "python"):
        return []
    # The shell cannot complete this file name itself, because the word begins with the provider.
    folder, start = os.path.split(rest)
    return [
        f"{provider}/{Path(folder, path.name)}{'/' * path.is_dir()}"
        for path in sorted(Path(folder or ".").iterdir())
        if path.name.startswith(start) and (start or not path.name.startswith("."))
    ]


def complete_memories(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Return the names of memories, also for the last name of a list such as `bm25,ST`."""
    from assay.core import registry

    before, comma, last = incomplete.rpartition(",")
    names = [f"{before}{comma}{name}" for name in _starting_with(last, registry.names("memory"))]
    return names or complete_files(ctx, param, incomplete)


_COMPLETERS: dict[str, Completer] = {
    "model": complete_models,
    "judge": complete_models,
    "reuse": complete_runs,
    "memory": complete_memories,
    "baseline": complete_memories,
}
"""Options with values of their own, by the name of the option's field."""


def _starting_with(start: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(start)]
