"""`assay pipeline`: runs multi-step pipelines on testsets, in the file formats of Prompt Lab.

Python code reads testsets with the names of Prompt Lab's `src/testset_loader.py`:

    from assay.suites.pipeline import TestCase, TestsetLoader
    from assay.suites.pipeline import filter_by_tags, load_testset, load_testset_dict, validate_testset
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.suites.pipeline.testset.case import TestCase
    from assay.suites.pipeline.testset.loader import (
        TestsetLoader,
        filter_by_tags,
        load_testset,
        load_testset_dict,
        validate_testset,
    )

__all__ = [
    "TestCase",
    "TestsetLoader",
    "filter_by_tags",
    "load_testset",
    "load_testset_dict",
    "validate_testset",
]


def __getattr__(name: str) -> Any:
    """Import the names on first use, so that `assay pipeline --help` does not import the testset reader."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from assay.suites.pipeline.testset import case, loader

    return case.TestCase if name == "TestCase" else vars(loader)[name]
