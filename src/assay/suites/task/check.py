"""`assay check` for task files, folders of task files, and data files. Reports every problem with its place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from assay.core.errors import InputError, MissingExtra, Problem, UsageError
from assay.core.spec import build
from assay.core.templates import TemplateProblem, check_template
from assay.suites.task.catalog import Catalog, TaskFolder, TaskSelection, read_group, tasks_of
from assay.suites.task.config import KeyOrigin, TaskConfig, TaskFiles, read_task
from assay.suites.task.dataset.documents import Documents
from assay.suites.task.filters import read_filters
from assay.suites.task.metrics import find_repeated_metrics, read_metrics, refuse_lists
from assay.suites.task.options import TaskOptions
from assay.suites.task.task import Task, problem_of

_DATA_FORMATS = {
    ".jsonl": "json",
    ".json": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".txt": "text",
}
# A wrong template fails on every document. Beyond this number the report only counts them.
_MAX_DOCUMENTS = 100
_TEMPLATE_KEYS = ("doc_to_text", "doc_to_target", "doc_to_choice", "description", "gen_prefix")


def check_file(path: Path) -> list[Problem]:
    """Return the problems of one file, or of all task files below a folder. Duplicates are warnings."""
    if path.is_dir():
        return list(FolderCheck(path))
    if not path.is_file():
        raise UsageError(f"there is no file {str(path)!r}")
    if path.suffix in (".yaml", ".yml"):
        # The file of a group is checked together with every task in the group.
        try:
            (node,) = TaskSelection(Catalog([])).select([str(path)])
        except InputError as error:
            return error.problems
        return [problem for config in tasks_of(node) for problem in check_task(config)]
    kind = _DATA_FORMATS.get(path.suffix)
    if kind is None:
        suffixes = ", ".join(_DATA_FORMATS)
        raise UsageError(f"{path}: expected a task file (.yaml), a folder of them, or data ({suffixes})")
    return check_documents(Documents(kind, [path]))


def looks_like_task_file(path: Path) -> bool:
    """Return whether a YAML file has an unindented key `task` or `group`. The file is not parsed."""
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return False
    return bool(TaskFolder(path.parent, strict=False).header(path).name)


def check_task(config: TaskConfig) -> list[Problem]:
    """Return the problems of a task and its data. Builds the prompt and target of every document."""
    # The check sends no request, so the model is a placeholder, and there is no code of a model to run.
    spec = build("task", TaskOptions, {"model": "check/check", "confirm_run_unsafe_code": True})
    problems = list(parsed_problems(config))
    if problems:
        return problems
    warnings = find_repeated_metrics(config)
    try:
        task = Task(config, spec)
        problems = warnings + check_documents(task.data.documents)
        if any(problem.level == "error" for problem in problems):
            return problems
        task.prepare(None)
    except InputError as error:
        return [*warnings, *error.problems]
    except MissingExtra as error:
        return [*warnings, Problem(str(config.path), f"not all of it could be checked: {error}", "warning")]
    bad = []
    for row in task.rows():
        failure = task.build(row)[2]
        if failure:
            bad.append(problem_of(failure))
    if len(bad) > _MAX_DOCUMENTS:
        more = f"and {len(bad) - _MAX_DOCUMENTS} more documents like these"
        bad = [*bad[:_MAX_DOCUMENTS], Problem(str(task.config.path), more)]
    return problems + bad


def check_documents(documents: Documents) -> list[Problem]:
    """Return the problems of a data file: invalid rows, no rows, and (as warnings) repeated rows."""
    try:
        facts = documents.scan()
    except InputError as error:
        return error.problems
    if not facts.total:
        return [Problem(str(documents.files[0]), "the data set is empty")]
    if not facts.twins:
        return []
    twins = documents.twins()
    first: dict[str, str] = {}
    problems = []
    for document in documents.rows():
        key = documents.key(document, documents.parse(document))
        if twins.name(key) != key:
            message = f"this document is the same as {first[key]}"
            problems.append(Problem(document.where, message, "warning"))
        elif twins.repeats(key):
            first[key] = document.where
    return problems


def parsed_problems(config: TaskConfig) -> Iterator[Problem]:
    """Yield the problems in the settings of a task. Imports no Python and reads no data."""
    try:
        chains = read_filters(config, imports=False)
        refuse_lists(config, chains, read_metrics(config, imports=False))
    except InputError as error:
        yield from error.problems
    except MissingExtra as error:
        yield Problem(str(config.path), f"to run it: {error}", "warning")
    values, fewshot = config.values, config.values["fewshot_config"]
    for key in _TEMPLATE_KEYS:
        if problem := _template_problem(values.get(key)):
            yield Problem(config.where(key), problem)
        if fewshot.get(key) != values.get(key) and (problem := _template_problem(fewshot.get(key))):
            yield Problem(config.where("fewshot_config", key), problem)


def _template_problem(value: Any) -> str:
    return _check_template(value) if isinstance(value, str) and "{" in value else ""


# Thousands of task files of lm_eval include the same template. Each is compiled once.
@lru_cache(65536)
def _check_template(source: str) -> str:
    try:
        check_template(source)
    except TemplateProblem as problem:
        return str(problem)
    return ""


class FolderCheck:
    """Checks the settings of all task files below a folder, as `parsed_problems` does.

    Iterating yields the problems, and last a note with the number of files.
    """

    def __init__(self, root: Path) -> None:
        self._folder = TaskFolder(root, strict=False)
        self._files = TaskFiles()
        self._tasks = self._groups = 0

    def __iter__(self) -> Iterator[Problem]:
        fine = 0
        for path in self._folder.files:
            problems = list(self._check_file(path))
            fine += not any(problem.level == "error" for problem in problems)
            yield from problems
        for name, paths in self._folder.duplicates().items():
            yield Problem(str(paths[1]), f"{paths[0]} has the name {name!r} too", "warning")
        files = f"{fine:,} of {len(self._folder.files):,} files are fine"
        message = f"{self._tasks:,} tasks and {self._groups:,} groups, {files}"
        yield Problem(str(self._folder.root), message, "note")

    def _check_file(self, path: Path) -> Iterator[Problem]:
        try:
            settings = self._files.read(path)
            if "group" in settings.values and "class" not in settings.values:
                self._groups += 1
                name, origin = str(settings.values["group"]), KeyOrigin(settings.files[0])
                yield from self._check_group(name, settings.values, origin)
            elif isinstance(settings.values.get("task"), str):
                self._tasks += 1
                config = read_task(settings, path)
                yield from parsed_problems(config)
                yield from find_repeated_metrics(config)
        except InputError as error:
            yield from error.problems

    def _check_group(self, name: str, values: dict[str, Any], origin: KeyOrigin) -> Iterator[Problem]:
        """Yield the members of a group that do not exist. The existing ones are checked as files of their own."""
        read_group(name, values, origin, {})
        folder, members = self._folder, values.get("task")
        for position, member in enumerate(members if isinstance(members, list) else [members]):
            place = KeyOrigin(origin.file, (*origin.above, "task", position))
            if isinstance(member, dict) and "group" in member:
                if not folder.find(str(member["group"])):
                    yield from self._check_group(str(member["group"]), member, place)
            elif isinstance(member, str) and not (folder.find(member) or folder.tagged(member)):
                yield Problem(f"{place.where()} task", f"there is no task, group or tag named {member!r}")
