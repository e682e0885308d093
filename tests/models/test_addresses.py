"""A base URL is for the vendor it was given for: no endpoint is sent the key of another vendor."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import UsageError
from assay.core.roles import Role
from assay.engine.connect import connect
from assay.runner.opening import open_run

from servers.dialects import KEY, DialectServer, Messages, Reply
from servers.dialects.anthropic import Anthropic
from servers.dialects.openai import OpenAIChat
from servers.judging import JudgingServer
from suites import shared
from support.judged_samples import JudgedSamples, reply
from support.memory_samples import sample

GIVEN = "http://127.0.0.1:9/v1"
OPENAI, ANTHROPIC = "https://api.openai.com/v1", "https://api.anthropic.com"
OWN_KEYS = {
    "OPENAI_API_KEY": "openai-key-0123",
    "ANTHROPIC_API_KEY": KEY,
    "DEEPSEEK_API_KEY": "deepseek-key-0123",
}


@pytest.fixture(autouse=True)
def own_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key for each vendor, and no address."""
    for name in [*os.environ]:
        if name.startswith("OPENAI_") or name.endswith(("_API_KEY", "_BASE_URL", "_ENDPOINT", "_MODEL")):
            monkeypatch.delenv(name)
    for name, key in OWN_KEYS.items():
        monkeypatch.setenv(name, key)


@pytest.mark.parametrize(
    ("main", "judge", "endpoint"),
    [
        ("openai/m", "openai/j", GIVEN),
        ("openai/m", "openai-completions/j", GIVEN),
        ("openai-responses/m", "openai/j", GIVEN),
        ("openai/m", "anthropic/j", ANTHROPIC),
        ("openai/m", "deepseek/j", "https://api.deepseek.com"),
        ("openai/m", "ollama/j", "http://127.0.0.1:11434/v1"),
        ("anthropic/m", "anthropic/j", GIVEN.removesuffix("/v1")),
        ("anthropic/m", "openai/j", OPENAI),
        ("anthropic/m", "openai-responses/j", OPENAI),
        ("anthropic/m", "deepseek/j", "https://api.deepseek.com"),
        ("deepseek/m", "openai/j", OPENAI),
        ("ollama/m", "openai/j", OPENAI),
        ("gemini/m", "openai/j", OPENAI),
        # A model without an endpoint needs no base URL, so it is for the judge.
        ("python/m.py:f", "openai/j", GIVEN),
        ("script/m.yaml", "anthropic/j", GIVEN.removesuffix("/v1")),
        ("vllm/m", "openai/j", GIVEN),
        ("", "anthropic/j", GIVEN.removesuffix("/v1")),
    ],
)
def test_which_judge_is_at_the_base_url_of_the_run(main: str, judge: str, endpoint: str) -> None:
    spec = shared.spec(model=main, base_url=GIVEN)
    assert connect(spec, Role(judge, mark="score")).endpoint == endpoint
    own = Role(judge, "http://127.0.0.1:10", mark="score")
    assert connect(spec, own).endpoint == "http://127.0.0.1:10"


def test_a_vendors_own_variable_comes_after_the_base_url_of_another_vendor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8/v1")
    spec = shared.spec(model="anthropic/m", base_url=GIVEN)
    assert connect(spec, Role("openai/j", mark="score")).endpoint == "http://127.0.0.1:8/v1"


def named(_: Messages) -> Reply:
    return Reply("Rex")


class AnyKeyChat(OpenAIChat):
    """An endpoint that takes every key, as a proxy that writes them down."""

    def problem(self, seen: Any) -> None:
        return None


def test_models_of_two_vendors_are_not_at_one_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a main model, a base URL is for OpenAI's models."""
    with DialectServer(AnyKeyChat(), named) as given, DialectServer(Anthropic(), named) as own:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", own.url)
        models = {"a": "openai/gpt-4o-mini", "b": f"anthropic/{Anthropic.name}"}
        options: dict[str, Any] = {"prompt": "{{ q }}", "output_dir": tmp_path, "quiet": True}
        run = assay.evaluate([{"q": "Name a dog."}], model=models, base_url=given.url, **options)
        assert run.exit_code == 0
        assert [seen.headers["authorization"] for seen in given.seen] == ["Bearer openai-key-0123"]
        assert KEY not in str(given.seen)
        assert len(own.seen) == 1
        assert "openai-key-0123" not in str(own.seen)


def test_two_models_of_one_vendor_share_the_address_and_their_judge_does_not(tmp_path: Path) -> None:
    models = {"a": f"anthropic/{Anthropic.name}", "b": f"anthropic/{Anthropic.reasoner}"}
    options: dict[str, Any] = {"prompt": "{{ q }}", "output_dir": tmp_path, "quiet": True}
    with DialectServer(Anthropic(), named) as given:
        run = assay.evaluate([{"q": "Name a dog."}], model=models, base_url=given.url, **options)
        assert run.exit_code == 0
        assert len(given.seen) == 2
    roles = [Role(models["a"]), Role(models["b"]), Role("openai/j", mark="score")]
    spec = shared.spec(model="", base_url=GIVEN)
    assert [connect(spec, role, roles).endpoint for role in roles[1:]] == [
        GIVEN.removesuffix("/v1"),
        OPENAI,
    ]


def test_a_base_url_that_may_be_for_either_vendor_is_refused(tmp_path: Path) -> None:
    models = {"a": "anthropic/x", "b": "deepseek/y"}
    options: dict[str, Any] = {"prompt": "{{ q }}", "output_dir": tmp_path, "quiet": True}
    with pytest.raises(UsageError, match="for one vendor, but this run has models of anthropic and deepseek"):
        assay.evaluate([{"q": "Name a dog."}], model=models, base_url=GIVEN, **options)


def judged_samples_at(folder: Path, server: JudgingServer) -> JudgedSamples:
    return JudgedSamples(folder, server, sample("s1", 1))


def judge_of(judged_samples: JudgedSamples, judge: str, **options: Any) -> str:
    """The endpoint of a judge that judges the files of the run again. Nothing is sent to it."""
    values = {"dataset": "", "baseline": [], "model": "", "judge": judge, "eval_only": True, "base_url": None}
    runner = open_run(assay.spec("memory-eval", **judged_samples.values(**values | options)))
    return runner.models["judge"].endpoint


def test_a_judge_of_another_vendor_is_not_asked_at_the_endpoint_of_the_run_that_it_judges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--eval-only` knows the endpoint of the run's model. It is for judges of that vendor."""

    def answered(messages: Messages) -> Reply:
        return Reply(reply({"messages": messages}))

    with JudgingServer() as judging, DialectServer(Anthropic(), answered) as vendor:
        judged_samples = judged_samples_at(tmp_path / "samples", judging)
        run = judged_samples.run(model=vendor.model, base_url=vendor.url, judge="offline")
        assert run.exit_code == 0
        assert judge_of(judged_samples, "anthropic/j") == vendor.url
        assert judge_of(judged_samples, "openai/j") == OPENAI
        assert judge_of(judged_samples, "openai/j", base_url=GIVEN) == GIVEN
        monkeypatch.setenv("OPENAI_BASE_URL", GIVEN)
        assert judge_of(judged_samples, "openai/j") == GIVEN
        assert judge_of(judged_samples, "anthropic/j") == vendor.url


def test_the_address_of_openai_is_not_for_a_judge_of_another_vendor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither of the two variables, with `--eval-only` of a run at an OpenAI-compatible endpoint."""
    with JudgingServer(other=reply) as judging:
        judged_samples = judged_samples_at(tmp_path / "samples", judging)
        judged_samples.run(judge="offline")
        for name in ("OPENAI_BASE_URL", "OPENAI_BASE_URL_JUDGE"):
            monkeypatch.setenv(name, GIVEN)
            assert judge_of(judged_samples, "anthropic/j") == ANTHROPIC
            assert judge_of(judged_samples, "openai/j") == GIVEN
            assert judge_of(judged_samples, "anthropic/j", base_url=GIVEN) == GIVEN.removesuffix("/v1")
