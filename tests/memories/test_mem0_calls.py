"""Dates are pinned, failures are kept, and what the gateway told an SDK becomes an error of ours."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest

from assay.core.errors import UsageError
from assay.memories.mem0 import CallMonitor, Mem0Embedder, Mem0Llm, embed_with_run, replace_dates

from support.memories import Model

DATES = "\n\n## Observation Date\n2026-01-01\n\n## Current Date\n2026-01-01\n\n"
PROMPT = f"## New Messages\nuser: hm{DATES}# Output:"


def test_both_dates_are_the_sessions() -> None:
    """Text in a message that looks like mem0's dates is not changed, and a date cannot add lines."""
    assert "2026" not in replace_dates(PROMPT, "8 May")
    assert replace_dates(PROMPT, "8 May\n\n## x").count("8 May ## x\n") == 2
    assert replace_dates(PROMPT, " ").count("unknown\n") == 2
    twice = PROMPT.replace("hm", f"hm{DATES}")
    assert replace_dates(twice, "8 May").count("2026-01-01") == 2
    assert replace_dates(twice, "8 May").endswith(DATES.replace("2026-01-01", "8 May") + "# Output:")


def test_a_date_elsewhere_is_not_overlooked() -> None:
    """If mem0 words its dates differently, the run stops; today's date must not reach the prompt."""
    with pytest.raises(UsageError, match="pip install 'mem0ai==2.2"):
        replace_dates("Today is 2026-01-01.", "8 May")


def test_the_system_prompt_stays_as_it_is() -> None:
    """Only the last message has the dates."""
    asked: list[dict[str, Any]] = []

    class Own:
        def generate_response(self, messages: list[dict[str, Any]], response_format: Any) -> str:
            asked.extend(messages)
            return "{}"

    llm = Mem0Llm(Own(), CallMonitor())
    llm.date = "8 May"
    given = [{"role": "system", "content": DATES}, {"role": "user", "content": PROMPT}]
    assert llm.generate_response(given, response_format={}) == "{}"
    assert [message["content"] for message in asked] == [DATES, replace_dates(PROMPT, "8 May")]


def test_the_first_failure_is_kept() -> None:
    """However the operation ends; nothing is asked after it, and the next operation begins anew."""
    monitor, asked = CallMonitor(), []

    def ask(number: int) -> int:
        asked.append(number)
        if number == 1:
            raise RuntimeError("the first")
        return number

    def swallowing() -> str:
        for number in (0, 1, 2):
            with pytest.raises(RuntimeError) if number else nullcontext():
                monitor.call(partial(ask, number))
        return "as if nothing had been"

    with pytest.raises(RuntimeError, match="the first"):
        monitor.operation(swallowing)
    assert asked == [0, 1]
    assert monitor.operation(lambda: monitor.call(partial(ask, 3))) == 3


def test_vectors_of_the_run_are_asked_from_a_thread() -> None:
    """In the order of the texts; no texts ask for nothing."""

    async def work() -> tuple[list[list[float]], list[list[float]], Model]:
        model = Model()
        embedder = Mem0Embedder(embed_with_run(model.embed)(None), CallMonitor())
        many = await asyncio.to_thread(embedder.embed_batch, ["a", "b"])
        one = await asyncio.to_thread(embedder.embed, "b")
        assert await asyncio.to_thread(embedder.embed_batch, []) == []
        return many, [one], model

    many, one, model = asyncio.run(work())
    assert many[1:] == one
    assert model.embedded == ["a", "b", "b"]
