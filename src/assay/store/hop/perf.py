"""What `get_perf_summary` says of the observer's records."""

from __future__ import annotations

from typing import Any

from assay.store.hop.table import Tables

_RUNS = """
select count(*), round(avg(duration), 4), count(duration)
from observations where kind = 'run_end'
"""
_AT = """
select duration from observations where kind = 'run_end' and duration is not null order by 1 offset ? limit 1
"""
_UNFINISHED = """
select count(distinct run_id) from observations where kind = 'run_start'
and run_id not in (select run_id from observations where kind = 'run_end')
"""
_OPERATORS = """
select op, count(*), round(count(*) filter (ok) / count(*), 4), round(avg(duration), 4),
  round(avg(retries), 4) from observations where kind = 'step' group by op order by 2 desc, op
"""
_NAMES = ("op", "calls", "success_rate", "avg_duration", "avg_retries")


def perf_summary(tables: Tables) -> dict[str, Any]:
    """Seconds of the runs that ended. `operator_stats` is there only if a step was observed.

    p50 and p95 are durations that occurred. A run without a usable duration counts in `total_runs` and in
    `without_duration`, and in no mean.
    """
    ((total, mean, timed),) = tables.query(_RUNS)
    ((unfinished,),) = tables.query(_UNFINISHED)
    found = {
        "total_runs": total,
        "avg_duration": mean,
        "p50": _at(tables, timed, 0.5),
        "p95": _at(tables, timed, 0.95),
        "unfinished": unfinished,
        "without_duration": total - timed,
    }
    operators = tables.query(_OPERATORS)
    if operators:
        found["operator_stats"] = [dict(zip(_NAMES, row, strict=True)) for row in operators]
    return found


def _at(tables: Tables, count: int, share: float) -> float | None:
    """The duration below which this share of them lies."""
    rows = tables.query(_AT, [min(count - 1, int(count * share))]) if count else []
    return rows[0][0] if rows else None
