"""Cuts long texts for messages. Every text of a user, a model or an endpoint that is cut gets the same mark.

    cut_end("a long reply", 6)      # "a long…"
    cut_start("a long log", 4)      # "… log"

Many texts are cut before their secrets are redacted, and a redactor does not recognise half a secret. So no cut divides
one: if a secret lies across the place of the cut, `cut_end` returns `a lo[redacted]…`. In a process that has no
`Redactor`, such as the worker of a cluster, the secrets are those of its environment. A process that must not know
secrets leaves the cutting to the one that started it (`suites/pipeline/code/worker.py`).
"""

from __future__ import annotations

from assay.files.redact import MARK, secret_across

CUT = "…"


def cut_end(text: str, max_chars: int) -> str:
    """Return the first `max_chars` characters of a text with the mark after them; a shorter text unchanged."""
    if len(text) <= max_chars:
        return text
    secret = secret_across(text, max_chars)
    return f"{text[:max_chars]}{CUT}" if secret is None else f"{text[: secret[0]]}{MARK}{CUT}"


def cut_start(text: str, max_chars: int) -> str:
    """Return the last `max_chars` characters of a text with the mark before them; a shorter text unchanged."""
    if len(text) <= max_chars:
        return text
    place = len(text) - max_chars
    secret = secret_across(text, place)
    return f"{CUT}{text[place:]}" if secret is None else f"{CUT}{MARK}{text[secret[1] :]}"
