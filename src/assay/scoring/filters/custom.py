"""Filter `custom`: applies a Python function of the user.

lm-evaluation-harness calls the function once with all documents. assay calls it once per document, so a function
that compares documents does not work here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from assay.core.errors import UsageError
from assay.scoring.filters import DocFilter

TAKES_DOC = True


def build(*, filter_fn: Callable[[list[list[Any]], list[dict[str, Any]]], Iterable[Any]]) -> DocFilter:
    """Return the filter. `filter_fn(resps, docs)` gets lists of one document and returns its filtered replies."""
    if not callable(filter_fn):
        raise UsageError(f"`filter_fn` is {filter_fn!r}; name a Python function: !function file.function")
    return lambda replies, doc: next(iter(filter_fn([replies], [doc])))
