"""Live rows: every sample goes through every memory, and rows are built from what the run recorded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from assay.core import registry
from assay.core.connect import CHAT, Role
from assay.core.errors import UsageError
from assay.core.hashing import fingerprint, row_key
from assay.core.memory import BUNDLE, MemoryPlugin
from assay.core.spec import RunSpec, apply_limit
from assay.core.suite import MAIN, CaseContent, CaseResult, ListedRows, PlannedCalls, Row
from assay.core.types import Record
from assay.solvers.memory.answers import CITED_PROMPT, prompt_fingerprint
from assay.solvers.memory.sessions import ANSWER, SESSION, USED, SessionsSolver
from assay.solvers.memory.snapshots import ADD, ARCHIVE, ItemChange, MemorySnapshot, SessionChanges
from assay.solvers.memory.timed_memory import MemorySet, find_memories
from assay.suites.memory_eval.options import MemoryEvalOptions
from assay.suites.memory_eval.row_source import Baseline, RowSource, SampleLines
from assay.suites.memory_eval.rows import (
    AnswerRow,
    GoldState,
    MemoryDelta,
    QaRow,
    Retrieval,
    RetrievedItem,
    SampleRows,
    SessionRow,
    SnapshotMemory,
    encode,
)
from assay.suites.memory_eval.sample import Sample, SampleQuestion, SampleSession, sample_inputs
from assay.suites.memory_eval.sample_files import load_samples

# A rule of thumb for English text, for the estimates of --dry-run.
_CHARACTERS_PER_TOKEN = 4


class LiveSource(RowSource):
    """Samples in the order of the data, each with every memory. A case's gold is its sample."""

    writes_pipeline = True

    def __init__(self, spec: RunSpec, options: MemoryEvalOptions) -> None:
        if not options.dataset:
            raise UsageError(
                "no data is named: assay memory eval --dataset PATH --baseline FUMemory --output-dir DIR"
            )
        self._spec = spec
        self._options = options
        self.plugins = find_memories(options.baseline, "--baseline")
        self.baselines = {
            name: Baseline(plugin.title, plugin.about.reference) for name, plugin in self.plugins.items()
        }
        output = Path(spec.output_dir)
        # One baseline has its files in the folder itself, several have a folder each.
        self.folders = {name: output / name if len(self.plugins) > 1 else output for name in self.plugins}
        if not spec.model:
            raise UsageError("name a model to answer with --model, or set OPENAI_MODEL")
        self._prompt = Path(options.answer_prompt) if options.answer_prompt else CITED_PROMPT
        memories = MemorySet(self.plugins, options.memory_args, options.embedder, spec.timeout)
        self._needing_evidence = memories.needing_evidence
        self.solver = SessionsSolver(memories, options.top_k, self._prompt)
        self.roles = {MAIN: Role(spec.model, needs=frozenset({CHAT}))}
        for name, model in memories.roles.items():
            self.roles[name] = Role(model)

    # Which run this is.

    def ask_identity(self) -> dict[str, Any]:
        """The answer prompt, the memories' code and their prompts."""
        return {
            "subjects": list(self.plugins),
            "prompt": prompt_fingerprint(self._prompt),
            "memories": [registry.identity(name) for name in self._options.baseline],
            "wordings": [plugin.about.prompts for plugin in self.plugins.values()],
        }

    def data_identity(self) -> Any:
        """The samples by id and key. `--eval-only` reads them back to know the cases of the run."""
        rows = self.rows()
        return {
            "set": self._set,
            "samples": [[row.data.sample_id, row.key] for row in rows.iterate()],
        }

    @cached_property
    def gold_fingerprint(self) -> str:
        """Over everything that the samples say."""
        return fingerprint([row_key(encode(sample)) for sample in self._samples])

    # The data.

    @property
    def _set(self) -> str:
        return Path(self._options.dataset).resolve().stem

    @cached_property
    def _loaded(self) -> tuple[list[Sample], list[str]]:
        """The chosen samples, cut to --max-sessions, and what a person should know about them."""
        options = self._options
        samples, notices = load_samples(Path(options.dataset))
        ids = [sample.sample_id for sample in samples]
        for name in options.sample_id:
            if name not in ids:
                raise UsageError(registry.unknown("sample", name, ids))
        chosen = [
            sample for sample in samples if not options.sample_id or sample.sample_id in options.sample_id
        ]
        chosen = chosen[: apply_limit(self._spec.limit, len(chosen))]
        if options.smoke:
            chosen = chosen[:1]
        cut, left_out = [], 0
        for sample in chosen:
            shorter, checkpoints = sample.first_sessions(options.max_sessions)
            cut.append(shorter)
            left_out += checkpoints
        if left_out:
            checkpoints_word = "checkpoint" if left_out == 1 else "checkpoints"
            notices.append(
                f"Skipped {left_out:,} {checkpoints_word}: not covered by --max-sessions {options.max_sessions}."
            )
        return cut, notices

    @property
    def _samples(self) -> list[Sample]:
        return self._loaded[0]

    @property
    def notices(self) -> Sequence[str]:
        """What is odd in the data, and what a cut leaves out."""
        return self._loaded[1]

    @cached_property
    def _rows(self) -> ListedRows[Sample]:
        # A key is made of what any of the memories sees. Evidence is gold, unless one of them declares to need it.
        evidence = bool(self._needing_evidence)
        return ListedRows(
            self._samples,
            key=lambda sample: encode([sample.sample_id, sample_inputs(sample, "", evidence=evidence)]),
            set=self._set,
            facts=self.facts(),
        )

    def rows(self) -> ListedRows[Sample]:
        """The samples."""
        return self._rows

    def facts(self) -> dict[str, Any]:
        """How much there is of everything."""
        return {
            "samples": len(self._samples),
            "sessions": sum(len(sample.sessions) for sample in self._samples),
            "questions": sum(len(each.questions) for sample in self._samples for each in sample.checkpoints),
            "baselines": list(self.plugins),
        }

    def planned_calls(self) -> list[PlannedCalls]:
        """Calls for answers are exact, their tokens are estimates. What memories ask is not known before."""
        model = self._spec.model
        calls = [
            PlannedCalls(what=f"{name} itself", model=model)
            for name, plugin in self.plugins.items()
            if plugin.about.asks
        ]
        questions = input_tokens = output_tokens = 0
        for plugin in self.plugins.values():
            for sample in self._samples:
                stored = 0
                for session in sample.sessions:
                    messages = sample.messages[session.id]
                    stored += len(messages)
                    asked = sample.questions_after(session.id)
                    items = stored if plugin.about.bundle else min(self._options.top_k, stored)
                    for _, _, question in asked:
                        questions += 1
                        characters = (
                            self._prompt_length + len(question.text) + items * sample.mean_message_length
                        )
                        input_tokens += round(characters / _CHARACTERS_PER_TOKEN)
                        output_tokens += max(1, len(question.answer) // _CHARACTERS_PER_TOKEN)
        calls.append(
            PlannedCalls(
                what="answers",
                model=model,
                calls=questions,
                input_tokens=input_tokens,
                output_tokens=output_tokens,
            )
        )
        for name, role in self.roles.items():
            if name != MAIN:
                calls.append(PlannedCalls(what="vectors", model=role.model))
        return calls

    @property
    def _prompt_length(self) -> int:
        return len(self._prompt.read_text("utf-8"))

    def has(self, row: Row[Sample], subject: str) -> bool:
        """Every memory gets every sample."""
        return True

    def total(self) -> int:
        """Samples times memories."""
        return len(self._samples) * len(self.plugins)

    def case(self, row: Row[Sample], subject: str) -> CaseContent:
        """The sessions and questions of a sample. Only memories that declare it get evidence."""
        sample = row.data
        inputs = sample_inputs(sample, subject, evidence=subject in self._needing_evidence)
        return CaseContent(inputs, gold=sample, label=sample.sample_id)

    # What was recorded.

    def sample_rows(self, gold: Any, subject: str, records: Sequence[Record]) -> SampleRows:
        """The rows of a case; none of a sample that was not fed to its end."""
        if not _is_complete(records):
            return SampleRows([], [])
        return RowBuilder(gold, self.plugins[subject], self._options.top_k, records).rows()

    def answers(self, gold: Any, subject: str, records: Sequence[Record]) -> list[AnswerRow]:
        """The answers of a case, without building the rows around them."""
        if not _is_complete(records):
            return []
        sample: Sample = gold
        texts = {record.part: record.data["answer"] for record in records if record.kind == ANSWER}
        answers = []
        for session in sample.sessions:
            for _, part, question in sample.questions_after(session.id):
                about = {
                    "id": sample.sample_id,
                    "type": question.abbrev,
                    "difficulty": question.difficulty,
                }
                answers.append(AnswerRow(part, texts[part], question.answer, about))
        return answers

    def lines(self, result: CaseResult[Sample]) -> SampleLines | None:
        """The rows as they are written. An answer that is still to come leaves a sample without lines.

        The format has no word for such an answer, and an empty one is an omission to any judge.
        """
        end = result.end
        if end is None or end.status == "infra_error" or not _is_complete(result.records):
            return None
        rows = self.sample_rows(result.row.data, result.subject, result.records)
        return SampleLines(rows, list(map(encode, rows.sessions)), list(map(encode, rows.questions)))


def _is_complete(records: Sequence[Record]) -> bool:
    """Whether the sample was fed to its end: the last record says what was used."""
    return any(record.kind == USED for record in records)


class RowBuilder:
    """Builds the lines of one sample with one memory from the run's records and the sample's gold."""

    def __init__(self, sample: Sample, memory: MemoryPlugin, top_k: int, records: Sequence[Record]) -> None:
        self._sample = sample
        self._memory = memory
        self._top_k = top_k
        self._changes: dict[str, SessionChanges] = {}
        self._answers: dict[str, dict[str, Any]] = {}
        for record in records:
            if record.kind == SESSION:
                # Structs in the try that just ended, plain values as the journal has them.
                changes = msgspec.convert(record.data["delta"], list[ItemChange])
                self._changes[record.part] = SessionChanges(changes, record.data.get("order"))
            elif record.kind == ANSWER:
                self._answers[record.part] = record.data
        self._snapshot = MemorySnapshot()
        # One object for each memory, however many snapshots show it.
        self._memories: dict[str, SnapshotMemory] = {}

    def rows(self) -> SampleRows:
        """Session after session. The snapshot is folded along the way."""
        rows = SampleRows([], [])
        known_points: list[Any] = []
        for session in self._sample.sessions:
            known_points += [point.raw for point in session.points if not point.interference]
            rows.sessions.append(self._session(session, list(known_points)))
            for checkpoint, part, question in self._sample.questions_after(session.id):
                rows.questions.append(self._question(checkpoint, question, self._answers[part]))
        return rows

    def _session(self, session: SampleSession, known_points: list[Any]) -> SessionRow:
        changes = self._changes[session.id]
        self._snapshot.apply(changes)
        for change in changes.changes:
            if change.op != ARCHIVE:
                item = self._snapshot.items[change.id]
                self._memories[change.id] = SnapshotMemory(
                    memory_id=item.id,
                    text=item.text,
                    session_id=item.session,
                    source=self._memory.name,
                    raw_backend_id=item.id,
                    raw_backend_type=item.kind,
                )
        return SessionRow(
            sample_id=self._sample.sample_id,
            sample_uuid=self._sample.sample_uuid,
            session_id=session.id,
            memory_snapshot=[self._memories[name] for name in self._snapshot.items],
            memory_delta=[self._delta(session.id, change) for change in changes.changes],
            gold_state=GoldState(
                session.id,
                known_points,
                [point.raw for point in session.new],
                [point.raw for point in session.updates],
                [point.raw for point in session.interference],
            ),
        )

    def _delta(self, session: str, change: ItemChange) -> MemoryDelta:
        # An item that is gone keeps its last text, so that one can see what was lost.
        text = self._memories[change.id].text if change.op == ARCHIVE else change.text
        linked = [] if change.op == ADD else list(change.linked)
        return MemoryDelta(session, change.op, text, linked, change.id, {"baseline": self._memory.name})

    def _question(self, checkpoint: str, question: SampleQuestion, data: dict[str, Any]) -> QaRow:
        hits = self._hits(data)
        if self._memory.about.bundle:
            text = "\n".join(text for _, text, _ in hits)
            items = [RetrievedItem(0, BUNDLE, text, 1.0)] if hits else []
        else:
            items = [
                RetrievedItem(rank, name, text, score, name) for rank, (name, text, score) in enumerate(hits)
            ]
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
            retrieval=Retrieval(question.text, self._top_k, items, {"baseline": self._memory.name}),
            generated_answer=data["answer"],
            # A citation is the place of a hit, or the text itself.
            cited_memories=[hits[cited][1] if isinstance(cited, int) else cited for cited in data["cited"]],
        )

    def _hits(self, data: dict[str, Any]) -> list[tuple[str, str, float]]:
        """Id, text and score of each item that was found. A number stands for that many of the last items."""
        found, texts = data["found"], data.get("texts", {})
        if isinstance(found, int):
            found = [(name, 1.0) for name in list(self._snapshot.items)[-found:]]
        hits = []
        for name, score in found:
            text = texts[name] if name in texts else self._snapshot.items[name].text
            hits.append((name, text, score))
        return hits
