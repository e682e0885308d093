"""Queries over the result files in a folder: counts, aggregates of output fields, errors, durations.

    store = BaseDataStore("Tasks/Verify/TestCases")
    store.load_results()                  # the number of results
    store.get_stats("fast")               # {"total": 200, "errors": 3, ..., "avg_score": 3.4}
    store.query_results(sort_by="score", limit=10)

Errors count in every denominator. A mean is over the values that are numbers, or texts such as "3.5".
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import msgspec
from msgspec import Struct

from assay.core.errors import UsageError
from assay.suites.hop.store.audit import read_audit
from assay.suites.hop.store.tables import (
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
"""Without a config, a text field with at most this many different values gets a distribution."""
_decode = msgspec.json.Decoder().decode


@dataclasses.dataclass(frozen=True)
class FieldAggregation:
    """How one output field is aggregated.

    `sub_field` is a key of the objects in an array. A distribution counts the values of that key.
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
        """The key in the result of `get_stats`: `avg_score`, `score_rate` or `score_distribution`."""
        return f"avg_{self.field_name}" if self.agg_type == "mean" else f"{self.field_name}_{self.agg_type}"

    @property
    def path(self) -> tuple[str, ...]:
        """The keys that lead to the value. A distribution reads the whole field and finds `sub_field` in each item."""
        if self.sub_field is None or self.agg_type == "distribution":
            return (self.field_name,)
        return (self.field_name, self.sub_field)


class FieldStats(Struct, frozen=True, kw_only=True):
    """The statistic of one output field."""

    field: FieldAggregation
    value: float | None
    """The mean or the rate, not rounded. None for a distribution, and if there is nothing to count."""
    values: int
    """Results that have the field; for a mean, those in which it is a number."""
    of: int
    """Results that the value counts. A rate counts all, and one without the field as false; others count `values`."""
    counts: list[tuple[Any, int]] = []
    """A distribution: each value with its count, the most frequent first."""


@dataclasses.dataclass(frozen=True)
class ViewConfig:
    """What a task's `View/config.py` says about the task, with the names and the order of HOP's documents.

    The store reads the fields of the output, the columns and `audit_key_field`, which distinguishes a result without a
    wrapper from an input row; it never drops a result. `BaseService` reads the function and the last two. DuckDB
    needs no `empty_table_schema` here, and the pages of `assay view` have no window.
    """

    task_name: str = ""
    hoplet_name: str = ""
    description: str = ""
    hop_func_name: str = ""
    input_fields: dict[str, str] = dataclasses.field(default_factory=dict)
    output_fields: list[FieldAggregation] = dataclasses.field(default_factory=list)
    empty_table_schema: str = ""
    sortable_columns: Collection[str] = frozenset()
    audit_key_field: str | None = None
    window_title: str = ""
    window_width: int = 1200
    window_height: int = 820
    retry_quota: int | None = None
    """How often `BaseService.retry_task` repeats a call; None is without a limit."""
    max_feedback_rounds: int = 5
    """How often `BaseService.submit_feedback` calls the function again."""


class BaseDataStore:
    """Reads the JSONL files of a folder, without subfolders. It never writes.

    Any thread may query at any time. A reload fills new tables and then replaces the old ones, so queries
    neither wait for it nor see half of it.
    """

    @overload
    def __init__(
        self,
        config: ViewConfig,
        testcases_dir: Path | str,
        observer_log: Path | str | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        config: Path | str,
        testcases_dir: ViewConfig | None = None,
        *,
        files: Sequence[Path] | None = None,
    ) -> None: ...

    def __init__(
        self,
        config: ViewConfig | Path | str,
        testcases_dir: Path | str | ViewConfig | None = None,
        observer_log: Path | str | None = None,
        *,
        files: Sequence[Path] | None = None,
    ) -> None:
        """Take the config and the folder, as HOP does, or the folder alone, perhaps with a config after it.

        `observer_log` is a log that is not in the folder. With `files`, only these files are read instead of all files
        of the folder.
        """
        folder: Path | str | ViewConfig | None = testcases_dir
        if not isinstance(config, ViewConfig):
            folder = config
            config = testcases_dir if isinstance(testcases_dir, ViewConfig) else ViewConfig()
        if not isinstance(folder, (str, Path)):
            raise UsageError("pass the folder of the results: BaseDataStore(config, testcases_dir)")
        self.config = config
        self.testcases_dir = str(folder)
        self.observer_log = None if observer_log is None else str(observer_log)
        self.folder = Path(folder)
        self._files = files
        columns = config.sortable_columns  # a set in HOP's documents
        self._sort_columns = sorted(columns) if isinstance(columns, (set, frozenset)) else list(columns)
        self._load_lock = threading.Lock()
        self._tables: ResultTables | None = None

    def load_results(self, force_reload: bool = False) -> int:
        """Return the number of results, errors included. Reads the files again if one is new, gone or changed."""
        return self._load(force=force_reload).total

    def close(self) -> None:
        """Free the memory of the tables. A later query reads the files again."""
        with self._load_lock:
            self._tables = None

    @property
    def bad_lines(self) -> int:
        """Number of lines that are neither an object nor a pair, usually incomplete lines. Not counted elsewhere."""
        return self._current().bad_lines

    def get_stats(self, profile: str | None = None, *, without_profile: bool = False) -> dict[str, Any]:
        """Return `total`, `errors`, `completed`, `parse_errors` and one value per output field of the config.

        A result is completed if it is no error and its status is OK, as in the report of a run.
        Without a config, every field that occurs is aggregated by the type of its values. Without `profile`,
        all results count, also those that have no profile. With `without_profile`, only those count.
        """
        tables = self._current()
        where, values = _where(profile, without_profile=without_profile)
        fields = self.config.output_fields or _guess_fields(tables)
        single = [field for field in fields if field.agg_type != "distribution"]
        columns = ["count(*)"]
        for field in single:
            digits = 1 if field.agg_type == "mean" else 4  # as HOP's own store rounds them
            columns.append(f"round({_aggregate_sql(field, tables.columns[field.path])}, {digits})")
        ((total, *row),) = tables.query(f"select {', '.join(columns)} from results {where}", values)  # noqa: S608
        not_completed = "failed or coalesce(outcome, 'OK') != 'OK'"
        ((errors, open_rows, parse_errors),) = tables.query(
            f"select count(*) filter (failed), count(*) filter ({not_completed}), "  # noqa: S608
            f"count(*) filter (parse_error) from odd {where}",
            values,
        )
        stats = {
            "total": total,
            "errors": errors,
            "completed": total - open_rows,
            "parse_errors": parse_errors,
        }
        numbers = dict(zip((field.key for field in single), row, strict=True))
        for field in fields:
            if field.agg_type == "distribution":
                stats[field.key] = _distribution(tables, field, where, values)
            else:
                stats[field.key] = numbers[field.key]
        return stats

    def field_stats(self, profile: str | None = None, *, without_profile: bool = False) -> list[FieldStats]:
        """Return the statistics of `get_stats` field by field, not rounded, each with the results that it counts."""
        tables = self._current()
        fields = self.config.output_fields or _guess_fields(tables)
        where, values = _where(profile, without_profile=without_profile)
        columns = ["count(*)"]
        for field in fields:
            column = tables.columns[field.path]
            columns.append(f"count({_number_sql(column.name) if field.agg_type == 'mean' else column.name})")
            columns.append("null" if field.agg_type == "distribution" else _aggregate_sql(field, column))
        ((total, *row),) = tables.query(f"select {', '.join(columns)} from results {where}", values)  # noqa: S608
        lines = []
        for field, count, value in zip(fields, row[::2], row[1::2], strict=True):
            counts: list[tuple[Any, int]] = []
            if field.agg_type == "distribution":
                distribution = _distribution(tables, field, where, values)
                counts = [(each["value"], each["count"]) for each in distribution]
            of = total if field.agg_type in ("rate", "non_null_rate") else count
            lines.append(FieldStats(field=field, value=value, values=count, of=of, counts=counts))
        return lines

    def get_profiles(self) -> list[dict[str, Any]]:
        """Return each profile with the number of its results and its last meta line, in alphabetical order.

        Results without a profile come last, under the profile None.
        """
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
        self, *, offset: int = 0, limit: int = 50, sort_by: str | None = None, ascending: bool = False
    ) -> list[dict[str, Any]]:
        """Return a page of results as flat objects, in the order of the files or sorted by a column, nulls last."""
        if min(offset, limit) < 0:
            raise UsageError(f"offset {offset} and limit {limit} must not be negative")
        tables = self._current()
        try:
            return self._page(tables, self._order(tables, sort_by, ascending), [limit, offset])
        except (OSError, ValueError):
            # A file has changed since it was read, so the positions of its lines are wrong. Read it again.
            tables = self._load(force=True)
        try:
            return self._page(tables, self._order(tables, sort_by, ascending), [limit, offset])
        except (OSError, ValueError) as error:
            raise UsageError(f"files in {self.folder} change while they are read; try again") from error

    def get_error_distribution(self) -> list[dict[str, Any]]:
        """Return the error messages with counts, most frequent first. Only the first 1,000 characters count."""
        sql = "select error, count(*) from odd where failed group by error order by 2 desc, error"
        return [{"value": error, "count": count} for error, count in self._current().query(sql)]

    def get_perf_summary(self) -> dict[str, Any]:
        """Return durations, in seconds, of the runs that ended. Has `operator_stats` if steps were observed.

        p50 and p95 are linear between ranks. A run without a valid duration counts in `total_runs` and
        `without_duration` only.
        """
        tables = self._current()
        ((total, mean, timed, p50, p95),) = tables.query(_RUNS_SQL)
        ((unfinished,),) = tables.query(_UNFINISHED_SQL)
        summary = {
            "total_runs": total,
            "avg_duration": mean,
            "p50": p50,
            "p95": p95,
            "unfinished": unfinished,
            "without_duration": total - timed,
        }
        names = ("op", "calls", "success_rate", "avg_duration", "avg_retries")
        operators = tables.query(_OPERATORS_SQL)
        if operators:
            summary["operator_stats"] = [dict(zip(names, row, strict=True)) for row in operators]
        return summary

    def sortable_columns(self) -> list[str]:
        """Return the columns for `sort_by`: those of the config, else id, tag, profile and all fields."""
        return list(self._sortable(self._current()))

    def _normalize_audit(self, rec: Mapping[str, Any] | list[Any]) -> dict[str, Any] | None:
        """Return a line of a result file as one flat object, or None if the line is not a result."""
        audit = read_audit(rec, self.config.audit_key_field)
        return audit.flat() if audit is not None else None

    def _current(self) -> ResultTables:
        return self._tables or self._load(force=False)

    def _load(self, *, force: bool) -> ResultTables:
        with self._load_lock:
            if not self.folder.is_dir():
                raise UsageError(
                    f"there is no folder {self.folder}; pass the folder with the results, such as TestCases"
                )
            candidates = self.folder.glob("*.jsonl") if self._files is None else self._files
            paths = sorted(path for path in candidates if path.is_file())
            log = Path(self.observer_log) if self.observer_log is not None else None
            if log is not None and log.is_file() and not any(log.samefile(path) for path in paths):
                paths.append(log)
            current = self._tables
            if current is not None and not force:
                stamps = {path: FileStamp.of(path) for path in paths}
                if current.stamps == stamps:
                    return current
            output_fields = [(field.path, field.agg_type == "distribution") for field in self.config.output_fields]
            tables = ResultTables(output_fields, sorted(self.config.sortable_columns), self.config.audit_key_field)
            tables.read(paths)
            self._tables = tables
            return tables

    def _sortable(self, tables: ResultTables) -> dict[str, str]:
        """Return the database columns by the names that a user may pass."""
        fields = {path[0]: column.name for path, column in tables.columns.items() if len(path) == 1}
        columns = fields | {name: name for name in IDENTITY}
        return {name: columns[name] for name in self._sort_columns or [*IDENTITY, *fields]}

    def _order(self, tables: ResultTables, sort_by: str | None, ascending: bool) -> str:
        if sort_by is None:
            return ""
        allowed = self._sortable(tables)
        if sort_by not in allowed:
            raise UsageError(f"cannot sort by {sort_by!r}; there are {', '.join(allowed)}")
        # Numbers first, by value, so that 10 comes after 9. Texts have no number and sort by the second term.
        column, direction = allowed[sort_by], "asc" if ascending else "desc"
        return f"{_number_sql(column)} {direction} nulls last, {column} {direction} nulls last, "

    def _page(self, tables: ResultTables, order: str, values: list[int]) -> list[dict[str, Any]]:
        """Read the lines of a page from the files. Raises ValueError if a file has changed."""
        if files_changed(tables.stamps):
            raise ValueError("a file was replaced")
        sql = f"select file, start from results order by {order}file, start limit ? offset ?"  # noqa: S608
        rows = []
        for file, start in tables.query(sql, values):
            row = self._normalize_audit(line_at(tables.files[file], start))
            if row is None:
                raise ValueError("a line is not a result any more")
            rows.append(row)
        return rows


def _where(profile: str | None, *, without_profile: bool) -> tuple[str, list[str]]:
    if without_profile:
        return "where profile is null", []
    return ("where profile = ?", [profile]) if profile is not None else ("", [])


# Aggregates of output fields


def _number_sql(column: str) -> str:
    """Return SQL for the number in a column of JSON text. Other values, NaN and infinities give NULL."""
    cast = f"try_cast({_unquoted_sql(column)} as double)"
    return f"case when isfinite({cast}) then {cast} end"


def _unquoted_sql(column: str) -> str:
    """Return SQL for a value without quotes and spaces around it. Only texts are trimmed, because trim is slow."""
    return f"case when starts_with({column}, '\"') then trim({column}, '\" ') else {column} end"


def _aggregate_sql(field: FieldAggregation, column: Column) -> str:
    name = column.name
    if field.agg_type == "mean":
        return f"avg({_number_sql(name)})"
    if field.agg_type == "rate":
        return f"count(*) filter (lower({_unquoted_sql(name)}) = 'true') / nullif(count(*), 0)"
    return f"count({name}) / nullif(count(*), 0)"


def _distribution(tables: ResultTables, field: FieldAggregation, where: str, values: list[str]) -> list[dict[str, Any]]:
    """Return each value with its count, most frequent first.

    The items of an array are counted one by one. An object counts by its `sub_field`, if the field has one.
    """
    name = tables.columns[field.path].name
    # Equal values are grouped before their JSON is parsed, because most results share few values.
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
            decoded = _decode(text)
        except msgspec.DecodeError:
            decoded = text
        counts.append({"value": decoded, "count": count})
    return counts


class _FieldKinds(Struct, frozen=True):
    """Counts of the values in a field: all, booleans, texts, arrays and objects, different ones, and the longest."""

    values: int
    flags: int
    texts: int
    containers: int
    distinct: int
    longest: int


def _guess_fields(tables: ResultTables) -> list[FieldAggregation]:
    """Choose aggregations without a config: mean for numbers, rate for booleans, distribution for few texts."""
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
select count(*), round(avg(duration), 4), count(duration), quantile_cont(duration, 0.5),
  quantile_cont(duration, 0.95)
from observations where kind = 'run_end'
"""
_UNFINISHED_SQL = """
select count(distinct run_id) from observations where kind = 'run_start'
and run_id not in (select run_id from observations where kind = 'run_end')
"""
_OPERATORS_SQL = """
select op, count(*), round(count(*) filter (ok) / count(*), 4), round(avg(duration), 4),
  round(avg(retries), 4) from observations where kind = 'step' group by op order by 2 desc, op
"""
