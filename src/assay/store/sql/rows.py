"""The view `rows`: one row per row that people read, with a column per metric, for `assay show --where`.

A row is a part of a case in memory suites and pipelines (a question, a test), and the whole case elsewhere. Which
columns there are depends on the runs, so the view is made by looking at their scores first:

- `score` is the run's first metric; every metric is a column of its own name, and with several filters also
  `metric,filter`;
- a tag `category:2` makes a column `category`;
- a plain value in the scorer's data, such as the category of a memory question, is a column too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from assay.store.sql.guard import CheckedQuery
from assay.store.sql.sources import RunSource, literal
from assay.store.sql.views import VIEWS, Relation

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROWS = "rows"
ROWS_ABOUT = "One row per row that people read: a question of a memory suite, a test of a pipeline, a case elsewhere."
ROWS_COLUMNS = {
    "run": "name of the run's folder",
    "suite": "the suite",
    "index": "number of the case in data order, from 0",
    "key": "key of the case",
    "set": "data set or task",
    "subject": "model, variant, profile or memory",
    "label": "id of the row or test, or text of the question",
    "part": "test or question; empty if the row is the whole case",
    "question": "number of the question (memory suites)",
    "tags": "tags of the row (a list)",
    "status": "ok, subject_error or infra_error",
    "score": "value of the run's first metric; NULL without a value",
    "answer": "the answer as text",
    "expected": "the reference as text",
    "reason": "reason of the scorer that gave `score`",
    "error": "why the case has no answer",
    "seconds": "duration of the case",
    "calls": "calls of the case",
}
"""Columns that every run has. Metrics, tags and data follow `score`."""

# Keys of a score's data that say nothing about the row, or something else for each metric.
_NOT_OF_THE_ROW = ("gold", "value", "of", "numerator", "denominator", "answer", "label", "traceback")
_NUMBERS = {"BIGINT", "UBIGINT", "DOUBLE"}
_MAX_COLUMNS = 60  # of each kind; a scorer that stores a key per row would make a column per row


class _Metric(NamedTuple):
    metric: str
    filter: str | None

    def where(self) -> str:
        return f"metric = {literal(self.metric)} and filter is not distinct from {_literal_or_null(self.filter)}"


def rows_view(connection: DuckDBPyConnection, sources: Sequence[RunSource], relation: Relation) -> str:
    """Return the SELECT of the view. Reads the scores to find its columns."""
    everything = CheckedQuery("", frozenset(), frozenset(VIEWS), has_star=True)
    scores, cases, answers = (VIEWS[name].select(relation, everything) for name in ("scores", "cases", "answers"))
    connection.execute(f"create or replace view row_scores as select * from ({scores}) where not interim")
    columns: dict[str, str] = {}
    metrics = _metrics(connection, sources)
    for metric in metrics:
        number = f"avg(value) filter ({metric.where()})"
        _add(columns, metric.metric, "metric", number)
        if metric.filter and sum(other.metric == metric.metric for other in metrics) > 1:
            _add(columns, f"{metric.metric},{metric.filter}", "metric", number)
    for name, kind in _tag_columns(connection):
        prefix = literal(f"{name}:")
        tag = f"list_filter(any_value(tags), lambda tag: starts_with(tag, {prefix}))[1]"
        _add(columns, name, "tag", f"substr({tag}, length({prefix}) + 1)::{kind}")
    for name, kind in _data_columns(connection):
        path = literal(f'$."{name}"')
        _add(
            columns,
            name,
            "data",
            f"(any_value(data ->> {path}) filter (data ->> {path} is not null))::{kind}",
        )
    by_part = [source.name for source in sources if source.run.info.score_parts == "rows"]
    part = f"case when run in ({', '.join(map(literal, by_part))}) then part else '' end" if by_part else "''"
    is_first = _first_metrics(metrics, sources)
    extra = "".join(f', {value} as "{name}"' for name, value in columns.items())
    selected = "".join(f', g."{name}"' for name in columns)
    groups = f"""select run, "index", {part} as part, any_value(question) as question, any_value(label) as label,
      any_value(tags) as tags, avg(value) filter ({is_first}) as score,
      any_value(expected) filter (expected is not null) as expected,
      coalesce(any_value(reason) filter ({is_first}), any_value(reason)) as reason{extra}
      from row_scores group by all"""
    texts = f"""select run, "index", {part} as part, min_by(answer, part) as answer from ({answers}) group by all"""
    return f"""select c.run, c.suite, c."index", c.key, c."set", c.subject, coalesce(g.label, c.label) as label,
      coalesce(g.part, '') as part, g.question, coalesce(g.tags, c.tags) as tags, c.status, g.score{selected},
      a.answer, g.expected, g.reason, c.error, c.seconds, c.calls
      from ({cases}) c left join ({groups}) g on c.run = g.run and c."index" = g."index"
      left join ({texts}) a on c.run = a.run and c."index" = a."index" and coalesce(g.part, '') = a.part"""


def _metrics(connection: DuckDBPyConnection, sources: Sequence[RunSource]) -> list[_Metric]:
    """Return all metrics: those of the reports first, in their order."""
    found = connection.execute(
        'select metric, filter from row_scores group by all order by min("index"), metric, filter'
    ).fetchall()
    stored = [_Metric(*row) for row in found]
    ordered = [metric for source in sources for metric in _reported(source) if metric in stored]
    return list(dict.fromkeys([*ordered, *stored]))[:_MAX_COLUMNS]


def _reported(source: RunSource) -> list[_Metric]:
    summary = source.run.summary
    if summary is None or summary.report is None:
        return []
    return [_Metric(metric.name, metric.filter or None) for _, metric in summary.report.metrics()]


def _first_metrics(metrics: Sequence[_Metric], sources: Sequence[RunSource]) -> str:
    """Return the condition for the first metric of each run. A pipeline reports pass_rate and stores passed."""
    conditions = []
    for source in sources:
        first = next((metric for metric in _reported(source) if metric in metrics), metrics[0] if metrics else None)
        if first is not None:
            conditions.append(f"(run = {literal(source.name)} and {first.where()})")
    return " or ".join(conditions) or "false"


def _tag_columns(connection: DuckDBPyConnection) -> list[tuple[str, str]]:
    """Return name and type of the column for each kind of tag such as `category:2`."""
    found = connection.execute(
        """select name, case when count(try_cast(item as bigint)) = count(*) then 'bigint'
             when count(try_cast(item as double)) = count(*) then 'double' else 'varchar' end
           from (select split_part(tag, ':', 1) as name, substr(tag, strpos(tag, ':') + 1) as item
             from (select distinct unnest(tags) as tag from row_scores) where strpos(tag, ':') > 1)
           where regexp_full_match(name, '[A-Za-z_][A-Za-z0-9_]*') group by name order by name limit ?""",
        [_MAX_COLUMNS],
    ).fetchall()
    return [(str(name), str(kind)) for name, kind in found]


def _data_columns(connection: DuckDBPyConnection) -> list[tuple[str, str]]:
    """Return name and type of the column for each key of the scores' data that has plain values."""
    found = connection.execute(
        """select key, list(distinct json_type(data, '$."' || key || '"')) as kinds
           from (select data, unnest(json_keys(data)) as key from row_scores where json_type(data) = 'OBJECT')
           where regexp_full_match(key, '[A-Za-z_][A-Za-z0-9_]*') group by key order by key limit ?""",
        [_MAX_COLUMNS],
    ).fetchall()
    columns = []
    for name, kinds in found:
        types = set(kinds) - {"NULL", None}
        if name in _NOT_OF_THE_ROW or not types or types & {"OBJECT", "ARRAY"}:
            continue
        if types <= _NUMBERS:
            kind = "double" if "DOUBLE" in types else "bigint"
        else:
            kind = "boolean" if types == {"BOOLEAN"} else "varchar"
        columns.append((str(name), kind))
    return columns


def _add(columns: dict[str, str], name: str, kind: str, value: str) -> None:
    """Add a column. A name that a column has already gets a prefix; of two equal ones the first stays."""
    name = name.replace('"', "'")
    taken = {*ROWS_COLUMNS, *(column.lower() for column in columns)}
    if name.lower() in taken:
        if name.lower() not in ROWS_COLUMNS:
            return
        name = f"{kind}_{name}"
        if name.lower() in taken:
            return
    columns[name] = value


def _literal_or_null(text: str | None) -> str:
    return "null" if text is None else literal(text)
