"""`assay memory eval`: memories over sessions, judged in six dimensions, in the format of eval_framework."""

from __future__ import annotations

from assay.suites.memory_eval.options import MemoryEvalOptions as Options

__all__ = ["Options"]
