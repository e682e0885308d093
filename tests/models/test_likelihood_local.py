"""The embedded model says how likely a text is: exactly, and the same whatever was asked before."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import assay
from assay.core.errors import ModelError
from assay.core.roles import Connection
from assay.core.types import Request, Usage
from assay.models import local, openai_completions
from assay.models.likelihood.llama import LlamaLikelihood, SpanTokens, tokenize
from assay.models.likelihood.spans import Ids, TokenSpan, sum_in_order
from assay.models.llama.server import StopFlag

pytest.importorskip("xllamacpp", reason="the extra 'local' is not installed")
FRANCE = "The capital of France is"
SHOTS = "Question: What do plants need? They use light to make food, and the dog ate 17 pies.\nAnswer: light\n\n" * 3
"""More than 64 tokens: llama.cpp computes prompts of that length in another way, if one lets it."""


class Asker:
    """A model that is loaded once for many questions, each in a loop of its own."""

    def __init__(self, **args: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self.model = local.connect(Connection(name="smollm2", timeout=120.0, args=args))
        self._loop.run_until_complete(self.model.load())

    def __call__(self, prompt: str | None, continuation: str) -> Any:
        request = Request(model="local/smollm2", prompt=prompt, continuation=continuation)
        # The wait is different each time, and no part of the reply.
        return replace(self._loop.run_until_complete(self.model.send(request, 1)), waited=0.0)

    def close(self) -> None:
        self._loop.run_until_complete(self.model.close())
        self._loop.close()


@pytest.fixture(scope="module")
def ask(weights: Path) -> Iterator[Asker]:
    asker = Asker(n_threads=1)
    yield asker
    asker.close()


def ids(ask: Asker, text: str) -> Ids:
    return [token.id for token in tokenize(ask.model._server, text)]


def looked_up(ask: Asker, prompt: Ids, scored: Ids) -> list[float]:
    """Each token's log-probability out of the list of all of them, computed from scratch."""
    forced = LlamaLikelihood(ask.model._server, StopFlag(), reuse_prompt=False)
    return [said.logprob for said in forced.look_up(prompt, scored)]


@pytest.mark.parametrize(
    ("prompt", "continuation"),
    [
        (FRANCE, " Paris"),
        (SHOTS + FRANCE, " Berlin"),
        (FRANCE, " the United Kingdom, which is Grüßte"),
        (FRANCE, " 你"),
        (FRANCE, " 你🦙"),
        (FRANCE, "<|im_end|>\nuser"),
    ],
    ids=["one token", "a long prompt", "many tokens", "parts of a character", "of two", "control tokens"],
)
def test_it_is_the_sum_over_the_vocabulary(ask: Asker, prompt: str, continuation: str) -> None:
    """It equals what the list of the whole vocabulary says, each token asked for from scratch.

    llama.cpp adds 49152 numbers of 32 bits up, in another order for that list: hence the fifth digit.
    """
    context = ids(ask, prompt)
    scored = ids(ask, prompt + continuation)[len(context) :]
    expected = looked_up(ask, context, scored)
    found = ask(prompt, continuation)
    assert found.data["logprob"] == pytest.approx(sum_in_order(expected), abs=2e-5 * len(scored))
    assert found.usage == Usage(len(context), len(scored))


def test_the_vocabulary_adds_up_to_one(ask: Asker) -> None:
    """What is looked up are log-probabilities of the whole vocabulary, before the grammar took any away."""
    forced = LlamaLikelihood(ask.model._server, StopFlag(), reuse_prompt=False)
    (told,) = forced.generate(ids(ask, FRANCE), {"grammar": 'root ::= "a"', "max_tokens": 1, "logprobs": 10**7})
    every = [one["logprob"] for one in told["top_logprobs"]]
    assert len(every) == 49152
    assert math.fsum(map(math.exp, every)) == pytest.approx(1.0, abs=1e-3)


def test_a_likelihood_is_the_sum_of_its_parts(ask: Asker) -> None:
    """To the last bit: the number depends on the text, not on where it is cut into prompt and continuation."""
    start, middle, end = SHOTS + FRANCE, " Paris,", " the city"
    whole, first, second = ask(start, middle + end), ask(start, middle), ask(start + middle, end)
    context = ids(ask, start)
    each = [ask_ids(ask, context, ids(ask, middle + end), place) for place in range(len(ids(ask, middle + end)))]
    assert whole.data["logprob"] == sum_in_order(each)
    assert first.data["logprob"] == sum_in_order(each[: len(ids(ask, middle))])
    assert second.data["logprob"] == sum_in_order(each[len(ids(ask, middle)) :])


def ask_ids(ask: Asker, context: Ids, scored: Ids, place: int) -> float:
    """One token after all before it, from scratch."""
    span = TokenSpan(context + scored[:place], scored[place : place + 1])
    forced = LlamaLikelihood(ask.model._server, StopFlag(), reuse_prompt=False)
    return forced.measure(SpanTokens(span, frozenset())).likelihood.logprob


def test_what_was_asked_before_changes_nothing(ask: Asker) -> None:
    """Choices in another order, after another question, in another server: the same bits."""
    questions = [(SHOTS + FRANCE, f" {city}") for city in ("Paris", "Berlin", "Rome, Italy")]
    questions += [(SHOTS + "The capital of Japan is", " Tokyo"), ("Once", " upon a time")]
    first = [ask(*question) for question in questions]
    again = [ask(*question) for question in reversed(questions)][::-1]
    fresh = Asker(n_ctx=4096)  # the same settings would be the same server
    try:
        alone = [fresh(*question) for question in questions[1:]]
    finally:
        fresh.close()
    assert first == again
    assert first[1:] == alone


def test_greedy_is_what_the_model_would_say(ask: Asker) -> None:
    """True for the words it says at temperature 0, false as soon as one differs."""
    said = ask._loop.run_until_complete(
        ask.model.send(Request(model="m", prompt="Once", params={"max_tokens": 5, "temperature": 0.0}), 1)
    )
    assert ask("Once", said.text).data["greedy"] is True
    assert ask("Once", said.text + " zebra").data["greedy"] is False


def test_white_space_belongs_to_the_continuation(ask: Asker) -> None:
    """A space is the same on either side; an empty continuation is certain."""
    assert ask(f"{FRANCE} ", "Paris") == ask(FRANCE, " Paris")
    assert ask(FRANCE, "").data == {"logprob": 0.0, "greedy": True}


def test_a_text_without_prompt_stands_after_the_first_token(ask: Asker) -> None:
    """`<|im_start|>` for SmolLM2: named or not, it is the same; the whole text rolls after it as well."""
    named = ask("<|im_start|>", "Hello there")
    assert ask("", "Hello there") == named
    assert ask("", "<|im_start|>Hello there").data == named.data
    assert ask(None, "Hello there").data == {"logprob": named.data["logprob"], "greedy": False}


LONG_TEXT = "The dog ate 17 pies, which was odd. " * 26


def test_a_long_prompt_is_cut(weights: Path) -> None:
    """In a context of 256 tokens it loses its beginning. A continuation is never cut."""
    small = Asker(n_ctx=256, n_threads=1)
    try:
        cut = small(LONG_TEXT, " Really?")
        assert cut.usage.input + cut.usage.output == 256
        with pytest.raises(ModelError) as caught:
            small("x", LONG_TEXT)
        assert caught.value.failure.kind == "context_overflow"
    finally:
        small.close()


def test_a_long_text_rolls(weights: Path) -> None:
    """In a context of 256 tokens: windows of 255 that look back."""
    small = Asker(n_ctx=256, n_threads=1)
    try:
        text = LONG_TEXT
        every = ids(small, text)
        rolled = small(None, text)
        (start,) = ids(small, "<|im_start|>")
        parts = [
            TokenSpan([start], every[:255]),
            *(
                TokenSpan(every[end - 256 : at], every[at:end])
                for at, end in zip(range(255, len(every), 255), [*range(510, len(every), 255), len(every)], strict=True)
            ),
        ]
        forced = LlamaLikelihood(small.model._server, StopFlag(), reuse_prompt=False)
        sums = [forced.measure(SpanTokens(part, frozenset())).likelihood.logprob for part in parts]
        assert rolled.data["logprob"] == sum_in_order(sums)
        assert rolled.usage.output == len(every)
    finally:
        small.close()


SCRIPT = """
import asyncio
from assay.core.roles import Connection
from assay.core.errors import ModelError
from assay.core.types import Request
from assay.models import local

async def main():
    model = local.connect(Connection(name="smollm2", timeout=2.0))
    try:
        await model.send(Request(model="local", prompt="a", continuation=" word" * 3000), 1)
    except ModelError as error:
        print(error.failure.kind)

asyncio.run(main())
"""


def test_the_process_ends_in_the_middle_of_a_measurement(weights: Path) -> None:
    """A text that takes too long is a timeout; the process then ends by itself, quietly, with 0."""
    env = {**os.environ, "PYTHONPATH": str(Path(assay.__file__).parents[1])}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "timeout\n", "")


def test_the_server_of_llama_cpp_cannot_do_it_over_http(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ignores `echo`: as an endpoint it is refused in words, though its weights can be measured here."""
    server = ask.model._server
    monkeypatch.setenv("OPENAI_API_KEY", server.key)
    base_url = f"{server.native.listening_address}/v1"

    async def send() -> None:
        model = openai_completions.connect(Connection(name="m", base_url=base_url, timeout=60.0))
        try:
            await model.send(Request(model="m", prompt=FRANCE, continuation=" Paris"), 1)
        finally:
            await model.close()

    with pytest.raises(ModelError, match="cannot return logprobs of the prompt") as caught:
        asyncio.run(send())
    assert caught.value.failure.kind == "unsupported"
