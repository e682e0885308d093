"""A step over many items: which list it runs over, how many run at once, and what a failed item costs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from assay.solvers.steps.runner import StepContext, StepFailed

BATCH_ITEMS = "batch_items"
TEST_SETTINGS = ("batch_size", "concurrent", "max_workers")
"""What a test may change about a batch."""

RunOnce = Callable[[dict[str, Any], StepContext], Awaitable[Any]]


class Batch(Struct, frozen=True, kw_only=True):
    """How a step runs over a list. By default all items run at once, as far as the model's permits go.

    With `with_item`, an output that is an object is merged into the item it was made of.
    """

    batch_size: int | None = None
    concurrent: bool = True
    max_workers: int | None = None
    with_item: bool = False

    def adapted(self, settings: dict[str, Any]) -> Batch:
        """Return the batch with the settings of a test."""
        own = {key: settings[key] for key in TEST_SETTINGS if key in settings}
        if not own:
            return self
        problem = next(batch_problems(own), None)
        if problem is not None:
            raise StepFailed(problem, "bad_setting")
        return replace(self, **own)


class BatchItem(Struct, frozen=True):
    """The outcome of one item."""

    output: Any = None
    error: str = ""


class StepValues(NamedTuple):
    """What a step sees: all values, and which of them its mapping (`mapped`) and the test (`given`) name."""

    all: dict[str, Any]
    mapped: tuple[str, ...] = ()
    given: tuple[str, ...] = ()


def batch_problems(settings: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with settings, one sentence each."""
    for key, value in settings.items():
        if key in ("batch_size", "max_workers") and (type(value) is not int or value < 1):
            yield f"{key} is a whole number from 1 on, not {value!r}"
        elif key in ("concurrent", "with_item") and type(value) is not bool:
            yield f"{key} is true or false, not {value!r}"


async def run_batch(batch: Batch, run: RunOnce, values: StepValues, ctx: StepContext) -> list[BatchItem]:
    """Run every item and return the outcomes in order.

    An item that fails costs itself; a model that fails costs the step.
    """
    name, items = find_list(values)

    async def run_item(item: Any) -> BatchItem:
        if item is None:
            return BatchItem(None, "there is no item: it is null, as an item is that failed before")
        try:
            output = await run(item_values(values, name, item), ctx)
        except StepFailed as error:
            return BatchItem(None, str(error))
        if batch.with_item and isinstance(output, dict) and isinstance(item, dict):
            output = {**item, **output}
        return BatchItem(output)

    outcomes: list[BatchItem] = []
    size = batch.batch_size or len(items) or 1
    for begin in range(0, len(items), size):
        outcomes += await _run_chunk(batch, run_item, items[begin : begin + size], ctx)
    return outcomes


async def _run_chunk(
    batch: Batch, run_item: Callable[[Any], Awaitable[BatchItem]], items: list[Any], ctx: StepContext
) -> list[BatchItem]:
    workers = 1
    if batch.concurrent:
        workers = batch.max_workers or len(items)
    if workers >= len(items):
        return await ctx.case.map(run_item, items)
    permits = asyncio.Semaphore(workers)

    async def run_with_permit(item: Any) -> BatchItem:
        async with permits:
            return await run_item(item)

    return await ctx.case.map(run_with_permit, items)


def find_list(values: StepValues) -> tuple[str, list[Any]]:
    """Return the list to run over: the first mapped value that is one, else the test's own batch items."""
    for name in (*values.mapped, BATCH_ITEMS):
        value = values.all.get(name)
        if isinstance(value, list):
            return name, value
    raise StepFailed("it runs over a list, and there is none: map one, or give the test batch_items")


def item_values(values: StepValues, name: str, item: Any) -> dict[str, Any]:
    """Return what one item's run sees: all values, the item in place of its list, and its fields.

    A value that is mapped or given by name wins over a field of the item of that name.
    """
    fields = item if isinstance(item, dict) else {}
    by_name = {key: values.all[key] for key in (*values.mapped, *values.given)}
    return {**values.all, **fields, **by_name, name: item, "item": item}
