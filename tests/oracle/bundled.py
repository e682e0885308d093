"""The tasks inside the installed lm_eval package, and the same tasks over invented data."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from oracle.inventing import documents

SPLITS = ("training_split", "validation_split", "test_split", "fewshot_split")


class _Loader(yaml.CSafeLoader):
    """Marks what is Python."""


class Python(str):
    """A `!function`."""

    __slots__ = ()


_Loader.add_constructor("!function", lambda loader, node: Python(node.value))


def folder() -> Path:
    """Where the package keeps its tasks; it is not imported."""
    spec = importlib.util.find_spec("lm_eval")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "tasks"


class Bundled(NamedTuple):
    """One task of the package, its includes merged."""

    path: Path
    values: dict[str, Any]

    @property
    def task(self) -> bool:
        """A task in YAML: no group, no part to be included, no Python class."""
        values = self.values
        return isinstance(values.get("task"), str) and "group" not in values and "class" not in values

    @property
    def plain(self) -> bool:
        """A task of YAML alone, which text is enough for."""
        values = self.values
        asked = all(values.get(key) is not None for key in ("doc_to_text", "doc_to_target"))
        return self.task and asked and not _has_python(values) and "doc_to_image" not in values

    def over(self, name: str, where: Path) -> None:
        """Write a task that includes this one and reads invented data, and the data."""
        values = self.values
        splits = {str(values[key]) for key in SPLITS if values.get(key)}
        splits |= {str(split) for split in [(values.get("fewshot_config") or {}).get("split")] if split}
        files = {split: str(where / f"{name}.{at}.jsonl") for at, split in enumerate(sorted(splits))}
        count = (values.get("num_fewshot") or 0) + 3
        for split, path in files.items():
            lines = [json.dumps(row) + "\n" for row in documents(values, split, count)]
            Path(path).write_text("".join(lines), encoding="utf-8")
        task: dict[str, Any] = {
            "include": str(self.path),
            "task": name,
            "dataset_path": "json",
            "dataset_name": None,
        }
        task |= {"dataset_kwargs": {"data_files": files}}
        (where / f"{name}.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")


def _has_python(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_python, value.values()))
    return any(map(_has_python, value)) if isinstance(value, list) else isinstance(value, Python)


def read(path: Path) -> dict[str, Any]:
    """A file's settings over those it includes."""
    value = yaml.load(path.read_text(encoding="utf-8"), _Loader) or {}
    included = value.pop("include", None) or []
    merged: dict[str, Any] = {}
    for name in included if isinstance(included, list) else [included]:
        merged |= read(path.parent / name)
    return merged | value


def count() -> int:
    """How many tasks in YAML the package has."""
    return sum(Bundled(path, read(path)).task for path in folder().rglob("*.yaml"))


def plain_tasks(each: int) -> Iterator[Bundled]:
    """Some tasks without Python of every family, which is a folder of the package."""
    for family in sorted(path for path in folder().iterdir() if path.is_dir()):
        found = 0
        for path in sorted(family.rglob("*.yaml"))[:200]:
            task = Bundled(path, read(path))
            if task.plain:
                yield task
                found += 1
            if found == each:
                break
