"""Reads results of SAGE's memory test for `assay import`: the files of the conversations, and assay's `summary.json`.

The files have answers and retrieved ids, but no scores. The importer scores them by the rules of `scorers.py`. They do
not have the messages either. With the data file (`--data`) the run gets the keys of a native run, and the evidence is
checked against the messages that exist.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from assay.core.errors import InputError, Problem, UsageError, unknown
from assay.core.hashing import file_sha256
from assay.core.imported import UNPLACED, ImportedCase, ImportedRun, ImportPlan, imported_scorer
from assay.core.report import Report
from assay.core.row_keys import row_key
from assay.core.types import Case, Failure, Record, Score
from assay.files.read import without_nan
from assay.formats.sage.file import ImportedConversation, ImportedQuestion, SageFile, looks_like_results
from assay.formats.sage.summary import SummaryFile, read_summary, with_summary
from assay.suites.memory.conversation import ANSWER, AnswerRecord, ConversationTest
from assay.suites.memory.test.conversation import Conversation, MessagePlace
from assay.suites.memory.test.loaders import dataset_names, find_loader, recognise_dataset
from assay.suites.memory.test.pipeline_caller import row_bytes
from assay.suites.memory.test.retrieval import retrieval_metrics
from assay.suites.memory.test.schedule import ordered_questions
from assay.suites.memory.test.scorers import METRICS, RECALL, ConversationGold, word_scores
from assay.suites.memory.test.sink import SUMMARY
from assay.suites.memory.test.tally import MemoryTally

FORMAT = "memory-test"
IMPORTED = "imported"
"""The kind of the record with an ImportedConversation."""
# The folder in which assay keeps its run folders. Their summary.json is another file.
_HOME = "assay"
_REFERENCE = " (reference)"
_UNNAMED = "memory"
# Folders below the one that is named: MEMORY/DATASET/TIME/0000.json.
_PATTERNS = ("*.json", "*/*.json", "*/*/*.json", "*/*/*/*.json")
_NUMBER = re.compile(r"\d{4,}\.json")
_TIME = re.compile(r"\d{6}_\d{4}")
_encode = msgspec.json.Encoder().encode


def find_results(path: Path) -> ImportedRun | None:
    """Return the results at a path: a file of one conversation, or a folder of such files for one or more memories.

    Returns None if the path has no such file.
    """
    if path.is_file():
        is_own = path.suffix == ".json" and looks_like_results(path)
        return SageRun([path]) if is_own else None
    for pattern in _PATTERNS:
        paths = [
            each for each in sorted(path.glob(pattern)) if each.is_file() and _HOME not in each.relative_to(path).parts
        ]
        if any(map(looks_like_results, paths)):
            return SageRun([each for each in paths if _NUMBER.fullmatch(each.name) or looks_like_results(each)])
    return None


class SageRun(ImportedRun):
    """The results of one or more memories on the same conversations."""

    def __init__(self, paths: Sequence[Path]) -> None:
        folders: dict[Path, list[Path]] = {}
        for path in paths:
            folders.setdefault(path.parent, []).append(path)
        # A file that is named alone is imported alone: the summary covers all conversations of its folder.
        alone = len(paths) == 1 and any(map(looks_like_results, _others(paths[0])))
        self._memories: dict[str, _MemoryResults] = {}
        for folder, files in folders.items():
            memory = _MemoryResults(files, None if alone else read_summary(folder))
            other = self._memories.get(memory.name)
            if other is not None:
                raise InputError(
                    Problem(
                        str(folder),
                        f"has results of {memory.name!r}, and so has {other.folder}. Import each one",
                    )
                )
            self._memories[memory.name] = memory
        first = next(iter(self._memories.values()))
        self._dataset = first.dataset
        self._loader = find_loader(self._dataset) if self._dataset in dataset_names() else None
        self._data: dict[str, Conversation] | None = None
        self._notices = [notice for memory in self._memories.values() for notice in memory.notices]
        tasks = {task for memory in self._memories.values() for task in memory.tasks}
        self._tasks = sorted(tasks, key=lambda task: (not task.isdigit(), int(task) if task.isdigit() else 0, task))
        summaries = [folder / SUMMARY for folder in folders if not alone and (folder / SUMMARY).is_file()]
        super().__init__(
            ImportPlan(
                format=FORMAT,
                suite="memory-test",
                files=[*paths, *summaries],
                total=sum(len(memory.tasks) for memory in self._memories.values()),
                model=first.model,
                subjects=list(self._memories),
                scorers=[imported_scorer("memory")],
                score_parts="rows",
                started=_started(first.folder),
                producer="assay" if first.is_native else "",
                missing=self._missing(),
                facts={"dataset": self._dataset, "memories": list(self._memories)},
            )
        )

    def _missing(self) -> list[str]:
        missing = ["messages", "texts of retrieved items", "requests"]
        if any(memory.summary is None for memory in self._memories.values()):
            missing += ["seconds of insertion", "tokens"]
        without_places = [memory.name for memory in self._memories.values() if not memory.has_places]
        if without_places:
            missing.append(f"which messages {', '.join(without_places)} found: the ids are not those of messages")
        if any(memory.summary and memory.summary.judge for memory in self._memories.values()):
            missing.append("the judge's verdict on each answer")
        if self._loader is None or self._loader.is_abstention is None:
            missing.append("which questions should not be answered")
        return missing

    def use_data(self, path: Path) -> None:
        """Read the conversations from the data file. Raises InputError if the results belong to other data."""
        name = self._dataset if self._loader else recognise_dataset(path)
        if name is None:
            raise UsageError(unknown("data set", self._dataset, dataset_names()))
        self._loader = find_loader(name)
        self._data = {}
        for conversation in self._loader.conversations(path):
            self._data[conversation.task_id] = self._data[conversation.sample_id] = conversation
        plan = self.plan
        plan.files.append(path)
        plan.facts |= {"data": str(path.absolute()), "data_sha256": file_sha256(path)}
        known = ("messages", "which questions should not be answered")
        plan.missing = [name for name in plan.missing if name not in known]

    def cases(self) -> Iterator[ImportedCase]:
        """Yield the conversations in data order, each with all memories."""
        seen: dict[tuple[str, str], Path] = {}
        for number, task in enumerate(self._tasks):
            for memory in self._memories.values():
                path = memory.files.get(task)
                if path is None:
                    if task in memory.failures:
                        yield self._failed_case(task, memory)
                    continue
                file = SageFile(path)
                case = self._case(number, file, memory)
                other = seen.setdefault((memory.name, case.key), path)
                if other != path:
                    raise InputError(Problem(str(path), f"has the conversation of {other} again"))
                yield case

    def _failed_case(self, task: str, memory: _MemoryResults) -> ImportedCase:
        sample_id, reason = memory.failures[task]
        memory.tally.add_failure(task, sample_id, reason)
        return ImportedCase(
            key=row_key(_encode([sample_id])),
            set=self._dataset,
            subject=memory.name,
            label=sample_id,
            # The summary does not say whether the memory or an endpoint failed.
            failure=Failure("unknown", reason),
        )

    def _case(self, number: int, file: SageFile, memory: _MemoryResults) -> ImportedCase:
        matched = self._matched(file)
        gold = matched.gold
        records = [
            Record(*UNPLACED, try_=1, kind=ANSWER, part=f"{answer.test}/{answer.question}", data=answer)
            for answer in matched.answers
        ]
        case = Case(*UNPLACED, gold.sample_id, None, gold)
        scorer = self.plan.scorers[0]
        scores = word_scores(
            case,
            records,
            scorer,
            answers=memory.has_answers,
            retrieved=memory.has_places,
            top_k=memory.summary.top_k if memory.summary else None,
        )
        if not memory.is_native:
            scores = _without_failed_answers(scores, matched.answers)
        memory.tally.add_conversation(number, [test.after for test in file.tests], records, scores)
        if self._data is not None and file.tests:
            for question in gold.questions[: len(file.tests[-1].answers)]:
                memory.tally.count_evidence(question.places, gold.places)
        has_source_index = self._data is not None or file.has_source_index
        rest = ImportedConversation(
            experiment_info=file.info,
            dataset_statistics=without_nan(file.statistics),
            test_threshold=file.threshold,
            tests=[test.after for test in file.tests],
            retrieved=file.has_retrieved,
            questions=[
                ImportedQuestion(
                    question_text=question.text,
                    reference_answer=question.reference,
                    metadata=question.metadata,
                    source_index=question.source_index if has_source_index else None,
                )
                for question in gold.questions
            ],
        )
        records.append(Record(*UNPLACED, try_=1, kind=IMPORTED, data=rest))
        return ImportedCase(
            key=matched.key,
            set=self._dataset,
            subject=memory.name,
            label=gold.sample_id,
            records=records,
            scores=scores,
        )

    def _matched(self, file: SageFile) -> _MatchedConversation:
        """Return a conversation with its gold: of the data file if there is one, else of the result file."""
        rules = self._loader.rules if self._loader else {}
        if self._data is not None:
            conversation = self._data.get(file.sample_id) or self._data.get(file.task_id)
            if conversation is None:
                raise InputError(Problem(str(file.path), f"the data has no conversation {file.sample_id!r}"))
            return _match_data(file, conversation, rules)
        is_abstention = self._loader.is_abstention if self._loader else None
        questions = file.questions
        if is_abstention is not None:
            questions = tuple(replace(question, abstention=is_abstention(question.metadata)) for question in questions)
        # Whether the messages of the evidence exist is not known. Most do.
        places = {place: MessagePlace(None, "") for question in questions for place in question.places}
        after = [test.after for test in file.tests]
        gold = ConversationGold(questions, places, rules, file.sample_id, after)
        key = _encode([file.sample_id, [[question.text, question.places] for question in questions]])
        return _MatchedConversation(gold, list(file.answers()), row_key(key))

    def report(self) -> Report:
        """Return an entry for each memory: computed from the answers, and completed by its summary."""
        notices = list(self._notices)
        present = {metric for memory in self._memories.values() for metric in memory.metrics}
        headline = next((metric for metric in METRICS if metric in present), None)
        retrieval = retrieval_metrics(present)
        labels = {str(key): label for key, label in self._loader.categories.items()} if self._loader else {}
        entries = []
        for memory in self._memories.values():
            entry = memory.tally.entry(headline, labels, (), retrieval)
            if memory.summary is not None:
                entry = with_summary(entry, memory.summary, headline, notices, retrieval)
            entries.append(entry)
        return Report(entries=entries, entry_word="memory", notices=notices)


class _MatchedConversation(NamedTuple):
    """The gold of a conversation, its answers by the numbers of the gold's questions, and its key."""

    gold: ConversationGold
    answers: list[AnswerRecord]
    key: str


class _MemoryResults:
    """The files of one memory.

    Every file is read once here, so that a broken one is found before anything is written.
    """

    def __init__(self, paths: Sequence[Path], summary: SummaryFile | None) -> None:
        self.folder = paths[0].parent
        self.summary = summary
        self.files: dict[str, Path] = {}
        self.has_answers, self.has_places = False, True
        self.notices: list[str] = []
        names: dict[str, Path] = {}
        for path in paths:
            file = SageFile(path)
            other = self.files.get(file.task_id)
            if other is not None:
                raise InputError(Problem(str(path), f"has the task_id {file.task_id!r}, and so has {other}"))
            self.files[file.task_id] = path
            names.setdefault(file.info.memory, path)
            self.has_answers |= file.has_answers
            self.has_places &= file.has_places
            self.notices += file.notices
        if len(names) > 1:
            texts = " and ".join(f"{name!r} ({path})" for name, path in names.items())
            raise InputError(Problem(str(self.folder), f"has files of several memories: {texts}. Import each one"))
        self.dataset = file.info.dataset or "conversations"
        # Only assay writes the memory into the file.
        self.is_native = bool(file.info.memory)
        self.model = file.info.model
        alias = summary.alias if summary and summary.alias else file.info.memory or _UNNAMED
        self.name = summary.memory if summary and summary.memory else alias.removesuffix(_REFERENCE)
        reference = summary.reference if summary else alias.endswith(_REFERENCE)
        self.tally = MemoryTally(self.name, alias, reference=reference)
        self.failures: dict[str, tuple[str, str]] = {}
        for failure in summary.failures if summary else ():
            if failure.task_id not in self.files:
                self.failures[failure.task_id] = failure.sample_id, failure.reason

    @property
    def tasks(self) -> list[str]:
        """The numbers of all conversations, also of those that failed."""
        return [*self.files, *self.failures]

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics that the report will have."""
        in_summary = [each.metric for each in self.summary.metrics] if self.summary else []
        return [*self.tally.metric_names, *in_summary]


def _others(path: Path) -> list[Path]:
    return [other for other in sorted(path.parent.glob("*.json")) if other != path and other.is_file()]


def _started(folder: Path) -> float | None:
    """Return the time in the name of a folder such as 251120_1430; None if it has none."""
    if not _TIME.match(folder.name):
        return None
    try:
        return time.mktime(time.strptime(folder.name[:11], "%y%m%d_%H%M"))
    except (ValueError, OverflowError):
        return None


def _without_failed_answers(scores: list[Score], answers: Sequence[AnswerRecord]) -> list[Score]:
    """Return the scores without a value where an answer failed.

    assay writes an error for an answer that the model refused, which counts as wrong. Other programs also write one for
    an endpoint that failed, and nothing was measured then.
    """
    errors = {f"{answer.test}/{answer.question}": answer.error for answer in answers if answer.error is not None}
    kept = []
    for score in scores:
        error = errors.get(score.part)
        if error is not None and score.metric != RECALL:
            score = replace(score, status="not_applicable", value=None, reason=error)  # noqa: PLW2901
        kept.append(score)
    return kept


def _match_data(file: SageFile, conversation: Conversation, rules: Mapping[Any, str]) -> _MatchedConversation:
    """Return the conversation of the data with the answers of the file.

    Raises InputError if the file has a question that the data does not have.
    """
    last = [file.questions[number - 1] for number, _ in file.tests[-1].answers] if file.tests else []
    # A run that asked at the end has the questions without evidence too, after all others.
    unplaced = any(question.problem for question in file.questions)
    questions = ordered_questions(conversation, unplaced=unplaced)
    if [question.text for question in questions[: len(last)]] != [question.text for question in last]:
        # The run had --categories, or another order.
        categories = sorted({str(question.category) for question in file.questions})
        questions = ordered_questions(conversation, categories, unplaced=unplaced)
    numbers: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for number, question in enumerate(questions, 1):
        numbers.setdefault((question.text, question.places), []).append(number)
    by_file_number: dict[int, int] = {}
    for number, question in enumerate(file.questions, 1):
        free = numbers.get((question.text, question.places))
        if not free:
            raise InputError(
                Problem(
                    str(file.path),
                    f"the data of {conversation.sample_id} has no question {question.text!r} with the evidence "
                    f"{', '.join(question.places) or '(none)'}",
                )
            )
        by_file_number[number] = free.pop(0)
    answers = [replace(answer, question=by_file_number[answer.question]) for answer in file.answers()]
    tests = [ConversationTest(test.after, len(test.answers)) for test in file.tests]
    after = [test.after for test in tests]
    gold = ConversationGold(questions, conversation.places, rules, conversation.sample_id, after)
    return _MatchedConversation(gold, answers, row_key(row_bytes(conversation, questions, tests)))
