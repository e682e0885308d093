"""A run that cannot use its cluster says so at once, with both values, and leaves no run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import UsageError
from assay.executors.plan import WorkerPlan, make_plan

from servers.fake_openai import FakeOpenAI
from support.damaged_runs import SMALL_RUNS
from support.ray_cluster import LocalCluster


@pytest.fixture(autouse=True)
def folder(cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _refusal(suite: str, **options: object) -> str:
    (small,) = [small for small in SMALL_RUNS if small.suite == suite]
    for name, text in small.files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    with pytest.raises(UsageError) as refused:
        small.start(executor="ray", **options)
    assert not list(Path().glob("**/run.json")), "nothing is left that looks like a run"
    return str(refused.value)


def test_more_workers_than_the_cluster_holds() -> None:
    message = _refusal("task", workers=5)
    assert "--workers 5 do not fit: the cluster holds 4 workers of 1 CPU" in message
    assert "Pass --workers 4" in message


def test_a_worker_that_fits_on_no_node() -> None:
    """The cluster has four CPUs, but no node has three of them."""
    message = _refusal("task", worker_cpus=3.0)
    assert "the cluster holds no worker of 3 CPU" in message
    assert "--worker-cpus" in message


def test_no_gpu() -> None:
    assert "the cluster holds no worker of 1 CPU and 1 GPU" in _refusal("task", worker_gpus=1.0)


def test_a_shared_endpoint(server: FakeOpenAI) -> None:
    message = _refusal("hop", shared_endpoint=True, model="openai/fake", base_url=server.url)
    assert "Take the session's base_url instead" in message


def test_another_version_of_assay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assay, "__version__", "0.0.1")
    message = _refusal("task")
    assert "and the driver has 0.0.1" in message
    assert "Install the same version" in message


def test_other_files_on_the_machine_of_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prompt of the driver's task is another one than the worker finds."""

    def changed_since(*args: Any, **kwargs: Any) -> WorkerPlan:
        plan = make_plan(*args, **kwargs)
        text = Path("t.yaml").read_text()
        Path("t.yaml").write_text(text.replace("{{q}}", "Please: {{q}}"))
        return plan

    monkeypatch.setattr("assay.executors.ray_executor.make_plan", changed_since)
    message = _refusal("task")
    assert "has other files than the driver" in message
    assert "there" in message
    assert "here" in message
