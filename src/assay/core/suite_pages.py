"""SuitePages: one case of a suite for people, in the terminal and in the browser.

The pages are made of what the run folder has. The data of an old run may no longer exist, so there is no spec.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec
from msgspec import Struct

from assay.core.errors import AssayError, DamagedRun, Problem
from assay.core.report import Table
from assay.core.types import ASK, CLOSING_KINDS, Call, End, Record, Request, Score

if TYPE_CHECKING:
    from assay.core.case_details import CaseDetails, CurveValue, HeldSession, PromptPiece, QuestionDetail


class Section(Struct, kw_only=True):
    """One part of the output of `assay show RUN CASE`: a heading, a text and a table, each optional."""

    heading: str = ""
    text: str = ""
    table: Table | None = None
    indent: int = 0
    max_chars: int | None = None
    """Longer texts are cut to this many characters."""


class StoredCase(NamedTuple):
    """One case with everything that the journal has about it, for `assay show`."""

    end: End
    records: list[Record]
    scores: list[Score]
    calls: Sequence[Call] = ()
    row: dict[str, Any] | None = None
    """The whole row, where the run folder has it (`rows.jsonl`)."""
    neutral: frozenset[str] = frozenset()
    """Metrics for which a 0 is no failure, such as an error rate."""

    @property
    def name(self) -> str:
        """The case as reports name it: `set/key`."""
        return f"{self.end.set}/{self.end.case}"

    @property
    def id(self) -> Any:
        """The case's id in the data, if a score contains one; else None."""
        for score in self.scores:
            if isinstance(score.data, dict) and "id" in score.data:
                return score.data["id"]
        return None

    @property
    def answer(self) -> Any:
        """The data of the first record of the kind `answer`. None if the case has no answer."""
        for record in self.records:
            if record.kind == "answer":
                return record.data
        return None

    @property
    def failed(self) -> bool:
        """Whether the case has no answer, or a score that is 0 or invalid."""
        if self.end.status != "ok":
            return True
        for score in self.scores:
            zero = score.value == 0 and score.metric not in self.neutral
            if not score.interim and (score.status == "invalid" or zero):
                return True
        return False


class RunOrigin(Struct, frozen=True):
    """What run.json stores about the data of a run: its options and `Rows.facts`. The data may have changed since.

    `plan` is the `ask_identity` of the suite. Relative paths of the options start at `folder`.
    """

    options: Mapping[str, Any]
    facts: Mapping[str, Any]
    plan: Mapping[str, Any] = {}
    folder: Path = Path()


class GradedAnswer(Struct, frozen=True, kw_only=True):
    """An answer with everything that a person needs to decide whether it is right, and the decision of its score.

    With a rubric, `response` is the text that the rubric is about.
    """

    metric: str
    part: str = ""
    response: str
    question: str = ""
    reference: str = ""
    rubric: str = ""
    category: str = ""
    cluster: str = ""
    """Answers that belong together, such as those about one conversation."""
    evidence: tuple[str, ...] = ()
    """Texts from which the reference follows, if the judge read them too."""
    accepted: bool | None = None
    """True for a score of 1, False for a score of 0, None for any other score."""


# What code raises that meets a value of another form than it expects.
_FORM_ERRORS = (
    *(KeyError, IndexError, TypeError, AttributeError, ValueError),
    *(RecursionError, OverflowError, msgspec.ValidationError),
)


@contextmanager
def damage_of(place: str) -> Iterator[None]:
    """Context manager for code that reads records and scores of any run folder: raises DamagedRun for odd ones.

    A run folder may be forged: its lines have matching checksums, and forms that no suite writes.
    """
    try:
        yield
    except AssayError:
        raise
    except _FORM_ERRORS as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        code = f"{type(error).__name__}: {error} in {Path(frame.filename).name}:{frame.lineno}"
        message = f"has a record or score of a form that its suite does not write ({code})"
        raise DamagedRun(Problem(place, message)) from error


# Methods of SuitePages that read one case of a run. One of their arguments is a StoredCase, or its records.
_CASE_READERS = (
    *("sections", "answer_text", "question_sections", "details", "prompt_pieces"),
    *("question_detail", "held_items", "curve_values", "graded_answers"),
)


def _names_damage(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of `_CASE_READERS` that raises DamagedRun, with the case, instead of any other error of forms."""

    @wraps(method)
    def read(pages: SuitePages, *arguments: Any) -> Any:
        with damage_of(_place(arguments)):
            return method(pages, *arguments)

    return read


def _place(arguments: Sequence[Any]) -> str:
    for argument in arguments:
        if isinstance(argument, StoredCase):
            return f"case {argument.end.index} ({argument.name})"
        if isinstance(argument, Sequence) and argument and isinstance(argument[0], Record):
            return f"case {argument[0].index} ({argument[0].set}/{argument[0].case})"
    return "a case"


class SuitePages:
    """How people see the cases of a suite. The default shows records and scores. `case_word` is `Suite.case_word`."""

    has_questions: ClassVar[bool] = False
    """Whether a case consists of many questions, which `assay show RUN CASE --question ID` shows one by one."""
    dimensions: ClassVar[Sequence[str]] = ()
    """Names of the metrics that the page of a memory run shows as its dimensions, in order."""

    def __init_subclass__(cls) -> None:
        """Let the methods that read cases name damage: here, because every suite trusts what it wrote itself."""
        super().__init_subclass__()
        for name in _CASE_READERS:
            if name in cls.__dict__:
                setattr(cls, name, _names_damage(cls.__dict__[name]))

    def __init__(self, case_word: str = "case") -> None:
        self.case_word = case_word

    def sections(self, case: StoredCase) -> Sequence[Section]:
        """Return what `assay show RUN CASE` prints of records and scores, below prompts and replies."""
        pairs = [
            Section(
                heading=pair.name,
                text=f"expected {pair.expected} · found {pair.found}",
                indent=0 if pair.name else 1,
                max_chars=4000,
            )
            for pair in self.details(case).pairs
        ]
        return [*record_sections(case), *score_sections(case), *pairs]

    def answer_text(self, records: Sequence[Record]) -> str:
        """Return what a person calls the answer, for one cell of a table. Empty if there is none.

        The records are those of a case, or those of one row of it if `parts` are rows.
        """
        return answer_text(records)

    def question_of(self, part: str) -> str:
        """Return the question that a part asks. Parts that ask the same one, as in several tests, share its text."""
        return part

    def question_sections(self, case: StoredCase, name: str, origin: RunOrigin) -> Sequence[Section]:
        """Return everything about one question of a case, for `assay show RUN --question NAME`.

        Returns nothing if the case has no question of this name. Only called for a suite that `has_questions`.
        """
        return ()

    def details(self, case: StoredCase) -> CaseDetails:
        """Return what the page of a case shows besides prompts, replies and scores."""
        return case_details(case)

    def prompt_pieces(self, request: Request, case: StoredCase, origin: RunOrigin) -> Sequence[PromptPiece]:
        """Return the few-shot examples of a prompt and what stands around them; empty if that cannot be told."""
        return ()

    def question_detail(self, case: StoredCase, name: str, origin: RunOrigin) -> QuestionDetail | None:
        """Return one question of a case with every test that asked it; None if the case has no such question."""
        return None

    def held_items(self, case: StoredCase) -> Sequence[HeldSession]:
        """Return what a memory held after each conversation session, and what the session changed."""
        return ()

    def curve_values(self, case: StoredCase) -> Sequence[CurveValue]:
        """Return every score of a case with its test and category, for curves by category."""
        return ()

    def graded_answers(self, case: StoredCase) -> Sequence[GradedAnswer]:
        """Return the answers of a case that a person can label as right or wrong, for `assay label`."""
        return graded_answers(case)


def case_details(case: StoredCase) -> CaseDetails:
    """Return the answers of a case beside their references, and the verdicts of judges."""
    from assay.core.case_details import AnswerPair, CaseDetails, verdict_details

    pairs: dict[AnswerPair, None] = {}
    for answer in graded_answers(case):
        if answer.reference:
            pairs[AnswerPair(name=answer.part, expected=answer.reference, found=answer.response)] = None
    return CaseDetails(pairs=list(pairs), verdicts=verdict_details(case.scores))


def graded_answers(case: StoredCase) -> list[GradedAnswer]:
    """Return an answer for each score of a case, without scores that have no answer or do not count.

    The question is the label of the score where a case has several questions, else the prompt as it was sent.
    """
    answers = []
    for score in case.scores:
        data = score.data if isinstance(score.data, dict) else {}
        response = data.get("answer", _answer_of(case, score.part))
        if score.interim or score.status == "not_applicable" or response is None:
            continue
        expected = score.expected
        if expected is None:
            # Of several scores of one answer, only the first has the reference.
            others = (other.expected for other in case.scores if other.part == score.part)
            expected = next((value for value in others if value is not None), None)
        tags = score.tags or case.end.tags
        answers.append(
            GradedAnswer(
                metric=score.metric,
                part=score.part,
                response=as_text(response),
                question=score.label if score.label not in ("", score.part) else first_prompt(case),
                reference="" if expected is None else as_text(expected),
                category=tags[0] if tags else "",
                cluster=str(data.get("id", case.end.case)),
                accepted=bool(score.value) if score.value in (0, 1) else None,
            )
        )
    return answers


def answer_text(records: Sequence[Record]) -> str:
    """Return the last record as text or JSON, unless it only closes the case. Of repeated answers it has the first."""
    if not records or records[-1].kind in CLOSING_KINDS:
        return ""
    data = records[-1].data
    while isinstance(data, list) and data:
        data = data[0]
    if isinstance(data, dict):
        return json.dumps(data.get("outputs", data), ensure_ascii=False)
    return "" if data == [] else str(data)


def as_text(value: Any) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _answer_of(case: StoredCase, part: str) -> Any:
    """Return the answer of a part, else that of the case. None if there is none."""
    records = [record for record in case.records if record.kind == "answer"]
    matches = [record for record in records if record.part == part] or [record for record in records if not record.part]
    answer = matches[0].data if matches else None
    while isinstance(answer, list) and len(answer) > 0:
        answer = answer[0]  # a task with repeats has a list of answers
    if isinstance(answer, dict):
        return next((answer[name] for name in ("answer", "outputs", "result") if name in answer), answer)
    return answer


def first_prompt(case: StoredCase) -> str:
    """Return the first prompt that the case sent: its last message, without the system's."""
    for call in case.calls:
        request = call.request
        if request is None or call.stage != ASK:
            continue
        if request.prompt is not None:
            return request.prompt
        for message in reversed(request.messages or []):
            if message.get("role") != "system":
                return as_text(message.get("content") or "")
    return ""


def record_sections(case: StoredCase) -> list[Section]:
    """Return a section for each record, as text or JSON."""
    return [
        Section(
            heading=" ".join(filter(None, (record.kind, record.part))),
            text=record.data if isinstance(record.data, str) else msgspec.json.encode(record.data).decode(),
            max_chars=4000,
        )
        for record in case.records
    ]


def score_sections(case: StoredCase) -> list[Section]:
    """Return a section for each score, with status and reason."""
    sections = []
    for score in case.scores:
        name = " by ".join(filter(None, (score.metric, score.part)))
        value = "–" if score.value is None else f"{score.value:g}"
        status = "" if score.status == "scored" else f" ({score.status})"
        sections.append(Section(heading=f"{name}: {value}{status}", text=score.reason))
    return sections
