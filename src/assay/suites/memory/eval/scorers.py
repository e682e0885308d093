"""Scores a sample: a judge labels texts and answers, and a word comparison scores answers without a judge.

`judge_tasks` lists all questions to the judge about a sample. The labels of a verdict become scores; `LABEL_WORTH` has
the value of each label. All later numbers (`eval` in the record files, the aggregate file, the report) are computed
from these scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from assay.core.hashing import fingerprint
from assay.core.protocols import Context, Scorer, ScorerInput
from assay.core.types import Score, ScoreStatus
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
from assay.scoring.text_overlap import overlap_scores, tokens
from assay.suites.memory.eval.result_lines import (
    CITES,
    QaLine,
    SampleAnswer,
    SampleResults,
    SessionLine,
    active_texts,
    earlier_points,
    gold_points,
    question_parts,
    score_data,
    session_parts,
    written_texts,
)
from assay.usercode.loop import compute

RECALL, UPDATE_RECALL, CORRECTNESS, HALLUCINATION = "recall", "update_recall", "correctness", "hallucination"
UPDATE, INTERFERENCE, ANSWER = "update", "interference", "answer"
EVIDENCE, RETRIEVED = "evidence", "retrieved_evidence"
F1, BLEU1 = "f1", "bleu1"

LABEL_WORTH: dict[str, dict[str, float]] = {
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
"""Value of each label in its metric. Other labels have value 0. Lower is better only for `hallucination`."""

METRICS_BY_KIND: dict[str, tuple[str, ...]] = {
    RecallQuestion.kind: (RECALL, UPDATE_RECALL),
    CorrectnessQuestion.kind: (CORRECTNESS, HALLUCINATION),
    UpdateQuestion.kind: (UPDATE,),
    InterferenceQuestion.kind: (INTERFERENCE,),
    AnswerQuestion.kind: (ANSWER,),
    EvidenceQuestion.kind: (EVIDENCE, RETRIEVED),
}
"""Metrics computed from the verdicts on each kind of question to the judge."""

# Part of the scorers' ids. Increase it when the same lines get other scores: then finished runs are scored again.
_VERSION = 1

NOTHING_TO_JUDGE = "nothing to judge"
"""The reason of a score whose session or question has nothing that could be judged."""

NOT_CITED = "the answer prompt asks for no citations"
"""The reason of a score for the evidence in citations of an answer that could not cite."""
NO_POINTS = "the sample has no memory points"
"""The reason why the memories of a sample cannot be called correct or made up."""

ScoreHead = tuple[int, str, str, str, str]
RowsOf = Callable[[ScorerInput], SampleResults]
AnswersOf = Callable[[ScorerInput], Iterable[SampleAnswer]]


class EvalJudge(Protocol):
    """What EvalScorer uses of a `Judge`. Tests have their own implementations."""

    @property
    def id(self) -> str:
        """Identifies the judge with its prompts and votes."""
        ...

    @property
    def reply_identity(self) -> str:
        """Identifies the replying model, without prompts and votes."""
        ...

    async def verdicts(self, questions: Sequence[JudgeQuestion], ctx: Context) -> list[Verdict]:
        """Return the verdict on each question. Raises ModelError if the judge could not be asked."""
        ...


class JudgeTask(Struct, frozen=True):
    """One question to the judge, and the metrics computed from its verdict.

    Every metric becomes one score. Only the score of the first metric has the labels. `about` goes into the data of
    every score.
    """

    part: str
    metrics: tuple[str, ...]
    question: JudgeQuestion
    about: dict[str, Any]
    expected: str | None = None
    tags: tuple[str, ...] = ()
    label: str = ""
    """The question or the memory point."""
    nothing: str = NOTHING_TO_JUDGE
    """The reason of the scores if the question to the judge has no items."""


def judge_tasks(results: SampleResults) -> list[JudgeTask]:
    """Return all questions to the judge about a sample: sessions first, then questions.

    The part of a session is its id, of a point SESSION/POINT, of a question CHECKPOINT/NUMBER.
    """
    tasks: list[JudgeTask] = []
    # Without any point there is nothing that a memory could be compared with: every memory would look made up.
    has_points = any(map(_points_of, results.sessions))
    for part, session in zip(session_parts(results.sessions), results.sessions, strict=True):
        tasks += _session_tasks(part, session, has_points=has_points)
    for part, question in zip(question_parts(results.questions), results.questions, strict=True):
        tasks += _question_tasks(part, question)
    return tasks


def _points_of(line: SessionLine) -> bool:
    """Return whether the gold state of a session has any point, of this or of an earlier session."""
    gold = line.gold_state
    return bool(gold_points(gold.session_new_memories) or gold_points(gold.session_update_memories)) or bool(
        earlier_points(gold)
    )


def _session_tasks(part: str, line: SessionLine, *, has_points: bool) -> Iterator[JudgeTask]:
    gold = line.gold_state
    new, updates = gold_points(gold.session_new_memories), gold_points(gold.session_update_memories)
    contents = tuple(point.content for point in (*new, *updates))
    is_update = (False,) * len(new) + (True,) * len(updates)
    written, active = written_texts(line), active_texts(line)
    about = {"id": line.sample_id}
    recall = RecallQuestion(contents, is_update, written)
    yield JudgeTask(part, (RECALL, UPDATE_RECALL), recall, about)
    correctness = CorrectnessQuestion(contents, earlier_points(gold), written if has_points else ())
    yield JudgeTask(
        part,
        (CORRECTNESS, HALLUCINATION),
        correctness,
        about,
        nothing=NOTHING_TO_JUDGE if has_points else NO_POINTS,
    )
    for point in updates:
        update = UpdateQuestion(point.content, point.original, active)
        yield JudgeTask(f"{part}/{point.name}", (UPDATE,), update, about | {"point": point.name}, label=point.content)
    for point in gold_points(gold.session_interference_memories):
        interference = InterferenceQuestion(point.content, active)
        yield JudgeTask(
            f"{part}/{point.name}",
            (INTERFERENCE,),
            interference,
            about | {"point": point.name},
            label=point.content,
        )


def _question_tasks(part: str, line: QaLine) -> Iterator[JudgeTask]:
    about, evidence = score_data(line), tuple(line.gold_evidence_contents)
    answer = AnswerQuestion(line.question, line.gold_answer, line.generated_answer, evidence)
    tags, label = question_tags(about), line.question
    yield JudgeTask(part, (ANSWER,), answer, about | {"answer": line.generated_answer}, line.gold_answer, tags, label)
    # An answer that was not asked for citations has no coverage, instead of one of 0.
    cites = line.retrieval.raw_trace.get(CITES) is not False
    cited = EvidenceQuestion(evidence if cites else (), tuple(line.cited_memories))
    # `assay show RUN --question` prints the evidence beside the retrieved items.
    yield JudgeTask(
        part,
        (EVIDENCE,),
        cited,
        about | {"evidence": evidence},
        tags=tags,
        label=label,
        nothing=NOT_CITED if evidence and not cites else NOTHING_TO_JUDGE,
    )
    retrieved = EvidenceQuestion(evidence, tuple(item.text for item in line.retrieval.items))
    yield JudgeTask(part, (RETRIEVED,), retrieved, about, tags=tags, label=label)


def question_tags(about: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the type and the difficulty of a question, without those that the data lacks."""
    return tuple(str(about[name]) for name in ("type", "difficulty") if about.get(name))


class EvalScorer(Scorer):
    """Asks the judge about every session, point and question of a sample."""

    def __init__(self, judge: EvalJudge, rows_of: RowsOf, gold: str = "") -> None:
        """`gold` is the gold fingerprint: corrected gold gives the scorer another id, and so scores again."""
        self.id = f"judged@{fingerprint([_VERSION, judge.id, gold])}"
        self._call_stage = f"judged@{fingerprint([_VERSION, judge.reply_identity])}"
        self._judge = judge
        self._rows_of = rows_of

    @property
    def call_stage(self) -> str:
        """Stage of the judge's calls. It has neither votes nor gold, so paid replies are reused when these change."""
        return self._call_stage

    async def score(self, given: ScorerInput, ctx: Context) -> list[Score]:
        """Return the scores of all tasks. Judges equal questions once, and all questions concurrently."""
        tasks = await compute(lambda: judge_tasks(self._rows_of(given)))
        # Looked up once for each task, because hashing a question hashes all its texts.
        numbers: dict[JudgeQuestion, int] = {}
        places = [numbers.setdefault(task.question, len(numbers)) for task in tasks]
        questions = list(numbers)
        verdicts = [*map(_checked, questions, await self._judge.verdicts(questions, ctx))]
        scores: list[Score] = []
        for task, place in zip(tasks, places, strict=True):
            scores += self._scores(given, task, verdicts[place], place)
        return scores

    def _scores(self, given: ScorerInput, task: JudgeTask, verdict: Verdict, number: int) -> Iterator[Score]:
        for place, metric in enumerate(task.metrics):
            data = dict(task.about)
            if place == 0:
                data["labels"] = list(verdict.labels)
                if verdict.votes:
                    data |= {"votes": [list(vote) for vote in verdict.votes], "stable": verdict.stable}
            # A recall question has new and update points. Update recall counts only the updates.
            question = task.question
            counts: Sequence[bool] = (True,) * question.count
            if metric == UPDATE_RECALL and isinstance(question, RecallQuestion):
                counts = question.updates
            total = sum(counts)
            data["denominator"] = total
            status: ScoreStatus = "scored"
            value, reason, expected = None, verdict.reason, task.expected
            if not total:
                status, reason, expected = "not_applicable", task.nothing, None
            elif not verdict.valid:
                status = "invalid"
                # One verdict may spoil several scores. Whoever counts verdicts needs to know.
                data["verdict"] = number
            else:
                worth = LABEL_WORTH[metric]
                numerator = sum(
                    worth.get(label, 0.0)
                    for label, is_counted in zip(verdict.labels, counts, strict=True)
                    if is_counted
                )
                data["numerator"] = numerator
                value = numerator / total
            yield Score(
                *(*given.case.head, self.id, metric, task.part),
                value=value,
                status=status,
                reason=reason,
                data=data,
                expected=expected,
                label=task.label,
                tags=task.tags,
            )


def _checked(question: JudgeQuestion, verdict: Verdict) -> Verdict:
    # Any judge may be plugged in, so the verdict is checked: scores need one known label per item.
    if verdict.valid and len(verdict.labels) != question.count:
        return invalid(f"no verdict: {len(verdict.labels)} labels for {question.count} items")
    for label in verdict.labels:
        if label not in question.labels:
            return invalid(f"no verdict: {label!r} is none of {', '.join(question.labels)}")
    return verdict


class LexicalScorer(Scorer):
    """Token F1 and BLEU-1 of every answer that has a reference, without a judge."""

    def __init__(self, answers_of: AnswersOf, gold: str = "") -> None:
        """`gold` is the gold fingerprint, as in `EvalScorer`."""
        self.id = f"words@{fingerprint([_VERSION, gold])}"
        self._answers_of = answers_of

    async def score(self, given: ScorerInput, ctx: Context) -> list[Score]:
        """Return two scores for each question, with the same part as the judged answer."""
        return await compute(lambda: lexical_scores((*given.case.head, self.id), self._answers_of(given)))


def lexical_scores(head: ScoreHead, answers: Iterable[SampleAnswer]) -> list[Score]:
    """Return token F1 and BLEU-1 of each answer. `head` has the first five fields of the scores."""
    scores: list[Score] = []
    for part, question, answer, reference, about in answers:
        tags = question_tags(about)
        # Without a reference F1 would be 0 for every answer.
        if not reference.strip():
            scores += [
                Score(
                    *(*head, metric, part),
                    status="not_applicable",
                    reason="the question has no reference",
                    data=about,
                    label=question,
                    tags=tags,
                )
                for metric in (F1, BLEU1)
            ]
            continue
        f1, bleu1 = overlap_scores(tokens(answer), tokens(reference))
        data = about | {"answer": answer}
        scores.append(Score(*head, F1, part, value=f1, data=data, expected=reference, label=question, tags=tags))
        scores.append(Score(*head, BLEU1, part, value=bleu1, data=about, label=question, tags=tags))
    return scores
