"""The pages about judges: all calibrations, and for one run its judges, how far they agree, and labels of people."""

from __future__ import annotations

import asyncio
import shlex
from collections import Counter
from pathlib import Path

from aiohttp import web
from msgspec import Struct

from assay.core.errors import AssayError
from assay.core.judges import Calibration, JudgeInfo
from assay.store.calibrations import list_calibrations
from assay.store.judge_agreement import MAX_ANSWERS, JudgePair, judge_pairs
from assay.store.judges import with_calibration
from assay.store.labels import read_labels
from assay.store.open_run import OpenRun
from assay.store.runs import run_folders
from assay.view.processes import may_write
from assay.view.site import SITE, Site

MAX_RUNS = 50
"""Runs of the list of judges. The newest ones are looked at: their whole reports have to be read."""


class JudgedRun(Struct, kw_only=True):
    """A run with a judge or with labels of people."""

    name: str
    title: str
    suite: str
    judges: list[JudgeInfo]
    labels: dict[str, int]
    """Answers that each person has labelled."""


class JudgesPage(Struct, kw_only=True):
    """The values of `judges.html`."""

    calibrations: list[Calibration]
    warnings: list[str]
    runs: list[JudgedRun]
    all_runs: int


class RunJudgesPage(Struct, kw_only=True):
    """The values of `run_judges.html`."""

    run: JudgedRun
    pairs: list[JudgePair]
    is_cut: bool
    """Whether the judges have more answers than were compared."""
    may_write: bool
    command: str
    """The command that measures a judge against the labels of this run."""


async def show(request: web.Request) -> web.StreamResponse:
    """Show all calibrations, and the newest runs with a judge."""
    site = request.app[SITE]
    return site.render("judges.html", await asyncio.to_thread(_page, site))


async def show_run(request: web.Request) -> web.StreamResponse:
    """Show the judges of one run."""
    site = request.app[SITE]
    folder = site.folder(request.match_info["run"])

    def read(run: OpenRun) -> RunJudgesPage:
        judged = _judged_run(site, run)
        judge = judged.judges[0].name if judged.judges else "NAME"
        pairs = judge_pairs(run)
        return RunJudgesPage(
            run=judged,
            pairs=pairs,
            is_cut=any(pair.agreement.n >= MAX_ANSWERS for pair in pairs),
            may_write=may_write(folder),
            command=calibrate_command(judge, folder),
        )

    return site.render("run_judges.html", await site.runs.ask(folder, read))


def calibrate_command(judge: str, folder: Path) -> str:
    """Return the command that measures a judge against the labels of a run."""
    return shlex.join(["assay", "judge", "calibrate", "--judge", judge, "--labels", str(folder)])


def _page(site: Site) -> JudgesPage:
    warnings: list[str] = []
    runs = []
    folders = [folder for folder in run_folders(site.root) if site.name(folder) is not None]
    for folder in folders[::-1][:MAX_RUNS]:
        try:
            run = _judged_run(site, OpenRun(folder))
        except AssayError:  # a damaged run; the list of runs says what is wrong with it
            continue
        if run.judges or run.labels:
            runs.append(run)
    return JudgesPage(
        calibrations=list_calibrations(warnings.append), warnings=warnings, runs=runs, all_runs=len(folders)
    )


def _judged_run(site: Site, run: OpenRun) -> JudgedRun:
    summary = run.summary()
    judges = summary.report.judges() if summary is not None and summary.report is not None else []
    labelled = {(label.by, label.key) for label in read_labels(run.folder)}
    return JudgedRun(
        name=site.name(run.folder) or "",
        title=run.folder.name,
        suite=run.info.suite,
        judges=[with_calibration(judge) for judge in judges],
        labels=dict(Counter(by for by, _ in sorted(labelled))),
    )
