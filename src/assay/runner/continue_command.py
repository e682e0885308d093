"""The command that started a run, and the folder in which it was typed: what continues the run or repeats it."""

from __future__ import annotations

from pathlib import Path

from assay.core.errors import AssayError
from assay.journal.run_files import read_info
from assay.store.runs import started_in
from assay.suites import command_table


def continue_command(run: Path) -> tuple[list[str], Path] | str:
    """Return the words after `assay` that continue a run, and their working folder; or a sentence why none can.

    The words are those of `run.json`. They are used only if they are the command of the run's own suite, and only from
    the folder from which they lead to this run.
    """
    try:
        info = read_info(run)
    except AssayError as error:
        return str(error)
    commands = {command.name: words.split() for words, command in command_table().items()}
    # A suite can be a file. Its code must not run because somebody looks at the run.
    suite_words = commands.get(info.suite, [])
    if info.imported is not None:
        return "The run was imported from another program, so no command continues it."
    program, *words = info.repeat_command or [""]
    if program != "assay" or not suite_words or words[: len(suite_words)] != suite_words:
        return "The run was not started by a command of an installed suite. What started it continues it."
    folder = started_in(run, str(info.spec.get("output_dir") or ""))
    if folder is None:
        return "The run folder was moved, so its command would not find it."
    return words, folder
