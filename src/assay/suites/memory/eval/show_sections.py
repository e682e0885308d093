"""What `assay show` prints of a sample, and of one of its questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from assay.core.report import Cell, Table
from assay.core.suite_pages import Section, StoredCase
from assay.core.types import Record, Score
from assay.scoring.questions import COVERED
from assay.suites.memory import snapshots
from assay.suites.memory.eval.scorers import (
    ANSWER,
    BLEU1,
    CORRECTNESS,
    EVIDENCE,
    F1,
    INTERFERENCE,
    RECALL,
    RETRIEVED,
    UPDATE,
)
from assay.suites.memory.eval.tally import JUDGED, LEXICAL
from assay.suites.memory.sessions import ANSWER as ANSWER_RECORD, SESSION

# Characters of an answer or a reason in the tables of a sample.
_MOST_TEXT = 60
# Characters of a retrieved item.
_MOST_ITEM = 300
QUESTION_METRICS = (ANSWER, EVIDENCE, RETRIEVED, F1, BLEU1)
"""Metrics of a question, in the order of the tables."""
_CHANGE_WORDS = {snapshots.ADD: "added", snapshots.UPDATE: "updated", snapshots.ARCHIVE: "removed"}


def sample_sections(case: StoredCase) -> list[Section]:
    """Return three tables: sessions with their changes, points with their labels, and questions."""
    scores = {(score.metric, score.part): score for score in case.scores}
    sessions: list[list[Cell]] = []
    for record in case.records:
        if record.kind == SESSION:
            ops = Counter(change["op"] for change in record.data["delta"])
            counts = [ops[op] for op in ("add", "update", "archive")]
            values = [_value_text(scores.get((name, record.part))) for name in (RECALL, CORRECTNESS)]
            sessions.append([record.part, *counts, *values])
    points: list[list[Cell]] = []
    questions: list[list[Cell]] = []
    for score in case.scores:
        if score.metric in (UPDATE, INTERFERENCE):
            points.append([score.part, score.metric, _label_text(score), _short(score.reason)])
        elif score.metric == F1:
            answer, evidence = scores.get((ANSWER, score.part)), scores.get((EVIDENCE, score.part))
            questions.append(
                [
                    score.part,
                    _label_text(answer),
                    _value_text(evidence),
                    _value_text(score),
                    _short(score.label),
                    _short((score.data or {}).get("answer", "")),
                    _short(score.expected or ""),
                    _short(answer.reason) if answer else "",
                ]
            )
    tables = [
        Table(
            name="sessions",
            columns=["session", "added", "updated", "removed", "recall", "correctness"],
            rows=sessions,
        ),
        Table(name="points", columns=["point", "metric", "label", "reason"], rows=points, names=2),
        Table(
            name="questions",
            columns=["question", "label", "evidence", "F1", "text", "answer", "reference", "reason"],
            rows=questions,
            note="everything about one question: assay show RUN CASE --question ID",
        ),
    ]
    return [Section(table=table) for table in tables if table.rows]


def question_sections(case: StoredCase, name: str) -> list[Section]:
    """Return one question with its verdicts, and the retrieved items beside the evidence.

    `name` is CHECKPOINT/NUMBER, the checkpoint of a single question, or the text of the question. Returns [] if the
    sample has no such question.
    """
    part = question_part(case, name)
    if part is None:
        return []
    scores = {score.metric: score for score in case.scores if score.part == part and score.metric in QUESTION_METRICS}
    words = scores.get(F1)
    data = (words.data if words else None) or {}
    facts: list[list[Cell]] = [
        ["question", next((score.label for score in scores.values() if score.label), None)],
        ["type", data.get("type") or None],
        ["difficulty", data.get("difficulty") or None],
        ["reference", words.expected if words else None],
        ["answer", data.get("answer")],
    ]
    verdicts: list[list[Cell]] = [
        [
            (JUDGED | LEXICAL)[metric],
            _value_text(scores[metric]),
            _label_text(scores[metric]) if metric == ANSWER else None,
            scores[metric].reason,
        ]
        for metric in QUESTION_METRICS
        if metric in scores
    ]
    columns = ["score", "value", "verdict", "reason"]
    heading = f"question {part} of {case.end.label} with {case.end.subject}"
    sections = [
        Section(heading=heading, table=Table(name="question", columns=["", "value"], rows=facts)),
        Section(table=Table(name="scores", columns=columns, rows=verdicts)),
    ]
    evidence = _evidence_table(scores)
    if evidence.rows:
        sections.append(Section(table=evidence))
    sections.append(_retrieved_section(case, part))
    return sections


def question_part(case: StoredCase, name: str) -> str | None:
    """Return the part of the question with this part, checkpoint or text; None if there is none."""
    parts = [score.part for score in case.scores if score.metric == F1]
    if name in parts:
        return name
    labels = {score.label.casefold(): score.part for score in case.scores if score.metric == F1 and score.label}
    of_checkpoint = [part for part in parts if part.rpartition("/")[0] == name]
    return labels.get(name.casefold()) or (of_checkpoint[0] if len(of_checkpoint) == 1 else None)


def _evidence_table(scores: dict[str, Score]) -> Table:
    """Return a row for each piece of evidence: whether the answer cites it, and whether it was retrieved at all."""
    score = scores.get(EVIDENCE)
    pieces: Sequence[str] = (score.data or {}).get("evidence", ()) if score else ()
    rows: list[list[Cell]] = []
    for number, text in enumerate(pieces):
        labels = [is_covered(scores.get(metric), number) for metric in (RETRIEVED, EVIDENCE)]
        marks = [None if label is None else "yes" if label else "missed" for label in labels]
        rows.append([str(number + 1), *marks, text])
    return Table(name="evidence", columns=["evidence", "retrieved", "cited", "text"], rows=rows)


def is_covered(score: Score | None, number: int) -> bool | None:
    """Return whether a piece of evidence is covered; None if its label is not known, as in an imported run."""
    labels = (score.data or {}).get("labels") if score else None
    if not labels or number >= len(labels):
        return None
    return bool(labels[number] == COVERED)


def _retrieved_section(case: StoredCase, part: str) -> Section:
    """Return a table of the retrieved items, best first, with a mark at those that the answer cites."""
    record = next((each for each in case.records if each.kind == ANSWER_RECORD and each.part == part), None)
    if record is None:
        return Section(text="The retrieved items are not in the run.")
    cited = record.data["cited"]
    if isinstance(record.data["found"], int):
        # The journal has no list of these items: the memory returns everything as one text.
        quotes = [f"item {each + 1}" if isinstance(each, int) else each for each in cited]
        text = f"Retrieved: the newest {record.data['found']:,} items, as one text. Cited: "
        return Section(text=text + ("; ".join(quotes) or "nothing"))
    texts = item_texts(case.records) | record.data.get("texts", {})
    rows: list[list[Cell]] = []
    for rank, (name, score) in enumerate(record.data["found"]):
        text = texts.get(name)
        mark = "cited" if rank in cited or (text is not None and text in cited) else None
        shown = None if text is None else _short(text, _MOST_ITEM)
        rows.append([str(rank + 1), name, None if score is None else f"{score:.3f}", mark, shown])
    return Section(table=Table(name="retrieved", columns=["rank", "item", "score", "", "text"], rows=rows, names=2))


def item_texts(records: Sequence[Record]) -> dict[str, str]:
    """Return the newest text of every item. An answer's record repeats the text if it was another one."""
    texts: dict[str, str] = {}
    for record in records:
        if record.kind == SESSION:
            texts |= {change["id"]: change["text"] for change in record.data["delta"] if change.get("text")}
    return texts


def row_text(records: Sequence[Record]) -> str:
    """Return the only answer of some records, or how many items the only session changed. Empty for several ones."""
    rows = [record for record in records if record.kind in (ANSWER_RECORD, SESSION)]
    if len(rows) != 1:
        return ""
    data = rows[0].data
    if rows[0].kind == SESSION:
        counts = Counter(change["op"] for change in data["delta"])
        words = [f"{counts[op]:,} {word}" for op, word in _CHANGE_WORDS.items() if counts[op]]
        return f"items: {', '.join(words)}" if words else "no item changed"
    return f"error: {data['error']}" if data.get("error") else str(data.get("answer") or "")


def _label_text(score: Score | None) -> str | None:
    if score is None:
        return None
    labels = (score.data or {}).get("labels") or [score.status]
    return f"{labels[0]}{_flaky_mark(score)}"


def _value_text(score: Score | None) -> str | None:
    if score is None or score.value is None:
        return None
    return f"{score.value:.3f}{_flaky_mark(score)}"


def _flaky_mark(score: Score) -> str:
    """Return the mark of a score on which the votes of the judge disagreed; empty for any other score."""
    return " (flaky)" if (score.data or {}).get("stable") is False else ""


def _short(text: str, most: int = _MOST_TEXT) -> str:
    """Return the text in one line of at most `most` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"
