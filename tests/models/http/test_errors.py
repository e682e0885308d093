"""What the errors of endpoints mean, in the words of each vendor."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import assay
from assay.core.errors import ModelError
from assay.models.http.errors import decode_json, status_error
from assay.models.http.openai_format import read_completion
from assay.models.http.wire import HttpResponse

from support.commands import Job

TALKS = Path(__file__).parents[3] / "examples" / "memory" / "talks.json"
FILTERED = "What is the name of Mira's bakery?"
AZURE = {
    "error": {
        "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
        "type": None,
        "param": "prompt",
        "code": "content_filter",
        "status": 400,
        "innererror": {"code": "ResponsibleAIPolicyViolation"},
    }
}

LIMIT_TOO_LARGE = (
    "'max_tokens' or 'max_completion_tokens' is too large: {}. This model's maximum context length is 8192 tokens "
    "and your request has {} input tokens."
)
VLLM_OVERFLOW = (
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8744 in the messages, "
    "256 in the completion). Please reduce the length of the messages or completion."
)


def kind_of(status: int, body: Any) -> str:
    content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return status_error(HttpResponse(status, {}, content), "http://h").failure.kind


def test_a_hint_follows_the_text_of_a_page_with_one_full_stop() -> None:
    error = status_error(HttpResponse(404, {}, b"<p>There is no such page.</p>"), "http://h")
    assert "There is no such page. Check the model's name" in error.failure.message


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, AZURE),
        (400, {"error": {"message": "Invalid prompt: it was flagged", "code": "invalid_prompt"}}),
        (400, {"error": {"message": "Output blocked by content filtering policy", "type": "invalid_request_error"}}),
        (400, {"error": {"message": "Content Exists Risk", "type": "invalid_request_error"}}),
        (400, {"error": {"message": "It may contain inappropriate content.", "code": "data_inspection_failed"}}),
        (403, {"error": {"code": 403, "message": "m requires moderation. Your input was flagged for violence"}}),
        (400, {"error": "Output blocked by content filtering policy"}),
        (400, {"error": "Blocked", "code": "content_filter"}),
    ],
)  # fmt: skip
def test_a_policy_error_is_a_refusal(status: int, body: Any) -> None:
    assert kind_of(status, body) == "refusal"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "This model's maximum context length is 8192 tokens."),
        (400, "The decoder prompt (length 9000) is longer than the maximum model length of 8192."),
        (400, "The input (9000 tokens) is longer than the model's context length (8192 tokens)."),
        (400, "the request exceeds the available context size, try increasing it"),
        (400, "prompt is too long: 210000 tokens > 200000 maximum"),
        (400, "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576)."),
        (422, "`inputs` tokens + `max_new_tokens` must be <= 4096"),
        (400, VLLM_OVERFLOW),
        (400, LIMIT_TOO_LARGE.format(256, 8100)),
    ],
)
def test_a_prompt_that_is_too_long_is_an_overflow(status: int, message: str) -> None:
    assert kind_of(status, {"error": {"message": message}}) == "context_overflow"


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"error": {"message": "Your input is too large.", "code": "context_length_exceeded"}}, "context_overflow"),
        (400, {"object": "error", "message": "longer than the model's context length (8 tokens).", "code": 400}, "context_overflow"),
        (400, {"error": {"code": 400, "message": "API key not valid.", "details": [{"reason": "API_KEY_INVALID"}]}}, "auth"),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "rate_limited"),
        (400, {"error": {"message": "unknown parameter: top_q", "code": "unknown_parameter"}}, "rejected"),
        (400, "<html>Bad request</html>", "rejected"),
        (400, {"error": "content_filter is not a model"}, "rejected"),
        (429, {"error": "Insufficient balance"}, "no_credit"),
        (403, {"error": {"message": "the key has no access"}}, "auth"),
        (403, {"error": {"message": "Access denied by usage policy of your organization"}}, "auth"),
        (400, {"error": {"message": LIMIT_TOO_LARGE.format(99999, 12)}}, "rejected"),
    ],
)  # fmt: skip
def test_other_errors_are_not_taken_for_refusals(status: int, body: Any, kind: str) -> None:
    assert kind_of(status, body) == kind


@pytest.mark.parametrize(
    ("value", "shortest", "longest"),
    [
        ("2", 2.0, 2.0),
        ("-1", 0.0, 0.0),
        ("86400", 86400.0, 86400.0),
        ("inf", math.inf, math.inf),
        ("1e400", math.inf, math.inf),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 1e11, 1e12),
        ("Mon, 01 Jan 2001 00:00:00 GMT", 0.0, 0.0),
    ],
)
def test_the_wait_that_an_endpoint_asks_for_is_read(value: str, shortest: float, longest: float) -> None:
    wait = status_error(HttpResponse(429, {"Retry-After": value}, b""), "http://h").wait
    assert wait is not None
    assert shortest <= wait <= longest


@pytest.mark.parametrize("value", ["nan", "soon", "", "Fri, 31 Dec 99999 23:59:59 GMT"])
def test_a_wait_that_is_no_number_and_no_date_is_ignored(value: str) -> None:
    assert status_error(HttpResponse(429, {"Retry-After": value}, b""), "http://h").wait is None


@pytest.mark.parametrize(("delay", "wait"), [("21s", 21.0), ("0.5s", 0.5), ("86400s", 86400.0), ("soon", None)])
def test_gemini_names_the_time_to_wait_in_the_body(delay: str, wait: float | None) -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}
    body = {"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": [{}, info]}}
    assert status_error(HttpResponse(429, {}, json.dumps(body).encode()), "http://h").wait == wait


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "it has an empty body"),
        (b" \n", "it has an empty body"),
        (b"<html><head><style>p {}</style></head><body>Please <b>log in</b></body></html>", "begins with: Please log in"),
        (b"upstream connect error", "begins with: upstream connect error"),
        (b"{" + b"x" * 5000, "begins with: {" + "x" * 119 + "…"),
    ],
)  # fmt: skip
def test_a_reply_that_is_not_json_is_quoted(body: bytes, words: str) -> None:
    with pytest.raises(ModelError) as caught:
        decode_json(HttpResponse(200, {}, body), "http://h")
    assert caught.value.failure.kind == "bad_reply"
    assert caught.value.failure.message.endswith(words)


def test_a_completion_without_text_is_a_bad_reply_and_not_an_empty_answer() -> None:
    with pytest.raises(ModelError, match="its first choice has no text"):
        read_completion({"choices": [{"message": {"content": "4"}, "finish_reason": "stop"}]}, "http://h")
    assert read_completion({"choices": [{"text": ""}]}, "http://h").text == ""


def test_a_filtered_question_of_a_memory_test_costs_that_question(tmp_path: Path) -> None:
    """Its conversation has all other answers, and another start asks nothing again."""

    async def reply(request: web.Request) -> web.Response:
        body = await request.json()
        requests.append(body)
        if body["model"] == "filtered" and FILTERED in body["messages"][-1]["content"]:
            return web.json_response(AZURE, status=400)
        message = {"role": "assistant", "content": "Tanja"}
        return web.json_response({"choices": [{"message": message, "finish_reason": "stop"}]})

    async def main() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", reply)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        words = ["memory", "test", "--data", str(TALKS), "--memory", "bm25", "--quiet"]
        words += ["--base-url", f"http://{host}:{port}/v1"]
        for name in ("open", "filtered", "filtered"):
            out = tmp_path / name
            job = Job(["-m", "assay", *words, "--model", f"openai/{name}", "--output-dir", str(out)], out)
            ended = await asyncio.to_thread(job.run)
            assert ended.code == 0, ended.err
            counts.append(len(requests))
        await runner.cleanup()

    requests: list[Any] = []
    counts: list[int] = []
    asyncio.run(main())
    assert counts == [counts[0], 2 * counts[0], 2 * counts[0]]
    every, filtered = (assay.load(str(tmp_path / name)).metric("f1") for name in ("open", "filtered"))
    assert (filtered.denominator, filtered.left_out) == (every.denominator, every.left_out)


@pytest.mark.parametrize("status", [200, 400, 500])
def test_a_body_that_is_nested_too_deeply_fails_the_call(status: int) -> None:
    response = HttpResponse(status, {}, b'{"error": ' + b"[" * 100_000)
    with pytest.raises(ModelError, match="here"):
        decode_json(response, "here")
