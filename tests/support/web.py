"""Asks the pages of `assay view`, without a browser."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp.test_utils import TestClient, TestServer

from assay.view.guard import Guard
from assay.view.server import make_app

from support.commands import environment

# Elements that have no end tag.
_VOID = frozenset({"meta", "link", "img", "input", "br", "hr"})


@asynccontextmanager
async def view_of(root: Path, guard: Guard | None = None) -> AsyncIterator[TestClient]:  # type: ignore[type-arg]
    """A server of the runs below a folder, and a client that keeps cookies and follows no redirect."""
    app = make_app(root, guard or Guard("127.0.0.1"))
    async with TestClient(TestServer(app)) as client:
        yield client


def visit(root: Path, act: Callable[[TestClient[Any, Any], Guard], Awaitable[None]]) -> None:
    """Do something with the pages of a folder. The guard has the token that forms need."""
    guard = Guard("127.0.0.1")

    async def both() -> None:
        async with view_of(root, guard) as client:
            await act(client, guard)

    asyncio.run(both())


class View(NamedTuple):
    """A real server: its address without the last slash, and the id of its process."""

    address: str
    process: int


@contextmanager
def serving(folder: Path, *before: str) -> Iterator[View]:
    """Run `assay view` on a folder. What is put `before` the command starts it, like `setpriv`."""
    command = [*before, sys.executable, "-m", "assay", "view", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
    try:
        assert process.stdout is not None
        yield View(process.stdout.readline().strip().rstrip("/"), process.pid)
    finally:
        process.terminate()
        process.communicate(timeout=20)


class Page(HTMLParser):
    """A page as a browser understands it: its elements with their attributes, and its text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.depth = 0
        self._texts: list[str] = []
        self.feed(source)
        self.close()
        self.text = "".join(self._texts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self.depth += tag not in _VOID

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        self.depth -= 1

    def handle_data(self, data: str) -> None:
        self._texts.append(data)

    def links(self) -> list[str]:
        """The addresses of all links, as they stand in the page."""
        return [attributes["href"] for tag, attributes in self.elements if tag == "a"]
