"""RFMemory: everything, and one insight that is rewritten."""

from __future__ import annotations

import asyncio
from typing import Any

from assay.memories import rf_memory

from support.memories import Model, around, conversation, find, held, said, tell


def test_the_insight_is_rewritten_in_its_place() -> None:
    """From the last insight and the session alone; its id stays."""
    model = Model(["Ann sails.", "Ann sails and bakes."])
    sessions = conversation(2, 2)

    async def work() -> None:
        memory = rf_memory.make(around(model))
        await tell(memory, sessions[:1])
        first = (await held(memory))[0]
        await tell(memory, sessions[1:])
        second = (await held(memory))[0]
        assert (first.id, first.text, first.sources) == ("insight", "Ann sails.", ("D1:1", "D1:2"))
        assert (second.id, second.text, second.kind) == ("insight", "Ann sails and bakes.", "rf_insight")
        assert (second.session, second.date) == ("S02", "2023-05-02")
        assert second.sources == ("D2:1", "D2:2")

    asyncio.run(work())
    first, second = (messages[1]["content"] for messages, _ in model.asked)
    assert "<note>\n(nothing yet)\n</note>" in first
    assert "<note>\nAnn sails.\n</note>" in second
    assert '<session date="2023-05-02">' in second
    assert sessions[1][0].line in second
    assert sessions[0][0].line not in second


def test_a_session_that_ends_twice_is_thought_about_once() -> None:
    model = Model()
    asyncio.run(tell(rf_memory.make(around(model)), [*conversation(1, 2), []]))
    assert len(model.asked) == 1


def bundle(**options: Any) -> list[str]:
    async def work() -> list[str]:
        memory = rf_memory.make(around(Model(["he is tall"]), **options))
        await tell(memory, [[said("D1:1", "one two"), said("D1:2", "three four")]])
        return [found.item.text for found in await find(memory, "?", 1)]

    return asyncio.run(work())


def test_the_insight_comes_first_and_counts() -> None:
    """What it leaves of the budget is for the newest messages."""
    assert bundle() == ["he is tall", "one two", "three four"]
    assert bundle(words=6) == ["he is tall", "two", "three four"]
    assert bundle(words=5, keep="head") == ["he is tall", "one two"]
    assert bundle(words=3) == ["he is tall"]
    assert bundle(words=2) == ["he is"]
    assert bundle(words=0) == []


def test_a_long_session_is_thought_about_from_its_end() -> None:
    model = Model()
    memory = rf_memory.make(around(model, session_words=3))
    asyncio.run(tell(memory, [[said("D1:1", "one two"), said("D1:2", "three four")]]))
    assert ">\ntwo\nthree four\n<" in model.asked[0][0][1]["content"]
