"""The search in the texts of a run: prompts, replies, records, reasons of scores.

The page is sent while the search goes on: its head at once, then each hit when it is found, and how much was searched.
So it needs no script. The search ends when the browser leaves, and after 50 hits; a link goes on from there.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from aiohttp import web
from markupsafe import Markup
from msgspec import Struct

from assay.core.errors import AssayError, UsageError, unknown
from assay.store.render.screen import counted
from assay.store.search import PLACES, Hit
from assay.view.address import read_address, write_address
from assay.view.open_runs import RunIsRead
from assay.view.search_process import SearchProcess, SearchQuery
from assay.view.site import SITE, Site
from assay.view.text import visible

PAGE_HITS = 50
HITS_HERE = "<!-- hits -->"
"""Where the template wants the hits. No text of a model can have it, because every text is escaped."""
# Every byte of the journal is compared with the text.
_MAX_TEXT = 1000
# The progress is shown in steps of this size, because every step stays in the page.
_STEP = 0.02


class SearchState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of the page, as it stands in the address."""

    q: str = ""
    place: str = ""
    after: str = ""
    """`PLACE-OFFSET` of the last hit of the page before."""
    first: int = 1
    """The number of the first hit of this page."""

    @classmethod
    def parse(cls, query: dict[str, str]) -> SearchState:
        """Read the state from an address. Raises UsageError for a value of the wrong form."""
        state = read_address(cls, query)
        if state.place and state.place not in PLACES:
            raise UsageError(unknown("place", state.place, list(PLACES)))
        if len(state.q) > _MAX_TEXT:
            raise UsageError(f"a text to search for has at most {_MAX_TEXT:,} characters")
        if state.after and state.position is None:
            raise UsageError(f"the address has a position that is not valid: {state.after}")
        return state

    @property
    def position(self) -> tuple[str, int] | None:
        """Place and offset of the last hit of the page before."""
        match = re.fullmatch(r"([a-z]+)-(\d{1,18})", self.after, re.ASCII)
        return (match[1], int(match[2])) if match and match[1] in PLACES else None

    @property
    def places(self) -> tuple[str, ...]:
        """Where to search."""
        return (self.place,) if self.place else tuple(PLACES)

    def following(self, hit: Hit) -> str:
        """Return the address that goes on behind a hit."""
        return write_address(self, after=f"{hit.place}-{hit.offset}", first=self.first + PAGE_HITS)


class SearchPage(Struct, kw_only=True):
    """The values of `search.html`."""

    name: str
    run_title: str
    state: SearchState


class HitLine(Struct, kw_only=True):
    """The values of `search_hit.html`: a case, and its text before, at and after the match."""

    address: str
    title: str
    place: str
    before: str
    match: str
    after: str


class SearchProgress(Struct, kw_only=True):
    """The values of `search_progress.html`."""

    text: str
    share: float | None
    following: str
    """The address of the next hits."""


async def show(request: web.Request) -> web.StreamResponse:
    """Search, and send the page while the search goes on."""
    site = request.app[SITE]
    folder = site.folder(request.match_info["run"])
    name = site.name(folder) or ""
    state = SearchState.parse(dict(request.query))
    page = SearchPage(name=name, run_title=folder.name, state=state)
    head, tail = site.text("search.html", page).split(HITS_HERE)
    response = web.StreamResponse()
    response.content_type, response.charset = "text/html", "utf-8"
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    sender = _Sender(site, folder, name, state, response)
    # A browser that leaves closes the connection. Then the next write fails, and the search ends.
    with suppress(ConnectionError):
        await sender.write(head)
        if state.q.strip():
            try:
                await sender.search()
            except AssayError as error:
                await sender.write(Markup('<p class="problem">{}</p>').format(visible(str(error))))
        await sender.write(tail)
    return response


class _Sender:
    """Sends the hits of one search."""

    def __init__(self, site: Site, folder: Path, name: str, state: SearchState, response: web.StreamResponse) -> None:
        self._site = site
        self._folder = folder
        self._name = name
        self._state = state
        self._response = response

    async def write(self, text: str) -> None:
        await self._response.write(text.encode(errors="replace"))

    async def search(self) -> None:
        """Send hits and progress until the page is full or everything was searched."""
        state = self._state
        if self._site.searches.locked():
            await self._tell("Other searches are running. This one waits for them.")
        query = SearchQuery(folder=str(self._folder), text=state.q, places=state.places, after=state.position)
        last: Hit | None = None
        count, shown_share = 0, -1.0
        async with self._site.searches, SearchProcess(query) as process:
            async for each in process:
                if self._site.closing.is_set():
                    return
                if isinstance(each, float):
                    if each - shown_share >= _STEP:
                        shown_share = each
                        await self._tell(f"Searched {each:.0%}", share=each)
                elif last is not None and count == PAGE_HITS:
                    numbers = f"{state.first:,} to {state.first + count - 1:,}"
                    await self._tell(f"Hits {numbers}. There are more.", following=state.following(last))
                    return
                else:
                    last = each
                    count += 1
                    await self.write(self._site.fragment("search_hit.html", await self._line(each)))
        total = state.first - 1 + count
        await self._tell(f"Searched everything: {counted(total, 'hit')}.")

    async def _tell(self, text: str, *, share: float | None = None, following: str = "") -> None:
        """Send a line about the search. The style sheet hides the lines before it."""
        line = SearchProgress(text=text, share=share, following=following)
        await self.write(self._site.fragment("search_progress.html", line))

    async def _line(self, hit: Hit) -> HitLine:
        try:
            end = await self._site.runs.ask(self._folder, lambda run: run.end(hit.case))
            title = end.label or end.case
        except (AssayError, RunIsRead):
            # The case has not ended yet, or the index of the run is not built yet.
            title = f"case {hit.case}"
        match = re.search(re.escape(self._state.q), hit.excerpt, re.IGNORECASE)
        start, stop = match.span() if match else (len(hit.excerpt), len(hit.excerpt))
        return HitLine(
            address=f"/case/{hit.case}/{self._name}",
            title=title,
            place=hit.place,
            before=hit.excerpt[:start],
            match=hit.excerpt[start:stop],
            after=hit.excerpt[stop:],
        )
