"""What all pages share: the folder, the open runs, and the templates.

    site = request.app[SITE]
    folder = site.folder(request.match_info["run"])      # 404 outside of DIR
    return site.render("run.html", page)                 # `page` is a struct

Handlers read no files themselves: `site.runs` does, in threads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote, unquote

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import Struct

from assay.core.dollars import dollars, known_cost
from assay.core.report import Metric
from assay.store.render.screen import counted, duration
from assay.store.runs import is_run_folder
from assay.view import charts, curves, plots, text
from assay.view.guard import Guard
from assay.view.hop import charts as hop_charts
from assay.view.open_comparisons import OpenComparisons, RunChoice
from assay.view.open_runs import OpenRuns
from assay.view.processes import Processes

FRAGMENT = "Assay-Fragment"
"""A request header of our script. Its value is the id of the element that the script will replace.

A handler may then send only this element. It need not: the script looks for the element in whatever it gets."""


_SEARCHES = 2


class Site:
    """One server's folder, runs and templates."""

    def __init__(self, root: Path, guard: Guard) -> None:
        self.root = root.resolve()
        self._shown_root = _with_tilde(self.root)
        self.guard = guard
        self.runs = OpenRuns()
        self.processes = Processes(self.root)
        self.searches = asyncio.Semaphore(_SEARCHES)
        """Searches in texts that run at a time. More of them wait, because each keeps a core busy."""
        self.comparisons = OpenComparisons()
        self.label_queues: dict[Hashable, Struct] = {}
        """The last few queues of answers to label, which `pages/label.py` keeps here."""
        self.closing = asyncio.Event()
        """Set when the server ends. Streams then end too."""
        self.static = static_files()
        self._templates = templates()

    def folder(self, name: str) -> Path:
        """Return the run folder with this path below DIR. Raises 404 if there is none, also for links that lead out."""
        try:
            folder = (self.root / name).resolve()
            if folder.is_relative_to(self.root) and is_run_folder(folder):
                return folder
        except (OSError, ValueError, RuntimeError):  # a name that no file can have, or links in a circle
            pass
        raise web.HTTPNotFound(text=f"There is no run {text.plain(name)!r} below {self.root}.")

    def choice(self, name: str) -> RunChoice:
        """Return what RUN or RUN@SUBJECT means. Both parts may contain an @. Raises 404 for an unknown run."""
        places = [len(name), *(number for number, character in enumerate(name) if character == "@")]
        for place in places:
            try:
                return RunChoice(self.folder(name[:place]), name[place + 1 :])
            except web.HTTPNotFound:
                continue
        return RunChoice(self.folder(name), "")

    def name(self, folder: Path) -> str | None:
        """Return the path of a run below DIR, as it stands in addresses; None for a link that leads out of DIR."""
        folder = folder.resolve()
        if not folder.is_relative_to(self.root):
            return None
        return quote("" if folder == self.root else str(folder.relative_to(self.root)), errors="replace")

    def text(self, template: str, page: Struct) -> str:
        """Return the source of a page. The template gets the struct as `page`."""
        source = self._templates.get_template(template)
        return source.render(page=page, token=self.guard.page_token, root=self._shown_root)

    def render(self, template: str, page: Struct, *, status: int = 200) -> web.Response:
        """Return a page. The template gets the struct as `page`."""
        body = self.text(template, page)
        return web.Response(
            # A text of a model may have lone surrogates in places that no filter looked at.
            body=body.encode(errors="replace"),
            content_type="text/html",
            charset="utf-8",
            status=status,
            headers={"Vary": FRAGMENT},
        )

    def fragment(self, template: str, page: Struct) -> str:
        """Return a whole template without a request, for streams."""
        return self._templates.get_template(template).render(page=page)


SITE = web.AppKey("site", Site)


def _with_tilde(folder: Path) -> str:
    """Return a path as people write it: `~/results` for a folder in their home."""
    try:
        home = Path.home()
    except RuntimeError:  # this user has none
        return str(folder)
    return str("~" / folder.relative_to(home)) if folder != home and folder.is_relative_to(home) else str(folder)


@cache
def static_files() -> Mapping[str, bytes]:
    """Return the style sheets, the script and the icon by name."""
    folder = files("assay") / "view" / "static"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@cache
def templates() -> Environment:
    """Return the templates with their functions and filters. All servers and reports of a process share them."""
    environment = Environment(
        loader=PackageLoader("assay", "view/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # The hash makes a new version a new address, so browsers may keep the files for ever.
    assets = {name: f"/static/{name}?v={sha256(content).hexdigest()[:12]}" for name, content in static_files().items()}
    environment.globals["asset"] = assets.__getitem__
    # A report has several runs in one file: their ids need a prefix, and nothing in it is closed.
    environment.globals["prefix"] = ""
    environment.globals["expanded"] = False
    environment.globals["interval_bar"] = charts.interval_bar
    environment.globals["histogram"] = charts.histogram
    environment.globals["line_chart"] = curves.line_chart
    environment.globals["line_sample"] = curves.line_sample
    environment.filters["open_slices"] = charts.open_slices
    environment.filters["curves"] = curves.report_curves
    environment.globals["gauge"] = hop_charts.gauge
    environment.globals["count_bar"] = hop_charts.count_bar
    environment.globals["time_bar"] = plots.time_bar
    environment.globals["test_bars"] = plots.test_bars
    environment.globals["difference_bar"] = plots.difference_bar
    environment.filters["visible"] = text.visible
    environment.filters["plain"] = text.plain
    environment.filters["as_text"] = text.as_text
    environment.filters["urldecode"] = unquote
    environment.filters["plural"] = _plural
    environment.filters["counted"] = counted
    environment.filters["dollars"] = dollars
    environment.filters["known_cost"] = known_cost
    environment.filters["duration"] = duration
    environment.filters["number"] = _number
    environment.filters["when"] = _when
    environment.tests["metric"] = lambda value: isinstance(value, Metric)
    return environment


def _number(value: float | None, digits: int = 3) -> str:
    """Return a measured number with three digits, a dash for one that was not measured."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.{digits}f}" if abs(value) < 1000 else f"{value:,.0f}"


def _plural(unit: str) -> str:
    """Return the unit of a metric in the plural: `questions`, `pieces of evidence`."""
    first, of, rest = unit.partition(" of ")
    return f"{first}s{of}{rest}"


def _when(seconds: float, form: str = "%Y-%m-%d %H:%M") -> str:
    return time.strftime(form, time.localtime(seconds))
