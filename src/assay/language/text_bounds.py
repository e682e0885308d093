"""The bound for the text of a rendered template. Those of files are in `files/read.py`."""

from __future__ import annotations

# Characters of a rendered template. Far beyond any context window: a larger text is a mistake or an attack.
MAX_TEXT_CHARS = 10_000_000
TEXT_TOO_LARGE = f"the result would be larger than {MAX_TEXT_CHARS:,} characters"
