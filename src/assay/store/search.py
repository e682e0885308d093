"""Finds a text in the prompts, replies and records of a run, without an index of words.

    for hit in search(folder, "Eiffel"):
        hit.case, hit.place, hit.excerpt

The bytes of the journal are searched first; only lines that contain the text are decoded. So a word that is nowhere
costs one pass over the bytes, and a common word yields its first hits at once. Any script works, also Chinese.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.core.errors import UsageError, unknown
from assay.core.types import CallIndex
from assay.files.plain_files import open_plain_file, plain_size
from assay.journal.line_types import CALLS, RECORDS, SCORES
from assay.journal.lines import NO_LINE, is_intact, read_header, seed

# Bytes to search at once. So many stay in the cache of a core.
_BLOCK_BYTES = 1 << 18
_EXCERPT_CHARS = 60
PLACES = {"prompt": CALLS, "reply": CALLS, "record": RECORDS, "score": SCORES}
"""Where to search, with the file that has it."""
# The keys of a line that have the texts of a place.
_KEYS = {
    "prompt": ("request",),
    "reply": ("response", "failure"),
    "record": ("data",),
    "score": ("reason", "data", "expected", "label"),
}


class _LineIndex(msgspec.Struct):
    index: CallIndex


_indices = msgspec.json.Decoder(_LineIndex)


class Hit(NamedTuple):
    """A line with the text: its case, where it is, the byte at which it begins, and what stands around the text."""

    case: int
    place: str
    offset: int
    excerpt: str


def search(
    folder: Path,
    text: str,
    places: Sequence[str] = ("prompt", "reply", "record"),
    progress: Callable[[float], object] | None = None,
    after: tuple[str, int] | None = None,
) -> Iterator[Hit]:
    """Yield the lines that contain a text, in upper or lower case, in the order of the files.

    `progress` gets the share of the bytes that were searched. `after` is the place and offset of a hit: the search goes
    on behind it. Raises UsageError for an empty text or an unknown place.
    """
    if not text.strip():
        raise UsageError("the text to search for is empty")
    for place in places:
        if place not in PLACES:
            raise UsageError(unknown("place", place, list(PLACES)))
    # As the text stands in JSON: escaped, and without the quotes. `_folded` makes ASCII letters equal, so other letters
    # are searched as they were typed, in lower case, in upper case and as in a title.
    spellings = {text, text.lower(), text.upper(), text.title()}
    needles = {bytes(_folded(json.dumps(each, ensure_ascii=False)[1:-1].encode())) for each in spellings}
    files = list(dict.fromkeys(PLACES[place] for place in places))
    sizes = {name: plain_size(folder / name) or 0 for name in files}
    total, done = sum(sizes.values()) or 1, 0
    first, offset_of_hit = (PLACES[after[0]], after[1]) if after is not None else ("", 0)
    if first in files:
        done = sum(sizes[name] for name in files[: files.index(first)])
        files = files[files.index(first) :]
    for name in files:
        if not sizes[name]:
            continue
        chosen = [place for place in places if PLACES[place] == name]
        checksum_start = seed(read_header(folder / name, damage=[]).run, (folder / name).stem)
        with open_plain_file(folder / name) as file:
            offset = len(file.readline())  # the header
            if name == first and offset_of_hit >= offset:
                file.seek(offset_of_hit)
                offset = offset_of_hit + len(file.readline())
            while block := file.read(_BLOCK_BYTES):
                block += file.readline()
                for start, content in _lines_with(block, needles):
                    if not is_intact(content, offset + start, checksum_start):
                        continue  # a damaged line; `assay check` names it
                    try:
                        index = _indices.decode(content).index
                        line = msgspec.json.decode(content)
                    except NO_LINE:
                        continue  # a forged line; `assay check` names it too
                    for place in chosen:
                        if excerpt := _excerpt(line, _KEYS[place], text):
                            yield Hit(index, place, offset + start, excerpt)
                            break
                offset += len(block)
                if progress is not None:
                    progress(min(1.0, (done + offset) / total))
        done += sizes[name]


def _lines_with(block: bytes, needles: set[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a block that contain one of the needles, with their positions."""
    folded = _folded(block)
    starts = set()
    for needle in needles:
        begin = 0
        while (found := folded.find(needle, begin)) >= 0:
            end = block.find(b"\n", found)
            if end < 0:
                break  # a line that is still being written
            starts.add((block.rfind(b"\n", 0, found) + 1, end))
            begin = end + 1
    for start, end in sorted(starts):
        yield start, block[start:end]


def _folded(text: bytes) -> bytearray:
    """Return the text with one bit set in every byte, which makes upper and lower case of ASCII letters equal.

    It makes other bytes equal too, so a hit must be checked. It takes a tenth of the time of `bytes.lower`.
    """
    import numpy as np

    folded = bytearray(len(text))
    np.bitwise_or(np.frombuffer(text, np.uint8), 0x20, out=np.frombuffer(folded, np.uint8))
    return folded


def _excerpt(line: dict[str, Any], keys: Sequence[str], text: str) -> str:
    """Return the text with what stands around it, in one line. Empty if it is only in other keys of the line."""
    wanted = text.casefold()
    for key in keys:
        for value in _texts(line.get(key)):
            found = value.casefold().find(wanted)
            if found >= 0:
                start, end = max(0, found - _EXCERPT_CHARS), found + len(text) + _EXCERPT_CHARS
                cut = " ".join(value[start:end].split())
                return ("…" if start else "") + cut + ("…" if end < len(value) else "")
    return ""


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value. Keys of objects are not searched."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
