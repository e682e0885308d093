"""Filters turn the replies to one request into what is scored. One file each, found by its name.

A filter's `build(**options)` returns a function from the list of repeats to a list, or, for filters that
select, to a single value. Replies are strings until a filter such as `map` makes something else of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Filter = Callable[[list[Any]], Any]
