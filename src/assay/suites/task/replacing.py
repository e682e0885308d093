"""Puts other task files in the place of those that a run was started with."""

from __future__ import annotations

from pathlib import Path

import msgspec

from assay.core.errors import UsageError
from assay.core.spec import RunSpec
from assay.suites.task.catalog import Catalog
from assay.suites.task.files import TaskFiles
from assay.suites.task.options import TaskOptions
from assay.suites.task.selection import Selection, is_path


def replaced_tasks(spec: RunSpec, files: list[str], known: list[str]) -> RunSpec:
    """A spec whose named tasks are read from other files where these have the same name.

    `known` are the names of the run's tasks: where every one has a new file, the old ones may be gone.
    """
    options = spec.options
    assert isinstance(options, TaskOptions)
    new = {str(TaskFiles().read(Path(file)).values.get("task")): file for file in files}
    if strange := [file for name, file in new.items() if name not in known]:
        raise UsageError(f"{strange[0]} is no task of this run; it has {', '.join(known)}")
    if len(new) == len(known) == len(options.tasks):
        tasks = [new[name] for name in known]
    else:
        _refuse_missing(options)
        tasks = _with(new, options)
    return msgspec.structs.replace(spec, options=msgspec.structs.replace(options, tasks=tasks))


def _refuse_missing(options: TaskOptions) -> None:
    gone = [name for name in options.tasks if is_path(name) and not Path(name).is_file()]
    gone += [folder for folder in options.include_path if not Path(folder).is_dir()]
    if gone:
        raise UsageError(
            f"there is no {gone[0]!r} here: it is meant from where the run was started; go there, "
            "or name every task's file with --task"
        )


def _with(new: dict[str, str], options: TaskOptions) -> list[str]:
    """The run's names, those of tasks that have a new file by that file."""
    if not new:
        return options.tasks
    selection = Selection(Catalog(options.include_path))
    named = [(name, selection.select([name])) for name in options.tasks]
    found = [new.pop(nodes[0].name, name) if len(nodes) == 1 else name for name, nodes in named]
    if new:
        raise UsageError(f"{next(iter(new.values()))} is a task inside a group or a tag; change its own file")
    return found
