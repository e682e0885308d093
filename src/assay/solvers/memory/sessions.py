"""Feeds sessions to a memory; after each one it shows what changed, and asks what is due."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from assay.core.memory import Found, Item, Message, Query
from assay.core.protocols import Context, Solver
from assay.solvers.memory.citing import PROMPT, Said, answer
from assay.solvers.memory.delta import Fold, Made, made_by
from assay.solvers.memory.flying import Flying
from assay.solvers.memory.holding import Held, Maker

SESSION, ANSWER, USED = "session", "answer", "used"
"""Kinds of records."""


class Due(Struct, frozen=True):
    """A question after a session. `evidence` are messages, for memories alone that declare to need them."""

    part: str
    text: str
    evidence: tuple[str, ...] = ()


class Visit(Struct, frozen=True):
    """One session: what is inserted, one message after the other, and what is asked then."""

    id: str
    messages: tuple[Message, ...]
    questions: tuple[Due, ...] = ()


class Visits(Struct, frozen=True):
    """One sample for one memory."""

    memory: str
    sessions: tuple[Visit, ...]


class Told(Struct, frozen=True, kw_only=True):
    """How the solver asks. `evidence` names the memories that are told where it stands."""

    makers: Mapping[str, Maker]
    evidence: frozenset[str] = frozenset()
    bundles: frozenset[str] = frozenset()
    k: int = 5
    prompt: Path = PROMPT


class SessionsSolver(Solver):
    """Emits a `session` for each session and an `answer` for each question, then `used`: tokens by stage."""

    def __init__(self, told: Told) -> None:
        self._told = told

    async def solve(self, inputs: Visits, ctx: Context) -> None:
        """Sessions and searches in order; answers are in flight meanwhile."""
        async with self._told.makers[inputs.memory].opened(ctx) as held:
            feeding = _Feeding(self._told, inputs.memory, held, ctx)
            try:
                for visit in inputs.sessions:
                    await feeding.visit(visit)
            finally:
                await feeding.answers.landed()
        ctx.emit(USED, {"tokens": held.tokens})
        feeding.answers.check()


class _Feeding:
    """One run of one sample."""

    def __init__(self, told: Told, memory: str, held: Held, ctx: Context) -> None:
        self._told = told
        self._memory = memory
        self._held = held
        self._ctx = ctx
        self._items: list[Item] = []
        self._shown = Fold()
        self._bundle = memory in told.bundles
        self.answers = Flying()

    async def visit(self, visit: Visit) -> None:
        """Insert, show what changed, ask. Searches run in order, since some memories change when searched."""
        seconds = 0.0
        for message in visit.messages:
            seconds += await self._held.add((message,))
        seconds += await self._held.end_session()
        now = await self._held.items()
        made = self._checked(made_by(self._items, now, visit.id))
        self._items = now
        self._shown.apply(made)
        data: dict[str, Any] = {"delta": made.changes, "seconds": round(seconds, 6)}
        if made.order is not None:
            data["order"] = made.order
        self._ctx.emit(SESSION, data, visit.id)
        for due in visit.questions:
            await self._ask(due)

    def _checked(self, made: Made) -> Made:
        """What is new of a memory's items, which its own code made: ids and texts must be such."""
        try:
            return msgspec.convert(msgspec.to_builtins(made), Made)
        except (TypeError, msgspec.ValidationError) as error:
            raise self._held.failed(
                "items", f"id, text, session and kind of an item must be texts: {error}"
            ) from None

    async def _ask(self, due: Due) -> None:
        query = Query(due.text, due.evidence if self._memory in self._told.evidence else ())
        found, seconds = await self._held.search(query, self._told.k)
        data: dict[str, Any] = {"found": self._kept(found), "search_seconds": round(seconds, 6)}
        strange = {one.item.id: one.item.text for one in found if self._is_strange(one.item)}
        if strange:
            data["texts"] = strange
        self.answers.start(self._answer(due, found, data))

    def _kept(self, found: list[Found]) -> int | list[tuple[str, float]]:
        """Ids with scores. Of a bundle that is all the last items, as a full memory gives, their number."""
        count = len(found)
        if self._bundle and [one.item.id for one in found] == [item.id for item in self._items[-count:]]:
            return count
        return [(one.item.id, one.score) for one in found]

    def _is_strange(self, item: Item) -> bool:
        """Some memories give another wording than the snapshot has, or what it does not show."""
        shown = self._shown.items.get(item.id)
        return shown is None or shown.text != item.text

    async def _answer(self, due: Due, found: list[Found], data: dict[str, Any]) -> None:
        said = await answer(self._ctx.model(), due.text, found, self._told.prompt, quotes=self._bundle)
        self._ctx.emit(ANSWER, {**data, **_told(said)}, due.part)
        if said.failure is not None:
            self.answers.note(said.failure)


def _told(said: Said) -> dict[str, Any]:
    data: dict[str, Any] = {"answer": said.answer, "cited": said.cited}
    if said.seconds:
        data["answer_seconds"] = round(said.seconds, 6)
    if said.usage is not None:
        data["tokens"] = [said.usage.input, said.usage.output]
    if said.dropped:
        data["dropped"] = said.dropped
    if said.loose:
        data["loose"] = True
    if said.failure is not None:
        data["error"] = said.failure.message
    return data
