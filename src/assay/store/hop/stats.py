"""What `get_stats` says: counts of all results, and one aggregate for each output field.

Errors count in every denominator. A mean is over the values that are numbers, or text that is one.
"""

from __future__ import annotations

from typing import Any

import msgspec

from assay.store.hop.config import AGGREGATIONS, Aggregation, FieldAggregation
from assay.store.hop.table import LONGEST_VALUE, Column, Tables

_MOST_LABELS = 50
"""Without a config, texts with at most so many different values are shown as a distribution."""
_ODD = "select count(*) filter (failed), count(*) filter (parse_error) from odd"
_decode = msgspec.json.Decoder().decode


def stats(tables: Tables, fields: list[FieldAggregation], profile: str | None) -> dict[str, Any]:
    """Of the results of one profile, or of all, those without a profile among them."""
    where, values = ("where profile = ?", [profile]) if profile is not None else ("", [])
    fields = fields or guessed(tables)
    single = [field for field in fields if field.agg_type != "distribution"]
    asked = ["count(*)", *(_single(field, tables.columns[field.path]) for field in single)]
    ((total, *row),) = tables.query(f"select {', '.join(asked)} from results {where}", values)  # noqa: S608
    ((errors, unread),) = tables.query(f"{_ODD} {where}", values)
    found = {"total": total, "errors": errors, "completed": total - errors, "parse_errors": unread}
    numbers = dict(zip((field.key for field in single), row, strict=True))
    for field in fields:
        if field.agg_type == "distribution":
            found[field.key] = _distribution(tables, field, where, values)
        else:
            found[field.key] = numbers[field.key]
    return found


def number(column: str) -> str:
    """SQL for the number in a column of JSON text, NULL for anything else; NaN and infinities are none."""
    cast = f"try_cast({_bare(column)} as double)"
    return f"case when isfinite({cast}) then {cast} end"


def _bare(column: str) -> str:
    """SQL for a value without quotes and blanks around it. Only a text is trimmed, as trimming is slow."""
    return f"case when starts_with({column}, '\"') then trim({column}, '\" ') else {column} end"


def _single(field: FieldAggregation, column: Column) -> str:
    name = column.name
    if field.agg_type == "mean":
        return f"round(avg({number(name)}), 1)"
    if field.agg_type == "rate":
        return f"round(count(*) filter (lower({_bare(name)}) = 'true') / nullif(count(*), 0), 4)"
    return f"round(count({name}) / nullif(count(*), 0), 4)"


def _distribution(
    tables: Tables, field: FieldAggregation, where: str, values: list[str]
) -> list[dict[str, Any]]:
    """Each value with its count, most first. Of an array its items count, of an object its `sub_field`."""
    name = tables.columns[field.path].name
    grouped = f"select {name} as v, count(*) as n from results {where} group by v having v is not null"  # noqa: S608
    items = "unnest(case when v[1] = '[' then json_extract(v, '$[*]')::varchar[] else [v] end)"
    part = "case when item[1] = '{' then json_extract(item, ?)::varchar else item end"
    value = part if field.sub_field is not None else "item"
    sql = (
        f"select value, sum(n)::bigint from (select {value} as value, n from "  # noqa: S608
        f"(select {items} as item, n from ({grouped}))) "
        "where value is not null and value != 'null' group by value order by 2 desc, value"
    )
    path = ["/" + _escaped(field.sub_field)] if field.sub_field is not None else []
    return [{"value": _shown(text), "count": count} for text, count in tables.query(sql, [*path, *values])]


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _shown(text: str) -> Any:
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return text


def guessed(tables: Tables) -> list[FieldAggregation]:
    """Without a config: numbers have a mean, booleans a rate, few different texts a distribution."""
    if not tables.columns:
        return []
    asked = [_kinds(column.name) for column in tables.columns.values()]
    (row,) = tables.query(f"select {', '.join(asked)} from results")  # noqa: S608
    paths = list(tables.columns)
    return [
        _guess(path[0], dict(zip(_KINDS, row[place * 6 :], strict=False))) for place, path in enumerate(paths)
    ]


_KINDS = ("known", "flags", "texts", "containers", "distinct", "longest")


def _kinds(name: str) -> str:
    return (
        f"count({name}), count(*) filter ({name} in ('true', 'false')), count(*) filter ({name}[1] = '\"'), "
        f"count(*) filter ({name}[1] in ('[', '{{')), approx_count_distinct({name}), max(strlen({name}))"
    )


def _guess(name: str, kinds: dict[str, int]) -> FieldAggregation:
    known = kinds["known"]
    short = known > 0 and kinds["longest"] < LONGEST_VALUE and kinds["distinct"] <= _MOST_LABELS
    way: Aggregation = "non_null_rate"
    if known and kinds["flags"] == known:
        way = "rate"
    elif known and not kinds["flags"] + kinds["texts"] + kinds["containers"]:
        way = "mean"
    elif short and not kinds["containers"]:
        way = "distribution"
    assert way in AGGREGATIONS
    return FieldAggregation(field_name=name, agg_type=way, display_label=name)
