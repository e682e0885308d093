"""The lines of the two pipeline files, made of what a run recorded and of the sample's gold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from assay.core.memory import BUNDLE, MemoryPlugin
from assay.core.types import Record
from assay.solvers.memory.sessions import ANSWER, SESSION, USED
from assay.solvers.memory.snapshots import (
    ADD,
    ARCHIVE,
    ItemChange,
    MemorySnapshot,
    SessionChanges,
    SnapshotItem,
)
from assay.suites.memory_eval.feeding import asked
from assay.suites.memory_eval.points import Answer, about
from assay.suites.memory_eval.rows import (
    Delta,
    GoldState,
    Held,
    QaRow,
    Retrieval,
    Retrieved,
    SessionRow,
    encode,
)
from assay.suites.memory_eval.sample import Point, Question, Sample, Session


class Rows(NamedTuple):
    """All lines of one sample, in the order of the files."""

    sessions: list[SessionRow]
    questions: list[QaRow]


class Gold(Struct, frozen=True, dict=True):
    """What is known of a sample besides what the memory was told. It goes with its case."""

    sample: Sample
    memory: MemoryPlugin
    top_k: int

    def rows(self, records: Sequence[Record]) -> Rows:
        """As they are written, snapshots folded while reading; none of a sample not fed to its end."""
        if not self.is_there(records):
            return Rows([], [])
        if "made" not in self.__dict__:  # several scorers ask
            self.__dict__["made"] = _Building(self, records).rows()
        made: Rows = self.__dict__["made"]
        return made

    def is_there(self, records: Sequence[Record]) -> bool:
        """Whether the sample was fed to its end."""
        return any(record.kind == USED for record in records)

    def lines(self, rows: Rows) -> tuple[list[bytes], list[bytes]]:
        """As they are written."""
        return list(map(encode, rows.sessions)), list(map(encode, rows.questions))

    def answers(self, records: Sequence[Record]) -> Iterator[Answer]:
        """What was answered, without the lines around it."""
        if not self.is_there(records):
            return
        said = {record.part: record.data["answer"] for record in records if record.kind == ANSWER}
        for session in self.sample.sessions:
            for _, part, question in asked(self.sample, session.id):
                told = about(self.sample.sample_id, question.abbrev, question.difficulty)
                yield Answer(part, said[part], question.answer, told)


class _Building:
    """One sample's lines."""

    def __init__(self, gold: Gold, records: Sequence[Record]) -> None:
        self._gold = gold
        self._sample = gold.sample
        self._name = gold.memory.name
        self._made = {record.part: _made(record.data) for record in records if record.kind == SESSION}
        self._answers = {record.part: record.data for record in records if record.kind == ANSWER}
        self._fold = MemorySnapshot()
        self._held: dict[str, Held] = {}

    def rows(self) -> Rows:
        found = Rows([], [])
        known: list[Any] = []
        for session in self._sample.sessions:
            made = self._made[session.id]
            self._apply(made)
            known += [point.raw for point in session.points if not point.interference]
            found.sessions.append(self._session(session, made, list(known)))
            found.questions.extend(self._questions(session.id))
        return found

    def _apply(self, made: SessionChanges) -> None:
        """One object for each memory, however many snapshots show it."""
        self._fold.apply(made)
        for change in made.changes:
            if change.op != ARCHIVE:
                self._held[change.id] = self._shown(self._fold.items[change.id])

    def _shown(self, item: SnapshotItem) -> Held:
        return Held(
            memory_id=item.id,
            text=item.text,
            session_id=item.session,
            source=self._name,
            raw_backend_id=item.id,
            raw_backend_type=item.kind,
        )

    def _session(self, session: Session, made: SessionChanges, known: list[Any]) -> SessionRow:
        return SessionRow(
            sample_id=self._sample.sample_id,
            sample_uuid=self._sample.sample_uuid,
            session_id=session.id,
            memory_snapshot=[self._held[name] for name in self._fold.items],
            memory_delta=[self._delta(session.id, change) for change in made.changes],
            gold_state=GoldState(
                session.id, known, _raw(session.new), _raw(session.updates), _raw(session.interference)
            ),
        )

    def _delta(self, session: str, change: ItemChange) -> Delta:
        """An item that went keeps its last text, so that one can see what was lost."""
        text = self._held[change.id].text if change.op == ARCHIVE else change.text
        linked = [] if change.op == ADD else list(change.linked)
        return Delta(session, change.op, text, linked, change.id, {"baseline": self._name})

    def _questions(self, session: str) -> Iterator[QaRow]:
        for one in asked(self._sample, session):
            yield self._question(one.checkpoint, one.question, self._answers[one.part])

    def _question(self, checkpoint: str, question: Question, said: dict[str, Any]) -> QaRow:
        found = self._found(said)
        return QaRow(
            sample_id=self._sample.sample_id,
            sample_uuid=self._sample.sample_uuid,
            checkpoint_id=checkpoint,
            question=question.text,
            gold_answer=question.answer,
            gold_evidence_memory_ids=list(question.evidence),
            gold_evidence_contents=list(question.contents),
            question_type=question.type,
            question_type_abbrev=question.abbrev,
            difficulty=question.difficulty,
            retrieval=Retrieval(
                question.text, self._gold.top_k, self._items(found), {"baseline": self._name}
            ),
            generated_answer=said["answer"],
            cited_memories=[found[one][1] if isinstance(one, int) else one for one in said["cited"]],
        )

    def _found(self, said: dict[str, Any]) -> list[tuple[str, str, float]]:
        """Id, text and score of each item. A number stands for so many of the last ones."""
        found, other = said["found"], said.get("texts", {})
        if isinstance(found, int):
            found = [(name, 1.0) for name in list(self._fold.items)[-found:]]
        return [
            (name, other[name] if name in other else self._fold.items[name].text, score)
            for name, score in found
        ]

    def _items(self, found: list[tuple[str, str, float]]) -> list[Retrieved]:
        if self._gold.memory.about.bundle:
            text = "\n".join(text for _, text, _ in found)
            return [Retrieved(0, BUNDLE, text, 1.0)] if found else []
        return [Retrieved(rank, name, text, score, name) for rank, (name, text, score) in enumerate(found)]


def _made(data: dict[str, Any]) -> SessionChanges:
    """From a record of this try, or as the journal has it."""
    return SessionChanges(msgspec.convert(data["delta"], list[ItemChange]), data.get("order"))


def _raw(points: Iterable[Point]) -> list[Any]:
    return [point.raw for point in points]
