"""`assay init`: writes a small project to start from. Its files are in `cli/projects/KIND/`."""

from __future__ import annotations

from pathlib import Path

import click

from assay.core.errors import UsageError

PROJECTS = Path(__file__).parent / "projects"

_PULL = "assay models pull smollm2    # once"

NEXT_COMMANDS = {
    "task": [_PULL, "assay task task.yaml --model local/smollm2"],
    "pipeline": [_PULL, "assay pipeline pipeline.yaml --model local/smollm2"],
    "hop": [_PULL, "assay hop function.py:answer rows.jsonl --output-dir results"],
    "memory": [
        (
            "assay memory test --dataset plain --data conversations.json --memory memory.py:make,bm25 "
            "--no-answer --output-dir results/search"
        )
    ],
}
"""The commands that run a new project, by kind. The README of the project has them too."""


@click.command("init", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("kind", type=click.Choice(list(NEXT_COMMANDS)), metavar="task|pipeline|hop|memory")
@click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path), metavar="[DIR]")
def command(kind: str, folder: Path | None) -> int:
    """Write a small project that runs with the embedded model, to edit and to grow.

    \b
    task      questions of a file to a model, with a metric of your own
    pipeline  prompts and code in steps, with tests and a check of your own
    hop       a Python function that calls models, over the rows of a file
    memory    a memory of your own, tested on conversations

    DIR is the folder to write to.  [default: a folder named after the kind]
    The README.md in it has the commands to run the project and to change it. Existing files are never
    overwritten: if one of the files exists, nothing is written.

    \b
    Examples:
      assay init task
      assay init memory my_memory
    """
    folder = folder or Path(kind)
    sources = project_files(kind)
    existing = [name for name in sources if (folder / name).exists()]
    if existing:
        raise UsageError(
            f"{folder} already has {', '.join(existing)}. Nothing was written. "
            f"Choose another folder: assay init {kind} DIR"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, source in sources.items():
            # "x" refuses a file that another process wrote after the check above.
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(source.read_text(encoding="utf-8"))
            click.echo(f"wrote {folder / name}")
    except OSError as error:
        raise UsageError(f"cannot write {error.filename or folder}: {error.strerror}") from None
    click.echo("\nNext:")
    words = [] if folder == Path() else [f"cd {_quoted(folder)}"]
    for line in [*words, *NEXT_COMMANDS[kind]]:
        click.echo(f"  {line}")
    return 0


def project_files(kind: str) -> dict[str, Path]:
    """Return the files of a project by their names, README.md first."""
    files = [path for path in (PROJECTS / kind).iterdir() if path.is_file()]
    return {path.name: path for path in sorted(files, key=lambda path: (path.name != "README.md", path.name))}


def _quoted(path: Path) -> str:
    """Return a path as a shell takes it."""
    from shlex import quote

    return quote(str(path))
