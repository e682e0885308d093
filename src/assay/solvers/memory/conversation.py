"""Runs one conversation through one memory: stores messages, and at each test asks all visible questions.

This is the solver of `memory test`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from assay.core.memory import Message, Query, SearchHit
from assay.core.protocols import Context, Solver
from assay.core.types import Record
from assay.solvers.memory.answers import ANSWER_PROMPT, MemoryAnswer, PendingAnswers, answer_question
from assay.solvers.memory.timed_memory import MemorySet, TimedMemory

# Messages that are stored with one call of `add`. A packet never crosses sessions.
PACKET = 2
# Kinds of records.
ANSWER, FED = "answer", "fed"


class QuestionInput(Struct, frozen=True):
    """A question. `evidence` are message ids, which only memories with `needs_evidence` get to see."""

    index: int
    text: str
    evidence: tuple[str, ...] = ()


class ConversationTest(Struct, frozen=True):
    """A test after `after` messages. It asks the first `visible` questions."""

    after: int
    visible: int


class ConversationInputs(Struct, frozen=True):
    """One conversation for one memory."""

    memory: str
    sessions: tuple[tuple[Message, ...], ...]
    questions: tuple[QuestionInput, ...]
    rounds: tuple[ConversationTest, ...]


class AnswerRecord(Struct, frozen=True, omit_defaults=True):
    """The data of an `answer` record: one question in one test.

    `hits` are the items that the search returned, best first: the item's id, then the ids of its messages.
    """

    test: int
    question: int
    answer: str
    hits: list[list[str]]
    search_seconds: float = 0.0
    answer_seconds: float = 0.0
    tokens: tuple[int, int] | None = None
    """Input and output tokens of the answer, where the endpoint counts them."""
    error: str | None = None


class FedRecord(Struct, frozen=True):
    """The data of the one `fed` record, which says that the conversation was inserted to its end.

    `insert_seconds` has one value for each packet. `tokens` are input and output by stage.
    """

    insert_seconds: list[float]
    tokens: dict[str, list[int]]


def read_answers(records: Sequence[Record]) -> list[tuple[Record, AnswerRecord]]:
    """Return the answers in order of test and question. They came in another order."""
    answers = [(each, msgspec.convert(each.data, AnswerRecord)) for each in records if each.kind == ANSWER]
    return sorted(answers, key=lambda pair: (pair[1].test, pair[1].question))


def read_fed(records: Sequence[Record]) -> FedRecord | None:
    """Return the `fed` record; None for a conversation that was not inserted to its end."""
    for record in records:
        if record.kind == FED:
            return msgspec.convert(record.data, FedRecord)
    return None


class ConversationSolver(Solver):
    """Emits an `answer` for each test and question, then `fed`: seconds and tokens of the memory itself."""

    def __init__(self, memories: MemorySet, k: int, *, answers: bool, prompt: Path = ANSWER_PROMPT) -> None:
        self._memories = memories
        self._k = k
        self._answers = answers
        self._prompt = prompt

    async def solve(self, inputs: ConversationInputs, ctx: Context) -> None:
        """Store and search in order. Answers are asked for meanwhile, all of a test at once."""
        pending = PendingAnswers()
        async with self._memories.open(inputs.memory, ctx) as memory:
            try:
                seconds = await self._run_conversation(inputs, memory, pending, ctx)
            finally:
                await pending.wait()
        ctx.emit(FED, FedRecord(seconds, memory.tokens))
        pending.raise_failure()

    async def _run_conversation(
        self, inputs: ConversationInputs, memory: TimedMemory, pending: PendingAnswers, ctx: Context
    ) -> list[float]:
        """Return the seconds of each packet. The last packet of a session includes the session's end."""
        tests = list(enumerate(inputs.rounds, 1))
        inserted = 0
        packet_seconds: list[float] = []
        for packet, last in split_packets(inputs.sessions):
            seconds = await memory.add(packet)
            if last:
                seconds += await memory.end_session()
            packet_seconds.append(round(seconds, 6))
            inserted += len(packet)
            while tests and tests[0][1].after <= inserted:
                number, test = tests.pop(0)
                # Searches run in the order of the questions: some memories change when they are searched.
                for question in inputs.questions[: test.visible]:
                    evidence = inputs.memory in self._memories.needing_evidence
                    query = Query(question.text, question.evidence if evidence else ())
                    hits, seconds = await memory.search(query, self._k)
                    pending.start(self._answer(number, question, (hits, seconds), pending, ctx))
        return packet_seconds

    async def _answer(
        self,
        test: int,
        question: QuestionInput,
        search: tuple[list[SearchHit], float],
        pending: PendingAnswers,
        ctx: Context,
    ) -> None:
        hits, search_seconds = search
        answer = MemoryAnswer("")
        if self._answers:
            answer = await answer_question(ctx.model(), question.text, hits, self._prompt)
        if answer.failure is not None:
            pending.add_failure(answer.failure)
        record = AnswerRecord(
            test=test,
            question=question.index,
            answer=answer.text,
            hits=[[hit.item.id, *hit.item.sources] for hit in hits],
            search_seconds=round(search_seconds, 6),
            answer_seconds=round(answer.seconds, 6),
            tokens=(answer.usage.input, answer.usage.output) if answer.usage else None,
            error=answer.failure.message if answer.failure else None,
        )
        ctx.emit(ANSWER, record, f"{test}/{question.index}")


def split_packets(sessions: Sequence[Sequence[Message]]) -> Iterator[tuple[Sequence[Message], bool]]:
    """Yield packets, and whether a packet is the last of its session."""
    for messages in sessions:
        for start in range(0, len(messages), PACKET):
            yield messages[start : start + PACKET], start + PACKET >= len(messages)
