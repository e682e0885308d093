"""What rows give to judges: points as the data says them, written texts, and the names of parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from assay.core.hashing import Twins
from assay.suites.memory_eval.rows import GoldState, QaRow, SessionRow

_CONTENT = ("memory_content", "content")
_JUDGED = ("add", "update")


class Gold(NamedTuple):
    """A point of a row. `name` is its id, with `~2` for the second of equal ids in its list."""

    memory_id: str
    name: str
    content: str
    original: tuple[str, ...]


def points(raw: Sequence[Any]) -> list[Gold]:
    """The points that say something. One without an id is called by its place in the list, from 1."""
    said = [(str(at), each) for at, each in enumerate(raw, 1) if content(each)]
    ids = [_id(each) or at for at, each in said]
    return [
        Gold(memory_id, name, content(each), _original(each))
        for memory_id, name, (_, each) in zip(ids, twins(ids), said, strict=True)
    ]


def content(raw: Any) -> str:
    """The text of a point: `memory_content`, or `content`, or the point where it is a text; else nothing."""
    if isinstance(raw, str):
        return raw.strip()
    for key in _CONTENT if isinstance(raw, dict) else ():
        said = raw.get(key)
        if isinstance(said, str):
            return said.strip()
    return ""


def own(gold: GoldState) -> tuple[list[Gold], list[Gold]]:
    """What a session itself brought: new points, then updates."""
    return points(gold.session_new_memories), points(gold.session_update_memories)


def known(gold: GoldState) -> tuple[str, ...]:
    """Points of earlier sessions: all that is cumulative and not of this session."""
    here = {point.content for listed in own(gold) for point in listed}
    return tuple(text for text in map(content, gold.cumulative_gold_memories) if text and text not in here)


def written(row: SessionRow) -> tuple[str, ...]:
    """The texts that a session added or changed: these are judged for recall and correctness."""
    return tuple(delta.text for delta in row.memory_delta if delta.op in _JUDGED)


def held(row: SessionRow) -> tuple[str, ...]:
    """The texts of all active memories after a session."""
    return tuple(item.text for item in row.memory_snapshot if item.status == "active")


def session_parts(rows: Iterable[SessionRow]) -> list[str]:
    """The part of the scores of each session of one sample: its id."""
    return twins([row.session_id for row in rows])


def question_parts(rows: Iterable[QaRow]) -> list[str]:
    """The part of the scores of each question of one sample: its checkpoint, and its place in it from 1."""
    seen: Counter[str] = Counter()
    named = []
    for row in rows:
        seen[row.checkpoint_id] += 1
        named.append(f"{row.checkpoint_id}/{seen[row.checkpoint_id]}")
    return named


class Answer(NamedTuple):
    """An answer with its reference; `part` names it among the scores, `about` is what they tell of it."""

    part: str
    said: str
    reference: str
    about: dict[str, Any]


def answers(rows: Sequence[QaRow]) -> list[Answer]:
    """The answers of one sample, in order."""
    return [
        Answer(part, row.generated_answer, row.gold_answer, told_of(row))
        for part, row in zip(question_parts(rows), rows, strict=True)
    ]


def told_of(row: QaRow) -> dict[str, Any]:
    """What every score of a question says."""
    return about(row.sample_id, row.question_type_abbrev, row.difficulty)


def about(sample_id: str, kind: str, difficulty: str) -> dict[str, Any]:
    """The same, from its parts."""
    return {"id": sample_id, "type": kind, "difficulty": difficulty}


def twins(names: Sequence[str]) -> list[str]:
    """Each name; the second of equal ones gets `~2`."""
    found = Twins(name for name, count in Counter(names).items() if count > 1)
    return [found.name(name) for name in names]


def _id(raw: Any) -> str:
    found = raw.get("memory_id") if isinstance(raw, dict) else None
    return "" if found is None else str(found)


def _original(raw: Any) -> tuple[str, ...]:
    """What an update replaces: texts, or points, or one of them."""
    found = raw.get("original_memories") if isinstance(raw, dict) else None
    listed = found if isinstance(found, list) else [] if found is None else [found]
    return tuple(text for text in map(content, listed) if text)
