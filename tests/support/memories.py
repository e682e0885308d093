"""What memories get in tests: a model and an embedding that give the same to the same, and conversations."""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from assay.core.memory import Memory, MemoryContext, MemoryItem, Message, Query, SearchHit, resolve

SIZE = 64
Messages = list[dict[str, Any]]


def unit(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Each row at length 1."""
    scaled: np.ndarray[Any, Any] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


class Model:
    """A model that answers by the form asked for, or with what it is given, in order; it keeps all it was asked."""

    def __init__(self, replies: Iterable[str] = ()) -> None:
        self.replies = list(replies)
        self.asked: list[tuple[Messages, dict[str, Any]]] = []
        self.said: list[str] = []
        self.embedded: list[str] = []

    async def ask(self, messages: Messages, params: dict[str, Any]) -> str:
        self.asked.append((messages, params))
        number = len(self.said)
        self.said.append(self.replies[number] if number < len(self.replies) else self._answer(messages))
        return self.said[-1]

    def _answer(self, messages: Messages) -> str:
        system, text = messages[0]["content"], messages[-1]["content"]
        chance = zlib.crc32(text.encode())
        if "archive: " in system:  # calls of MGMemory; at times it wants none
            first = "save" if "save: " in system else "recall"
            return f"{first}: number {chance % 89}\narchive: chess {chance % 97}" if chance % 4 else "none"
        if "whole number" in system:
            return str(1 + chance % 10)
        if "yes" in system:
            return "yes" if chance % 3 == 0 else "no"
        if "each" in system and "line" in system:
            return f"1. What does {chance % 89} mean?\n2. Who is {chance % 97}?"
        return f"In short, {chance:x}: {' '.join(text.split()[2:12])}"

    async def embed(self, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        """A bag of words: each word has a place of its own, more or less."""
        self.embedded += texts
        rows = np.zeros((len(texts), SIZE), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split() or [""]:
                row[zlib.crc32(word.encode()) % SIZE] += 1
        return unit(rows)


class Placed(Model):
    """An embedding by hand: a text has the vector that is written down for it."""

    def __init__(self, vectors: Mapping[str, Sequence[float]], replies: Iterable[str] = ()) -> None:
        super().__init__(replies)
        self.vectors = vectors

    async def embed(self, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        return unit(np.array([self.vectors[text] for text in texts], dtype=np.float32))


def around(model: Model | None = None, **options: Any) -> MemoryContext:
    """The world of one memory."""
    model = model or Model()
    return MemoryContext(model.ask, model.embed, _nowhere, Path(), random.Random(1), options)


async def _nowhere() -> str:
    raise AssertionError("no foreign SDK is under test here")


def said(place: str, text: str, date: str = "2023-05-08") -> Message:
    """A message without a speaker."""
    return Message(place, text, session=place.partition(":")[0], date=date)


def messages(*texts: str, speaker: str = "", session: str = "1", date: str = "") -> list[Message]:
    """A session of one speaker."""
    return [Message(f"D{session}:{number}", text, speaker, session, date) for number, text in enumerate(texts, 1)]


TOPICS = ("boats", "the garden", "Lisbon", "a violin", "old maps", "bread", "chess", "the night train")


def conversation(sessions: int, size: int, who: str = "Ann") -> list[list[Message]]:
    """So many sessions of so many messages, two people in turns."""
    return [
        [
            Message(
                f"D{session}:{number}",
                f"{who} number {session * 1000 + number} likes {TOPICS[(session + number) % len(TOPICS)]}",
                who if number % 2 else "Bob",
                f"S{session:02}",
                f"2023-05-{session:02}" if session < 32 else "",
            )
            for number in range(1, size + 1)
        ]
        for session in range(1, sessions + 1)
    ]


async def tell(memory: Memory, sessions: Sequence[Sequence[Message]], packet: int = 2) -> None:
    """A conversation as a suite tells it: packets of messages, then the session's end."""
    for session in sessions:
        for first in range(0, len(session), packet):
            await resolve(memory.add(session[first : first + packet]))
        await resolve(memory.end_session())


async def find(memory: Memory, text: str, k: int = 5, evidence: tuple[str, ...] = ()) -> list[SearchHit]:
    """A search, whether it is `async` or not."""
    return list(await resolve(memory.search(Query(text, evidence), k)))


def searched(memory: Memory, question: str, k: int = 10) -> list[tuple[str, float]]:
    """Ids and scores of a search, from outside any loop."""
    return [(found.item.id, found.score) for found in asyncio.run(find(memory, question, k))]


async def held(memory: Memory) -> Sequence[MemoryItem]:
    """What it holds, as it gives it."""
    return await resolve(memory.items())
