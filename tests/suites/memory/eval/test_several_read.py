"""Pipeline files of several memories from another tool, judged together."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.commands import typed
from support.memory_samples import Samples, entry_of, lines, sample, subjects_of


@pytest.fixture
def samples(tmp_path: Path) -> Samples:
    """Two samples, with two sessions and with one."""
    return Samples(tmp_path, sample("s1", 2), sample("s2", 1))


def judge(samples: Samples) -> int:
    """As one types it, without data, memory or model."""
    return typed("memory", "eval", "--eval-only", "--output-dir", str(samples.out), "--judge", "offline")


def test_their_figures_are_those_of_a_run(samples: Samples) -> None:
    """Every sample is a cluster of its own, in whatever order the files name them."""
    run = samples.run(baseline=["bm25,STMemory"])
    shutil.rmtree(samples.out / "assay")
    read = samples.run(baseline=[], dataset="", model="", eval_only=True)
    for name in subjects_of(run):
        metrics = entry_of(run, name).metrics
        assert [metric.clusters for metric in metrics[:2]] == [2, 2]
        assert entry_of(read, name).metrics == metrics


def test_they_are_compared(samples: Samples, capsys: pytest.CaptureFixture[str]) -> None:
    """A sample is the same whatever a memory made of it, so the closing table has pairs."""
    samples.run(baseline=["bm25,STMemory"])
    shutil.rmtree(samples.out / "assay")
    assert judge(samples) == 0
    compared = [line.split() for line in capsys.readouterr().out.splitlines() if "question answering" in line]
    assert compared[-1][:2] == ["STMemory", "bm25"]


def test_without_a_sample_in_common_they_are_not_compared(samples: Samples, capsys: pytest.CaptureFixture[str]) -> None:
    """It is said, and all else is shown: what was judged is judged, and the exit code is 0."""
    samples.run(baseline=["bm25,STMemory"])
    shutil.rmtree(samples.out / "assay")
    for memory, name in (("bm25", "s1"), ("STMemory", "s2")):
        for path in (samples.out / memory).glob("pipeline_*.jsonl"):
            lines_of_sample = [line for line in path.read_text().splitlines() if f'"sample_id":"{name}"' in line]
            path.write_text("".join(f"{line}\n" for line in lines_of_sample))
    assert judge(samples) == 0
    out = capsys.readouterr().out
    assert "not compared: " in out
    assert "wrote " in out
    assert len(lines(samples.out / "bm25" / "qa_records.jsonl")) == 2
