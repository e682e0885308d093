"""One labelled row: what is judged, and what people said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

ANSWERS: dict[str, tuple[str, ...]] = {
    "question": ("question", "query", "prompt"),
    "reference": (
        *("reference", "gold_answer", "golden_answer", "reference_answer", "expected_answer"),
        *("ground_truth", "gold", "target", "answer"),
    ),
    "response": (
        *("response", "generated_answer", "predicted_answer", "model_answer", "prediction"),
        *("output", "answer"),
    ),
    "label": (
        *("label", "human_label", "correct", "is_correct", "llm_judgments", "votes", "human_votes"),
        *("judgments", "judgements", "labels"),
    ),
    "category": ("category", "question_type_abbrev", "question_type", "type"),
    "cluster": ("conversation", "conversation_id", "sample_id", "cluster"),
    "evidence": ("gold_evidence_contents", "evidence_texts"),
    "rubric": ("rubric",),
    "text": ("text", "response", "output"),
}
"""The names that a field may have; the first that is there counts. See `found` for `answer`."""
_RIGHT = frozenset({"correct", "right", "true", "yes", "pass", "passed", "accepted", "good", "1"})
_WRONG = frozenset(
    {
        "wrong",
        "incorrect",
        "false",
        "no",
        "fail",
        "failed",
        "rejected",
        "bad",
        "0",
        "hallucination",
        "omission",
    }
)
_MISSING: Any = object()


class Row(Struct, frozen=True, kw_only=True):
    """A row with a label. Of an answer, or of a text by a rubric: then `question` is empty.

    `place` says where it stands in the file.
    """

    place: str
    response: str
    label: bool
    question: str = ""
    reference: str | None = None
    rubric: str = ""
    evidence: tuple[str, ...] = ()
    votes: tuple[bool, ...] = ()
    category: str = ""
    cluster: str | None = None


class Fields:
    """Finds the fields of rows: where a name was told by that, else by the usual ones."""

    def __init__(self, told: Mapping[str, str]) -> None:
        self._told = {name: field for name, field in told.items() if field}

    def found(self, value: Mapping[str, Any], name: str) -> tuple[str, Any]:
        """The field's own name and its value; an empty name where it is not there, or null.

        `answer` is what was answered where the right answer has another name, else it is the right answer.
        """
        if field := self._told.get(name):
            inside = _inside(value, field)
            return (field, inside) if inside is not None else ("", None)
        for field in ANSWERS[name]:
            if value.get(field) is not None and not (field == "answer" and self._other_answer(value, name)):
                return field, value[field]
        return "", None

    def names(self, name: str) -> str:
        """What the field may be called, for a message."""
        return self._told.get(name) or ", ".join(ANSWERS[name])

    def looks_like_a_row(self, value: Any) -> bool:
        """Whether something that can be judged is in it, with a question, a right answer or a rubric."""
        if not isinstance(value, dict):
            return False
        judged = any(self.found(value, name)[0] for name in ("response", "text"))
        return judged and any(self.found(value, name)[0] for name in ("question", "reference", "rubric"))

    def _other_answer(self, value: Mapping[str, Any], name: str) -> bool:
        """Whether `answer` belongs to the other one of reference and response."""
        responses = [self._told.get("response"), *(n for n in ANSWERS["response"] if n != "answer")]
        answered = any(field and value.get(field) is not None for field in responses)
        return answered if name == "response" else not answered


def _inside(value: Mapping[str, Any], field: str) -> Any:
    """The value of a key; of `a.b`, where there is no such key, that of `b` in `a`."""
    if field in value:
        return value[field]
    first, dot, rest = field.partition(".")
    inner = value.get(first)
    return _inside(inner, rest) if dot and isinstance(inner, dict) else None


def votes_of(value: Any) -> tuple[bool, ...]:
    """The votes of a label: one alone, a list of them, or an object with a vote under each key.

    ValueError says what is no vote.
    """
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return (vote_of(value),)
    if not value:
        raise ValueError("it has no votes")
    return tuple(vote_of(one) for one in value)


def vote_of(value: Any) -> bool:
    """True or false, 1 or 0, or a word for one of them."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)) and value in (0, 1):
        return bool(value)
    word = value.strip().lower() if isinstance(value, str) else None
    if word in _RIGHT or word in _WRONG:
        return word in _RIGHT
    raise ValueError(f"{_shown(value)} is no label; write true or false, 1 or 0, Correct or Wrong")


def majority(votes: Sequence[bool]) -> bool | None:
    """What most say; none where as many say the one as the other."""
    right = sum(votes)
    return None if 2 * right == len(votes) else 2 * right > len(votes)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
