"""Reads the blocks of code in a `metainfo.md`: a whole contract, the fields of one section, or neither.

    ```json
    {"properties": {"claim": {"type": "string"}}, "required": ["claim"]}
    ```

    ```json
    {"claim": "string", "score": "int 1-5", "words": [{"word": "string"}]}
    ```

A block that must be fields but cannot be read is a problem with its line: a schema with a missing comma, a table that
four spaces turn into code. A block of values is an example. Blocks of other languages, such as Python or a shell, are
never fields. The reader of the file names every block of a section that it skipped.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from assay.core.errors import InputError, Problem, similar_names
from assay.files.yaml_files import YamlFile, parse_yaml
from assay.suites.hop.contract_words import column_of
from assay.suites.hop.field_items import read_item
from assay.suites.hop.field_types import TYPES, is_clear_type, parse_type, plain_text
from assay.suites.hop.markdown import Fence, MarkdownSection, items_of, tables_of

_YAML = ("yaml", "yml", "json", "jsonc", "json5")
# Languages of blocks that may hold anything. An indented block has none.
_TEXT = ("", "text", "txt", "md", "markdown")
_HAS_FIELDS = re.compile(r"^[\"']?(inputs|outputs)[\"']?\s*:", re.MULTILINE)
_BLOCK_KEY = re.compile(r"^(inputs|outputs)\s*:\s*$", re.MULTILINE)
_SCHEMA_KEY = re.compile(r"[\"']?\b(inputs|outputs|properties)[\"']?\s*:")
_TYPED_LINE = re.compile(r"\s*[\"']?[^\s\"':]{1,60}[\"']?\s*:\s*[\"']?([^\"',]{1,60})")
_MEND = "mend the block, or put it below a heading such as `Example` if it shows data"
# Keys of a field that is described by a mapping. Any other key is the name of a part.
_FIELD_KEYS = {
    *("type", "title", "description", "desc", "label", "required", "nullable", "default", "enum", "choices"),
    *(
        "example",
        "examples",
        "format",
        "pattern",
        "items",
        "properties",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
    ),
}
# Not the slashes of an address, and not those in a text.
_JSON_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|(?<![^\s,{\[])//[^\n]*')
_IN_CODE = (
    "this {} is in a block of code, so its fields are not read; take it out of the block (four spaces at the start of "
    "a line make it code)"
)


class BlockField(NamedTuple):
    """A field of a block: its cells, as in a table, and its line."""

    line: int
    cell: dict[str, str]


class Block(NamedTuple):
    """The fields of a block, and the lines in it that cannot be understood. Both are empty for other blocks."""

    fields: list[BlockField]
    problems: list[Problem]
    reason: str = ""
    """Why the block has no fields."""


def has_fields(text: str) -> bool:
    """Return whether a YAML text has `inputs` or `outputs` at the start of a line."""
    return _HAS_FIELDS.search(text) is not None


def is_contract(fence: Fence) -> bool:
    """Return whether a block is a whole contract in YAML, written as in a contract file."""
    return fence.language in _YAML and has_fields(fence.text)


def read_contract_block(fence: Fence, path: Path) -> YamlFile | None:
    """Return the whole contract in a block of JSON, or in one without a language. None if it is something else.

    Raises InputError for a contract with an error of syntax.
    """
    if fence.language not in (*_YAML, *_TEXT):
        return None
    try:
        yaml = parse_yaml(fence.padded, path)
    except InputError:
        named = fence.language in _YAML or fence.text.lstrip().startswith("{")
        words = _SCHEMA_KEY if named else _BLOCK_KEY
        if not words.search(fence.text) or _is_data(fence.text):
            return None
        raise
    blocks = [yaml.value[key] for key in ("inputs", "outputs") if key in yaml.value]
    # `inputs: dict = load()` in an indented block is code.
    is_contract = blocks and (fence.language in _YAML or isinstance(blocks[0], dict))
    return yaml if is_contract else None


def looks_like_schema(fence: Fence, path: Path) -> bool:
    """Return whether a block outside the sections of inputs and outputs has a JSON Schema or a table of fields."""
    if fence.language in _TEXT and any({"name", "type"} <= titles for titles in _table_titles(fence)):
        return True
    if fence.language not in (*_YAML, ""):
        return False
    try:
        value = parse_yaml(fence.padded, path).value
    except InputError:
        return False
    return isinstance(value.get("properties"), dict)


def read_block(fence: Fence, path: Path) -> Block:
    """Read the fields of a block in a section of inputs or outputs."""
    if fence.language not in (*_YAML, *_TEXT):
        return Block([], [], f"is {fence.language}")
    yaml: YamlFile | None = None
    try:
        yaml = parse_yaml(_JSON_COMMENT.sub(lambda match: match[1] or "", fence.padded), path)
    except InputError as error:
        if block := _read_list(fence, path):
            return block
        if _must_be_yaml(fence):
            return Block(
                [],
                [problem._replace(message=f"{problem.message}; {_MEND}") for problem in error.problems],
            )
    if yaml is not None and (block := _read_mapping(yaml)) is not None:
        return block
    if fence.language in _TEXT:
        if any("name" in titles and len(titles) > 1 for titles in _table_titles(fence)):
            return Block([], [Problem(f"{path}:{fence.line}", _IN_CODE.format("table"))])
        if any(is_typed(item.text) for item in items_of(_section(fence))):
            return Block([], [Problem(f"{path}:{fence.line}", _IN_CODE.format("list"))])
    return Block([], [], "has values, not types" if yaml is not None else "is no mapping of names to types")


def _read_mapping(yaml: YamlFile) -> Block | None:
    """Return the fields of a mapping of names to types, or of a JSON Schema. None for a mapping of values."""
    value, path = yaml.value, tuple[str, ...]()
    for key in ("inputs", "outputs"):
        if value.keys() == {key} and isinstance(value[key], dict):
            value, path = value[key], (key,)
    required = value.get("required")
    is_schema = isinstance(value.get("properties"), dict)
    if is_schema:
        value, path = value["properties"], (*path, "properties")
    elif "items" in value and value.get("type") == "array":
        return Block([], [], "is the schema of a list, which has no names")
    elif not _are_types(value):
        return None
    fields = []
    for name, entry in value.items():
        text = _schema_type(entry) if is_schema else _type_text(entry)
        type_ = parse_type(text)
        is_required = not is_schema or (isinstance(required, list) and name in required)
        cell = {
            "name": str(name),
            "type": text,
            "description": str(entry.get("description", "")) if _is_described(entry) else "",
            "required": "yes" if is_required and not (type_ and type_.optional) else "no",
        }
        fields.append(BlockField(yaml.lines[*path, str(name)], cell))
    return Block(fields, [])


def _read_list(fence: Fence, path: Path) -> Block | None:
    """Return the fields of a list of mappings with `name` and `type`. None for any other list or text."""
    # The line above is that of the fence, or empty, so the numbers of the lines stay.
    text = "\n" * (fence.line - 2) + "fields:\n" + textwrap.indent(fence.text, " ")
    try:
        yaml = parse_yaml(text, path)
    except InputError:
        return None
    entries = yaml.value["fields"]
    if not isinstance(entries, list) or not entries:
        return None
    fields = []
    for index, entry in enumerate(entries):
        cell = {column_of(str(key)): str(text) for key, text in entry.items()} if isinstance(entry, dict) else {}
        if not {"name", "type"} <= cell.keys():
            return None
        fields.append(BlockField(yaml.lines["fields", index], {key: text for key, text in cell.items() if key}))
    return Block(fields, [])


def _are_types(value: dict[str, Any]) -> bool:
    """Return whether a mapping has types, not values.

    One text that can only be a type decides. Without one, all texts must be types or misspelt types.
    """
    if any(_is_described(entry) and isinstance(entry.get("type"), str) for entry in value.values()):
        return True
    leaves = list(_leaves(value))
    if any(isinstance(leaf, str) and is_clear_type(leaf) for leaf in leaves):
        return True
    return bool(leaves) and all(
        isinstance(leaf, str) and (_is_type(leaf) or similar_names(leaf, TYPES)) for leaf in leaves
    )


def _leaves(value: Any) -> Iterator[Any]:
    """Return the texts and numbers in a value, at any depth."""
    if isinstance(value, (dict, list)):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _leaves(entry)
    else:
        yield value


def _is_described(entry: Any) -> bool:
    """Return whether an entry is `{type: string, description: …}`. Otherwise a mapping is an object with parts."""
    return isinstance(entry, dict) and "type" in entry and entry.keys() <= _FIELD_KEYS


def _type_text(entry: Any) -> str:
    """Return the type of an entry as text. A list is an array; a mapping is an object, unless it has a `type`."""
    if _is_described(entry):
        return _schema_type(entry)
    if isinstance(entry, (dict, list)):
        return "object" if isinstance(entry, dict) else "array"
    if isinstance(entry, str):
        return entry
    # A number between types is a placeholder: 0 may stand for 0.5.
    return "bool" if isinstance(entry, bool) else "float" if isinstance(entry, (int, float)) else "any"


def _schema_type(entry: Any) -> str:
    """Return the type in a property of a JSON Schema as text: `integer | null` for a list of both."""
    if not isinstance(entry, dict):
        return "any" if entry is True else str(entry)
    type_ = entry.get("type", "any")  # without a type any value is allowed
    return " | ".join(map(str, type_)) if isinstance(type_, list) else str(type_)


def _must_be_yaml(fence: Fence) -> bool:
    """Return whether a block that is no mapping should be one. Lists, rows of data and other texts should not."""
    text = fence.text.strip()
    if not text or _is_data(text):
        return False
    if fence.language in _YAML:
        return not text.startswith("-")
    typed = (_TYPED_LINE.match(line) for line in text.splitlines())
    return text.startswith("{") or any(match and _is_type(match[1]) for match in typed)


def _is_data(text: str) -> bool:
    """Return whether a text is JSON, or JSON on every line."""
    return _is_json(text) or all(_is_json(line) for line in text.splitlines() if line.strip())


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def is_typed(text: str) -> bool:
    """Return whether a line is a field with a type. `run: the tests` is not."""
    cell = read_item(text)
    return cell is not None and _is_type(cell.get("type", ""))


def _is_type(text: str) -> bool:
    return bool(plain_text(text)) and parse_type(text) is not None


def _table_titles(fence: Fence) -> list[set[str]]:
    """Return what the columns of each table in a block mean."""
    tables = tables_of(_section(fence), lambda *_: None)
    return [{title for text in table.header if (title := column_of(plain_text(text))) is not None} for table in tables]


def _section(fence: Fence) -> MarkdownSection:
    return MarkdownSection(0, "", fence.line, list(enumerate(fence.text.splitlines(), fence.line)), [])
