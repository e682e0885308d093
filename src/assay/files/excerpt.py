"""Cuts long texts for messages. Every text of a user, a model or an endpoint that is cut gets the same mark.

    cut_end("a long reply", 6)      # "a long…"
    cut_start("a long log", 4)      # "… log"

A text is often cut before its secrets are redacted. `redact.py` recognises a part of a secret by the mark beside it.
"""

from __future__ import annotations

CUT = "…"


def cut_end(text: str, max_chars: int) -> str:
    """Return the first `max_chars` characters of a text with the mark after them; a shorter text unchanged."""
    return text if len(text) <= max_chars else f"{text[:max_chars]}{CUT}"


def cut_start(text: str, max_chars: int) -> str:
    """Return the last `max_chars` characters of a text with the mark before them; a shorter text unchanged."""
    return text if len(text) <= max_chars else f"{CUT}{text[len(text) - max_chars :]}"
