"""`assay check` for task files, folders of them, and data files: every problem with its place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from assay.core.errors import InputError, MissingExtra, Problem, UsageError
from assay.core.hashing import row_key
from assay.core.spec import build
from assay.core.templates import TemplateProblem, check_template
from assay.suites.task.catalog import Catalog, Folder
from assay.suites.task.chains import chains
from assay.suites.task.config import TaskConfig, task_config
from assay.suites.task.data.docs import Docs
from assay.suites.task.files import Origin, TaskFiles
from assay.suites.task.groups import Group, group_of
from assay.suites.task.metrics import metrics
from assay.suites.task.options import TaskOptions
from assay.suites.task.selection import Selection
from assay.suites.task.task import Task, problem_of, refuse_lists

_DATA = {
    ".jsonl": "json",
    ".json": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".txt": "text",
}
_MOST_DOCS = 100
_TEMPLATES = ("doc_to_text", "doc_to_target", "doc_to_choice", "description", "gen_prefix")


def check_file(path: Path) -> list[Problem]:
    """The problems of one file, or of all task files in a folder; duplicates are warnings."""
    if path.is_dir():
        return list(FolderCheck(path))
    if not path.is_file():
        raise UsageError(f"there is no file {str(path)!r}")
    if path.suffix in (".yaml", ".yml"):
        return check_task_file(path)
    kind = _DATA.get(path.suffix)
    if kind is None:
        known = ", ".join(_DATA)
        raise UsageError(f"{path}: expected a task file (.yaml), a folder of them, or data ({known})")
    return check_docs(Docs(kind, [path]))


def check_task_file(path: Path) -> list[Problem]:
    """The task in a file, or every task of the group in it, with their data."""
    try:
        (node,) = Selection(Catalog([])).select([str(path)])
    except InputError as error:
        return error.problems
    tasks = node.tasks() if isinstance(node, Group) else [node]
    return [problem for config in tasks for problem in check_task(config)]


def check_task(config: TaskConfig) -> list[Problem]:
    """The task, its data, and every document's prompt and target."""
    spec = build("task", TaskOptions, {"model": "check/check", "confirm_run_unsafe_code": True})
    problems = list(parsed_problems(config))
    if problems:
        return problems
    try:
        task = Task(config, spec)
        problems = check_docs(task.sources.docs)
        if any(problem.level == "error" for problem in problems):
            return problems
        task.prepare(None)
    except InputError as error:
        return error.problems
    except MissingExtra as error:
        return [Problem(str(config.path), f"not all of it could be checked: {error}", "warning")]
    return problems + _documents(task)


def _documents(task: Task) -> list[Problem]:
    bad = [problem_of(case.failure) for case in task.load(lambda _: False) if case.failure]
    if len(bad) <= _MOST_DOCS:
        return bad
    more = f"and {len(bad) - _MOST_DOCS} more documents like these"
    return [*bad[:_MOST_DOCS], Problem(str(task.config.path), more)]


def check_docs(docs: Docs) -> list[Problem]:
    """Rows that are no rows, an empty file, and rows that are equal to an earlier one."""
    try:
        facts = docs.look()
    except InputError as error:
        return error.problems
    if not facts.total:
        return [Problem(str(docs.files[0]), "the data set is empty")]
    return _duplicates(docs) if facts.twins else []


def _duplicates(docs: Docs) -> list[Problem]:
    twins = docs.twins()
    first: dict[str, str] = {}
    found = []
    for doc in docs.rows():
        key = row_key(doc.raw)
        if twins.name(key) != key:
            found.append(Problem(doc.where, f"this document is the same as {first[key]}", "warning"))
        elif twins.repeats(key):
            first[key] = doc.where
    return found


def parsed_problems(config: TaskConfig) -> Iterator[Problem]:
    """What can be told by parsing alone: nothing is imported, no data is read."""
    try:
        found = chains(config, imports=False)
        refuse_lists(config, found, metrics(config, imports=False))
    except InputError as error:
        yield from error.problems
    except MissingExtra as error:
        yield Problem(str(config.path), f"to run it: {error}", "warning")
    values, shots = config.values, config.values["fewshot_config"]
    for key in _TEMPLATES:
        yield from _template_problem(values.get(key), config, key)
        if shots.get(key) != values.get(key):
            yield from _template_problem(shots.get(key), config, "fewshot_config", key)


def _template_problem(value: Any, config: TaskConfig, *place: str) -> Iterator[Problem]:
    if isinstance(value, str) and (why := _refused(value)):
        yield Problem(config.where(*place), why)


@lru_cache(65536)
def _refused(source: str) -> str:
    if "{" not in source:
        return ""
    try:
        check_template(source)
    except TemplateProblem as problem:
        return str(problem)
    return ""


class FolderCheck:
    """All task files below a folder, by parsing alone. The last line counts what was found."""

    def __init__(self, root: Path) -> None:
        self._folder = Folder(root, strict=False)
        self._files = TaskFiles()
        self.tasks = self.groups = self.fine = 0

    def __iter__(self) -> Iterator[Problem]:
        for path in self._folder.files:
            problems = list(self._file(path))
            self.fine += not any(problem.level == "error" for problem in problems)
            yield from problems
        for name, paths in self._folder.twice().items():
            yield Problem(str(paths[1]), f"{paths[0]} has the name {name!r} too", "warning")
        files = f"{self.fine:,} of {len(self._folder.files):,} files are fine"
        yield Problem(
            str(self._folder.root), f"{self.tasks:,} tasks and {self.groups:,} groups, {files}", "note"
        )

    def _file(self, path: Path) -> Iterator[Problem]:
        try:
            settings = self._files.read(path)
            if "group" in settings.values and "class" not in settings.values:
                self.groups += 1
                name, origin = str(settings.values["group"]), Origin(settings.files[0])
                yield from self._group(name, settings.values, origin)
            elif isinstance(settings.values.get("task"), str):
                self.tasks += 1
                yield from parsed_problems(task_config(settings, path))
        except InputError as error:
            yield from error.problems

    def _group(self, name: str, values: dict[str, Any], origin: Origin) -> Iterator[Problem]:
        """Whether its members are there; what they are is checked with their own files."""
        group_of(name, values, origin, {})
        members = values.get("task")
        for at, member in enumerate(members if isinstance(members, list) else [members]):
            place = Origin(origin.file, (*origin.above, "task", at))
            if isinstance(member, dict) and "group" in member:
                if not self._folder.find(str(member["group"])):
                    yield from self._group(str(member["group"]), member, place)
            elif isinstance(member, str) and not (self._folder.find(member) or self._folder.tagged(member)):
                yield Problem(f"{place.where()} task", f"there is no task, group or tag named {member!r}")
