"""A column of whole numbers in pages, which a long run keeps in a file instead of memory.

    file = PageFile(folder)
    offsets = PagedColumn("q", file)
    offsets.append(4711)
    offsets[0]

The index of a run has about thirty bytes a case. The run writes them nearly in the order of the cases, and reads them
once, at its end, in that order. So it needs few pages in memory, whatever the number of cases. Readers of a run have no
file: they search all pages at once.
"""

from __future__ import annotations

import os
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from mmap import MADV_DONTNEED, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, cast

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assay.journal.room import Room

# Values of a page. A page of offsets has 128 KB: enough for numpy to search a million calls in half a millisecond, and
# small enough to be read for a single case.
PAGE = 1 << 14

# Quoted, because an array has no type parameter at run time.
Numbers = Union["array[int]", memoryview]
Fill = Callable[["array[Any]", memoryview], "array[Any]"]
"""Returns a column with the content of a sidecar: `copy_column`, or `map_column` for columns that will not grow."""


def copy_column(column: array[Any], content: memoryview) -> array[Any]:
    """Return the empty column, filled."""
    column.frombytes(content)
    return column


def map_column(column: array[Any], content: memoryview) -> array[Any]:
    """Return a view of the sidecar that can be read like the column. It takes memory only where it is read."""
    typecode = cast("Any", column.typecode)  # an array of Any has any of them
    return cast("array[Any]", content.cast(typecode)) if len(content) else column


def release_pages(view: memoryview) -> None:
    """Give the memory of a mapped sidecar back to the system. The next reader of a page gets it from the file."""
    mapping = view.obj
    if isinstance(mapping, mmap):
        mapping.madvise(MADV_DONTNEED)


class PageFile:
    """An unnamed file for the pages of several columns. It disappears with the object, and when the process is killed.

    It is beside the journal, because the temporary folder of many systems is in memory.
    """

    def __init__(self, folder: Path, room: Room | None = None) -> None:
        """`room` is what the run has reserved on its disk. Once it is given up, it is for replies in flight only."""
        self._folder = folder
        self._room = room
        self._fd = -1  # opened by the first page: most runs have none
        self._size = 0

    def add(self, page: Numbers) -> int | None:
        """Write a new page. Returns its place; None if that fails, as on a full disk: the page then stays in memory."""
        if self._room is not None and self._room.stop is not None:
            return None
        try:
            if self._fd < 0:
                # A fixed name: if a kill comes before the removal, the next start removes the file.
                path = self._folder / ".pages"
                self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
                weakref.finalize(self, os.close, self._fd)
                path.unlink(missing_ok=True)
            place = self._size
            self.write(place, page)
        except OSError:
            return None
        self._size += memoryview(page).nbytes
        return place

    def write(self, place: int, page: Numbers) -> None:
        """Write a page to this place."""
        rest = memoryview(page).cast("B")
        while rest:
            written = os.pwrite(self._fd, rest, place)
            rest, place = rest[written:], place + written

    def read(self, place: int, page: array[int], size: int) -> array[int]:
        """Return the empty page, filled with the bytes from this place on."""
        page.frombytes(os.pread(self._fd, size, place))
        return page


class PagedColumn:
    """A column of whole numbers. With a file, only its last two pages and the one that was read last are in memory."""

    def __init__(self, typecode: str, file: PageFile | None = None, size: int = PAGE) -> None:
        self.itemsize = array(typecode).itemsize
        self._typecode = typecode
        self._file = file
        self._size = size
        # All full pages: themselves, or their place in the file.
        self._full: list[Numbers | int] = []
        self._last = self._new_page()
        # The page that was read or changed last, and the position of its first value. `_changed` says that the file has
        # older values.
        self._page: Numbers = self._last
        self._begin = 0
        self._changed = False

    def __len__(self) -> int:
        return len(self._full) * self._size + len(self._last)

    def append(self, value: int) -> None:
        """Add a value at the end."""
        # This runs several times for each case of a run.
        last = self._last
        last.append(value)
        if len(last) == self._size:
            self._end_page()

    def extend(self, values: Iterable[int]) -> None:
        """Add values at the end."""
        rest = iter(values)
        while chunk := list(islice(rest, self._size - len(self._last))):
            self._last.extend(chunk)
            if len(self._last) == self._size:
                self._end_page()

    def __getitem__(self, index: int) -> int:
        place = index - self._begin
        if not 0 <= place < self._size:
            place = self._open(index)
        return self._page[place]

    def __setitem__(self, index: int, value: int) -> None:
        place = index - self._begin
        if not 0 <= place < self._size:
            place = self._open(index)
        try:
            self._page[place] = value
        except TypeError:  # a page of the sidecar, which never changes
            self._page = self._full[self._begin // self._size] = array(self._typecode, self._page)
            self._page[place] = value
        self._changed = True

    def __iter__(self) -> Iterator[int]:
        for page in self.pages():
            yield from page.tolist()

    def pages(self) -> Iterator[Numbers]:
        """Yield all values, page by page. Do not change the pages, and do not keep them."""
        self._write_back()
        for page in self._full:
            yield self._read(page) if isinstance(page, int) else page
        yield self._last

    def to_numpy(self) -> NDArray[Any]:
        """Return all values as one array, which is a copy."""
        import numpy as np

        return np.concatenate([np.asarray(page) for page in self.pages()])

    def load(self, content: memoryview, fill: Fill) -> None:
        """Fill the empty column with the content of a sidecar. With a file, the content is copied to it."""
        page_bytes = self._size * self.itemsize
        full_bytes = len(content) // page_bytes * page_bytes
        for begin in range(0, full_bytes, page_bytes):
            page = content[begin : begin + page_bytes]
            place = self._file.add(page) if self._file is not None else None
            if place is None:
                self._full.append(fill(self._new_page(), page))
            else:
                self._full.append(place)
                release_pages(content)
        self._last.frombytes(content[full_bytes:])
        self._begin = len(self._full) * self._size

    def _new_page(self) -> array[int]:
        return array(cast("Any", self._typecode))

    def _end_page(self) -> None:
        self._full.append(self._last)
        self._last = self._new_page()
        # The page before this one goes to the file. This one will still change: cases end in another order than they
        # began.
        before = self._full[-2] if len(self._full) > 1 else 0
        if self._file is not None and not isinstance(before, int):
            place = self._file.add(before)
            if place is not None:
                self._full[-2] = place

    def _open(self, index: int) -> int:
        """Make the page of this position the one to read and to change. Returns the position in the page."""
        self._write_back()
        number, place = divmod(index, self._size)
        page = self._last if number == len(self._full) else self._full[number]
        self._page = self._read(page) if isinstance(page, int) else page
        self._begin = index - place
        return place

    def _read(self, place: int) -> array[int]:
        assert self._file is not None
        return self._file.read(place, self._new_page(), self._size * self.itemsize)

    def _write_back(self) -> None:
        """Write the changed page to the file, if it is one of the file's pages."""
        number = self._begin // self._size
        if self._changed and number < len(self._full):
            place = self._full[number]
            if isinstance(place, int):
                assert self._file is not None
                try:
                    self._file.write(place, self._page)
                except OSError:
                    self._full[number] = self._page
        self._changed = False
