"""Turns the names on a command line into tasks and groups, with what groups say over their members."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from assay.core.errors import InputError, Problem, UsageError
from assay.suites.task.catalog import PATTERN, Catalog
from assay.suites.task.config import TaskConfig, task_config
from assay.suites.task.files import Origin, Settings, TaskFiles
from assay.suites.task.groups import GROUP_KEYS, Group, group_of

Node = TaskConfig | Group
_SUFFIXES = (".yaml", ".yml")


class Over(NamedTuple):
    """What the groups above say of a task, outer ones last."""

    parts: tuple[tuple[dict[str, Any], Origin], ...] = ()

    def then(self, values: dict[str, Any], origin: Origin) -> Over:
        """The same with values that win."""
        return Over((*self.parts, (values, origin))) if values else self

    def below(self, values: dict[str, Any], origin: Origin) -> Over:
        """The same with values that lose."""
        return Over(((values, origin), *self.parts)) if values else self

    def apply(self, settings: Settings) -> Settings:
        """The settings with all of it over them."""
        for values, origin in self.parts:
            settings = settings.over(values, origin)
        return settings


class Selection:
    """Reads what is named, and only that."""

    def __init__(self, catalog: Catalog, files: TaskFiles | None = None) -> None:
        self._catalog = catalog
        self._files = files or TaskFiles()
        self._open: list[Path] = []

    def select(self, names: list[str]) -> list[Node]:
        """Tasks and groups in the order they are named; a tag stands for its tasks."""
        nodes: list[Node] = []
        for name in (one for given in names for one in _files(given)):
            if is_path(name):
                nodes.append(self._from_path(Path(name)))
                continue
            for match in self._catalog.matching(name):
                nodes += self._named(match, Over(), None)
        return _distinct(nodes)

    def _from_path(self, path: Path) -> Node:
        """A file that is named itself; the tasks of a group may stand beside it."""
        if not path.is_file():
            raise UsageError(f"there is no task file {str(path)!r}")
        if "group" in self._files.read(path).values:
            self._catalog.also(path.parent)
        return self.from_file(path, Over())

    def _named(self, name: str, over: Over, asked: str | None) -> list[Node]:
        """What a name stands for; `asked` is the place in a group's file that names it."""
        found = self._catalog.find(name)
        if found is None:
            if asked is None:
                raise self._catalog.missing(name)
            raise InputError(Problem(asked, str(self._catalog.missing(name))))
        if isinstance(found, Path):
            return [self.from_file(found, over)]
        return [node for task in found for node in self._named(task, over, asked)]

    def from_file(self, path: Path, over: Over) -> Node:
        """The task or the group in a file."""
        settings = self._files.read(path)
        if "group" in settings.values and "class" not in settings.values:
            return self._group_file(path, settings, over)
        return task_config(over.apply(settings), path)

    def _group_file(self, path: Path, settings: Settings, over: Over) -> Group:
        origin = Origin(settings.files[0])
        if path in self._open:
            chain = " in ".join(str(inner) for inner in [*self._open, path][::-1])
            raise InputError(Problem(f"{origin.where('task')} task", f"this group contains itself: {chain}"))
        self._open.append(path)
        try:
            return self._group(str(settings.values["group"]), settings.values, origin, over)
        finally:
            self._open.pop()

    def _group(self, name: str, values: dict[str, Any], origin: Origin, over: Over) -> Group:
        shared = {key: value for key, value in values.items() if key not in (*GROUP_KEYS, "tag")}
        members = values.get("task")
        children: dict[str, Node] = {}
        for at, member in enumerate(members if isinstance(members, list) else [members] if members else []):
            place = Origin(origin.file, (*origin.above, "task", at))
            for node in self._member(name, member, place, over.below(shared, origin)):
                children[node.name] = node
        if not children:
            raise InputError(Problem(f"{origin.where('group')} group", f"the group {name!r} has no tasks"))
        return group_of(name, values, origin, children)

    def _member(self, group: str, member: Any, place: Origin, over: Over) -> list[Node]:
        where = f"{place.where()} task"
        if isinstance(member, str):
            return self._named(member, over, where)
        if isinstance(member, dict) and isinstance(member.get("group"), str):
            return [self._inner_group(group, member, place, over)]
        if isinstance(member, dict) and isinstance(member.get("task"), str):
            return self._inner_task(group, member, place, over)
        raise InputError(
            Problem(where, f"expected a name, or a mapping with 'task' or 'group', found {member!r}")
        )

    def _inner_group(self, group: str, member: dict[str, Any], place: Origin, over: Over) -> Node:
        """A group that is written inside another, or one that exists, with changes for its tasks."""
        name = member["group"]
        if isinstance(found := self._catalog.find(name), Path):
            changes = {key: value for key, value in member.items() if key not in GROUP_KEYS}
            return self.from_file(found, over.then(changes, place))
        return self._group(f"{group}::{name}", member, place, over)

    def _inner_task(self, group: str, member: dict[str, Any], place: Origin, over: Over) -> list[Node]:
        """A task that exists, with changes, or one that is written inside the group."""
        name = member["task"]
        if self._catalog.find(name) is not None:
            changes = {key: value for key, value in member.items() if key != "task"}
            return self._named(name, over.then(changes, place), place.where())
        path = place.file.path
        changes = {**member, "task": f"{group}::{name}"}
        settings = over.then(changes, place).apply(Settings({}, {}, [place.file]))
        return [task_config(settings, path, "inline")]


def _files(name: str) -> list[str]:
    """The files that `tasks/*.yaml` means; any other name as it is."""
    path = Path(name)
    if path.suffix not in _SUFFIXES or path.is_file() or not PATTERN.search(path.name):
        return [name]
    if found := sorted(map(str, path.parent.glob(path.name))):
        return found
    raise UsageError(f"no task file matches {name!r}")


def is_path(name: str) -> bool:
    """Whether a name on the command line means a file."""
    path = Path(name)
    return path.suffix in _SUFFIXES or path.is_file()


def _distinct(nodes: list[Node]) -> list[Node]:
    """Each once: a name may be given twice, and a tag beside its own tasks.

    A task that two others contain is refused: it would be asked twice and written to one file.
    """
    named: dict[str, Node] = {}
    kept = [node for node in nodes if named.setdefault(node.name, node) is node or named[node.name] != node]
    seen: dict[str, Node] = {}
    for node in kept:
        for task in node.tasks() if isinstance(node, Group) else [node]:
            other = seen.setdefault(task.name, node)
            if other is not node:
                raise UsageError(f"two tasks are named {task.name!r}: in {other.name} and in {node.name}")
    return kept
