"""Likelihoods from an endpoint: the harness's numbers to the last bit, and clear words where there are none."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.core.errors import ModelError, UsageError
from assay.core.roles import Connection
from assay.core.types import Request, Response, Usage
from assay.models import openai_completions
from assay.models.likelihood import spans

from servers.echoing import BOS, EOS, EchoServer, byte_pieces, logprob, word_pieces

GOLDEN = Path(__file__).parents[1] / "golden" / "lm_eval" / "out" / "d_mc"
TASKS = ("g_mc", "g_mc_mi", "g_ll", "g_ppl", "g_wino")


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def pair(prompt: str | None, continuation: str) -> Request:
    return Request(model="openai-completions/org/Fake-1.0", prompt=prompt, continuation=continuation)


def ask(server: EchoServer, *requests: Request, **args: Any) -> list[Any]:
    """Responses, or the failures, of requests sent side by side."""

    async def send() -> list[Any]:
        async with server:
            connection = Connection(name="org/Fake-1.0", base_url=server.url, timeout=20.0, args=args)
            model = openai_completions.connect(connection)
            try:
                return await asyncio.gather(*[model.send(r, 1234) for r in requests], return_exceptions=True)
            finally:
                await model.close()

    return asyncio.run(send())


def recorded(task: str) -> list[tuple[Request, Any]]:
    """Every request of a golden run with its `resps` entry."""
    (path,) = GOLDEN.glob(f"*/samples_{task}_2*.jsonl")
    found = []
    for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        for arguments, (response,) in zip(row["arguments"].values(), row["resps"], strict=True):
            prompt, text = arguments.get("arg_0"), arguments.get("arg_1")
            found.append((pair(prompt, text) if text is not None else pair(None, prompt), response))
    return found


def as_written(request: Request, response: Response) -> Any:
    """The way `resps` writes a likelihood."""
    value = str(response.data["logprob"])
    return value if request.prompt is None else [value, str(response.data["greedy"])]


@pytest.mark.parametrize("task", TASKS)
def test_numbers_are_those_of_the_harness(task: str) -> None:
    """Multiple choice, mutual information, likelihood, rolling, several contexts: equal to the last digit."""
    golden = recorded(task)
    responses = ask(EchoServer(), *[request for request, _ in golden])
    assert [as_written(r, got) for (r, _), got in zip(golden, responses, strict=True)] == [
        expected for _, expected in golden
    ]


def test_requests_are_those_of_the_harness() -> None:
    """All 208 bodies, key by key; the tokenizer's special tokens are asked for once."""
    server = EchoServer()
    ask(server, *[request for task in TASKS for request, _ in recorded(task)])
    lines = (GOLDEN / "requests.jsonl").read_text(encoding="utf-8").splitlines()
    expected = Counter(json.dumps(json.loads(line)["body"]) for line in lines)
    assert Counter(map(json.dumps, server.bodies("/v1/completions"))) == expected
    assert len(lines) == 208
    assert len(server.bodies("/tokenizer_info")) == 1


@pytest.mark.parametrize("task", TASKS)
def test_an_endpoint_without_tokenizer_gives_the_same_numbers(task: str) -> None:
    """By `text_offset` alone, where tokens end where the prompt ends; the first token is named by the user."""
    golden = recorded(task)
    server = EchoServer("/tokenize", "/tokenizer_info", "/detokenize")
    responses = ask(server, *[request for request, _ in golden], eos_string=BOS)
    assert [as_written(r, got) for (r, _), got in zip(golden, responses, strict=True)] == [
        expected for _, expected in golden
    ]
    assert all(isinstance(body["prompt"], str) for body in server.bodies("/v1/completions"))


def test_texts_may_go_out_as_texts() -> None:
    """`tokenized_requests=False` sends the text of the tokens; the number is the same."""
    request = pair("Grüße aus", " Köln")
    (with_ids,), server = ask(EchoServer(), request), EchoServer()
    (with_text,) = ask(server, request, tokenized_requests="False")
    assert with_text == msgspec.structs.replace(with_ids, address=with_text.address)
    assert server.bodies("/v1/completions")[0]["prompt"] == "Grüße aus Köln"


def test_the_reply_has_usage_and_no_text() -> None:
    """Tokens are counted as the endpoint counts them."""
    (response,) = ask(EchoServer(), pair("a b", " c"))
    assert response == Response("", None, Usage(5, 1), response.data, address=response.address)
    assert response.data.keys() == {"logprob", "greedy"}


def test_white_space_belongs_to_the_continuation() -> None:
    """Moving a space over the boundary changes nothing; a prompt of spaces is no prompt at all."""
    one, two, blank, none = ask(EchoServer(), pair("a b ", "c"), pair("a b", " c"), pair(" ", "c"), pair("", " c"))
    assert one == two
    assert blank == none


def test_long_prompts_are_cut_from_the_left() -> None:
    """Of `max_length` tokens one is for the generated token; the continuation stays whole."""
    server = EchoServer()
    (cut,) = ask(server, pair("0123456789", "abc"), max_length=8)
    assert server.bodies("/v1/completions")[0]["prompt"] == [list(b"6789abc")]
    ids = list(b"6789abc")
    assert cut.data["logprob"] == spans.sum_in_order(round(logprob(ids[:i], ids[i])[0], 6) for i in (4, 5, 6))


def test_a_continuation_longer_than_the_context_is_an_overflow() -> None:
    """It counts against the model, as every context overflow; nothing is posted."""
    server = EchoServer()
    fits, late = ask(server, pair("x", "123456"), pair("x", "1234567"), max_length=8)
    assert isinstance(fits, Response)
    assert (late.failure.kind, late.failure.status, late.retry) == (
        "context_overflow",
        "subject_error",
        False,
    )
    assert len(server.bodies("/v1/completions")) == 1


def test_a_long_text_rolls_through_windows() -> None:
    """Each token is scored once; the first window stands after the prefix token, the last looks back."""
    server = EchoServer()
    (response,) = ask(server, pair(None, "0123456789ABC"), max_length=7)
    prompts = [bytes(body["prompt"][0][1:]) for body in server.bodies("/v1/completions")]
    firsts = [body["prompt"][0][0] for body in server.bodies("/v1/completions")]
    assert prompts == [b"01234", b"56789", b"89ABC"]
    assert firsts == [257, ord("4"), ord("7")]
    parts = [[257, *b"01234"], list(b"456789"), list(b"789ABC")]
    starts = (1, 1, 3)
    expected = [
        spans.sum_in_order(round(logprob(ids[:i], ids[i])[0], 6) for i in range(start, len(ids)))
        for ids, start in zip(parts, starts, strict=True)
    ]
    assert response.data == {"logprob": spans.sum_in_order(expected), "greedy": False}


def test_a_rolling_likelihood_is_never_greedy() -> None:
    """A rolling likelihood is never greedy, even if the same text after the prefix token is."""
    letters = "abcdefgh"
    replies = ask(EchoServer(), *[pair(prompt, letter) for letter in letters for prompt in ("", None)])
    assert any(reply.data["greedy"] for reply in replies[::2])
    assert not any(reply.data["greedy"] for reply in replies[1::2])


def test_an_endpoint_that_could_before_is_asked_again() -> None:
    """One odd reply after good ones does not halt the run: it is a bad reply, to be tried again."""

    async def send() -> None:
        async with EchoServer() as server:
            model = openai_completions.connect(Connection(name="m", base_url=server.url))
            try:
                await model.send(pair("a", " b"), 1)
                server.without.add("echo")
                await model.send(pair("a", " c"), 1)
            finally:
                await model.close()

    with pytest.raises(ModelError) as caught:
        asyncio.run(send())
    assert (caught.value.failure.kind, caught.value.retry) == ("bad_reply", True)


def test_the_prefix_token() -> None:
    """The first token, else the last one; the user's own goes before both; a text may begin with it itself."""
    end = EchoServer(info={"bos_token": None, "eos_token": EOS})
    ask(end, pair("", "ab"))
    own = EchoServer()
    ask(own, pair("", "ab"), custom_prefix_token_id=7)
    itself = EchoServer()
    ask(itself, pair("", f"{BOS}ab"))
    unnamed = EchoServer("/tokenizer_info")
    ask(unnamed, pair("", "ab"), eos_string=EOS)
    prompts = [server.bodies("/v1/completions")[0]["prompt"][0] for server in (end, own, itself, unnamed)]
    assert prompts == [[256, 97, 98], [7, 97, 98], [257, 97, 98], [256, 97, 98]]


def test_a_prompt_is_tokenised_once_for_all_its_choices() -> None:
    """Equal texts side by side and one after the other cost one question."""
    server = EchoServer()
    ask(server, *[pair("What is it?", f" {choice}") for choice in "abcd"])
    asked = Counter(body["prompt"] for body in server.bodies("/tokenize"))
    assert asked["What is it?"] == 1
    assert set(asked.values()) == {1}


def test_an_empty_continuation_is_certain() -> None:
    """Nothing is asked: the empty text has probability 1, after a prompt and without one."""
    server = EchoServer()
    replies = ask(server, pair("a", ""), pair("", ""), pair(None, ""))
    assert [reply.data["logprob"] for reply in replies] == [0.0, 0.0, 0.0]
    assert server.asked == []


def test_a_token_over_the_boundary() -> None:
    """By offsets it counts to the continuation; by ids such a continuation has no token, and is rejected."""
    (by_text,) = ask(EchoServer("/tokenize", "/tokenizer_info", pieces=word_pieces), pair("It is a foot", "ball game"))
    ids = [piece.id for piece in word_pieces("It is a football game")]
    value = spans.sum_in_order(round(logprob(ids[:i], ids[i])[0], 6) for i in (3, 4))
    assert by_text.data["logprob"] == value
    (by_ids,) = ask(EchoServer(pieces=word_pieces), pair("It is a foot", "ball"))
    assert by_ids.failure.kind == "rejected"
    assert "adds no token" in by_ids.failure.message


@pytest.mark.parametrize(
    ("without", "args", "message"),
    [
        (("echo",), {}, "1 logprobs for a prompt of 4 tokens"),
        (("echo", "/tokenize"), {}, "does not echo the prompt"),
        (("offsets", "/tokenize"), {}, "text_offset does not say where tokens begin"),
        (("characters", "/tokenize"), {}, "text_offset does not say where tokens begin"),
        (("/tokenize",), {"tokenizer_backend": "remote"}, "has no tokenizer"),
    ],
)
def test_endpoints_without_likelihoods_fail_with_a_reason(
    without: tuple[str, ...], args: dict[str, Any], message: str
) -> None:
    """The failure says what is missing, and has the kind that halts a run."""
    (error,) = ask(EchoServer(*without), pair("aß", "c"), **args)
    assert isinstance(error, ModelError)
    assert (error.failure.kind, error.retry) == ("unsupported", False)
    assert message in error.failure.message


@pytest.mark.parametrize("without", [(), ("/tokenize",)])
def test_a_text_without_prompt_needs_a_token_before_it(without: tuple[str, ...]) -> None:
    """Where neither the endpoint nor the user names one, the failure says how to."""
    (error,) = ask(EchoServer("/tokenizer_info", *without), pair(None, "abc"))
    assert error.failure.kind == "unsupported"
    assert "--model-args" in error.failure.message


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"tokenizer_backend": "spacy"}, "--model-args tokenizer_backend: expected one of auto, .*found 'spacy'"),
        ({"max_length": "long"}, "--model-args max_length: expected a whole number of at least 3, found 'long'"),
        ({"max_length": "\udc80"}, "--model-args: .* is not UTF-8"),
        ({"tokenized_requests": "maybe"}, "--model-args tokenized_requests: expected true or false, found 'maybe'"),
    ],
)
def test_wrong_arguments_are_refused(args: dict[str, Any], message: str) -> None:
    """Before anything is asked."""
    with pytest.raises(UsageError, match=message):
        openai_completions.connect(Connection(name="m", base_url="http://127.0.0.1:1/v1", args=args))


def test_bytes_are_what_the_golden_server_had() -> None:
    """The server's tokens and numbers are those of the recorded replies."""
    line = json.loads((GOLDEN / "requests.jsonl").read_text(encoding="utf-8").splitlines()[0])
    (ids,), choice = line["body"]["prompt"], line["out"]["choices"][0]
    assert [piece.id for piece in byte_pieces(choice["text"])][:-1] == ids
    assert choice["logprobs"]["token_logprobs"][5] == round(logprob(ids[:5], ids[5])[0], 6)
