"""kill -9 at random moments in every suite: only what was in flight is asked again, and the results are the same.

`make kills` plays 100 kills; KILLS says how many.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from servers.fake_openai import FakeOpenAI
from support.killed_runs import KILLABLE, KillableRuns, KillScenario

KILLS = int(os.environ.get("KILLS", "10"))
# A group of kills in a process of pytest-xdist. A suite's undisturbed run is made once in each.
GROUP = 25


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KillableRuns]:
    with FakeOpenAI() as server:
        yield KillableRuns(tmp_path_factory.mktemp("kills"), server)


@pytest.mark.parametrize("first", range(0, KILLS, GROUP))
def test_a_kill_costs_only_what_was_in_flight(runs: KillableRuns, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the requests to the endpoint, none that was logged comes again; reports, files and cases are the same."""
    monkeypatch.setenv("ASSAY_DATA", "calibrations")  # in the folder of each run
    last = min(first + GROUP, KILLS)
    in_flight = 0
    for seed in range(first, last):
        scenario = KillScenario(runs, seed)
        try:
            in_flight += scenario.play()
        except Exception as error:
            raise AssertionError(f"{scenario}: {error}") from error
    print(f"kills {first} to {last - 1}: {in_flight} requests were in flight and asked again")  # noqa: T201


def test_every_suite_is_killed() -> None:
    """The first ten kills, which CI plays, are of all suites."""
    assert len({killable.suite for killable in KILLABLE}) == len(KILLABLE) == 7
