"""Validates a JSON or YAML value against a msgspec type, and reports all problems at once.

    class Llm(Struct, forbid_unknown_fields=True):
        model: Filled
        retries: Annotated[int, Meta(ge=0)] = 0

    class Settings(Struct, forbid_unknown_fields=True):
        llms: dict[str, Llm]

    yaml = load_yaml(Path("settings.yaml"))
    problems: list[Problem] = []
    settings = convert(yaml.value, Settings, yaml, problems)
    if settings is not None and not settings.llms:
        problems.append(yaml.problem(("llms",), "settings need at least one of the llms"))
    refuse(problems, yaml.path)                # raises InputError with everything that is wrong

`convert` finds wrong types, missing and unknown keys, values out of bounds, unmatched patterns and unknown names.
Rules about several keys are Python code that checks the converted value and adds to the same list. The position of a
problem comes from the source of the value: a YAML file (`yaml_files.py`) or a JSON object (`json_objects.py`).

Two annotations on a type change its messages:
`Meta(description="a list of ids")` names what is expected ("must be a list of ids, not null");
`Meta(extra={"problem": "is empty"})` replaces the message about a bound, length or pattern.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Meta, Struct, inspect

from assay.core.errors import InputError, Problem, unknown
from assay.files.excerpt import cut_end

T = TypeVar("T")
KeyPath = tuple[str | int, ...]

Filled = Annotated[str, Meta(pattern=r"\S", extra={"problem": "is empty"})]
"""A text that is not only white space."""
Name = Filled | int
"""An id: a text or an integer. `1` and `"1"` are the same id."""
Scalar = Annotated[str | int | float | bool, Meta(description="a text or a number")]
"""A single value, such as a reference answer."""

MOST_PROBLEMS: Mapping[str, int] = {"error": 1000, "warning": 200, "advice": 50}
"""Maximum number of reported problems per level. A last line counts the rest."""

_LEVEL_NAMES = {"error": "errors", "warning": "warnings", "advice": "pieces of advice"}
_PLAIN_KEY = re.compile(r"[A-Za-z_]\w*")
_LONGEST_VALUE = 60
_WRONG: Any = object()  # marks a value that is invalid and has no replacement
_STRUCTS = (inspect.StructType, inspect.DataclassType, inspect.TypedDictType)
_LISTS = (inspect.ListType, inspect.VarTupleType, inspect.SetType, inspect.FrozenSetType)


class Wording(Struct, frozen=True):
    """The style of messages about values.

    Messages about settings quote the wrong value: "expected a mapping, found 3". Data may contain very long texts, so
    messages about data name only the type: "must be an object, not a number".
    """

    mapping: str
    shows_values: bool


JSON_WORDING = Wording(mapping="an object", shows_values=False)
YAML_WORDING = Wording(mapping="a mapping", shows_values=True)


class ValueSource(Protocol):
    """The source of a value. It turns the path of a key into a position such as `file:line`."""

    @property
    def wording(self) -> Wording:
        """The style of messages about this source."""
        ...

    def problem(self, path: KeyPath, message: str, level: str = "error") -> Problem:
        """Build the problem of the value at a path of keys and list positions."""
        ...


def convert(value: Any, schema: type[T], source: ValueSource, problems: list[Problem], path: KeyPath = ()) -> T | None:
    """Return `value` as `schema`, and append everything wrong with it to `problems`.

    `path` is the position of `value` in its source. If there are problems, the returned value has defaults in place
    of the wrong parts, so that rules about several keys can still be checked. It is None if a wrong part has no
    default. Call `refuse` before you use the value.
    """
    try:
        return msgspec.convert(value, schema)
    except msgspec.ValidationError as error:
        count = len(problems)
        valid = _Walk(source, problems).value(_type_info(schema), value, path)  # type: ignore[arg-type]
        if len(problems) == count:
            # msgspec checks types that _Walk does not know, such as dates. Then its own message is used.
            problems.append(source.problem(path, str(error)))
            return None
    if valid is _WRONG:
        return None
    try:
        return msgspec.convert(valid, schema)
    except msgspec.ValidationError:
        return None


def refuse(problems: list[Problem], path: Path) -> None:
    """Raise InputError with all errors in `problems`, if there are any. Warnings are ignored."""
    errors = [problem for problem in problems if problem.level == "error"]
    if errors:
        raise InputError(shorten(errors, path))


def shorten(problems: Iterable[Problem], path: Path, most: Mapping[str, int] = MOST_PROBLEMS) -> list[Problem]:
    """Return the problems without repeats. Of each level, only the first ones and the number of the rest."""
    shortened: list[Problem] = []
    counts: Counter[str] = Counter()
    for problem in dict.fromkeys(problems):
        counts[problem.level] += 1
        if counts[problem.level] <= most[problem.level]:
            shortened.append(problem)
    for level, limit in most.items():
        if counts[level] > limit:
            message = f"and {counts[level] - limit:,} more {_LEVEL_NAMES[level]}"
            shortened.append(Problem(str(path), message, level))
    return shortened


def json_path(path: KeyPath, root: str = "$") -> str:
    """Return a path as `$.batch_items[2]`. A key that is not a plain name is written as `["key"]`."""
    text = root
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}"
        else:
            text += f'["{step}"]'
    return text


def kind_of(value: Any, wording: Wording = JSON_WORDING) -> str:
    """Return the JSON type of a value in words: "a list"."""
    if isinstance(value, dict):
        return wording.mapping
    names = {list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def mismatch(wanted: str, value: Any, wording: Wording = JSON_WORDING) -> str:
    """Return the message for a value of the wrong type."""
    if wording.shows_values:
        return f"expected {wanted}, found {_short(value)}"
    return f"must be {wanted}, not {kind_of(value, wording)}"


@lru_cache(256)
def _type_info(schema: Any) -> inspect.Type:
    return inspect.type_info(schema)


class _Notes(NamedTuple):
    """The annotations in a type's `Meta`."""

    description: str = ""
    problem: str = ""


class _Walk:
    """Walks a value and its type in parallel. Each method returns the valid part of the value, or _WRONG."""

    def __init__(self, source: ValueSource, problems: list[Problem]) -> None:
        self._source = source
        self._problems = problems

    def value(self, kind: inspect.Type, value: Any, path: KeyPath, notes: _Notes = _Notes()) -> Any:  # noqa: B008
        """Check one value."""
        kind, notes = _unwrap(kind, notes)
        if isinstance(kind, inspect.UnionType):
            return self._union(kind, value, path, notes)
        if isinstance(kind, (inspect.LiteralType, inspect.EnumType)):
            return self._choice(kind, value, path)
        if not _has_kind(kind, value):
            return self._mismatch(kind, value, path, notes)
        if isinstance(kind, _STRUCTS):
            return self._struct(kind, value, path)
        if isinstance(kind, inspect.DictType):
            return self._mapping(kind, value, path, notes)
        if isinstance(kind, _LISTS):
            return self._list(kind, value, path, notes)
        if isinstance(kind, (inspect.IntType, inspect.FloatType)):
            return self._number(kind, value, path, notes)
        if isinstance(kind, inspect.StrType):
            return self._text(kind, value, path, notes)
        return value

    def _add(self, path: KeyPath, message: str) -> Any:
        self._problems.append(self._source.problem(path, message))
        return _WRONG

    def _mismatch(self, kind: inspect.Type, value: Any, path: KeyPath, notes: _Notes) -> Any:
        wording = self._source.wording
        wanted = notes.description or _wanted(kind, wording)
        return self._add(path, mismatch(wanted, value, wording))

    def _union(self, union: inspect.UnionType, value: Any, path: KeyPath, notes: _Notes) -> Any:
        members = [kind for kind in union.types if _has_kind(_unwrap(kind)[0], value)]
        if not members:
            return self._mismatch(union, value, path, notes)
        tagged = _by_tag(members, value)
        if tagged:
            members = tagged
        # A member without problems is the right one. If all have problems, those of the first are reported.
        first: list[Problem] = []
        for place, kind in enumerate(members):
            attempt: list[Problem] = []
            valid = _Walk(self._source, attempt).value(kind, value, path, notes)
            if not attempt:
                return valid
            if place == 0:
                first, first_valid = attempt, valid
        self._problems += first
        return first_valid

    def _choice(self, kind: inspect.LiteralType | inspect.EnumType, value: Any, path: KeyPath) -> Any:
        if isinstance(kind, inspect.EnumType):
            allowed = [member.value for member in kind.cls]
        else:
            allowed = list(kind.values)
        if any(value == choice and type(value) is type(choice) for choice in allowed):
            return value
        if isinstance(value, str):
            names = [name for name in path if isinstance(name, str)]
            thing = names[-1] if names else "value"
            return self._add(path, unknown(thing, value, list(map(str, allowed))))
        wanted = f"one of {', '.join(map(str, allowed))}"
        return self._add(path, mismatch(wanted, value, self._source.wording))

    def _struct(self, struct: Any, value: dict[Any, Any], path: KeyPath) -> Any:
        fields = {field.encode_name: field for field in struct.fields}
        names = sorted(fields)
        # Only structs can refuse unknown keys and be chosen by a tag.
        tag = struct.tag_field if isinstance(struct, inspect.StructType) else None
        strict = isinstance(struct, inspect.StructType) and struct.forbid_unknown_fields
        valid: dict[str, Any] = {}
        for key, item in value.items():
            if key in fields:
                result = self.value(fields[key].type, item, (*path, key))
                if result is not _WRONG:
                    valid[key] = result
            elif key == tag:
                valid[key] = item
            elif strict:
                self._add((*path, str(key)), unknown("key", str(key), names))
        for name, field in fields.items():
            if field.required and name not in value:
                self._add((*path, name), "is missing")
        if any(field.required and name not in valid for name, field in fields.items()):
            return _WRONG
        return valid

    def _mapping(self, kind: inspect.DictType, value: dict[Any, Any], path: KeyPath, notes: _Notes) -> dict[Any, Any]:
        self._length(kind, value, path, notes)
        valid: dict[Any, Any] = {}
        for key, item in value.items():
            if isinstance(kind.key_type, inspect.StrType) and not isinstance(key, str):
                self._add((*path, str(key)), f"a name is a text; put {key!r} in quotes")
                continue
            result = self.value(kind.value_type, item, (*path, key))
            if result is not _WRONG:
                valid[key] = result
        return valid

    def _list(self, kind: Any, value: list[Any], path: KeyPath, notes: _Notes) -> Any:
        right = self._length(kind, value, path, notes)
        items = [self.value(kind.item_type, item, (*path, place)) for place, item in enumerate(value)]
        # A list without its wrong items would shift the positions of the others in messages.
        if not right or any(item is _WRONG for item in items):
            return _WRONG
        return items

    def _length(self, kind: Any, value: Any, path: KeyPath, notes: _Notes) -> bool:
        count = len(value)
        if kind.min_length is not None and count < kind.min_length:
            message = "is empty" if count == 0 else f"must have at least {kind.min_length}, not {count}"
        elif kind.max_length is not None and count > kind.max_length:
            message = f"must have at most {kind.max_length}, not {count}"
        else:
            return True
        self._add(path, notes.problem or message)
        return False

    def _number(self, kind: Any, value: float, path: KeyPath, notes: _Notes) -> Any:
        if kind.ge is not None and not value >= kind.ge:
            bound = f"{kind.ge:g} or more"
        elif kind.gt is not None and not value > kind.gt:
            bound = f"more than {kind.gt:g}"
        elif kind.le is not None and not value <= kind.le:
            bound = f"at most {kind.le:g}"
        elif kind.lt is not None and not value < kind.lt:
            bound = f"less than {kind.lt:g}"
        else:
            return value
        if self._source.wording.shows_values:
            message = f"expected {notes.description or bound}, found {_short(value)}"
        else:
            message = f"must be {notes.description or bound}, not {_short(value)}"
        return self._add(path, notes.problem or message)

    def _text(self, kind: inspect.StrType, value: str, path: KeyPath, notes: _Notes) -> Any:
        if kind.pattern is not None and not re.search(kind.pattern, value):
            message = f"{_short(value)} does not match {kind.pattern}"
            if notes.description:
                message = f"must be {notes.description}, not {_short(value)}"
            return self._add(path, notes.problem or message)
        return value if self._length(kind, value, path, notes) else _WRONG


def _unwrap(kind: inspect.Type, notes: _Notes = _Notes()) -> tuple[inspect.Type, _Notes]:  # noqa: B008
    """Return the type inside `Annotated`, with the annotations of its Meta."""
    while isinstance(kind, inspect.Metadata):
        schema, extra = kind.extra_json_schema or {}, kind.extra or {}
        notes = _Notes(schema.get("description", notes.description), extra.get("problem", notes.problem))
        kind = kind.type
    return kind, notes


def _has_kind(kind: inspect.Type, value: Any) -> bool:
    """Return whether the value has the expected JSON type. Types that _Walk does not know always fit."""
    if isinstance(kind, inspect.NoneType):
        return value is None
    if isinstance(kind, inspect.BoolType):
        return isinstance(value, bool)
    if isinstance(kind, inspect.IntType):
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(kind, inspect.FloatType):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(kind, inspect.StrType):
        return isinstance(value, str)
    if isinstance(kind, (*_LISTS, inspect.TupleType)):
        return isinstance(value, list)
    if isinstance(kind, (*_STRUCTS, inspect.DictType)):
        return isinstance(value, dict)
    if isinstance(kind, inspect.LiteralType):
        return value in kind.values
    return True


def _by_tag(members: list[inspect.Type], value: Any) -> list[inspect.Type]:
    """Return the struct of a union that the value's tag names."""
    return [
        kind
        for kind in members
        if isinstance(kind, inspect.StructType) and kind.tag_field is not None and value.get(kind.tag_field) == kind.tag
    ]


def _wanted(kind: inspect.Type, wording: Wording) -> str:
    """Return a type in words: "a text or a whole number"."""
    kind, notes = _unwrap(kind)
    if notes.description:
        return notes.description
    if isinstance(kind, inspect.UnionType):
        names = [_wanted(member, wording) for member in kind.types]
        if "a number" in names:
            names = [name for name in names if name != "a whole number"]
        return " or ".join(name for name in dict.fromkeys(names) if name != "null")
    if isinstance(kind, (*_STRUCTS, inspect.DictType)):
        return wording.mapping
    if isinstance(kind, (*_LISTS, inspect.TupleType)):
        return "a list"
    if isinstance(kind, inspect.LiteralType):
        return f"one of {', '.join(map(str, kind.values))}"
    names_of_scalars = {
        inspect.StrType: "a text",
        inspect.IntType: "a whole number",
        inspect.FloatType: "a number",
        inspect.BoolType: "true or false",
        inspect.NoneType: "null",
    }
    return names_of_scalars.get(type(kind), "another value")


def _short(value: Any) -> str:
    return cut_end(repr(value), _LONGEST_VALUE)
