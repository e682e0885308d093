"""Splits a Markdown text into sections with their tables, list items and fenced blocks, each with its line number.

    for section in sections_of(text.splitlines()):
        section.title, tables_of(section, report), items_of(section)

It knows the part of Markdown that a contract needs. A line in bold, and a line such as `Inputs:`, are headings too. A
definition list is a list, and a simple HTML table is a table.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from assay.core.errors import InputError, Problem

_RULE = "---"
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})\s*(\w*)")
_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*)$")
_BOLD_HEADING = re.compile(r"\s*(?:[-*+]\s+)?(?:\*\*|__)([^*_]+?)\s*[:：]?(?:\*\*|__)\s*[:：]?\s*$")
_TEXT_HEADING = re.compile(
    r"\s*(?:[-*+]\s+)?((?:输入|输出|返回|inputs?|outputs?|returns?)[^:：|`]{0,20}|字段|参数|fields|parameters)[:：]\s*$",
    re.IGNORECASE,
)
_UNDERLINE = re.compile(r" {0,3}(={2,}|-{2,})\s*$")
# Deeper than all headings with `#`, so each one ends at the next heading of any kind.
_BOLD_LEVEL = 7
_ITEM = re.compile(r"(\s*)(?:[-*+•]|\d+[.)、])\s+(\S.*)$")
# `: the text` below a line with the term.
_DEFINITION = re.compile(r" {0,3}:\s+(\S.*)$")
_DELIMITER = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")
_BAR = re.compile(r"(?<!\\)\|")
_CODE = re.compile(r"`[^`]*`")
# The start of a comment, unless it is quoted as code.
_COMMENT = re.compile(r"`[^`]*`|(<!--)")
_CODE_INDENT = 4


class Fence(NamedTuple):
    """A fenced block, or an indented one, which has no language. `line` is its first line of content."""

    line: int
    language: str
    text: str

    @property
    def padded(self) -> str:
        """The text after empty lines, so that line numbers in it are those of the file."""
        return "\n" * (self.line - 1) + self.text


class MarkdownSection(NamedTuple):
    """A heading with the lines up to the next heading. The first section of a file has no title."""

    level: int
    title: str
    line: int
    lines: list[tuple[int, str]]
    fences: list[Fence]


class MarkdownTable(NamedTuple):
    """A table. Cells keep their Markdown. A row has as many cells as the header, or fewer."""

    line: int
    header: list[str]
    rows: list[tuple[int, list[str]]]


class Item(NamedTuple):
    """An item of a list."""

    line: int
    indent: int
    text: str


def front_matter(lines: Sequence[str], path: Path) -> str | None:
    """Return the text between `---` on the first line and the next `---`, or None. Keeps the line numbers."""
    if not lines or lines[0].rstrip() != _RULE:
        return None
    for end, line in enumerate(lines[1:], 1):
        if line.rstrip() in (_RULE, "..."):
            return "\n".join(["", *lines[1:end]])
    raise InputError(Problem(f"{path}:1", "the front matter that starts here has no closing ---"))


def without_comments(lines: Sequence[str], path: Path) -> list[str]:
    """Return the lines with every HTML comment blanked out. Fenced blocks stay as they are."""
    kept: list[str] = []
    fence = ""
    opened = 0  # the line where a comment starts that is not closed yet
    for number, text in enumerate(lines, 1):
        rest, shown = text, ""
        if fence:
            fence = "" if text.strip().startswith(fence) else fence
            kept.append(text)
            continue
        while rest:
            if opened:
                _, closing, rest = rest.partition("-->")
                opened = 0 if closing else opened
                continue
            start = next((match.start() for match in _COMMENT.finditer(rest) if match[1]), len(rest))
            opened = number if start < len(rest) else 0
            shown, rest = shown + rest[:start], rest[start:].removeprefix("<!--")
        if match := _FENCE.match(shown):
            fence = match[1]
        kept.append(shown)
    if opened:
        raise InputError(Problem(f"{path}:{opened}", "the comment that starts here has no closing -->"))
    return kept


def sections_of(lines: Sequence[str], is_heading: Callable[[str], bool] = lambda _: True) -> list[MarkdownSection]:
    """Return the sections of a text in their order. Blocks of code are not among the lines of a section.

    `is_heading` says whether an item of a list that is all bold is a heading, by its text.
    """
    sections = [MarkdownSection(0, "", 1, [], [])]
    position = 0
    list_indent = 0  # where the text of the last list item starts; 0 outside lists
    while position < len(lines):
        text = lines[position]
        after_empty = position == 0 or not lines[position - 1].strip()
        position += 1
        if after_empty and _indent(text) >= list_indent + _CODE_INDENT:
            start = position - 1
            while position < len(lines) and _indent(lines[position]) >= list_indent + _CODE_INDENT:
                position += 1
            block = textwrap.dedent("\n".join(lines[start:position]))
            sections[-1].fences.append(Fence(start + 1, "", block))
            continue
        if item := _ITEM.match(text):
            list_indent = len(text[: item.start(2)].expandtabs(_CODE_INDENT))
        elif _HEADING.match(text) or (after_empty and text.strip() and _indent(text) == 0):
            list_indent = 0
        if fence := _FENCE.match(text):
            start = position
            while position < len(lines) and not lines[position].strip().startswith(fence[1]):
                position += 1
            block = "\n".join(lines[start:position])
            sections[-1].fences.append(Fence(start + 1, fence[2].lower(), block))
            position += 1
        elif position < len(lines) and _UNDERLINE.match(lines[position]) and _is_title(text):
            level = 1 if "=" in lines[position] else 2
            sections.append(MarkdownSection(level, _title(text), position, [], []))
            position += 1
        elif heading := _HEADING.match(text):
            sections.append(MarkdownSection(len(heading[1]), _title(heading[2].rstrip().rstrip("#")), position, [], []))
        elif position < len(lines) and _DEFINITION.match(lines[position]):
            sections[-1].lines.append((position, text))
        elif (bold := _BOLD_HEADING.match(text) or _TEXT_HEADING.match(text)) and (
            not _ITEM.match(text) or _TEXT_HEADING.match(text) or is_heading(_title(bold[1]))
        ):
            sections.append(MarkdownSection(_BOLD_LEVEL, _title(bold[1]), position, [], []))
        else:
            sections[-1].lines.append((position, text))
    return sections


def _indent(text: str) -> int:
    """Return the column of the first character, or 0 for an empty line."""
    expanded = text.expandtabs(_CODE_INDENT)
    return len(expanded) - len(expanded.lstrip()) if expanded.strip() else 0


def _is_title(text: str) -> bool:
    """Return whether a line may be a heading with a line of `---` or `===` below it."""
    return bool(text.strip()) and "|" not in text and not _ITEM.match(text) and not _HEADING.match(text)


def _title(text: str) -> str:
    """Return a heading without its number and marks: `输入契约` for `2.1 **输入契约**`."""
    plain = text.replace("*", "").replace("`", "").strip()
    return re.sub(r"^([\d.]+|[一二三四五六七八九十]+)[.、)]?\s*(?=\S)", "", plain).strip(" :：")


def tables_of(section: MarkdownSection, report: Callable[[int, str], None]) -> list[MarkdownTable]:
    """Return the tables of a section. `report` gets the line and reason of every row that cannot be read."""
    lines = section.lines
    tables = _html_tables(section, report)
    table: MarkdownTable | None = None
    for position, (number, text) in enumerate(lines):
        following = lines[position + 1] if position + 1 < len(lines) else (0, "")
        is_row = text.strip().startswith("|") or (table is not None and "|" in text)
        if table is None and "|" in text and following[0] == number + 1 and _is_delimiter(following[1]):
            table = MarkdownTable(number, _cells(text), [])
            tables.append(table)
        elif not is_row:
            table = None
        elif table is None:
            report(number, "a table needs a header and a line |---|---| below it")
            return tables
        elif not (number == table.line + 1 and _is_delimiter(text)):
            _add_row(table, number, _cells(text, len(table.header)), report)
    return tables


def _add_row(table: MarkdownTable, line: int, cells: list[str], report: Callable[[int, str], None]) -> None:
    columns = len(table.header)
    if len(cells) > columns:
        hint = "write \\| for a bar inside a cell"
        report(line, f"the row has {len(cells)} cells, and the table has {columns} columns; {hint}")
    else:
        table.rows.append((line, cells))


def _is_delimiter(text: str) -> bool:
    return "-" in text and _DELIMITER.match(text) is not None


def _cells(text: str, count: int = 0) -> list[str]:
    """Return the cells of a row. If there are more than `count`, bars inside backquotes separate nothing."""
    row = text.strip().removeprefix("|")
    row = row[:-1] if row.endswith("|") and not row.endswith("\\|") else row
    cells = [cell.strip() for cell in _BAR.split(row)]
    if count and len(cells) > count:
        hidden = _CODE.sub(lambda code: code[0].replace("|", "\\|"), row)
        cells = [cell.strip() for cell in _BAR.split(hidden)]
    return cells


def _html_tables(section: MarkdownSection, report: Callable[[int, str], None]) -> list[MarkdownTable]:
    """Return the HTML tables of a section. The first row is the header."""
    # A table starts a line. `<table>` in a sentence is about something else.
    if not any(text.lstrip().lower().startswith("<table") for _, text in section.lines):
        return []
    reader = _HtmlTableReader([number for number, _ in section.lines], report)
    reader.feed("\n".join(text for _, text in section.lines))
    reader.close()
    if reader.opened:
        report(reader.opened, "the table that starts here has no closing </table>")
    return reader.tables


class _HtmlTableReader(HTMLParser):
    """Collects the tables of an HTML text. Reports tables in tables, and cells that span several."""

    def __init__(self, numbers: Sequence[int], report: Callable[[int, str], None]) -> None:
        super().__init__()
        self.tables: list[MarkdownTable] = []
        self.opened = 0
        """The line where a table starts that is not closed yet."""
        self._numbers = numbers  # of the lines in the file
        self._report = report
        self._rows: list[tuple[int, list[str]]] = []
        self._in_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        line = self._numbers[self.getpos()[0] - 1]
        if tag == "table":
            if self.opened:
                self._report(line, "a table inside a table cannot be read; write it as | field | type |")
            self.opened, self._rows = line, []
        elif tag == "tr" and self.opened:
            self._rows.append((line, []))
        elif tag in ("td", "th") and self._rows:
            if any(name in ("colspan", "rowspan") and value != "1" for name, value in attrs):
                self._report(line, "a cell that spans several cannot be read; give every field its own cells")
            self._rows[-1][1].append("")
            self._in_cell = True
        elif tag == "br":
            self.handle_data(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "tr", "table"):
            self._in_cell = False
        if tag == "table" and self.opened:
            rows = [(line, [" ".join(cell.split()) for cell in cells]) for line, cells in self._rows if cells]
            if rows:
                self.tables.append(MarkdownTable(rows[0][0], rows[0][1], []))
            for line, cells in rows[1:]:
                _add_row(self.tables[-1], line, cells, self._report)
            self.opened, self._rows = 0, []

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self._rows[-1][1][-1] += data


def items_of(section: MarkdownSection) -> list[Item]:
    """Return the list items of a section. In a definition list, `term` above `: text` is the item `term: text`."""
    items: list[Item] = []
    term: tuple[int, str] | None = None
    for number, text in section.lines:
        if match := _ITEM.match(text):
            items.append(Item(number, len(match[1].expandtabs(4)), match[2].strip()))
            term = None
        elif (definition := _DEFINITION.match(text)) and term is not None:
            items.append(Item(term[0], 0, f"{term[1]}: {definition[1].strip()}"))
            term = None
        elif definition and items:
            items.append(Item(number, 1, definition[1].strip()))  # says more about the term
        elif text.strip():
            term = (number, text.strip())
    return items
