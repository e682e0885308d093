"""Errors are counted by type and line, and named as a person would look for them."""

from __future__ import annotations

from assay.core.error_counts import ErrorCount, ErrorCounts, with_place
from assay.core.types import Failure

TRACEBACK = 'Traceback (most recent call last):\n  File "/a/b/Hop.py", line 3, in f\n  File "/a/Hop.py", line 14, in hop\nKeyError: 2'


def test_errors_of_one_type_at_one_line_are_one_error() -> None:
    counts = ErrorCounts()
    counts.add("[ValueError] other")
    for name in ("a", "b"):
        counts.add(f"[KeyError] '{name}' (Hop.py:14: return row[name])")
    counts.add("KeyError: 'c'", TRACEBACK)
    counts.add("[ValueError] 1 (Hop.py:14: return row[name])")
    assert counts.all() == [
        ErrorCount("KeyError: 'a'", 3, "Hop.py:14"),
        ErrorCount("ValueError: other", 1),
        ErrorCount("ValueError: 1", 1, "Hop.py:14"),
    ]
    assert str(counts.all()[0]) == "KeyError: 'a' at Hop.py:14"


def test_counts_of_several_tallies_are_added() -> None:
    first, second = ErrorCounts(), ErrorCounts()
    first.add("no JSON")
    second.add("no JSON")
    second.add("too long")
    assert [(error.message, error.count) for error in ErrorCounts([*first.all(), *second.all()]).all()] == [
        ("no JSON", 2),
        ("too long", 1),
    ]


def test_a_message_gets_its_place_once_and_stays_one_short_line() -> None:
    assert with_place(Failure("user_code", "KeyError: 2", traceback=TRACEBACK)) == "KeyError: 2 (Hop.py:14)"
    located = Failure("user_code", "[KeyError] 2 (Hop.py:14: x)", traceback=TRACEBACK)
    assert with_place(located) == located.message
    assert with_place(Failure("refusal", "no")) == "no"
    counts = ErrorCounts()
    counts.add("a\nb " + "x" * 1_000)
    assert len(counts.all()[0].message) == 200
    assert counts.all()[0].message.startswith("a b ")
