"""The page of all HOP tasks below DIR."""

from __future__ import annotations

import asyncio

from aiohttp import web
from msgspec import Struct

from assay.suites.hop.task_folder import find_tasks, read_task
from assay.view.hop.site import TABS
from assay.view.site import SITE, Site


class TaskLine(Struct, kw_only=True):
    """One line of the list."""

    title: str
    folder: str
    """The folder below DIR, unless it is the title: two tasks may have one title."""
    name: str
    version: str
    inputs: int
    outputs: int
    profiles: list[str]
    files: int
    problem: str

    @property
    def tabs(self) -> list[tuple[str, str]]:
        """Title and address of each tab."""
        return [(title, f"/hop/{tab}/{self.name}") for tab, title in TABS.items()]


class TasksPage(Struct):
    """The values of `hop_tasks.html`."""

    lines: list[TaskLine]


async def show(request: web.Request) -> web.StreamResponse:
    """List the tasks."""
    site = request.app[SITE]
    return site.render("hop_tasks.html", TasksPage(await asyncio.to_thread(_lines, site)))


def _lines(site: Site) -> list[TaskLine]:
    lines = []
    for folder in find_tasks(site.root):
        task = read_task(folder)
        below = folder.relative_to(site.root).as_posix()
        lines.append(
            TaskLine(
                title=task.name,
                folder="" if below in (task.name, ".") else below,
                name=site.name(folder) or "",
                version=task.contract.version,
                inputs=len(task.contract.inputs),
                outputs=len(task.contract.outputs),
                profiles=[profile.name for profile in task.profiles],
                files=len(task.data_files),
                problem=task.problem,
            )
        )
    return lines
