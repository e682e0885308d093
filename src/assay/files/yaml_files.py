"""Reads YAML strictly, and keeps the line of every key for messages.

A tab, a duplicate key or a document that is not a mapping is an error with its line. Of duplicate keys in task files
the last one counts, as in lm-evaluation-harness, and `YamlFile.repeated` names the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml
from msgspec import Struct

from assay.core.errors import InputError, Problem, similar_file
from assay.files.bounds import read_file
from assay.files.encoding import not_utf8
from assay.files.schema import YAML_WORDING, KeyPath, Wording

# The C loader is much faster. PyYAML may be installed without it.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

YAML_SUFFIXES = (".yaml", ".yml")
MAX_YAML_BYTES = 1 << 25
"""YAML is read about a hundred times more slowly than JSON: a file of this size takes half a minute."""
# Limits against files whose aliases expand without end: ten aliases of ten aliases of ten expand to thousands.
_MAX_DEPTH = 40
_MAX_VALUES = 300_000
_TOO_MANY = f"has more than {_MAX_VALUES:,} values, counting those that aliases (*name) repeat"
# A text with fewer characters cannot have too many values, unless aliases repeat them.
_LARGE = 1 << 19
# Lines are kept for this many keys. Messages about further ones have the line of a parent.
_MAX_KEYS = 100_000
# What may begin a level of nesting: `[` and `{`, and the indentation or the dashes before a value.
_BRACKET = re.compile(r"[\[{]")
_INDENT = re.compile(rf"^[ \-?:]{{{_MAX_DEPTH}}}", re.MULTILINE)


class FunctionRef(NamedTuple):
    """`!function module.name` in a YAML file of this folder. The function is not imported yet."""

    name: str
    folder: Path


class _Loader(_Base):  # type: ignore[misc]
    """A safe loader that also reads `!function`."""

    folder: Path


_Loader.add_constructor("!function", lambda loader, node: FunctionRef(loader.construct_scalar(node), loader.folder))


class YamlFile(Struct, frozen=True):
    """The mapping of a YAML file, with the line of each key. It is a `schema.ValueSource`."""

    path: Path
    value: dict[str, Any]
    lines: dict[KeyPath, int]
    text_lines: Mapping[KeyPath, int] = MappingProxyType({})
    """The line of the first line of a text, if its lines are those of the file: literal blocks (`|`), single lines."""
    repeated: tuple[Problem, ...] = ()
    """A warning for each key that is written twice, if the file was read with `last_key_wins`."""

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


def load_yaml(path: Path, *, last_key_wins: bool = False) -> YamlFile:
    """Read a YAML file. Raises InputError with all problems of its structure.

    With `last_key_wins` a key that is written twice is no error: the last value counts.
    """
    try:
        text = read_file(path, MAX_YAML_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(Problem(str(path), f"there is no such file{similar_file(path)}")) from None
    except UnicodeDecodeError as error:
        raise InputError(Problem(str(path), not_utf8(error))) from None
    except OSError as error:
        raise InputError(Problem(str(path), f"cannot be read: {error}")) from None
    return parse_yaml(text, path, last_key_wins=last_key_wins)


def parse_yaml(text: str, path: Path, *, last_key_wins: bool = False) -> YamlFile:
    """Do what `load_yaml` does, for a text. `path` names it in messages."""
    _refuse_size(text, path)
    try:
        loader = _Loader(text)
    except yaml.YAMLError as error:  # a character that YAML does not allow, such as NUL
        raise InputError(Problem(str(path), f"not YAML: {error}")) from None
    loader.folder = path.parent
    try:
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise InputError(Problem(f"{path}:1", "expected a mapping of keys to values"))
        lines: dict[KeyPath, int] = {}
        problems: list[Problem] = []
        walk = _KeyWalk(path, lines, problems, last_key_wins=last_key_wins)
        walk.visit(node, ())
        if problems:
            raise InputError(problems)
        value = loader.construct_document(node)
        return YamlFile(path, value, lines, walk.text_lines, tuple(walk.repeated))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InputError(Problem(f"{path}:{line}", _explain(error, text, line))) from None
    except yaml.YAMLError as error:
        raise InputError(Problem(str(path), f"not YAML: {error}")) from None
    except ValueError as error:  # a date such as 2024-13-45, a number of thousands of digits
        raise InputError(Problem(str(path), f"a value cannot be read: {error}; write it in quotes")) from None
    finally:
        loader.dispose()


def _explain(error: yaml.MarkedYAMLError, text: str, line: int) -> str:
    lines = text.splitlines()[line - 1 : line]
    if lines and lines[0][: len(lines[0]) - len(lines[0].lstrip())].count("\t"):
        return "a tab stands at the start of the line; YAML wants spaces"
    return f"not YAML: {error.problem or error.context}"


def _refuse_size(text: str, path: Path) -> None:
    """Raise InputError for a text with too many levels or values, before anything is built from it.

    The parser calls itself for each level and would crash, and building millions of values takes minutes.
    """
    # Nearly every file is small and shallow by these cheap tests, and its events need not be read.
    if len(text) < _LARGE and len(_BRACKET.findall(text)) <= _MAX_DEPTH and not _INDENT.search(text):
        return
    depth = values = 0
    try:
        for event in yaml.parse(text, Loader=_Base):
            values += 1
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _MAX_DEPTH + 1:
                message = f"nested more than {_MAX_DEPTH} levels deep"
                raise InputError(Problem(f"{path}:{_line(event)}", message))
            # A collection has two events.
            if values > 2 * _MAX_VALUES:
                raise InputError(Problem(f"{path}:{_line(event)}", _TOO_MANY))
    except yaml.YAMLError:
        return  # reported by the caller, with its line


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


class _KeyWalk:
    """Adds the line of every key below a node to `lines`, and duplicate keys to `problems`.

    With `last_key_wins` duplicate keys go to `repeated` instead, and `lines` has those of the last value.
    Raises InputError for more than _MAX_VALUES values. An alias counts with everything below it.
    """

    def __init__(self, path: Path, lines: dict[KeyPath, int], problems: list[Problem], *, last_key_wins: bool) -> None:
        self._path = path
        self._lines = lines
        self._problems = problems
        self._last_key_wins = last_key_wins
        self.repeated: list[Problem] = []
        self._values = 0
        self.text_lines: dict[KeyPath, int] = {}

    def visit(self, node: yaml.Node, keys: KeyPath) -> None:
        line = node.start_mark.line + 1
        self._values += 1
        if self._values > _MAX_VALUES:
            raise InputError(Problem(f"{self._path}:{line}", _TOO_MANY))
        if len(keys) > _MAX_DEPTH:
            self._problems.append(Problem(f"{self._path}:{line}", "nested too deeply, or an alias of itself"))
            return
        if len(self._lines) <= _MAX_KEYS:
            self._lines.setdefault(keys, line)
            if isinstance(node, yaml.ScalarNode):
                if node.style == "|":
                    self.text_lines[keys] = line + 1
                elif "\n" not in node.value:
                    self.text_lines[keys] = line
        if isinstance(node, yaml.SequenceNode):
            for position, item in enumerate(node.value):
                self.visit(item, (*keys, position))
        elif isinstance(node, yaml.MappingNode):
            self._visit_mapping(node, keys)

    def _visit_mapping(self, node: yaml.MappingNode, keys: KeyPath) -> None:
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self._problems.append(Problem(f"{self._path}:{line}", "a key is a list or mapping, not a text"))
                continue
            name = str(key_node.value)
            # The merge key `<<` may occur more than once.
            if name in seen and name != "<<":
                message = f"key {name!r} is written twice, first on line {seen[name]}"
                if not self._last_key_wins:
                    self._problems.append(Problem(f"{self._path}:{line}", message))
                    continue
                message += "; the last one counts, as in lm-evaluation-harness. Remove the other"
                self.repeated.append(Problem(f"{self._path}:{line}", message, "warning"))
                self._forget((*keys, name))
            seen[name] = line
            if len(self._lines) <= _MAX_KEYS:
                self._lines[*keys, name] = line
            self.visit(value_node, (*keys, name))

    def _forget(self, keys: KeyPath) -> None:
        """Forget the lines of a value that a later one replaces."""
        for lines in (self._lines, self.text_lines):
            for place in [place for place in lines if place[: len(keys)] == keys]:
                del lines[place]
