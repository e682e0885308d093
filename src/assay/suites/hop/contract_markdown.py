"""Reads the contract in `metainfo.md`: front matter, a YAML block, or tables and lists under their headings.

    ## Input contract

    | field | type   | required | description       |
    |-------|--------|----------|-------------------|
    | claim | string | yes      | the text to check |

    ## 输出契约

    - supported (bool): whether the context supports the claim

The result is the mapping that the same contract has in YAML, with the line of every field. HOP does not publish the
layout of this file, so headings and columns are known by many names, English and Chinese. A line of a contract that
cannot be understood is an error, or a warning if the rest can be used without it. Sections about other things are
skipped. `assay check` prints the warnings, and lists the skipped sections.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from assay.core.errors import InputError, Problem, similar_names
from assay.files.excerpt import cut_end
from assay.files.read import not_utf8, read_file
from assay.files.schema import refuse
from assay.files.yaml_files import YamlFile, parse_yaml
from assay.suites.hop.contract_blocks import (
    Block,
    has_fields,
    is_contract,
    is_typed,
    looks_like_schema,
    read_block,
    read_contract_block,
)
from assay.suites.hop.contract_words import (
    COLUMN_TITLES,
    HEADING_WORDS,
    META_OF,
    NO_MARKS,
    NONE,
    NOTES,
    OPTIONAL_HEADING,
    VALUE_COLUMNS,
    column_of,
    heading_kind,
    is_heading,
    section_kinds,
)
from assay.suites.hop.field_entry import FieldName, field_entry, field_name
from assay.suites.hop.field_items import add_detail, read_item
from assay.suites.hop.field_types import is_clear_type, parse_type, plain_text
from assay.suites.hop.markdown import (
    Fence,
    Item,
    MarkdownSection,
    MarkdownTable,
    front_matter,
    items_of,
    sections_of,
    tables_of,
    without_comments,
)

MAX_LINE = 2_000
"""Characters of a line. The time of some patterns for lines grows with the square or the cube of the length."""
_MAX_BYTES = 1 << 20
_META_LINE = re.compile(r"\s*(?:[-*+]\s+)?([^:：|]{1,40})[:：]\s*(\S.*)")
# A row that starts so is a part of the row above.
_BRANCH = re.compile(r"[└├↳│─\->\s]+")
_Blocks = list[tuple[Fence, Block]]
_BOTH = "the heading {!r} names inputs and outputs; give each table its own heading, or a column `direction`"


class Metainfo(NamedTuple):
    """The contract of a `metainfo.md`, empty if it has none. `skipped` names the sections that are not part of it."""

    yaml: YamlFile
    is_prose: bool = False
    """True if the fields come from tables and lists, whose layout assay recognises by names."""
    skipped: tuple[str, ...] = ()
    warnings: tuple[Problem, ...] = ()
    """What was not understood in sections of inputs and outputs, with its lines."""


def markdown_contract(path: Path) -> YamlFile | None:
    """Return the contract in a Markdown file, or None if there is none. Line numbers are those of the file."""
    yaml = read_metainfo(path).yaml
    return yaml if yaml.value else None


def read_metainfo(path: Path) -> Metainfo:
    """Return the contract in a Markdown file. Raises InputError with every problem.

    The first of these counts: front matter with `inputs` or `outputs`, a YAML block with them, tables and lists in
    sections about inputs and outputs together with any other front matter, a JSON or indented block with them.
    """
    try:
        lines = read_file(path, _MAX_BYTES).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(Problem(str(path), not_utf8(error))) from None
    except OSError as error:
        raise InputError(Problem(str(path), f"cannot be read: {error}")) from None
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE:
            message = f"the line has {len(line):,} characters, more than {MAX_LINE:,}; break it"
            raise InputError(Problem(f"{path}:{number}", message))
    front = front_matter(lines, path)
    if front is not None and has_fields(front):
        return Metainfo(parse_yaml(front, path))
    body_start = front.count("\n") + 2 if front is not None else 0
    body = ["" if n < body_start else line for n, line in enumerate(lines)]
    sections = sections_of(without_comments(body, path), is_heading)
    kinds = section_kinds(sections)
    for section, kind in zip(sections, kinds, strict=True):
        for fence in section.fences:
            if is_contract(fence) and kind not in ("example", "other"):
                return Metainfo(parse_yaml(fence.padded, path))
    yaml = parse_yaml(front, path) if front is not None and front.strip() else YamlFile(path, {}, {})
    reader = _MetainfoReader(yaml)
    reader.read(sections, kinds)
    if not reader.has_fields and not reader.problems:
        # A table is the contract even if a request in JSON, with `inputs` in it, stands above it.
        for section, kind in zip(sections, kinds, strict=True):
            for fence in section.fences if kind not in ("example", "other") else ():
                if contract := read_contract_block(fence, path):
                    return Metainfo(contract)
        reader.refuse_lookalikes()
    refuse(reader.problems, path)
    return Metainfo(reader.yaml, is_prose=True, skipped=tuple(reader.skipped), warnings=tuple(reader.warnings))


class _MetainfoReader:
    """Adds the fields of sections to a mapping."""

    def __init__(self, yaml: YamlFile) -> None:
        self.yaml = YamlFile(yaml.path, dict(yaml.value), dict(yaml.lines))
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.skipped: list[str] = []
        self._implied: set[tuple[str, str]] = set()  # fields that only have rows of their parts so far
        self._unread: list[_Unread] = []
        self._extra_fields: list[tuple[str, int, FieldName]] = []  # block, line, name
        self._lookalikes: list[int] = []  # lines outside contract sections that look like fields

    def read(self, sections: Sequence[MarkdownSection], kinds: Sequence[str]) -> None:
        """Read all sections, each with its kind."""
        for section, kind in zip(sections, kinds, strict=True):
            if kind in ("inputs", "outputs", "both"):
                self._read_fields(section, kind)
            else:
                self._read_other(section, kind)
        self._name_unread()

    @property
    def has_fields(self) -> bool:
        """Whether the sections have fields."""
        return "inputs" in self.yaml.value or "outputs" in self.yaml.value

    def refuse_lookalikes(self) -> None:
        """Add a problem for each table and block outside contract sections that looks like fields."""
        for line in self._lookalikes:
            message = (
                "this looks like fields of a contract, but its heading names neither inputs nor outputs; "
                'give it a heading such as "Inputs" or "输入契约"'
            )
            self._problem(line, message)

    # Sections about inputs and outputs.

    def _read_fields(self, section: MarkdownSection, kind: str) -> None:
        tables = tables_of(section, self._problem)
        items = items_of(section) or ([] if tables else _field_lines(section))
        blocks = [(fence, read_block(fence, self.yaml.path)) for fence in section.fences]
        if tables:
            for table in tables:
                self._read_table(table, section, kind)
        elif items and kind == "both":
            self._problem(items[0].line, _BOTH.format(section.title))
        elif items:
            self._read_items(items, section, kind)
        elif kind != "both" and (cell := _field_in_heading(section.title)):
            self._add_field(kind, cell, section.line)
        elif not self._read_blocks(blocks, section, kind):
            self._add_unread(blocks, section, kind)
        # A list beside a table, and a block beside other fields, mostly say more about them, or show data.
        extra = [(item.line, read_item(item.text)) for item in items if tables and is_typed(item.text)]
        extra += [(field.line, field.cell) for _, block in blocks for field in block.fields]
        self._extra_fields += [(kind, line, field_name(cell["name"])) for line, cell in extra if cell]

    def _add_unread(self, blocks: _Blocks, section: MarkdownSection, kind: str) -> None:
        text = " ".join(text.strip() for _, text in section.lines).strip(" 。.")
        if blocks:
            fence, block = blocks[0]
            reason = f"its block of code on line {fence.line} {block.reason}"
        elif text and text.lower() not in NONE:
            reason = "it has no table, list or block"
        else:
            return
        self._unread.append(_Unread(kind, section.title, section.line, reason))

    def _name_unread(self) -> None:
        """Warn of sections without fields if no other section has them, and of fields beside the others."""
        for unread in self._unread:
            kinds = ("inputs", "outputs") if unread.kind == "both" else (unread.kind,)
            if any(kind in self.yaml.value for kind in kinds):
                self.skipped.append(f"{unread.title!r} on line {unread.line}: {unread.reason}")
            else:
                self._warn(
                    unread.line,
                    f"no {' or '.join(kinds)} are read from {unread.title!r}: {unread.reason}; "
                    "list the fields in a table, or as `- name (type): text`",
                )
        for kind, line, name in self._extra_fields:
            fields = self.yaml.value.get(kind, {})
            if kind != "both" and name.name and (name.parent or name.name) not in fields:
                self._warn(
                    line,
                    f"the field {name.name!r} is not read, because {kind} are listed above; add it there",
                )

    def _read_table(self, table: MarkdownTable, section: MarkdownSection, kind: str) -> None:
        columns = self._columns(table)
        if columns is None:
            return
        if kind == "both" and "direction" not in columns:
            self._problem(table.line, _BOTH.format(section.title))
            return
        for line, cells in table.rows:
            cell = {key: cells[index] for key, index in columns.items() if index < len(cells)}
            extra = [
                f"{plain_text(table.header[index])}: {plain_text(text)}"
                for index, text in enumerate(cells)
                if index not in columns.values() and plain_text(text) not in NO_MARKS
            ]
            if not any(map(plain_text, cells)) or (
                plain_text(cells[0]).lower() in NONE and not any(map(plain_text, cells[2:]))
            ):
                continue
            block: str | None = kind
            if kind == "both":
                block = heading_kind(cell.get("direction", ""))
            if block not in ("inputs", "outputs"):
                self._problem(line, f"the direction {cell.get('direction', '')!r} is neither input nor output")
                continue
            if OPTIONAL_HEADING.search(section.title.lower()):
                cell.setdefault("required", "no")
            self._add_field(block, cell, line, tuple(extra))

    def _columns(self, table: MarkdownTable) -> dict[str, int] | None:
        """Return the position of each column by its meaning, or None after adding a problem."""
        columns: dict[str, int] = {}
        for index, text in enumerate(table.header):
            title = plain_text(text).lower()
            key = column_of(title)
            near = similar_names(title, COLUMN_TITLES) if key is None and title.isascii() else []
            if near:
                self._problem(table.line, f"there is no column {plain_text(text)!r}; did you mean {near[0]!r}?")
                return None
            if key is not None:
                columns.setdefault(key, index)
        if "name" not in columns:
            names = ", ".join(map(plain_text, table.header))
            message = f"the table has no column with the names of fields, such as `field` or `字段`; it has {names}"
            self._problem(table.line, message)
            return None
        return columns

    def _read_items(self, items: Sequence[Item], section: MarkdownSection, kind: str) -> None:
        indent = min(item.indent for item in items)
        if cell := _field_below_heading(section, [item for item in items if item.indent == indent]):
            self._add_field(kind, cell, section.line)
            return
        for number, item in enumerate(items):
            if item.indent > indent:
                continue  # belongs to an item above
            if plain_text(item.text).strip("。.").lower() in NONE:
                continue
            cell = read_item(item.text)
            for detail in takewhile(lambda other: other.indent > indent, items[number + 1 :]):
                if cell is not None:
                    add_detail(cell, detail.text)
            if cell is not None and _is_note(cell):
                self.skipped.append(f"the note on line {item.line}")
            elif cell is None:
                quote = cut_end(item.text, 60)
                message = f"expected a field such as `claim (string, required): the text`, found {quote!r}"
                self._problem(item.line, message)
            else:
                if OPTIONAL_HEADING.search(section.title.lower()):
                    cell.setdefault("required", "no")
                self._add_field(kind, cell, item.line)

    def _read_blocks(self, blocks: _Blocks, section: MarkdownSection, kind: str) -> bool:
        """Read the first block of code that has fields. Returns False if there is none."""
        for fence, block in blocks:
            if kind == "both" and block.fields:
                self._problem(fence.line, _BOTH.format(section.title))
                return True
            self.problems += block.problems
            for field in block.fields:
                self._add_field(kind, field.cell, field.line)
            if block.fields or block.problems:
                return True
        return False

    def _add_field(self, block: str, cell: dict[str, str], line: int, extra: tuple[str, ...] = ()) -> None:
        fields: dict[str, Any] = self.yaml.value.setdefault(block, {})
        self.yaml.lines.setdefault((block,), line)
        text = plain_text(cell["name"])
        if _BRANCH.match(text) and fields:
            return
        name = field_name(cell["name"])
        if name.name is None:
            self._problem(line, f"expected the name of a field, found {text!r}")
            return
        entry, errors, warnings = field_entry(block, name, cell, extra)
        if name.parent:
            self._add_part(block, name, line, is_required=entry.get("required") is True)
            return
        path = (block, name.name)
        if name.name in fields and path not in self._implied:
            self._problem(line, f"the field {name.name!r} is listed twice, first on line {self.yaml.lines[path]}")
            return
        self._implied.discard(path)
        self.yaml.lines[path] = line
        fields[name.name] = entry
        for message in errors:
            self._problem(line, f"{name.name}: {message}")
        for message in warnings:
            self._warn(line, f"{name.name}: {message}")

    def _add_part(self, block: str, part: FieldName, line: int, *, is_required: bool) -> None:
        """Add the outer field of `user.name`, unless it has a row. It is required if one of its parts is."""
        fields, path = self.yaml.value[block], (block, part.parent)
        if part.parent not in fields:
            self._implied.add(path)
            self.yaml.lines[path] = line
            fields[part.parent] = {"type": part.parent_type}
        if path in self._implied and block == "inputs":
            was_required = fields[part.parent].get("required", False)
            fields[part.parent]["required"] = was_required or is_required

    # Other sections.

    def _read_other(self, section: MarkdownSection, kind: str) -> None:
        """Read name, version and function of the Hoplet, and skip the rest."""
        tables = tables_of(section, lambda *_: None)
        words = re.findall(r"[a-z]+", section.title.lower())
        near = [match for word in words if word not in HEADING_WORDS for match in similar_names(word, HEADING_WORDS)]
        if near and kind == "" and (tables or items_of(section)):
            self._problem(section.line, f"the heading {section.title!r} is unknown; did you mean {near[0].title()!r}?")
            return
        if key := META_OF.get(section.title.lower()):
            texts = [plain_text(text) for _, text in section.lines if text.strip()]
            if len(texts) == 1:
                self._set(key, texts[0], section.line)
        for line, text in section.lines:
            match = _META_LINE.match(plain_text(text))
            if match and (key := META_OF.get(match[1].strip().lower())):
                self._set(key, match[2], line)
        for table in tables:
            titles = [plain_text(text).lower() for text in table.header]
            if len(titles) == 2 and titles[1] in VALUE_COLUMNS:
                for line, cells in table.rows:
                    if len(cells) == 2 and (key := META_OF.get(plain_text(cells[0]).lower())):
                        self._set(key, plain_text(cells[1]), line)
            elif {"name", "type"} <= {column_of(title) for title in titles}:
                self._lookalikes.append(table.line)
        if kind == "":
            schemas = (fence for fence in section.fences if looks_like_schema(fence, self.yaml.path))
            self._lookalikes += [fence.line for fence in schemas]
        if kind == "other":
            self._lookalikes += [fence.line for fence in section.fences if is_contract(fence)]
        if section.title and (section.fences or any(text.strip() for _, text in section.lines)):
            self.skipped.append(f"{section.title!r} on line {section.line}")

    def _set(self, key: str, text: str, line: int) -> None:
        match = re.match(r"\w+" if key != "version" else r"[\w.+-]+", text) if key != "name" else re.match(r".+", text)
        if match and key not in self.yaml.value:
            self.yaml.value[key] = match[0]
            self.yaml.lines[key,] = line

    def _problem(self, line: int, message: str) -> None:
        self.problems.append(Problem(f"{self.yaml.path}:{line}", message))

    def _warn(self, line: int, message: str) -> None:
        self.warnings.append(Problem(f"{self.yaml.path}:{line}", message, "warning"))


class _Unread(NamedTuple):
    """A section of inputs or outputs that has no fields."""

    kind: str
    title: str
    line: int
    reason: str


def _field_lines(section: MarkdownSection) -> list[Item]:
    """Return the lines of a section as items if each is a field, and one has a text that can only be a type."""
    lines = [(number, text.strip()) for number, text in section.lines if text.strip()]
    cells = [read_item(text) for _, text in lines if is_typed(text)]
    has_clear_type = any(cell and is_clear_type(cell["type"]) for cell in cells)
    return [Item(number, 0, text) for number, text in lines] if has_clear_type and len(cells) == len(lines) else []


def _field_in_heading(title: str) -> dict[str, str] | None:
    """Return the field of a heading such as `### claim (string, required)`, or None."""
    cell = read_item(title) if heading_kind(title) == "" and is_typed(title) else None
    return cell if cell is not None and is_clear_type(cell["type"]) else None


def _field_below_heading(section: MarkdownSection, items: Sequence[Item]) -> dict[str, str] | None:
    """Return the field of a heading `### claim` above a list with `type: string`, or None for a list of fields."""
    if heading_kind(section.title) or field_name(section.title).name is None:
        return None
    cell = {"name": section.title}
    for item in items:
        add_detail(cell, item.text)
    return cell if "type" in cell and len(cell) == len(items) + 1 else None


def _is_note(cell: dict[str, str]) -> bool:
    """Return whether an item of a list is prose such as `Note: all inputs are text`. A field says its type."""
    type_ = parse_type(cell.get("type", ""))
    return cell["name"] in NOTES and type_ is not None and type_.type == "any"
