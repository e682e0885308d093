"""Reads YAML: strictly, with the line of every key, what people write for assay; leniently what other programs wrote.

    file = load_yaml(path)      # a YamlFile: the mapping, and the line of each key for messages
    value = read_yaml(path)     # the value of a file of another program, with dates as text

In what people write, a tab, a duplicate key or a document that is not a mapping is an error with its line. Of duplicate
keys in task files the last one counts, as in lm-evaluation-harness, and `YamlFile.repeated` names the others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml
from msgspec import Struct

from assay.core.errors import InputError, Problem, similar_file, unreadable
from assay.files.read import not_utf8, read_file, too_deep
from assay.files.schema import YAML_WORDING, KeyPath, Wording

# The C loader is much faster. PyYAML may be installed without it.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

YAML_SUFFIXES = (".yaml", ".yml")


class YamlBounds(NamedTuple):
    """What a YAML file may have. Everything beyond is refused with a sentence."""

    document: int
    """Bytes. YAML is read about a hundred times more slowly than JSON: 32 MB take half a minute."""
    levels: int
    """Levels of lists and mappings. The parser calls itself for each of them."""
    values: int
    """Values after aliases are unfolded. Ten aliases of ten aliases of ten aliases unfold to thousands."""


YAML_BY_PEOPLE = YamlBounds(document=1 << 25, levels=40, values=300_000)
"""Files that people write for assay."""
YAML_BY_PROGRAMS = YamlBounds(document=1 << 26, levels=100, values=5_000_000)
"""Files that other programs wrote, which may come from anywhere."""

# A text with fewer characters cannot have too many values, unless aliases repeat them.
_LARGE = 1 << 19
# Lines are kept for this many keys. Messages about further ones have the line of a parent.
_MAX_KEYS = 100_000
# What may begin a level of nesting: `[` and `{`, and the indentation or the dashes before a value.
_BRACKET = re.compile(r"[\[{]")
_INDENT = re.compile(rf"^[ \-?:]{{{YAML_BY_PEOPLE.levels}}}", re.MULTILINE)


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
        text = read_file(path, YAML_BY_PEOPLE.document).decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(Problem(str(path), f"there is no such file{similar_file(path)}")) from None
    except UnicodeDecodeError as error:
        raise InputError(Problem(str(path), not_utf8(error))) from None
    except OSError as error:
        raise InputError(Problem(str(path), f"cannot be read: {error}")) from None
    return parse_yaml(text, path, last_key_wins=last_key_wins)


def parse_yaml(text: str, path: Path, *, last_key_wins: bool = False) -> YamlFile:
    """Do what `load_yaml` does, for a text. `path` names it in messages."""
    if not _is_small(text) and (excess := _find_excess(text, YAML_BY_PEOPLE)):
        raise InputError(Problem(f"{path}:{excess.line}", excess.reason))
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


def read_yaml(path: Path) -> Any:
    """Return the value of a YAML file of another program, with dates as text.

    Raises InputError if it is no YAML, or has too much for YAML_BY_PROGRAMS.
    """
    try:
        return decode_yaml(read_file(path, YAML_BY_PROGRAMS.document), str(path))
    except OSError as error:
        raise InputError(unreadable(path, error)) from None


def decode_yaml(text: str | bytes, where: str) -> Any:
    """Do what `read_yaml` does, for a text. `where` names it in messages."""
    if excess := _find_excess(text, YAML_BY_PROGRAMS):
        raise InputError(Problem(where, excess.reason))
    try:
        value = yaml.load(text, Loader=_Base)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        raise InputError(Problem(where, f"is not YAML: {error}")) from None
    except (ValueError, RecursionError, OverflowError) as error:
        raise InputError(Problem(where, f"is not YAML: {type(error).__name__}: {error}")) from None
    # JSON has no dates, and its objects have text keys only.
    return json.loads(json.dumps(_with_plain_keys(value), default=str))


def _with_plain_keys(value: Any) -> Any:
    """Return the value with keys that JSON can write. In YAML a date may be a key too."""
    if isinstance(value, dict):
        return {
            key if key is None or isinstance(key, (str, int, float)) else str(key): _with_plain_keys(item)
            for key, item in value.items()
        }
    return [_with_plain_keys(item) for item in value] if isinstance(value, list) else value


def _is_small(text: str) -> bool:
    """Return whether a text is so small and shallow that it cannot have too much, as nearly every file is."""
    return (
        len(text) < _LARGE
        and "*" not in text
        and len(_BRACKET.findall(text)) <= YAML_BY_PEOPLE.levels
        and not _INDENT.search(text)
    )


class _Excess(NamedTuple):
    """What a text has too much of."""

    line: int
    reason: str


class _Collection(Struct):
    """A list or mapping of which the events are read."""

    is_mapping: bool
    values_before: int
    """Values of the document before this one."""
    values: int = 0
    """Values in it, and it itself; 0 until its last event."""
    levels: int = 1
    """Levels of lists and mappings in it, and it itself."""
    next_is_key: bool = True


def _find_excess(text: str | bytes, bounds: YamlBounds) -> _Excess | None:
    """Return what a text has too much of, before anything is built from it; None for a text within bounds.

    Events come one by one, and without recursion. An alias counts with everything that it repeats. For a text that is
    not YAML the answer is None: the reader that follows says why.
    """
    path: list[_Collection] = []
    anchors: dict[str | None, _Collection] = {}
    values = 0
    try:
        for event in yaml.parse(text, Loader=_Base):
            if isinstance(event, yaml.DocumentStartEvent):
                anchors = {}
            if isinstance(event, yaml.CollectionEndEvent):
                ended = path.pop()
                ended.values = values - ended.values_before
                if path:
                    path[-1].levels = max(path[-1].levels, 1 + ended.levels)
            if not isinstance(event, yaml.NodeEvent):
                continue
            line = event.start_mark.line + 1 if event.start_mark else 1
            is_key = False
            if path and path[-1].is_mapping:
                is_key = path[-1].next_is_key
                path[-1].next_is_key = not is_key
            levels = len(path)
            repeated = anchors.get(event.anchor) if isinstance(event, yaml.AliasEvent) else None
            if isinstance(event, yaml.CollectionStartEvent):
                path.append(_Collection(isinstance(event, yaml.MappingStartEvent), values))
                anchors[event.anchor] = path[-1]
                levels, values = levels + 1, values + 1
            elif repeated is None:
                values += not is_key
            elif repeated.values:
                levels, values = levels + repeated.levels, values + repeated.values
                path[-1].levels = max(path[-1].levels, 1 + repeated.levels)
            else:
                return _Excess(line, f"*{event.anchor} is an alias of itself")
            if levels > bounds.levels:
                return _Excess(line, too_deep(bounds.levels))
            if values > bounds.values:
                much = f"has more than {bounds.values:,} values, counting those that aliases (*name) repeat"
                return _Excess(line, much)
    except (yaml.YAMLError, ValueError):
        return None
    return None


class _KeyWalk:
    """Adds the line of every key below a node to `lines`, and duplicate keys to `problems`.

    With `last_key_wins` duplicate keys go to `repeated` instead, and `lines` has those of the last value.
    """

    def __init__(self, path: Path, lines: dict[KeyPath, int], problems: list[Problem], *, last_key_wins: bool) -> None:
        self._path = path
        self._lines = lines
        self._problems = problems
        self._last_key_wins = last_key_wins
        self.repeated: list[Problem] = []
        self.text_lines: dict[KeyPath, int] = {}

    def visit(self, node: yaml.Node, keys: KeyPath) -> None:
        line = node.start_mark.line + 1
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
