"""What a step took over all tests."""

from __future__ import annotations

import random

import pytest

from assay.suites.pipeline import tally
from assay.suites.pipeline.tally import StepTally


@pytest.mark.parametrize("count", [0, 1, 2, 19, 20, 21, 200])
def test_many_tests_have_the_numbers_of_few(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorted as a list or where they are, to the bit; and a test can still be added."""
    seconds = [random.Random(at).random() for at in range(count)]
    step = StepTally()
    for value in seconds:
        step.add({"status": "ok", "seconds": value})
    few = step.summary()
    monkeypatch.setattr(tally, "_FEW", 1)
    assert step.summary() == few
    assert few["p50"] == (sorted(seconds)[count // 2] if seconds else None)
    step.add({"status": "ok", "seconds": 1.0})
    assert step.summary()["ok"] == count + 1
