"""What changing each option does to a run that exists: continue, regrade, or start another run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.spec import RunSpec, SuiteOptions, fields, values_marked
from assay.engine.prices import OWN_TABLE
from assay.suites.task.options import TaskOptions

from servers.loopback import LoopbackServer, chat

NEW, REGRADE, CONTINUE = "ask", "score", "how"

# option: another value for it. What happens follows from the option's mark, and is checked below.
COMMON: dict[str, Any] = {
    "model": "openai/other",
    "base_url": "OTHER",
    "gen_kwargs": {"temperature": 0.5},
    "model_args": {"max_length": 1024},
    "serve": "run --port {port}",
    "judge": "offline",
    "judge_kwargs": {"temperature": 0.5},
    "votes": 3,
    "output_dir": "elsewhere",
    "concurrency": 3,
    "limit": 2,
    "seed": 99,
    "timeout": 7.0,
    "max_retries": 1,
    "max_wait": 7.0,
    "ca_file": "",
    "insecure": True,
    "max_calls": 1000,
    "max_cost": 1000.0,
    "prices": str(OWN_TABLE),
    "fresh": True,
    "retry_failed": True,
    "shard": "",
    "reuse": None,
    "executor": "local",
    "address": None,
    "workers": None,
    "worker_cpus": 1.0,
    "worker_gpus": 0.0,
    "quiet": True,
}
TASK: dict[str, Any] = {
    "tasks": ["other.yaml"],
    "include_path": ["."],
    "num_fewshot": 1,
    "apply_chat_template": True,
    "fewshot_as_multiturn": False,
    "system_instruction": "Be brief.",
    "samples": {"sums": [0]},
    "seeds": [1, 2, 3, 4],
    "metadata": {"length": 1},
    "judge_prompt": "prompt.txt",
    "predict_only": True,
    "bootstrap_iters": 10,
    "confirm_run_unsafe_code": True,
    "log_samples": False,
    "lm_eval_quirks": True,
    "device": "cpu",
    "batch_size": 4,
    "max_batch_size": 8,
    "trust_remote_code": True,
    "results_name": "numbers",
    "harness_model": "local-completions",
    "write_out": True,
    "listing": True,
}
# Options that need another model than the rest: chat models take no arguments.
OTHER_MODEL = {"model_args": "openai-completions/m"}
# Counts through the judge that it is told to: tests of judges in each suite have it.
JUDGED = {"votes", "judge_kwargs", "judge_prompt"}
# Excludes the endpoint of the run: tests/models/test_managed_runs.py has it.
SERVED = {"serve"}
# Reaches hf models only, and is then part of the run as an argument: tests/cli/test_model_args.py.
OF_HF = {"trust_remote_code"}
# These two choose a place or ask for a second run, whatever their mark: they name no run that exists.
ELSEWHERE = {"output_dir", "fresh"}


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    def reply(body: dict[str, Any]) -> tuple[int, Any]:
        return (200, chat("4") if "messages" in body else {"choices": [{"text": "4"}]})

    with LoopbackServer(reply) as running:
        yield running


@pytest.fixture
def base(sums: Path, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The options of a run that is finished."""
    monkeypatch.chdir(sums)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    text = (sums / "sums.yaml").read_text()
    (sums / "other.yaml").write_text(text.replace("task: sums", "task: others"))
    values = {"tasks": ["sums.yaml"], "model": "openai/m", "base_url": server.url, "output_dir": "out"}
    assert assay.run(assay.spec("task", **values)).exit_code == 0
    return values


def test_the_table_names_every_option() -> None:
    """An option that is not in this table has not been thought about."""
    assert set(COMMON) == {field.name for field in fields(RunSpec)} - {"suite", "options"}
    assert set(TASK) == {field.name for field in fields(TaskOptions)}


def test_votes_count_through_the_judge() -> None:
    """A run that nobody judges is the same whatever they are: what was scored before is not scored again."""
    for suite in ("task", "memory-test", "pipeline", "hop"):
        assert "votes" not in values_marked(assay.spec(suite, votes=3), "score")


def test_an_unmarked_field_fails() -> None:
    """Every field is marked ask, score or how."""

    class Unmarked(SuiteOptions, frozen=True, kw_only=True):
        anything: int = 0

    with pytest.raises(TypeError, match=r"Unmarked\.anything is not marked"):
        list(fields(Unmarked))


@pytest.mark.parametrize("option", [name for name in (*COMMON, *TASK) if name not in JUDGED | SERVED | OF_HF])
def test_changing_an_option_does_what_its_mark_says(option: str, base: dict[str, Any], server: LoopbackServer) -> None:
    """`ask` starts a run beside the old one, `score` regrades without asking, `how` shows the finished run."""
    marks = {field.name: field.mark for field in (*fields(RunSpec), *fields(TaskOptions))}
    base["model"] = OTHER_MODEL.get(option, base["model"])
    before = assay.run(assay.spec("task", **base))
    asked = len(server.bodies)
    value = {**COMMON, **TASK}[option]
    if value == "OTHER":
        value = server.url.replace("127.0.0.1", "localhost")
    after = assay.run(assay.spec("task", **{**base, option: value}))
    paid = len(server.bodies) - asked
    if marks[option] == NEW or option in ELSEWHERE:
        assert after.folder != before.folder
        assert paid > 0
    else:
        assert after.folder == before.folder
        assert paid == 0
        assert after.asked == (marks[option] == REGRADE)


def test_a_changed_metric_regrades_and_a_changed_prompt_asks(base: dict[str, Any], server: LoopbackServer) -> None:
    """Within a task file, what scores is told from what asks."""
    asked = len(server.bodies)
    path = Path("sums.yaml")
    path.write_text(path.read_text().replace("ignore_case: true", "ignore_punctuation: true"))
    regraded = assay.run(assay.spec("task", **base))
    assert (len(server.bodies), regraded.asked) == (asked, True)
    path.write_text(path.read_text().replace("Q: ", "Question: "))
    assert assay.run(assay.spec("task", **base)).folder != regraded.folder
    assert len(server.bodies) == asked + 6
