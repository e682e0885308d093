"""The check that always runs, and asks nobody: no text of a result is a dict or list in disguise.

A model that writes `{"items": "['a', 'b']"}` meant a list. Whoever used that text as it is would go wrong.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import msgspec

from assay.solvers.hop.verifiers import PASSED, Verdict, failed
from assay.solvers.hop.wording import cut

_PAIRS = {"{": "}", "[": "]", "(": ")"}
_LONGEST = 100_000
_MOST_BRACKETS = 1_000
_SHOWN = 60


def verify_format(result: Any) -> Verdict:
    """Fails with the place of the first such text."""
    for where, text in _texts(result):
        if _is_container(text):
            shown = cut(text, _SHOWN)
            return failed(f"{where} is text that holds an object or a list: {shown!r}; write it as JSON")
    return PASSED


def _texts(value: Any) -> Iterator[tuple[str, str]]:
    """Every text in the tree with its place, without recursion: a reply may be nested deeply."""
    waiting = [("result", value)]
    while waiting:
        where, each = waiting.pop()
        if isinstance(each, str):
            yield where, each
        elif isinstance(each, dict):
            waiting.extend((f"{where}.{name}", inner) for name, inner in reversed(each.items()))
        elif isinstance(each, list):
            waiting.extend((f"{where}[{at}]", each[at]) for at in reversed(range(len(each))))


def _is_container(text: str) -> bool:
    text = text.strip()
    if not text or _PAIRS.get(text[0]) != text[-1]:
        return False
    try:
        return isinstance(msgspec.json.decode(text), (dict, list))
    except (ValueError, RecursionError):
        return _is_literal(text)


def _is_literal(text: str) -> bool:
    """As Python writes it. Its parser is only given what cannot exhaust it."""
    if len(text) > _LONGEST or sum(map(text.count, _PAIRS)) > _MOST_BRACKETS:
        return False
    try:
        return isinstance(ast.literal_eval(text), (dict, list, tuple, set))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return False
