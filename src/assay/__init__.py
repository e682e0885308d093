"""Evaluate LLM systems: models on tasks, pipelines, LLM functions and agent memories.

`run(spec)` and `await arun(spec)` start or continue a run; `spec(suite, **options)` builds what they take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.api import Run, arun, load, run, spec
    from assay.core.spec import RunSpec

__version__ = "0.1.0"
__all__ = ["Run", "RunSpec", "__version__", "arun", "load", "run", "spec"]


def __getattr__(name: str) -> Any:
    """Names load when they are used: `assay --help` must not import an HTTP client."""
    if name == "RunSpec":
        from assay.core.spec import RunSpec

        return RunSpec
    if name in __all__:
        from assay import api

        return getattr(api, name)
    raise AttributeError(f"module 'assay' has no attribute {name!r}")
