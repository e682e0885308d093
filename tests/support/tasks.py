"""Writes tasks whose correct answers the fake endpoint knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from servers.fake_openai import number_of, share

SEED = 1234
"""The base seed of a run that names none."""
_FIND = {"function": "regex", "regex_pattern": "the answer is ([0-9])"}
FILTERS = [
    {"name": "first", "filter": [_FIND, {"function": "take_first"}]},
    {"name": "vote", "filter": [_FIND, {"function": "majority_vote"}, {"function": "take_first"}]},
]
MARKED = 0.6
"""About this share of the docs is answered rightly."""


def question(number: int) -> str:
    """Return the prompt of a document."""
    return f"Q{number}: which number from 0 to 3?"


def right(number: int) -> bool:
    """Return whether the first reply to a document is the target."""
    return share("right", number) < MARKED


def write_task(folder: Path, docs: int, *, padding: int = 0, **config: Any) -> Path:
    """Write a task file and its data. `padding` makes documents, and so samples, longer, but not prompts."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = (json.dumps(_doc(number) | {"padding": "x" * padding}) for number in range(docs))
    (folder / "docs.jsonl").write_text("\n".join(rows) + "\n")
    task = {
        "task": "numbers",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": "docs.jsonl"}},
        "test_split": "test",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{number}}",
        "filter_list": FILTERS,
        "metric_list": [{"metric": "exact_match"}],
    }
    path = folder / "numbers.yaml"
    path.write_text(yaml.safe_dump(task | config))
    return path


def _doc(number: int) -> dict[str, str]:
    said = number_of(question(number), SEED)
    return {"question": question(number), "number": str(said if right(number) else (said + 1) % 4)}
