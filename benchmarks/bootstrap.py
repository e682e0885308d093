"""Standard errors by bootstrap: CPU and memory of ours, and the harness's own beside them.

`ASSAY_LM_EVAL_PYTHON` names an interpreter that has `lm_eval[api]`; without it only ours are measured. The
harness is drawn from less often and scaled up: all its draws cost the same, and 100,000 take it minutes.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from benchmarks.measure import REPOSITORY, environment, python

DOCS = 1319  # GSM8K's
THEIR_DRAWS = 1000
STATISTICS = ("median", "nanmean", "perplexity", "f1", "matthews_corrcoef")
_FASTER = {"f1": 1 / 50, "matthews_corrcoef": 1 / 50}

Stderr = Callable[[str, list[Any], int], float | None]


def bootstraps(folder: Path, draws: int) -> Iterator[Figure]:
    """Every statistic of ours, and its share of the harness's CPU where there is a harness."""
    ours, peak = _measured(folder, sys.executable, "ours", draws)
    for name in STATISTICS:
        yield Figure(f"CPU, {name}", ours[name]["cpu"], 2.0, "s", f"{draws:,} draws of {DOCS:,} documents")
    yield Figure("peak memory", peak, 80.0, "MB")
    if harness := os.environ.get("ASSAY_LM_EVAL_PYTHON"):
        few = min(draws, THEIR_DRAWS)
        theirs, _ = _measured(folder, harness, "harness", few)
        same, _ = _measured(folder, sys.executable, "ours", few)
        for name in STATISTICS:
            scaled = theirs[name]["cpu"] * draws / few
            note = f"the harness would take {scaled:.1f} s"
            yield Figure(f"share of its CPU, {name}", ours[name]["cpu"] / scaled, _FASTER.get(name), "", note)
            equal = same[name]["stderr"] == theirs[name]["stderr"]
            yield Figure(f"equal to the bit, {name}", int(equal), 1, "", f"{few:,} draws", exact=True)


def _measured(folder: Path, interpreter: str, who: str, draws: int) -> tuple[dict[str, Any], float]:
    env = environment(uvloop=True)
    env |= {"PYTHONPATH": f"{env['PYTHONPATH']}{os.pathsep}{REPOSITORY}", "DISABLE_MULTIPROC": "1"}
    log = folder / f"{who}.log"
    used = python("-m", "benchmarks.bootstrap", who, draws, env=env, log=log, interpreter=interpreter)
    if used.code:
        raise SystemExit(used.output)
    lines = [line for line in used.output.splitlines() if line.startswith("{")]
    return {found["name"]: found for found in map(json.loads, lines)}, used.rss


def _values(name: str) -> list[Any]:
    stream = random.Random(1)
    if name in _FASTER:
        return [[stream.randint(0, 1), stream.randint(0, 1)] for _ in range(DOCS)]
    return [-stream.random() for _ in range(DOCS)]


def _ours() -> Stderr:
    import numpy as np

    from assay.scoring.statistics import stderr

    assert np  # loaded before the clock runs
    return stderr


def _theirs() -> Stderr:
    import warnings

    from lm_eval.api.metrics import stderr_for_metric
    from lm_eval.api.registry import get_aggregation

    warnings.simplefilter("ignore")  # a draw without label 1
    for name in STATISTICS:
        get_aggregation(name)(_values(name))  # it imports scikit-learn when it is first asked
    return lambda name, values, draws: float(stderr_for_metric(get_aggregation(name), draws)(values))


def main() -> None:
    """One line for each statistic: its CPU seconds and standard error."""
    stderr = _ours() if sys.argv[1] == "ours" else _theirs()
    for name in STATISTICS:
        values = _values(name)
        started = time.process_time()
        error = stderr(name, values, int(sys.argv[2]))
        cpu = time.process_time() - started
        print("\n" + json.dumps({"name": name, "cpu": cpu, "stderr": error}))


if __name__ == "__main__":
    main()
