"""Filters, one per file. A filter extracts the scored answer from the replies of a model.

    def build(*, suffix: str = ".") -> Filter:         # options of the filter are keyword arguments
        return lambda replies: [reply.removesuffix(suffix) for reply in replies]

The function gets the replies to one request, one for each repeat. It returns a list, or a single value if it
selects one. Replies are strings until a filter such as `map` replaces them. A filter that needs the document
sets `TAKES_DOC = True`; its function then gets `(replies, doc)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Filter = Callable[[list[Any]], Any]
DocFilter = Callable[[list[Any], dict[str, Any]], Any]


def takes_doc(module: Any) -> bool:
    """Return whether the filter of this module needs the document in addition to the replies."""
    return bool(getattr(module, "TAKES_DOC", False))
