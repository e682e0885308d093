"""Live progress of runs as Server-Sent Events.

`GET /live?run=PATH&run=PATH` sends, at most once a second, a JSON object with the HTML of each run whose progress
changed, by the id of its element. The event `over` says that one of the runs has ended; the script then loads the page
again. A browser opens at most six connections to a server, so one stream serves a whole page, and the script closes it
while the page is hidden.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec
from aiohttp import web
from msgspec import Struct

from assay.core.errors import AssayError
from assay.store.open_run import OpenRun, RunProgress
from assay.view.open_runs import RunIsRead
from assay.view.site import SITE, Site

Look = Callable[[], Awaitable[tuple[dict[str, str], bool]]]
"""Returns HTML by the ids of elements, and whether the page is to be loaded again."""

MAX_RUNS = 20
"""Runs of one stream. A page with more running runs shows the newest ones live."""
_SECONDS = 1.0
# Proxies and browsers close a stream that is silent for long.
_PING_SECONDS = 15.0


class ProgressFragment(Struct):
    """The values of `progress.html`."""

    progress: RunProgress


def element_id(name: str) -> str:
    """Return the id of the element that shows the progress of a run. `name` is the run's path in addresses."""
    return "live-" + sha256(name.encode()).hexdigest()[:12]


async def stream(request: web.Request) -> web.StreamResponse:
    """Send the progress of runs until all have ended or the browser leaves."""
    site = request.app[SITE]
    folders = {name: site.folder(name) for name in request.query.getall("run", [])[:MAX_RUNS]}
    return await send_fragments(request, lambda: _look(site, folders))


async def send_fragments(request: web.Request, look: Look) -> web.StreamResponse:
    """Send HTML by the ids of elements, whenever it has changed, until `look` says that something is over."""
    site = request.app[SITE]
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    told: dict[str, str] = {}
    silent = 0.0
    with suppress(ConnectionError):
        while not site.closing.is_set():
            fragments, some_over = await look()
            changed = {name: html for name, html in fragments.items() if told.get(name) != html}
            told |= changed
            if changed:
                await response.write(b"data: " + msgspec.json.encode(changed) + b"\n\n")
                silent = 0.0
            if some_over:
                await response.write(b"event: over\ndata: \n\n")
                break
            silent += _SECONDS
            if silent >= _PING_SECONDS:
                await response.write(b": still here\n\n")
                silent = 0.0
            with suppress(TimeoutError):
                await asyncio.wait_for(site.closing.wait(), _SECONDS)
    return response


async def _look(site: Site, folders: dict[str, Path]) -> tuple[dict[str, str], bool]:
    """Return the HTML of each run, and whether a run has ended."""
    fragments: dict[str, str] = {}
    some_over = not folders
    for folder in folders.values():
        try:
            progress = await site.runs.ask(folder, OpenRun.progress)
        except RunIsRead:
            continue  # its index is not ready yet
        except AssayError:
            some_over = True  # the page says what is wrong when it is loaded again
            continue
        name = site.name(folder) or ""
        fragments[element_id(name)] = site.fragment("progress.html", ProgressFragment(progress))
        some_over |= progress.state != "running"
    return fragments, some_over
