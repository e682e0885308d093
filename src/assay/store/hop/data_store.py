"""Asks questions of the result files in a folder: counts, aggregates of output fields, errors, durations.

    store = BaseDataStore("Tasks/Verify/TestCases")
    store.load_results()                  # the number of results
    store.get_stats("fast")               # {"total": 200, "errors": 3, ..., "avg_score": 3.4}
    store.query_results(sort_by="score", limit=10)

Errors count in every denominator. A mean is over the values that are numbers, or text that is one.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from assay.core.errors import UsageError
from assay.store.hop.audit import read_audit
from assay.store.hop.tables import (
    IDENTITY,
    MAX_VALUE_CHARACTERS,
    Column,
    FileStamp,
    ResultTables,
    files_changed,
    line_at,
)

Aggregation = Literal["mean", "rate", "distribution", "non_null_rate"]
AGGREGATIONS = ("mean", "rate", "distribution", "non_null_rate")
_MAX_LABELS = 50
"""Without a config, texts with at most this many different values are shown as a distribution."""
_decode = msgspec.json.Decoder().decode


class FieldAggregation(Struct, frozen=True):
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


class ViewConfig(Struct, frozen=True):
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


class BaseDataStore:
    """Reads the JSONL files of one folder, not of folders below it, and never writes.

    Any thread may ask at any time. A reload reads into new tables and then replaces the old ones, so that
    no question waits for it or sees half of it.
    """

    def __init__(self, folder: Path | str, config: ViewConfig | None = None) -> None:
        self.folder = Path(folder)
        self.config = config or ViewConfig()
        self._load_lock = threading.Lock()
        self._tables: ResultTables | None = None

    def load_results(self, force_reload: bool = False) -> int:
        """The number of results, errors among them. Reads if a file is new, gone or changed, or if told."""
        return self._load(force=force_reload).total

    @property
    def bad_lines(self) -> int:
        """Lines that hold neither an object nor a pair: torn ones, mostly. They are in no other number."""
        return self._current().bad_lines

    def get_stats(self, profile: str | None = None) -> dict[str, Any]:
        """`total`, `errors`, `completed`, `parse_errors` and one value for each output field of the config.

        Without a config the fields that occur are looked at, and their values say how. Without a profile all
        results count, those without a profile among them.
        """
        tables = self._current()
        where, values = ("where profile = ?", [profile]) if profile is not None else ("", [])
        fields = self.config.output_fields or _guess_fields(tables)
        single = [field for field in fields if field.agg_type != "distribution"]
        columns = ["count(*)", *(_aggregate_sql(field, tables.columns[field.path]) for field in single)]
        ((total, *row),) = tables.query(f"select {', '.join(columns)} from results {where}", values)  # noqa: S608
        ((errors, parse_errors),) = tables.query(
            f"select count(*) filter (failed), count(*) filter (parse_error) from odd {where}",  # noqa: S608
            values,
        )
        stats = {
            "total": total,
            "errors": errors,
            "completed": total - errors,
            "parse_errors": parse_errors,
        }
        numbers = dict(zip((field.key for field in single), row, strict=True))
        for field in fields:
            if field.agg_type == "distribution":
                stats[field.key] = _distribution(tables, field, where, values)
            else:
                stats[field.key] = numbers[field.key]
        return stats

    def get_profiles(self) -> list[dict[str, Any]]:
        """Each profile in alphabetical order, with its results and last meta line; None is no profile."""
        tables = self._current()
        counts = dict(tables.query("select profile, count(*) from results group by profile"))
        profiles: list[dict[str, Any]] = [
            {"profile": name, "total": counts.get(name, 0), "meta": tables.metas.get(name)}
            for name in sorted({*counts, *tables.metas} - {None})
        ]
        if None in counts:
            profiles.append({"profile": None, "total": counts[None], "meta": None})
        return profiles

    def query_results(
        self, offset: int = 0, limit: int = 50, sort_by: str | None = None, ascending: bool = False
    ) -> list[dict[str, Any]]:
        """Some results, each as one object, in the order of the files or of a column; NULL stands last."""
        if min(offset, limit) < 0:
            raise UsageError(f"offset {offset} and limit {limit} must not be negative")
        tables = self._current()
        try:
            return self._page(tables, self._order(tables, sort_by, ascending), [limit, offset])
        except (OSError, ValueError):
            tables = self._load(force=True)
        try:
            return self._page(tables, self._order(tables, sort_by, ascending), [limit, offset])
        except (OSError, ValueError) as error:
            raise UsageError(f"files in {self.folder} change while they are read; ask again") from error

    def get_error_distribution(self) -> list[dict[str, Any]]:
        """What the errors say, most frequent first; long messages count by their first 1,000 characters."""
        sql = "select error, count(*) from odd where failed group by error order by 2 desc, error"
        return [{"value": error, "count": count} for error, count in self._current().query(sql)]

    def get_perf_summary(self) -> dict[str, Any]:
        """Seconds of the runs that ended. `operator_stats` is there only if a step was observed.

        p50 and p95 are durations that occurred. A run without a usable duration counts in `total_runs` and in
        `without_duration`, and in no mean.
        """
        tables = self._current()
        ((total, mean, timed),) = tables.query(_RUNS_SQL)
        ((unfinished,),) = tables.query(_UNFINISHED_SQL)
        summary = {
            "total_runs": total,
            "avg_duration": mean,
            "p50": _duration_at(tables, timed, 0.5),
            "p95": _duration_at(tables, timed, 0.95),
            "unfinished": unfinished,
            "without_duration": total - timed,
        }
        names = ("op", "calls", "success_rate", "avg_duration", "avg_retries")
        operators = tables.query(_OPERATORS_SQL)
        if operators:
            summary["operator_stats"] = [dict(zip(names, row, strict=True)) for row in operators]
        return summary

    def sortable_columns(self) -> list[str]:
        """What results may be sorted by: the config's columns, else what every result has and all fields."""
        return list(self._sortable(self._current()))

    def _normalize_audit(self, rec: Mapping[str, Any] | list[Any]) -> dict[str, Any] | None:
        """A line of a results file as one object; None for meta lines, the observer's, and lines of input."""
        audit = read_audit(rec, self.config.audit_key_field)
        return audit.flat() if audit is not None else None

    def _current(self) -> ResultTables:
        return self._tables or self._load(force=False)

    def _load(self, *, force: bool) -> ResultTables:
        with self._load_lock:
            if not self.folder.is_dir():
                raise UsageError(
                    f"there is no folder {self.folder}; name the one with the results, such as TestCases"
                )
            paths = sorted(path for path in self.folder.glob("*.jsonl") if path.is_file())
            known = self._tables
            if known is not None and not force:
                stamps = {path: FileStamp.of(path) for path in paths}
                if known.stamps == stamps:
                    return known
            output_fields = [
                (field.path, field.agg_type == "distribution") for field in self.config.output_fields
            ]
            tables = ResultTables(output_fields, self.config.sortable_columns, self.config.audit_key_field)
            tables.read(paths)
            self._tables = tables
            return tables

    def _sortable(self, tables: ResultTables) -> dict[str, str]:
        """The columns by the names that a user may say."""
        fields = {path[0]: column.name for path, column in tables.columns.items() if len(path) == 1}
        known = fields | {name: name for name in IDENTITY}
        return {name: known[name] for name in self.config.sortable_columns or [*IDENTITY, *fields]}

    def _order(self, tables: ResultTables, sort_by: str | None, ascending: bool) -> str:
        if sort_by is None:
            return ""
        allowed = self._sortable(tables)
        if sort_by not in allowed:
            raise UsageError(f"cannot sort by {sort_by!r}; there are {', '.join(allowed)}")
        column, direction = allowed[sort_by], "asc" if ascending else "desc"
        return f"{_number_sql(column)} {direction} nulls last, {column} {direction} nulls last, "

    def _page(self, tables: ResultTables, order: str, values: list[int]) -> list[dict[str, Any]]:
        """The lines as they stand in the files. Raises ValueError if they stand elsewhere now."""
        if files_changed(tables.stamps):
            raise ValueError("a file was replaced")
        sql = f"select file, start from results order by {order}file, start limit ? offset ?"  # noqa: S608
        rows = []
        for file, start in tables.query(sql, values):
            row = self._normalize_audit(line_at(tables.files[file], start))
            if row is None:
                raise ValueError("a line is no result any more")
            rows.append(row)
        return rows


# Aggregates of output fields


def _number_sql(column: str) -> str:
    """SQL for the number in a column of JSON text, NULL for anything else; NaN and infinities are none."""
    cast = f"try_cast({_unquoted_sql(column)} as double)"
    return f"case when isfinite({cast}) then {cast} end"


def _unquoted_sql(column: str) -> str:
    """SQL for a value without quotes and blanks around it. Only a text is trimmed, as trimming is slow."""
    return f"case when starts_with({column}, '\"') then trim({column}, '\" ') else {column} end"


def _aggregate_sql(field: FieldAggregation, column: Column) -> str:
    name = column.name
    if field.agg_type == "mean":
        return f"round(avg({_number_sql(name)}), 1)"
    if field.agg_type == "rate":
        return f"round(count(*) filter (lower({_unquoted_sql(name)}) = 'true') / nullif(count(*), 0), 4)"
    return f"round(count({name}) / nullif(count(*), 0), 4)"


def _distribution(
    tables: ResultTables, field: FieldAggregation, where: str, values: list[str]
) -> list[dict[str, Any]]:
    """Each value with its count, most first. Of an array its items count, of an object its `sub_field`."""
    name = tables.columns[field.path].name
    grouped = f"select {name} as v, count(*) as n from results {where} group by v having v is not null"  # noqa: S608
    items = "unnest(case when v[1] = '[' then json_extract(v, '$[*]')::varchar[] else [v] end)"
    value, pointer = "item", []
    if field.sub_field is not None:
        value = "case when item[1] = '{' then json_extract(item, ?)::varchar else item end"
        pointer = ["/" + field.sub_field.replace("~", "~0").replace("/", "~1")]
    sql = (
        f"select value, sum(n)::bigint from (select {value} as value, n from "  # noqa: S608
        f"(select {items} as item, n from ({grouped}))) "
        "where value is not null and value != 'null' group by value order by 2 desc, value"
    )
    counts = []
    for text, count in tables.query(sql, [*pointer, *values]):
        try:
            shown = _decode(text)
        except msgspec.DecodeError:
            shown = text
        counts.append({"value": shown, "count": count})
    return counts


class _FieldKinds(Struct, frozen=True):
    """How many results have a value in a field, and of which kinds."""

    values: int
    flags: int
    texts: int
    containers: int
    distinct: int
    longest: int


def _guess_fields(tables: ResultTables) -> list[FieldAggregation]:
    """Without a config: numbers have a mean, booleans a rate, few different texts a distribution."""
    if not tables.columns:
        return []
    columns = []
    for column in tables.columns.values():
        name = column.name
        columns.append(
            f"count({name}), count(*) filter ({name} in ('true', 'false')), "
            f"count(*) filter ({name}[1] = '\"'), count(*) filter ({name}[1] in ('[', '{{')), "
            f"approx_count_distinct({name}), max(strlen({name}))"
        )
    (row,) = tables.query(f"select {', '.join(columns)} from results")  # noqa: S608
    guesses = []
    for index, path in enumerate(tables.columns):
        kinds = _FieldKinds(*row[index * 6 : index * 6 + 6])
        guesses.append(FieldAggregation(path[0], agg_type=_guess(kinds), display_label=path[0]))
    return guesses


def _guess(kinds: _FieldKinds) -> Aggregation:
    if kinds.values == 0:
        return "non_null_rate"
    if kinds.flags == kinds.values:
        return "rate"
    if not kinds.flags + kinds.texts + kinds.containers:
        return "mean"
    if not kinds.containers and kinds.longest < MAX_VALUE_CHARACTERS and kinds.distinct <= _MAX_LABELS:
        return "distribution"
    return "non_null_rate"


# Durations of the observer's records


_RUNS_SQL = """
select count(*), round(avg(duration), 4), count(duration)
from observations where kind = 'run_end'
"""
_DURATION_AT_SQL = """
select duration from observations where kind = 'run_end' and duration is not null order by 1 offset ? limit 1
"""
_UNFINISHED_SQL = """
select count(distinct run_id) from observations where kind = 'run_start'
and run_id not in (select run_id from observations where kind = 'run_end')
"""
_OPERATORS_SQL = """
select op, count(*), round(count(*) filter (ok) / count(*), 4), round(avg(duration), 4),
  round(avg(retries), 4) from observations where kind = 'step' group by op order by 2 desc, op
"""


def _duration_at(tables: ResultTables, count: int, share: float) -> float | None:
    """The duration below which this share of them lies."""
    if not count:
        return None
    rows = tables.query(_DURATION_AT_SQL, [min(count - 1, int(count * share))])
    return rows[0][0] if rows else None
