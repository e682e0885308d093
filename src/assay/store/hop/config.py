"""What a store is told about a task: its output fields, how each is aggregated, what may be sorted by."""

from __future__ import annotations

from typing import Literal

import msgspec

from assay.core.errors import UsageError

Aggregation = Literal["mean", "rate", "distribution", "non_null_rate"]
AGGREGATIONS = ("mean", "rate", "distribution", "non_null_rate")


class FieldAggregation(msgspec.Struct, frozen=True):
    """One number, or list of counts, about one output field.

    `sub_field` names a key of the objects in an array; a distribution counts its values.
    """

    field_name: str
    field_type: str = "string"
    agg_type: Aggregation = "distribution"
    display_label: str = ""
    sub_field: str | None = None

    def __post_init__(self) -> None:
        if self.agg_type not in AGGREGATIONS:
            raise UsageError(
                f"output field {self.field_name!r}: there is no aggregation {self.agg_type!r}; "
                f"there are {', '.join(AGGREGATIONS)}"
            )

    @property
    def key(self) -> str:
        """The name of its number in `get_stats`: `avg_score`, `score_rate`, `score_distribution`."""
        return f"avg_{self.field_name}" if self.agg_type == "mean" else f"{self.field_name}_{self.agg_type}"

    @property
    def path(self) -> tuple[str, ...]:
        """The keys that lead to its value. A distribution looks for the `sub_field` in each item itself."""
        if self.sub_field is None or self.agg_type == "distribution":
            return (self.field_name,)
        return (self.field_name, self.sub_field)


class ViewConfig(msgspec.Struct, frozen=True):
    """The part of a task's view that its store reads; `msgspec.convert` leaves out the rest of one.

    `audit_key_field` tells a result without any wrapper from a line of input. It never drops a result.
    """

    task_name: str = ""
    hoplet_name: str = ""
    description: str = ""
    hop_func_name: str = ""
    input_fields: dict[str, str] = {}
    output_fields: list[FieldAggregation] = []
    sortable_columns: list[str] = []
    audit_key_field: str | None = None
