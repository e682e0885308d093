"""Puts what a memory wrote and answered before the judge, and compares answers by their words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from msgspec import Struct

from assay.core.hashing import fingerprint
from assay.core.protocols import Context, Scorer, View
from assay.core.types import Score
from assay.scoring.questions import (
    BOTH,
    CORRECT,
    COVERED,
    FABRICATED,
    REJECTED,
    TRUE,
    UPDATED,
    AnswerQuestion,
    CorrectnessQuestion,
    EvidenceQuestion,
    InterferenceQuestion,
    JudgeQuestion,
    RecallQuestion,
    UpdateQuestion,
    Verdict,
    invalid,
)
from assay.scoring.text_overlap import overlap_bleu1, overlap_f1, tokens
from assay.suites.memory_eval.points import (
    Answer,
    held,
    known,
    own,
    points,
    question_parts,
    session_parts,
    told_of,
    written,
)
from assay.suites.memory_eval.rows import QaRow, SessionRow

RECALL, UPDATE_RECALL, CORRECTNESS, HALLUCINATION = "recall", "update_recall", "correctness", "hallucination"
UPDATE, INTERFERENCE, ANSWER = "update", "interference", "answer"
EVIDENCE, RETRIEVED = "evidence", "retrieved_evidence"
F1, BLEU1 = "f1", "bleu1"
WORTH: dict[str, dict[str, float]] = {
    RECALL: {COVERED: 1.0},
    UPDATE_RECALL: {COVERED: 1.0},
    CORRECTNESS: {TRUE: 1.0},
    HALLUCINATION: {FABRICATED: 1.0},
    UPDATE: {UPDATED: 1.0, BOTH: 0.5},
    INTERFERENCE: {REJECTED: 1.0},
    ANSWER: {CORRECT: 1.0},
    EVIDENCE: {COVERED: 1.0},
    RETRIEVED: {COVERED: 1.0},
}
"""What a label adds to its metric; any other adds nothing. In all but `hallucination` more is better."""
METRICS: dict[str, tuple[str, ...]] = {
    RecallQuestion.kind: (RECALL, UPDATE_RECALL),
    CorrectnessQuestion.kind: (CORRECTNESS, HALLUCINATION),
    UpdateQuestion.kind: (UPDATE,),
    InterferenceQuestion.kind: (INTERFERENCE,),
    AnswerQuestion.kind: (ANSWER,),
    EvidenceQuestion.kind: (EVIDENCE, RETRIEVED),
}
"""Which metrics follow from verdicts on which kind of matter."""
_VERSION = 1

RowsOf = Callable[[View], tuple[list[SessionRow], list[QaRow]]]
AnswersOf = Callable[[View], Iterable[Answer]]


class Judge(Protocol):
    """A panel, as far as it is needed here."""

    @property
    def id(self) -> str:
        """Tells it from any other judge."""
        ...

    @property
    def reply_identity(self) -> str:
        """Tells whose replies are its own: with other prompts or more votes they still are."""
        ...

    async def verdict(self, matter: JudgeQuestion, ctx: Context) -> Verdict:
        """Of one matter; raises ModelError where it could not be asked."""
        ...


class Judged(Struct, frozen=True):
    """One thing to be judged, and the metrics that follow from the verdict: the first has all its labels."""

    part: str
    metrics: tuple[str, ...]
    matter: JudgeQuestion
    about: dict[str, Any]


class EvalScorer(Scorer):
    """Scores of a session have its id as part, of a point SESSION/ID, of a question CHECKPOINT/NUMBER."""

    def __init__(self, panel: Judge, rows_of: RowsOf, gold: str = "") -> None:
        """`gold` names what is held to be right, where that can change under the same panel."""
        self._call_stage = f"judged@{fingerprint([_VERSION, panel.reply_identity])}"
        self.id = f"judged@{fingerprint([_VERSION, panel.id, gold])}"
        self._panel = panel
        self._rows_of = rows_of

    @property
    def call_stage(self) -> str:
        """Judges that differ only in votes share the replies of the same model."""
        return self._call_stage

    async def score(self, view: View, ctx: Context) -> list[Score]:
        """Every session and question by all that applies; equal matters are judged once, all side by side."""
        things = judged(*self._rows_of(view))
        places: dict[JudgeQuestion, int] = {}  # to be looked up once for each thing: all its texts are hashed
        at = [places.setdefault(thing.matter, len(places)) for thing in things]
        verdicts = await ctx.map(lambda matter: self._verdict(matter, ctx), places)
        return [
            score
            for thing, place in zip(things, at, strict=True)
            for score in self._scores(view, thing, verdicts[place])
        ]

    async def _verdict(self, matter: JudgeQuestion, ctx: Context) -> Verdict:
        """Of one matter; a failed call is asked again another day."""
        verdict = await self._panel.verdict(matter, ctx)
        if verdict.valid and len(verdict.labels) != matter.count:
            return invalid(f"no verdict: {len(verdict.labels)} labels for {matter.count} things")
        if strange := [label for label in verdict.labels if label not in matter.labels]:
            return invalid(f"no verdict: {strange[0]!r} is none of {', '.join(matter.labels)}")
        return verdict

    def _scores(self, view: View, thing: Judged, verdict: Verdict) -> Iterator[Score]:
        for at, metric in enumerate(thing.metrics):
            data = dict(thing.about)
            if at == 0:
                data |= _said(verdict)
            yield Score(
                *view.case.head, self.id, metric, part=thing.part, **_value(metric, thing, verdict, data)
            )


def judged(sessions: Sequence[SessionRow], questions: Sequence[QaRow]) -> list[Judged]:
    """All that can be judged of a sample, in order of its parts."""
    found: list[Judged] = []
    for part, session in zip(session_parts(sessions), sessions, strict=True):
        found += _of_session(part, session)
    for part, question in zip(question_parts(questions), questions, strict=True):
        found += _of_question(part, question)
    return found


def _of_session(part: str, row: SessionRow) -> Iterator[Judged]:
    new, updates = own(row.gold_state)
    mine, texts, everything = tuple(point.content for point in (*new, *updates)), written(row), held(row)
    flags = (False,) * len(new) + (True,) * len(updates)
    about = {"id": row.sample_id}
    yield Judged(part, (RECALL, UPDATE_RECALL), RecallQuestion(mine, flags, texts), about)
    yield Judged(
        part, (CORRECTNESS, HALLUCINATION), CorrectnessQuestion(mine, known(row.gold_state), texts), about
    )
    for point in updates:
        named = about | {"point": point.name}
        yield Judged(
            f"{part}/{point.name}",
            (UPDATE,),
            UpdateQuestion(point.content, point.original, everything),
            named,
        )
    for point in points(row.gold_state.session_interference_memories):
        named = about | {"point": point.name}
        yield Judged(
            f"{part}/{point.name}", (INTERFERENCE,), InterferenceQuestion(point.content, everything), named
        )


def _of_question(part: str, row: QaRow) -> Iterator[Judged]:
    told, evidence = told_of(row), tuple(row.gold_evidence_contents)
    matter = AnswerQuestion(row.question, row.gold_answer, row.generated_answer, evidence)
    yield Judged(part, (ANSWER,), matter, told | {"answer": row.generated_answer, "target": row.gold_answer})
    yield Judged(part, (EVIDENCE,), EvidenceQuestion(evidence, tuple(row.cited_memories)), told)
    found = tuple(item.text for item in row.retrieval.items)
    yield Judged(part, (RETRIEVED,), EvidenceQuestion(evidence, found), told)


def _said(verdict: Verdict) -> dict[str, Any]:
    """What a first metric keeps of the verdict, so that evals can be made of scores."""
    said: dict[str, Any] = {"labels": list(verdict.labels)}
    if verdict.votes:
        said |= {"votes": [list(vote) for vote in verdict.votes], "stable": verdict.stable}
    return said


def _value(metric: str, thing: Judged, verdict: Verdict, data: dict[str, Any]) -> dict[str, Any]:
    """Value, status and reason, and in the data the numbers behind them."""
    count = thing.matter.count
    flags = (
        thing.matter.updates if metric == UPDATE_RECALL and isinstance(thing.matter, RecallQuestion) else None
    )
    total = count if flags is None else sum(flags)
    data = data | {"denominator": total}
    if not total:
        return {"status": "not_applicable", "reason": "there is nothing to be judged", "data": data}
    if not verdict.valid:
        return {"status": "invalid", "reason": verdict.reason, "data": data}
    worth = [WORTH[metric].get(label, 0.0) for label in verdict.labels]
    got = sum(value for at, value in enumerate(worth) if flags is None or flags[at])
    return {"value": got / total, "reason": verdict.reason, "data": data | {"numerator": got}}


class LexicalScorer(Scorer):
    """Token F1 and BLEU-1 of every answer that has a reference, without a judge."""

    def __init__(self, answers_of: AnswersOf, gold: str = "") -> None:
        """`gold` names what is held to be right, as in `EvalScorer`."""
        self.id = f"words@{fingerprint([_VERSION, gold])}"
        self._answers_of = answers_of

    async def score(self, view: View, ctx: Context) -> list[Score]:
        """Two scores a question; the parts are those of the judged answers."""
        return [score for answer in self._answers_of(view) for score in self._scores(view, answer)]

    def _scores(self, view: View, answer: Answer) -> Iterator[Score]:
        part, said, reference, told = answer
        head = (*view.case.head, self.id)
        if not reference.strip():
            why = "the question has no reference"
            for metric in (F1, BLEU1):
                yield Score(*head, metric, part=part, status="not_applicable", reason=why, data=told)
            return
        one, two = tokens(said), tokens(reference)
        shown = told | {"answer": said, "target": reference}
        yield Score(*head, F1, part=part, value=overlap_f1(one, two), data=shown)
        yield Score(*head, BLEU1, part=part, value=overlap_bleu1(one, two), data=told)
