"""What a record means: inputs, tags and expectations, whether it is written as v1 or as v2."""

from __future__ import annotations

from typing import Any, NamedTuple

from assay.suites.pipeline.testset.names import (
    BESIDE,
    FIELDS,
    PLAIN,
    carries_gold,
    expectation,
    hop_tag,
    inputs_beside,
)

_KNOWN = frozenset(FIELDS)
Record = dict[str, Any]


class Parts(NamedTuple):
    """The fields that may stand in other places than their own."""

    tags: list[str]
    inputs: dict[str, Any]
    expected_outputs: dict[str, Any]


def parts(record: Record, declared: frozenset[str] = frozenset()) -> Parts:
    """The parts of a valid record. Keys nobody knows are inputs; explicit `inputs` win over them.

    `declared` are the pipeline's input names: in a v1 record even `description` may be one.
    """
    tags, inputs, outputs = record.get("tags", []), record.get("inputs", {}), record.get("expected_outputs")
    if type(tags) is str:
        tags = [tags]
    if record.keys() <= PLAIN and not inputs_beside(record, declared):
        return Parts(tags, inputs, {} if outputs is None else outputs)
    if hop_tag(record, declared):
        tags = [record["tag"]]
    loose = custom_keys(record, declared)
    merged = {key: record[key] for key in loose} | inputs
    return Parts(tags, merged, _expected(record) | (outputs or {}))


def custom_keys(record: Record, declared: frozenset[str] = frozenset()) -> list[str]:
    """The top-level keys that are inputs, in the order they are written."""
    ours = BESIDE - inputs_beside(record, declared)
    tag = {"tag"} if hop_tag(record, declared) else set()
    return [
        key
        for key in record
        if key not in _KNOWN and key not in ours and key not in tag and not carries_gold(key)
    ]


def _expected(record: Record) -> dict[str, Any]:
    named = ((expectation(key), value) for key, value in record.items())
    return {name: value for name, value in named if name is not None}


def key_of(record: Record) -> str | None:
    """The id as text, or None where there is none that could be meant."""
    value = record.get("id")
    return str(value) if type(value) is int or (type(value) is str and value.strip()) else None


def id_list(value: Any) -> list[str]:
    """`depends_on` as id strings; a single id may stand without a list."""
    if value is None:
        return []
    return [str(item) for item in (value if isinstance(value, list) else [value])]
