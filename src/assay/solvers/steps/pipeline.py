"""A pipeline as the solver runs it: steps, where each takes its values from, and what comes out at the end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from msgspec import Struct

from assay.solvers.steps.batch import Batch
from assay.solvers.steps.runner import StepFailed, StepRunner

AGGREGATE, CODE, HOP = "aggregate", "code", "hop"

_PIECE = re.compile(r"\.?([^.\[\]]+)|\[(-?\d+)\]")
_MOST_KEYS = 8  # of an object, in a message
_MISSING: Any = object()


class ValuePath:
    """Where a step's value comes from: `text`, `cleaned.items`, `results[0].score`.

    The first name is an input, an output key or a step's id. Raises ValueError if the text is no path.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.root, *self.path = _split_path(text)

    def find(self, values: Mapping[str, Any]) -> Any:
        """Return the value. A path that leads nowhere fails the step with a message that says how far it led."""
        if self.root not in values:
            raise StepFailed(f"there is no {self.root!r}: the test has no input of that name")
        value = values[self.root]
        for depth, piece in enumerate(self.path):
            following = _item(value, piece)
            if following is _MISSING:
                raise StepFailed(self._why_nothing(value, piece, depth))
            value = following
        return value

    def _why_nothing(self, value: Any, piece: str | int, depth: int) -> str:
        """Say why there is nothing at `piece` of the value that the path has led to."""
        reached = self.root
        for step in self.path[:depth]:
            reached += f"[{step}]" if isinstance(step, int) else f".{step}"
        if isinstance(value, list):
            return f"{reached} is a list of {len(value)}; it has no {piece!r}"
        if isinstance(value, dict):
            keys = ", ".join(map(str, list(value)[:_MOST_KEYS])) or "nothing"
            return f"{reached} has no {piece!r}; it has: {keys}"
        hint = ""
        if value is None:
            kind = "null"
        elif isinstance(value, str):
            kind = "a text"
            hint = "; `output_parser: json` makes an object of a reply"
        elif isinstance(value, bool):
            kind = "true or false"
        else:
            kind = "a number"
        return f"{reached} is {kind}, so it has no {piece!r}{hint}"


class Step(Struct, frozen=True, kw_only=True):
    """One step. `after` are the ids of the steps it waits for; a batch runs it over a list."""

    id: str
    kind: str
    output_key: str
    runner: StepRunner
    sources: dict[str, ValuePath] = {}
    after: frozenset[str] = frozenset()
    required: bool = True
    timeout: float | None = None
    retry: int = 0
    batch: Batch | None = None


class PipelineOutput(Struct, frozen=True):
    """One of the pipeline's results, and the step it comes from."""

    key: str
    source: ValuePath
    step: str


class Pipeline(Struct, frozen=True, kw_only=True):
    """Steps in an order in which each stands after what it needs. `optional` inputs are empty by default."""

    steps: list[Step]
    outputs: list[PipelineOutput]
    target: str
    optional: frozenset[str] = frozenset()

    @property
    def aggregate(self) -> Step | None:
        """The step whose output is the aggregation: the last one of its kind."""
        return next((step for step in reversed(self.steps) if step.kind == AGGREGATE), None)

    @property
    def straight(self) -> bool:
        """Whether every step waits for the one before it, so that none could run beside another."""
        return all(before.id in step.after for before, step in pairwise(self.steps))


class TestInputs(Struct, frozen=True, kw_only=True):
    """What the solver may know about one test: everything but what is expected."""

    id: str
    inputs: dict[str, Any]
    step_inputs: dict[str, dict[str, Any]] = {}
    batch_items: list[Any] | None = None
    tags: list[str] = []
    condition: str = ""
    depends_on: list[str] = []


class StepsInputs(Struct, frozen=True):
    """One case: a test, or several that depend on each other, in order."""

    variant: str
    tests: list[TestInputs]


def _item(value: Any, piece: str | int) -> Any:
    """Return what stands at one piece of a path, or _MISSING. Only lists and objects have items here."""
    if isinstance(value, dict):
        return value.get(piece, _MISSING)
    if isinstance(value, list):
        try:
            return value[int(piece)]
        except (ValueError, IndexError):
            return _MISSING
    return _MISSING


def _split_path(text: str) -> list[Any]:
    pieces: list[Any] = []
    position = 0
    while position < len(text):
        match = _PIECE.match(text, position)
        if match is None or (position == 0 and (match[1] is None or match[0].startswith("."))):
            raise ValueError(f"{text!r} is no path; write name, name.key or name[0].key")
        pieces.append(int(match[2]) if match[1] is None else match[1])
        position = match.end()
    if not pieces:
        raise ValueError("an empty source")
    return pieces
