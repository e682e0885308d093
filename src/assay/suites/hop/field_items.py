"""Reads the fields that people write as items of a list in a `metainfo.md`.

    - claim (string, required): the text
    - **topic** — `string`, *optional*: the topic
    - level: str = "low"
    - tries（整数，可选）：how often
    - strict
      - type: bool
      - default: false

Each item becomes the cells of a row in a table of fields: name, type, required, default and description.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from assay.core.errors import similar_names
from assay.suites.hop.contract_words import NO, OPTIONAL, REQUIRED, YES, column_of
from assay.suites.hop.field_types import parse_type, plain_text

# Full-width marks, each replaced by one character, so that places in the text stay the same.
_WIDE = str.maketrans("（）【】［］：，；。", "()[][]:,;.")
# `*optional*` and `_optional_`, but neither `topic*` nor `user_name`.
_EMPHASIS = re.compile(r"(?<![\w*])([*_])(?=[^\s*_])([^*_`]*[^\s*_`]|`[^`]+`)\1(?![\w*])")
# Apostrophes inside words are no quotes.
_QUOTED = re.compile(r"\"[^\"]*\"|`[^`]*`|“[^”]*”|‘[^’]*’|(?<!\w)'[^']*'(?!\w)")
# `items[].kind` has brackets in its name; those of `topic [string]` are none.
_NAME = re.compile(r"(`[^`]+`|[^\s:(,\[`]+(?:\[[\d*]*\][^\s:(,\[`]*)*)\s*")
_GROUP = re.compile(r"\s*(?:\(((?:[^()]|\([^()]*\))*)\)|\[((?:[^\[\]]|\[[^\[\]]*\])*)\])\s*")
_COLON = re.compile(r"\s*[:—–-]+\s*")
_SEPARATOR = re.compile(r"\s*([,;]|\.(?=\s|$)|(?<=[\u4e00-\u9fff])\.|:(?=\s|$|[\u4e00-\u9fff])|\s[-–—]+\s)\s*")
_DEFAULT = re.compile(r"(?:default(?: value)?|默认值?|缺省值?)(?:\s*(?:is|为|是|[:：=])\s*|\s+)(\S.*)$", re.IGNORECASE)
_ASSIGNED = re.compile(r"(.+?)\s*=\s*(\S.*)$")
_LAST_GROUP = re.compile(r"\s*[(\[]([^()\[\]]+)[)\]]\s*\.?\s*$")
_LAST_DEFAULT = re.compile(r"(?:^|[.;,]\s*)((?:default|默认|缺省).+)$", re.IGNORECASE)
_REQUIRED_WORDS = ("optional", "required", "mandatory")


def read_item(text: str) -> dict[str, str] | None:
    """Return the cells of a list item, or None if it is not a field."""
    text = _without_emphasis(text)
    cell: dict[str, str] = {}
    notes: list[str] = []
    position = _read_groups(text, 0, cell, notes)  # `(optional) topic: string`
    if position and (notes or "type" in cell):
        return None
    name = _NAME.match(text.translate(_WIDE), position)
    if name is None:
        return None
    cell["name"] = text[name.start(1) : name.end(1)]
    position = _read_groups(text, name.end(), cell, notes)
    colon = _COLON.match(text.translate(_WIDE), position)
    if colon is None and text[position:] and position == name.end():
        return None
    rest = text[colon.end() if colon else position :]
    if "type" not in cell:
        rest = _read_type(rest, cell)
    description = _read_description(rest, cell)
    if description or notes:
        cell["description"] = "; ".join(part for part in (description, *notes) if part)
    return cell


def add_detail(cell: dict[str, str], text: str) -> None:
    """Add to a field what an item below it says: `type: string`, `required: no`, `optional`. Others are ignored."""
    text = _without_emphasis(text)
    if _read_statement(text, cell):
        return
    key, separator, _ = text.translate(_WIDE).partition(":")
    column = column_of(plain_text(key))
    if separator and column is not None and column != "name":
        cell.setdefault(column, text[len(key) + 1 :].strip())


def _without_emphasis(text: str) -> str:
    text = re.sub(r"\*\*(?=\S)([^*]+)\*\*|__(?=\S)([^_]+)__", lambda match: match[1] or match[2], text)
    return _EMPHASIS.sub(r"\2", text).strip()


def _read_groups(text: str, position: int, cell: dict[str, str], notes: list[str]) -> int:
    """Read brackets such as `(string, optional)` from a position on. Returns where they end."""
    wide = _without_quotes(text)
    while group := _GROUP.match(wide, position):
        number = 1 if group[1] is not None else 2
        notes += _read_attributes(_parts(text[group.start(number) : group.end(number)]), cell)
        position = group.end()
    return position


def _read_type(text: str, cell: dict[str, str]) -> str:
    """Read a type and the attributes behind it, as in `string, optional. The text`. Returns the rest of the text."""
    first, after = _cut(text)
    words = {first: after}
    # `string (optional) the text`
    if bracket := re.match(r"([^\s(\[]+)\s*[(\[]", first.translate(_WIDE)):
        words[first[: bracket.end(1)]] = text[bracket.end(1) :]
    assigned = _ASSIGNED.match(first)
    if assigned and parse_type(assigned[1]) is not None:
        cell["type"], cell["default"] = assigned[1], plain_text(assigned[2])
        return after
    for word, rest in words.items():
        if not plain_text(word) or parse_type(word) is None:
            continue
        cell["type"] = word
        notes: list[str] = []
        end = _read_groups(rest, 0, cell, notes) if rest is not after else 0
        if notes:
            return rest
        return rest[end:].lstrip(":：—–-,，. ") if end else rest
    return text


def _read_description(text: str, cell: dict[str, str]) -> str:
    """Take `optional` and a default from the start and the end of a description. Returns the rest."""
    first, after = _cut(text)
    # Only a whole part counts: in `optional parts are listed` the word says something else.
    while first and _read_statement(first, cell):
        text = after
        first, after = _cut(text)
    last = _LAST_GROUP.search(text.translate(_WIDE))
    if last and all(_read_statement(part, cell) for part in _parts(text[last.start(1) : last.end(1)])):
        text = text[: last.start()]
    sentence = _LAST_DEFAULT.search(text.translate(_WIDE))
    if sentence and _read_statement(text[sentence.start(1) : sentence.end(1)], cell):
        text = text[: sentence.start()]
    return text


def _read_statement(text: str, cell: dict[str, str]) -> bool:
    """Add `optional` or `default: x` to a cell. Returns False if the text is neither."""
    word = plain_text(text).rstrip(".。")
    if word.lower() in OPTIONAL or word.lower() in REQUIRED:
        cell.setdefault("required", word)
        return True
    if default := _DEFAULT.match(word):
        cell.setdefault("default", default[1])
        return True
    return False


def _cut(text: str) -> tuple[str, str]:
    """Split a text at its first comma, full stop, colon or dash outside brackets and quotes."""
    wide = _without_quotes(text)
    for match in _SEPARATOR.finditer(wide):
        before = wide[: match.start()]
        balanced = all(before.count(opening) == before.count(closing) for opening, closing in ("[]", "()", "<>"))
        if balanced and not _needs_value(before, match[1]):
            return text[: match.start()], text[match.end() :]
    return text, ""


def _without_quotes(text: str) -> str:
    """Return the text with plain marks, and with quoted parts replaced by as many other characters."""
    return _QUOTED.sub(lambda quoted: "x" * len(quoted[0]), text).translate(_WIDE)


def _needs_value(before: str, separator: str) -> bool:
    """Return whether a colon is part of `default: x` or `enum: a/b`."""
    word = plain_text(before).lower()
    return separator == ":" and (re.search(r"(default|默认值?|缺省值?)$", word) is not None or word in ("enum", "枚举"))


def _parts(text: str) -> Iterator[str]:
    while text:
        part, text = _cut(text)
        yield part.strip()


def _read_attributes(parts: Iterator[str] | list[str], cell: dict[str, str]) -> list[str]:
    """Add type, required and default to a cell. Returns the other parts."""
    notes = []
    for part in parts:
        word = plain_text(part)
        default, assigned = _DEFAULT.match(word), _ASSIGNED.match(word)
        if word.lower() in (*YES, *NO) and "required" not in cell:
            cell["required"] = word
        elif default:
            cell["default"] = default[1]
        elif "type" not in cell and assigned and parse_type(assigned[1]) is not None:
            cell["type"], cell["default"] = assigned[1], assigned[2]
        elif "type" not in cell and word and parse_type(word) is not None:
            cell["type"] = word
        elif "required" not in cell and similar_names(word.lower(), _REQUIRED_WORDS):
            cell["required"] = word  # misspelt: it is refused with its line
        elif word and "type" not in cell and "required" not in cell and word.isascii() and word.isidentifier():
            cell["type"] = word  # no known type: it is refused or named, with its line
        elif word:
            notes.append(word)
    return notes
