"""Finds tasks, groups and tags by name: below `--include-path`, then in an installed lm_eval package.

A folder may hold thousands of files. Names are found by their lines at the margin, without parsing YAML, and
in the package a file called like the task is tried first, so that a run reads only the files it needs.
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
from typing import NamedTuple

from assay.core.errors import UsageError
from assay.core.registry import unknown

# A key, the rest of its line, and the lines below that belong to it: list items, indented, blank, comments.
_HEADER = re.compile(
    rb"""^["']?(task|group|tag|include|class)["']?[ \t]*:[ \t]*([^\n]*)"""
    rb"""((?:\n(?:[ \t]*[-\]#]|[ \t]+\S|[ \t\r]*(?=\n))[^\n]*)*)""",
    re.MULTILINE,
)
_COMMENT = re.compile(r"(?:^|\s)#.*")
_IGNORED = frozenset({"__pycache__", ".ipynb_checkpoints"})
PATTERN = re.compile(r"[*?\[]")


class Header(NamedTuple):
    """What a file says of itself at the margin."""

    task: str
    group: str
    tags: list[str]
    includes: list[str]

    @property
    def name(self) -> str:
        """What it defines, if anything."""
        return self.group or self.task


class Folder:
    """All YAML files below one folder. `strict`: two files of one name are refused, not chosen from."""

    def __init__(self, root: Path, *, strict: bool) -> None:
        self.root = root
        self._strict = strict
        self._headers: dict[Path, Header] = {}

    @cached_property
    def files(self) -> list[Path]:
        """Sorted by path, so that the first of two is always the same."""
        found = []
        for folder, below, names in os.walk(self.root):
            below[:] = [name for name in below if name not in _IGNORED]
            found += [Path(folder, name) for name in names if name.endswith((".yaml", ".yml"))]
        return sorted(found, key=Path.as_posix)

    @cached_property
    def _stems(self) -> dict[str, list[Path]]:
        found: dict[str, list[Path]] = {}
        for path in self.files:
            found.setdefault(path.stem, []).append(path)
        return found

    def find(self, name: str) -> Path | None:
        """The file that defines a task or a group of this name."""
        if not self._strict:
            for path in self._stems.get(name, ()):
                if self.header(path).name == name:
                    return path
        found = self._named.get(name, [])
        if len(found) > 1 and self._strict:
            raise UsageError(f"two files name a task {name!r}: {found[0]} and {found[1]}")
        return found[0] if found else None

    def tagged(self, tag: str) -> list[str]:
        """The names of the tasks that carry this tag."""
        return self._tags.get(tag, [])

    def names(self) -> dict[str, Path]:
        """Every task and group; of two files of one name the first."""
        return {name: paths[0] for name, paths in self._named.items()}

    def twice(self) -> dict[str, list[Path]]:
        """Names that more than one file has."""
        return {name: paths for name, paths in self._named.items() if len(paths) > 1}

    def tags(self) -> list[str]:
        """Every tag."""
        return list(self._tags)

    @cached_property
    def _named(self) -> dict[str, list[Path]]:
        found: dict[str, list[Path]] = {}
        for path in self.files:
            if name := self.header(path).name:
                found.setdefault(name, []).append(path)
        return found

    @cached_property
    def _tags(self) -> dict[str, list[str]]:
        found: dict[str, set[str]] = {}
        for paths in self._named.values():
            header = self.header(paths[0])
            for tag in [] if header.group else header.tags:
                found.setdefault(tag, set()).add(header.task)
        return {tag: sorted(tasks) for tag, tasks in found.items()}

    def header(self, path: Path, above: tuple[Path, ...] = ()) -> Header:
        """A file's own header, filled up with what it includes."""
        if path in above:
            return Header("", "", [], [])
        if path not in self._headers:
            self._headers[path] = self._filled(_header(path), path, above)
        return self._headers[path]

    def _filled(self, own: Header, path: Path, above: tuple[Path, ...]) -> Header:
        for name in reversed(own.includes):  # the last one wins, as in the merged file
            if own.name and own.tags:
                break
            more = self.header(path.parent / name, (*above, path))
            named = (own.task, own.group) if own.name else (more.task, more.group)
            own = Header(*named, own.tags or more.tags, own.includes)
        return own


def _header(path: Path) -> Header:
    try:
        raw = path.read_bytes()
    except OSError:
        return Header("", "", [], [])
    found = {
        key.decode(): _items(value.decode(errors="replace"), more.decode(errors="replace"))
        for key, value, more in _HEADER.findall(raw.removeprefix(codecs.BOM_UTF8))
    }
    group = next(iter(found.get("group", [])), "")
    task = next(iter(found.get("task", [])), "") if not group else ""
    return Header(task, group, found.get("tag", []), found.get("include", []))


def _items(value: str, more: str) -> list[str]:
    """The texts of a scalar, of `[a, b]`, or of the lines `- a` below the key."""
    if value.startswith("["):
        lines = [_COMMENT.sub("", line) for line in (value + more).split("\n")]
        listed = " ".join(lines).partition("]")[0][1:].split(",")
    elif value.strip() and not value.startswith("#"):
        listed = [value]
    else:
        lines = [line.strip() for line in more.split("\n")]
        listed = [line[1:] for line in lines if line.startswith("-")]
    return [text for text in map(_scalar, listed) if text]


def _scalar(text: str) -> str:
    text = text.strip()
    if text[:1] in ("'", '"'):
        return text[1:].partition(text[0])[0]
    return _COMMENT.sub("", text).strip()


class Catalog:
    """All folders a run looks in, the user's first."""

    def __init__(self, include: list[str]) -> None:
        for folder in include:
            if not Path(folder).is_dir():
                raise UsageError(f"--include-path {folder!r} is not a folder")
        self.folders = [Folder(Path(folder), strict=True) for folder in include]

    @cached_property
    def _all(self) -> list[Folder]:
        installed = harness_tasks()
        return self.folders + ([Folder(installed, strict=False)] if installed else [])

    def also(self, folder: Path) -> None:
        """Look in this folder too, after the user's others."""
        if all(folder != known.root for known in self.folders):
            self.folders.append(Folder(folder, strict=True))
            self.__dict__.pop("_all", None)

    def find(self, name: str) -> Path | list[str] | None:
        """A file, or the tasks of a tag; None for a name nobody has."""
        for folder in self._all:
            if found := folder.find(name) or folder.tagged(name):
                return found
        return None

    def matching(self, pattern: str) -> list[str]:
        """A name as it is, or every task, group and tag that `mmlu_*` matches."""
        if not PATTERN.search(pattern):
            return [pattern]
        names = {name for folder in self._all for name in [*folder.names(), *folder.tags()]}
        if found := sorted(name for name in names if fnmatchcase(name, pattern)):
            return found
        raise UsageError(f"no task matches {pattern!r}")

    def missing(self, name: str) -> UsageError:
        """The sentence for a name nobody has."""
        if not self._all:
            return UsageError(
                f"{name!r} is no YAML file; name the folder it is in with --include-path, "
                "or install the package lm_eval for its tasks"
            )
        known = sorted({known for folder in self._all for known in [*folder.names(), *folder.tags()]})
        shown = known if len(known) < 50 else [near for near in known if near[:3] == name[:3]] or known[:50]
        return UsageError(unknown("task", name, shown))


def harness_tasks() -> Path | None:
    """The task folder of an installed lm_eval, which is not imported."""
    spec = importlib.util.find_spec("lm_eval")
    for location in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(location) / "tasks"
        if folder.is_dir():
            return folder
    return None


def listed_in(catalog: Catalog) -> Iterator[tuple[str, str, str]]:
    """(kind, name, file) of everything in the catalog's own folders, for `--list`."""
    for folder in catalog.folders:
        for name, path in folder.names().items():
            yield ("group" if folder.header(path).group else "task"), name, str(path)
        for tag in folder.tags():
            yield "tag", tag, ", ".join(folder.tagged(tag))
