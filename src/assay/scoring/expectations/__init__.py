"""How an output is compared with what was expected of it. Every comparison is a list of checks.

An expectation is JSON: its leaves are values, or texts with a prefix (`contains:`, `regex:`, `judge:` …).
"""

from assay.scoring.expectations.checks import MISSING, Check, verdict
from assay.scoring.expectations.compare import compare
from assay.scoring.expectations.matching import Matching, matching_of, matching_problems
from assay.scoring.expectations.paths import lookup
from assay.scoring.expectations.prefixes import expectation_problems
from assay.scoring.expectations.rule_files import rule_of, rule_problems
from assay.scoring.expectations.rules import Rule, apply_rules
from assay.scoring.expectations.texts import as_text

__all__ = [
    "MISSING",
    "Check",
    "Matching",
    "Rule",
    "apply_rules",
    "as_text",
    "compare",
    "expectation_problems",
    "lookup",
    "matching_of",
    "matching_problems",
    "rule_of",
    "rule_problems",
    "verdict",
]
