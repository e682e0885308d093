"""Reads the contract in `metainfo.md`: front matter, a YAML block, or tables and lists under their headings.

    ## Input contract

    | field | type   | required | description       |
    |-------|--------|----------|-------------------|
    | claim | string | yes      | the text to check |

    ## 输出契约

    - supported (bool): whether the context supports the claim

The result is the mapping that the same contract has in YAML, with the line of every field. HOP does not publish the
layout of this file, so headings and columns are known by many names, English and Chinese. A line of a contract that
cannot be understood is an error. Sections about other things are skipped, and `assay check` lists them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.core.bounds import read_file
from assay.core.encoding import not_utf8
from assay.core.errors import InputError, Problem, similar_names
from assay.core.excerpt import cut_end
from assay.core.registry import unknown
from assay.core.schema import KeyPath, refuse
from assay.core.yamlfile import YamlFile, parse_yaml
from assay.suites.hop.field_items import add_detail, read_item
from assay.suites.hop.field_types import TYPES, fits, parse_choices, parse_number, parse_type, plain_text
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
from assay.suites.hop.metainfo_blocks import (
    has_fields,
    is_contract,
    looks_like_schema,
    read_block,
    read_contract_block,
)
from assay.suites.hop.metainfo_headings import (
    HEADING_WORDS,
    META_OF,
    OPTIONAL_HEADING,
    heading_kind,
    is_heading,
    section_kinds,
)
from assay.suites.hop.metainfo_words import (
    COLUMN_OF,
    NO,
    NO_MARKS,
    NONE,
    NOTES,
    VALUE_COLUMNS,
    YES,
    YES_MARKS,
)

MAX_LINE = 2_000
"""Characters of a line. The time of some patterns for lines grows with the square or the cube of the length."""
_MAX_BYTES = 1 << 20
_META_LINE = re.compile(r"\s*(?:[-*+]\s+)?([^:：|]{1,40})[:：]\s*(\S.*)")
_FIELD_NAME = re.compile(r"[^\s,，、/|<>{}()（）:：\"'=*]+")
_NESTED = re.compile(r"^[└├↳│─\->\s]+|^([^\s.\[]+)(\[[^\]]*\]|\.)")


class Metainfo(NamedTuple):
    """The contract of a `metainfo.md`. `skipped` names the sections that are not part of it."""

    yaml: YamlFile
    is_prose: bool = False
    """True if the fields come from tables and lists, whose layout assay recognises by names."""
    skipped: tuple[str, ...] = ()


def markdown_contract(path: Path) -> YamlFile | None:
    """Return the contract in a Markdown file, or None if there is none. Line numbers are those of the file."""
    metainfo = read_metainfo(path)
    return metainfo.yaml if metainfo else None


def read_metainfo(path: Path) -> Metainfo | None:
    """Return the contract in a Markdown file, or None if there is none. Raises InputError with every problem.

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
    return Metainfo(reader.yaml, is_prose=True, skipped=tuple(reader.skipped)) if reader.yaml.value else None


class _MetainfoReader:
    """Adds the fields of sections to a mapping."""

    def __init__(self, yaml: YamlFile) -> None:
        self.yaml = YamlFile(yaml.path, dict(yaml.value), dict(yaml.lines))
        self.problems: list[Problem] = []
        self.skipped: list[str] = []
        self._lookalikes: list[int] = []  # lines outside contract sections that look like fields

    def read(self, sections: Sequence[MarkdownSection], kinds: Sequence[str]) -> None:
        """Read all sections, each with its kind."""
        for section, kind in zip(sections, kinds, strict=True):
            if kind in ("inputs", "outputs", "both"):
                self._read_fields(section, kind)
            else:
                self._read_other(section, kind)

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
        items = items_of(section)
        if tables:
            for table in tables:
                self._read_table(table, section, kind)
        elif items:
            if kind == "both":
                self._problem(items[0].line, _BOTH.format(section.title))
            else:
                self._read_items(items, section, kind)
        elif not any(self._read_block(fence, section, kind) for fence in section.fences):
            text = " ".join(text.strip() for _, text in section.lines).strip(" 。.")
            if section.fences:
                self.skipped.append(f"{section.title!r} on line {section.line} has only code")
            elif text and text.lower() not in NONE:
                self.skipped.append(f"{section.title!r} on line {section.line} has only prose")

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
                self._problem(
                    line, f"the direction {cell.get('direction', '')!r} is neither input nor output"
                )
                continue
            if OPTIONAL_HEADING.search(section.title.lower()):
                cell.setdefault("required", "no")
            self._add_field(block, cell, line, extra)

    def _columns(self, table: MarkdownTable) -> dict[str, int] | None:
        """Return the position of each column by its meaning, or None after adding a problem."""
        columns: dict[str, int] = {}
        for index, text in enumerate(table.header):
            title = plain_text(text).lower()
            key = COLUMN_OF.get(title)
            near = similar_names(title, COLUMN_OF) if key is None and title.isascii() else []
            if near:
                self._problem(
                    table.line, f"there is no column {plain_text(text)!r}; did you mean {near[0]!r}?"
                )
                return None
            if key is not None:
                columns.setdefault(key, index)
        if "name" not in columns:
            names = ", ".join(map(plain_text, table.header))
            message = (
                f"the table has no column with the names of fields, such as `field` or `字段`; it has {names}"
            )
            self._problem(table.line, message)
            return None
        return columns

    def _read_items(self, items: Sequence[Item], section: MarkdownSection, kind: str) -> None:
        indent = min(item.indent for item in items)
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
                self._add_field(kind, cell, item.line, [])

    def _read_block(self, fence: Fence, section: MarkdownSection, kind: str) -> bool:
        """Read the fields of a block of code. Returns False if it has none, such as an example of the data."""
        block = read_block(fence, self.yaml.path)
        if kind == "both" and block.fields:
            self._problem(fence.line, _BOTH.format(section.title))
            return True
        self.problems += block.problems
        for field in block.fields:
            self._add_field(kind, field.cell, field.line, [])
        return bool(block.fields or block.problems)

    def _add_field(self, block: str, cell: dict[str, str], line: int, extra: list[str]) -> None:
        fields: dict[str, Any] = self.yaml.value.setdefault(block, {})
        self.yaml.lines.setdefault((block,), line)
        name, label, mark = _field_name(cell["name"])
        nested = _NESTED.match(plain_text(cell["name"]))
        if nested is not None and (nested[1] in fields or not nested[1]) and fields:
            return  # a part of the field above; contracts have the outer fields only
        if name is None:
            self._problem(line, f"expected the name of a field, found {plain_text(cell['name'])!r}")
            return
        if nested is not None and nested[1] and nested[2] != ".":
            # The row of the outer field may be there, and wrong.
            if (block, nested[1]) not in self.yaml.lines:
                self._problem(line, f"{name} is a part of {nested[1]}, which has no row above; add one")
            return
        path: KeyPath = (block, name)
        if name in fields:
            self._problem(line, f"the field {name!r} is listed twice, first on line {self.yaml.lines[path]}")
            return
        self.yaml.lines[path] = line
        type_ = parse_type(cell.get("type", ""))
        if type_ is None:
            self._problem(line, f"{name}: {_unknown_type(plain_text(cell['type']))}")
            return
        choices = type_.choices or parse_choices(cell.get("choices", ""), type_.type)
        default = plain_text(cell.get("default", ""))
        has_default = default.lower() not in NONE and default != ""
        notes = [plain_text(cell.get("description", "")), type_.note, *extra]
        if not choices and (text := plain_text(cell.get("choices", ""))) not in NO_MARKS:
            notes.append(text)
        if has_default:
            notes.append(f"default: {default}")
        entry: dict[str, Any] = {"type": type_.type, "description": "; ".join(note for note in notes if note)}
        if label := plain_text(cell.get("label", "")) or label:
            entry["label"] = label
        if block == "inputs":
            required = self._required(cell, line, name)
            if required is None:
                required = not (has_default or type_.optional or mark == "?")
            entry["required"] = required
            if choices:
                entry["choices"] = list(choices)
            if (example := _value(cell.get("example", ""), type_.type)) is not None:
                entry["example"] = example
        else:
            self._add_comparison(entry, cell, line, name)
        fields[name] = entry

    def _required(self, cell: dict[str, str], line: int, name: str) -> bool | None:
        """Return whether the row says that a field is required; None if it does not say."""
        column = "required" if "required" in cell else "optional"
        if column not in cell:
            return None
        text = plain_text(cell[column])
        word = text.lower().partition("（")[0].partition("(")[0].strip()
        if word in YES or text.lower() in YES_MARKS:
            return column == "required"
        if word in NO or text.lower() in NO_MARKS:
            return column != "required"
        self._problem(line, f"{name}: expected yes or no (是 or 否) in the column {column!r}, found {text!r}")
        return True

    def _add_comparison(self, entry: dict[str, Any], cell: dict[str, str], line: int, name: str) -> None:
        """Add the keys of an output that say how it is counted and compared."""
        for key in ("aggregate", "compare", "sub_field"):
            if (text := plain_text(cell.get(key, ""))) not in NO_MARKS:
                entry[key] = text
        for key in ("tolerance", "within"):
            if (text := plain_text(cell.get(key, "")).lstrip("±")) not in NO_MARKS:
                number = parse_number(text)
                if number is None:
                    self._problem(line, f"{name}: expected a number in the column {key!r}, found {text!r}")
                else:
                    entry[key] = number
        if (text := plain_text(cell.get("bands", ""))) not in NO_MARKS:
            bands = _bands(text)
            if bands is None:
                message = f"{name}: expected bands such as `BAD 1-2, MID 3, GOOD 4-5`, found {text!r}"
                self._problem(line, message)
            else:
                entry["bands"] = bands

    # Other sections.

    def _read_other(self, section: MarkdownSection, kind: str) -> None:
        """Read name, version and function of the Hoplet, and skip the rest."""
        tables = tables_of(section, lambda *_: None)
        words = re.findall(r"[a-z]+", section.title.lower())
        near = [
            match
            for word in words
            if word not in HEADING_WORDS
            for match in similar_names(word, HEADING_WORDS)
        ]
        if near and kind == "" and (tables or items_of(section)):
            self._problem(
                section.line, f"the heading {section.title!r} is unknown; did you mean {near[0].title()!r}?"
            )
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
            elif {"name", "type"} <= {COLUMN_OF.get(title) for title in titles}:
                self._lookalikes.append(table.line)
        if kind == "":
            schemas = (fence for fence in section.fences if looks_like_schema(fence, self.yaml.path))
            self._lookalikes += [fence.line for fence in schemas]
        if kind == "other":
            self._lookalikes += [fence.line for fence in section.fences if is_contract(fence)]
        if section.title and any(text.strip() for _, text in section.lines):
            self.skipped.append(f"{section.title!r} on line {section.line}")

    def _set(self, key: str, text: str, line: int) -> None:
        match = (
            re.match(r"\w+" if key != "version" else r"[\w.+-]+", text)
            if key != "name"
            else re.match(r".+", text)
        )
        if match and key not in self.yaml.value:
            self.yaml.value[key] = match[0]
            self.yaml.lines[key,] = line

    def _problem(self, line: int, message: str) -> None:
        self.problems.append(Problem(f"{self.yaml.path}:{line}", message))


_BOTH = "the heading {!r} names inputs and outputs; give each table its own heading, or a column `direction`"


def _field_name(text: str) -> tuple[str | None, str, str]:
    """Return the name in a cell, its label, and `*` or `?` behind it. The name is None if there is none.

    `question（问题）` is the field `question` with the label `问题`.
    """
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
    if (rest and not mark) or not _FIELD_NAME.fullmatch(name) or name.strip(".…-–—") == "":
        return None, label, mark
    return name, label, mark


def _is_note(cell: dict[str, str]) -> bool:
    """Return whether an item of a list is prose such as `Note: all inputs are text`. A field says its type."""
    type_ = parse_type(cell.get("type", ""))
    return cell["name"] in NOTES and type_ is not None and type_.type == "any"


def _unknown_type(text: object) -> str:
    return unknown("type", str(text), list(TYPES))


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
        match = re.fullmatch(
            r"\s*([^\s:：=]+?)\s*[:：=\s]\s*\[?(-?[\d.]{1,30})(?:\s*(?:-|–|~|to|至|\.\.)\s*(-?[\d.]{1,30}))?\]?\s*",
            part,
        )
        if match is None:
            return None
        ends = [parse_number(end) for end in match.groups()[1:] if end is not None]
        if None in ends:
            return None
        bands[match[1]] = ends
    return bands
