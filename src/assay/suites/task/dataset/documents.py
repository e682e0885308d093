"""The documents of one split, read as a stream: memory does not grow with the data.

    documents = Documents("json", [Path("test.jsonl")])
    documents.scan()
    for document in documents.rows():
        row = documents.parse(document)

Documents that come from code or from a library are first written to an unnamed temporary file, a `Spool`.
"""

from __future__ import annotations

import hashlib
import os
import resource
import tempfile
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import compress, count, repeat
from pathlib import Path
from typing import Any

import msgspec

from assay.core.errors import InputError, Problem, cannot_write
from assay.core.hashing import file_sha256
from assay.core.row_keys import RepeatedKeys, UniqueKeys, repeated_numbers, row_key
from assay.files.read import BY_PEOPLE, is_deeper, line_body, parse_object
from assay.suites.task.dataset.column_types import ColumnTypes, convert_value
from assay.suites.task.dataset.formats import (
    FORMATS,
    LINE,
    UnsupportedValue,
    encode_row,
    json_layout,
    open_data,
)

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="deterministic").encode
# The spool writes to its file in pieces of 256 KiB.
_WRITE_BYTES = 1 << 18
# A mistake of a program that wrote the data is in all of its rows. Each would be a line on the screen.
_MOST_WARNINGS = 10
# A run may have thousands of tasks, each with an open spool. The default limit of macOS is 256 open files.
_OPEN_FILES = 65_536

# For each file: its path, the unit in which messages count its rows, and the rows with their places.
Sources = Iterator[tuple[Path, str, Iterator[tuple[int, bytes]]]]


class RawDocument(msgspec.Struct, frozen=True, gc=False):
    """One document before parsing.

    `number` is its index in the split. `place` is its line (or item) in the file, and `unit` how messages
    print it.
    """

    number: int
    raw: bytes
    path: Path
    place: int
    unit: str = LINE

    @property
    def where(self) -> str:
        """The place for messages, such as `test.jsonl:7`."""
        return f"{self.path}{self.unit.format(self.place)}"


class DataFacts(msgspec.Struct):
    """The results of one scan of the data. They are stored with the run, so that a later start need not scan."""

    total: int = 0
    columns: list[str] = []
    # The number of keys that several rows have.
    twins: int = 0
    # The number of lines of each file; empty unless every line is a document. Only then can rows be skipped
    # without parsing.
    lines: list[int] = []
    # Conversions to the types of columns, see `column_types`. Usually empty.
    changes: dict[str, Any] = {}
    # The type of each column in one word.
    kinds: dict[str, str] = {}
    # Hashes of the documents that `process_docs` returned, for the evaluated split and the few-shot pool.
    code_hashes: list[str] = []


def document_key(value: Any) -> str:
    """Return the key of a document: a hash of its content.

    Spelling does not matter: order of keys, escapes, and keys whose value is null. So the `doc` in the samples file of
    another program has the key of the row that it was read from.
    """
    return row_key(_content(value))


def _content(value: Any) -> bytes:
    """Return the bytes that are equal for equal documents."""
    content = _encode(value)
    # Not `in`: to look for bytes, it first tries to take them for a number, which costs more than the search.
    return content if content.find(b"null") < 0 else _encode(_without_nulls(value))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


class Documents:
    """One split of a data set, in files of one format (`kind`, a key of FORMATS)."""

    def __init__(self, kind: str, files: list[Path], options: dict[str, Any] | None = None) -> None:
        self.kind = kind
        self.files = files
        self.options = options or {}
        self.facts = DataFacts()
        self.warnings: list[Problem] = []
        """Keys that occur twice in a row, from the scan. Only the first of them."""
        self._repeated_keys: list[str] = []

    def scan(self) -> DataFacts:
        """Read all rows once: count them, find the columns and their types, find equal rows.

        Raises InputError with every row that is not a JSON object.
        """
        problems: list[Problem] = []
        self.warnings = []
        types = self._column_types()
        # Python's own hash of each row. It is ten times faster than a key, and most data has no equal rows.
        hashes = array("q")
        counts: list[int] = []
        every_line_is_a_row = self._in_lines()
        # Bound methods in local names: this loop runs once per row of the data.
        see, add, levels = types.see, hashes.append, BY_PEOPLE.levels
        for path, unit, rows in self._sources(problems):
            row_count = place = 0
            for place, raw in rows:
                try:
                    value = _decode(raw)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    value = None
                if type(value) is dict and not is_deeper(value, levels, raw):
                    see(value)
                    content = _content(value)
                    add(hash(content))
                    row_count += 1
                    # Decoding drops a repeated key, so the encoded value has fewer colons. Its content has none of
                    # the keys that are null.
                    colons = raw.count(b":")
                    if colons != content.count(b":") and colons != _encode(value).count(b":"):
                        self._warn_of_repeated_keys(raw, value, RawDocument(0, b"", path, place, unit))
                else:
                    # Parses again, to add a message with the exact problem.
                    parse_object(raw, RawDocument(0, b"", path, place, unit), problems)
            counts.append(row_count)
            every_line_is_a_row = every_line_is_a_row and row_count == place > 0
        if problems:
            raise InputError(problems)
        self.facts = DataFacts(
            total=sum(counts),
            columns=types.columns,
            lines=counts if every_line_is_a_row else [],
            changes=self._changes(types),
            kinds=types.kinds(),
        )
        self._repeated_keys = self._find_repeated_keys(repeated_numbers(hashes))
        self.facts.twins = len(self._repeated_keys)
        return self.facts

    def _warn_of_repeated_keys(self, raw: bytes, value: Any, document: RawDocument) -> None:
        from assay.files.json_objects import REPEATED_KEY, repeated_keys

        for path in repeated_keys(raw, value) if len(self.warnings) < _MOST_WARNINGS else ():
            key = ".".join(map(str, path))
            self.warnings.append(Problem(document.where, f"{key}: {REPEATED_KEY}", "warning"))

    def _find_repeated_keys(self, hashes: set[int]) -> list[str]:
        """Return the keys of equal rows. `hashes` are those that more than one row has."""
        finder = RepeatedKeys()
        for document in self.rows() if hashes else ():
            content = _content(_decode(document.raw))
            if hash(content) in hashes:
                finder.add(row_key(content))
        return finder.keys()

    def recall(self, facts: DataFacts) -> None:
        """Reuse the facts of an earlier scan of the same bytes."""
        self.facts = facts
        if facts.twins:
            # The facts only have the number of equal rows. Finding them needs a scan.
            self.scan()

    def unique_keys(self) -> UniqueKeys:
        """Return a new counter of equal rows, for one pass in data order."""
        return UniqueKeys(self._repeated_keys)

    def identity(self) -> list[str]:
        """Return hashes of the files' content. Moving or renaming a file does not change them."""
        return [file_sha256(path) for path in self.files]

    def rows(self, limit: int | None = None, skip: Callable[[int], bool] | None = None) -> Iterator[RawDocument]:
        """Yield the documents in data order. `skip` takes the number of a document."""
        if self.facts.lines:
            return self._jump(self.facts.total if limit is None else min(limit, self.facts.total), skip)
        return self._step(limit, skip)

    def _jump(self, total: int, skip: Callable[[int], bool] | None) -> Iterator[RawDocument]:
        """Yield rows of files in which every line is a row.

        `compress` passes over skipped lines in C, which makes continuing a large run fast.
        """
        before = 0
        for path, lines in zip(self.files, self.facts.lines, strict=True):
            numbers = range(before, min(before + lines, total))
            wanted = repeat(1, len(numbers)) if skip is None else (1 - skip(n) for n in numbers)
            with open_data(path) as file:
                for place, raw in compress(enumerate(file, 1), wanted):
                    yield RawDocument(before + place - 1, line_body(raw, is_first=place == 1), path, place)
            before += lines

    def _step(self, limit: int | None, skip: Callable[[int], bool] | None) -> Iterator[RawDocument]:
        numbers = count()
        for path, unit, rows in self._sources([]):
            for (place, raw), number in zip(rows, numbers, strict=False):
                if number == limit:
                    return
                if skip is None or not skip(number):
                    yield RawDocument(number, raw, path, place, unit)

    def parse(self, document: RawDocument) -> dict[str, Any]:
        """Return a document as `datasets` does: all columns in one order, None for a missing one."""
        value: dict[str, Any] = _decode(document.raw)
        facts = self.facts
        if facts.changes:
            for column, change in facts.changes.items():
                if column in value:
                    value[column] = convert_value(change, value[column])
        if list(value) == facts.columns:
            return value
        return {column: value.get(column) for column in facts.columns}

    def key(self, document: RawDocument, value: dict[str, Any]) -> str:
        """Return the key of a document, without a number for equal ones. `value` is what `parse` returned for it."""
        # The key ignores the types of columns: the scan finds equal documents before it knows the types.
        return row_key(_content(_decode(document.raw) if self.facts.changes else value))

    def values(self, limit: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield the documents as dicts."""
        return (self.parse(document) for document in self.rows(limit))

    # SpooledDocuments overrides the following methods.

    def _column_types(self) -> ColumnTypes:
        # `datasets` reads JSON lines with Arrow, which parses dates as timestamps. With `field` it uses another
        # reader, which does not, but gives structs all keys.
        lines = self.kind == "json" and "field" not in self.options
        return ColumnTypes(times=lines, fill="field" in self.options)

    def _changes(self, types: ColumnTypes) -> dict[str, Any]:
        # The other formats have typed columns, or get them in `formats`.
        return types.changes() if self.kind == "json" else {}

    def _in_lines(self) -> bool:
        return self.kind == "json" and all(json_layout(path, self.options) == "lines" for path in self.files)

    def _sources(self, problems: list[Problem]) -> Sources:
        """Yield every file with its unit and its rows. Problems of a file are added to `problems`."""
        data_format = FORMATS[self.kind]
        for path in self.files:
            yield path, data_format.unit(path, self.options), data_format.rows(path, self.options, problems)


class Spool:
    """Lines in an unnamed temporary file, readable in any order.

    A line costs eight bytes of memory. The file disappears with the object, and when the process is killed.
    """

    def __init__(self) -> None:
        _raise_file_limit()
        # A bare file descriptor: positional reads and writes need no Python file object.
        with tempfile.TemporaryFile() as file:
            self._file = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._file)
        self._ends = array("Q", [0])
        self._pending = bytearray()
        self._digest = hashlib.sha256()

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, raw: bytes) -> None:
        """Append one line."""
        self._pending += raw
        self._pending += b"\n"
        self._ends.append(self._ends[-1] + len(raw) + 1)
        if len(self._pending) >= _WRITE_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._digest.update(self._pending)
        view = memoryview(self._pending)
        while view:
            try:
                view = view[os.write(self._file, view) :]
            except OSError as error:
                raise cannot_write(f"to the temporary folder {tempfile.gettempdir()}", error) from None
        self._pending = bytearray()

    def __getitem__(self, number: int) -> bytes:
        if self._pending:
            self._flush()
        start, end = self._ends[number], self._ends[number + 1]
        return os.pread(self._file, end - start - 1, start)

    def __iter__(self) -> Iterator[bytes]:
        return map(self.__getitem__, range(len(self)))

    def digest(self) -> str:
        """Return the SHA-256 of the content."""
        if self._pending:
            self._flush()
        return self._digest.hexdigest()


@cache
def _raise_file_limit() -> None:
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _OPEN_FILES if hard_limit == resource.RLIM_INFINITY else min(hard_limit, _OPEN_FILES)
    # The system may refuse. Most runs do not need the higher limit.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard_limit))


class SpooledDocuments(Documents):
    """Documents in a spool. Messages name them by `path` and `unit`."""

    def __init__(self, spool: Spool, path: Path, unit: str, *, fill: bool = False) -> None:
        super().__init__("rows", [path])
        self.spool = spool
        self.unit = unit
        self._fill = fill

    def _column_types(self) -> ColumnTypes:
        return ColumnTypes(times=False, fill=self._fill)

    def _changes(self, types: ColumnTypes) -> dict[str, Any]:
        return types.changes()

    def _in_lines(self) -> bool:
        return False

    def _sources(self, problems: list[Problem]) -> Sources:
        yield self.files[0], self.unit, enumerate(self.spool)

    def identity(self) -> list[str]:
        """Return the hash of all rows."""
        return [self.spool.digest()]

    def document(self, number: int) -> RawDocument:
        """Return one document by its number."""
        return RawDocument(number, self.spool[number], self.files[0], number, self.unit)

    def rows(self, limit: int | None = None, skip: Callable[[int], bool] | None = None) -> Iterator[RawDocument]:
        """Yield the documents in order. Skipped documents are not read."""
        total = len(self.spool) if limit is None else min(limit, len(self.spool))
        return (self.document(number) for number in range(total) if skip is None or not skip(number))


def spool_documents(documents: Documents) -> SpooledDocuments:
    """Copy documents to a spool, from which they can be read in any order."""
    if not documents.facts.columns:
        documents.scan()
    if isinstance(documents, SpooledDocuments):
        return documents
    spool = Spool()
    for document in documents.rows():
        spool.add(document.raw)
    copy = SpooledDocuments(spool, documents.files[0], " document {}")
    # The rows are the same, so the scan's results hold for the copy. Only `lines` describes the original files.
    copy.facts = msgspec.structs.replace(documents.facts, total=len(spool), lines=[], code_hashes=[])
    return copy


def spool_rows(rows: Iterable[Any], path: Path, unit: str, *, fill: bool = False) -> SpooledDocuments:
    """Write rows that come from code or from a library to a spool, a temporary file.

    With `fill`, nested objects of one column get the same keys, with None for missing ones. Raises InputError for a
    row that is not a mapping or that has a value without a JSON form.
    """
    spool = Spool()
    for number, row in enumerate(rows):
        where = f"{path}{unit.format(number)}"
        if not isinstance(row, Mapping):
            message = f"expected a document (a mapping), found {type(row).__name__}"
            raise InputError(Problem(where, message))
        try:
            spool.add(encode_row(row))
        except (UnsupportedValue, UnicodeEncodeError) as error:
            raise InputError(Problem(where, str(error))) from None
    return SpooledDocuments(spool, path, unit, fill=fill)
