"""The pages that start runs: a form for every suite, the plan of the run, and the wait until its folder exists.

The form is sent to the plan, which `--dry-run` makes in a child process. The plan has the same values and the button
that starts the run. A start waits until the run folder exists and leads there, or shows the form again with what the
command said.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web
from msgspec import Struct

from assay.core import registry
from assay.core.errors import UsageError, unknown
from assay.runner import api
from assay.store.open_run import OpenRun
from assay.store.runs import started_in
from assay.suites import command_table, find_options
from assay.view.option_form import OptionForm
from assay.view.processes import StartedCommand
from assay.view.run_options import RunOptions, options_of_run
from assay.view.site import SITE, Site
from assay.view.text import plain

HAND_OVER_SECONDS = 8.0
"""Seconds that a browser waits for the run folder. Afterwards a page waits that loads itself again."""
QUICKSTART = "quickstart"
"""The folder below DIR that the button of the empty page writes."""
MODEL = "smollm2"
# Variables of OpenAI and of compatible endpoints. Those with the keys of other vendors follow.
_VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_KEY_JUDGE", "OPENAI_BASE_URL_JUDGE")
_SUFFIXES = frozenset({".csv", ".gguf", ".json", ".jsonl", ".py", ".txt", ".yaml", ".yml"})
# Files that a field suggests, and entries of folders that are looked at for them.
_MAX_FILES = 300
_MAX_ENTRIES = 5_000
_MAX_DEPTH = 4


class SuiteLink(Struct):
    """A suite that can be started."""

    suite: str
    command: str
    summary: str


class StartListPage(Struct, kw_only=True):
    """The values of `start_list.html`."""

    suites: list[SuiteLink]
    has_model: bool
    may_write: bool
    error: str = ""


class StartPage(Struct, kw_only=True):
    """The values of `start.html`: the form."""

    form: OptionForm
    error: str
    variables: list[tuple[str, bool]]
    """Variables of the environment that models read, and whether they are set. Their values are never shown."""
    suggestions: dict[str, list[str]]
    may_write: bool
    origin: str = ""
    """The path of the run whose options the form has, as it stands in addresses."""
    left_out: list[str] = []


class PlanPage(Struct, kw_only=True):
    """The values of `plan.html`: what the run would do, and the values of the form once more."""

    form: OptionForm
    plan: str
    command: str


class StartingPage(Struct):
    """The values of `starting.html`: a process that has no run folder yet."""

    command: str


async def show_suites(request: web.Request) -> web.StreamResponse:
    """List the suites."""
    site = request.app[SITE]
    return site.render("start_list.html", await asyncio.to_thread(_list_page, site))


def _list_page(site: Site, error: str = "") -> StartListPage:
    suites = [SuiteLink(command.name, words, command.summary) for words, command in command_table().items()]
    return StartListPage(
        suites=suites,
        has_model=api.has_model(MODEL),
        may_write=os.access(site.root, os.W_OK),
        error=error,
    )


async def show_form(request: web.Request) -> web.StreamResponse:
    """Show the form of a suite. The address may have values for its fields; `?from=RUN` takes those of a run."""
    site = request.app[SITE]
    suite, values = request.match_info["suite"], dict(request.query)
    origin, left_out = values.pop("from", ""), list[str]()
    if origin:
        folder = site.folder(origin)
        origin = site.name(folder) or ""
        options = await asyncio.to_thread(_options_of, site, folder, suite)
        values, left_out = options.values | values, options.left_out
    form = await asyncio.to_thread(_form, suite, values)
    return await _show_form(site, form, origin=origin, left_out=left_out)


def _options_of(site: Site, folder: Path, suite: str) -> RunOptions:
    info = OpenRun(folder).info
    _form(suite, {})  # 404 for a suite that cannot be started
    if info.suite != suite:
        raise UsageError(f"{folder.name} is a run of {info.suite}, not of {suite}")
    return options_of_run(info.spec, suite, started_in(folder, str(info.spec.get("output_dir") or "")), site.root)


async def send_form(request: web.Request) -> web.StreamResponse:
    """Show the plan of a run, start it, or show the form again: the field `do` says which."""
    site = request.app[SITE]
    sent = await request.post()
    values = {name: value for name, value in sent.items() if isinstance(value, str)}
    # A browser sends nothing for a check box that is not set. The form says which ones it has.
    values |= dict.fromkeys(set(str(sent.get("checks", "")).split()) - values.keys(), "")
    form = await asyncio.to_thread(_form, request.match_info["suite"], values)
    try:
        words = await asyncio.to_thread(form.words, site.root)
    except UsageError as error:
        return await _show_form(site, form, str(error))
    action = sent.get("do")
    if action == "start":
        return await _start(site, words, form)
    if action == "change":
        return await _show_form(site, form, status=200)
    fine, text = await site.processes.plan(words)
    if not fine:
        return await _show_form(site, form, text)
    return site.render("plan.html", PlanPage(form=form, plan=text, command=_command(words)))


async def show_starting(request: web.Request) -> web.StreamResponse:
    """Wait for the run folder of a start, and go there."""
    site = request.app[SITE]
    start = site.processes.find(request.match_info["id"])
    if start is None:
        raise web.HTTPSeeOther("/")
    return await go_to_run(site, start, seconds=0.0)


async def start_quickstart(request: web.Request) -> web.StreamResponse:
    """Write a small task below DIR and run it with the embedded model."""
    site = request.app[SITE]
    if not (site.root / QUICKSTART / "task.yaml").is_file():
        written = await site.processes.start(["init", "task", QUICKSTART])
        if not await written.is_handed_over(HAND_OVER_SECONDS * 4) or written.exit_code:
            page = await asyncio.to_thread(_list_page, site, written.output)
            return site.render("start_list.html", page, status=422)
    words = ["task", f"{QUICKSTART}/task.yaml", "--model", f"local/{MODEL}", "--output-dir", "results"]
    return await _start(site, words, await asyncio.to_thread(_form, "task", {}))


async def _start(site: Site, words: list[str], form: OptionForm) -> web.StreamResponse:
    output = form.values.get("output_dir") or find_options(form.suite).default_output
    # The default of some suites is a sentence: it depends on the data. Then the run is looked for below all of DIR.
    places = [] if " " in output and "output_dir" not in form.values else [site.root / output]
    start = await site.processes.start(words, places=places)
    start.form = {field.name: field.value for field in form.fields}
    return await go_to_run(site, start)


async def go_to_run(site: Site, start: StartedCommand, seconds: float = HAND_OVER_SECONDS) -> web.StreamResponse:
    """Lead to the run, to the page that waits for it, or back to the form with the message of the command."""
    if not await start.is_handed_over(seconds):
        if seconds:
            raise web.HTTPSeeOther(f"/starting/{start.id}")
        return site.render("starting.html", StartingPage(_command(start.words)))
    if start.run is not None:
        name = site.name(start.run)
        raise web.HTTPSeeOther("/" if name is None else f"/run/{name}")
    suite = next(
        (
            command.name
            for words, command in command_table().items()
            if start.words[: len(words.split())] == words.split()
        ),
        "task",
    )
    form = await asyncio.to_thread(_form, suite, start.form)
    return await _show_form(site, form, start.output or f"The command ended with exit code {start.exit_code}.")


async def _show_form(
    site: Site,
    form: OptionForm,
    error: str = "",
    status: int | None = None,
    origin: str = "",
    left_out: Sequence[str] = (),
) -> web.StreamResponse:
    form.mark_error(error)
    page = StartPage(
        form=form,
        error=error,
        variables=await asyncio.to_thread(_variables, form.suite),
        suggestions=await asyncio.to_thread(_suggestions, site.root),
        may_write=os.access(site.root, os.W_OK),
        origin=origin,
        left_out=list(left_out),
    )
    return site.render("start.html", page, status=status or (422 if error else 200))


def _form(suite: str, values: dict[str, Any]) -> OptionForm:
    names = [command.name for command in command_table().values()]
    # `FILE.py:NAME` is a suite, too. Its code would run because somebody opened an address.
    if suite not in names:
        raise web.HTTPNotFound(text=unknown("suite", plain(suite), names))
    return OptionForm.of(suite, values)


def _command(words: Iterable[str]) -> str:
    return shlex.join(["assay", *words])


def _variables(suite: str) -> list[tuple[str, bool]]:
    keys = [key for about in api.providers().values() for key in about.keys]
    names = list(dict.fromkeys([*_VARIABLES, *keys]))
    if suite == "hop":
        names += sorted(name for name in os.environ if name.startswith("HOP_KEY_"))
    return [(name, bool(os.environ.get(name))) for name in names]


def _suggestions(root: Path) -> dict[str, list[str]]:
    models = [f"{name}/" for name in registry.names("model")]
    return {
        "models": [f"local/{MODEL}", *models],
        "judges": ["offline", *models],
        "memories": registry.names("memory"),
        "files": sorted(_files_below(root)),
    }


def _files_below(root: Path) -> list[str]:
    """Return some files below a folder, by their paths from it. Hidden folders and run folders are left out."""
    found: list[str] = []
    entries = 0
    for folder, names, files in os.walk(root):
        depth = len(Path(folder).relative_to(root).parts)
        names[:] = [] if depth >= _MAX_DEPTH else sorted(n for n in names if n[0] != "." and n not in _SKIPPED)
        entries += len(names) + len(files)
        found += [str(Path(folder, name).relative_to(root)) for name in files if Path(name).suffix in _SUFFIXES]
        if len(found) >= _MAX_FILES or entries >= _MAX_ENTRIES:
            break
    return found[:_MAX_FILES]


# Folders whose files nobody passes to a command.
_SKIPPED = frozenset({"assay", "node_modules", "__pycache__", "site-packages"})
