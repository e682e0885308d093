"""The numbers of a step over all tests."""

from __future__ import annotations

import random

import numpy as np
import pytest

from assay.suites.pipeline.tally import StepTally


@pytest.mark.parametrize("count", [0, 1, 2, 19, 20, 21, 200])
def test_seconds_of_a_step_are_shown_as_median_and_95th_percentile(count: int) -> None:
    """Tests can still be added afterwards."""
    seconds = [random.Random(at).random() for at in range(count)]
    step = StepTally()
    for value in seconds:
        step.add({"status": "ok", "seconds": value})
    row = step.row("one")
    assert row == step.row("one")
    assert row[:2] == ["one", count]
    expected = [None, None] if not seconds else np.percentile(seconds, [50, 95]).tolist()
    assert row[5:7] == pytest.approx(expected)
    step.add({"status": "ok", "seconds": 1.0})
    assert step.row("one")[1] == count + 1
