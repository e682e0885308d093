"""The solver of `assay memory eval`: runs the sessions of one sample through one memory.

After each session it records the changes of the memory's items, then asks the questions of that session.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from assay.core.error_counts import with_place
from assay.core.memory import MemoryItem, Message, Query, SearchHit
from assay.core.protocols import Context, Solver
from assay.core.usage import add_usage
from assay.suites.memory.answer_prompt import MemoryPrompt, cited_prompt
from assay.suites.memory.answers import CitedAnswer, PendingAnswers, answer_with_citations
from assay.suites.memory.memory_set import MemorySet
from assay.suites.memory.roles import ANSWER_ROLE
from assay.suites.memory.search import Search, search_once
from assay.suites.memory.snapshots import MemorySnapshot, SessionChanges, diff_snapshots
from assay.suites.memory.timed_memory import TimedMemory

# Kinds of records. `used` has what the calls of a sample cost, by purpose.
SESSION, ANSWER, USED = "session", "answer", "used"


class SessionQuestion(Struct, frozen=True, omit_defaults=True):
    """A question after a session. `date` is the day on which it is asked, if the data has one.

    `evidence` has message ids; only memories with `needs_evidence` get them.
    """

    part: str
    text: str
    # A factory, because `omit_defaults` leaves out plain defaults. The keys of rows contain it also if it is empty.
    evidence: tuple[str, ...] = field(default_factory=lambda: ())
    date: str = ""


class SessionInputs(Struct, frozen=True):
    """One session: the messages to insert, one by one, and the questions to ask after them."""

    id: str
    messages: tuple[Message, ...]
    questions: tuple[SessionQuestion, ...] = ()


class SampleInputs(Struct, frozen=True):
    """One case: a sample for a memory."""

    memory: str
    sessions: tuple[SessionInputs, ...]


class SessionsSolver(Solver):
    """Emits one `session` record per session, one `answer` per question, then `used`."""

    def __init__(self, memories: MemorySet, k: int = 5, prompt: MemoryPrompt | None = None) -> None:
        self.memories = memories
        self.k = k
        self.prompt = prompt or cited_prompt()

    async def solve(self, inputs: SampleInputs, ctx: Context) -> None:
        """Run sessions and searches in order. The answers are requested concurrently with later sessions."""
        async with self.memories.open(inputs.memory, ctx) as memory:
            sample = _SampleRun(self, inputs.memory, memory, ctx)
            try:
                for session in inputs.sessions:
                    await sample.run_session(session)
            finally:
                await sample.pending.wait()
        usage = memory.usage
        add_usage(usage, ctx.model(ANSWER_ROLE).usage)
        ctx.emit(USED, {"usage": usage})
        sample.pending.raise_failure()


class _SampleRun:
    """One try of a sample: the memory, its items after the last session, and the pending answers."""

    def __init__(self, solver: SessionsSolver, name: str, memory: TimedMemory, ctx: Context) -> None:
        self._solver = solver
        self._memory = memory
        self._ctx = ctx
        self._items: list[MemoryItem] = []
        self._snapshot = MemorySnapshot()
        self._is_bundle = name in solver.memories.bundles
        self._needs_evidence = name in solver.memories.needing_evidence
        self.pending = PendingAnswers()

    async def run_session(self, session: SessionInputs) -> None:
        """Insert the messages, emit the changes, then search for each question."""
        seconds = 0.0
        for message in session.messages:
            seconds += await self._memory.add((message,))
        seconds += await self._memory.end_session()
        items = await self._memory.items()
        changes = self._checked(diff_snapshots(self._items, items, session.id))
        self._items = items
        self._snapshot.apply(changes)
        data: dict[str, Any] = {"delta": changes.changes, "seconds": round(seconds, 6)}
        if changes.order is not None:
            data["order"] = changes.order
        self._ctx.emit(SESSION, data, session.id)
        # Searches run in the order of the questions: some memories change when they are searched.
        for question in session.questions:
            await self._search(question)

    def _checked(self, changes: SessionChanges) -> SessionChanges:
        """Return the changes unchanged. Raises CaseFailed if a user's memory returned a field that is not a string.

        Unchanged items are not checked again: they were checked after an earlier session.
        """
        try:
            return msgspec.convert(msgspec.to_builtins(changes), SessionChanges)
        except (TypeError, msgspec.ValidationError) as error:
            raise self._memory.failed(
                "items", f"id, text, session, kind and status of an item must be texts: {error}"
            ) from None

    async def _search(self, question: SessionQuestion) -> None:
        query = Query(question.text, question.evidence if self._needs_evidence else (), question.date)
        search = await search_once(self._memory, query, self._solver.k)
        hits = search.hits
        data: dict[str, Any] = {"found": self._hit_data(hits), "search_seconds": round(search.seconds, 6)}
        # The record refers to items by id. A text is stored only if it differs from the snapshot: some
        # memories rewrite texts in a search, or return items that `items()` does not list.
        texts: dict[str, str] = {}
        for hit in hits:
            item = self._snapshot.items.get(hit.item.id)
            if item is None or item.text != hit.item.text:
                texts[hit.item.id] = hit.item.text
        if texts:
            data["texts"] = texts
        if traces := [(hit.item.id, hit.trace) for hit in hits if hit.trace]:
            data["traces"] = traces
        self.pending.start(self._answer(question.part, search, data))

    def _hit_data(self, hits: list[SearchHit]) -> int | list[tuple[str, float]]:
        """Return the hits for the journal: a list of (item id, score), or only a number.

        A bundle memory (`AboutMemory.bundle`) may return hundreds of items for each question. If they are exactly
        the newest N items in order, N is enough to rebuild the list, and the journal stays small.
        """
        count = len(hits)
        if self._is_bundle and [hit.item.id for hit in hits] == [item.id for item in self._items[-count:]]:
            return count
        return [(hit.item.id, hit.score) for hit in hits]

    async def _answer(self, part: str, search: Search, data: dict[str, Any]) -> None:
        if search.failure is not None:
            answer = CitedAnswer("", plain=not self._solver.prompt.cites, failure=search.failure)
            data["search_failed"] = True
        else:
            answer = await answer_with_citations(
                self._ctx.model(ANSWER_ROLE),
                search.query,
                search.hits,
                self._solver.prompt,
                quotes=self._is_bundle,
            )
        self._ctx.emit(ANSWER, {**data, **_answer_data(answer)}, part)
        if answer.failure is not None:
            self.pending.add_failure(answer.failure)


def _answer_data(answer: CitedAnswer) -> dict[str, Any]:
    data: dict[str, Any] = {"answer": answer.answer, "cited": answer.cited}
    if answer.seconds:
        data["answer_seconds"] = round(answer.seconds, 6)
    if answer.usage is not None:
        data["tokens"] = [answer.usage.input, answer.usage.output]
    if answer.dropped:
        data["dropped"] = answer.dropped
    if answer.loose:
        data["loose"] = True
    if answer.plain:
        data["plain"] = True
    if answer.failure is not None:
        data["error"] = with_place(answer.failure)
    return data
