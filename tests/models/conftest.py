"""Runs each test on both event loops."""

from __future__ import annotations

import asyncio
import gc

import pytest
import uvloop

from servers.wired import Main, Run


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run a test on asyncio or uvloop. Anything left open causes a warning, which is an error."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def start(main: Main) -> None:
        # Objects of other tests are not collected again: a session with all tests has more than a million.
        gc.freeze()
        try:
            with asyncio.Runner(loop_factory=factory) as runner:
                runner.run(main())
            gc.collect()
        finally:
            gc.unfreeze()

    return start
