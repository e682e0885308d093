"""The solver of `assay memory test`: runs one conversation through one memory.

It inserts the messages two at a time. At set points of the conversation, called tests, it asks all questions
whose evidence is already inserted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from assay.core.error_counts import with_place
from assay.core.errors import CaseFailed
from assay.core.memory import Message, Query
from assay.core.protocols import Context, Solver
from assay.core.types import Record
from assay.core.usage import PurposeUsage, add_usage
from assay.suites.memory.answer_prompt import MemoryPrompt, plain_prompt
from assay.suites.memory.answers import MemoryAnswer, PendingAnswers, answer_question
from assay.suites.memory.memory_set import MemorySet
from assay.suites.memory.roles import ANSWER_ROLE
from assay.suites.memory.search import Search, search_once
from assay.suites.memory.timed_memory import TimedMemory

# Messages per call of `add`. The messages of one packet always belong to one session.
PACKET = 2
# Kinds of records. `fed` marks a conversation that was inserted completely.
ANSWER, INSERTED = "answer", "fed"


class QuestionInput(Struct, frozen=True, omit_defaults=True):
    """A question. `date` is the day on which it is asked, if the data has one.

    `evidence` has message ids; only memories with `needs_evidence` receive them. Empty fields are no part of the key
    of a row.
    """

    index: int
    text: str
    evidence: tuple[str, ...] = ()
    date: str = ""


class ConversationTest(Struct, frozen=True):
    """A point of the conversation at which questions are asked.

    It comes after the first `after` messages, and asks the first `visible` questions.
    """

    after: int
    visible: int


class ConversationInputs(Struct, frozen=True):
    """The inputs of one case: a conversation, and the memory it runs through. `rounds` are the tests, in order."""

    memory: str
    sessions: tuple[tuple[Message, ...], ...]
    questions: tuple[QuestionInput, ...]
    rounds: tuple[ConversationTest, ...]


class AnswerRecord(Struct, frozen=True, omit_defaults=True):
    """The data of an `answer` record: one question in one test.

    `hits` has one list per retrieved item, best first: the item's id, then the ids of its messages.
    """

    test: int
    question: int
    answer: str
    hits: list[list[str]]
    search_seconds: float = 0.0
    answer_seconds: float = 0.0
    tokens: tuple[int, int] | None = None
    """Input and output tokens of the answer, if the endpoint reports them."""
    error: str | None = None
    search_failed: bool = False
    """Whether the error is one of the search, so that there was nothing to answer from."""


class MemorySize(Struct, frozen=True, omit_defaults=True):
    """How much a memory holds: its items, and the characters of their texts. `error` says why this is not known."""

    items: int | None = None
    characters: int | None = None
    error: str = ""


class InsertRecord(Struct, frozen=True):
    """The data of the `fed` record. It exists only if the whole conversation was inserted.

    `insert_seconds` has one value per packet. `usage` has the calls of the memory and of the answers.
    """

    insert_seconds: list[float]
    usage: dict[str, PurposeUsage] = {}
    size: MemorySize | None = None
    """The size of the memory after the conversation. None in runs of older versions."""


def read_answers(records: Sequence[Record]) -> list[tuple[Record, AnswerRecord]]:
    """Return the answers sorted by test and question. In the journal they are in order of completion."""
    answers = [(each, msgspec.convert(each.data, AnswerRecord)) for each in records if each.kind == ANSWER]
    return sorted(answers, key=lambda pair: (pair[1].test, pair[1].question))


def read_insertion(records: Sequence[Record]) -> InsertRecord | None:
    """Return the `fed` record, or None if the conversation was not inserted completely."""
    for record in records:
        if record.kind == INSERTED:
            return msgspec.convert(record.data, InsertRecord)
    return None


class ConversationSolver(Solver):
    """Emits one `answer` record per test and question, then `fed` with the seconds and calls."""

    def __init__(self, memories: MemorySet, k: int, *, answers: bool, prompt: MemoryPrompt | None = None) -> None:
        self._memories = memories
        self._k = k
        self._answers = answers
        self._prompt = prompt or plain_prompt()

    async def solve(self, inputs: ConversationInputs, ctx: Context) -> None:
        """Insert and search in order. The answers are requested concurrently with later insertions."""
        pending = PendingAnswers()
        async with self._memories.open(inputs.memory, ctx) as memory:
            try:
                seconds = await self._run_conversation(inputs, memory, pending, ctx)
                size = await _measure(memory)
            finally:
                await pending.wait()
        usage = memory.usage
        if self._answers:
            add_usage(usage, ctx.model(ANSWER_ROLE).usage)
        ctx.emit(INSERTED, InsertRecord(seconds, usage, size))
        pending.raise_failure()

    async def _run_conversation(
        self, inputs: ConversationInputs, memory: TimedMemory, pending: PendingAnswers, ctx: Context
    ) -> list[float]:
        """Return the seconds of each packet. The last packet of a session includes `end_session`."""
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
                    query = Query(question.text, question.evidence if evidence else (), question.date)
                    search = await search_once(memory, query, self._k)
                    pending.start(self._answer(number, question.index, search, inputs, pending, ctx))
        return packet_seconds

    async def _answer(
        self,
        test: int,
        question: int,
        search: Search,
        inputs: ConversationInputs,
        pending: PendingAnswers,
        ctx: Context,
    ) -> None:
        answer = MemoryAnswer("", failure=search.failure)
        if self._answers and search.failure is None:
            answer = await answer_question(
                ctx.model(ANSWER_ROLE), search.query, search.hits, self._prompt, inputs.sessions
            )
        if answer.failure is not None:
            pending.add_failure(answer.failure)
        record = AnswerRecord(
            test=test,
            question=question,
            answer=answer.text,
            hits=[[hit.item.id, *hit.item.sources] for hit in search.hits],
            search_seconds=round(search.seconds, 6),
            answer_seconds=round(answer.seconds, 6),
            tokens=(answer.usage.input, answer.usage.output) if answer.usage else None,
            error=with_place(answer.failure) if answer.failure else None,
            search_failed=search.failure is not None,
        )
        ctx.emit(ANSWER, record, f"{test}/{question}")


async def _measure(memory: TimedMemory) -> MemorySize:
    """Return the size of a memory. A memory that cannot list its items keeps its answers: only the size is unknown."""
    try:
        items = await memory.items()
        return MemorySize(len(items), sum(len(item.text) for item in items))
    except CaseFailed as error:
        return MemorySize(error=with_place(error.failure))


def split_packets(sessions: Sequence[Sequence[Message]]) -> Iterator[tuple[Sequence[Message], bool]]:
    """Yield each packet, with True if it is the last packet of its session."""
    for messages in sessions:
        for start in range(0, len(messages), PACKET):
            yield messages[start : start + PACKET], start + PACKET >= len(messages)
