"""Every role's parameters can be chosen, and requests adapt to an endpoint that rejects some of them (finding E1)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import UsageError
from assay.core.params import check_params, merge, with_params
from assay.core.types import Request, SdkRequest
from assay.models.http.adapt import OPENAI_CHANGES, find_change
from assay.models.http.sdk_requests import read_chat_request, read_sdk_request

from servers.loopback import LoopbackServer, chat
from servers.reasoning_model import reasoning_model, rejection
from support.commands import typed
from support.suite_files import problems_in

EXAMPLES = Path(__file__).parents[2] / "examples"
TALKS = EXAMPLES / "memory" / "talks.json"
ROWS = [{"question": f"{n}+{n}?", "answer": str(2 * n)} for n in range(1, 6)]
CHANGES = {
    "developer instead of system role",
    "max_completion_tokens instead of max_tokens",
    "no temperature",
    "no seed",
    "no stop",
}
VERDICT = '{"reason": "it agrees", "label": "Correct", "passed": true}'


@pytest.fixture
def strict() -> Iterator[LoopbackServer]:
    """A reasoning model that doubles a number, or accepts an answer as a judge."""

    def answer(body: dict[str, Any]) -> str:
        text = body["messages"][-1]["content"]
        if "JSON" in text or "json" in text:
            return VERDICT
        return str(2 * int(text.partition("+")[0])) if text[:1].isdigit() else "Vienna"

    with LoopbackServer(reasoning_model(answer)) as server:
        yield server


def accepted(server: LoopbackServer) -> list[dict[str, Any]]:
    return [body for body in server.bodies if rejection(body) is None]


def test_a_reasoning_model_is_adapted_to_once_and_the_run_says_how(strict: LoopbackServer, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {
        "model": "openai/o9",
        "base_url": strict.url,
        "system_instruction": "Be brief.",
        "gen_kwargs": {"temperature": 0, "max_tokens": 64, "stop": "END"},
        "score": assay.exact_match("answer"),
        "target": "answer",
        "output_dir": tmp_path,
        "concurrency": 1,
        "quiet": True,
    }
    run = assay.evaluate(ROWS, **arguments)
    assert run["exact_match"].value == 1.0
    # Five rejections teach five changes; after that every request is accepted at once.
    assert len(strict.bodies) == len(CHANGES) + len(ROWS)
    assert [rejection(body) for body in strict.bodies[len(CHANGES) :]] == [None] * len(ROWS)
    last = strict.bodies[-1]
    assert last.keys() == {"model", "messages", "max_completion_tokens"}
    assert last["max_completion_tokens"] == 64
    assert last["messages"][0] == {"role": "developer", "content": "Be brief."}
    assert set(run.summary.adapted) == CHANGES
    calls = [json.loads(line) for line in (run.folder / "calls.jsonl").read_text().splitlines()[1:]]
    assert all(set(call["response"]["adapted"]) == CHANGES for call in calls)
    # The key of a call is the request before the change: a continued run finds its replies and asks nothing.
    assert calls[0]["request"]["params"] == {"temperature": 0, "max_tokens": 64, "stop": ["END"]}
    again = assay.evaluate([*ROWS, {"question": "9+9?", "answer": "18"}], **arguments, reuse=str(run.folder))
    assert again["exact_match"].denominator == 6
    assert len(accepted(strict)) == len(ROWS) + 1


def test_many_first_requests_at_once_learn_together(strict: LoopbackServer, tmp_path: Path) -> None:
    rows = [{"question": f"{n}+{n}?", "answer": str(2 * n)} for n in range(1, 60)]
    run = assay.evaluate(
        rows,
        model="openai/o9",
        base_url=strict.url,
        gen_kwargs={"temperature": 0, "max_tokens": 64},
        score=assay.exact_match("answer"),
        target="answer",
        output_dir=tmp_path,
        concurrency=16,
        quiet=True,
    )
    assert run["exact_match"].value == 1.0
    assert run.summary.failures == {}
    assert len(accepted(strict)) == len(rows)


@pytest.mark.parametrize("suite", ["test", "eval"])
def test_both_memory_suites_work_with_a_reasoning_model_and_judge(
    suite: str, strict: LoopbackServer, tmp_path: Path
) -> None:
    data = {
        "test": ("--data", str(TALKS), "--memory", "bm25", "--task-id", "0000", "--segments", "1"),
        "eval": ("--dataset", str(EXAMPLES / "memory-eval"), "--baseline", "bm25", "--smoke"),
    }[suite]
    words = ("--model", "openai/o9", "--judge", "openai/o9-judge", "--base-url", strict.url, "--quiet")
    code = typed("memory", suite, *data, *words, "--output-dir", str(tmp_path / "out"))
    run = assay.load(str(tmp_path / "out"))
    assert run.summary.failures == {}
    assert run.summary.infra_error == 0
    assert code in (
        0,
        4,
    )  # the answers are wrong, and this judge gives some verdicts in the form of another kind
    assert {"no temperature", "judge: no temperature"} <= set(run.summary.adapted)


def test_every_role_has_its_own_parameters(tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        return 200, chat(VERDICT if body["model"] == "judge" else "7")

    with LoopbackServer(answer) as server:
        code = typed(
            *("memory", "test", "--data", str(TALKS), "--memory", "GAMemory", "--task-id", "0000"),
            *("--segments", "1", "--model", "openai/m", "--judge", "openai/judge", "--base-url", server.url),
            *("--gen-kwargs", "top_p=0.9,temperature=null", "--answer-kwargs", "max_tokens=4000"),
            *("--build-kwargs", 'extra_body={"chat_template_kwargs": {"enable_thinking": false}}'),
            *("--judge-kwargs", "reasoning_effort=low,max_tokens=9000", "--quiet"),
            *("--output-dir", str(tmp_path / "out")),
        )
    assert code == 0
    answers = [body for body in server.bodies if body["model"] == "m" and "max_tokens" in body]
    built = [body for body in server.bodies if body["model"] == "m" and "max_tokens" not in body]
    judged = [body for body in server.bodies if body["model"] == "judge"]
    assert answers
    assert built
    assert judged
    for body in answers + built:
        assert body["top_p"] == 0.9
        assert "temperature" not in body
    assert {body["max_tokens"] for body in answers} == {4000}
    assert all(body["chat_template_kwargs"] == {"enable_thinking": False} for body in built)
    assert not any("chat_template_kwargs" in body for body in answers)
    assert {(body["reasoning_effort"], body["max_tokens"], body["temperature"]) for body in judged} == {
        ("low", 9000, 0)
    }


def test_another_parameter_of_the_judge_judges_again_and_asks_the_model_nothing(tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        return 200, chat(VERDICT if body["model"] == "judge" else "4")

    def run(server: LoopbackServer, **judge_kwargs: Any) -> list[str]:
        server.bodies.clear()
        assay.evaluate(
            ROWS[1:2],
            model="openai/m",
            base_url=server.url,
            judge="openai/judge",
            judge_kwargs=judge_kwargs,
            score="judge",
            target="answer",
            output_dir=tmp_path,
            quiet=True,
        )
        return [body["model"] for body in server.bodies]

    with LoopbackServer(answer) as server:
        assert run(server, max_tokens=100) == ["m", "judge"]
        assert run(server, max_tokens=100) == []
        assert run(server, max_tokens=200) == ["judge"]


def test_headers_take_secrets_from_the_environment_and_no_file_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAM_PASS", "s3cret-pass-of-the-team")
    with LoopbackServer(lambda body: (200, chat("4"))) as server:
        run = assay.evaluate(
            ROWS[1:2],
            model="openai/m",
            base_url=server.url,
            gen_kwargs={"headers": {"X-Team": "eval", "X-Api-Key": "$TEAM_PASS"}},
            score=assay.exact_match("answer"),
            target="answer",
            output_dir=tmp_path,
            quiet=True,
        )
    assert run["exact_match"].value == 1.0
    assert server.heads[0]["X-Team"] == "eval"
    assert server.heads[0]["X-Api-Key"] == "s3cret-pass-of-the-team"
    assert "headers" not in server.bodies[0]
    for file in run.folder.rglob("*"):
        assert not file.is_file() or b"s3cret-pass" not in file.read_bytes()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"temprature": 1}, "did you mean 'temperature'"),
        ({"max_token": 1}, "did you mean 'max_tokens'"),
        ({"headers": "x"}, "headers is a mapping"),
        ({"headers": {"Authorization": "Bearer abc"}}, "Put its value into an environment variable"),
        ({"headers": {"Ocp-Apim-Subscription-Key": "abc"}}, "Put its value into an environment variable"),
        ({"headers": {"Proxy-Authorization": "abc"}}, "Put its value into an environment variable"),
        ({"headers": {"X-Company-Auth": "abc"}}, "Put its value into an environment variable"),
        ({"extra_body": {"api_key": "abc"}}, "'api_key' of extra_body would be saved"),
        ({"messages": []}, "'messages' is not a parameter"),
        ({"extra_body": {"model": "other"}}, "'model' is not a parameter"),
        ({"stream": True}, "'stream' is not a parameter"),
        ({"": ""}, "a parameter has no name"),
    ],
)
def test_wrong_parameters_are_refused_before_the_first_request(params: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_params(params, "--gen-kwargs")


@pytest.mark.parametrize("flag", ["gen_kwargs", "judge_kwargs"])
def test_parameters_of_a_model_that_is_not_asked_are_refused(flag: str, tmp_path: Path) -> None:
    params: dict[str, Any] = {flag: {"temperature": 0}}
    with pytest.raises(UsageError, match=f"--{flag.replace('_', '-')} has no effect"):
        assay.evaluate(
            ROWS,
            answer=lambda question: question,
            score=assay.exact_match("answer"),
            target="answer",
            output_dir=tmp_path,
            **params,
        )


def test_parameters_that_nobody_knows_are_sent_as_they_are() -> None:
    params = {"top_n_sigma": 1, "mirostat": 2, "prompt_cache_key": "a", "extra_body": {"max_tokens": 1}}
    assert check_params(params, "--gen-kwargs") == params


def test_an_odd_error_about_one_request_changes_no_other(tmp_path: Path) -> None:
    """The endpoint's words quote the question, which names parameters. Leaving them out does not help."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        if body["messages"][-1]["content"].startswith("3+3"):
            return 400, {"error": {"message": "Unknown error: unexpected text 'stop here, temperature'"}}
        return 200, chat(str(2 * int(body["messages"][-1]["content"].partition("+")[0])))

    with LoopbackServer(answer) as server:
        run = assay.evaluate(
            ROWS,
            model="openai/m",
            base_url=server.url,
            gen_kwargs={"temperature": 0, "stop": "END"},
            score=assay.exact_match("answer"),
            target="answer",
            output_dir=tmp_path,
            concurrency=1,
            quiet=True,
        )
    assert run.summary.failures == {"rejected": 1}
    assert run.summary.adapted == []
    assert server.bodies[-1]["stop"] == ["END"]
    assert server.bodies[-1]["temperature"] == 0


def test_a_header_of_the_user_replaces_that_of_the_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the-usual-key")
    monkeypatch.setenv("GATE_PASS", "Basic abc")
    with LoopbackServer(lambda body: (200, chat("4"))) as server:
        assay.evaluate(
            ROWS[1:2],
            model="openai/m",
            base_url=server.url,
            gen_kwargs={"headers": {"authorization": "$GATE_PASS"}},
            score=assay.exact_match("answer"),
            target="answer",
            output_dir=tmp_path,
            quiet=True,
        )
    assert [value for name, value in server.heads[0].items() if name.lower() == "authorization"] == ["Basic abc"]


def test_null_for_one_role_removes_a_default_of_this_role_alone(tmp_path: Path) -> None:
    with LoopbackServer(lambda body: (200, chat("7"))) as server:
        typed(
            *("memory", "test", "--data", str(TALKS), "--memory", "GAMemory", "--task-id", "0000"),
            *("--segments", "1", "--model", "openai/m", "--base-url", server.url, "--quiet"),
            *("--answer-kwargs", "temperature=null,max_completion_tokens=900"),
            *("--output-dir", str(tmp_path / "out")),
        )
    answers = [body for body in server.bodies if "max_completion_tokens" in body]
    built = [body for body in server.bodies if "max_completion_tokens" not in body]
    assert answers
    assert built
    assert not any("temperature" in body or "max_tokens" in body for body in answers)
    assert {body["temperature"] for body in built} == {0}


@pytest.mark.parametrize(
    ("flag", "sent"),
    [
        ("max_tokens=4000,stop=END", {"max_tokens": 4000, "stop": ["END"]}),
        ("max_new_tokens=4000", {"max_tokens": 4000, "stop": ["\n"]}),
        ("max_completion_tokens=900", {"max_completion_tokens": 900, "stop": ["\n"]}),
        ("until=null", {"max_tokens": 32}),
        ("max_gen_toks=7", {"max_tokens": 7, "stop": ["\n"]}),
    ],
)
def test_a_flag_wins_over_the_task_file_whatever_its_name_there(
    flag: str, sent: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs.jsonl").write_text('{"q": "2+2?", "a": "4"}\n')
    (tmp_path / "t.yaml").write_text(
        "task: t\ndataset_path: json\ndataset_kwargs: {data_files: docs.jsonl}\ntest_split: train\n"
        "output_type: generate_until\ndoc_to_text: '{{q}}'\ndoc_to_target: '{{a}}'\n"
        'generation_kwargs: {max_gen_toks: 32, until: ["\\n"]}\n'
    )
    with LoopbackServer(lambda body: (200, chat("4"))) as server:
        words = ("--model", "openai/m", "--base-url", server.url, "--quiet", "--gen-kwargs", flag)
        assert typed("task", "t.yaml", *words) == 0
    (body,) = server.bodies
    assert {name: value for name, value in body.items() if name in ("stop", "until") or "tok" in name} == sent


def test_two_names_of_one_parameter_are_refused(tmp_path: Path) -> None:
    from assay.suites.task.config import override_generation

    with pytest.raises(UsageError, match="max_gen_toks and max_tokens mean the same"):
        override_generation({}, {"max_tokens": 7, "max_gen_toks": 3})


def test_a_secret_in_the_parameters_of_a_file_is_a_problem_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(
        "id: flow\nsteps:\n  - id: one\n    template: hi\n    params: {headers: {X-Api-Key: abc}}\n"
    )
    problems = problems_in(tmp_path / "flow.yaml")
    assert any("X-Api-Key" in problem.message and problem.level == "error" for problem in problems)


def test_a_limit_of_tokens_under_its_other_name_replaces_the_first() -> None:
    assert merge({"max_tokens": 64, "temperature": 0}, {"max_completion_tokens": 9}) == {
        "temperature": 0,
        "max_completion_tokens": 9,
    }


def test_requests_of_another_sdk_get_the_parameters_in_their_body_and_likelihoods_none() -> None:
    sdk = SdkRequest("/chat/completions", {"temperature": 0.5}, {"a": "b"})
    changed = with_params(Request(model="m", sdk=sdk), {"top_p": 1, "extra_body": {"a": 1}})
    assert changed.sdk == SdkRequest("/chat/completions", {"temperature": 0.5, "top_p": 1, "a": 1}, {"a": "b"})
    assert changed.params == {}
    other = with_params(changed, {"headers": {"c": "d"}}).sdk
    assert other is not None
    assert other.headers == {"c": "d"}
    embedding = Request(model="m", sdk=SdkRequest("/embeddings", {"input": "x"}))
    assert with_params(embedding, {"top_p": 1}) is embedding
    likelihood = Request(model="m", prompt="a", continuation="b")
    assert with_params(likelihood, {"top_p": 1}) is likelihood


PROFILE = {"temperature": 0.1, "max_tokens": 40, "stop": "END", "seed": 3, "extra_body": {"top_k": 5}}
GOOGLE = "/v1beta/models/other:generateContent"


@pytest.mark.parametrize(
    ("path", "own", "expected"),
    [
        (
            "/chat/completions",
            {"seed": 8},
            {"temperature": 0.1, "max_tokens": 40, "stop": ["END"], "seed": 3, "top_k": 5},
        ),
        (
            "/chat/completions",
            {"temperature": 0.9, "max_completion_tokens": 7, "stop": None},
            {"temperature": 0.9, "max_completion_tokens": 7, "seed": 3, "top_k": 5},
        ),
        (
            "/completions",
            {"n": 2},
            {"temperature": 0.1, "max_tokens": 40, "stop": ["END"], "seed": 3, "top_k": 5, "n": 2},
        ),
        (
            "/responses",
            {"input": "hi", "temperature": 1},
            {"input": "hi", "temperature": 1, "max_output_tokens": 40, "top_k": 5},
        ),
        (
            "/v1/messages",
            {"max_tokens": 9},
            {"temperature": 0.1, "max_tokens": 9, "stop_sequences": ["END"], "top_k": 5},
        ),
        ("/embeddings", {"input": "hi"}, {"input": "hi", "model": "other"}),
        ("/moderations", {"input": "hi"}, {"input": "hi", "model": "other"}),
    ],
)
def test_a_request_of_another_sdk_is_for_the_runs_model_and_sets_what_the_profile_does_not(
    path: str, own: dict[str, Any], expected: dict[str, Any]
) -> None:
    """The model that the SDK names counts only on paths that need a model of another kind."""
    request = read_sdk_request("openai/run", "", path, {"model": "other", **own}, PROFILE)
    assert request.sdk == SdkRequest(path, expected)


def test_googles_path_gets_the_runs_model_and_its_own_words_for_parameters() -> None:
    body = {"contents": [], "generationConfig": {"temperature": 1}}
    request = read_sdk_request("openai/run", "", GOOGLE, body, {**PROFILE, "headers": {"a": "b"}})
    config = {"temperature": 1, "maxOutputTokens": 40, "stopSequences": ["END"], "seed": 3, "topK": 5}
    body = {"contents": [], "generationConfig": config}
    assert request.sdk == SdkRequest("/v1beta/models/run:generateContent", body, {"a": "b"})


def test_a_request_of_another_sdk_to_a_model_without_an_endpoint_gets_the_profiles_parameters() -> None:
    body = {"model": "other", "messages": [], "temperature": 0.9, "max_completion_tokens": 7, "seed": 8}
    request = read_chat_request("local/run", "", body, {"temperature": 0.1, "max_tokens": 40, "top_p": 1})
    assert request.params == {"temperature": 0.9, "max_tokens": 7, "top_p": 1}


@pytest.mark.parametrize(
    ("message", "change"),
    [
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'",
            0,
        ),
        (
            "[{'type': 'extra_forbidden', 'loc': ('body', 'seed'), 'msg': 'Extra inputs are not permitted'}]",
            4,
        ),
        ("`temperature` is deprecated for this model.", 2),
        ("temperature and top_p cannot both be specified for this model. Please use only one.", 2),
        ("Unrecognized request argument supplied: seed", 4),
        ("temperature must be between 0 and 2", None),
        ("Unknown model: seedling", None),
        ("Unsupported parameter: 'reasoning_effort' is not supported with this model.", None),
    ],
)
def test_a_change_follows_from_the_words_of_the_endpoint(message: str, change: int | None) -> None:
    body = {"model": "m", "max_tokens": 1, "temperature": 0, "top_p": 1, "seed": 1, "reasoning_effort": "low"}
    expected = None if change is None else OPENAI_CHANGES[change]
    assert find_change(OPENAI_CHANGES, message, body) == expected


def test_two_runs_with_different_adaptations_are_compared_with_a_warning(
    strict: LoopbackServer, tmp_path: Path
) -> None:
    def run(url: str, name: str) -> str:
        made = assay.evaluate(
            ROWS,
            model="openai/o9",
            base_url=url,
            gen_kwargs={"temperature": 0},
            score=assay.exact_match("answer"),
            target="answer",
            name="sums",
            output_dir=tmp_path / name,
            quiet=True,
        )
        return str(made.folder)

    with LoopbackServer(lambda body: (200, chat("4"))) as tolerant:
        names = [run(tolerant.url, "a"), run(strict.url, "b")]
    notes = assay.compare(*names).comparisons[0].notes
    assert any("no temperature" in note and "different requests" in note for note in notes)
