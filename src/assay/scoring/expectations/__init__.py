"""Compares outputs with expectations. The result of a comparison is a list of checks.

    compare({"mood": "contains:happy", "score": 0.9}, {"mood": "very happy", "score": 0.9}, Matching())

An expectation is JSON. Its leaves are values, or texts with a prefix (`contains:`, `regex:`, `judge:` and others).
"""

from assay.scoring.expectations.checks import MISSING, Check, as_text, lookup, unequal, verdict
from assay.scoring.expectations.compare import (
    PREFIXES,
    Matching,
    compare,
    expectation_problems,
    matching_of,
    matching_problems,
    same_number,
)
from assay.scoring.expectations.rules import RULE_KINDS, Rule, apply_rules, rule_of, rule_problems

__all__ = [
    "MISSING",
    "PREFIXES",
    "RULE_KINDS",
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
    "same_number",
    "unequal",
    "verdict",
]
