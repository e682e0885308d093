"""assay writes the same files as lm-evaluation-harness 0.4.13: samples byte for byte, numbers bit for bit."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import assay

from servers.echoing import EchoServer
from servers.replay import ReplayServer

GOLDEN = Path(__file__).parents[2] / "golden" / "lm_eval"
FEWSHOT = ["g_fs_first_n", "g_fs_random", "g_fs_same_split", "g_fs_prefix"]
GROUP = ["g_sub1", "g_sub2", "g_sub3", "g_fs_first_n", "g_group::g_inner", "g_group"]


class Stored(NamedTuple):
    """One stored run: its command, its files and its options."""

    asked: list[str]
    tasks: Sequence[str] = ()
    limit: float | None = None
    chat: bool = False
    quirks: bool = False


RUNS = {
    "a_completions": Stored(["g_gsm_sc"]),
    "b_em": Stored(["g_em", "g_em_plain", "g_em_multi"]),
    "c_fewshot": Stored(FEWSHOT),
    "c_fewshot_chat": Stored(FEWSHOT, limit=5, chat=True),
    "c_fewshot_fallback": Stored(["g_fs_fallback_test", "g_fs_fallback_val"], quirks=True),
    "d_mc": Stored(["g_mc", "g_mc_mi", "g_ll", "g_ppl", "g_wino"]),
    "e_group": Stored(["g_group"], GROUP[:4]),
    "e_tag": Stored(["g_subs"], GROUP[:3]),
    "f_custom": Stored(["g_custom", "g_custom_filter"]),
    "g_mcgen": Stored(["g_mcgen"]),
    "h_repeats_nofilter": Stored(["g_repeats_nofilter"]),
    "k_defaults": Stored(["g_defaults", "g_max_new_tokens"], limit=3),
}
VOLATILE = {
    "date",
    "total_evaluation_time_seconds",
    "pretty_env_info",
    "lm_eval_version",
    "model_source",
    "config",
    "configs",
    "lm_eval_quirks",  # ours: names what the harness got wrong
}
ADDRESS = re.compile(r"<function (\w+)( at 0x[0-9a-f]+)?>")


def run_golden(name: str, out: Path) -> assay.Run:
    """The stored run once more, by assay, against the stored replies."""
    if name == "d_mc":
        return asyncio.run(run_echoed(name, out))
    with ReplayServer(GOLDEN / "out" / name / "requests.jsonl") as server:
        return assay.run(golden_spec(name, server.url, out))


async def run_echoed(name: str, out: Path) -> assay.Run:
    """Likelihoods come from the function of the tokens that gave the stored ones."""
    async with EchoServer() as server:
        return await assay.arun(golden_spec(name, server.url, out))


def golden_spec(name: str, url: str, out: Path) -> assay.RunSpec:
    """The stored run's options, in our words."""
    stored = RUNS[name]
    return assay.spec(
        "task",
        tasks=stored.asked,
        include_path=["tasks"],
        model=f"{'openai' if stored.chat else 'openai-completions'}/org/Fake-1.0",
        base_url=url,
        output_dir=str(out),
        concurrency=1,
        max_retries=0,
        limit=stored.limit,
        apply_chat_template=stored.chat,
        lm_eval_quirks=stored.quirks,
        # As in the stored command: with its quirks, the harness sends token ids if the endpoint has a tokenizer.
        model_args={"tokenizer_backend": "None"} if stored.quirks else {},
    )


@pytest.fixture
def in_golden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data files of the golden tasks are relative to the golden folder."""
    monkeypatch.chdir(GOLDEN)


def stored(name: str, pattern: str) -> Path:
    """One file of a stored run."""
    (result,) = (GOLDEN / "out" / name / "org__Fake-1.0").glob(pattern)
    return result


@pytest.mark.usefixtures("in_golden")
@pytest.mark.parametrize("name", RUNS)
def test_files_equal_the_stored_ones(name: str, tmp_path: Path) -> None:
    """Samples are equal byte for byte, results in every number and in the order of keys."""
    run = run_golden(name, tmp_path)
    assert run.exit_code == 0
    for task in RUNS[name].tasks or RUNS[name].asked:
        (ours,) = (tmp_path / "org__Fake-1.0").glob(f"samples_{task}_2*.jsonl")
        assert ours.read_bytes() == stored(name, f"samples_{task}_2*.jsonl").read_bytes()
    (results,) = (tmp_path / "org__Fake-1.0").glob("results_*.json")
    compare(json.loads(results.read_text()), json.loads(stored(name, "results_*.json").read_text()))


def compare(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Everything, in the stored order; what differs from run to run aside."""
    assert [key for key in ours if key != "lm_eval_quirks"] == list(theirs)
    for key in theirs.keys() - VOLATILE:
        assert json.dumps(ours[key]) == json.dumps(theirs[key]), key
    for config in (ours["configs"], theirs["configs"]):
        for task in config.values():
            task["metadata"] = None
    assert _without_addresses(ours["configs"]) == _without_addresses(theirs["configs"])
    for key in ("limit", "bootstrap_iters", "random_seed", "numpy_seed", "torch_seed", "fewshot_seed"):
        assert ours["config"][key] == theirs["config"][key], key


def _without_addresses(value: Any) -> str:
    return ADDRESS.sub(r"<\1>", json.dumps(value))


@pytest.mark.usefixtures("in_golden")
def test_quirks_that_made_a_difference_are_counted(tmp_path: Path) -> None:
    """Six of twenty documents are among their own examples; without the flag none is."""
    run_golden("c_fewshot_fallback", tmp_path)
    (results,) = (tmp_path / "org__Fake-1.0").glob("results_*.json")
    assert json.loads(results.read_text())["lm_eval_quirks"]["fewshot_leak"] == 6


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
