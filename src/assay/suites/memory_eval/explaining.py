"""Tells everything that keeps a sample from being run, each thing at its place in the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from assay.core.nodes import Node
from assay.suites.memory_eval.shape import TRUTHS
from assay.suites.memory_eval.sources import Parts


def explain(parts: Parts) -> None:
    """Note what `shape` does not take, ids that stand twice, and sessions that are named and not there."""
    sample = parts.sample
    sample.either("sample_id", "uuid").name()
    if "uuid" in sample:
        sample["uuid"].name()
    ids = _sessions(sample)
    for session, point in point_nodes(parts):
        _named(session, ids)
        _point(point)
    for block in parts.points.objects():
        _named(block["session_id"], ids)
    for checkpoint in parts.checkpoints.objects():
        _checkpoint(checkpoint, ids)
    note_doubled(each["checkpoint_id"] for each in parts.checkpoints.objects())


def point_nodes(parts: Parts) -> Iterator[tuple[Node, Node]]:
    """Every memory point after the id of its session: those that stand in a session object come first."""
    for session in parts.sample["sessions"].objects():
        for point in session.get("memory_points", []).objects():
            yield _id(session), point
    for block in parts.points.objects():
        for point in block["memory_points"].objects():
            yield block["session_id"], point


def note_doubled(ids: Iterable[Node]) -> None:
    """Each must be the only one of its name."""
    first: dict[str, str] = {}
    for node in ids:
        if (before := first.setdefault(str(node.value), node.at)) != node.at:
            node.note(f"{node.value!r} stands at {before.rpartition(' ')[2]} already; each needs its own")


def _sessions(sample: Node) -> set[str]:
    """The ids of the sessions, whose turns are looked at too."""
    sessions = sample["sessions"].objects()
    if sample["sessions"].value == []:
        sample["sessions"].note("is empty: a sample needs a session")
    for session in sessions:
        for turn in session["dialogue"].objects():
            _turn(turn)
    note_doubled(map(_id, sessions))
    return {_id(session).name() for session in sessions}


def _id(session: Node) -> Node:
    return session.either("_v2_session_id", "session_id")


def _named(session: Node, ids: set[str]) -> None:
    if (name := session.name()) and name not in ids:
        session.note(f"there is no session {name!r} in the sample")


def _turn(turn: Node) -> None:
    turn["role"].filled()
    turn.get("timestamp", "").answer()
    shown = turn.get("attachments", []).objects()
    for image in shown:
        image.get("caption", "").text()
    if "content" in turn or not shown:
        turn["content"].text()


def _point(point: Node) -> None:
    point["memory_id"].name()
    point["memory_content"].filled()
    point.get("memory_source", "").text()
    point.get("original_memories", []).texts()
    update = point.get("is_update", default=False)
    if not isinstance(update.value, str) or update.value.strip().lower() not in TRUTHS:
        update.truth()


def _checkpoint(checkpoint: Node, ids: set[str]) -> None:
    checkpoint["checkpoint_id"].name()
    covered = checkpoint.get("covered_sessions", [])
    for session in covered.items():
        _named(session, ids)
    if covered.value == []:
        covered.note("names no session: it is asked after the last one", "warning")
    for question in checkpoint["questions"].objects():
        question["question"].filled()
        question["answer"].answer()
        for key in ("question_type", "question_type_abbrev"):
            question.get(key, "").text()
        question.get("difficulty", "").answer()
        for evidence in question.get("evidence", []).objects():
            evidence.either("memory_id", "image_id").name()
