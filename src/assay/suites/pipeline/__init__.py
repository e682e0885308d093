"""`assay pipeline`: multi-step pipelines tested with testsets."""

from __future__ import annotations

from pathlib import Path

from assay.core.errors import Problem
from assay.core.yamlfile import load_yaml
from assay.suites.pipeline.testset.case import TestCase
from assay.suites.pipeline.testset.loader import TestsetLoader

__all__ = ["TestCase", "TestsetLoader", "check", "convert", "is_testset"]


def check(path: Path, pipeline: Path | None = None) -> list[Problem]:
    """Every problem of a testset; with a pipeline file also step ids that it does not have."""
    from assay.suites.pipeline.testset.checking import check_testset

    if pipeline is None:
        return check_testset(path)
    values = load_yaml(pipeline).value
    return check_testset(path, _named(values, "steps", "id"), _named(values, "inputs", "name"))


def _named(values: dict[str, object], key: str, name: str) -> frozenset[str]:
    """The names in a list whose items are mappings or plain names."""
    items = values.get(key)
    found = (
        item.get(name) if isinstance(item, dict) else item
        for item in (items if isinstance(items, list) else [])
    )
    return frozenset(item for item in found if isinstance(item, str))


def is_testset(path: Path) -> bool:
    """Whether a file looks like a testset, by its first record or the folder it lies in."""
    from assay.suites.pipeline.testset.checking import is_testset as looks_like_one

    return looks_like_one(path)


def convert(path: Path, output: Path | None = None) -> bytes:
    """The testset as compact v2 records; written to `output` where one is named, and returned otherwise."""
    from assay.suites.pipeline.testset.writing import converted

    return converted(path, output)
