"""A pipeline as the solver runs it: steps, what each needs, and what comes out in the end."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from msgspec import Struct

from assay.solvers.steps.batching import Batch
from assay.solvers.steps.running import Runner
from assay.solvers.steps.sources import Source

AGGREGATE, CODE, HOP = "aggregate", "code", "hop"


class Step(Struct, frozen=True, kw_only=True):
    """One step. `after` are the ids of the steps it waits for; a batch runs it over a list."""

    id: str
    kind: str
    output_key: str
    runner: Runner
    sources: dict[str, Source] = {}
    after: frozenset[str] = frozenset()
    required: bool = True
    timeout: float | None = None
    retry: int = 0
    batch: Batch | None = None


class Output(Struct, frozen=True):
    """One of the pipeline's results, and the step it comes from."""

    key: str
    source: Source
    step: str


class Pipeline(Struct, frozen=True, kw_only=True):
    """Steps in file order, each after what it needs. `optional` inputs are empty where a test has none."""

    steps: list[Step]
    outputs: list[Output]
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
    """What the solver may know of one test: everything but what is expected."""

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
