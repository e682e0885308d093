"""The pipeline that the solver runs: its steps, the source of each step's values, and its outputs.

`suites/pipeline` builds it from a pipeline file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from msgspec import Struct

from assay.suites.pipeline.steps.batch import Batch
from assay.suites.pipeline.steps.runner import StepError, StepRunner

AGGREGATE, CODE, HOP = "aggregate", "code", "hop"

_PIECE = re.compile(r"\.?([^.\[\]]+)|\[(-?\d+)\]")
_MAX_KEYS = 8  # keys of an object that an error message lists
_MISSING: Any = object()  # None is a value: JSON null


class ValuePath:
    """A path to a value, such as `text`, `cleaned.items` or `results[0].score`.

    The first name is an input, an output key or the id of a step. Raises ValueError for an invalid path.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.root, *self.path = _split_path(text)

    def find(self, values: Mapping[str, Any]) -> Any:
        """Return the value at the path. Raises StepError with the part of the path that exists."""
        if self.root not in values:
            raise StepError(f"there is no {self.root!r}: the test has no input of that name")
        value = values[self.root]
        for depth, piece in enumerate(self.path):
            child = _item(value, piece)
            if child is _MISSING:
                raise StepError(self._missing_message(value, piece, depth))
            value = child
        return value

    def _missing_message(self, value: Any, piece: str | int, depth: int) -> str:
        """Return the message for a value, at `depth` of the path, that has no item `piece`."""
        parent = self.root
        for step in self.path[:depth]:
            parent += f"[{step}]" if isinstance(step, int) else f".{step}"
        if isinstance(value, list):
            return f"{parent} is a list of {len(value)}; it has no {piece!r}"
        if isinstance(value, dict):
            keys = ", ".join(map(str, list(value)[:_MAX_KEYS])) or "nothing"
            return f"{parent} has no {piece!r}; it has: {keys}"
        hint = ""
        if value is None:
            kind = "null"
        elif isinstance(value, str):
            kind = "a text"
            hint = "; use `output_parser: json` to turn a reply into an object"
        elif isinstance(value, bool):
            kind = "true or false"
        else:
            kind = "a number"
        return f"{parent} is {kind}, so it has no {piece!r}{hint}"


class Step(Struct, frozen=True, kw_only=True):
    """One step of a pipeline. `after` has the ids of the steps it needs. With `batch` it runs over a list."""

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

    def inputs_in(self, step_inputs: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        """Return the values for this step in a test's `step_inputs`, by its id or its output key. The id wins."""
        return {**(step_inputs.get(self.output_key) or {}), **(step_inputs.get(self.id) or {})}


class PipelineOutput(Struct, frozen=True):
    """A named output of the pipeline, and the step that produces it."""

    key: str
    source: ValuePath
    step: str


class Pipeline(Struct, frozen=True, kw_only=True):
    """Steps in topological order: each comes after the steps it needs. `optional` inputs default to ""."""

    steps: list[Step]
    outputs: list[PipelineOutput]
    target: str
    optional: frozenset[str] = frozenset()

    @property
    def aggregate(self) -> Step | None:
        """The last aggregate step. Its output is compared with `expected_aggregation`."""
        return next((step for step in reversed(self.steps) if step.kind == AGGREGATE), None)

    @property
    def straight(self) -> bool:
        """True if every step needs the previous one, so no two steps can run concurrently."""
        return all(before.id in step.after for before, step in pairwise(self.steps))


class TestInputs(Struct, frozen=True, kw_only=True):
    """One test as the solver sees it. The expected values are not part of it."""

    id: str
    inputs: dict[str, Any]
    step_inputs: dict[str, dict[str, Any]] = {}
    batch_items: list[Any] | None = None
    tags: list[str] = []
    condition: str = ""
    depends_on: list[str] = []


class StepsInputs(Struct, frozen=True):
    """One case: a test, or several tests that depend on each other, in the order in which they run."""

    variant: str
    tests: list[TestInputs]


def _item(value: Any, piece: str | int) -> Any:
    """Return the item of a list or an object, or _MISSING. Other values have no items."""
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
            raise ValueError(f"{text!r} is not a path; write name, name.key or name[0].key")
        pieces.append(int(match[2]) if match[1] is None else match[1])
        position = match.end()
    if not pieces:
        raise ValueError("an empty source")
    return pieces
