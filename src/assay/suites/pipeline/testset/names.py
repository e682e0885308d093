"""The keys of a record that mean something; every other key is an input of the pipeline."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

FIELDS = (
    "id",
    "tags",
    "inputs",
    "step_inputs",
    "batch_items",
    "expected_outputs",
    "expected_aggregation",
    "intermediate_expectations",
    "evaluation_config",
)
V2_KEYS = frozenset(FIELDS) - {"id", "tags"}
"""A record with one of these is v2, one with none of them is v1."""

ANNOTATIONS = frozenset({"description", "metadata"})
RESERVED = frozenset({"parameters", "depends_on", "conditions", "performance_baseline"})
BESIDE = ANNOTATIONS | RESERVED
"""Kept out of the inputs, unless a v1 record's pipeline declares inputs of these names."""

DOUBTFUL = BESIDE | {"tag"}
"""What a record's key means depends on the pipeline's inputs for these names only."""

PLAIN = frozenset(FIELDS) | BESIDE
"""A record with these keys only needs no sorting of its keys."""

_EXPECTED = "expected_"


def is_v2(record: dict[str, Any]) -> bool:
    """Whether the record uses the pipeline format; one key of it is enough."""
    return not V2_KEYS.isdisjoint(record)


def expectation(key: str) -> str | None:
    """`sentiment` for `expected_sentiment`; None for the document's own two fields and for other keys."""
    if key.startswith(_EXPECTED) and key not in V2_KEYS and len(key) > len(_EXPECTED):
        return key.removeprefix(_EXPECTED)
    return None


def carries_gold(key: str) -> bool:
    """Whether a key's value must never be shown to the pipeline: `expectedOutput` is one too."""
    return key[:1] in "eE" and key[:8].casefold() == "expected"


def unread(key: str) -> bool:
    """Whether a key says that something is expected, in a way that nobody reads."""
    return carries_gold(key) and key != "expected" and key not in V2_KEYS and expectation(key) is None


class Simple(NamedTuple):
    """How a v1 record is read whose other keys are inputs or expectations: (output, key) of the latter."""

    inputs: tuple[str, ...]
    expected: tuple[tuple[str, str], ...]


@lru_cache(1024)
def simple(keys: tuple[str, ...]) -> Simple | None:
    """The reading of all records with these keys; None where one of them means more, or nobody reads it."""
    others = [key for key in keys if key not in ("id", "tags")]
    named = [(expectation(key), key) for key in others if carries_gold(key)]
    if "id" not in keys or not (PLAIN | {"tag"}).isdisjoint(others) or any(name is None for name, _ in named):
        return None
    inputs = tuple(key for key in others if not carries_gold(key))
    return Simple(inputs, tuple((name, key) for name, key in named if name is not None))


def hop_tag(record: dict[str, Any], declared: frozenset[str]) -> bool:
    """Whether `tag` is a tag as in HOP files: a text, no `tags` beside it, and no input of that name."""
    return "tags" not in record and "tag" not in declared and isinstance(record.get("tag"), str)


def inputs_beside(record: dict[str, Any], declared: frozenset[str]) -> frozenset[str]:
    """The annotation and reserved keys that are plain inputs of this record."""
    if not declared or is_v2(record):
        return frozenset()
    return BESIDE & declared & record.keys()
