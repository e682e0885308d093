"""Stage one: runs every sample through every memory, and builds the lines of the files from the run's records."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from assay.core.errors import InputError, UsageError, unknown
from assay.core.hashing import fingerprint
from assay.core.memory import BUNDLE
from assay.core.row_keys import row_key
from assay.core.spec import RunSpec, apply_limit
from assay.core.suite import CaseContent, ListedRows, PlannedCalls, Row, files_of
from assay.core.types import End, Record
from assay.scoring.questions import (
    AnswerQuestion,
    CorrectnessQuestion,
    EvidenceQuestion,
    InterferenceQuestion,
    RecallQuestion,
    UpdateQuestion,
)
from assay.suites import find_suite
from assay.suites.memory.answer_prompt import cited_prompt
from assay.suites.memory.eval.options import MemoryEvalOptions
from assay.suites.memory.eval.result_lines import (
    CITES,
    FAILED,
    GoldState,
    MemoryDelta,
    QaLine,
    Retrieval,
    RetrievedItem,
    SampleAnswer,
    SampleResults,
    SessionLine,
    SnapshotMemory,
    encode,
)
from assay.suites.memory.eval.sample import Sample, SampleQuestion, SampleSession, sample_inputs
from assay.suites.memory.eval.sample_files import load_samples
from assay.suites.memory.eval.sample_source import MemoryInfo, SampleLines, SampleSource
from assay.suites.memory.memory_set import MemorySet
from assay.suites.memory.roles import EMBEDDER_ROLE, answer_model, build_model, memory_roles
from assay.suites.memory.sessions import ANSWER, SESSION, USED, SessionsSolver
from assay.suites.memory.settings import MemorySetting, building_identity, find_settings, memories_identity
from assay.suites.memory.snapshots import ADD, ARCHIVE, ItemChange, MemorySnapshot, SessionChanges

# Rule of thumb for English text. Only the estimates of --dry-run use it.
_CHARACTERS_PER_TOKEN = 4


class LiveSource(SampleSource):
    """Every sample of the data with every memory. The gold of a case is its Sample."""

    writes_pipeline = True

    def __init__(self, spec: RunSpec, options: MemoryEvalOptions) -> None:
        if not options.dataset:
            raise UsageError(
                "--dataset is missing. Example: assay memory eval --dataset PATH --baseline FUMemory --output-dir DIR"
            )
        self._spec = spec
        self._options = options
        self.memories = find_settings(options.baseline, options.memory_args, "--baseline", options.repeats)
        self.subjects = {
            name: MemoryInfo(plugin.title, plugin.about.reference, plugin.group)
            for name, plugin in self.memories.items()
        }
        output = Path(spec.output_dir)
        # The format puts the files into the output folder itself. Several memories need a subfolder each.
        self.folders = {name: output / name if len(self.memories) > 1 else output for name in self.memories}
        self._prompt = cited_prompt(Path(options.answer_prompt) if options.answer_prompt else None)
        memories = MemorySet(
            self.memories,
            options.embedder,
            spec.timeout,
            spec.seed,
            options.embedder_kwargs,
            has_model=bool(build_model(spec, options)),
        )
        self._needing_evidence = memories.needing_evidence
        self.solver = SessionsSolver(memories, options.top_k, self._prompt)
        self.roles = memory_roles(spec, options, answers=True, asking=memories.asking, instead=", or set OPENAI_MODEL")

    # Identity of the run.

    def ask_identity(self) -> dict[str, Any]:
        """Return the answer prompt, and the names, code and prompts of the memories."""
        return {
            "subjects": list(self.memories),
            "prompt": self._prompt.fingerprint,
            "params": self._prompt.params,
            **memories_identity(self.memories, self._options.embedder),
        }

    def reuse_identity(self) -> Any:
        """Return the models that build memories and the data. Runs that share both share the building."""
        return building_identity(self.roles, self.memories, [row.key for row in self.rows().iterate()], self._spec.seed)

    def data_identity(self) -> Any:
        """Return the id and key of each sample. `--eval-only` reads them from run.json to restore the cases."""
        rows = self.rows()
        return {
            "set": self._set,
            "samples": [[row.data.sample_id, row.key] for row in rows.iterate()],
        }

    @cached_property
    def gold_fingerprint(self) -> str:
        """Fingerprint of the whole samples: gold and inputs."""
        return fingerprint([row_key(encode(sample)) for sample in self._samples])

    # Rows and cases.

    @property
    def _set(self) -> str:
        return Path(self._options.dataset).resolve().stem

    @cached_property
    def _loaded(self) -> tuple[list[Sample], list[str]]:
        """The chosen samples, cut to --max-sessions, and the notices about them."""
        options = self._options
        try:
            samples, notices = load_samples(options.dataset)
        except InputError as error:
            if ".py:" not in options.dataset and files_of(find_suite("memory-test")).recognises(Path(options.dataset)):
                raise UsageError(
                    f"{options.dataset} has conversations with questions, not samples with memory points. Use: assay "
                    f"memory test --data {options.dataset} --memory {','.join(options.baseline)}"
                ) from error
            raise
        ids = [sample.sample_id for sample in samples]
        for name in options.sample_id:
            if name not in ids:
                raise UsageError(unknown("sample", name, ids))
        chosen = [sample for sample in samples if not options.sample_id or sample.sample_id in options.sample_id]
        chosen = chosen[: apply_limit(self._spec.limit, len(chosen))]
        if options.smoke:
            chosen = chosen[:1]
        cut_samples = []
        skipped = 0
        for sample in chosen:
            cut_sample, checkpoints = sample.first_sessions(options.max_sessions)
            cut_samples.append(cut_sample)
            skipped += checkpoints
        if skipped:
            noun = "checkpoint" if skipped == 1 else "checkpoints"
            notices.append(f"Skipped {skipped:,} {noun}: not covered by --max-sessions {options.max_sessions}.")
        return cut_samples, notices

    @property
    def _samples(self) -> list[Sample]:
        return self._loaded[0]

    @property
    def notices(self) -> Sequence[str]:
        """Warnings about the data, and the checkpoints that --max-sessions skips."""
        return self._loaded[1]

    @cached_property
    def _rows(self) -> ListedRows[Sample]:
        # The key covers what the memories see. Evidence belongs to it only if one of them, such as `oracle`, sees it;
        # otherwise corrected evidence must not change the key.
        evidence = bool(self._needing_evidence)
        return ListedRows(
            self._samples,
            key=lambda sample: encode([sample.sample_id, sample_inputs(sample, "", evidence=evidence)]),
            set=self._set,
            facts=self.facts(),
        )

    def rows(self) -> ListedRows[Sample]:
        return self._rows

    def facts(self) -> dict[str, Any]:
        """Return the numbers of samples, sessions and questions, and the names of the memories."""
        return {
            "samples": len(self._samples),
            "sessions": sum(len(sample.sessions) for sample in self._samples),
            "questions": sum(len(each.questions) for sample in self._samples for each in sample.checkpoints),
            "baselines": list(self.memories),
        }

    def judged_kinds(self) -> set[str]:
        """Return the kinds for which the samples have gold. Written memories are always judged."""
        sessions = [session for sample in self._samples for session in sample.sessions]
        questions = [
            question
            for sample in self._samples
            for checkpoint in sample.checkpoints
            for question in checkpoint.questions
        ]
        asked = {
            RecallQuestion.kind: any(session.new or session.updates for session in sessions),
            CorrectnessQuestion.kind: bool(sessions),
            UpdateQuestion.kind: any(session.updates for session in sessions),
            InterferenceQuestion.kind: any(session.interference for session in sessions),
            AnswerQuestion.kind: bool(questions),
            EvidenceQuestion.kind: any(question.contents for question in questions),
        }
        return {kind for kind, needed in asked.items() if needed}

    def planned_calls(self) -> list[PlannedCalls]:
        """Return the planned calls. Answer calls are exact, tokens are estimates, calls by memories are unknown."""
        model = answer_model(self._spec, self._options)
        calls = [
            PlannedCalls(what=f"{name} itself", model=build_model(self._spec, self._options))
            for name, plugin in self.memories.items()
            if plugin.about.asks and build_model(self._spec, self._options)
        ]
        questions = input_tokens = output_tokens = 0
        for plugin in self.memories.values():
            for sample in self._samples:
                stored = 0
                for session in sample.sessions:
                    messages = sample.messages[session.id]
                    stored += len(messages)
                    items = stored if plugin.about.bundle else min(plugin.k or self._options.top_k, stored)
                    for _, _, question in sample.questions_after(session.id):
                        questions += 1
                        characters = self._prompt.length + len(question.text) + items * sample.mean_message_length
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
            if name == EMBEDDER_ROLE:
                calls.append(PlannedCalls(what="vectors", model=role.model))
        return calls

    def has(self, row: Row[Sample], subject: str) -> bool:
        """Return True: every memory gets every sample."""
        return True

    def total(self) -> int:
        """Return the number of samples times the number of memories."""
        return len(self._samples) * len(self.memories)

    def case(self, row: Row[Sample], subject: str) -> CaseContent:
        """Return sessions and questions as inputs. Only memories with `needs_evidence` get the evidence too."""
        sample = row.data
        inputs = sample_inputs(sample, subject, evidence=subject in self._needing_evidence)
        return CaseContent(inputs, gold=sample, label=sample.sample_id)

    # Rows of the files.

    def sample_results(self, gold: Any, subject: str, records: Sequence[Record]) -> SampleResults:
        """Return the results of a case, built from its records; empty ones for a sample that failed."""
        if not _is_complete(records):
            return SampleResults([], [])
        memory = self.memories[subject]
        return ResultBuilder(gold, memory, memory.k or self._options.top_k, records).results()

    def answers(self, gold: Any, subject: str, records: Sequence[Record]) -> list[SampleAnswer]:
        """Return the answers of a case. This is cheaper than `sample_results`, which builds all snapshots."""
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
                answers.append(SampleAnswer(part, question.text, texts[part], question.answer, about))
        return answers

    def lines(self, sample: Sample, subject: str, end: End | None, records: Sequence[Record]) -> SampleLines | None:
        """Return the results and their lines; None if the sample failed or an answer is still missing.

        The format cannot express a missing answer: an empty answer would count as an omission.
        """
        if end is None or end.status == "infra_error" or not _is_complete(records):
            return None
        results = self.sample_results(sample, subject, records)
        return SampleLines(results, list(map(encode, results.sessions)), list(map(encode, results.questions)))


def _is_complete(records: Sequence[Record]) -> bool:
    """Return whether all sessions were inserted. The solver emits the record USED last."""
    return any(record.kind == USED for record in records)


class ResultBuilder:
    """Builds the results of one sample with one memory from the run's records and the sample's gold."""

    def __init__(self, sample: Sample, memory: MemorySetting, top_k: int, records: Sequence[Record]) -> None:
        self._sample = sample
        self._memory = memory
        self._top_k = top_k
        self._changes: dict[str, SessionChanges] = {}
        self._answers: dict[str, dict[str, Any]] = {}
        for record in records:
            if record.kind == SESSION:
                # Records of a case that has just run hold structs; records read from the journal hold plain dicts.
                changes = msgspec.convert(record.data["delta"], list[ItemChange])
                self._changes[record.part] = SessionChanges(changes, record.data.get("order"))
            elif record.kind == ANSWER:
                self._answers[record.part] = record.data
        self._snapshot = MemorySnapshot()
        # Cached by item id, because an unchanged item is part of every later snapshot.
        self._memories: dict[str, SnapshotMemory] = {}

    def results(self) -> SampleResults:
        """Return the lines of all sessions and questions. Applies the changes of each session to the snapshot."""
        results = SampleResults([], [])
        cumulative_points: list[Any] = []
        for session in self._sample.sessions:
            cumulative_points += [point.raw for point in session.points if not point.interference]
            results.sessions.append(self._session(session, list(cumulative_points)))
            for checkpoint, part, question in self._sample.questions_after(session.id):
                results.questions.append(self._question(checkpoint, question, self._answers[part]))
        return results

    def _session(self, session: SampleSession, cumulative_points: list[Any]) -> SessionLine:
        changes = self._changes[session.id]
        self._snapshot.apply(changes)
        for change in changes.changes:
            item = self._snapshot.items.get(change.id)
            if item is not None:
                self._memories[change.id] = SnapshotMemory(
                    memory_id=item.id,
                    text=item.text,
                    session_id=item.session,
                    status=item.status,
                    source=self._memory.name,
                    raw_backend_id=item.id,
                    raw_backend_type=item.kind,
                    metadata=item.metadata,
                )
        return SessionLine(
            sample_id=self._sample.sample_id,
            sample_uuid=self._sample.sample_uuid,
            session_id=session.id,
            memory_snapshot=[self._memories[name] for name in self._snapshot.items],
            memory_delta=[self._delta(session.id, change) for change in changes.changes],
            gold_state=GoldState(
                session.id,
                cumulative_points,
                [point.raw for point in session.new],
                [point.raw for point in session.updates],
                [point.raw for point in session.interference],
            ),
        )

    def _delta(self, session: str, change: ItemChange) -> MemoryDelta:
        # A removed item is written with its last text, so that readers see what the memory lost.
        text = self._memories[change.id].text if change.op == ARCHIVE else change.text
        # An item that is archived under its own id replaces none.
        archived = change.id if change.op == ARCHIVE else None
        linked = [] if change.op == ADD else [name for name in change.linked if name != archived]
        return MemoryDelta(session, change.op, text, linked, change.id, {"baseline": self._memory.name})

    def _question(self, checkpoint: str, question: SampleQuestion, data: dict[str, Any]) -> QaLine:
        hits = self._hits(data)
        if self._memory.about.bundle:
            text = "\n".join(text for _, text, _ in hits)
            items = [RetrievedItem(0, BUNDLE, text, 1.0)] if hits else []
        else:
            items = [RetrievedItem(rank, name, text, score, name) for rank, (name, text, score) in enumerate(hits)]
        return QaLine(
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
            retrieval=Retrieval(question.text, self._top_k, items, self._trace(data)),
            generated_answer=data["answer"],
            # The record has the index of a cited hit, or for bundle memories the quoted text.
            cited_memories=[hits[citation][1] if isinstance(citation, int) else citation for citation in data["cited"]],
        )

    def _trace(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return `raw_trace`: the memory, and what a reader of the file cannot see in the other fields."""
        trace: dict[str, Any] = {"baseline": self._memory.name}
        if traces := data.get("traces"):
            trace["items"] = [{"memory_id": name, "trace": values} for name, values in traces]
        if data.get("plain"):
            trace[CITES] = False
        if "error" in data:
            trace["error"] = data["error"]
            if not data.get("search_failed"):
                trace[FAILED] = "answer"
        return trace

    def _hits(self, data: dict[str, Any]) -> list[tuple[str, str, float]]:
        """Return id, text and score of each retrieved item."""
        recorded_hits, texts = data["found"], data.get("texts", {})
        # A number N means the last N items: a memory that returns everything does not record every id per question.
        if isinstance(recorded_hits, int):
            recorded_hits = [(name, 1.0) for name in list(self._snapshot.items)[-recorded_hits:]]
        hits = []
        for name, score in recorded_hits:
            text = texts[name] if name in texts else self._snapshot.items[name].text
            hits.append((name, text, score))
        return hits
