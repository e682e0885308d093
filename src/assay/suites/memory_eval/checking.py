"""`assay check` for samples: what keeps them from being run, and what a run would take as it is.

An error is wrong whatever was meant; a warning may be meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from assay.core.errors import Problem
from assay.core.nodes import Node, told
from assay.suites.memory_eval.explaining import note_doubled, point_nodes
from assay.suites.memory_eval.loading import Found, read
from assay.suites.memory_eval.sample import Point, Sample
from assay.suites.memory_eval.sources import Parts


class _Known(NamedTuple):
    """What evidence may name: the place of the session that it came up in, and what must not be kept."""

    sessions: list[str]
    places: dict[str, int]
    interference: set[str]


def check_samples(path: Path) -> list[Problem]:
    """Every problem of a file or a folder, with its place."""
    problems: list[Problem] = []
    for found in read(path, problems):
        _inspect(found)
    return told(path, list(dict.fromkeys(problems)))


def _inspect(found: Found) -> None:
    parts, sample = found
    for session in parts.sample["sessions"].objects():
        if session["dialogue"].value == []:
            session["dialogue"].note("is empty: there is nothing to remember", "warning")
    note_doubled(point["memory_id"] for _, point in point_nodes(parts))
    _check_updates(parts, sample)
    known = _known(parts, sample)
    for checkpoint in parts.checkpoints.objects():
        _check_checkpoint(checkpoint, known)


def _check_updates(parts: Parts, sample: Sample) -> None:
    """An update tells what it replaces in the words of an earlier point; judges look for these words."""
    earlier: set[str] = set()
    for point, node in _placed(parts, sample):
        if point.update and not point.interference:
            if not point.original:
                node.get("original_memories", []).note("an update must say what it replaces", "warning")
            for original in point.original:
                if original.strip() not in earlier:
                    message = f"no earlier point has this text: {original!r}"
                    node["original_memories"].note(message, "warning")
        earlier.add(point.content.strip())


def _placed(parts: Parts, sample: Sample) -> Iterator[tuple[Point, Node]]:
    """Every point in the order of sessions, and where it stands."""
    nodes: dict[str, list[Node]] = {}
    for session, node in point_nodes(parts):
        nodes.setdefault(str(session.value), []).append(node)
    for each in sample.sessions:
        yield from zip(each.points, nodes.get(each.id, ()), strict=True)


def _known(parts: Parts, sample: Sample) -> _Known:
    sessions = [session.id for session in sample.sessions]
    places = {
        image: at for at, node in enumerate(parts.sample["sessions"].objects()) for image in _images(node)
    }
    interference: set[str] = set()
    for at, session in enumerate(sample.sessions):
        places.update((point.memory_id, at) for point in session.points)
        interference.update(point.memory_id for point in session.interference)
    return _Known(sessions, places, interference)


def _images(session: Node) -> Iterator[str]:
    for turn in session["dialogue"].objects():
        for image in turn.get("attachments", []).objects():
            if "image_id" in image:
                yield str(image["image_id"].value)


def _check_checkpoint(checkpoint: Node, known: _Known) -> None:
    named = {str(each.value) for each in checkpoint.get("covered_sessions", []).items()}
    covered = [at for at, session in enumerate(known.sessions) if session in named or not named]
    if checkpoint["questions"].value == []:
        checkpoint["questions"].note("is empty: nothing is asked", "warning")
    for question in checkpoint["questions"].objects():
        if not str(question["answer"].value).strip():
            question["answer"].note("is empty: nothing can be compared with it")
        for evidence in question.get("evidence", []).objects():
            _check_evidence(evidence.either("memory_id", "image_id"), known, max(covered, default=0))


def _check_evidence(evidence: Node, known: _Known, last: int) -> None:
    name = str(evidence.value)
    place = known.places.get(name)
    if place is None:
        evidence.note(f"there is no memory point or image {name!r} in the sample")
    elif place > last:
        when = f"comes up in session {known.sessions[place]}"
        evidence.note(f"{name!r} {when}, after the checkpoint, which ends with {known.sessions[last]}")
    if name in known.interference:
        evidence.note(f"{name!r} is interference, which no memory should keep", "warning")
