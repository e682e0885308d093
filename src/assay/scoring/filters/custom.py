"""Applies a Python function of the user's own.

The harness hands it all documents at once, we hand it one: a function that looks across documents sees
only one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from assay.core.errors import UsageError
from assay.scoring.filters import DocFilter

TAKES_DOC = True


def build(*, filter_fn: Callable[[list[list[Any]], list[dict[str, Any]]], Iterable[Any]]) -> DocFilter:
    """`filter_fn(resps, docs)` takes lists over documents and gives what is left of each one's replies."""
    if not callable(filter_fn):
        raise UsageError(f"`filter_fn` is {filter_fn!r}; name a Python function: !function file.function")
    return lambda replies, doc: next(iter(filter_fn([replies], [doc])))
