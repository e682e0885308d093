"""What a person can do to a run on its page: stop it, continue it, read its output, and write notes and tags."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aiohttp import web
from msgspec import Struct

from assay.core.errors import AssayError, UsageError
from assay.core.run_end import BAD_INPUT
from assay.store.notes import change_notes
from assay.store.open_run import OpenRun
from assay.suites import command_table
from assay.view.pages.start import go_to_run
from assay.view.processes import LOG, may_write, page_command, read_end
from assay.view.site import SITE, Site
from assay.view.text import Preview, preview


class RunActions(Struct, kw_only=True):
    """The buttons of a run. A user who may not write to its folder gets none."""

    may_write: bool
    may_stop: bool
    times_stopped: int
    """How often it was asked to stop. The second time it waits for no request, the third time it is killed."""
    may_continue: bool
    why_not: str
    """Why a run that is not finished has no button to continue it."""
    has_output: bool
    may_start_again: bool
    """Whether the suite has a form, which can be filled with the options of this run."""


class OutputPage(Struct, kw_only=True):
    """The values of `output.html`: what the newest start of a run from a page printed."""

    name: str
    title: str
    text: Preview
    is_running: bool


def actions_of(site: Site, folder: Path, state: str) -> RunActions:
    """Return the buttons of a run. Reads small files, and the summary of a run that is incomplete."""
    writable = may_write(folder)
    is_running = state == "running"
    command = "" if is_running or state == "finished" else page_command(folder)
    summary = OpenRun(folder).summary() if state == "incomplete" else None
    if summary is not None and summary.exit_code == BAD_INPUT:
        # The same command would meet the same rows.
        command = f"{summary.end_sentence}. Correct the task or its data."
    return RunActions(
        may_write=writable,
        may_stop=writable and is_running,
        times_stopped=site.processes.times_stopped(folder),
        may_continue=writable and isinstance(command, tuple),
        why_not=command if isinstance(command, str) else "",
        has_output=(folder / LOG).is_file(),
        may_start_again=_has_form(folder) and may_write(site.root),
    )


def _has_form(folder: Path) -> bool:
    try:
        info = OpenRun(folder).info
    except AssayError:
        return False
    # A run from another program has no options of ours.
    return info.imported is None and info.suite in {command.name for command in command_table().values()}


async def stop(request: web.Request) -> web.StreamResponse:
    """Ask the process of a run to stop."""
    site = request.app[SITE]
    folder = site.folder(request.match_info["run"])
    _refuse_read_only(may_write(folder))
    await site.processes.stop(folder)
    raise web.HTTPSeeOther(f"/run/{site.name(folder)}")


async def resume(request: web.Request) -> web.StreamResponse:
    """Continue a run with its own command."""
    site = request.app[SITE]
    folder = site.folder(request.match_info["run"])
    _refuse_read_only(may_write(folder))
    return await go_to_run(site, await site.processes.resume(folder))


async def note(request: web.Request) -> web.StreamResponse:
    """Add a note and tags to a run, or remove a tag."""
    site = request.app[SITE]
    folder = site.folder(request.match_info["run"])
    _refuse_read_only(may_write(folder))
    sent = await request.post()
    tags = str(sent.get("tags", "")).replace(",", " ").split()
    removed = [str(sent["remove"])] if "remove" in sent else []
    text = str(sent.get("text", ""))
    await asyncio.to_thread(change_notes, folder, text=text, add_tags=tags, remove_tags=removed)
    raise web.HTTPSeeOther(f"/run/{site.name(folder)}#notes")


async def show_output(request: web.Request) -> web.StreamResponse:
    """Show what the newest start from a page printed."""
    site = request.app[SITE]
    folder = site.folder(request.match_info["run"])
    text = await asyncio.to_thread(read_end, folder / LOG)
    state = await site.runs.ask(folder, OpenRun.state)
    page = OutputPage(
        name=site.name(folder) or "",
        title=folder.name,
        text=preview(text, whole=True),
        is_running=state == "running",
    )
    return site.render("output.html", page)


def _refuse_read_only(writable: bool) -> None:
    if not writable:
        raise UsageError("This user may not write to the folder of the run.")
