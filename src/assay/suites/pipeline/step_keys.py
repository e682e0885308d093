"""The keys of steps and outputs in a pipeline file.

A step of the file is checked against the struct of its type. Keys of type `Any` have rules that a type cannot express:
`pipeline_file.py` and `builder.py` check them.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from assay.suites.pipeline.steps.prompt_step import Seconds

_Count = Annotated[int, Meta(ge=0, description="a whole number from 0 on")]
_Mapping = dict[Any, Any]


class StepKeys(Struct, forbid_unknown_fields=True):
    """The keys that every step may have."""

    id: Any = None
    type: Any = None
    input_mapping: _Mapping | None = None
    output_key: Any = None
    depends_on: list[Any] | None = None
    required: bool | None = None
    timeout: Seconds | None = None
    retry: _Count | None = None
    batch_mode: bool | None = None
    batch_size: Any = None
    concurrent: Any = None
    max_workers: Any = None
    with_item: Any = None


class PromptKeys(StepKeys):
    """The keys of a prompt step."""

    template: Any = None
    system: Any = None
    model: str | None = None
    params: _Mapping | None = None
    output_parser: Any = None
    parser: Any = None
    agent: Any = None
    flow: Any = None
    defaults: _Mapping | None = None


class CodeKeys(StepKeys):
    """The keys of a code step."""

    code: Any = None
    language: Any = None
    env_vars: Any = None


class AggregateKeys(CodeKeys):
    """The keys of an aggregate step."""

    strategy: Any = None
    separator: Any = None
    fields: Any = None
    condition: Any = None
    group_by: Any = None
    summary_fields: Any = None
    score_field: Any = None
    include_distribution: Any = None
    aggregation_strategy: Any = None
    output: _Mapping | None = None


class HopKeys(StepKeys):
    """The keys of a hop step."""

    target: str | None = None
    model: str | None = None


class OutputKeys(Struct, forbid_unknown_fields=True):
    """The keys of an output."""

    key: Any = None
    label: Any = None
    rules: Any = None
    from_: Any = field(name="from", default=None)


KEYS_BY_TYPE: dict[str, type[StepKeys]] = {
    "prompt": PromptKeys,
    "code": CodeKeys,
    "aggregate": AggregateKeys,
    "hop": HopKeys,
}
STEP_KEYS = frozenset(key for keys in KEYS_BY_TYPE.values() for key in keys.__struct_fields__)
"""All keys that a step may have, over all step types."""
