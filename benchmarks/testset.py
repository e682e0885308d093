"""A testset of a million records: read, checked and counted, without being held."""

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
    """CPU and memory for each record of one pass, and CPU of the pass that builds the groups."""
    few, _, rest = _measured(folder, _FEW)
    many, found, peak = _measured(folder, _FEW + count)
    rate = f"{(_FEW + count) / many['look']:,.0f} records a second of CPU"
    yield Figure("CPU a record, checked", many["look"] / (_FEW + count) * 1e6, 20.0, "us", rate)
    yield Figure("CPU a record, built", many["groups"] / (_FEW + count) * 1e6, None, "us", "the second pass")
    yield Figure("memory a record", (peak - rest) * 1e6 / count, 64.0, "bytes", "both passes, peak over peak")
    grown = many["look"] / (_FEW + count) / (few["look"] / _FEW)
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
    """Both passes over one file, as a line of JSON."""
    from assay.suites.pipeline.testset.testsets import Testsets

    sets = Testsets([sys.argv[1]])
    started = time.process_time()
    groups = sets.look().groups
    looked = time.process_time()
    found = sum(1 for _ in sets.groups())
    built = time.process_time()
    assert found == groups
    print(json.dumps({"look": looked - started, "groups": built - looked, "found": found}))


if __name__ == "__main__":
    main()
