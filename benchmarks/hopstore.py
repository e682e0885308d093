"""A folder with a million results of a batch test: loaded, asked for its numbers, and for one page."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.figures import Figure
from benchmarks.measure import REPOSITORY, Used, environment, python

if TYPE_CHECKING:
    from collections.abc import Iterator

_ERRORS = 20
"""One result of so many is an error."""
_ROW = (
    '{"id": %d, "tag": "tag%d", "context_window": "The company had a revenue of 120 in 2023", '
    '"model_output": "It had 200", "expected_hallucination_detected": true, "hop_result": %s, "hop_stats": '
    '{"retry_count": 0, "execution_path": [{"step": 1, "op": "hop_get", "status": "OK"}], %s}, '
    '"profile": "%s"}\n'
)
_FIELDS = '{"hallucination_detected": %s, "score": %d, "reason": "a sentence about %d", "errors": [{"type": "%s"}]}'


def hopstore(folder: Path, count: int, turns: int) -> Iterator[Figure]:
    """CPU of loading with the numbers, and of a sorted page: the best turn; the peak of memory: the worst."""
    data = folder / "TestCases"
    data.mkdir()
    size = _write(data / "results.jsonl", count)
    used = [_turn(data, folder / "store.log") for _ in range(turns)]
    told = min((json.loads(turn.output) for turn in used), key=lambda told: told["load"] + told["stats"])
    both, load = told["load"] + told["stats"], told["load"]
    yield Figure("CPU of loading and get_stats", both, 3.0, "s", f"{count:,} results, {size / 1e6:.0f} MB")
    yield Figure("CPU of loading", load, None, "s", f"{load / count * 1e6:.1f} us a result")
    yield Figure("CPU of get_stats", told["stats"], None, "s", "loaded before")
    yield Figure("CPU of a sorted page", told["page"], None, "s", "50 results, by a field")
    yield Figure("peak memory", max(turn.rss for turn in used), 500.0, "MB", "everything")
    yield Figure("results counted", told["total"], count, "", "", exact=True)
    yield Figure("errors counted", told["errors"], -(-count // _ERRORS), "", "", exact=True)


def _turn(data: Path, log: Path) -> Used:
    env = environment(uvloop=True)
    env |= {"PYTHONPATH": f"{env['PYTHONPATH']}{os.pathsep}{REPOSITORY}"}
    used = python("-m", "benchmarks.hopstore", data, env=env, log=log)
    if used.code:
        raise SystemExit(used.output)
    return used


def _write(path: Path, count: int) -> int:
    with path.open("w", encoding="utf-8") as file:
        file.write('{"_type": "meta", "profile": "a", "run_llm": "m", "verify_llm": "m", "run_params": {}}\n')
        file.writelines(_row(number) for number in range(count))
    return path.stat().st_size


def _row(number: int) -> str:
    result, status = "null", '"status": "ERROR", "error": "timeout"'
    if number % _ERRORS:
        status, kind = '"status": "OK"', ("number", "name", "date")[number % 3]
        result = json.dumps(_FIELDS % ("true" if number % 3 else "false", number % 5 + 1, number, kind))
    return _ROW % (number, number % 11, result, status, "ab"[number % 2])


def main() -> None:
    """What each question used, as a line of JSON."""
    from assay.suites.hop.store import BaseDataStore, FieldAggregation, ViewConfig

    fields = [
        FieldAggregation("score", "int", "mean"),
        FieldAggregation("hallucination_detected", "bool", "rate"),
        FieldAggregation("errors", "array", "distribution", sub_field="type"),
        FieldAggregation("reason", "string", "non_null_rate"),
    ]
    config = ViewConfig(output_fields=fields, sortable_columns=["score"], audit_key_field="score")
    store = BaseDataStore(Path(sys.argv[1]), config)
    found: dict[str, Any] = {}
    for name, ask in (
        ("load", store.load_results),
        ("stats", store.get_stats),
        ("page", lambda: store.query_results(sort_by="score")),
    ):
        before = time.process_time()
        ask()
        found[name] = time.process_time() - before
    told = store.get_stats()
    print(json.dumps(found | {"total": told["total"], "errors": told["errors"]}))


if __name__ == "__main__":
    main()
