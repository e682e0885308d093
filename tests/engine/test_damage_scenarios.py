"""Whatever happens to the files of a run folder: assay names it or heals it, and never shows another number.

Each scenario damages a small run of one of the suites at random: flipped, cut, doubled, moved and exchanged bytes, lines
and files. `make prove-damage` plays 2,000 of them.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from assay.journal import journal, sidecar

from support.damaged_runs import Scenario, SmallRuns

COUNT = int(os.environ.get("DAMAGE_SCENARIOS", "42"))
BLOCK = 250


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> SmallRuns:
    """All small runs, made once. They have sidecars, as large runs do."""
    with pytest.MonkeyPatch.context() as patch:
        _small_runs_have_sidecars(patch)
        return SmallRuns(tmp_path_factory.mktemp("runs"))


def _small_runs_have_sidecars(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sidecar, "MIN_LINES", 1)
    patch.setattr(journal, "MIN_LINES", 1)
    patch.setenv("ASSAY_DATA", "calibrations")  # in the folder of each run


@pytest.mark.parametrize("first", range(0, COUNT, BLOCK))
def test_damage_is_named_or_healed(runs: SmallRuns, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No number changes silently, no traceback, no run that cannot go on, no logged call that is sent again."""
    _small_runs_have_sidecars(monkeypatch)
    verdicts: Counter[str] = Counter()
    failures = []
    for seed in range(first, min(first + BLOCK, COUNT)):
        scenario = Scenario(runs, seed)
        try:
            verdicts[scenario.play()] += 1
        except Exception as error:  # noqa: BLE001 - a traceback is a failure like any other
            failures.append(f"{scenario}: {type(error).__name__}: {error}")
    counts = ", ".join(f"{count} {kind}" for kind, count in verdicts.items())
    print(f"scenarios {first} to {seed}: {counts}")  # noqa: T201 - `make prove-damage` shows it
    assert not failures, "\n\n".join(failures)
