"""Mean by tag over the journal of a large run: `assay sql` against DuckDB with a query written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figures import Figure
from benchmarks.measure import Used, environment, python

if TYPE_CHECKING:
    from collections.abc import Iterator

# assay verifies the checksum of every line, which the query by hand does not.
_LIMIT = 2.5
# Both programs print the same rows. Tags are in the end of a case, values in its scores.
_HAND = """
import sys
import duckdb

folder = sys.argv[1]
connection = duckdb.connect()
connection.execute("set threads = " + sys.argv[2] + "; set enable_progress_bar = false")
print(connection.execute(f'''
  select tag, round(avg(value), 9)
  from (select "index", value from read_json('{folder}/scores.jsonl', format = 'newline_delimited',
      columns = {{type: 'VARCHAR', "index": 'BIGINT', value: 'DOUBLE'}}) where type = 'score')
  join (select "index", unnest(coalesce("end".tags, tags)) as tag
    from read_json('{folder}/records.jsonl', format = 'newline_delimited',
      columns = {{type: 'VARCHAR', "index": 'BIGINT', tags: 'VARCHAR[]', "end": 'STRUCT(tags VARCHAR[])'}})
    where type <> 'assay') using ("index")
  group by tag order by tag''').fetchall())
"""
_OURS = """
import sys
from pathlib import Path
from assay.store.sql import RunDatabase

with RunDatabase([Path(sys.argv[1])]) as database:
    print(database.query('''
      select tag, round(avg(value), 9) from (select unnest(tags) as tag, value from scores) group by tag order by tag
    ''').fetch())
"""


def sql(folder: Path, count: int, turns: int) -> Iterator[Figure]:
    """A run of `count` cases, asked alternately by both."""
    written = _python(folder, "-m", "benchmarks.journal_run", folder / "run", "--cases", count)
    run = Path(written.output.strip())
    _python(folder, "-c", _OURS, run)  # makes the index, which later readers find
    pairs = [(_python(folder, "-c", _HAND, run, 2), _python(folder, "-c", _OURS, run)) for _ in range(turns)]
    hand, ours = (min(used.cpu for used in side) for side in zip(*pairs, strict=True))
    note = f"{ours:.1f} s / {hand:.1f} s"
    yield Figure(f"CPU of the mean by tag, {count:,} cases, to DuckDB by hand", ours / hand, _LIMIT, "x", note)
    equal = float(all(by_hand.output == by_us.output for by_hand, by_us in pairs))
    yield Figure("the same means", equal, 1.0, exact=True)


def _python(folder: Path, *arguments: object) -> Used:
    used = python(*arguments, env=environment(uvloop=True), log=folder / "log")
    if used.code:
        raise SystemExit(f"exit code {used.code}:\n{used.output}")
    return used
