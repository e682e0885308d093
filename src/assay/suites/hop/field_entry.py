"""Turns the cells of a field in a `metainfo.md` into its entry of the contract.

    field_name("`question`（问题）")                                  # question, with the label 问题
    field_entry("inputs", name, {"type": "int", "required": "no"})   # {"type": "int", "required": False, …}

Cells come from a row of a table, an item of a list or a line of a block. They have the names of the contract's keys.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from assay.core.errors import similar_names, unknown
from assay.suites.hop.contract_words import NO, NO_MARKS, NONE, YES, YES_MARKS
from assay.suites.hop.field_types import (
    TYPES,
    TypeText,
    fits,
    parse_choices,
    parse_number,
    parse_type,
    plain_text,
)

_NAME = re.compile(r"[^\s,，、/|<>{}()（）:：\"'=*]+")
_PART = re.compile(r"([^\s.\[]+)(\[[^\]]*\]|\.)")
_INDEX = re.compile(r"\[(\d*|\*)\]")
_BAND = re.compile(
    r"\s*([^\s:：=]+?)\s*[:：=\s]\s*\[?(-?[\d.]{1,30})(?:\s*(?:-|–|~|to|至|\.\.)\s*(-?[\d.]{1,30}))?\]?\s*"
)


class FieldName(NamedTuple):
    """The name in a cell. `name` is None if the cell has none."""

    name: str | None
    label: str = ""
    mark: str = ""
    """`*` or `?` behind the name."""
    parent: str = ""
    """The outer field of `user.name` and of `items[].kind`. A contract has outer fields only."""
    parent_type: str = "any"


class FieldEntry(NamedTuple):
    """The entry of a field in a contract, with messages about what cannot be understood in its cells."""

    entry: dict[str, Any]
    errors: list[str]
    warnings: list[str]


def field_name(text: str) -> FieldName:
    """Return the name in a cell. `question（问题）` is the field `question` with the label `问题`."""
    label = ""
    if quoted := re.match(r"\s*[*_]*`([^`]+)`[*_]*(.*)$", text):
        name, rest = quoted[1].strip(), plain_text(quoted[2])
    else:
        name, rest = plain_text(text), ""
    if not rest and (split := re.match(r"([^\s(（]+)\s*[(（](.+)[)）]\s*$", name)):
        name, label = split[1], split[2]
    elif rest.startswith(("(", "（")):
        label = rest.strip("()（） ")
        rest = ""
    mark = rest if rest in ("*", "?") else ""
    if not mark and name[-1:] in ("*", "?"):
        name, mark = name[:-1], name[-1]
    if (rest and not mark) or not _NAME.fullmatch(name) or name.strip(".…-–—") == "":
        return FieldName(None, label, mark)
    part = _PART.match(name)
    if part is None or (part[2] == "." and part.end() == len(name)):
        return FieldName(name, label, mark)
    type_ = "object" if part[2] == "." else "array" if _INDEX.fullmatch(part[2]) else "any"
    return FieldName(name, label, mark, part[1], type_)


def field_entry(block: str, name: FieldName, cell: dict[str, str], extra: tuple[str, ...] = ()) -> FieldEntry:
    """Return the entry of a field. `extra` has the texts of other columns, for the description."""
    errors: list[str] = []
    warnings: list[str] = []
    type_text = plain_text(cell.get("type", ""))
    type_ = parse_type(type_text)
    if type_ is None:
        message = unknown("type", type_text, list(TYPES))
        if similar_names(type_text, TYPES):
            errors.append(message)
        else:
            warnings.append(f"{message}; the field is read with any type")
        type_ = TypeText("any", note=type_text)
    choices = type_.choices or parse_choices(cell.get("choices", ""), type_.type)
    default = plain_text(cell.get("default", ""))
    has_default = default.lower() not in NONE and default != ""
    notes = [plain_text(cell.get("description", "")), type_.note, *extra]
    if not choices and (text := plain_text(cell.get("choices", ""))) not in NO_MARKS:
        notes.append(text)
    if has_default:
        notes.append(f"default: {default}")
    entry: dict[str, Any] = {"type": type_.type, "description": "; ".join(note for note in notes if note)}
    if label := plain_text(cell.get("label", "")) or name.label:
        entry["label"] = label
    if block == "inputs":
        required = _required(cell, errors)
        if required is None:
            required = not (has_default or type_.optional or name.mark == "?")
        entry["required"] = required
        if choices:
            entry["choices"] = list(choices)
        if (example := _value(cell.get("example", ""), type_.type)) is not None:
            entry["example"] = example
    else:
        _add_comparison(entry, cell, errors)
    return FieldEntry(entry, errors, warnings)


def _required(cell: dict[str, str], errors: list[str]) -> bool | None:
    """Return whether the cells say that a field is required; None if they do not say."""
    column = "required" if "required" in cell else "optional"
    if column not in cell:
        return None
    text = plain_text(cell[column])
    word = text.lower().partition("（")[0].partition("(")[0].strip()
    if word in YES or text.lower() in YES_MARKS:
        return column == "required"
    if word in NO or text.lower() in NO_MARKS:
        return column != "required"
    errors.append(f"expected yes or no (是 or 否) in the column {column!r}, found {text!r}")
    return True


def _add_comparison(entry: dict[str, Any], cell: dict[str, str], errors: list[str]) -> None:
    """Add the keys of an output that say how it is counted and compared."""
    for key in ("aggregate", "compare", "sub_field"):
        if (text := plain_text(cell.get(key, ""))) not in NO_MARKS:
            entry[key] = text
    for key in ("tolerance", "within"):
        if (text := plain_text(cell.get(key, "")).lstrip("±")) not in NO_MARKS:
            number = parse_number(text)
            if number is None:
                errors.append(f"expected a number in the column {key!r}, found {text!r}")
            else:
                entry[key] = number
    if (text := plain_text(cell.get("bands", ""))) not in NO_MARKS:
        bands = _bands(text)
        if bands is None:
            errors.append(f"expected bands such as `BAD 1-2, MID 3, GOOD 4-5`, found {text!r}")
        else:
            entry["bands"] = bands


def _value(text: str, type_: str) -> Any:
    """Return the example in a cell, or None if it has none of this type."""
    plain = plain_text(text)
    if plain in NO_MARKS:
        return None
    if type_ == "string":
        return plain.strip("\"'“”")
    try:
        value = msgspec.json.decode(plain)
    except msgspec.DecodeError:
        return None
    return value if fits(value, type_) else None


def _bands(text: str) -> dict[str, list[Any]] | None:
    """Return the bands in `BAD 1-2, MID 3, GOOD 4-5`, or None if the text is something else."""
    bands: dict[str, list[Any]] = {}
    for part in re.split(r"[,，;；]", text.strip("{}")):
        match = _BAND.fullmatch(part)
        if match is None:
            return None
        ends = [parse_number(end) for end in match.groups()[1:] if end is not None]
        if None in ends:
            return None
        bands[match[1]] = ends
    return bands
