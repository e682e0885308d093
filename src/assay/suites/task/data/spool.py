"""Documents that stand in no file: written once into an unnamed file, so that memory stays flat."""

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
from pathlib import Path
from typing import Any

from assay.core.errors import InputError, Problem, cannot_write
from assay.suites.task.data.docs import Doc, Docs, Facts
from assay.suites.task.data.plain import Unreadable, encode_row
from assay.suites.task.data.shape import Shape

_PIECE = 1 << 18
_MANY_FILES = 65_536


class Spool:
    """Lines in an unnamed temporary file, eight bytes of memory each; gone when nobody holds it."""

    def __init__(self) -> None:
        _allow_many_files()
        with tempfile.TemporaryFile() as file:
            self._file = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._file)
        self._ends = array("Q", [0])
        self._pending = bytearray()
        self._digest = hashlib.sha256()

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, raw: bytes) -> None:
        """Write one more line."""
        self._pending += raw
        self._pending += b"\n"
        self._ends.append(self._ends[-1] + len(raw) + 1)
        if len(self._pending) >= _PIECE:
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
        """The content's name."""
        if self._pending:
            self._flush()
        return self._digest.hexdigest()


@cache
def _allow_many_files() -> None:
    """A run may have thousands of tasks, each with a file of its own; some systems allow 256 at first."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MANY_FILES if most == resource.RLIM_INFINITY else min(most, _MANY_FILES)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


class SpooledDocs(Docs):
    """Documents of a spool. `path` and `unit` are how messages name them."""

    def __init__(self, spool: Spool, path: Path, unit: str, *, fill: bool = False) -> None:
        super().__init__("rows", [path])
        self.spool = spool
        self.unit = unit
        self._fill = fill

    def _shape(self) -> Shape:
        return Shape(times=False, fill=self._fill)

    def _changes(self, shape: Shape) -> dict[str, Any]:
        return shape.changes()

    def _in_lines(self) -> bool:
        return False

    def identity(self) -> list[str]:
        """The rows by content."""
        return [self.spool.digest()]

    def doc(self, number: int) -> Doc:
        """One document by its number."""
        return Doc(number, self.spool[number], self.files[0], number, self.unit)

    def rows(self, limit: int | None = None, skip: Callable[[int], bool] | None = None) -> Iterator[Doc]:
        """The documents in order; those that are skipped are not read."""
        total = len(self.spool) if limit is None else min(limit, len(self.spool))
        return (self.doc(number) for number in range(total) if skip is None or not skip(number))

    def _sources(self, problems: list[Problem]) -> Iterator[tuple[Path, str, Iterator[tuple[int, bytes]]]]:
        yield self.files[0], self.unit, enumerate(self.spool)

    def as_seen_by(self, docs: Docs) -> SpooledDocs:
        """The same rows, with the columns and types another look found."""
        facts = docs.facts
        self.facts = Facts(len(self.spool), facts.columns, facts.twins, [], facts.changes, facts.kinds)
        return self


def spooled(docs: Docs) -> SpooledDocs:
    """Documents of a file, to be read in any order."""
    if not docs.facts.columns:
        docs.look()
    if isinstance(docs, SpooledDocs):
        return docs
    spool = Spool()
    for doc in docs.rows():
        spool.add(doc.raw)
    return SpooledDocs(spool, docs.files[0], " document {}").as_seen_by(docs)


def spool_rows(rows: Iterable[Any], path: Path, unit: str, *, fill: bool = False) -> SpooledDocs:
    """Rows that code made, or a library gave, as documents. A row that is none is refused with its number."""
    spool = Spool()
    for number, row in enumerate(rows):
        where = f"{path}{unit.format(number)}"
        if not isinstance(row, Mapping):
            found = f"expected a document (a mapping), found {type(row).__name__}"
            raise InputError(Problem(where, found))
        try:
            spool.add(encode_row(row))
        except (Unreadable, UnicodeEncodeError) as error:
            raise InputError(Problem(where, str(error))) from None
    return SpooledDocs(spool, path, unit, fill=fill)
