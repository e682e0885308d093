"""Reads samples: everything is checked first, then one is given at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from assay.core.errors import InputError, Problem
from assay.core.nodes import Node, told
from assay.suites.memory_eval.sample import Checkpoint, Point, Question, Sample, Session, Turn
from assay.suites.memory_eval.sources import Parts, parts

INTERFERENCE = "interference"
"""The `memory_source` of points that no memory should keep."""
_TRUTHS = {"true": True, "false": False, "": False}


class Samples:
    """The samples of a file or a folder, in their order, as often as one likes: each time they are read anew.

    `ids` are those of the samples. `warnings` tell what is odd and stops nothing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        problems: list[Problem] = []
        self.ids = [found.sample.sample_id for found in read(path, problems)]
        once = list(dict.fromkeys(problems))
        if errors := [problem for problem in once if problem.level == "error"]:
            raise InputError(told(path, errors))
        self.warnings = list(map(str, once))

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Sample]:
        return (found.sample for found in read(self._path, []))


def load(path: Path) -> Samples:
    """The samples; raises InputError with every problem that makes a run impossible."""
    return Samples(path)


class Found(NamedTuple):
    """A sample, and where its parts stand."""

    parts: Parts
    sample: Sample


def read(path: Path, problems: list[Problem]) -> Iterator[Found]:
    """One sample at a time, with what is wrong in it; where there is an error, the sample is not whole."""
    places: dict[str, str] = {}
    for each in parts(path, problems):
        sample = build(each)
        at = each.sample.at
        if (before := places.setdefault(sample.sample_id, at)) != at:
            each.sample.note(f"the id {sample.sample_id!r} stands at {before} already; each needs its own")
        yield Found(each, sample)


def build(found: Parts) -> Sample:
    """A sample of its parts. Problems are noted in the nodes."""
    node = found.sample
    name = node.either("sample_id", "uuid").name()
    ids = _session_ids(node)
    points: dict[str, list[Point]] = {}
    contents: dict[str, str] = {}
    for session, each in point_nodes(found):
        point = _point(each)
        points.setdefault(session.name(), []).append(point)
        contents.setdefault(point.memory_id, point.content)
        if session.name() not in ids:
            session.note(f"there is no session {session.value!r} in the sample")
    sessions = [_session(each, points) for each in node["sessions"].objects()]
    checkpoints = [_checkpoint(each, ids, contents) for each in found.checkpoints.objects()]
    note_doubled(each["checkpoint_id"] for each in found.checkpoints.objects())
    return Sample(name, node.get("uuid", name).name(), tuple(sessions), tuple(checkpoints))


def point_nodes(found: Parts) -> Iterator[tuple[Node, Node]]:
    """Every memory point after the id of its session: those that stand in a session object come first."""
    for session in found.sample["sessions"].objects():
        for point in session.get("memory_points", []).objects():
            yield session_id(session), point
    for block in found.points.objects():
        for point in block["memory_points"].objects():
            yield block["session_id"], point


def session_id(session: Node) -> Node:
    """Where the id of a session stands."""
    return session.either("_v2_session_id", "session_id")


def note_doubled(ids: Iterable[Node], level: str = "error") -> None:
    """Each must be the first of its name."""
    first: dict[str, str] = {}
    for node in ids:
        if (before := first.setdefault(str(node.value), node.at)) != node.at:
            node.note(f"{node.value!r} stands at {_path(before)} already; each needs its own", level)


def _path(place: str) -> str:
    """The JSON path of a place."""
    return place.rpartition(" ")[2]


def _session_ids(node: Node) -> set[str]:
    nodes = [session_id(each) for each in node["sessions"].objects()]
    note_doubled(nodes)
    if node["sessions"].value == []:
        node["sessions"].note("is empty: a sample needs a session")
    return {each.name() for each in nodes}


def _session(node: Node, points: dict[str, list[Point]]) -> Session:
    name = session_id(node).name()
    turns = tuple(map(_turn, node["dialogue"].objects()))
    return Session(name, turns, tuple(points.get(name, ())))


def _turn(node: Node) -> Turn:
    """What was said; a turn may show images alone."""
    shown = node.get("attachments", []).objects()
    content = node.get("content", "") if shown else node["content"]
    captions = (each.get("caption", "").text() for each in shown)
    return Turn(
        node["role"].filled(),
        content.text(),
        node.get("timestamp", "").words(),
        tuple(caption for caption in captions if caption.strip()),
    )


def _point(node: Node) -> Point:
    return Point(
        memory_id=node["memory_id"].name(),
        content=node["memory_content"].filled(),
        interference=node.get("memory_source", "").text().strip().lower() == INTERFERENCE,
        update=_truth(node.get("is_update", default=False)),
        original=tuple(text for text in node.get("original_memories", []).texts() if text.strip()),
        raw=node.value,
    )


def _truth(node: Node) -> bool:
    """True or false, which some data has as a text."""
    if isinstance(node.value, str) and node.value.strip().lower() in _TRUTHS:
        return _TRUTHS[node.value.strip().lower()]
    return node.truth()


def _checkpoint(node: Node, sessions: set[str], contents: dict[str, str]) -> Checkpoint:
    covered = node.get("covered_sessions", []).items()
    for each in covered:
        if each.name() not in sessions:
            each.note(f"there is no session {each.value!r} in the sample")
    if not covered:
        node.get("covered_sessions", []).note("names no session: asked after the last one", "warning")
    return Checkpoint(
        node["checkpoint_id"].name(),
        tuple(each.name() for each in covered),
        tuple(_question(each, contents) for each in node["questions"].objects()),
    )


def _question(node: Node, contents: dict[str, str]) -> Question:
    evidence = [each.either("memory_id", "image_id").name() for each in node.get("evidence", []).objects()]
    return Question(
        text=node["question"].filled(),
        answer=node["answer"].words(),
        evidence=tuple(evidence),
        contents=tuple(contents[name] for name in evidence if name in contents),
        type=node.get("question_type", "").text(),
        abbrev=node.get("question_type_abbrev", "").text(),
        difficulty=node.get("difficulty", "").words(),
    )
