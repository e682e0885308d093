"""Reads YAML strictly and remembers the line of every key.

A tab, a duplicate key or a document that is no mapping is a problem with its line, never a guess.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import yaml

from assay.core.errors import InputError, Problem
from assay.core.schema import YAML_WORDING, KeyPath, Wording

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_MOST_DEEP, _MOST_KEYS = 40, 100_000
"""Aliases can make a small file endless."""


class FunctionRef(NamedTuple):
    """`!function module.name` in a file of this folder: named, not yet imported."""

    name: str
    folder: Path


class _Loader(_Base):  # type: ignore[misc]
    """CSafeLoader that also knows `!function`."""

    folder: Path


_Loader.add_constructor(
    "!function", lambda loader, node: FunctionRef(loader.construct_scalar(node), loader.folder)
)


class YamlFile(NamedTuple):
    """A mapping, the file it came from and the line of each of its keys. It is a `schema.ValueSource`."""

    path: Path
    value: dict[str, Any]
    lines: dict[KeyPath, int]

    @property
    def wording(self) -> Wording:
        """Settings show the wrong value."""
        return YAML_WORDING

    def where(self, *key: str | int) -> str:
        """`file:line` of the nearest key that is written in the file."""
        while key and key not in self.lines:
            key = key[:-1]
        return f"{self.path}:{self.lines.get(key, 1)}"

    def problem(self, path: KeyPath, message: str, level: str = "error") -> Problem:
        """Build the problem of the value at `path`: `file:line: steps.0.id: message`."""
        keys = ".".join(map(str, path))
        if keys:
            message = f"{keys}: {message}"
        return Problem(self.where(*path), message, level)


def load_yaml(path: Path) -> YamlFile:
    """The file's mapping, or InputError with every structural problem."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(Problem(str(path), "there is no such file")) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(Problem(str(path), f"cannot be read: {error}")) from None
    return parse_yaml(text, path)


def parse_yaml(text: str, path: Path) -> YamlFile:
    """`load_yaml` of text that is already here; `path` names it in messages."""
    loader = _Loader(text)
    loader.folder = path.parent
    try:
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise InputError(Problem(f"{path}:1", "expected a mapping of keys to values"))
        lines: dict[KeyPath, int] = {}
        problems: list[Problem] = []
        _walk(node, (), path, lines, problems)
        if problems:
            raise InputError(problems)
        return YamlFile(path, loader.construct_document(node), lines)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InputError(Problem(f"{path}:{line}", _explain(error, text, line))) from None
    except yaml.YAMLError as error:
        raise InputError(Problem(str(path), f"not YAML: {error}")) from None
    finally:
        loader.dispose()


def _explain(error: yaml.MarkedYAMLError, text: str, line: int) -> str:
    around = text.splitlines()[line - 1 : line]
    if around and around[0][: len(around[0]) - len(around[0].lstrip())].count("\t"):
        return "a tab stands at the start of the line; YAML wants spaces"
    return f"not YAML: {error.problem or error.context}"


def _walk(
    node: yaml.Node, at: KeyPath, path: Path, lines: dict[KeyPath, int], problems: list[Problem]
) -> None:
    if len(at) > _MOST_DEEP:
        problems.append(
            Problem(f"{path}:{node.start_mark.line + 1}", "nested too deeply, or an alias of itself")
        )
        return
    lines.setdefault(at, node.start_mark.line + 1)
    if len(lines) > _MOST_KEYS:
        return
    if isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            _walk(item, (*at, position), path, lines, problems)
    elif isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            key = (*at, str(key_node.value))
            line = key_node.start_mark.line + 1
            if key in lines and key_node.value != "<<":
                problems.append(
                    Problem(f"{path}:{line}", f"key {key[-1]!r} is written twice, first on line {lines[key]}")
                )
                continue
            lines[key] = line
            _walk(value_node, key, path, lines, problems)
