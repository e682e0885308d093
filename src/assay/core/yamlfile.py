"""Reads YAML strictly, and keeps the line of every key for messages.

A tab, a duplicate key or a document that is not a mapping is an error with its line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import yaml

from assay.core.errors import InputError, Problem
from assay.core.schema import YAML_WORDING, KeyPath, Wording

# The C loader is much faster. PyYAML may be installed without it.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Limits against files whose aliases expand without end.
_MAX_DEPTH = 40
_MAX_KEYS = 100_000


class FunctionRef(NamedTuple):
    """`!function module.name` in a YAML file of this folder. The function is not imported yet."""

    name: str
    folder: Path


class _Loader(_Base):  # type: ignore[misc]
    """A safe loader that also reads `!function`."""

    folder: Path


_Loader.add_constructor(
    "!function", lambda loader, node: FunctionRef(loader.construct_scalar(node), loader.folder)
)


class YamlFile(NamedTuple):
    """The mapping of a YAML file, with the line of each key. It is a `schema.ValueSource`."""

    path: Path
    value: dict[str, Any]
    lines: dict[KeyPath, int]

    @property
    def wording(self) -> Wording:
        """Messages about settings quote the wrong value."""
        return YAML_WORDING

    def where(self, *key: str | int) -> str:
        """Return `file:line` of a key. A key that the file does not have gets the line of the nearest parent."""
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
    """Read a YAML file. Raises InputError with all problems of its structure."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(Problem(str(path), "there is no such file")) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(Problem(str(path), f"cannot be read: {error}")) from None
    return parse_yaml(text, path)


def parse_yaml(text: str, path: Path) -> YamlFile:
    """Do what `load_yaml` does, for a text. `path` names it in messages."""
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
    lines = text.splitlines()[line - 1 : line]
    if lines and lines[0][: len(lines[0]) - len(lines[0].lstrip())].count("\t"):
        return "a tab stands at the start of the line; YAML wants spaces"
    return f"not YAML: {error.problem or error.context}"


def _walk(
    node: yaml.Node, keys: KeyPath, path: Path, lines: dict[KeyPath, int], problems: list[Problem]
) -> None:
    """Add the line of every key below a node to `lines`, and duplicate keys to `problems`."""
    if len(keys) > _MAX_DEPTH:
        problems.append(
            Problem(f"{path}:{node.start_mark.line + 1}", "nested too deeply, or an alias of itself")
        )
        return
    lines.setdefault(keys, node.start_mark.line + 1)
    if len(lines) > _MAX_KEYS:
        return
    if isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            _walk(item, (*keys, position), path, lines, problems)
    elif isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            key = (*keys, str(key_node.value))
            line = key_node.start_mark.line + 1
            # The merge key `<<` may occur more than once.
            if key in lines and key_node.value != "<<":
                problems.append(
                    Problem(f"{path}:{line}", f"key {key[-1]!r} is written twice, first on line {lines[key]}")
                )
                continue
            lines[key] = line
            _walk(value_node, key, path, lines, problems)
