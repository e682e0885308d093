"""Tells the observers of a run every second how many calls are open, so that a slow endpoint is never silent.

    async with waiting_reports(ledger, permits):
        await loop.run()

It reads counters that the caller keeps anyway, so a call costs nothing more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from assay.core.events import Waiting
from assay.engine.caller import CallLedger
from assay.engine.permits import Permits

REPORT_SECONDS = 1.0


@asynccontextmanager
async def waiting_reports(ledger: CallLedger, permits: Collection[Permits]) -> AsyncIterator[None]:
    """Send a Waiting event every second until the block ends."""
    task = asyncio.create_task(_report(ledger, permits))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        error = None if task.cancelled() else task.exception()
    if error is not None:  # an observer raised it
        raise error


async def _report(ledger: CallLedger, permits: Collection[Permits]) -> None:
    ended, changed_at = ledger.ended_calls, time.monotonic()
    while True:
        await asyncio.sleep(REPORT_SECONDS)
        now = time.monotonic()
        if ledger.ended_calls != ended:
            ended, changed_at = ledger.ended_calls, now
        in_flight = sum(each.in_flight for each in permits)
        ledger.notify(Waiting(in_flight, ledger.paused_calls, now - changed_at))
