"""The verdicts on one kind of question beside their labels, and the entry of the report that they make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from assay.core.judges import ANSWER, Agreement, Calibration, JudgeInfo
from assay.core.report import Entry, Interval, Metric, Slice, Table
from assay.core.types import Score
from assay.scoring.agreement import JudgedRow, Label
from assay.scoring.questions import AnswerQuestion
from assay.suites.calibration.labelled_question import QUESTION_FIELDS
from assay.suites.calibration.labels import LabelledRow, RubricText

INVALID = "invalid"
"""Column of verdicts that could not be read."""
_RIGHT: Mapping[Label, str] = {True: "right", False: "wrong"}


class KindTally:
    """Collects verdicts on one kind. `positive` is the label that counts as accepted.

    `verdicts` counts the judge's labels for each label of the file. Labels of answers are Correct, Hallucination and
    Omission where the file has these words, else right and wrong.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.positive: Label = QUESTION_FIELDS[kind].labels[0] if kind in QUESTION_FIELDS else True
        self.judged: list[JudgedRow] = []
        self.verdicts: dict[str, dict[str, int]] = {}

    def add(self, row: LabelledRow, scores: Sequence[Score]) -> Iterator[dict[str, Any]]:
        """Count the verdicts on a row. Yields a line of disagreements.jsonl for each that differs from its label."""
        for number, score in enumerate(scores):
            label = row.labels[number]
            if label is None:
                continue
            data = score.data or {}
            # None is an invalid verdict: the judge's reply could not be read.
            verdict: Label | None = None
            if score.value is not None:
                verdict = data["label"] if isinstance(label, str) else bool(score.value)
            self.judged.append(JudgedRow(label, verdict, data.get("sure"), row.category, row.cluster))
            if not isinstance(row.question, RubricText):
                name = label if isinstance(label, str) else row.words[0] if row.words else _RIGHT[label]
                counts = self.verdicts.setdefault(name, {})
                said = data["label"] if verdict is not None else INVALID
                counts[said] = counts.get(said, 0) + 1
            if verdict != label:
                yield _disagreement(row, number, score, verdict)


def labels_of(kind: str) -> tuple[str, ...]:
    """Return the labels that a judge gives to a kind of question."""
    return QUESTION_FIELDS[kind].labels if kind in QUESTION_FIELDS else AnswerQuestion.labels


def _disagreement(row: LabelledRow, number: int, score: Score, verdict: Label | None) -> dict[str, Any]:
    """Return a line of disagreements.jsonl."""
    data, question, label = score.data or {}, row.question, row.labels[number]
    head = {"place": row.place, "what": INVALID, "category": row.category}
    tail = {"judge": data.get("label") or verdict, "sure": data.get("sure"), "reason": score.reason}
    if isinstance(label, str):
        if verdict is not None:
            head["what"] = f"{label} judged as {verdict}"
        texts = {"kind": row.kind, "item": number + 1, **msgspec.structs.asdict(question)}
        return {**head, **texts, "label": label, **tail}
    if verdict is not None:
        head["what"] = "false accept" if verdict else "false reject"
    assert isinstance(question, (AnswerQuestion, RubricText))
    by = {"rubric": question.rubric} if isinstance(question, RubricText) else {"question": question.question}
    texts = {**by, "reference": question.reference, "response": question.response}
    return {**head, **texts, "label": label, **tail}


def calibration_entry(name: str, subject: str, judge: JudgeInfo, calibration: Calibration) -> Entry:
    """Return the report's entry: the numbers overall and by category, and the table of labels and verdicts."""
    return Entry(
        name=name,
        subject=subject,
        metrics=list(_metrics(calibration.overall)),
        slices=[
            Slice(by="category", name=category, metrics=list(_metrics(share)))
            for category, share in calibration.categories.items()
        ],
        tables=list(_tables(calibration)),
        judges=[judge],
        notes=list(_notes(calibration)),
    )


def _tables(calibration: Calibration) -> Iterator[Table]:
    """Yield what the judge accepts for answers and rubrics, and the verdicts on each label."""
    overall, kind, verdicts = calibration.overall, calibration.kind, calibration.verdicts
    accepts, rejects = overall.false_accepts, overall.false_rejects
    if kind not in QUESTION_FIELDS:
        yield Table(
            name="confusion",
            columns=["", "judge accepts", "judge rejects"],
            rows=[
                ["label: right", rejects.of - rejects.count, rejects.count],
                ["label: wrong", accepts.count, accepts.of - accepts.count],
            ],
        )
    labels = labels_of(kind)
    named = [label for label in labels if label in verdicts]
    # Answers whose labels are only right or wrong have all they say in the first table.
    if kind in QUESTION_FIELDS or (kind == ANSWER and named):
        rows = [label for label in (*labels, *_RIGHT.values()) if label in verdicts]
        columns = [*labels, *([INVALID] if any(INVALID in verdicts[row] for row in rows) else [])]
        yield Table(
            name="verdicts",
            columns=["", *(f"judge: {column}" for column in columns)],
            rows=[[f"label: {row}", *(verdicts[row].get(column, 0) for column in columns)] for row in rows],
        )


def _why_no_kappa(result: Agreement) -> str:
    if result.kappa is not None:
        return ""
    # Kappa divides by 0 if all are alike: chance agreement is 1.
    return "labels and verdicts are all alike" if result.n else "no verdict is valid"


def _metrics(result: Agreement) -> Iterator[Metric]:
    left_out = {"invalid": result.invalid} if result.invalid else {}
    # If every row is a cluster of its own, the interval is not a clustered one.
    clustered = 0 < result.clusters < result.n
    yield Metric(
        name="kappa",
        aggregation="kappa",
        value=result.kappa,
        denominator=result.n,
        left_out=left_out,
        interval=Interval(*result.interval) if result.interval else None,
        interval_method=result.interval_method if result.interval else "",
        clusters=result.clusters if clustered else None,
        reason=_why_no_kappa(result),
    )
    for name, label, value in (
        ("auc", "AUC", result.auc),
        ("accuracy", "accuracy", result.accuracy),
        ("balanced_accuracy", "balanced accuracy", result.balanced_accuracy),
        ("base_rate", "base rate", result.base_rate),
    ):
        yield Metric(name=name, label=label, aggregation=name, value=value, denominator=result.n)
    for name, label, share in (
        ("false_accepts", "false accepts", result.false_accepts),
        ("false_rejects", "false rejects", result.false_rejects),
    ):
        yield Metric(
            name=name,
            label=label,
            aggregation="rate",
            value=share.count / share.of if share.of else None,
            numerator=share.count,
            denominator=share.of,
            higher_is_better=False,
        )


def _notes(calibration: Calibration) -> Iterator[str]:
    """Yield notes: which label is accepted, the interval's method, the agreement of voters, the rows left out."""
    overall = calibration.overall
    if calibration.kind in QUESTION_FIELDS:
        yield f'accepted means: judged as "{labels_of(calibration.kind)[0]}"'
    if overall.interval:
        units = f"{overall.clusters:,} clusters" if overall.clusters < overall.n else "single rows"
        yield f"interval of kappa: {overall.interval_method} over {units}"
    if votes := calibration.among_votes:
        share = votes.unanimous / votes.rows
        yield f"voters: unanimous on {votes.unanimous:,} of {votes.rows:,} rows ({share:.1%})"
    for reason, count in calibration.left_out.items():
        yield f"left out: {count:,} row{'' if count == 1 else 's'}, {reason}"
