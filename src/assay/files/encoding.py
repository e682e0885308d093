"""Messages about files that are not UTF-8 or not JSON."""

from __future__ import annotations

import json
from contextlib import suppress

UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""A file that begins with one of these bytes is UTF-16."""

IS_UTF16 = "this is UTF-16; save the file as UTF-8"


def not_utf8(error: UnicodeDecodeError, line: int = 0) -> str:
    """Return why bytes are not UTF-8: the first wrong byte, with its line if that is known, and what to do."""
    if error.object[:2] in UTF16_MARKS:
        return IS_UTF16
    place = f" on line {line}" if line else ""
    byte = error.object[error.start]
    return f"not UTF-8: byte 0x{byte:02x}{place}, perhaps GBK, Latin-1 or Windows-1252; save the file as UTF-8"


def not_json(error: Exception, raw: bytes = b"") -> str:
    """Return why a text is not JSON, without msgspec's own words for that. `raw` is the text, if it is complete."""
    # Python's json module accepts NaN, Infinity and -Infinity, which are not JSON.
    constants: list[str] = []
    with suppress(ValueError, RecursionError):
        json.loads(raw, parse_constant=constants.append)
    if constants:
        return f"{constants[0]} is not JSON; write null or leave it out"
    return f"not JSON: {str(error).removeprefix('JSON is malformed: ')}"
