from __future__ import annotations

from array import array
from unittest.mock import patch

from hypothesis import given, strategies as st

from assay.core import hashing
from assay.core.hashing import RepeatFinder, Twins, fingerprint, first_ones, row_key


def test_the_order_of_keys_does_not_change_a_fingerprint() -> None:
    """Equal content has one name."""
    assert fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})


@given(st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), max_size=30))
def test_equal_rows_are_numbered_in_order(rows: list[bytes]) -> None:
    """The first of equal rows keeps the plain key, the n-th gets ~n, and all names differ."""
    finder = RepeatFinder()
    for row in rows:
        finder.add(row_key(row))
    twins = Twins(finder.repeated())
    names = [twins.name(row_key(row)) for row in rows]
    assert len(set(names)) == len(rows)
    assert [name.partition("~")[0] for name in names] == [row_key(row) for row in rows]


def test_many_rows_are_searched_without_a_set_of_all() -> None:
    """Above fifty thousand rows repeated keys are found by sorting."""
    finder = RepeatFinder()
    for number in range(60_000):
        finder.add(row_key(b"%d" % (number % 59_999)))
    assert finder.repeated() == [row_key(b"0")]


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 3), max_size=30))
def test_the_first_of_equal_numbers_is_marked(numbers: list[int]) -> None:
    """Few or many: they are found in two ways that agree, and neither changes the numbers."""
    digests = array("Q", numbers)
    marks = [number not in numbers[:at] for at, number in enumerate(numbers)]
    assert list(first_ones(digests)) == marks
    with patch.object(hashing, "_NUMPY_FROM", 0):
        assert list(first_ones(digests)) == marks
    assert list(digests) == numbers
