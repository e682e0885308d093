"""The Batch tab: start a batch over a file of the task, watch it, stop it, continue it.

A batch is the command `assay hop TASK FILE --wrapper view` in a process that outlives the server. Every view on the
folder finds it again by the lock of its run folder.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from aiohttp import web
from msgspec import Struct

from assay.core.errors import AssayError, UsageError
from assay.runner.continue_command import continue_command
from assay.store.open_run import OpenRun, RunProgress
from assay.store.runs import is_locked, run_folders
from assay.suites.hop.task_folder import HopTask
from assay.view.hop.run_page import ProfileChoice, profile_choices
from assay.view.hop.site import TaskFile, TaskHead, may_write, open_task, task_files, task_head
from assay.view.live import send_fragments
from assay.view.open_runs import RunIsRead
from assay.view.processes import StartedCommand
from assay.view.site import SITE, Site

WORKERS, MAX_WORKERS = 5, 20
"""The default of HOP's View, and its limit."""
# Seconds that a page waits for a new process to say which run it works on.
_START_SECONDS = 5.0
# Run folders are called `<time>-<suite>-<fingerprint>`.
_IS_BATCH = "-hop-"


class BatchProgress(Struct, kw_only=True):
    """The values of `hop_progress.html`: how far a batch is, in the words of HOP's View."""

    state: str
    text: str
    share: float


class ShownBatch(Struct, kw_only=True):
    """The batch that is running, or the last one."""

    run: str
    """The path of its run folder below DIR, as it stands in addresses."""
    file: str
    profiles: str
    state: str
    progress: BatchProgress
    output: str
    """The name of its result file; empty before its end."""
    output_address: str
    times_stopped: int
    """How often this server has asked the batch to stop."""
    why_not_continued: str
    """Empty if the batch is unfinished and can be continued from the page."""
    can_continue: bool


class BatchPage(Struct, kw_only=True):
    """The values of `hop_batch.html`."""

    head: TaskHead
    files: list[TaskFile]
    file: str
    """The selected file."""
    workers: int
    profiles: list[ProfileChoice]
    batch: ShownBatch | None
    is_starting: bool
    live: str
    message: str = ""
    """What a command printed that ended before it had a run, or why the last batch cannot be read."""
    error: str = ""

    @property
    def is_busy(self) -> bool:
        """Whether a batch of the task is running or about to run."""
        return self.is_starting or (self.batch is not None and self.batch.state == "running")


async def show(request: web.Request) -> web.StreamResponse:
    """Show the form and the newest batch. The address has the choices of the form, and perhaps a start."""
    site = request.app[SITE]
    task = await open_task(request)
    page = await _page(site, task, dict(request.query))
    return site.render("hop_batch.html", page)


async def act(request: web.Request) -> web.StreamResponse:
    """Do what a button says: start, stop or continue. Then show the batch."""
    site = request.app[SITE]
    task = await open_task(request)
    form = {name: value for name, value in (await request.post()).items() if isinstance(value, str)}
    chosen = {name: form[name] for name in ("file", "workers", "profile") if form.get(name)}
    try:
        start = await _act(site, task, form)
    except UsageError as error:
        page = await _page(site, task, chosen)
        page.error = str(error)
        return site.render("hop_batch.html", page, status=400)
    if start is not None and start.run is None and start.is_over:
        page = await _page(site, task, chosen)
        page.error, page.message = "The batch did not start.", start.output
        return site.render("hop_batch.html", page, status=400)
    if start is not None and not start.is_over:
        chosen["start"] = start.id
    query = "?" + urlencode(chosen, errors="replace") if chosen else ""
    raise web.HTTPSeeOther(f"/hop/batch/{site.name(task.folder) or ''}{query}")


async def stream(request: web.Request) -> web.StreamResponse:
    """Send the progress of the running batch, until it ends."""
    site = request.app[SITE]
    task = await open_task(request)

    async def look() -> tuple[dict[str, str], bool]:
        folder = await asyncio.to_thread(_newest, task)
        if folder is None or not await asyncio.to_thread(is_locked, folder):
            return {}, True
        try:
            progress = _progress(await site.runs.ask(folder, OpenRun.progress), "")
        except RunIsRead:
            return {}, False  # its index is not ready yet
        return {"batch-progress": site.fragment("hop_progress.html", progress)}, False

    return await send_fragments(request, look)


async def _act(site: Site, task: HopTask, form: dict[str, str]) -> StartedCommand | None:
    action = form.get("do", "")
    if not await asyncio.to_thread(may_write, task):
        raise UsageError("This user may not write into the folder of the task.")
    if action == "start":
        return await _start(site, task, form)
    folders = await asyncio.to_thread(_batches, task)
    # A run is looked up among those of the task, never made into a path.
    folder = next((each for each in folders if site.name(each) == form.get("run")), None)
    if folder is None:
        raise UsageError("This batch is gone.")
    if action == "stop":
        await site.processes.stop(folder)
        return None
    if action != "continue":
        raise UsageError("The button is not known. Reload the page.")
    with _only_start(task):
        start = await site.processes.resume(folder)
        await start.is_handed_over(_START_SECONDS)
    return start


async def _start(site: Site, task: HopTask, form: dict[str, str]) -> StartedCommand:
    """Start the command of a batch. Raises UsageError if the form has a value that is not one of its choices."""
    if not task.has_code or task.problem:
        raise UsageError("This task cannot run now: see the top of the page.")
    files = await asyncio.to_thread(task_files, site, task)
    file = next((each for each in files if each.name == form.get("file")), None)
    if file is None or not file.count.records:
        raise UsageError("Choose a file with records.")
    words = ["hop", str(task.folder), str(file.path), "--wrapper", "view"]
    if task.profiles:
        if form.get("profile") not in [profile.name for profile in task.profiles]:
            raise UsageError("Choose a profile.")
        words.append(f"--profiles={form['profile']}")
    # Start means a new batch, also over a file that was run before. Continue goes on with the one that is there.
    words += ["--workers", str(_workers(form.get("workers", ""))), "--fresh"]
    with _only_start(task):
        start = await site.processes.start(words, Path.cwd(), [task.test_cases])
        await start.is_handed_over(_START_SECONDS)
    return start


def _workers(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:4]) <= MAX_WORKERS):
        raise UsageError(f"The number of workers is from 1 to {MAX_WORKERS}.")
    return int(text)


@contextmanager
def _only_start(task: HopTask) -> Iterator[None]:
    """Context manager: nobody else starts a batch of the task. Raises UsageError if one is running or starting.

    The folder itself is locked, so that a second view on it waits too, and no file is left behind.
    """
    fd = os.open(task.test_cases, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if any(map(is_locked, _batches(task))):
            raise UsageError("A batch of this task is running. Stop it first, or wait for its end.")
        yield
    except BlockingIOError:
        raise UsageError("Another page is starting a batch of this task.") from None
    finally:
        os.close(fd)


def _batches(task: HopTask) -> list[Path]:
    """Return the run folders of the task's batches, the oldest first."""
    return [folder for folder in run_folders(task.test_cases) if _IS_BATCH in folder.name]


def _newest(task: HopTask) -> Path | None:
    """Return the batch to show: the one that is running, else the last one."""
    folders = _batches(task)
    return next(filter(is_locked, reversed(folders)), folders[-1] if folders else None)


async def _page(site: Site, task: HopTask, chosen: dict[str, str]) -> BatchPage:
    name = site.name(task.folder) or ""
    files = [file for file in await asyncio.to_thread(task_files, site, task) if file.count.records]
    start = site.processes.find(chosen.get("start", ""))
    if start is not None:
        await start.is_handed_over(0)
    folder = await asyncio.to_thread(_newest, task)
    batch, problem = None, ""
    try:
        batch = await _shown_batch(site, folder, name) if folder is not None else None
    except AssayError as error:  # a damaged run must not keep the person from starting another one
        problem = str(error)
    inputs = next((file for file in files if not file.count.results), None)
    workers = chosen.get("workers", "")
    page = BatchPage(
        head=task_head(site, task, "batch"),
        files=files,
        file=chosen.get("file") or (inputs.name if inputs else ""),
        workers=int(workers) if workers.isascii() and workers.isdigit() and len(workers) < 4 else WORKERS,
        profiles=profile_choices(task, chosen.get("profile", "")),
        batch=batch,
        is_starting=start is not None and not start.is_over,
        live=f"/hop/live/batch/{name}" if batch is not None and batch.state == "running" else "",
        message=problem,
    )
    if start is not None and start.is_over and start.run is None:
        page.error, page.message = "The batch did not start.", start.output
    return page


async def _shown_batch(site: Site, folder: Path, task_name: str) -> ShownBatch:
    batch = await site.runs.ask(folder, lambda run: _read(run, site, task_name))
    batch.times_stopped = site.processes.times_stopped(folder)
    if batch.state not in ("running", "finished"):
        command = await asyncio.to_thread(continue_command, folder)
        batch.why_not_continued = command if isinstance(command, str) else ""
        batch.can_continue = not isinstance(command, str)
    return batch


def _read(run: OpenRun, site: Site, task_name: str) -> ShownBatch:
    progress, summary = run.progress(), run.summary()
    options = run.info.spec.get("options") or {}
    is_over = progress.state != "running"
    output = Path(summary.files[0]).name if summary and summary.files and is_over else ""
    return ShownBatch(
        run=site.name(run.folder) or "",
        file=Path(str(options.get("data", ""))).name,
        profiles=", ".join(map(str, options.get("profiles") or [])),
        state=progress.state,
        progress=_progress(progress, output),
        output=output,
        output_address=f"/hop/history/{task_name}?" + urlencode({"file": output}, errors="replace"),
        times_stopped=0,
        why_not_continued="",
        can_continue=False,
    )


def _progress(progress: RunProgress, output: str) -> BatchProgress:
    """Return `c/t (p%) e errors`, and ` -- Done: file` at the end. The share is rounded down: 100% is all."""
    errors = progress.subject_error + progress.infra_error
    text = f"{progress.done}/{progress.total} ({int(progress.share * 100)}%) {errors} errors"
    if output and progress.state == "finished":
        text += f" -- Done: {output}"
    return BatchProgress(state=progress.state, text=text, share=progress.share)
