"""What lm-evaluation-harness 0.4.13 wrote is what assay writes: samples by byte, numbers by bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import assay

from servers.replay import ReplayServer

GOLDEN = Path(__file__).parents[2] / "golden" / "lm_eval"
# golden run, its tasks, replies of each prompt that other tasks of the stored run took first, --limit
RUNS = [
    ("a_completions", ["g_gsm_sc"], 0, None),
    ("h_repeats_nofilter", ["g_repeats_nofilter"], 0, None),
    ("k_defaults", ["g_defaults", "g_max_new_tokens"], 0, 3),
    ("b_em", ["g_em_plain", "g_em_multi"], 1, None),
    ("c_fewshot", ["g_fs_first_n", "g_fs_random", "g_fs_same_split", "g_fs_prefix"], 0, None),
    ("c_fewshot_chat", ["g_fs_first_n", "g_fs_random", "g_fs_same_split", "g_fs_prefix"], 0, 5),
]
CHAT = {"c_fewshot_chat"}  # stored with --apply_chat_template
VOLATILE = {
    "date",
    "total_evaluation_time_seconds",
    "pretty_env_info",
    "lm_eval_version",
    "model_source",
    "config",
    "configs",
}


def run_golden(name: str, tasks: list[str], skip: int, limit: float | None, out: Path) -> assay.Run:
    """The stored run once more, by assay, against the stored replies."""
    with ReplayServer(GOLDEN / "out" / name / "requests.jsonl", skip) as server:
        spec = assay.spec(
            "task",
            tasks=tasks,
            include_path=["tasks"],
            model=f"{'openai' if name in CHAT else 'openai-completions'}/org/Fake-1.0",
            base_url=server.url,
            output_dir=str(out),
            concurrency=1,
            limit=limit,
            apply_chat_template=name in CHAT,
        )
        return assay.run(spec)


@pytest.fixture
def in_golden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data files of the golden tasks are relative to the golden folder."""
    monkeypatch.chdir(GOLDEN)


def stored(name: str, pattern: str) -> Path:
    """One file of a stored run."""
    (found,) = (GOLDEN / "out" / name / "org__Fake-1.0").glob(pattern)
    return found


@pytest.mark.usefixtures("in_golden")
@pytest.mark.parametrize(("name", "tasks", "skip", "limit"), RUNS)
def test_files_equal_the_stored_ones(
    name: str, tasks: list[str], skip: int, limit: float | None, tmp_path: Path
) -> None:
    """Samples are equal byte for byte, results in every number and in the order of keys."""
    run = run_golden(name, tasks, skip, limit, tmp_path)
    assert run.exit_code == 0
    for task in tasks:
        (ours,) = (tmp_path / "org__Fake-1.0").glob(f"samples_{task}_2*.jsonl")
        assert ours.read_bytes() == stored(name, f"samples_{task}_2*.jsonl").read_bytes()
    (results,) = (tmp_path / "org__Fake-1.0").glob("results_*.json")
    ours_value, theirs = (
        json.loads(results.read_text()),
        json.loads(stored(name, "results_*.json").read_text()),
    )
    assert list(ours_value) == list(theirs)
    compare(ours_value, theirs, tasks)


def compare(ours: dict[str, Any], theirs: dict[str, Any], tasks: list[str]) -> None:
    """Everything about the tasks that were run, in the stored order; volatile fields aside."""
    for key in theirs:
        if key in VOLATILE:
            continue
        if isinstance(theirs[key], dict):
            kept = {name: value for name, value in theirs[key].items() if name in tasks}
            assert json.dumps(ours[key]) == json.dumps(kept), key
        else:
            assert ours[key] == theirs[key], key
    for task in tasks:
        without_metadata = [
            {**config[task], "metadata": None} for config in (ours["configs"], theirs["configs"])
        ]
        assert json.dumps(without_metadata[0]) == json.dumps(without_metadata[1])


@pytest.mark.usefixtures("in_golden")
def test_repeats_send_different_seeds_and_one_token_limit(tmp_path: Path) -> None:
    """The n-th repeat sends seed 1234 + n; `max_new_tokens` is sent as `max_tokens`, not as a field of its own."""
    with ReplayServer(GOLDEN / "out" / "k_defaults" / "requests.jsonl") as server:
        spec = assay.spec(
            "task",
            tasks=["tasks/k2_seedlike.yaml"],
            model="openai-completions/org/Fake-1.0",
            base_url=server.url,
            output_dir=str(tmp_path),
            limit=1,
            concurrency=1,
        )
        assay.run(spec)
    assert [body["seed"] for body in server.bodies] == [1234, 1235]
    assert {body["max_tokens"] for body in server.bodies} == {1024}
    assert not {"max_new_tokens", "do_sample", "until"} & set(server.bodies[0])
