"""`assay pipeline`: runs multi-step pipelines on testsets, in the file formats of Prompt Lab.

Python code reads a testset with `TestsetLoader`, which returns a list of `TestCase`:

    from assay.suites.pipeline import TestCase, TestsetLoader
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.suites.pipeline.testset.case import TestCase
    from assay.suites.pipeline.testset.loader import TestsetLoader

__all__ = ["TestCase", "TestsetLoader"]


def __getattr__(name: str) -> Any:
    """Import the two names on first use, so that `assay pipeline --help` does not import the testset reader."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from assay.suites.pipeline.testset import case, loader

    return case.TestCase if name == "TestCase" else loader.TestsetLoader
