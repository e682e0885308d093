"""`--dry-run` says where the cases would run. No cluster is started or asked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import assay
from assay.core.errors import ExecutorRefused, MissingExtra
from assay.runner import api


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    Path("hop.py").write_text("def hop(n, session):\n    return 'OK', {}\n")
    Path("rows.jsonl").write_text("".join(f'{{"n": {n}, "tag": "a"}}\n' for n in range(3)))
    Path("t.yaml").write_text(
        "task: t\ndataset_path: json\ndataset_kwargs: {data_files: rows.jsonl}\ntest_split: train\n"
        "output_type: generate_until\ndoc_to_text: '{{n}}'\ndoc_to_target: '{{n}}'\n"
    )


def _executor(**options: object) -> str:
    spec = assay.spec("task", tasks=["t.yaml"], model="openai/fake", executor="ray", **options)
    return api.overview(spec).facts["executor"]


def test_a_cluster_of_this_machine() -> None:
    assert _executor(workers=2) == "Ray, a cluster of this machine with 4 CPUs: 2 workers of 1 CPU"


def test_as_many_workers_as_there_is_work_for() -> None:
    text = "Ray, a cluster of this machine with 4 CPUs: as many workers of 1 CPU as it holds, at most 3"
    assert _executor() == text


def test_more_workers_than_the_machine_has_cpus() -> None:
    text = "Ray, a cluster of this machine with 4 CPUs: 3 workers of 2 CPU, which do not fit. The run would be refused"
    assert _executor(workers=3, worker_cpus=2.0) == text


def test_a_cluster_elsewhere_is_not_asked() -> None:
    """Nothing listens at this address."""
    text = "Ray at 127.0.0.1:1: 1 worker of 1 CPU and 0.5 GPU. It is not asked before the run starts"
    assert _executor(address="127.0.0.1:1", workers=1, worker_gpus=0.5) == text


def test_a_run_that_would_be_refused_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = assay.spec(
        "hop",
        target="hop.py:hop",
        data="rows.jsonl",
        model="openai/fake",
        shared_endpoint=True,
        executor="ray",
    )
    with pytest.raises(ExecutorRefused, match="shared endpoint"):
        api.overview(spec)
    monkeypatch.setattr("assay.executors.ray_cluster.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"assay\[ray\]"):
        _executor()


def test_without_ray_nothing_is_said() -> None:
    spec = assay.spec("task", tasks=["t.yaml"], model="openai/fake")
    assert "executor" not in api.overview(spec).facts
