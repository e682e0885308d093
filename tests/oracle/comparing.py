"""What must be equal in the files of both: samples by byte, results in every key, its order and its value."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

VOLATILE = {
    "date",
    "total_evaluation_time_seconds",
    "pretty_env_info",
    "transformers_version",
    "lm_eval_version",
    "git_hash",
    "upper_git_hash",
}
"""They tell of the moment, the machine and the program."""
VOLATILE_CONFIG = {"device", "batch_size"}
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""The harness writes where in memory a function is."""
Difference = tuple[str, Any, Any]


def differences(ours: Path, theirs: Path, tasks: list[str]) -> list[Difference]:
    """Where the files of two runs differ: the place, ours, theirs."""
    found = [pair for task in tasks for pair in _samples(ours, theirs, task)]
    return found + _values(_results(ours), _results(theirs), "")


def _samples(ours: Path, theirs: Path, task: str) -> list[Difference]:
    left, right = (one_file(folder, f"samples_{task}_2*.jsonl").read_bytes() for folder in (ours, theirs))
    if b'"brier_score": [' in right:
        left = b"".join(map(_printed, left.splitlines()))
    if left == right:
        return []
    rows = list(zip(left.splitlines(), right.splitlines(), strict=False))
    at = next((number for number, (one, other) in enumerate(rows) if one != other), len(rows))
    if at == len(rows):
        return [(f"samples of {task}: rows", left.count(b"\n"), right.count(b"\n"))]
    place = f"samples of {task}, line {at + 1}"
    return _values(json.loads(rows[at][0]), json.loads(rows[at][1]), place) or [(place, *rows[at])]


def _printed(line: bytes) -> bytes:
    """The harness writes the choices' shares as numpy prints them, with eight digits; ours has them all."""
    row = json.loads(line)
    row["brier_score"][1] = str(np.array(row["brier_score"][1]))
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def _results(folder: Path) -> dict[str, Any]:
    text = ADDRESS.sub("", one_file(folder, "results_*.json").read_text(encoding="utf-8"))
    value: dict[str, Any] = json.loads(text)
    value.pop("lm_eval_quirks", None)  # which of the harness's errors were made, which it does not say
    value = {key: None if key in VOLATILE else item for key, item in value.items()}
    value["config"] = {key: None if key in VOLATILE_CONFIG else v for key, v in value["config"].items()}
    for config in value["configs"].values():
        config["metadata"].pop("config_source", None)
    return value


def one_file(folder: Path, pattern: str) -> Path:
    """The one file that fits."""
    (path,) = folder.glob(pattern)
    return path


def _values(ours: Any, theirs: Any, place: str) -> list[Difference]:
    """Every place where two values differ; the order of keys counts, and 1 is not 1.0."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        if list(ours) != list(theirs):
            return [(f"{place} keys", list(ours), list(theirs))]
        return [found for key in ours for found in _values(ours[key], theirs[key], f"{place}.{key}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [found for at, pair in pairs for found in _values(*pair, f"{place}[{at}]")]
    return [] if repr(ours) == repr(theirs) else [(place, ours, theirs)]
