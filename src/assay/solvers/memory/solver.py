"""Feeds a conversation to a memory; at each test it searches every visible question and has it answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from assay.core.memory import Message, Query
from assay.core.protocols import Context, Solver
from assay.solvers.memory.answering import PROMPT, Answer, answer
from assay.solvers.memory.flying import Flying
from assay.solvers.memory.holding import Held, Maker

PACKET = 2
"""Messages that are inserted together; packets never cross sessions."""


class Asked(Struct, frozen=True):
    """A question, and where its evidence stands: for memories alone that declare to need it."""

    index: int
    text: str
    evidence: tuple[str, ...] = ()


class Round(Struct, frozen=True):
    """A test: after so many messages, the first questions up to so many."""

    after: int
    visible: int


class Feeding(Struct, frozen=True):
    """One conversation for one memory."""

    memory: str
    sessions: tuple[tuple[Message, ...], ...]
    questions: tuple[Asked, ...]
    rounds: tuple[Round, ...]


class MemorySolver(Solver):
    """Emits an `answer` for each test and question, then `fed`: seconds and tokens of the memory itself."""

    def __init__(
        self,
        makers: Mapping[str, Maker],
        told_evidence: frozenset[str],
        k: int,
        *,
        answers: bool,
        prompt: Path = PROMPT,
    ) -> None:
        self._makers = makers
        self._told = told_evidence
        self._k = k
        self._answers = answers
        self._prompt = prompt

    async def solve(self, inputs: Feeding, ctx: Context) -> None:
        """Insert and search in order; answers are in flight meanwhile, all of a test at once."""
        async with self._makers[inputs.memory].opened(ctx) as held:
            asking = _Asking(self, inputs, held, ctx)
            try:
                seconds = await asking.feed()
            finally:
                await asking.answers.landed()
        ctx.emit("fed", {"insert_seconds": seconds, "tokens": held.tokens})
        asking.answers.check()

    def query(self, asked: Asked, memory: str) -> Query:
        """Evidence reaches only those who declare to need it."""
        return Query(asked.text, asked.evidence if memory in self._told else ())

    async def answered(self, asked: Asked, found: list[Any], ctx: Context) -> Answer:
        """Without a model there is no answer, and no failure."""
        if not self._answers:
            return Answer("")
        return await answer(ctx.model(), asked.text, found, self._prompt)

    @property
    def k(self) -> int:
        """How many items a search may give."""
        return self._k


class _Asking:
    """One run of one conversation."""

    def __init__(self, solver: MemorySolver, inputs: Feeding, held: Held, ctx: Context) -> None:
        self._solver = solver
        self._inputs = inputs
        self._held = held
        self._ctx = ctx
        self.answers = Flying()

    async def feed(self) -> list[float]:
        """Seconds of each packet, the session's end with its last one."""
        rounds = iter(enumerate(self._inputs.rounds, 1))
        number, due = next(rounds, (0, None))
        inserted, seconds = 0, []
        for packet, last in _packets(self._inputs.sessions):
            took = await self._held.add(packet)
            seconds.append(round(took + (await self._held.end_session() if last else 0.0), 6))
            inserted += len(packet)
            while due is not None and due.after <= inserted:
                await self._test(number, due)
                number, due = next(rounds, (0, None))
        return seconds

    async def _test(self, number: int, due: Round) -> None:
        """Searches run in question order, since some memories change when searched."""
        for asked in self._inputs.questions[: due.visible]:
            query = self._solver.query(asked, self._inputs.memory)
            found, seconds = await self._held.search(query, self._solver.k)
            self.answers.start(self._answer(number, asked, found, seconds))

    async def _answer(self, test: int, asked: Asked, found: list[Any], seconds: float) -> None:
        said = await self._solver.answered(asked, found, self._ctx)
        record: dict[str, Any] = {
            "test": test,
            "question": asked.index,
            "answer": said.text,
            "found": [[one.item.id, *one.item.sources] for one in found],
            "search_seconds": round(seconds, 6),
            "answer_seconds": round(said.seconds, 6),
        }
        if said.usage is not None:
            record["tokens"] = [said.usage.input, said.usage.output]
        if said.failure is not None:
            record["error"] = said.failure.message
            self.answers.note(said.failure)
        self._ctx.emit("answer", record, f"{test}/{asked.index}")


def _packets(sessions: tuple[tuple[Message, ...], ...]) -> Iterator[tuple[tuple[Message, ...], bool]]:
    """Two messages of a session each time, and whether its session is over with them."""
    for messages in sessions:
        for at in range(0, len(messages), PACKET):
            yield messages[at : at + PACKET], at + PACKET >= len(messages)
