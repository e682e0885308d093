"""`assay hop` on functions that do nothing: what a row costs, and how many run at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import overhead
from benchmarks.figures import Figure
from benchmarks.measure import Server, Used, environment, python

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKERS = 20
SLEEPS = 200
_FUNCTIONS = """\
import threading
import time

_lock, _open = threading.Lock(), 0


async def nothing(session, fields):
    return {"supported": True}


def sleeps(session, fields):
    global _open
    with _lock:
        _open += 1
        seen = _open
    time.sleep(0.05)
    with _lock:
        _open -= 1
    return {"supported": True, "open": seen}
"""
_CONTRACT = """\
inputs: {context: string, claim: string}
outputs: {supported: bool, open: int}
"""


def hop(folder: Path, endpoint: Server, count: int, turns: int) -> Iterator[Figure]:
    """CPU of a row with contract, expectations, observer and result file; then rows that sleep in threads.

    The row is also compared with a case of `overhead`: a task that asks the endpoint as many questions, once each.
    """
    (folder / "functions.py").write_text(_FUNCTIONS, encoding="utf-8")
    (folder / "contract.yaml").write_text(_CONTRACT, encoding="utf-8")
    many, one = _rows(folder / "many.jsonl", count), _rows(folder / "one.jsonl", 1)
    asked = overhead.one_each(folder, count)
    rows, starts, cases = [], [], []
    for turn in range(turns):
        starts.append(_run(folder, "nothing", one, turn).cpu)
        rows.append(_run(folder, "nothing", many, turn))
        cases.append(overhead.assay_turn(asked, endpoint, folder, environment(uvloop=True)).cpu)
    used, empty = min(rows, key=lambda used: used.cpu), min(starts)
    each, case = (used.cpu - empty) / count * 1e3, min(cases) / count * 1e3
    note = f"{used.cpu:.2f} s for {count:,} rows, {empty:.2f} s for one"
    yield Figure("CPU of a row, async no-op", each, 0.15, "ms", note)
    note = f"{each * 1e3:.0f} / {case * 1e3:.0f} us; with both starts {used.cpu / min(cases):.2f}"
    yield Figure("CPU of a row against a case of `overhead`", each / case, 0.8, "x", note)
    yield Figure("peak memory", used.rss, 80.0, "MB", "")
    yield from _asleep(folder)


def _asleep(folder: Path) -> Iterator[Figure]:
    data = _rows(folder / "asleep.jsonl", SLEEPS)
    _run(folder, "sleeps", data, 0)
    output = folder / "sleeps-0-asleep"
    seen = _lines(output / "observer.jsonl")
    wall = max(line["timestamp"] for line in seen) - min(line["timestamp"] for line in seen)
    (results,) = output.glob("asleep_*.jsonl")
    rows = [json.loads(line["hop_result"]) for line in _lines(results) if "hop_result" in line]
    ideal = SLEEPS / WORKERS * 0.05
    note = f"{SLEEPS} rows of 50 ms, {WORKERS} workers; {ideal:g} s is the least"
    yield Figure("seconds of a sync function that sleeps", wall, 1.5 * ideal, "s", note)
    yield Figure("rows at once", max(row["open"] for row in rows), WORKERS, "", "", exact=True)


def _run(folder: Path, function: str, data: Path, turn: int) -> Used:
    output = folder / f"{function}-{turn}-{data.stem}"
    command = ["hop", f"{folder}/functions.py:{function}", data, "--workers", WORKERS]
    env = environment(uvloop=True)
    used = python("-m", "assay", *command, "--output-dir", output, env=env, log=folder / "hop.log")
    if used.code or not list(output.glob(f"{data.stem}_*.jsonl")):
        raise SystemExit(used.output)
    return used


def _rows(path: Path, count: int) -> Path:
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            file.write(json.dumps(_row(number)) + "\n")
    return path


def _row(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "tag": f"tag{number % 5}",
        "difficulty": "easy",
        "context": f"The company earned {number} million in 2023.",
        "claim": f"It earned {number} million.",
        "expected_supported": number % 5 != 0,
    }


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
