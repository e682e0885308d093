"""Filter `decontaminate`: refused. lm-evaluation-harness has it as a stub that does nothing."""

from __future__ import annotations

from assay.core.errors import UsageError
from assay.scoring.filters import Filter


def build(*, path: str = "") -> Filter:
    """Raise UsageError: a run must not claim to be decontaminated if it is not."""
    raise UsageError("`decontaminate` is not supported: in lm-evaluation-harness it does nothing. Remove this filter")
