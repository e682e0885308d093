"""What the pages of `assay view` show of a case, in types that all suites share.

A suite fills in what its format has: `SuitePages.details` for a whole case, `SuitePages.question_detail` for one
question of a memory suite, `SuitePages.held_items` for what a memory stored. Texts are raw: models wrote them. The
pages escape and cut them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct, field

from assay.core.types import Score

# More votes or repeats than any run has. A larger count in a score was forged.
_MOST_VOTES = 1_000_000_000


class AnswerPair(Struct, frozen=True, kw_only=True):
    """An expected value beside the value that was found. None is a value that the run does not have."""

    name: str
    expected: str | None
    found: str | None


class AnswerVotes(Struct, frozen=True):
    """How often each answer occurs among the repeats of a case, as one filter read them. Most frequent first."""

    name: str
    counts: list[tuple[str, int]]


class CheckDetail(Struct, frozen=True, kw_only=True):
    """One check of a test or row. `passed` is None if a judge's verdict is missing."""

    place: str
    """The step and the path of the checked value."""
    kind: str
    passed: bool | None
    expected: str | None = None
    found: str | None = None
    why: str = ""


class StepDetail(Struct, frozen=True, kw_only=True):
    """One step of a pipeline or of a traced function, in the order in which steps ended."""

    name: str
    status: str
    seconds: float | None = None
    start: float | None = None
    """Seconds between the begin of the first step and that of this one; None if it is not known."""
    input: str = ""
    """What the step got: the prompts as they were sent, or the task of a traced step."""
    output: str = ""
    error: str = ""
    facts: list[str] = field(default_factory=list)
    """Calls, tokens, attempts and the like, in words."""
    is_first_wrong: bool = False


class TestDetail(Struct, frozen=True, kw_only=True):
    """One test of a case with its steps and checks. `name` is empty if the case is one test."""

    __test__ = False  # pytest would collect a class whose name starts with Test

    name: str
    verdict: str = ""
    reason: str = ""
    steps: list[StepDetail] = field(default_factory=list)
    checks: list[CheckDetail] = field(default_factory=list)


class VerdictDetail(Struct, frozen=True, kw_only=True):
    """A judge's verdict on one answer, point or session. `votes` counts the labels if the judge voted several times."""

    name: str
    """What was judged: the metric and the part of the case."""
    label: str
    value: float | None
    reason: str
    votes: list[tuple[str, int]] = field(default_factory=list)
    is_stable: bool | None = None
    """False if the votes disagree; None if there are no votes to compare."""
    remark: str = ""
    """Why the votes of the score are not shown; empty if they are."""


class TestValue(Struct, frozen=True, kw_only=True):
    """The score of a question in one test. `value` is None if it was not measured."""

    __test__ = False

    test: str
    value: float | None


class QuestionLine(Struct, frozen=True, kw_only=True):
    """One question of a memory suite, with its headline score in each test that asked it."""

    name: str
    text: str
    category: str
    metric: str
    tests: list[TestValue]
    reference: str | None = None
    answer: str = ""


class PromptPiece(Struct, frozen=True, kw_only=True):
    """A part of a prompt: the description, the question, or a text of few-shot example number `example`, from 1."""

    role: str
    heading: str
    text: str
    example: int = 0


class CaseDetails(Struct, kw_only=True):
    """Everything that a suite shows of a case on its page, besides prompts, replies and scores."""

    pairs: list[AnswerPair] = field(default_factory=list)
    votes: list[AnswerVotes] = field(default_factory=list)
    tests: list[TestDetail] = field(default_factory=list)
    verdicts: list[VerdictDetail] = field(default_factory=list)
    questions: list[QuestionLine] = field(default_factory=list)


class QuestionHit(Struct, frozen=True, kw_only=True):
    """An item that a memory returned for a question. `text` is None if the run does not have it."""

    rank: int
    id: str
    text: str | None = None
    score: float | None = None
    is_evidence: bool = False
    is_cited: bool = False


class EvidencePiece(Struct, frozen=True, kw_only=True):
    """A message or sentence from which the reference follows. None: it is not known whether it was found or cited."""

    id: str
    text: str | None = None
    is_found: bool | None = None
    is_cited: bool | None = None


class QuestionTest(Struct, frozen=True, kw_only=True):
    """One test that asked a question: scores by name, the answer, and what the memory returned."""

    test: str
    values: list[tuple[str, float | None]]
    is_right: bool | None
    """By the headline score: 1 is right, anything below is wrong, None was not measured."""
    answer: str = ""
    error: str = ""
    items: list[QuestionHit] = field(default_factory=list)
    more_items: int = 0
    """Items that were returned after those in `items`."""
    evidence: list[EvidencePiece] = field(default_factory=list)
    verdicts: list[VerdictDetail] = field(default_factory=list)
    remark: str = ""


class QuestionDetail(Struct, frozen=True, kw_only=True):
    """A question and its life: one entry for each test that asked it."""

    name: str
    text: str
    category: str
    reference: str | None
    tests: list[QuestionTest]
    remark: str = ""


class HeldItem(Struct, frozen=True, kw_only=True):
    """An item of a memory after a session.

    `change` is `added`, `updated`, `removed` or empty. For an item that is stored but not active it is its status.
    """

    id: str
    text: str
    session: str
    change: str = ""
    before: str = ""
    """The text before an update."""


class HeldSession(Struct, frozen=True, kw_only=True):
    """A memory after one conversation session: its items, those that were removed, and the judge's scores."""

    name: str
    items: list[HeldItem]
    values: list[tuple[str, float | None]]

    @property
    def count(self) -> int:
        """The number of items that the memory held."""
        return sum(item.change != "removed" for item in self.items)

    def changed(self, change: str) -> int:
        """Return how many items have this change."""
        return sum(item.change == change for item in self.items)


class CurveValue(Struct, frozen=True, kw_only=True):
    """One score along the tests of a conversation, for curves by category. `value` may say why there is none.

    `age` counts the messages between the evidence and the test, if the question has evidence.
    """

    test: int
    category: str
    metric: str
    value: float | str
    age: int | None = None


def verdict_details(scores: Iterable[Score]) -> list[VerdictDetail]:
    """Return the verdicts among the scores of a case: those whose data has the label that a judge chose."""
    verdicts = []
    for score in scores:
        data = score.data if isinstance(score.data, dict) else {}
        labels = data.get("labels") or [data.get("label")]
        if score.interim or not isinstance(labels, list) or not any(labels):
            continue
        votes = count_votes(data.get("votes"))
        stable = data.get("stable")
        verdicts.append(
            VerdictDetail(
                name=" of ".join(filter(None, (score.metric, score.part))),
                label=", ".join(map(str, labels)),
                value=score.value,
                reason=score.reason,
                votes=votes or [],
                is_stable=stable if isinstance(stable, bool) else None,
                remark=UNREADABLE_VOTES if votes is None else "",
            )
        )
    return verdicts


UNREADABLE_VOTES = "the votes are not shown: they are not in a form that a judge or a filter of assay writes"
"""The sentence for `votes` that `count_votes` cannot read."""


def count_votes(votes: object) -> list[tuple[str, int]] | None:
    """Return each vote of a score with its count, in the order of the first of its kind; None for an unknown form.

    Scorers store `[[vote, count], ...]`. A verdict on several points or sessions has the labels of each vote instead,
    `[[label, label, ...], ...]`: equal votes are counted here. Without votes the list is empty.
    """
    if votes is None:
        return []
    if not isinstance(votes, list):
        return None
    counts: dict[str, int] = {}
    for vote in votes:
        if not isinstance(vote, list) or not vote:
            return None
        name, count = vote[0], 1
        if _is_counted(vote):
            count = vote[1]
        elif all(isinstance(label, str) for label in vote):
            name = ", ".join(vote)
        else:
            return None
        text = name if isinstance(name, str) else msgspec.json.encode(name).decode()
        counts[text] = counts.get(text, 0) + count
    return list(counts.items())


def _is_counted(vote: list[object]) -> bool:
    """Return whether a vote is `[vote, count]`. A count that no judge can have is none."""
    match vote:
        case [_, bool()]:
            return False
        case [_, int(count)]:
            return 0 < count <= _MOST_VOTES
    return False
