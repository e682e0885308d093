"""Prompts and stops at `/completions`: cut by the endpoint's tokenizer, and sent as lm-evaluation-harness sends them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from assay.core.roles import Connection
from assay.core.types import Request, Response
from assay.models import openai_completions

from servers.echoing import EOS, EchoServer

PROMPT = "0123456789" * 4
"""Forty tokens: each is a byte."""
NO_TOKENIZER = ("/tokenize", "/tokenizer_info")


def complete(server: EchoServer, args: dict[str, Any], **params: Any) -> Response:
    """Return the reply to one request. The server keeps the request's body."""

    async def send() -> Response:
        async with server:
            model = openai_completions.connect(Connection(name="m", base_url=server.url, timeout=20.0, args=args))
            try:
                request = Request(model="openai-completions/m", prompt=PROMPT, params=params)
                return await model.send(request, 1234)
            finally:
                await model.close()

    return asyncio.run(send())


def sent(args: dict[str, Any], *without: str, **params: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the body that the endpoint got, and what the reply says of changes."""
    server = EchoServer(*without)
    response = complete(server, args, **params)
    (body,) = server.bodies("/v1/completions")
    return body, response.adapted


@pytest.mark.parametrize(
    ("max_length", "limit", "kept"),
    [
        pytest.param(31, 10, 20, id="one token less than max_length minus the limit of the reply"),
        pytest.param(51, 10, 40, id="a prompt that just fits is sent as text"),
        pytest.param(271, None, 14, id="without a limit the harness counts 256 tokens"),
    ],
)
def test_long_prompts_are_cut_from_the_left_as_the_harness_cuts(max_length: int, limit: int | None, kept: int) -> None:
    params = {} if limit is None else {"max_tokens": limit}
    body, notes = sent({"cut_prompts": True, "max_length": max_length}, **params)
    is_cut = kept < len(PROMPT)
    assert body["prompt"] == ([list(PROMPT[-kept:].encode())] if is_cut else PROMPT)
    cut = (f"prompts cut to {kept} tokens: max_length, less the limit of the reply",)
    assert notes == (cut if is_cut else ())


@pytest.mark.parametrize(
    ("args", "without", "note"),
    [
        ({}, (), ""),
        ({"cut_prompts": False}, (), ""),
        ({"cut_prompts": True}, NO_TOKENIZER, "no tokenizer is used"),
        ({"cut_prompts": True, "tokenizer_backend": "none"}, (), "no tokenizer is used"),
        ({"cut_prompts": True, "tokenizer_backend": "None"}, (), "no tokenizer is used"),
        ({"cut_prompts": True, "tokenized_requests": False}, (), "no tokenizer is used"),
        ({"cut_prompts": True, "max_length": 9}, (), "it leaves no room beside the limit of the reply"),
    ],
)
def test_prompts_that_cannot_be_cut_are_sent_whole_and_the_reply_says_so(
    args: dict[str, Any], without: tuple[str, ...], note: str
) -> None:
    body, notes = sent({"max_length": 31, **args}, *without, max_tokens=10)
    assert body["prompt"] == PROMPT
    assert notes == ((f"prompts not cut at max_length: {note}",) if note else ())


def test_without_a_tokenizer_the_default_length_is_no_reason_for_a_note() -> None:
    _, notes = sent({"cut_prompts": True}, *NO_TOKENIZER, max_tokens=2030)
    assert notes == ()


def test_a_short_prompt_needs_no_request_to_the_tokenizer() -> None:
    server = EchoServer()
    complete(server, {"cut_prompts": True}, max_tokens=10)
    assert [path for path, _ in server.asked] == ["/v1/completions"]


STOPS = ["a", "b", "c", "d", "e", "f"]


@pytest.mark.parametrize(
    ("args", "without", "stops", "is_text"),
    [
        pytest.param({}, (), STOPS[:4], True, id="assay: the four stops that OpenAI takes"),
        pytest.param({"lm_eval_requests": True}, (), [*STOPS, EOS], False, id="all stops, EOS, token ids"),
        pytest.param({"lm_eval_requests": True, "stop_at_eos": False}, (), STOPS, False, id="no EOS"),
        pytest.param({"lm_eval_requests": True}, NO_TOKENIZER, STOPS, True, id="no tokenizer"),
        pytest.param(
            {"lm_eval_requests": True, "tokenizer_backend": "none", "eos_string": "</s>"},
            (),
            [*STOPS, "</s>"],
            True,
            id="EOS from eos_string",
        ),
        pytest.param({"lm_eval_requests": True, "eos_string": "b"}, (), STOPS, False, id="no stop twice"),
    ],
)
def test_requests_of_the_harness_have_all_stops_and_the_eos(
    args: dict[str, Any], without: tuple[str, ...], stops: list[str], is_text: bool
) -> None:
    body, _ = sent(args, *without, stop=STOPS, max_tokens=10)
    assert body["stop"] == stops
    assert body["prompt"] == (PROMPT if is_text else [list(PROMPT.encode())])


def test_the_harness_loses_the_first_tokens_if_the_reply_may_be_longer_than_max_length() -> None:
    """Its expression is `ids[-room:]`, and `room` is 29 - 45 here."""
    body, notes = sent({"lm_eval_requests": True, "max_length": 30}, max_tokens=45)
    assert body["prompt"] == [list(PROMPT[16:].encode())]
    assert notes == ("prompts without their first 16 tokens: max_length, less the limit of the reply",)
