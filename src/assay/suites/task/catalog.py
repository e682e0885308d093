"""Finds tasks, groups and tags by name, and reads the files that a command line selects.

    nodes = TaskSelection(Catalog(["my_tasks"])).select(["gsm8k", "mmlu_*", "my_tasks/own.yaml"])

Names are looked up below `--include-path`, then in an installed lm_eval package. That package has 14,000 task
files; parsing them all takes the harness 10 seconds of CPU time in every run. The lookup here reads only the
unindented lines `task:`, `group:`, `tag:` and `include:`, with a regular expression, and tries a file with
the name of the task first. Only the selected files are parsed.
"""

from __future__ import annotations

import codecs
import importlib.util
import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct

from assay.core.errors import InputError, Problem, UsageError, similar_file, similar_names, unknown
from assay.files.paths import can_exist, fitting_name
from assay.files.read import read_file
from assay.files.yaml_files import YAML_BY_PEOPLE, YAML_SUFFIXES, FunctionRef
from assay.suites.task.config import KeyOrigin, TaskConfig, TaskFileReader, TaskSettings, name_problem, read_task

# An unindented key, the rest of its line, and the lines below that belong to its value: list items, indented
# lines, blank lines and comments.
_HEADER = re.compile(
    rb"""^["']?(task|group|tag|include|class)["']?[ \t]*:[ \t]*([^\n]*)"""
    rb"""((?:\n(?:[ \t]*[-\]#]|[ \t]+\S|[ \t\r]*(?=\n))[^\n]*)*)""",
    re.MULTILINE,
)
_COMMENT = re.compile(r"(?:^|\s)#.*")
_IGNORED_FOLDERS = frozenset({"__pycache__", ".ipynb_checkpoints"})
# Characters that some file system does not allow in a name, as the harness replaces them.
_UNSAFE = re.compile(r'["<>:/|\\?*\[\]]+')
# Bytes of a task's name in the names of its files. The longest is `.samples_<task>_<time>.jsonl.hashes.tmp`, and a
# file system allows 255 bytes.
MAX_PART_BYTES = 200
_PATTERN = re.compile(r"[*?\[]")
# The message about an unknown name lists all known names if there are fewer than this.
_MAX_LISTED = 50


class TaskHeader(Struct, frozen=True):
    """The names in a task file's unindented lines. A field is empty if the file does not have it."""

    task: str
    group: str
    tags: list[str]
    includes: list[str]

    @property
    def name(self) -> str:
        """The task or group that the file defines; empty if it defines none."""
        return self.group or self.task


class TaskFolder:
    """All YAML files below one folder.

    If two files define the same name, a strict folder raises an error and any other folder uses one of them.
    Folders of the user are strict. The folder of lm_eval is not: its files are not the user's to rename.
    """

    def __init__(self, root: Path, *, strict: bool) -> None:
        self.root = root
        self._strict = strict
        self._headers: dict[Path, TaskHeader] = {}

    @cached_property
    def files(self) -> list[Path]:
        """The files sorted by path, so that the choice between duplicates is the same on every machine."""
        paths = []
        for folder, subfolders, names in os.walk(self.root):
            subfolders[:] = [name for name in subfolders if name not in _IGNORED_FOLDERS]
            paths += [Path(folder, name) for name in names if name.endswith(YAML_SUFFIXES)]
        return sorted(paths, key=Path.as_posix)

    @cached_property
    def _by_stem(self) -> dict[str, list[Path]]:
        paths: dict[str, list[Path]] = {}
        for path in self.files:
            paths.setdefault(path.stem, []).append(path)
        return paths

    @cached_property
    def _by_name(self) -> dict[str, list[Path]]:
        paths: dict[str, list[Path]] = {}
        for path in self.files:
            if name := self.header(path).name:
                paths.setdefault(name, []).append(path)
        return paths

    @cached_property
    def _by_tag(self) -> dict[str, list[str]]:
        tasks: dict[str, set[str]] = {}
        for paths in self._by_name.values():
            header = self.header(paths[0])
            if not header.group:
                for tag in header.tags:
                    tasks.setdefault(tag, set()).add(header.task)
        return {tag: sorted(names) for tag, names in tasks.items()}

    def find(self, name: str) -> Path | None:
        """Return the file that defines a task or group of this name; None if there is none."""
        if not self._strict:
            # A file is usually named after its task. Trying it first avoids reading every file.
            for path in self._by_stem.get(name, ()):
                if self.header(path).name == name:
                    return path
        paths = self._by_name.get(name, [])
        if len(paths) > 1 and self._strict:
            raise UsageError(f"two files define {name!r}: {paths[0]} and {paths[1]}; rename one of them")
        return paths[0] if paths else None

    def tagged(self, tag: str) -> list[str]:
        """Return the names of the tasks with this tag."""
        return self._by_tag.get(tag, [])

    def names(self) -> dict[str, Path]:
        """Return the file of every task and group. For a duplicate name this is the first file by path."""
        return {name: paths[0] for name, paths in self._by_name.items()}

    def duplicates(self) -> dict[str, list[Path]]:
        """Return the names that several files define, with these files."""
        return {name: paths for name, paths in self._by_name.items() if len(paths) > 1}

    def tags(self) -> list[str]:
        """Return every tag."""
        return list(self._by_tag)

    def header(self, path: Path, above: tuple[Path, ...] = ()) -> TaskHeader:
        """Return a file's header. Names that it lacks come from the files it includes.

        `above` are the files that include this one.
        """
        # A file that includes itself. Reading the task later reports this as an error.
        if path in above:
            return TaskHeader("", "", [], [])
        if path in self._headers:
            return self._headers[path]
        header = _read_header(path)
        # If several included files have the key, the last one wins, as when the files are merged.
        for name in reversed(header.includes):
            if header.name and header.tags:
                break
            included = self.header(path.parent / name, (*above, path))
            definition = header if header.name else included
            header = TaskHeader(definition.task, definition.group, header.tags or included.tags, header.includes)
        self._headers[path] = header
        return header


def _read_header(path: Path) -> TaskHeader:
    try:
        raw = read_file(path, YAML_BY_PEOPLE.document)
    except (OSError, InputError):  # a pipe, a device or no task at all; naming it tells what it is
        return TaskHeader("", "", [], [])
    texts = {}
    for key, value, more in _HEADER.findall(raw.removeprefix(codecs.BOM_UTF8)):
        texts[key.decode()] = _read_items(value.decode(errors="replace"), more.decode(errors="replace"))
    group = next(iter(texts.get("group", [])), "")
    # In a group's file the key `task` lists its members.
    task = next(iter(texts.get("task", [])), "") if not group else ""
    return TaskHeader(task, group, texts.get("tag", []), texts.get("include", []))


def _read_items(value: str, more: str) -> list[str]:
    """Return the items of a YAML value: a scalar, a list `[a, b]`, or a list of lines `- a` below the key."""
    if value.startswith("["):
        lines = [_COMMENT.sub("", line) for line in (value + more).split("\n")]
        items = " ".join(lines).partition("]")[0][1:].split(",")
    elif value.strip() and not value.startswith("#"):
        items = [value]
    else:
        lines = [line.strip() for line in more.split("\n")]
        items = [line[1:] for line in lines if line.startswith("-")]
    return [text for text in map(_read_scalar, items) if text]


def _read_scalar(text: str) -> str:
    text = text.strip()
    if text[:1] in ("'", '"'):
        return text[1:].partition(text[0])[0]
    return _COMMENT.sub("", text).strip()


class Catalog:
    """All folders in which a run looks for tasks, the user's folders first."""

    def __init__(self, include: list[str]) -> None:
        for folder in include:
            if not Path(folder).is_dir():
                raise UsageError(f"--include-path {folder!r} is not a folder")
        self.folders = [TaskFolder(Path(folder), strict=True) for folder in include]

    @cached_property
    def _harness_folder(self) -> TaskFolder | None:
        """The task folder of an installed lm_eval package; None without it. The package is not imported."""
        spec = importlib.util.find_spec("lm_eval")
        for location in (spec.submodule_search_locations or []) if spec else []:
            folder = Path(location) / "tasks"
            if folder.is_dir():
                return TaskFolder(folder, strict=False)
        return None

    def all_folders(self) -> list[TaskFolder]:
        """Return the user's folders, and last the task folder of an installed lm_eval package."""
        harness = self._harness_folder
        return self.folders if harness is None else [*self.folders, harness]

    def add_folder(self, folder: Path) -> None:
        """Add a folder after the folders of `--include-path`."""
        if all(folder != other.root for other in self.folders):
            self.folders.append(TaskFolder(folder, strict=True))

    def find(self, name: str) -> Path | list[str] | None:
        """Return the file of a task or group, or the names of a tag's tasks. None for an unknown name."""
        for folder in self.all_folders():
            if match := folder.find(name) or folder.tagged(name):
                return match
        return None

    def matching(self, pattern: str) -> list[str]:
        """Return every task, group and tag that a pattern such as `mmlu_*` matches.

        A name without wildcards is returned unchanged, even if it is unknown.
        """
        if not _PATTERN.search(pattern):
            return [pattern]
        matches = sorted(name for name in self._all_names() if fnmatchcase(name, pattern))
        if not matches:
            raise UsageError(f"no task matches {pattern!r}")
        return matches

    def unknown_name(self, name: str) -> UsageError:
        """Build the error for an unknown name."""
        if not self.all_folders():
            return UsageError(
                f"there is no YAML file {name!r} and no folder to look for a task of this name; "
                "pass the folder with --include-path, or install the package lm_eval for its tasks"
            )
        names = sorted(self._all_names())
        if len(names) < _MAX_LISTED or similar_names(name, names):
            return UsageError(unknown("task", name, names))
        # lm_eval has thousands of names, which are too many for a message.
        longer = sorted((other for other in names if name.lower() in other.lower()), key=len)[:3]
        if longer:
            return UsageError(f"there is no task named {name!r}; did you mean {' or '.join(map(repr, longer))}?")
        return UsageError(
            f"there is no task named {name!r}, and none of the {len(names):,} known names is similar; "
            "`assay task --list` lists them"
        )

    def _all_names(self) -> set[str]:
        names: set[str] = set()
        for folder in self.all_folders():
            names.update(folder.names(), folder.tags())
        return names


def list_tasks(include: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, name, place) of every task, group and tag in these folders, for `--list`.

    Without folders these are the tasks of an installed lm_eval package; UsageError if there is none. The place is the
    file of a task or group, and the tasks of a tag.
    """
    folders = Catalog(include).folders if include else Catalog([]).all_folders()
    if not folders:
        raise UsageError(
            "--list found no tasks: pass the folder with --include-path DIR, or install the package lm_eval"
        )
    for folder in folders:
        for name, path in folder.names().items():
            yield ("group" if folder.header(path).group else "task"), name, str(path)
        for tag in folder.tags():
            yield "tag", tag, ", ".join(folder.tagged(tag))


# Groups

GROUP_KEYS = ("group", "group_alias", "task", "aggregate_metric_list", "metadata")
GROUP_METRIC_KEYS = ("metric", "filter_list", "aggregation", "weight_by_size")


class GroupMetric(Struct, frozen=True):
    """A metric that a group averages over its tasks. `filters` is None for all filters of the tasks.

    `weighted` means that a task counts by its number of documents. `where` is its place in the file of the group.
    """

    metric: str
    filters: list[str] | None
    weighted: bool
    where: str = ""


class TaskGroup(Struct, frozen=True):
    """A named set of tasks and groups."""

    name: str
    alias: str
    children: dict[str, TaskConfig | TaskGroup]
    metrics: list[GroupMetric]
    version: str
    warnings: list[Problem]

    def tasks(self) -> Iterator[TaskConfig]:
        """Yield all tasks, those of inner groups included, in the order of the file."""
        for child in self.children.values():
            if isinstance(child, TaskGroup):
                yield from child.tasks()
            else:
                yield child

    def subgroups(self) -> Iterator[TaskGroup]:
        """Yield all inner groups, each before the groups inside it."""
        for child in self.children.values():
            if isinstance(child, TaskGroup):
                yield child
                yield from child.subgroups()


TaskNode = TaskConfig | TaskGroup


def tasks_of(node: TaskNode) -> Iterator[TaskConfig]:
    """Yield the tasks of a group, or the task itself."""
    if isinstance(node, TaskGroup):
        yield from node.tasks()
    else:
        yield node


def all_groups(nodes: list[TaskNode]) -> list[TaskGroup]:
    """Return every group once, outer groups before inner ones."""
    groups: dict[str, TaskGroup] = {}
    for node in nodes:
        if isinstance(node, TaskGroup):
            for group in (node, *node.subgroups()):
                groups.setdefault(group.name, group)
    return list(groups.values())


def groups_inner_first(nodes: list[TaskNode]) -> list[TaskGroup]:
    """Return every group once, inner groups before outer ones."""
    groups: dict[str, TaskGroup] = {}

    def visit(group: TaskGroup) -> None:
        for child in group.children.values():
            if isinstance(child, TaskGroup):
                visit(child)
        groups.setdefault(group.name, group)

    for node in nodes:
        if isinstance(node, TaskGroup):
            visit(node)
    return list(groups.values())


def read_group(name: str, values: dict[str, Any], origin: KeyOrigin, children: dict[str, TaskNode]) -> TaskGroup:
    """Build a group from the settings in its file and its members. Raises InputError with every problem."""
    entries = values.get("aggregate_metric_list") or []
    problems: list[Problem] = []
    warnings: list[Problem] = []
    if problem := name_problem(name):
        problems.append(Problem(f"{origin.where('group')} group", problem))
    metrics = []
    for position, entry in enumerate(entries if isinstance(entries, list) else [entries]):
        where = f"{origin.where('aggregate_metric_list', position)} aggregate_metric_list.{position}"
        metric = entry.get("metric") if isinstance(entry, dict) else None
        if isinstance(metric, FunctionRef):
            # The harness compares the function with names, so no task has this metric.
            metric = f"!function {metric.name}"
        if not isinstance(entry, dict) or not isinstance(metric, str):
            problems.append(Problem(where, "expected a mapping with the key 'metric'"))
            continue
        unknown_keys = [str(key) for key in entry if key not in GROUP_METRIC_KEYS]
        problems += [Problem(where, unknown("key", key, list(GROUP_METRIC_KEYS))) for key in unknown_keys]
        aggregation = entry.get("aggregation", "mean")
        # A `!function` is accepted, as in the harness, but has no effect: groups always take the mean.
        if aggregation != "mean" and not isinstance(aggregation, FunctionRef):
            message = f"expected 'mean', the only aggregation of groups, found {aggregation!r}"
            problems.append(Problem(where, message))
        filters = entry.get("filter_list")
        if isinstance(filters, str):
            filters = [filters]
        weighted = entry.get("weight_by_size", True)
        if not isinstance(weighted, bool):
            # The harness takes Python's truth of the value. One of its own groups has the text `truez`.
            meaning = "true" if weighted else "false"
            message = f"weight_by_size: expected true or false, found {weighted!r}, which counts as {meaning}"
            warnings.append(Problem(where, message, "warning"))
        metrics.append(GroupMetric(metric, filters, bool(weighted), where))
    metadata = values.get("metadata") or {}
    if not isinstance(metadata, dict):
        where = f"{origin.where('metadata')} metadata"
        problems.append(Problem(where, f"expected a mapping, found {metadata!r}"))
    if problems:
        raise InputError(problems)
    version = metadata.get("version", "N/A")
    return TaskGroup(name, values.get("group_alias") or name, children, metrics, str(version), warnings)


# Selection


class GroupOverrides(Struct, frozen=True):
    """Settings with which the enclosing groups override those of a task. Later parts win."""

    parts: tuple[tuple[dict[str, Any], KeyOrigin], ...] = ()

    def then(self, values: dict[str, Any], origin: KeyOrigin) -> GroupOverrides:
        """Return a copy in which these values win over all others."""
        return GroupOverrides((*self.parts, (values, origin))) if values else self

    def below(self, values: dict[str, Any], origin: KeyOrigin) -> GroupOverrides:
        """Return a copy in which all other values win over these."""
        return GroupOverrides(((values, origin), *self.parts)) if values else self

    def apply(self, settings: TaskSettings) -> TaskSettings:
        """Return the settings of a task with all overrides applied."""
        for values, origin in self.parts:
            settings = settings.override(values, origin)
        return settings


class TaskSelection:
    """Reads the tasks and groups that a command line names. Other files are not parsed."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._files = TaskFileReader()
        self._open_groups: list[Path] = []

    @property
    def repeated_keys(self) -> list[Problem]:
        """A warning for each key that is written twice in a file of the selection."""
        return self._files.repeated_keys

    def select(self, names: list[str]) -> list[TaskNode]:
        """Return the named tasks and groups in the given order. A tag is replaced by its tasks."""
        nodes: list[TaskNode] = []
        for pattern in names:
            for name in _expand_files(pattern):
                if is_path(name):
                    nodes.append(self._read_path(Path(name)))
                    continue
                for match in self._catalog.matching(name):
                    nodes += self._read_name(match, GroupOverrides(), None)
        return _without_duplicates(nodes)

    def _read_path(self, path: Path) -> TaskNode:
        """Read a file that is named by its path."""
        if not path.is_file():
            raise UsageError(f"there is no task file {str(path)!r}{similar_file(path)}")
        # The member tasks of a group are usually in the same folder, which needs no --include-path then.
        if "group" in self._files.read(path).values:
            self._catalog.add_folder(path.parent)
        return self._read_file(path, GroupOverrides())

    def _read_name(self, name: str, overrides: GroupOverrides, where: str | None) -> list[TaskNode]:
        """Read a task, a group, or all tasks of a tag.

        `where` is the line of the group file that uses the name; None for a name on the command line.
        """
        match = self._catalog.find(name)
        if match is None:
            if where is None:
                raise self._catalog.unknown_name(name)
            raise InputError(Problem(where, str(self._catalog.unknown_name(name))))
        if isinstance(match, Path):
            return [self._read_file(match, overrides)]
        return [node for task in match for node in self._read_name(task, overrides, where)]

    def _read_file(self, path: Path, overrides: GroupOverrides) -> TaskNode:
        settings = self._files.read(path)
        if "group" not in settings.values or "class" in settings.values:
            return read_task(overrides.apply(settings), path)
        origin = KeyOrigin(settings.files[0])
        if path in self._open_groups:
            chain = " in ".join(str(inner) for inner in [*self._open_groups, path][::-1])
            raise InputError(Problem(f"{origin.where('task')} task", f"this group contains itself: {chain}"))
        self._open_groups.append(path)
        try:
            return self._read_group(str(settings.values["group"]), settings.values, origin, overrides)
        finally:
            self._open_groups.pop()

    def _read_group(self, name: str, values: dict[str, Any], origin: KeyOrigin, overrides: GroupOverrides) -> TaskGroup:
        shared = {key: value for key, value in values.items() if key not in (*GROUP_KEYS, "tag")}
        overrides = overrides.below(shared, origin)
        members = values.get("task") or []
        children: dict[str, TaskNode] = {}
        for position, member in enumerate(members if isinstance(members, list) else [members]):
            place = KeyOrigin(origin.file, (*origin.above, "task", position))
            for node in self._read_member(name, member, place, overrides):
                children[node.name] = node
        if not children:
            raise InputError(Problem(f"{origin.where('group')} group", f"the group {name!r} has no tasks"))
        return read_group(name, values, origin, children)

    def _read_member(self, group: str, member: Any, place: KeyOrigin, overrides: GroupOverrides) -> list[TaskNode]:
        where = f"{place.where()} task"
        if isinstance(member, str):
            return self._read_name(member, overrides, where)
        if isinstance(member, dict) and isinstance(member.get("group"), str):
            return [self._read_inner_group(group, member, place, overrides)]
        if isinstance(member, dict) and isinstance(member.get("task"), str):
            return self._read_inner_task(group, member, place, overrides)
        raise InputError(Problem(where, f"expected a name, or a mapping with 'task' or 'group', found {member!r}"))

    def _read_inner_group(
        self, group: str, member: dict[str, Any], place: KeyOrigin, overrides: GroupOverrides
    ) -> TaskNode:
        """Read a group that is defined inside another, or a group with its own file and overrides from here."""
        name = member["group"]
        match = self._catalog.find(name)
        if isinstance(match, Path):
            changes = {key: value for key, value in member.items() if key not in GROUP_KEYS}
            return self._read_file(match, overrides.then(changes, place))
        # The harness writes `outer::inner` for a group defined inside another.
        return self._read_group(f"{group}::{name}", member, place, overrides)

    def _read_inner_task(
        self, group: str, member: dict[str, Any], place: KeyOrigin, overrides: GroupOverrides
    ) -> list[TaskNode]:
        """Read a task with its own file and overrides from here, or a task that is defined inside the group."""
        name = member["task"]
        if self._catalog.find(name) is not None:
            changes = {key: value for key, value in member.items() if key != "task"}
            return self._read_name(name, overrides.then(changes, place), place.where())
        changes = {**member, "task": f"{group}::{name}"}
        settings = overrides.then(changes, place).apply(TaskSettings({}, {}, [place.file]))
        return [read_task(settings, place.file.path, "inline")]


def _expand_files(name: str) -> list[str]:
    """Return the files that match a pattern such as `tasks/*.yaml`. Any other name is returned unchanged."""
    path = Path(name)
    if path.suffix not in YAML_SUFFIXES or path.is_file() or not _PATTERN.search(path.name):
        return [name]
    paths = sorted(map(str, path.parent.glob(path.name)))
    if not paths:
        raise UsageError(f"no task file matches {name!r}")
    return paths


def is_path(name: str) -> bool:
    """Return whether a name on the command line is a path and not the name of a task."""
    path = Path(name)
    return path.suffix in YAML_SUFFIXES or (can_exist(path) and path.is_file())


def sanitise(name: str) -> str:
    """Return the name of a model or task for use in a file name: `/a/b` becomes `__a__b`."""
    return _UNSAFE.sub("__", name) if name.strip(".") else "__"


def task_file_part(name: str) -> str:
    """Return a task's name as it stands in the names of its files. One that is too long is cut and gets a hash."""
    return fitting_name(sanitise(name), MAX_PART_BYTES)


def _without_duplicates(nodes: list[TaskNode]) -> list[TaskNode]:
    """Drop a task or group that was named twice, for example by a tag and by its own name.

    Raises UsageError for a task in two different groups: both would write to the same samples file.
    """
    by_name: dict[str, TaskNode] = {}
    unique_nodes = []
    for node in nodes:
        first = by_name.setdefault(node.name, node)
        if first is node or first != node:
            unique_nodes.append(node)
    owners: dict[str, TaskNode] = {}
    for node in unique_nodes:
        for task in tasks_of(node):
            owner = owners.setdefault(task.name, node)
            if owner is not node:
                raise UsageError(f"two tasks are named {task.name!r}: in {owner.name} and in {node.name}")
    return unique_nodes
