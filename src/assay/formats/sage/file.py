"""Reads the result file of one conversation, whoever wrote it: SAGE, assay, or another program.

    file = SageFile(Path("0000.json"))
    file.questions[0].text, file.tests[-1].answers

The format numbers the questions of each test by their place in that test. SAGE's first version lists questions in data
order, so a question has another number in every test. Here a question has one number in all tests, and it is the
number that a native run gives it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct, field

from assay.core.errors import InputError, Problem
from assay.files.read import convert_json, read_object, without_nan
from assay.files.schema import Scalar
from assay.suites.memory.conversation import AnswerRecord
from assay.suites.memory.test.conversation import RESERVED, ConversationQuestion
from assay.suites.memory.test.loaders import text_list

MESSAGE_ID = re.compile(r"D\d{1,9}:\d{1,9}", re.ASCII)
"""The id of a message. Retrieved items with other ids are items that a memory built itself."""

# No real file has larger numbers. They are written to the journal, which has 64 bits for a number.
Count = Annotated[int, Meta(ge=0, lt=1 << 53)]
_MARKS = (b'"experiment_info"', b'"test_results"')
# Bytes at the beginning of a file that are searched for the marks.
_HEAD = 1 << 16


class SageInfo(Struct, kw_only=True, omit_defaults=True):
    """`experiment_info`. Only assay writes `memory`, `model` and `sample_id`."""

    dataset: str = ""
    task_id: str | int = ""
    memory: str = ""
    model: str = ""
    sample_id: str = ""


class SageRange(Struct, kw_only=True):
    """`question_range`: the first and the last question of a test, counted from 1."""

    start: Count = 1
    end: Count


class SageQuestion(Struct, kw_only=True):
    """One question of one test. Other keys belong to the data set."""

    question_index: Annotated[int, Meta(ge=1, lt=1 << 53)]
    question_text: str
    predicted_answer: Scalar | None
    reference_answer: Scalar | None = None
    evidence: list[str] | str | None = None
    category: Any = None
    error: str | None = None
    source_index: Count | None = None
    retrieved: list[str] | None = None
    timings: dict[str, float] | None = None


class SageTest(Struct, kw_only=True):
    """One test: the questions that were asked after `dialogs_inserted_count` messages."""

    test_index: Count
    dialogs_inserted_count: Count
    questions: list[SageQuestion]
    question_range: SageRange | None = None


class SageTestSummary(Struct, kw_only=True):
    """`test_summary`."""

    total_tests: Count | None = None
    test_threshold: str = ""


class SageDocument(Struct, kw_only=True):
    """A whole file."""

    experiment_info: SageInfo
    test_results: list[SageTest]
    dataset_statistics: dict[str, Any] = field(default_factory=dict)
    test_summary: SageTestSummary = field(default_factory=SageTestSummary)


class ImportedQuestion(Struct, kw_only=True, omit_defaults=True):
    """A question of an imported conversation. `metadata` has the keys of the data set."""

    question_text: str
    reference_answer: Scalar | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    source_index: int | None = None


class ImportedConversation(Struct, kw_only=True):
    """The data of the record `imported`: everything of a file that the records of its answers do not have.

    `assay export` writes the file from it. `tests` has the messages inserted before each test, `retrieved` tells
    whether the file has retrieved items.
    """

    experiment_info: SageInfo
    dataset_statistics: dict[str, Any]
    test_threshold: str
    tests: list[int]
    retrieved: bool
    questions: list[ImportedQuestion]


class NumberedTest(NamedTuple):
    """One test with its answers, sorted by the number of the question."""

    after: int
    answers: list[tuple[int, SageQuestion]]


def looks_like_results(path: Path) -> bool:
    """Return whether a file begins like the result file of a conversation."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    return any(mark in head for mark in _MARKS)


class SageFile:
    """The content of one file. Raises InputError if it is broken; counts that contradict it are in `notices`."""

    def __init__(self, path: Path) -> None:
        raw = read_object(path)
        document = convert_json(raw, SageDocument, str(path))
        self.path = path
        self.info = document.experiment_info
        self.statistics = document.dataset_statistics
        self.threshold = document.test_summary.test_threshold
        self.notices = [f"{path}: {notice}" for notice in _contradictions(document)]
        names = [_names(test, f"{path} $.test_results[{place}]") for place, test in enumerate(document.test_results)]
        numbers = _numbers(document, names)
        self.tests: list[NumberedTest] = []
        questions: dict[int, ConversationQuestion] = {}
        for place, (test, test_names) in enumerate(zip(document.test_results, names, strict=True)):
            answers = [(numbers[name], each) for name, each in zip(test_names, test.questions, strict=True)]
            for (number, each), value in zip(answers, raw["test_results"][place]["questions"], strict=True):
                questions[number] = _question(each, value)
            answers.sort(key=lambda pair: pair[0])
            self.tests.append(NumberedTest(test.dialogs_inserted_count, answers))
        self.questions = tuple(question for _, question in sorted(questions.items()))

    @property
    def sample_id(self) -> str:
        """The id of the conversation. Without one in the file, the format's number of the conversation."""
        return self.info.sample_id or self.task_id

    @property
    def task_id(self) -> str:
        """The number of the conversation in its data set, such as `0000`."""
        return str(self.info.task_id) if self.info.task_id != "" else self.path.stem

    @property
    def has_answers(self) -> bool:
        """Whether a model answered. A run that only searches writes empty answers."""
        return any(each.error or answer_text(each) for _, each in self._asked())

    @property
    def has_places(self) -> bool:
        """Whether every retrieved item is a message, so that it can be compared with the evidence."""
        return all(
            each.retrieved is not None and all(map(MESSAGE_ID.fullmatch, each.retrieved)) for _, each in self._asked()
        )

    @property
    def has_retrieved(self) -> bool:
        """Whether the file has retrieved items."""
        return any(each.retrieved is not None for _, each in self._asked())

    @property
    def has_source_index(self) -> bool:
        """Whether the file tells the place of each question in its data."""
        return all(each.source_index is not None for _, each in self._asked())

    def _asked(self) -> Iterator[tuple[int, SageQuestion]]:
        for test in self.tests:
            yield from test.answers

    def answers(self) -> Iterator[AnswerRecord]:
        """Yield the answers of all tests as a native run records them."""
        for number, test in enumerate(self.tests, 1):
            for question, each in test.answers:
                timings = each.timings or {}
                yield AnswerRecord(
                    test=number,
                    question=question,
                    answer="" if each.error is not None else answer_text(each),
                    # The file has the ids of items only. An item that is a message was made of this message.
                    hits=[[name, name] if MESSAGE_ID.fullmatch(name) else [name] for name in each.retrieved or ()],
                    search_seconds=_seconds(timings.get("search_seconds")),
                    answer_seconds=_seconds(timings.get("answer_seconds")),
                    error=each.error,
                )


def answer_text(question: SageQuestion) -> str:
    """Return the predicted answer as text."""
    answer = question.predicted_answer
    return answer if isinstance(answer, str) else "" if answer is None else json.dumps(answer)


def _seconds(value: float | None) -> float:
    return value if value is not None and isfinite(value) and value > 0 else 0.0


def _question(question: SageQuestion, raw: Mapping[str, Any]) -> ConversationQuestion:
    metadata = {key: without_nan(value) for key, value in raw.items() if key not in RESERVED}
    if isinstance(metadata.get("category"), (dict, list)):
        # Categories are names of groups.
        metadata["category"] = json.dumps(metadata["category"], ensure_ascii=False)
    return ConversationQuestion.of(
        question.question_text,
        text_list(question.evidence),
        metadata,
        reference=without_nan(question.reference_answer),
        source_index=question.source_index or 0,
    )


# Numbers of questions

QuestionName = tuple[Any, ...]


def _names(test: SageTest, where: str) -> list[QuestionName]:
    """Return a name for each question of a test, equal in all tests: its place in the data, else its content."""
    names: dict[QuestionName, None] = {}  # an ordered set
    counts: Counter[QuestionName] = Counter()
    indexes: set[int] = set()
    for place, question in enumerate(test.questions):
        name: QuestionName = (question.source_index,)
        if question.source_index is None:
            content = (question.question_text, *text_list(question.evidence))
            counts[content] += 1
            name = (*content, counts[content])
        if question.question_index in indexes or (question.source_index is not None and name in names):
            raise InputError(
                Problem(
                    f"{where}.questions[{place}]",
                    f"the test has question {question.question_index} twice: {question.question_text!r}",
                )
            )
        indexes.add(question.question_index)
        names[name] = None
    return list(names)


def _numbers(document: SageDocument, names: list[list[QuestionName]]) -> dict[QuestionName, int]:
    """Return one number for each question, from 1: that of the file, if all tests agree on it.

    Otherwise the questions are sorted by the last message of their evidence, as a native run does, ties in the order of
    the file.
    """
    indexes: dict[QuestionName, int] = {}
    evidence: dict[QuestionName, ConversationQuestion] = {}
    agree = True
    # The last test first: it has all questions in the order of the data.
    for test, test_names in reversed(list(zip(document.test_results, names, strict=True))):
        for name, question in zip(test_names, test.questions, strict=True):
            agree &= indexes.setdefault(name, question.question_index) == question.question_index
            if name not in evidence:
                evidence[name] = ConversationQuestion.of("", text_list(question.evidence), {})
    if agree and sorted(indexes.values()) == list(range(1, len(indexes) + 1)):
        return indexes
    order = list(evidence)
    if all(question.coordinate is not None for question in evidence.values()):
        order.sort(key=lambda name: evidence[name].coordinate or (0, 0))
    return {name: number for number, name in enumerate(order, 1)}


# Counts that contradict the file


def _contradictions(document: SageDocument) -> Iterator[str]:
    """Yield a sentence for each count that differs from what the file contains. The content counts, not the count."""
    tests, statistics = document.test_results, document.dataset_statistics
    total = document.test_summary.total_tests
    if total is not None and total != len(tests):
        yield f"total_tests is {total:,}, but there are {len(tests):,} tests"
    before = 0
    for number, test in enumerate(tests, 1):
        if test.test_index != number:
            yield f"test {number} has test_index {test.test_index}"
        span = test.question_range
        if span is not None and span.end - span.start + 1 != len(test.questions):
            yield (
                f"test {number}: question_range is {span.start} to {span.end}, "
                f"but there are {len(test.questions):,} questions"
            )
        if test.dialogs_inserted_count < before:
            yield f"test {number}: dialogs_inserted_count is smaller than in the test before"
        before = test.dialogs_inserted_count
    dialogs = statistics.get("total_dialogs")
    if isinstance(dialogs, int) and before > dialogs:
        yield f"the last test follows {before:,} messages, but total_dialogs is {dialogs:,}"
    valid = statistics.get("valid_questions")
    most = max((len(test.questions) for test in tests), default=0)
    if isinstance(valid, int) and most > valid:
        yield f"valid_questions is {valid:,}, but a test has {most:,} questions"
    if tests and most > len(tests[-1].questions):
        yield f"the last test has {len(tests[-1].questions):,} questions, an earlier one {most:,}; the last one counts"
