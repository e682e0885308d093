"""What must be true after a disturbed run, whatever happened to it.

whole = read_whole(folder, ...)       # of an undisturbed run: report, files, cases, requests, exit code
check_start(...)                       # after each start: what was sent, what was logged, what was printed
check_end(folder, whole)               # after the last start: everything is as in the undisturbed run
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import assay
from assay.journal.lines import seed as checksum_seed, unchanged_line

from chaos.configuration import OUTPUT, typed
from chaos.process import CRASHED, MAX_MEMORY, Ended
from support.damaged_runs import read_cases, read_files, read_report, same

RUNS = f"{OUTPUT}/assay"
# Names of runs and result files have a time, and the fingerprint of a run has the port of the endpoint.
_NAMES = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(\.\d+)?"), "TIME"),
    (re.compile(r"\d{8}_\d{6}|\d{8}-\d{6}|\b\d{6}_\d{4}(?=/|$)"), "TIME"),
    (re.compile(r"(?<=-)[0-9a-f]{16}\b"), "ASK"),
)
# What a run may leave beside the files of an undisturbed one: damaged files that were kept, and earlier scorings.
_KEPT = re.compile(r"/(damaged|earlier)(/|$)|/(index|columns)\.bin$")


class Whole(NamedTuple):
    """An undisturbed run: how it ended, what is read of it, and what it asked."""

    code: int
    points: int
    requests: Counter[str]
    report: Any
    files: dict[str, Any]
    cases: dict[int, Any]
    names: list[str]


class Logged(NamedTuple):
    """What the call log of a run folder has: replies, and the number of failed calls."""

    replies: Counter[str]
    failed: int


def run_folders() -> list[Path]:
    """Return the run folders in the working folder, that of the last start at the end.

    Their names do not tell the order, because the clock of a start may jump. Each start writes its run's lock. Not by
    its time of change, which a fault may set, but by the time at which the system saw the last write.
    """
    folders = [path.parent for path in Path(RUNS).glob("*/run.json")]
    return sorted(folders, key=lambda run: ((run / "lock").stat().st_ctime_ns, run))


def read_logged(folder: Path) -> Logged:
    """Return the intact lines of all call logs. A reply that two runs have, because one lent it, counts once."""
    replies: Counter[str] = Counter()
    failed = 0
    for log in sorted(folder.glob(f"{OUTPUT}*/assay/*/calls.jsonl")):
        header, *lines = log.read_bytes().split(b"\n")
        match = re.search(rb'"run":"([0-9a-f]*)"', header)
        start = checksum_seed(match[1].decode() if match else "", "calls")
        own: Counter[str] = Counter()
        for line in lines[:-1]:
            intact = unchanged_line(line, start)
            if intact is None:
                continue
            call = json.loads(intact.content)
            if "response" in call:
                own[call["response"]["text"]] += 1
            else:
                failed += 1
        replies |= own
    return Logged(replies, failed)


def read_run(folder: Path, code: int, points: int, requests: Counter[str]) -> Whole:
    """Return what people see of the run in a folder."""
    os.chdir(folder)
    run = assay.load(run_folders()[-1])
    cases = read_cases(run.folder)
    return Whole(code, points, requests, read_report(run), read_files(run), cases, file_names(folder))


def file_names(folder: Path) -> list[str]:
    """Return the names of all files and folders of a run without times, kept files and caches of Python."""
    names = []
    for path in folder.rglob("*"):
        name = "/" + str(path.relative_to(folder))
        if "__pycache__" in name or _KEPT.search(name):
            continue
        for pattern, word in _NAMES:
            name = pattern.sub(word, name)
        names.append(name)
    return sorted(names)


def check_text(ended: Ended) -> None:
    """Raise AssertionError if a start crashed, or took too much memory."""
    assert "Traceback" not in ended.text, ended.text[-3000:]
    assert ended.code != CRASHED, ended.text[-3000:]
    assert ended.code >= 0 or ended.killed, f"ended by signal {-ended.code}: {ended.text[-2000:]}"
    assert ended.memory < MAX_MEMORY, f"took {ended.memory >> 20} MB"
    if ended.code > 0:
        assert ended.text.strip(), f"exit code {ended.code} without a word"


def check_readable(folder: Path) -> int:
    """Read a run folder, in whatever state it is, with the commands that people type. For a process of its own."""
    os.chdir(folder)
    codes = {"runs": typed(["runs", OUTPUT])} if Path(OUTPUT).is_dir() else {}
    for run in run_folders():
        codes["show"] = typed(["show", str(run)])
        codes["check"] = typed(["check", str(run)])
    wrong = {name: code for name, code in codes.items() if code not in _READERS[name]}
    assert not wrong, f"exit codes {wrong}"
    return 0


# A damaged run may be refused with 2 by `show` and named with 1 by `check`. `show` ends with the code of the run.
_READERS = {"runs": (0,), "show": (0, 1, 2, 3, 4, 130), "check": (0, 1)}


def check_same(folder: Path, whole: Whole, *, log: bool = True, names: bool = True) -> int:
    """Compare the last run in a folder with an undisturbed one. Raises AssertionError. For a process of its own."""
    run = read_run(folder, whole.code, whole.points, whole.requests)
    # The observer's file is no part of a run. A start that could not write it says so in the report.
    notices = [text for text in run.report.get("notices") or () if "observer.jsonl" not in text]
    same(
        {**run.report, "notices": notices},
        {**whole.report, "notices": whole.report.get("notices") or []},
        "report",
    )
    same(run.files, whole.files, "files")
    same(run.cases, whole.cases, "cases")
    if names:
        strays = Counter(run.names) - Counter(whole.names)
        # A start whose disk was read-only says that it could not write the observer's file, and goes on.
        missing = Counter(name for name in whole.names if not name.endswith("/observer.jsonl"))
        missing -= Counter(run.names)
        assert not strays, f"stray files {sorted(strays)}"
        assert not missing, f"missing files {sorted(missing)}"
    check_ends(run_folders()[-1])
    if log:
        replies = read_logged(folder).replies
        same(dict(replies), dict(whole.requests), "logged replies")
    return 0


def check_ends(run: Path) -> None:
    """Raise AssertionError if a case has two ends of one try."""
    for name in ("records", "scores"):
        ends: Counter[tuple[Any, ...]] = Counter()
        for line in (run / f"{name}.jsonl").read_bytes().splitlines()[1:]:
            value = json.loads(line)
            if value["type"] == "end" or "end" in value:
                end = value.get("end", value)
                ends[value["index"], end.get("try", 1), value.get("scorer", value.get("stage"))] += 1
        twice = [end for end, count in ends.items() if count > 1]
        assert not twice, f"{name}.jsonl has two ends for {twice}"
