"""`assay pipeline`: multi-step pipelines tested with testsets, in the formats of Prompt Lab.

In Python, testsets are read by `TestsetLoader` into `TestCase`s:

    from assay.suites.pipeline import TestCase, TestsetLoader
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.suites.pipeline.testset.case import TestCase
    from assay.suites.pipeline.testset.loader import TestsetLoader

__all__ = ["TestCase", "TestsetLoader"]


def __getattr__(name: str) -> Any:
    """Import these names when they are used: `assay pipeline --help` imports the options only."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from assay.suites.pipeline.testset import case, loader

    return case.TestCase if name == "TestCase" else loader.TestsetLoader
