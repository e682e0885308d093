"""The same run by lm-evaluation-harness (`--model hf`) and by assay, and the differences between their files."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import assay

Difference = tuple[str, Any, Any]
TOLERANCE = 1e-6


class Harness:
    """lm-evaluation-harness in a process of its own that lives on, for its start takes seconds."""

    def __init__(self, home: Path) -> None:
        self._log = (home / "harness.log").open("w+", encoding="utf-8")
        self._child = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("harness_worker.py"))],
            env={**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._child.communicate()
        self._log.close()

    def run(self, **job: Any) -> Path:
        """Run tasks; return the folder with the results."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        print(json.dumps(job), file=self._child.stdin, flush=True)
        reply = json.loads(self._child.stdout.readline() or '{"error": "it ended"}')
        assert "error" not in reply, reply["error"]
        return only(Path(job["output"]), "*")


def run_assay(output: Path, model: Path, **values: Any) -> Path:
    """Run tasks with assay; return the folder with the results."""
    run = assay.run(assay.spec("task", model=f"hf/{model}", output_dir=str(output), **values))
    assert run.exit_code == 0, run.reason or run.summary
    return run.files[0].parent


def only(folder: Path, pattern: str) -> Path:
    """The one path that fits."""
    (path,) = folder.glob(pattern)
    return path


class Comparison:
    """Differences between the files of two runs. `without` has keys of samples that are not compared.

    `largest` is the largest difference between two numbers, relative for numbers above 1.
    """

    def __init__(self, ours: Path, theirs: Path, tasks: list[str], without: frozenset[str] = frozenset()) -> None:
        self.largest = 0.0
        self.numbers = self.inexact = self.texts = 0
        self.differences: list[Difference] = []
        for task in tasks:
            one, other = (_read_rows(only(folder, f"samples_{task}_2*.jsonl")) for folder in (ours, theirs))
            for row in one + other:
                for key in without:
                    del row[key]
            self.differences += self._compare(one, other, task)
        one, other = (json.loads(only(folder, "results_*.json").read_bytes()) for folder in (ours, theirs))
        for key in ("results", "n-shot", "n-samples", "higher_is_better"):
            self.differences += self._compare(one[key], other[key], key)

    def _compare(self, ours: Any, theirs: Any, place: str) -> Iterator[Difference]:
        if isinstance(ours, dict) and isinstance(theirs, dict):
            if list(ours) != list(theirs):
                yield f"{place} keys", list(ours), list(theirs)
                return
            for key in ours:
                yield from self._compare(ours[key], theirs[key], f"{place}.{key}")
        elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
            for at, (one, other) in enumerate(zip(ours, theirs, strict=True)):
                yield from self._compare(one, other, f"{place}[{at}]")
        elif not self._equal(ours, theirs):
            yield place, ours, theirs

    def _equal(self, ours: Any, theirs: Any) -> bool:
        # Likelihoods are written as text in samples files.
        try:
            one, other = float(ours), float(theirs)
        except (TypeError, ValueError):
            self.texts += 1
            return repr(ours) == repr(theirs)
        self.numbers += 1
        if repr(ours) == repr(theirs):
            return True
        self.inexact += 1
        self.largest = max(self.largest, abs(one - other) / max(1.0, abs(other)))
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _read_rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
