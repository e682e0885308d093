"""MGMemory: the view and its room, what leaves it, and what the model's calls find."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from assay.core.errors import CaseFailed, UsageError
from assay.core.memory import MemoryItem, SearchHit
from assay.memories import mg_memory

from support.memories import Model, around, find, said

# Each message has four words.
SAID = [said(f"D1:{number}", f"word{number} one two three") for number in range(1, 7)]


def lived(
    replies: list[str], count: int = 6, question: str = "", **options: Any
) -> tuple[list[MemoryItem], list[SearchHit], Model]:
    """What is held after some messages, what a question finds, and the model."""
    model = Model(replies)
    settings = {"words": 16, "warn_at": 1.0, "fact_words": 8, "calls": 2, "page": 2, **options}

    async def work() -> tuple[list[MemoryItem], list[SearchHit]]:
        memory = mg_memory.make(around(model, **settings))
        await memory.add(SAID[:count])
        hits = await find(memory, question, 9) if question else []
        return memory.items(), hits

    return (*asyncio.run(work()), model)


def prompt(model: Model, number: int) -> str:
    text: str = model.asked[number][0][-1]["content"]
    return text


def test_a_view_with_room_asks_nothing() -> None:
    """Messages are stored as they are."""
    items, _, model = lived([], count=3)
    assert [(item.id, item.text, item.kind) for item in items] == [
        (message.id, message.text, "linear") for message in SAID[:3]
    ]
    assert model.asked == []


def test_a_full_view_lets_the_model_choose_facts() -> None:
    """16 words are in view with the fourth message; one fact stays in view, one is archived."""
    items, _, model = lived(["save: Ann likes tea\narchive: Bob has a boat"], count=4)
    facts = [item for item in items if item.id.startswith("fact:")]
    assert [(fact.id, fact.text, fact.kind) for fact in facts] == [
        ("fact:1", "Ann likes tea", "mg_working"),
        ("fact:2", "Bob has a boat", "mg_archival"),
    ]
    assert facts[0].sources == ("D1:1", "D1:2", "D1:3", "D1:4")
    assert facts[0].date == "2023-05-08"
    assert len(model.asked) == 1
    assert '<messages date="2023-05-08">\nword1 one two three\n' in prompt(model, 0)


def test_the_oldest_messages_leave_an_over_full_view() -> None:
    """All words in view count, not those of the new message alone, and half of the room stays free."""
    items, _, model = lived(["none", "A summary."], count=5)
    assert items[0] == MemoryItem(
        "summary:recursive", "A summary.", "D1", "2023-05-08", ("D1:1", "D1:2", "D1:3"), "mg_summary"
    )
    assert "word3 one two three\n</messages>" in prompt(model, 1)
    assert "<summary>\n\n</summary>" in prompt(model, 1)


def test_the_summary_is_rewritten_from_itself() -> None:
    """It keeps its id; its sources are all messages that left the view. The warning comes again."""
    messages = [said(f"D2:{number}", "long " * 9) for number in range(1, 6)]
    model = Model(["none", "First.", "none", "Second."])

    async def work() -> list[MemoryItem]:
        memory = mg_memory.make(around(model, words=20, warn_at=1.0))
        await memory.add(messages)
        return memory.items()

    items = asyncio.run(work())
    assert (items[0].id, items[0].text) == ("summary:recursive", "Second.")
    assert items[0].sources == ("D2:1", "D2:2", "D2:3", "D2:4")
    assert len(model.asked) == 4
    assert "<summary>\nFirst.\n</summary>" in prompt(model, 3)


def test_facts_in_view_have_room_too() -> None:
    """The oldest one is archived, under the same id."""
    items, _, _ = lived(["save: one two three four five\nsave: six seven eight nine"], count=4)
    assert [(item.id, item.kind) for item in items[:2]] == [
        ("fact:1", "mg_archival"),
        ("fact:2", "mg_working"),
    ]


def test_the_model_searches_with_words_of_its_own() -> None:
    """What its calls find comes first, then facts in view, the summary, and the last messages, newest first."""
    replies = ["save: a b\narchive: c d", "Summary.", "recall: word1 one\narchive: c d"]
    _, hits, model = lived(replies, count=5, question="What was first?", page=1)
    assert [hit.item.id for hit in hits] == ["D1:1", "fact:2", "fact:1", "summary:recursive", "D1:5", "D1:4"]
    assert hits[0].score > 0
    assert hits[2].score == 0.0
    assert "<facts>\na b\n</facts>\n<summary>\nSummary.\n</summary>" in prompt(model, 2)
    assert "<question>\nWhat was first?\n</question>" in prompt(model, 2)


def test_an_archived_fact_that_is_found_comes_back_into_view() -> None:
    """The next question sees it without a search."""
    replies = ["archive: c d", "archive: c d", "none"]
    model = Model(replies)

    async def work() -> tuple[list[MemoryItem], list[SearchHit]]:
        memory = mg_memory.make(around(model, words=16, warn_at=1.0))
        await memory.add(SAID[:4])
        await find(memory, "first?")
        return memory.items(), await find(memory, "second?", 1)

    items, hits = asyncio.run(work())
    assert (items[0].id, items[0].kind) == ("fact:1", "mg_working")
    assert [hit.item.id for hit in hits] == ["fact:1"]
    assert "<facts>\nc d\n</facts>" in prompt(model, 2)


def test_what_is_in_view_may_be_enough() -> None:
    """None is an answer; an empty archive is no error."""
    _, hits, _ = lived(["none"], count=2, question="?")
    assert [hit.item.id for hit in hits] == ["D1:2", "D1:1"]
    _, hits, _ = lived(["archive: boats"], count=2, question="?")
    assert [hit.item.id for hit in hits] == ["D1:2", "D1:1"]


def test_a_reply_without_a_call_fails_the_case() -> None:
    """After a second try with a hint."""
    with pytest.raises(CaseFailed, match="MGMemory asked for 'functions' twice"):
        lived(["I think so.", "Perhaps."], count=2, question="?")


def test_a_view_without_room_is_refused() -> None:
    with pytest.raises(UsageError, match="words and calls"):
        mg_memory.make(around(words=0))
