"""Samples of a user's own loader: `--dataset FILE.py:load`. `load` takes nothing and returns or yields samples.

def load():
session = SampleSession("S1", (SampleTurn("user", "I live in Bern."),), (MemoryPoint("p1", "Lives in Bern."),))
question = SampleQuestion(text="Where do I live?", answer="Bern", evidence=("p1",))
yield Sample("ada", "ada", (session,), (Checkpoint("c1", ("S1",), (question,)),))
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from assay.core.errors import InputError, Problem, UsageError
from assay.suites.memory.eval.sample import Checkpoint, MemoryPoint, Sample, SampleSession
from assay.suites.memory.eval.sample_schema import SESSIONS_PROBLEM
from assay.usercode.errors import place_note
from assay.usercode.plugins import load_from_file
from assay.usercode.user_function import items_of, signature_problem

# msgspec ends its messages with the place of the wrong value.
_PLACE = re.compile(r" - at `\$(?P<path>.*)`$")


def load_own_samples(name: str) -> list[Sample]:
    """Return the samples of `FILE.py:load`. Raises InputError with all problems of them."""
    load = load_from_file(name)
    if not callable(load):
        raise UsageError(f"{name} must be a function that returns or yields samples")
    if problem := signature_problem(load, ()):
        raise UsageError(f"{name} cannot load samples: {problem}. Write the place of the data into the function")
    problems: list[Problem] = []
    samples: list[Sample] = []
    names: dict[str, int] = {}
    for number, sample in enumerate(items_of(load, (), Sample, name)):
        where = f"{name}{place_note(load)}, sample {number}"
        messages = list(_sample_problems(sample))
        if not messages and (first := names.setdefault(sample.sample_id, number)) != number:
            messages.append(f"the id {sample.sample_id!r} is also that of sample {first}")
        problems += [Problem(where, message) for message in messages]
        if not messages:
            samples.append(_complete(sample))
    if not samples and not problems:
        problems.append(Problem(f"{name}{place_note(load)}", "it returned no sample"))
    if problems:
        raise InputError(problems)
    return samples


def _sample_problems(sample: Sample) -> Iterable[str]:
    """Yield what is wrong in a sample: a value of another type, a duplicate id, an unknown session."""
    try:
        msgspec.convert(msgspec.to_builtins(sample), Sample)
    except (msgspec.ValidationError, TypeError) as error:
        message = str(error)
        place = _PLACE.search(message)
        yield f"{place['path'].lstrip('.')}: {message[: place.start()]}" if place else message
        return
    if not sample.sessions:
        yield f"sessions: {SESSIONS_PROBLEM}"
    session_ids = [session.id for session in sample.sessions]
    yield from (f"sessions: duplicate id {name!r}" for name in _repeated(session_ids))
    yield from (f"checkpoints: duplicate id {name!r}" for name in _repeated(each.id for each in sample.checkpoints))
    for checkpoint in sample.checkpoints:
        for name in checkpoint.covered:
            if name not in session_ids:
                yield f"checkpoint {checkpoint.id!r}: the sample has no session {name!r}"


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _complete(sample: Sample) -> Sample:
    """Fill what a loader may leave out: points as the files write them, and the texts of the evidence."""
    sessions: list[SampleSession] = []
    contents: dict[str, str] = {}
    for session in sample.sessions:
        points = tuple(point if point.raw else replace(point, raw=_raw(point)) for point in session.points)
        contents |= {point.memory_id: point.content for point in points}
        sessions.append(replace(session, points=points))
    checkpoints: list[Checkpoint] = []
    for checkpoint in sample.checkpoints:
        questions = tuple(
            question
            if question.contents
            else replace(question, contents=tuple(contents[name] for name in question.evidence if name in contents))
            for question in checkpoint.questions
        )
        checkpoints.append(replace(checkpoint, questions=questions))
    return Sample(sample.sample_id, sample.sample_uuid, tuple(sessions), tuple(checkpoints))


def _raw(point: MemoryPoint) -> dict[str, object]:
    return {
        "memory_id": point.memory_id,
        "memory_content": point.content,
        "memory_source": "interference" if point.interference else "primary",
        "is_update": point.update,
        "original_memories": list(point.original),
    }
