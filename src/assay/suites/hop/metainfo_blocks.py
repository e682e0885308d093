"""Reads the blocks of code in a `metainfo.md`: a whole contract, the fields of one section, or neither.

    ```json
    {"properties": {"claim": {"type": "string"}}, "required": ["claim"]}
    ```

A block that must be fields but cannot be read is a problem with its line: a schema with a missing comma, a table that
four spaces turn into code. Blocks of other languages, such as Python or a shell, are never fields.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from assay.core.errors import InputError, Problem, similar_names
from assay.core.registry import unknown
from assay.core.yamlfile import YamlFile, parse_yaml
from assay.suites.hop.field_items import read_item
from assay.suites.hop.field_types import TYPES, parse_type, plain_text
from assay.suites.hop.markdown import Fence, MarkdownSection, items_of, tables_of
from assay.suites.hop.metainfo_words import COLUMN_OF

_YAML = ("yaml", "yml", "json", "jsonc", "json5")
# Languages of blocks that may hold anything. An indented block has none.
_TEXT = ("", "text", "txt", "md", "markdown")
_HAS_FIELDS = re.compile(r"^[\"']?(inputs|outputs)[\"']?\s*:", re.MULTILINE)
_BLOCK_KEY = re.compile(r"^(inputs|outputs)\s*:\s*$", re.MULTILINE)
_SCHEMA_KEY = re.compile(r"[\"']?\b(inputs|outputs|properties)[\"']?\s*:")
_TYPED_LINE = re.compile(r"\s*[\"']?[^\s\"':]{1,60}[\"']?\s*:\s*[\"']?([^\"',]{1,60})")
_MEND = "mend the block, or put it below a heading such as `Example` if it shows data"
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
    """Read the fields of a block in a section of inputs or outputs. A block of values is an example: no fields."""
    yaml: YamlFile | None = None
    if fence.language in (*_YAML, *_TEXT):
        try:
            yaml = parse_yaml(fence.padded, path)
        except InputError as error:
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
        if any(_is_typed(item.text) for item in items_of(_section(fence))):
            return Block([], [Problem(f"{path}:{fence.line}", _IN_CODE.format("list"))])
    return Block([], [])


def _read_mapping(yaml: YamlFile) -> Block | None:
    """Return the fields of a mapping of names to types, or of a JSON Schema. None for a mapping of values."""
    required = yaml.value.get("required")
    value, path = yaml.value, tuple[str, ...]()
    if isinstance(value.get("properties"), dict):
        value, path = value["properties"], ("properties",)
    block = Block([], [])
    for name, entry in value.items():
        text = _schema_type(entry) if path else entry.get("type") if isinstance(entry, dict) else entry
        line = yaml.lines[*path, str(name)]
        if not isinstance(text, str) or (type_ := parse_type(text)) is None:
            # A mapping without `type`, a number and a sentence are values.
            is_type = path or (
                isinstance(text, str) and (isinstance(entry, dict) or similar_names(text, TYPES))
            )
            if not is_type:
                return None
            block.problems.append(
                Problem(f"{yaml.path}:{line}", f"{name}: {unknown('type', str(text), list(TYPES))}")
            )
            continue
        is_required = not path or (isinstance(required, list) and name in required)
        cell = {
            "name": str(name),
            "type": text,
            "description": str(entry.get("description", "")) if isinstance(entry, dict) else "",
            "required": "yes" if is_required and not type_.optional else "no",
        }
        block.fields.append(BlockField(line, cell))
    return block


def _schema_type(entry: Any) -> Any:
    """Return the type in a property of a JSON Schema as text: `integer | null` for a list of both."""
    if not isinstance(entry, dict):
        return "any" if entry is True else entry
    type_ = entry.get("type", "any")  # without a type any value is allowed
    if isinstance(type_, list) and all(isinstance(name, str) for name in type_):
        return " | ".join(type_)
    return type_


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


def _is_type(text: str) -> bool:
    return bool(plain_text(text)) and parse_type(text) is not None


def _is_typed(text: str) -> bool:
    """Return whether an item of a list is a field with a type. `- run: the tests` is not."""
    cell = read_item(text)
    return cell is not None and _is_type(cell.get("type", ""))


def _table_titles(fence: Fence) -> list[set[str]]:
    """Return what the columns of each table in a block mean."""
    tables = tables_of(_section(fence), lambda *_: None)
    return [
        {COLUMN_OF[title] for text in table.header if (title := plain_text(text).lower()) in COLUMN_OF}
        for table in tables
    ]


def _section(fence: Fence) -> MarkdownSection:
    return MarkdownSection(0, "", fence.line, list(enumerate(fence.text.splitlines(), fence.line)), [])
