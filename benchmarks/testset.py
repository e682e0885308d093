"""A testset of a million records: read, checked and grouped."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.figures import Figure
from benchmarks.measure import REPOSITORY, environment, python

if TYPE_CHECKING:
    from collections.abc import Iterator

_FEW = 60_000  # enough for everything that long files need to be loaded
_LINE = (
    '{"id":"case_%07d","tags":["a"],"inputs":{"text":"Review %d: works as it should, I would buy it again"},'
    '"expected_outputs":{"sentiment":"positive"}}\n'
)


def testset(folder: Path, count: int) -> Iterator[Figure]:
    """CPU and memory for each record. Testsets are held: people write them by hand."""
    few, _, rest = _measured(folder, _FEW)
    many, found, peak = _measured(folder, _FEW + count)
    rate = f"{(_FEW + count) / many['load']:,.0f} records a second of CPU"
    yield Figure("CPU a record", many["load"] / (_FEW + count) * 1e6, 40.0, "us", rate)
    yield Figure("memory a record", (peak - rest) * 1e6 / count, None, "bytes", "peak over peak")
    grown = many["load"] / (_FEW + count) / (few["load"] / _FEW)
    yield Figure("CPU a record, long to short", grown, 1.5, "", f"{_FEW + count:,} and {_FEW:,} records")
    yield Figure("groups found", found, _FEW + count, "", "", exact=True)


def _measured(folder: Path, count: int) -> tuple[dict[str, Any], int, float]:
    path = folder / f"cases_{count}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(_LINE % (number, number) for number in range(count))
    env = environment(uvloop=True)
    env |= {"PYTHONPATH": f"{env['PYTHONPATH']}{os.pathsep}{REPOSITORY}"}
    used = python("-m", "benchmarks.testset", path, env=env, log=folder / f"{count}.log")
    if used.code:
        raise SystemExit(used.output)
    told = json.loads(used.output)
    return told, told["found"], used.rss


def main() -> None:
    """Load one file; prints a line of JSON."""
    from assay.suites.pipeline.testset.testsets import Testsets

    sets = Testsets([sys.argv[1]])
    started = time.process_time()
    groups = sets.load().groups
    seconds = time.process_time() - started
    print(json.dumps({"load": seconds, "found": len(groups)}))


if __name__ == "__main__":
    main()
