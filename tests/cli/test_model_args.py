"""`--model-args` in every suite: who takes which argument, and what happens to a name that nobody knows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import assay
from assay.core import registry
from assay.core.errors import UsageError
from assay.core.roles import Role
from assay.usercode.model_args import arguments_for, check_arguments, read_args, with_options_of_arguments

from conftest import Assay
from servers.loopback import LoopbackServer, chat

EXAMPLES = Path(__file__).parents[2] / "examples"
# The smallest command of each suite.
COMMANDS = {
    "task": ["task", "sums.yaml"],
    "pipeline": ["pipeline", str(EXAMPLES / "pipeline" / "quickstart.yaml")],
    "hop": ["hop", str(EXAMPLES / "hop" / "FactCheck"), "facts.jsonl"],
    "memory test": ["memory", "test", "--data", str(EXAMPLES / "memory" / "talks.json"), "--memory", "bm25"],
    "memory eval": ["memory", "eval", "--dataset", str(EXAMPLES / "memory-eval"), "--baseline", "bm25"],
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackServer]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with LoopbackServer(lambda body: (200, chat("4"))) as running:
        yield running


# E6: a name that nobody knows


@pytest.mark.parametrize("suite", COMMANDS)
@pytest.mark.parametrize("flags", [(), ("--dry-run",)], ids=["run", "dry run"])
def test_an_unknown_argument_is_refused_with_the_nearest_name_before_the_first_request(
    suite: str, flags: tuple[str, ...], server: LoopbackServer, assay_in: Assay, sums: Path
) -> None:
    provider, model = "openai", ["--model", "openai/m", "--base-url", server.url]
    if suite == "hop":
        provider, model = "local", []  # the settings file of the example names its model
    words = [*COMMANDS[suite], *model, "--output-dir", "out", "--model-args", "max_retry=3"]
    done = assay_in(*words, *flags)
    assert done.returncode == 2, done.stderr
    assert f"there is no argument of {provider} named 'max_retry'; did you mean 'max_retries'" in done.stderr
    assert server.bodies == []
    assert not (sums / "out").exists()


def test_evaluate_refuses_an_unknown_argument(server: LoopbackServer, tmp_path: Path) -> None:
    options: dict[str, Any] = {"prompt": "{{ q }}", "base_url": server.url, "output_dir": tmp_path}
    with pytest.raises(UsageError, match="argument of openai named 'num_concurent'; did you mean 'num_concurrent'"):
        assay.evaluate([{"q": "1"}], model="openai/m", model_args={"num_concurent": 3}, **options)
    with pytest.raises(UsageError, match="there is no argument of python named 'style'"):
        assay.evaluate([{"q": "1"}], model=lambda prompt: prompt, model_args={"style": 1}, **options)
    assert server.bodies == []


def test_arguments_without_a_model_are_refused(tmp_path: Path) -> None:
    """They would have no effect."""
    with pytest.raises(UsageError, match="this run has no model to pass them to"):
        assay.evaluate([{"q": "1"}], answer=lambda q: q, model_args={"n_ctx": 1}, output_dir=tmp_path)


# Who gets which


def given(model: str, args: dict[str, Any], role: Role | None = None, **options: Any) -> dict[str, Any]:
    spec = assay.spec("task", model=model, model_args=args, **options)
    check_arguments(spec, role or Role(model))
    return arguments_for(spec, role or Role(model))


def test_options_of_assay_and_the_name_of_the_model_are_not_passed_on() -> None:
    args = {"model": "m", "base_url": "http://127.0.0.1:1/v1", "num_concurrent": 4, "max_length": 64}
    assert given("openai-completions/m", args) == {"cut_prompts": True, "max_length": 64}


def test_another_name_than_that_of_the_model_is_refused() -> None:
    with pytest.raises(UsageError, match="--model-args model: --model names 'm', not 'other'"):
        given("openai-completions/m", {"model": "other"})


def test_a_judge_of_another_provider_gets_no_arguments() -> None:
    """An unknown name would be refused for it."""
    judge, other = Role("openai/j", mark="score"), Role("openai-completions/j", mark="score")
    assert given("openai-completions/m", {"max_length": 64}, judge) == {}
    assert given("openai-completions/m", {"max_length": 64}, other) == {"max_length": 64}
    assert given("", {"max_length": 64}, other) == {}, "without a main model, models of the user have them"
    own = given("", {"max_length": 64}, Role("openai-completions/m"))
    assert own == {"cut_prompts": True, "max_length": 64}


def test_a_provider_that_takes_any_argument_gets_all_but_those_of_the_harness(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A provider in a user's file that describes nothing takes any."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("class Provider:\n    connect = staticmethod(lambda connection: None)\n")
    args = {"colour": "red", "batch_size": 8, "pretrained": "x", "timeout": 3}
    assert given("mine.py:Provider/x", args) == {"colour": "red"}


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        ({"max_gen_toks": 9}, "--model-args max_gen_toks: use --gen-kwargs max_gen_toks=N"),
        ({"ca_cert_path": "x"}, "--model-args ca_cert_path: use --ca-file FILE"),
    ],
)
def test_arguments_of_the_harness_with_another_place_here_name_it(args: dict[str, Any], hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        given("openai/m", args)


def test_the_limit_of_a_reply_is_named_as_the_suite_knows_it() -> None:
    """Only `task` knows the harness's name of it. Elsewhere an endpoint would be sent a field that it does not have."""
    spec = assay.spec("pipeline", pipeline="x.yaml", model="openai/m", model_args={"max_gen_toks": 9})
    with pytest.raises(UsageError, match="--model-args max_gen_toks: use --gen-kwargs max_tokens=N"):
        check_arguments(spec, Role("openai/m"))


@pytest.mark.parametrize(
    ("model", "variables"),
    [
        ("openai/m", "OPENAI_API_KEY"),
        ("anthropic/m", "ANTHROPIC_API_KEY"),
        ("gemini/m", "GEMINI_API_KEY or GOOGLE_API_KEY"),
        ("python/m.py:f", "OPENAI_API_KEY, or the variable of your provider,"),
    ],
)
def test_a_key_among_the_arguments_is_refused_with_the_variable_for_it(model: str, variables: str) -> None:
    spec = assay.spec("task", model=model, model_args={"api_key": "x"})
    with pytest.raises(UsageError, match=f"read from the environment; set {variables} instead"):
        with_options_of_arguments(spec)


def test_every_provider_can_be_asked_for_its_arguments() -> None:
    """None of them takes an argument that sets an option of assay: it would be set twice."""
    from assay.usercode.model_args import OPTIONS

    for name in registry.names("model"):
        about = registry.find("model", name).ABOUT
        assert not about.args & OPTIONS.keys(), name


# Flags of the harness that are arguments of a model


def test_flags_and_arguments_without_effect_are_told_and_start_no_other_run(
    sums: Path, server: LoopbackServer, assay_in: Assay
) -> None:
    words = ["task", "sums.yaml", "--model", "openai/m", "--base-url", server.url, "--output-dir", "out"]
    assert assay_in(*words).returncode == 0
    flags = ["--device", "cuda:0", "--batch_size", "auto:4", "--model_args", "tokenized_requests=False"]
    again = assay_in(*words, *flags)
    assert again.returncode == 0, again.stderr
    assert len(list((sums / "out" / "assay").iterdir())) == 1
    assert len(server.bodies) == 6
    fresh = assay_in(*words, *flags, "--fresh")
    assert [line for line in fresh.stderr.splitlines() if "ignored" in line] == [
        "--device is ignored: the provider of this model takes no device",
        "--batch-size is ignored: requests are never batched; --concurrency sets how many are sent at once",
        "--model-args tokenized_requests is ignored: only the likelihoods of openai-completions need it",
    ]


PROVIDER = """\
from assay.core.roles import About
from assay.core.types import Response


class Told:
    endpoint, can = "told", frozenset({"chat", "text"})

    def __init__(self, args):
        self.args = args

    async def send(self, request, seed):
        return Response(repr(self.args))

    async def close(self):
        pass


class Provider:
    ABOUT = About(
        summary="s", needs="n", can=frozenset(), example="e", args=frozenset({"device", "batch_size", "pretrained"})
    )
    connect = staticmethod(lambda connection: Told(connection.args))
"""


def test_flags_of_the_harness_reach_a_provider_that_takes_them(sums: Path, assay_in: Assay) -> None:
    """Another batch size continues the run. --model-args win over flags."""
    (sums / "mine.py").write_text(PROVIDER)
    words = [
        "task",
        "sums.yaml",
        "--model",
        "mine.py:Provider/m",
        "--model-args",
        "pretrained=m,batch_size=3",
    ]
    words += ["--output-dir", "out"]
    first = assay_in(*words, "--device", "cuda:1", "--batch_size", "4", "--max-calls", "2")
    assert first.returncode == 3, first.stderr
    assert "ignored" not in first.stderr
    (calls,) = (sums / "out").glob("assay/*/calls.jsonl")
    assert "{'device': 'cuda:1', 'batch_size': 3, 'pretrained': 'm'}" in calls.read_text()
    words[words.index("pretrained=m,batch_size=3")] = "pretrained=m,batch_size=1"
    assert assay_in(*words).returncode == 0
    assert list((sums / "out").glob("assay/*/calls.jsonl")) == [calls]
    assert "{'pretrained': 'm', 'batch_size': 1}" in calls.read_text()


def test_a_key_that_is_no_text_is_refused_with_a_sentence() -> None:
    class Args(msgspec.Struct, forbid_unknown_fields=True):
        names: dict[str, str] = {}

    with pytest.raises(UsageError, match="--model-args: Expected `str`"):
        read_args({"names": {1: "one"}}, Args)
