"""The executor changes nothing: reports, files and cases of a run on Ray are those of a local run, but for times."""

from __future__ import annotations

from collections import Counter
from contextlib import chdir
from pathlib import Path

import pytest

from servers.fake_openai import FakeOpenAI
from support.damaged_runs import Reading, same
from support.killed_runs import KILLABLE, Killable, KillableRuns, options_of, reading_of
from support.ray_cluster import LocalCluster


@pytest.mark.parametrize("killable", KILLABLE, ids=lambda each: each.suite)
def test_a_run_on_ray_has_the_files_of_a_local_run(
    killable: Killable,
    cluster: LocalCluster,
    server: FakeOpenAI,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ASSAY_DATA", "calibrations")
    runs = KillableRuns(tmp_path, server)
    whole = runs.whole(killable)
    server.reset()
    with chdir(runs.folder(killable, "ray")):
        run = killable.start(**options_of(killable, server.url, "out"), executor="ray", workers=2)
        reading = reading_of(run)
    assert Counter(seen.reply for seen in server.stats().requests) == whole.requests
    for name in Reading._fields:
        same(getattr(reading, name), getattr(whole.reading, name), name)
