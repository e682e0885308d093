"""`assay hop`: batch tests of LLM functions, in the formats of HOP."""

from assay.suites.hop.options import HopOptions as Options
from assay.suites.hop.suite import HopSuite as SUITE  # noqa: N814 - until all suites are classes

__all__ = ["SUITE", "Options"]
