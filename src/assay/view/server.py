"""The server of `assay view`: its routes, its errors, and how it starts and ends.

To add a page: a module in `view/pages` with a handler and a struct, a template, and a line in `ROUTES`.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import logging
import signal
import sys
import traceback
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from msgspec import Struct

from assay.core.errors import AssayError, UsageError
from assay.view import live
from assay.view.guard import MAX_BODY, Guard, Handler, add_headers
from assay.view.hop import batch_page, history_page, numbers_page, run_page, tasks_page
from assay.view.hop.site import HOP, HopState, close_trials
from assay.view.open_runs import RunIsRead
from assay.view.pages import case, compare, compare_case, judges, label, memory, run, run_actions, runs, search, start
from assay.view.site import SITE, Site

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FOR_EVER = "public, max-age=31536000, immutable"
# Seconds that open requests get when the server ends.
_GRACE_SECONDS = 2.0
# Numbers of options in malloc.h.
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8


async def show_static(request: web.Request) -> web.StreamResponse:
    """Return the style sheet, the script or the icon. Names are looked up, never made into a path."""
    name = request.match_info["name"]
    content = request.app[SITE].static.get(name)
    if content is None:
        raise web.HTTPNotFound
    headers = {"Cache-Control": _FOR_EVER} if "v" in request.query else {}
    content_type = _TYPES[Path(name).suffix]
    charset = None if content_type.startswith("image/") else "utf-8"
    return web.Response(body=content, content_type=content_type, charset=charset, headers=headers)


ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", "/", runs.show),
    ("GET", "/run/{run:.*}", run.show),
    ("GET", r"/case/{index:\d+}/{run:.*}", case.show),
    ("GET", r"/raw/{index:\d+}/{run:.*}", case.show_raw),
    ("GET", "/search/{run:.*}", search.show),
    ("GET", "/compare", compare.show),
    ("GET", "/compare/case", compare_case.show),
    ("GET", "/memory/{run:.*}", memory.show),
    ("GET", r"/held/{index:\d+}/{run:.*}", memory.show_held),
    ("GET", "/live", live.stream),
    ("GET", "/start", start.show_suites),
    ("GET", "/start/{suite}", start.show_form),
    ("POST", "/start/{suite}", start.send_form),
    ("GET", "/starting/{id}", start.show_starting),
    ("POST", "/quickstart", start.start_quickstart),
    ("POST", "/stop/{run:.*}", run_actions.stop),
    ("POST", "/continue/{run:.*}", run_actions.resume),
    ("POST", "/notes/{run:.*}", run_actions.note),
    ("GET", "/output/{run:.*}", run_actions.show_output),
    ("GET", "/hop", tasks_page.show),
    ("GET", "/hop/run/{task:.*}", run_page.show),
    ("POST", "/hop/run/{task:.*}", run_page.act),
    ("GET", "/hop/batch/{task:.*}", batch_page.show),
    ("POST", "/hop/batch/{task:.*}", batch_page.act),
    ("GET", "/hop/history/{task:.*}", history_page.show),
    ("GET", "/hop/stats/{task:.*}", numbers_page.show_stats),
    ("GET", "/hop/perf/{task:.*}", numbers_page.show_perf),
    ("GET", "/hop/live/run/{task:.*}", run_page.stream),
    ("GET", "/hop/live/batch/{task:.*}", batch_page.stream),
    ("GET", "/judges", judges.show),
    ("GET", "/judges/{run:.*}", judges.show_run),
    ("GET", "/label/{run:.*}", label.show),
    ("POST", "/label/{run:.*}", label.send),
    ("GET", "/static/{name}", show_static),
]
"""Every address of the server. `{run}` is the path of a run folder below DIR, `{task}` that of a HOP task."""


class ErrorPage(Struct):
    """A page with a message instead of content."""

    title: str
    message: str


class ReadingPage(Struct):
    """A page that waits until the index of a large run is built."""

    title: str
    percent: int


def _is_no_bad_request(record: logging.LogRecord) -> bool:
    """Return whether aiohttp may print a record. Any website can send malformed requests, and each is a traceback."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, (HttpProcessingError, web.RequestPayloadError))


def make_app(root: Path, guard: Guard) -> web.Application:
    """Return the application that serves the runs below a folder."""
    # The guard comes first: what it refuses gets one line of text, without the token and the folder that pages have.
    logging.getLogger("aiohttp.server").addFilter(_is_no_bad_request)
    app = web.Application(middlewares=[guard.middleware, show_errors], client_max_size=MAX_BODY)
    app[SITE] = Site(root, guard)
    app[HOP] = HopState()
    app.on_response_prepare.append(add_headers)
    app.on_shutdown.append(_end_streams)
    app.on_cleanup.append(_close_runs)
    app.on_cleanup.append(close_trials)
    for method, path, handler in ROUTES:
        app.router.add_route(method, path, handler)
        if method == "GET":
            app.router.add_route("HEAD", path, handler)
    return app


async def _end_streams(app: web.Application) -> None:
    app[SITE].closing.set()


async def _close_runs(app: web.Application) -> None:
    await app[SITE].processes.close()
    await app[SITE].comparisons.close()
    await app[SITE].runs.close()


@web.middleware
async def show_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn errors into pages with a sentence. Errors of our own code are printed on stderr."""
    site = request.app[SITE]
    try:
        return await handler(request)
    except RunIsRead as reading:
        waiting = ReadingPage(reading.folder.name, int(reading.share * 100))
        return site.render("reading.html", waiting, status=202)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        page = ErrorPage(error.reason, error.text or "")
        return site.render("error.html", page, status=error.status)
    except UsageError as error:
        return site.render("error.html", ErrorPage("This address is wrong", str(error)), status=400)
    except AssayError as error:
        return site.render("error.html", ErrorPage("This run cannot be read", str(error)), status=409)
    except (ConnectionError, asyncio.CancelledError):
        raise
    except Exception:  # noqa: BLE001 - one broken page must not end the server
        traceback.print_exc(file=sys.stderr)
        page = ErrorPage("This page failed", "The reason is in the terminal in which `assay view` runs.")
        return site.render("error.html", page, status=500)


async def serve(
    root: Path, host: str, port: int, *, needs_secret: bool, open_browser: bool, tell: Callable[[str], object]
) -> None:
    """Serve the runs below a folder until Ctrl-C or SIGTERM. `tell` gets the address.

    Raises UsageError if the port is in use or the host is not one of this machine.
    """
    _return_free_memory()
    guard = Guard(host, needs_secret=needs_secret)
    runner = web.AppRunner(make_app(root, guard), access_log=None, shutdown_timeout=_GRACE_SECONDS)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise UsageError(_why_not_bound(error, host, port)) from None
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        address = _address(host, runner.addresses[0][1], guard)
        tell(address)
        if open_browser:
            await asyncio.to_thread(webbrowser.open, address)
        await stop.wait()
    finally:
        await runner.cleanup()


def _return_free_memory() -> None:
    """Tell the C library to give the memory of large arrays back to the system when they are freed.

    By default glibc keeps them for later, in a heap per thread: after some sorts of a million rows that is 200 MB.
    """
    with suppress(OSError, AttributeError):  # another C library
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, 1 << 20)
        library.mallopt(_M_ARENA_MAX, 2)


def _address(host: str, port: int, guard: Guard) -> str:
    name = f"[{host}]" if ":" in host else host
    if host in ("0.0.0.0", "::"):  # noqa: S104 - the host that the user passed
        name = "127.0.0.1"
    return f"http://{name}:{port}/" + (f"?token={guard.secret}" if guard.secret else "")


def _why_not_bound(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} is in use, perhaps by another `assay view`. Open http://{host}:{port}/, or pass --port 0 "
            "for a free port"
        )
    if error.errno == errno.EACCES:
        return f"this user may not open port {port}; pass --port with a number of 1024 or more"
    return f"cannot open {host}:{port}: {error.strerror or error}; pass --host with an address of this machine"
