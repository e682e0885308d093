"""Texts of models and data files on a page: always text, never markup.

`visible` escapes a text and shows the characters that people cannot see: control characters and those that turn the
direction of writing. `preview` cuts a long text, because a browser that gets megabytes of text stops to respond.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import lru_cache
from typing import Any, NamedTuple

from markupsafe import Markup, escape
from msgspec import Struct

MAX_CHARS = 10_000
MAX_LINES = 100
"""Longer texts are cut. A link beside them shows the rest."""

# Controls except tab and line break; soft hyphen and other invisible format characters; bidi controls; line and
# paragraph separators; surrogates, which UTF-8 cannot encode; tags. The joiners U+200C and U+200D are left alone:
# Persian words and many emoji need them.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)


class Preview(NamedTuple):
    """The beginning of a text, and how much of it is not shown."""

    text: str
    chars: int
    """The length of the whole text."""
    is_cut: bool


class TextBlock(Struct):
    """A text with a heading. `id` names it in the address that shows all of it."""

    id: str
    heading: str
    text: Preview
    kind: str = ""


def visible(value: object) -> Markup:
    """Return a text for the inside of an element: escaped, with invisible characters as their code."""
    text = value if isinstance(value, str) else str(value)
    if _INVISIBLE.search(text) is None:
        return escape(text)
    parts, start = [], 0
    for match in _INVISIBLE.finditer(text):
        parts += [escape(text[start : match.start()]), _code_of(match.group())]
        start = match.end()
    return Markup("").join([*parts, escape(text[start:])])


def plain(value: object) -> str:
    """Return a text for an attribute or a title: invisible characters become `�`. The template escapes it."""
    return _INVISIBLE.sub("�", str(value))


def as_text(value: Any) -> str:
    """Return a JSON value as people read it: a text as it is, anything else as indented JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def preview(text: str, *, whole: bool = False, max_chars: int = MAX_CHARS, max_lines: int = MAX_LINES) -> Preview:
    """Return the first lines and characters of a text, or all of it."""
    if whole:
        return Preview(text, len(text), is_cut=False)
    end = min(len(text), max_chars)
    at = -1
    for _ in range(max_lines):
        at = text.find("\n", at + 1, end)
        if at < 0:
            break
    else:
        end = at
    return Preview(text[:end], len(text), is_cut=end < len(text))


@lru_cache(maxsize=256)
def _code_of(character: str) -> Markup:
    code = f"U+{ord(character):04X}"
    name = unicodedata.name(character, "CONTROL CHARACTER")
    return Markup('<span class="code-point" title="{}">{}</span>').format(f"{code} {name}", code)
