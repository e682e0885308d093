"""Runs a pipeline step once per item of a list, concurrently if allowed. A failed item does not fail the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from assay.suites.pipeline.steps.runner import StepContext, StepError

BATCH_ITEMS = "batch_items"
TEST_SETTINGS = ("batch_size", "concurrent", "max_workers")
"""Settings of a batch that a test may override."""

RunOnce = Callable[[dict[str, Any], StepContext], Awaitable[Any]]


class Batch(Struct, frozen=True, kw_only=True):
    """How a step runs over a list. By default all items run at once, limited only by `--concurrency`.

    `batch_size` splits the list: a chunk starts when the previous chunk has ended. `with_item` merges an
    output that is an object into its item.
    """

    batch_size: int | None = None
    concurrent: bool = True
    max_workers: int | None = None
    with_item: bool = False

    def with_settings(self, settings: dict[str, Any]) -> Batch:
        """Return a copy with the batch settings that a test overrides, or `self` if it overrides none.

        Raises StepError for an invalid setting.
        """
        overrides = {key: settings[key] for key in TEST_SETTINGS if key in settings}
        if not overrides:
            return self
        problem = next(batch_problems(overrides), None)
        if problem is not None:
            raise StepError(problem, "bad_setting")
        return replace(self, **overrides)


class BatchItem(Struct, frozen=True):
    """The outcome of one item. `error` is empty if it succeeded."""

    output: Any = None
    error: str = ""


class StepValues(NamedTuple):
    """The input values of a step, by name.

    `mapped` has the names that the step's `input_mapping` sets, `overridden` the names that the test's
    `step_inputs` sets.
    """

    all: dict[str, Any]
    mapped: tuple[str, ...] = ()
    overridden: tuple[str, ...] = ()


def batch_problems(settings: dict[str, Any]) -> Iterator[str]:
    """Yield one message for each invalid setting."""
    for key, value in settings.items():
        if key in ("batch_size", "max_workers") and (type(value) is not int or value < 1):
            yield f"{key} is a whole number from 1 on, not {value!r}"
        elif key in ("concurrent", "with_item") and type(value) is not bool:
            yield f"{key} is true or false, not {value!r}"


async def run_batch(batch: Batch, run: RunOnce, values: StepValues, ctx: StepContext) -> list[BatchItem]:
    """Run every item and return the outcomes in order.

    A StepError fails one item. A ModelError passes through and fails the case.
    """
    name, items = find_list(values)

    async def run_item(item: Any) -> BatchItem:
        if item is None:
            return BatchItem(None, "the item is null, probably because it failed in an earlier step")
        try:
            output = await run(item_values(values, name, item), ctx)
        except StepError as error:
            return BatchItem(None, str(error))
        if batch.with_item and isinstance(output, dict) and isinstance(item, dict):
            output = {**item, **output}
        return BatchItem(output)

    outcomes: list[BatchItem] = []
    size = batch.batch_size or len(items) or 1
    for start in range(0, len(items), size):
        outcomes += await _run_chunk(batch, run_item, items[start : start + size], ctx)
    return outcomes


async def _run_chunk(
    batch: Batch, run_item: Callable[[Any], Awaitable[BatchItem]], items: list[Any], ctx: StepContext
) -> list[BatchItem]:
    workers = 1
    if batch.concurrent:
        workers = batch.max_workers or len(items)
    if workers >= len(items):
        # All items may run at once, so no semaphore is needed.
        return await ctx.case.map(run_item, items)
    permits = asyncio.Semaphore(workers)

    async def run_with_permit(item: Any) -> BatchItem:
        async with permits:
            return await run_item(item)

    return await ctx.case.map(run_with_permit, items)


def find_list(values: StepValues) -> tuple[str, list[Any]]:
    """Return name and value of the list to run over: the first mapped value that is a list, else `batch_items`.

    Raises StepError if there is no list.
    """
    for name in (*values.mapped, BATCH_ITEMS):
        value = values.all.get(name)
        if isinstance(value, list):
            return name, value
    raise StepError("the step runs over a list, but has none: map a list, or give the test batch_items")


def item_values(values: StepValues, name: str, item: Any) -> dict[str, Any]:
    """Return the values for one item: all values of the step, the fields of the item, and the item itself.

    The item replaces its list under the list's name. A mapped or overridden value takes precedence over a
    field of the same name.
    """
    fields = item if isinstance(item, dict) else {}
    explicit = {key: values.all[key] for key in (*values.mapped, *values.overridden)}
    return {**values.all, **fields, **explicit, name: item, "item": item}
