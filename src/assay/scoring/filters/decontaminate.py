"""Is known by name only: the harness has it as a stub that does nothing."""

from __future__ import annotations

from assay.core.errors import UsageError
from assay.scoring.filters import Filter


def build(*, path: str = "") -> Filter:
    """Refused: a run that says it was decontaminated and was not would be worse."""
    raise UsageError(
        "`decontaminate` does nothing in the harness and is not supported; leave this filter out"
    )
