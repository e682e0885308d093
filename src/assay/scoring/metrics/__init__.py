"""Metrics compare one target with one answer. One file each, found by its name.

A metric's `build(**options)` returns `measure(target, answer)`. Its value for a doc is a number, or a pair
[target, answer] where only all docs together have a value; `AGGREGATIONS` names what can make one number of
them, the default first.
`RIGHT_WRONG` says whether a doc without an answer counts as 0 (else it is left out and counted).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Measure = Callable[[Any, Any], Any]
