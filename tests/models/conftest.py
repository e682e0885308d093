"""Either event loop."""

from __future__ import annotations

import asyncio
import gc

import pytest
import uvloop

from servers.wired import Main, Run


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a test on either loop; whatever was left open makes a warning, and so an error."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def start(main: Main) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())
        gc.collect()

    return start
