"""The executor changes nothing: reports, files and cases of a run on Ray are those of a local run, but for times."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import chdir
from pathlib import Path

import pytest

from servers.fake_openai import FakeOpenAI
from support.example_runs import EXAMPLES, ROOT, run_example
from support.killed_runs import KILLABLE, Killable, KillableRuns, Whole, options_of, reading_of
from support.ray_cluster import LocalCluster


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_on_ray_has_the_files_of_a_local_run(
    example: str, cluster: LocalCluster, server: FakeOpenAI, tmp_path: Path
) -> None:
    """Hop's observer.jsonl too, but for the order: on Ray it gets the lines of a row when the row ends."""
    local = run_example(example, tmp_path / "local", server)
    requests = Counter(seen.reply for seen in server.stats().requests)
    server.reset()
    ray = run_example(example, tmp_path / "ray", server, "--executor", "ray")
    with chdir(ROOT):
        assert len(ray.files) == len(local.files) > 0
        Whole(reading_of(local), requests).check(reading_of(ray), server)
    assert ray.summary.spent == local.summary.spent
    assert _observed(tmp_path / "ray") == _observed(tmp_path / "local")


@pytest.mark.parametrize(
    "killable",
    [each for each in KILLABLE if each.suite in ("evaluate", "calibration")],
    ids=lambda each: each.suite,
)
def test_a_run_on_ray_has_the_report_of_a_local_run(
    killable: Killable,
    cluster: LocalCluster,
    server: FakeOpenAI,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The suites that are no formats of others."""
    monkeypatch.setenv("ASSAY_DATA", "calibrations")
    runs = KillableRuns(tmp_path, server)
    whole = runs.whole(killable)
    server.reset()
    with chdir(runs.folder(killable, "ray")):
        run = killable.start(**options_of(killable, server.url, "out"), executor="ray", workers=2)
        reading = reading_of(run)
    whole.check(reading, server)


def _observed(output: Path) -> list[str]:
    """Return the lines of hop's observer without times and ids, in order of their content."""
    path = output / "observer.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    return sorted(
        json.dumps({key: value for key, value in line.items() if key not in ("run_id", "timestamp", "duration")})
        for line in lines
    )
