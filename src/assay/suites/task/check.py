"""`assay check` for task files, folders of task files, and data files. Reports every problem with its place."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from assay.core.errors import InputError, MissingExtra, Problem, UsageError
from assay.core.file_check import NOT_RUN, CheckOptions, FileCheck, contents, nearest
from assay.core.spec import RunSpec, build
from assay.files.paths import can_exist
from assay.files.read import BOM
from assay.files.schema import shorten
from assay.files.yaml_files import YAML_SUFFIXES, FunctionRef, load_yaml
from assay.language.templates import TemplateProblem, check_template
from assay.suites.task.catalog import (
    Catalog,
    TaskFolder,
    TaskGroup,
    TaskSelection,
    all_groups,
    read_group,
    tasks_of,
)
from assay.suites.task.config import (
    KeyOrigin,
    TaskConfig,
    TaskFileReader,
    find_functions,
    function_file,
    function_name_problem,
    read_task,
)
from assay.suites.task.dataset.documents import Documents
from assay.suites.task.dataset.formats import open_checked
from assay.suites.task.filters import read_filters
from assay.suites.task.metrics import (
    ReportedNames,
    find_missing_metrics,
    find_repeated_metrics,
    read_metrics,
    refuse_lists,
    reported_names,
)
from assay.suites.task.options import Seeds, TaskOptions, seeds_of
from assay.suites.task.task import Task, TaskData, problem_of
from assay.usercode.definitions import python_problem

_DATA_FORMATS = {
    ".jsonl": "json",
    ".json": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".txt": "text",
}
_COMPRESSED = (".gz", ".bz2", ".xz")
# Keys of task files. One of them tells a task file that lacks the key `task`, or has it misspelled.
_TASK_KEYS = frozenset({"dataset_path", "doc_to_text", "doc_to_target", "doc_to_choice", "output_type", "metric_list"})
_TASK_KIND, _ROWS_KIND = "task of lm-evaluation-harness (task)", "rows of data (task)"
# A wrong template fails on every document. Beyond this number the report only counts them.
_MAX_DOCUMENTS = 100
# A field that a template prints as it is.
_PRINTED = re.compile(r"\{\{\s*(\w+)\s*\}\}")
# Usual parameters of requests. Endpoints have others, so only a key that is nearly one of these is a mistake.
_GENERATION_KEYS = [
    "until",
    "stop",
    "seed",
    "do_sample",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "max_gen_toks",
    "max_tokens",
    "min_tokens",
    "max_completion_tokens",
    "max_new_tokens",
    "min_new_tokens",
    "max_length",
    "min_length",
    "num_beams",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "length_penalty",
    "reasoning_effort",
]
# Settings that are used for scores only. A task's prompts can be built without them.
_SCORING_KEYS = ("filter_list", "metric_list", "process_results")
_TEMPLATE_KEYS = ("doc_to_text", "doc_to_target", "doc_to_choice", "description", "gen_prefix")


def examine(path: Path, options: CheckOptions) -> FileCheck:
    """Return the check of a task file, of all task files below a folder, or of a data file."""
    if path.is_dir():
        *problems, summary = FolderCheck(path)
        return FileCheck(kind="folder of tasks (task)", contents=summary.message, problems=problems)
    if path.suffix in YAML_SUFFIXES:
        # The file of a group is checked together with every task in the group.
        selection = TaskSelection(Catalog([]))
        try:
            (node,) = selection.select([str(path)])
        except InputError as error:
            return FileCheck(kind=_TASK_KIND, problems=error.problems)
        checks = [TaskCheck(config, options) for config in tasks_of(node)]
        warnings = selection.repeated_keys
        for group in all_groups([node]):
            names = [reported_names(config) for config in group.tasks()]
            warnings += [*group.warnings, *find_missing_metrics(group.metrics, names)]
        return FileCheck(
            kind=_TASK_KIND,
            contents=contents({"task": len(checks), "document": sum(check.documents for check in checks)}),
            problems=[*warnings, *(problem for check in checks for problem in check.problems)],
            notes=list(dict.fromkeys(note for check in checks for note in check.notes)),
        )
    kind = _data_format(path)
    if kind is None:
        suffixes = ", ".join(_DATA_FORMATS)
        raise UsageError(f"{path}: expected a task file (.yaml), a folder of them, or data ({suffixes})")
    documents = Documents(kind, [path])
    problems = check_documents(documents)
    if not problems and kind == "json":
        problems = _repeated_ids(documents)
    return FileCheck(kind=_ROWS_KIND, contents=contents({"document": documents.facts.total}), problems=problems)


def _repeated_ids(documents: Documents) -> list[Problem]:
    """Return a warning for each document whose `id` another one has. A task does not mind; a testset would."""
    if "id" not in documents.facts.columns:
        return []
    first: dict[str, str] = {}
    problems: list[Problem] = []
    for document in documents.rows():
        name = documents.parse(document)["id"]
        if name is None:
            continue
        if (place := first.setdefault(str(name), document.where)) != document.where:
            problems.append(Problem(document.where, f"the id {name!r} is that of {place} too", "warning"))
    return shorten(problems, documents.files[0])


def _data_format(path: Path) -> str | None:
    """Return the format of a data file by its name, such as `rows.jsonl.gz`."""
    return _DATA_FORMATS.get(_unpacked_name(path).suffix)


def _unpacked_name(path: Path) -> Path:
    return path.with_suffix("") if path.suffix in _COMPRESSED else path


def looks_like_task_file(path: Path) -> bool:
    """Return whether a YAML file has an unindented key `task` or `group`. The file is not parsed."""
    if path.suffix not in YAML_SUFFIXES or not path.is_file():
        return False
    return bool(TaskFolder(path.parent, strict=False).header(path).name)


def may_be_task_file(path: Path) -> bool:
    """Return whether a YAML file has a key of tasks, or cannot be read: then the check says why."""
    if path.suffix not in YAML_SUFFIXES or not path.is_file():
        return False
    try:
        return bool(_TASK_KEYS & load_yaml(path).value.keys())
    except InputError:
        return True


def has_rows(path: Path) -> bool:
    """Return whether a file may have rows of data: a table, or JSON objects. A text file may be anything."""
    kind = _data_format(path) if path.is_file() else None
    if kind != "json":
        return kind not in (None, "text")
    try:
        with open_checked(path) as file:
            start = file.read(1 << 16).removeprefix(BOM).strip()
    except InputError:
        return False
    if _unpacked_name(path).suffix in (".jsonl", ".ndjson"):
        # A file that is broken from its first line on is read as rows too: then the check names the line.
        return not start.startswith((b"[", b"{}"))
    if not start.startswith(b"["):
        return False
    return start[1:].lstrip().startswith(b"{") and not start[1:].lstrip()[1:].lstrip().startswith(b"}")


class TaskCheck:
    """The problems of a task and of its data. The prompt and the target of every document are built.

    Without `run_code` no `!function` is imported and no data set is downloaded. Then the functions are only looked
    for, and the prompts of a task whose documents or prompts need them are not built.
    """

    def __init__(self, config: TaskConfig, options: CheckOptions) -> None:
        self._config = config
        self.problems = list(parsed_problems(config))
        self.notes: list[str] = []
        self.documents = 0
        if self.problems:
            return
        self.problems = [*find_repeated_metrics(config), *_misspelled_parameters(config)]
        if not options.run_code and self._has_code():
            self.notes.append(NOT_RUN)
            if _prompts_need_code(config):
                self._check_without_code(seeds_of(_spec()))
                return
            config = _without_scoring(config)
        try:
            self._check_documents(Task(config, _spec()), options)
        except InputError as error:
            self.problems += error.problems
        except MissingExtra as error:
            self._not_all_checked(error)

    def _has_code(self) -> bool:
        """Return whether the task has Python that reading the task would run, and report functions that are missing."""
        has_code = False
        seen: set[FunctionRef] = set()
        for keys, ref in find_functions(self._config.values):
            has_code = True
            # `fewshot_config` repeats functions of the task.
            if ref not in seen and (message := _function_problem(ref)):
                self.problems.append(Problem(self._config.where(*map(str, keys[:1]), *keys[1:]), message))
            seen.add(ref)
        for path, name in plugin_files(self._config.values):
            has_code = True
            if message := python_problem(path, name):
                self.problems.append(Problem(str(self._config.path), message))
        return has_code

    def _check_without_code(self, seeds: Seeds) -> None:
        values = self._config.values
        if values.get("custom_dataset") is not None:
            return
        try:
            data = TaskData(self._config, seeds, {})
            if data.is_local:
                self._add_documents(data.evaluated)
            else:
                self._not_loaded()
        except InputError as error:
            self.problems += error.problems
        except MissingExtra as error:
            self._not_all_checked(error)

    def _check_documents(self, task: Task, options: CheckOptions) -> None:
        if not options.run_code and not task.data.is_local:
            self._not_loaded()
            return
        self._add_documents(task.data.documents)
        self.problems += self._empty_fields(task.data.documents)
        if any(problem.level == "error" for problem in self.problems):
            return
        task.prepare(None)
        bad = []
        for row in task.rows():
            failure = task.build(row)[2]
            if failure:
                bad.append(problem_of(failure))
        if len(bad) > _MAX_DOCUMENTS:
            more = f"and {len(bad) - _MAX_DOCUMENTS} more documents like these"
            bad = [*bad[:_MAX_DOCUMENTS], Problem(str(task.config.path), more)]
        self.problems += bad

    def _add_documents(self, documents: Documents) -> None:
        self.problems += check_documents(documents)
        self.documents = documents.facts.total

    def _empty_fields(self, documents: Documents) -> list[Problem]:
        """Return a warning for each document without a value of a field that a template prints: it prints `None`.

        A field that no document has is an error of the template, which building the prompts finds.
        """
        templates = [self._config.values.get(key) for key in ("doc_to_text", "doc_to_target")]
        names = {name for text in templates if isinstance(text, str) for name in _PRINTED.findall(text)}
        columns = set(documents.facts.columns)
        printed = sorted(names & columns)
        problems: list[Problem] = []
        for document in documents.rows() if printed else ():
            row = documents.parse(document)
            for name in printed:
                if row.get(name) is None:
                    near = nearest(name, [key for key in columns - names if row.get(key) is not None])
                    hint = f"; is {near!r} meant?" if near else ""
                    message = f"the document has no {name!r}, which the template prints as 'None'{hint}"
                    problems.append(Problem(document.where, message, "warning"))
        return shorten(problems, self._config.path)

    def _not_loaded(self) -> None:
        name = self._config.values.get("dataset_path")
        self.notes.append(f"the data set {name!r} was not loaded; --run-code loads it with the package datasets")

    def _not_all_checked(self, error: MissingExtra) -> None:
        message = f"not all of it could be checked: {error}"
        self.problems.append(Problem(str(self._config.path), message, "warning"))


def _spec() -> RunSpec:
    """Return the settings of a check. It sends no request, so the model is a placeholder without code."""
    return build("task", TaskOptions, {"model": "check/check", "confirm_run_unsafe_code": True})


def _prompts_need_code(config: TaskConfig) -> bool:
    """Return whether Python of the user makes the documents or the prompts, and not only the scores."""
    return any(place[0] not in _SCORING_KEYS for place, _ in find_functions(config.values))


def _without_scoring(config: TaskConfig) -> TaskConfig:
    """Return a task with the same prompts and no filters and metrics, which may be Python of the user."""
    return replace(config, values=config.values | dict.fromkeys(_SCORING_KEYS) | {"metric_list": []})


def first_document_problems(config: TaskConfig) -> list[Problem]:
    """Return why the first document has no prompt: most mistakes in templates show there.

    Nothing is said of a task that needs Python of the user or a data set of the Hub for its prompts.
    """
    if _prompts_need_code(config):
        return []
    try:
        task = Task(_without_scoring(config), _spec())
        if task.data.is_local:
            task.prepare(None)
    except InputError as error:
        return error.problems
    except MissingExtra:
        return []
    return []


def plugin_files(values: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield the file and the name of every filter and metric that is given as `path/file.py:name`."""
    steps = [step for chain in values.get("filter_list") or () for step in chain["filter"]]
    names = [step.get("function") for step in steps] + [each.get("metric") for each in values.get("metric_list") or ()]
    for name in names:
        if isinstance(name, str) and ".py:" in name:
            file, _, attribute = name.rpartition(":")
            yield Path(file), attribute


def _function_problem(ref: FunctionRef) -> str:
    """Return why a `!function` cannot be imported, found without importing it; empty if it seems to exist."""
    if problem := function_name_problem(ref):
        return problem
    module, _, name = ref.name.rpartition(".")
    path = function_file(ref)
    if not can_exist(path):
        problem = "no file can have this name"
    elif path.is_file():
        problem = python_problem(path, name)
    else:
        # Of a module in a package the package would be imported to find it.
        exists = "." in module or importlib.util.find_spec(module) is not None
        problem = "" if exists else f"there is no file {path} and no module {module!r}"
    return f"!function {ref.name}: {problem}" if problem else ""


def check_documents(documents: Documents) -> list[Problem]:
    """Return the problems of a data file: invalid rows, no rows, and (as warnings) repeated rows."""
    try:
        facts = documents.scan()
    except InputError as error:
        return error.problems
    if not facts.total:
        return [Problem(str(documents.files[0]), "the data set is empty")]
    if not facts.twins:
        return documents.warnings
    unique_keys = documents.unique_keys()
    first: dict[str, str] = {}
    problems = list(documents.warnings)
    for document in documents.rows():
        key = documents.key(document, documents.parse(document))
        if unique_keys.of(key) != key:
            message = f"this document is the same as {first[key]}"
            problems.append(Problem(document.where, message, "warning"))
        elif unique_keys.repeats(key):
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
    if values.get("metric_list") == [] and values.get("process_results") is None:
        yield Problem(config.where("metric_list"), "there is no metric, so no document would get a score")
    for key in _TEMPLATE_KEYS:
        if problem := _template_problem(values.get(key)):
            yield Problem(config.where(key), problem)
        if fewshot.get(key) != values.get(key) and (problem := _template_problem(fewshot.get(key))):
            yield Problem(config.where("fewshot_config", key), problem)


def _misspelled_parameters(config: TaskConfig) -> Iterator[Problem]:
    for key in config.values.get("generation_kwargs") or ():
        if key not in _GENERATION_KEYS and (near := nearest(str(key), _GENERATION_KEYS)):
            message = f"{key!r} is sent to the endpoint as it is; did you mean {near!r}?"
            yield Problem(config.where("generation_kwargs", str(key)), message, "warning")


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
        self._files = TaskFileReader()
        self._tasks = self._groups = 0
        # For the metrics of groups: the names that each task reports, and each group with its members.
        self._reported: dict[str, ReportedNames] = {}
        self._group_members: dict[str, tuple[TaskGroup, list[Any]]] = {}

    def __iter__(self) -> Iterator[Problem]:
        fine = 0
        # Files without a name belong to other suites, or are included by tasks.
        paths = [path for path in self._folder.files if self._folder.header(path).name]
        for path in paths:
            problems = list(self._check_file(path))
            fine += not any(problem.level == "error" for problem in problems)
            yield from problems
        yield from self._files.repeated_keys
        for group, members in self._group_members.values():
            names = self._names_of(members)
            if names is not None:
                yield from find_missing_metrics(group.metrics, names)
        for name, (first, second, *_) in self._folder.duplicates().items():
            yield Problem(str(second), f"{first} has the name {name!r} too", "warning")
        files = f"{fine:,} of {len(paths):,} files are fine"
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
                self._reported[config.name] = reported_names(config)
                problems = list(parsed_problems(config)) or first_document_problems(config)
                yield from problems
                yield from find_repeated_metrics(config)
        except InputError as error:
            yield from error.problems

    def _check_group(self, name: str, values: dict[str, Any], origin: KeyOrigin) -> Iterator[Problem]:
        """Yield the members of a group that do not exist. The existing ones are checked as files of their own."""
        folder, members = self._folder, values.get("task")
        members = members if isinstance(members, list) else [members]
        group = read_group(name, values, origin, {})
        yield from group.warnings
        self._group_members[name] = group, members
        for position, member in enumerate(members):
            place = KeyOrigin(origin.file, (*origin.above, "task", position))
            if isinstance(member, dict) and "group" in member:
                if not folder.find(str(member["group"])):
                    yield from self._check_group(str(member["group"]), member, place)
            elif isinstance(member, str) and not (folder.find(member) or folder.tagged(member)):
                yield Problem(f"{place.where()} task", f"there is no task, group or tag named {member!r}")

    def _names_of(self, members: list[Any], above: tuple[str, ...] = ()) -> list[ReportedNames] | None:
        """Return what the tasks of a group report. None if a member is defined or changed inside the group.

        `above` are the groups that this one is in. A group that contains itself has no tasks.
        """
        reported: list[ReportedNames] = []
        for member in members:
            tasks: list[ReportedNames] | None = None
            if not isinstance(member, str) or member in above:
                return None
            if member in self._reported:
                tasks = [self._reported[member]]
            elif member in self._group_members:
                tasks = self._names_of(self._group_members[member][1], (*above, member))
            elif tagged := self._folder.tagged(member):
                tasks = self._names_of(list(tagged), (*above, member))
            if tasks is None:
                return None
            reported += tasks
        return reported
