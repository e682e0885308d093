"""Reads results of the suite memory-eval for `assay import`: the files of one or more memories, from any tool.

The numbers of the report come from the record files. The aggregate file is compared with them, and gives the numbers
that they lack. The files do not have the dialogues. With the samples (`--data`) the run gets the keys of a native run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from assay.core.errors import InputError, Problem
from assay.core.imported import UNPLACED, ImportedCase, ImportedRun, ImportPlan, imported_scorer
from assay.core.memory import ACTIVE
from assay.core.registry import names as plugin_names
from assay.core.report import Report
from assay.core.row_keys import row_key
from assay.core.types import Record, Score
from assay.formats.eval_framework.scores import EvalReader
from assay.suites.memory.eval.aggregate_file import AggregateFile, read_aggregate, with_aggregate
from assay.suites.memory.eval.output_files import AGGREGATE, QA_RECORDS, SESSION_RECORDS
from assay.suites.memory.eval.record_files import (
    RecordFile,
    RecordLine,
    read_qa_verdicts,
    read_session_verdicts,
    sample_line_offsets,
)
from assay.suites.memory.eval.recorded import QUESTIONS, SESSIONS, memory_named
from assay.suites.memory.eval.result_lines import (
    CITES,
    FAILED,
    FILES_SET,
    QaLine,
    SampleResults,
    SessionLine,
    encode,
    question_parts,
    sample_answers,
    sample_key,
    session_parts,
)
from assay.suites.memory.eval.sample import Sample, sample_inputs
from assay.suites.memory.eval.sample_files import load_samples
from assay.suites.memory.eval.scorers import lexical_scores
from assay.suites.memory.eval.tally import MemoryEvalTally
from assay.suites.memory.sessions import ANSWER, SESSION
from assay.suites.memory.snapshots import ItemChange
from assay.usercode.plugins import find_memory

FORMAT = "memory-eval"
IMPORTED = "imported"
"""The kind of the records with the lines of the files, for `assay export`: `{"session": …}` or `{"question": …}`."""
_FILES = (SESSION_RECORDS, QA_RECORDS, SESSIONS, QUESTIONS, AGGREGATE)
_UNNAMED = "baseline"
# Names that a message lists.
_MOST_NAMES = 5


def find_results(path: Path) -> ImportedRun | None:
    """Return the results at a path: a folder with the files of a memory, or of several in subfolders, or one file.

    One file stands for its whole folder. Returns None if the path has no such file.
    """
    if path.is_file():
        return EvalRun([path.parent]) if path.name in _FILES else None
    folders = [path] if _has_results(path) else [each for each in sorted(path.glob("*")) if _has_results(each)]
    return EvalRun(folders) if folders else None


def _has_results(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _FILES)


class EvalRun(ImportedRun):
    """The results of one or more memories, each in its own folder."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._memories: dict[str, _MemoryResults] = {}
        for folder in folders:
            memory = _MemoryResults(folder)
            other = self._memories.get(memory.name)
            if other is not None:
                raise InputError(
                    Problem(
                        str(folder),
                        f"has results of {memory.name!r}, and so has {other.folder}. Import each one",
                    )
                )
            self._memories[memory.name] = memory
        self._samples: dict[str, Sample] | None = None
        self._set = FILES_SET
        scorers = ["words"]
        if any(memory.is_judged for memory in self._memories.values()):
            scorers.append("judged")
        super().__init__(
            ImportPlan(
                format=FORMAT,
                suite="memory-eval",
                files=[path for memory in self._memories.values() for path in memory.paths],
                total=sum(len(memory.samples) for memory in self._memories.values()),
                subjects=list(self._memories),
                scorers=[imported_scorer(name) for name in scorers],
                score_parts="rows",
                missing=self._missing(),
                facts={"baselines": list(self._memories)},
            )
        )

    def _missing(self) -> list[str]:
        missing = ["dialogues", "requests", "times", "tokens", "failed samples", "errors of single answers"]
        memories = self._memories.values()
        if any(memory.is_judged for memory in memories):
            missing += [
                "the judge and its votes",
                "which points and pieces of evidence are covered",
                "evidence in all retrieved items",
            ]
        for memory in memories:
            if memory.sessions is None:
                missing.append(f"the sessions of {memory.name}")
            if memory.questions is None:
                missing.append(f"the questions of {memory.name}")
            if not memory.is_judged:
                missing.append(f"verdicts on {memory.name}: `assay memory eval --eval-only` can judge it")
        return missing

    def use_data(self, path: Path) -> None:
        """Read the samples. Raises InputError if the results belong to other samples."""
        self._samples = {sample.sample_id: sample for sample in load_samples(path).samples}
        self._set = path.resolve().stem
        plan = self.plan
        plan.files += sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
        plan.missing.remove("dialogues")

    def cases(self) -> Iterator[ImportedCase]:
        """Yield the samples in the order of the files, each with all memories."""
        order = dict.fromkeys(name for memory in self._memories.values() for name in memory.samples)
        for number, sample in enumerate(order):
            for memory in self._memories.values():
                if sample in memory.samples:
                    yield self._case(number, sample, memory)

    def _case(self, number: int, sample: str, memory: _MemoryResults) -> ImportedCase:
        sessions = list(memory.sessions.of(sample)) if memory.sessions else []
        questions = list(memory.questions.of(sample)) if memory.questions else []
        _refuse_repeated_sessions(sessions)
        memory.tell_repeated_questions(questions)
        results = SampleResults([line.content for line in sessions], [line.content for line in questions])
        words = imported_scorer("words")
        scores = lexical_scores((*UNPLACED, words), sample_answers(results.questions))
        records: list[Record] = []
        for part, session in zip(session_parts(results.sessions), sessions, strict=True):
            scores += memory.session_scores(part, session)
            records += _session_records(part, session)
        for part, question in zip(question_parts(results.questions), questions, strict=True):
            scores += memory.question_scores(part, question)
            records += _question_records(part, question)
        memory.tally.add_sample(number, len(sessions), results.questions, (), scores)
        return ImportedCase(
            key=sample_key(results) if self._samples is None else self._data_key(sample, sessions, questions),
            set=self._set,
            subject=memory.name,
            label=sample,
            records=records,
            scores=scores,
        )

    def _data_key(
        self, name: str, sessions: Sequence[RecordLine[SessionLine]], questions: Sequence[RecordLine[QaLine]]
    ) -> str:
        """Return the key that a native run gives a sample. Raises InputError if the data has other sessions."""
        assert self._samples is not None
        where = [*(line.where for line in sessions), *(line.where for line in questions)][0]
        sample = self._samples.get(name)
        if sample is None:
            raise InputError(Problem(where, f"the data has no sample {name!r}"))
        if sessions:
            # --max-sessions inserts only the first ones.
            sample, _ = sample.first_sessions(len(sessions))
            ids = [line.content.session_id for line in sessions]
            if ids != [session.id for session in sample.sessions]:
                raise InputError(Problem(where, f"the data has other sessions of the sample {name!r}"))
        texts = {
            asked.part: asked.question.text
            for session in sample.sessions
            for asked in sample.questions_after(session.id)
        }
        for part, line in zip(question_parts([line.content for line in questions]), questions, strict=True):
            if texts.get(part) != line.content.question:
                raise InputError(
                    Problem(line.where, f"the data of {name!r} has no question {line.content.question!r} at {part}")
                )
        # A native run adds the evidence to the key if one of its memories, such as `oracle`, sees it.
        built_in = [name for name in self._memories if name in plugin_names("memory")]
        evidence = any(find_memory(name).about.needs_evidence for name in built_in)
        return row_key(encode([sample.sample_id, sample_inputs(sample, "", evidence=evidence)]))

    def report(self) -> Report:
        """Return an entry for each memory: computed from the records, and completed by its aggregate file."""
        notices = []
        entries = []
        for memory in self._memories.values():
            entry = memory.tally.entry()
            notices += memory.notices
            if memory.aggregate is not None:
                entry = with_aggregate(entry, memory.aggregate, notices)
            entries.append(entry)
        return Report(entries=entries, entry_word="memory", notices=notices)


class _MemoryResults:
    """The files of one memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        sessions, questions = (
            _first_file(folder, SESSION_RECORDS, SESSIONS),
            _first_file(folder, QA_RECORDS, QUESTIONS),
        )
        self.sessions = RecordFile(sessions, SessionLine) if sessions else None
        self.questions = RecordFile(questions, QaLine) if questions else None
        self.aggregate: AggregateFile | None = None
        self.paths = [path for path in (sessions, questions) if path]
        if (folder / AGGREGATE).is_file():
            self.aggregate = read_aggregate(folder / AGGREGATE)
            self.paths.append(folder / AGGREGATE)
        self.is_judged = any(path.name in (SESSION_RECORDS, QA_RECORDS) for path in self.paths)
        self._reader = EvalReader(imported_scorer("judged"))
        self._warnings: list[str] = []
        self.samples = self._sample_ids()
        self.name = self._name()
        about = memory_named(self.name)
        self.tally = MemoryEvalTally(self.name, about.alias, reference=about.reference)

    def _sample_ids(self) -> dict[str, None]:
        """Return the samples in order. A sample that one of the files lacks is told."""
        by_path: dict[Path, list[str]] = {}
        if self.sessions is not None:
            by_path[self.sessions.path] = self.sessions.samples
        if self.questions is not None:
            by_path[self.questions.path] = self.questions.samples
        samples = dict.fromkeys(name for names in by_path.values() for name in names)
        # Samples that were run, but not judged.
        for name in (SESSIONS, QUESTIONS):
            path = self.folder / name
            if self.is_judged and path not in by_path and path.is_file():
                unjudged = [sample for sample in sample_line_offsets(path) if sample not in samples]
                if unjudged:
                    self._warnings.append(f"{path} has {_counted(unjudged)} that the record files lack")
        for path, names in by_path.items():
            present = set(names)
            lacking = [sample for sample in samples if sample not in present]
            if lacking:
                self._warnings.append(f"{path} lacks {_counted(lacking)}")
        return samples

    def _name(self) -> str:
        """Return the name in the aggregate file, else in the first line that has one."""
        if self.aggregate is not None and self.aggregate.baseline_id:
            return self.aggregate.baseline_id
        for question in self.questions.of(next(iter(self.samples))) if self.questions else ():
            if name := question.content.retrieval.raw_trace.get("baseline"):
                return str(name)
        for session in self.sessions.of(next(iter(self.samples))) if self.sessions else ():
            sources = [item.source for item in session.content.memory_snapshot if item.source]
            if sources:
                return sources[0]
        return _UNNAMED

    @property
    def notices(self) -> list[str]:
        """Contradictions in the files. Complete after all samples were read."""
        return [*self._warnings, *self._reader.notices]

    def tell_repeated_questions(self, lines: Sequence[RecordLine[QaLine]]) -> None:
        """Add a warning for each question that has two equal lines. Both count, because the data may repeat it."""
        seen: dict[bytes, str] = {}
        for line in lines:
            first = seen.setdefault(encode(line.value), line.where)
            if first != line.where:
                self._warnings.append(f"{line.where} repeats {first}: the question counts twice")

    def session_scores(self, part: str, line: RecordLine[SessionLine]) -> list[Score]:
        """Return the judged scores of a session."""
        verdicts = read_session_verdicts(line)
        return list(self._reader.session(part, line.content, verdicts, line.where)) if verdicts else []

    def question_scores(self, part: str, line: RecordLine[QaLine]) -> list[Score]:
        """Return the judged scores of a question."""
        verdicts = read_qa_verdicts(line)
        return list(self._reader.question(part, line.content, verdicts, line.where)) if verdicts else []


def _first_file(folder: Path, *names: str) -> Path | None:
    """Return the first of these files that exists."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _counted(samples: Sequence[str]) -> str:
    noun = "sample" if len(samples) == 1 else "samples"
    more = ", …" if len(samples) > _MOST_NAMES else ""
    return f"{len(samples):,} {noun} ({', '.join(samples[:_MOST_NAMES])}{more})"


def _refuse_repeated_sessions(lines: Sequence[RecordLine[SessionLine]]) -> None:
    seen: dict[str, str] = {}
    for line in lines:
        first = seen.setdefault(line.content.session_id, line.where)
        if first != line.where:
            raise InputError(
                Problem(
                    line.where,
                    f"the sample {line.content.sample_id!r} has the session {line.content.session_id!r} at {first} too",
                )
            )


def _session_records(part: str, line: RecordLine[SessionLine]) -> list[Record]:
    items = {str(item.memory_id): item for item in line.content.memory_snapshot}
    changes = []
    for change in line.content.memory_delta:
        name = "" if change.raw_backend_id is None else str(change.raw_backend_id)
        item = items.get(name)
        changes.append(
            ItemChange(
                change.op,
                name,
                change.text,
                # An archived item may still be stored, with its status and the session that wrote it.
                item.session_id if item and item.status != ACTIVE else change.session_id,
                linked=tuple(change.linked_previous),
                status=item.status if item else ACTIVE,
                metadata=item.metadata if item else {},
            )
        )
    return [
        Record(*UNPLACED, try_=1, kind=SESSION, part=part, data={"delta": changes}),
        Record(*UNPLACED, try_=1, kind=IMPORTED, part=part, data={"session": _whole(line)}),
    ]


def _question_records(part: str, line: RecordLine[QaLine]) -> list[Record]:
    items = line.content.retrieval.items
    data: dict[str, Any] = {
        "found": [(item.memory_id, item.score) for item in items],
        "texts": {item.memory_id: item.text for item in items},
        "answer": line.content.generated_answer,
        "cited": line.content.cited_memories,
    }
    trace = line.content.retrieval.raw_trace
    if trace.get(CITES) is False:
        data["plain"] = True
    if isinstance(trace.get("error"), str):
        data["error"] = trace["error"]
        if trace.get(FAILED) != "answer":
            data["search_failed"] = True
    return [
        Record(*UNPLACED, try_=1, kind=ANSWER, part=part, data=data),
        Record(*UNPLACED, try_=1, kind=IMPORTED, part=part, data={"question": _whole(line)}),
    ]


def _whole(line: RecordLine[Any]) -> dict[str, Any]:
    """Return the line as it is in the file. Its `eval` has counts and reasons that no score has."""
    return line.value if line.verdicts is None else line.value | {"eval": line.verdicts}
