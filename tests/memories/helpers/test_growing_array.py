"""An array that grows."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from assay.memories.helpers.scores import GrowingArray


@given(st.lists(st.lists(st.integers(-9, 9), max_size=90), max_size=6))
def test_rows_come_back_in_order(parts: list[list[int]]) -> None:
    """Whatever their number at once."""
    numbers, pairs = GrowingArray("i4"), GrowingArray("f4", 2)
    for part in parts:
        numbers.extend(part)
        pairs.extend(np.array([[number, -number] for number in part]).reshape(-1, 2))
    whole = [number for part in parts for number in part]
    assert numbers.rows.tolist() == whole
    assert pairs.rows.tolist() == [[number, -number] for number in whole]
    assert len(numbers) == len(pairs) == len(whole)


def test_room_is_doubled() -> None:
    """A hundred thousand rows are copied a dozen times, and not each time."""
    grown, rooms = GrowingArray("i4"), set()
    for number in range(100_000):
        grown.extend([number])
        rooms.add(len(grown._buffer))
    assert len(rooms) == 12
