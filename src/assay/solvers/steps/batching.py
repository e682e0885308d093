"""A step over many items: which values fan out, how many run at once, what a failed item is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from assay.solvers.steps.failing import StepFailed
from assay.solvers.steps.running import StepContext

BATCH_ITEMS = "batch_items"
TOLD = ("batch_size", "concurrent", "max_workers")


class Batch(Struct, frozen=True, kw_only=True):
    """How a step runs over a list. Unsaid, all items run at once, as far as the model's permits go."""

    batch_size: int | None = None
    concurrent: bool = True
    max_workers: int | None = None
    with_item: bool = False
    """Whether an output that is an object is put together with the item it was made of."""

    def adapted(self, told: dict[str, Any]) -> Batch:
        """With the settings of a test."""
        given = {key: told[key] for key in TOLD if key in told}
        if problem := next(problems(given), None):
            raise StepFailed(problem, "bad_setting")
        return replace(self, **given) if given else self


def problems(given: dict[str, Any]) -> Any:
    """What is wrong with settings, one sentence each."""
    for key, value in given.items():
        if key in ("batch_size", "max_workers") and (type(value) is not int or value < 1):
            yield f"{key} is a whole number from 1 on, not {value!r}"
        elif key in ("concurrent", "with_item") and type(value) is not bool:
            yield f"{key} is true or false, not {value!r}"


class Item(Struct, frozen=True):
    """What came of one item."""

    output: Any = None
    error: str = ""


class Values(NamedTuple):
    """What a step sees: all values, and which of them its mapping and the test name for it."""

    all: dict[str, Any]
    mapped: tuple[str, ...] = ()
    told: tuple[str, ...] = ()


def fan_out(values: Values) -> tuple[str, list[Any]]:
    """The list to run over: the first mapped value that is one, else the test's own batch items."""
    for name in (*values.mapped, BATCH_ITEMS):
        found = values.all.get(name)
        if isinstance(found, list):
            return name, found
    raise StepFailed("it runs over a list, and there is none: map one, or give the test batch_items")


def item_values(values: Values, name: str, item: Any) -> dict[str, Any]:
    """What one item's run sees: all values, the item in place of its list, and its fields.

    A value that is given by name is what its name means, whatever fields the item has.
    """
    fields = item if isinstance(item, dict) else {}
    named = {key: values.all[key] for key in (*values.mapped, *values.told)}
    return {**values.all, **fields, **named, name: item, "item": item}


Run = Callable[[dict[str, Any], StepContext], Awaitable[Any]]


async def run_batch(batch: Batch, run: Run, values: Values, ctx: StepContext) -> list[Item]:
    """Every item's outcome, in order. An item that fails costs itself; a model that fails, the step."""
    name, items = fan_out(values)

    async def one(item: Any) -> Item:
        if item is None:
            return Item(None, "there is no item: it is null, as an item is that failed before")
        try:
            output = await run(item_values(values, name, item), ctx)
        except StepFailed as failed:
            return Item(None, str(failed))
        if batch.with_item and isinstance(output, dict) and isinstance(item, dict):
            output = {**item, **output}
        return Item(output)

    found: list[Item] = []
    size = batch.batch_size or len(items) or 1
    for begin in range(0, len(items), size):
        found += await _chunk(batch, one, items[begin : begin + size], ctx)
    return found


async def _chunk(
    batch: Batch, one: Callable[[Any], Awaitable[Item]], items: list[Any], ctx: StepContext
) -> list[Item]:
    most = 1 if not batch.concurrent else batch.max_workers or len(items)
    if most >= len(items):
        return await ctx.case.map(one, items)
    places = asyncio.Semaphore(most)

    async def limited(item: Any) -> Item:
        async with places:
            return await one(item)

    return await ctx.case.map(limited, items)
