"""Opens the viewer of a finished run in Chromium and counts bytes and seconds to the wrong answers."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from benchmarks.peers.peer import Command, Peer, Work
from benchmarks.peers.results import View

if TYPE_CHECKING:
    from playwright.sync_api import Page

_LONGEST = 60.0
# For every Chromium that assay starts: without a screen, as root, and with no connection of its own.
CHROMIUM_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_INLINE = "Array.from(document.querySelectorAll('script:not([src])'), (one) => one.textContent.length)"


def measure_view(peer: Peer, work: Work | None, count: int) -> View:
    """Start the viewer's server, open its first page, and go to the wrong answers as a person would."""
    view = View(peer=peer.name, count=count, end="none")
    if peer.no_viewer:
        return view
    if work is None:
        return replace(view, end="skipped")
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        return replace(view, end="no browser here: run `make browser`")
    if (chromium := shutil.which("chromium")) is None:
        return replace(view, end="no browser here: run `make browser`")
    port = _free_port()
    viewer = peer.viewer(work, port)
    with _serving(peer, work, viewer.command) as started, sync_playwright() as playwright:
        if (ready := _wait_for(viewer.address, started)) is None:
            return replace(view, end=f"its server did not answer within {_LONGEST:.0f} s")
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        try:
            page = browser.new_context(viewport={"width": 1400, "height": 1000}).new_page()
            page.set_default_timeout(_LONGEST * 1000)
            scripts = _Scripts(page)
            began = time.monotonic()
            page.goto(viewer.address)
            clicks = peer.open_failed(page, count // 5)
            seconds = time.monotonic() - began
            size = scripts.size() + sum(page.evaluate(_INLINE))
        except Error as error:
            return replace(view, ready=ready, end=f"not found: {str(error).splitlines()[0]}")
        finally:
            browser.close()
    return replace(view, end="ended", script=size, ready=ready, seconds=seconds, clicks=clicks)


class _Scripts:
    """Bytes of the scripts that a page loads, unpacked; each address counts once, over all pages of the way."""

    def __init__(self, page: Page) -> None:
        self._addresses: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        session = page.context.new_cdp_session(page)
        session.on("Network.responseReceived", self._begin)
        session.on("Network.dataReceived", self._add)
        session.send("Network.enable")

    def size(self) -> int:
        """Return the sum."""
        return sum({self._addresses[number]: size for number, size in self._sizes.items()}.values())

    def _begin(self, event: dict[str, Any]) -> None:
        if event["type"] == "Script":
            self._addresses[event["requestId"]] = event["response"]["url"]
            self._sizes[event["requestId"]] = 0

    def _add(self, event: dict[str, Any]) -> None:
        if event["requestId"] in self._sizes:
            self._sizes[event["requestId"]] += event["dataLength"]


@contextmanager
def _serving(peer: Peer, work: Work, command: Command) -> Iterator[float]:
    """The viewer's server with all its processes; yields the time of its start."""
    env = peer.environment(work) | command.variables
    with (work.folder / "viewer.txt").open("wb") as log:
        child = subprocess.Popen(
            command.arguments, env=env, cwd=work.folder, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield time.monotonic()
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _wait_for(address: str, started: float) -> float | None:
    """Seconds from the start to the first answer; None if there is none."""
    while time.monotonic() - started < _LONGEST:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return time.monotonic() - started
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    return None


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
