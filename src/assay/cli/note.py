"""`assay note`: adds notes and tags to a run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from assay.cli.completion import complete_runs
from assay.core.errors import UsageError
from assay.store.notes import change_notes, read_notes
from assay.store.render.screen import block, tell
from assay.store.runs import find_run

if TYPE_CHECKING:
    from assay.store.notes import RunNotes


@click.command("note", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", metavar="RUN", shell_complete=complete_runs)
@click.argument("text", required=False, default="", metavar="[TEXT]")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Add this tag. May be repeated.")
@click.option("--remove-tag", "removed", multiple=True, metavar="TAG", help="Remove this tag. May be repeated.")
@click.option("--clear", is_flag=True, help="Remove all earlier notes and tags.")
def command(run: str, text: str, tags: tuple[str, ...], removed: tuple[str, ...], clear: bool) -> int:
    """Add a note or tags to a run. Without a text or a tag, print the notes of the run.

    `assay runs` and `assay show` print notes and tags, and `assay runs --tag` and `--search` find runs by them. They
    change no result and do not count when assay looks for the run to continue.

    \b
    Examples:
      assay note results "prompt without the example, temperature 0.2"
      assay note 2026-01-28T03-22 --tag baseline --tag paper
      assay note results --remove-tag paper
      assay note results
    """
    folder = find_run(run)
    if text and not text.strip():
        raise UsageError("the note is empty")
    if clear and removed:
        raise UsageError("--clear removes all tags; leave out --remove-tag")
    if text or tags or removed or clear:
        print_notes(change_notes(folder, text=text, add_tags=tags, remove_tags=removed, clear=clear))
        return 0
    notes = read_notes(folder)
    if not (notes.notes or notes.tags):
        tell(f'{folder} has no notes. Add one: assay note {run} "TEXT"')
    print_notes(notes)
    return 0


def print_notes(notes: RunNotes) -> None:
    """Print the tags in one line, then each note after the date on which it was written."""
    if notes.tags:
        block(f"tags  {', '.join(notes.tags)}", indent="")
    for note in notes.notes:
        written = time.strftime("%Y-%m-%d %H:%M", time.localtime(note.at))
        first, *rest = note.text.split("\n")
        block(f"note  {written}  {first}", indent="")
        for line in rest:
            block(line, indent=" " * len(f"note  {written}  "))
