"""`read_plain_chat` reads the most common replies faster than `read_chat`, and never differently."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from assay.core.errors import ModelError
from assay.models.http.openai_format import read_chat, read_plain_chat

URL = "http://127.0.0.1:1/v1"
USAGE = {"prompt_tokens": 24, "completion_tokens": 2, "total_tokens": 26}
MESSAGES: list[Any] = [
    {"content": "4"},
    {"content": "4", "role": "assistant", "refusal": None, "tool_calls": [], "annotations": []},
    {"content": "4", "reasoning_content": "2 + 2"},
    {"content": "4", "reasoning": "2 + 2", "reasoning_content": None},
    {"content": "4", "reasoning_content": ["2 + 2"]},
    {"content": "", "refusal": "no"},
    {"content": "4", "refusal": "no"},
    {"content": None},
    {"content": [{"type": "text", "text": "4"}]},
    {"content": 4},
    {},
    "4",
    None,
]
USAGES: list[Any] = [
    None,
    USAGE,
    USAGE | {"prompt_tokens_details": None, "completion_tokens_details": None},
    USAGE | {"prompt_tokens_details": {"cached_tokens": 7, "audio_tokens": 0}},
    USAGE | {"prompt_tokens_details": {"cached_tokens": 700}},
    USAGE | {"prompt_tokens_details": {"cached_tokens": -1}},
    USAGE | {"completion_tokens_details": {"reasoning_tokens": 1}},
    USAGE | {"completion_tokens_details": {"reasoning_tokens": "1"}},
    USAGE | {"completion_tokens_details": {}, "output_tokens_details": {"reasoning_tokens": 1}},
    USAGE | {"cost": 0.25},
    USAGE | {"cost": 1},
    USAGE | {"cost": True},
    {"prompt_tokens": 24, "completion_tokens": 2},
    {"prompt_tokens": 0, "completion_tokens": 2, "input_tokens": 5},
    {"prompt_tokens": 24, "completion_tokens": 0, "output_tokens": 5},
    {"prompt_tokens": 24.0, "completion_tokens": 2},
    {"prompt_tokens": "24", "completion_tokens": 2},
    {"prompt_tokens": 10**30, "completion_tokens": 2},
    {"input_tokens": 24, "output_tokens": 2},
    [],
    "many",
]
FINISHES: list[Any] = ["stop", "length", "content_filter", "error", None, 3]


def outcome(reply: Any) -> Any:
    try:
        return read_chat(reply, URL, ("no seed",))
    except ModelError as error:
        return error.failure


def same(reply: Any) -> bool:
    """Compare both readers. Returns whether the fast one could read the reply."""
    body = json.dumps(reply).encode()
    plain = read_plain_chat(body, URL, ("no seed",))
    assert plain is None or plain == outcome(reply)
    return plain is not None


def test_every_reply_is_read_alike() -> None:
    read = 0
    for message, usage, finish in product(MESSAGES, USAGES, FINISHES):
        reply = {"id": "1", "choices": [{"index": 0, "message": message, "finish_reason": finish}]}
        read += same(reply if usage is None else reply | {"usage": usage})
    assert read > 50, "the fast reader reads the common ones"


@pytest.mark.parametrize(
    "reply",
    [
        *({}, [], None, "text", {"choices": []}, {"choices": None}, {"choices": [1]}, {"choices": [{}]}),
        *({"error": {"message": "overloaded"}}, {"choices": [], "error": "overloaded"}),
    ],
)
def test_replies_without_an_answer_are_left_to_the_slow_reader(reply: Any) -> None:
    assert not same(reply)


def test_common_replies_are_read_by_the_fast_reader() -> None:
    for message, usage in product(MESSAGES[:4], USAGES[:5]):
        assert same({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b"<html>"])
def test_a_body_that_is_no_json_is_left_to_the_slow_reader(body: bytes) -> None:
    assert read_plain_chat(body, URL) is None
