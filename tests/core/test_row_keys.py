from __future__ import annotations

from hypothesis import given, strategies as st

from assay.core.row_keys import RepeatedKeys, UniqueKeys, row_key


@given(st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), max_size=30))
def test_equal_rows_are_numbered_in_order(rows: list[bytes]) -> None:
    """The first of equal rows keeps the plain key, the n-th gets ~n, and all names differ."""
    finder = RepeatedKeys()
    for row in rows:
        finder.add(row_key(row))
    unique_keys = UniqueKeys(finder.keys())
    names = [unique_keys.of(row_key(row)) for row in rows]
    assert len(set(names)) == len(rows)
    assert [name.partition("~")[0] for name in names] == [row_key(row) for row in rows]


def test_many_rows_are_searched_without_a_set_of_all() -> None:
    """Above fifty thousand rows repeated keys are found by sorting."""
    finder = RepeatedKeys()
    for number in range(60_000):
        finder.add(row_key(b"%d" % (number % 59_999)))
    assert finder.keys() == [row_key(b"0")]
