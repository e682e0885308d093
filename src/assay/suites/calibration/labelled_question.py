"""The five kinds of labelled questions besides answers: the fields of a row, and its labels.

    {"kind": "recall", "points": ["Ada moved to Oslo."], "memories": ["Ada lives in Oslo now."], "labels": ["covered"]}
    {"kind": "update", "new": "Ada lives in Oslo.", "old": ["Ada lives in Rome."], "memories": [], "label": "outdated"}

A kind whose question has several items (points, pieces of evidence, memories) has `labels`, one for each item. A kind
with one label has `label`. A label is a word, or the votes of several people: a list, or an object by name. The
majority counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from assay.files.excerpt import cut_end
from assay.scoring.agreement import Label
from assay.scoring.questions import (
    IRRELEVANT,
    CorrectnessQuestion,
    EvidenceQuestion,
    InterferenceQuestion,
    JudgeQuestion,
    RecallQuestion,
    UpdateQuestion,
)

LABEL, LABELS, MEMORIES, UPDATES = "label", "labels", "memories", "updates"


class QuestionFields(NamedTuple):
    """The fields of one kind. `items` is the list that gets one label each, or "" for a single label."""

    labels: tuple[str, ...]
    texts: tuple[str, ...]
    lists: tuple[str, ...]
    optional: tuple[str, ...] = ()
    items: str = ""


QUESTION_FIELDS: Mapping[str, QuestionFields] = {
    "evidence": QuestionFields(EvidenceQuestion.labels, (), ("evidence", MEMORIES), (), "evidence"),
    "recall": QuestionFields(RecallQuestion.labels, (), ("points", MEMORIES), (), "points"),
    "correctness": QuestionFields(
        CorrectnessQuestion.labels, (), ("points", "earlier_points", MEMORIES), ("earlier_points",), MEMORIES
    ),
    "update": QuestionFields(UpdateQuestion.labels, ("new",), ("old", MEMORIES)),
    "interference": QuestionFields(InterferenceQuestion.labels, ("content",), (MEMORIES,)),
}
"""The kinds with fields of their own. `recall` has `updates` too, a list of true and false."""

# A later version of the format uses "error" for irrelevant memories.
_ALIASES = {"error": IRRELEVANT}


class FieldError(ValueError):
    """A field of a row that is missing or wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def question_kind(row: Mapping[str, Any]) -> str:
    """Return the kind of a row with fields of its own; "" for answers and rubrics."""
    kind = row.get("kind")
    return kind if isinstance(kind, str) and kind in QUESTION_FIELDS else ""


def read_question(kind: str, row: Mapping[str, Any]) -> JudgeQuestion:
    """Return the question of a row. Raises FieldError with the first problem."""
    fields = QUESTION_FIELDS[kind]
    text = {name: _text(row, name, kind) for name in fields.texts}
    lists = {name: _texts(row, name, kind, optional=name in fields.optional) for name in fields.lists}
    memories = lists[MEMORIES]
    if kind == "evidence":
        return EvidenceQuestion(lists["evidence"], memories)
    if kind == "recall":
        return RecallQuestion(lists["points"], _updates(row, len(lists["points"])), memories)
    if kind == "correctness":
        return CorrectnessQuestion(lists["points"], lists["earlier_points"], memories)
    if kind == "update":
        return UpdateQuestion(text["new"], lists["old"], memories)
    return InterferenceQuestion(text["content"], memories)


def read_question_labels(
    question: JudgeQuestion, row: Mapping[str, Any]
) -> tuple[tuple[Label | None, ...], tuple[tuple[Label, ...], ...]]:
    """Return one label for each item, None without a majority, and the votes behind each. Raises FieldError."""
    items = QUESTION_FIELDS[question.kind].items
    single, values = _votes(row.get(LABEL), question.labels, LABEL), row.get(LABELS)
    if not items or (question.count == 1 and values is None):
        votes = [single]
    else:
        if values is None and not single:
            values = [None] * question.count
        if not isinstance(values, list) or len(values) != question.count:
            found = f"{len(values)}" if isinstance(values, list) else "no list"
            raise FieldError(
                LABELS, f"must be a list of {question.count} labels, one for each of `{items}`; found {found}"
            )
        votes = [_votes(value, question.labels, f"{LABELS}[{number}]") for number, value in enumerate(values)]
    return tuple(majority(each) for each in votes), tuple(votes)


def majority(votes: Sequence[Label]) -> Label | None:
    """Return the most frequent vote; None for a tie or without votes."""
    leaders = Counter(votes).most_common(2)
    if not leaders or (len(leaders) > 1 and leaders[0][1] == leaders[1][1]):
        return None
    return leaders[0][0]


def _votes(value: Any, labels: Sequence[str], field: str) -> tuple[Label, ...]:
    """Return the votes of a label: none for null, one for a word, several for a list or an object."""
    if value is None:
        return ()
    votes = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else [value]
    names = {label.casefold(): label for label in labels}
    names |= {alias: label for alias, label in _ALIASES.items() if label in labels}
    found = []
    for vote in votes:
        label = names.get(vote.strip().casefold()) if isinstance(vote, str) else None
        if label is None:
            raise FieldError(field, f"{cut_end(repr(vote), 60)} is not a label; write {' or '.join(labels)}")
        found.append(label)
    return tuple(found)


def _text(row: Mapping[str, Any], name: str, kind: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise FieldError(name, f"a row of kind {kind} needs a text here")
    return value


def _texts(row: Mapping[str, Any], name: str, kind: str, *, optional: bool) -> tuple[str, ...]:
    value = row.get(name)
    if value is None and optional:
        return ()
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise FieldError(name, f"a row of kind {kind} needs a list of texts here")
    return tuple(value)


def _updates(row: Mapping[str, Any], count: int) -> tuple[bool, ...]:
    value = row.get(UPDATES)
    if value is None:
        return (False,) * count
    if not isinstance(value, list) or not all(isinstance(each, bool) for each in value) or len(value) != count:
        raise FieldError(UPDATES, f"must be a list of {count} times true or false, one for each of `points`")
    return tuple(value)
