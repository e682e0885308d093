"""Filters turn the replies to one request into what is scored. One file each, found by its name.

A filter's `build(**options)` returns a function from the list of repeats to a list, or, for filters that
select, to a single value. Replies are strings until a filter such as `map` makes something else of them.
A filter that looks at the document too says `TAKES_DOC = True`: then its function takes `(replies, doc)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Filter = Callable[[list[Any]], Any]
DocFilter = Callable[[list[Any], dict[str, Any]], Any]


def takes_doc(module: Any) -> bool:
    """Whether the filter of this module wants the document beside the replies."""
    return bool(getattr(module, "TAKES_DOC", False))
