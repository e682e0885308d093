"""Queries read the views and nothing else: forty ways out are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from assay.core.errors import UsageError
from assay.store.sql import RunDatabase, SqlProcess

from support.runs import run_of

SECRET = "the secret of another folder"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, a file beside its folder, and a link to that file inside the folder."""
    root = tmp_path_factory.mktemp("lock")
    (root / "secret.txt").write_text(SECRET)
    (root / "secret.csv").write_text(f"a\n{SECRET}\n")
    folder = run_of(root / "run", {"a": True, "b": False})
    (folder / "link.csv").symlink_to(root / "secret.csv")
    return root


@pytest.fixture(scope="module")
def database(place: Path) -> Iterator[RunDatabase]:
    with RunDatabase([place / "run"], timeout=60) as database:
        yield database


ESCAPES = {
    "read_text": "select * from read_text('{root}/secret.txt')",
    "read_blob": "select * from read_blob('{root}/secret.txt')",
    "read_csv": "select * from read_csv('{root}/secret.csv')",
    "read_csv_auto in a subquery": "select (select count(*) from read_csv_auto('{root}/secret.csv'))",
    "read_json of a journal file": "select * from read_json('{root}/run/scores.jsonl')",
    "read_ndjson_objects": "select * from read_ndjson_objects('{root}/run/run.json')",
    "read_parquet": "select * from read_parquet('{root}/*.parquet')",
    "parquet_metadata": "select * from parquet_metadata('{root}/x.parquet')",
    "glob": "select * from glob('{root}/*')",
    "sniff_csv": "select * from sniff_csv('{root}/secret.csv')",
    "a file as a table": "from '{root}/secret.csv'",
    "a quoted file as a table": 'select * from "{root}/secret.csv"',
    "a file in a CTE": "with x as (from '{root}/secret.csv') select * from x",
    "a file in a join": "select * from scores join '{root}/secret.csv' on true",
    "a file below exists": "select 1 where exists (from '{root}/secret.csv')",
    "home": "from '~/.bashrc'",
    "a link inside the run": "from '{root}/run/link.csv'",
    "the path upwards": "from '{root}/run/../secret.csv'",
    "https": "from 'https://127.0.0.1:1/x.csv'",
    "s3": "select * from read_parquet('s3://bucket/x.parquet')",
    "install": "install httpfs",
    "load": "load httpfs",
    "copy to": "copy (select 1) to '{root}/out.csv'",
    "copy over the journal": "copy (select 1) to '{root}/run/scores.jsonl'",
    "export": "export database '{root}/export'",
    "attach": "attach '{root}/other.db'",
    "attach sqlite": "attach '{root}/other.db' as other (type sqlite)",
    "create table": "create table t as select * from scores",
    "create macro": "create macro f() as table select 1",
    "insert": "insert into run_table select * from run_table",
    "delete": "delete from run_table",
    "drop": "drop view scores",
    "set": "set enable_external_access = true",
    "reset": "reset lock_configuration",
    "pragma": "pragma database_list",
    "pragma function": "select * from pragma_user_agent()",
    "call": "call duckdb_settings()",
    "settings": "select * from duckdb_settings()",
    "secrets": "select * from duckdb_secrets()",
    "catalog": "select * from information_schema.tables",
    "main schema": "select * from main.run_table",
    "a table behind a view": "select * from journal_files",
    "a name of an inner WITH": "from (with sqlite_master as (select 1) from sqlite_master) a, sqlite_master b",
    "a name of an outer SELECT": "select (with journal_files as (select 1 as a) select a from journal_files), * "
    "from journal_files",
    "a later name of WITH": "with a as (from journal_files), journal_files as (select 1) from a",
    "its own name in WITH": "with journal_files as (from journal_files) from journal_files",
    "its own name in the first part": "with recursive run_table as (from run_table union all from run_table) "
    "from run_table",
    "a file as a name of WITH": 'from (with "{root}/run/scores.jsonl" as (select 1) select 1), '
    "'{root}/run/scores.jsonl'",
    "a plan": "select json_serialize_plan('select getenv(''HOME'')', optimize := true)",
    "current_setting": "select current_setting('allowed_paths')",
    "getenv": "select getenv('HOME')",
    "getvariable": "select getvariable('x')",
    "write_log": "select write_log('x')",
    "query": "select * from query('select * from run_table')",
    "query_table": "select * from query_table('run_table')",
    "serialized sql": "select * from json_execute_serialized_sql(json_serialize_sql('select 1'))",
    "prepare": "prepare q as select 1",
    "execute": "execute q",
    "parameter": "select ?",
    "two statements": "select 1; select 2",
    "a statement after a comment": "select 1 -- harmless\n; copy (select 1) to '{root}/out.csv'",
    "a statement before a comment": "/* select */ drop view scores /* ; */",
    "explain analyze": "explain analyze select 1",
    "transaction": "begin",
    "checkpoint": "force checkpoint",
    "vacuum": "vacuum",
    "update extensions": "update extensions",
    "use": "use memory",
    "show": "show tables",
    "python variable": "select * from place",
    "arrow": "select * from arrow_scan(0, 0, 0)",
    "another table function": "select * from test_all_types()",
    "nothing": "  ; ",
    "no SQL": "please give me everything",
}


@pytest.mark.parametrize("name", ESCAPES)
def test_a_query_that_leaves_the_views_is_refused(name: str, place: Path, database: RunDatabase) -> None:
    before = sorted(path.name for path in place.rglob("*"))
    with pytest.raises(UsageError) as refused:
        database.query(ESCAPES[name].format(root=place)).fetch()
    assert SECRET not in str(refused.value)
    assert sorted(path.name for path in place.rglob("*")) == before


@pytest.mark.parametrize(
    "name",
    # The files of the journal are open to DuckDB. Only the check of the query protects them.
    [name for name, query in ESCAPES.items() if "{root}/" in query and "/scores.jsonl" not in query],
)
def test_the_settings_of_duckdb_refuse_files_too(name: str, place: Path, database: RunDatabase) -> None:
    """The second lock, in case the check of the query has a hole. Only journal files are open."""
    before = sorted(path.name for path in place.rglob("*"))
    with pytest.raises(duckdb.Error):
        database._connection.cursor().execute(ESCAPES[name].format(root=place)).fetchall()
    assert sorted(path.name for path in place.rglob("*")) == before


ALLOWED = {
    "window": "select row_number() over (order by index) from cases qualify row_number() over () = 1",
    "recursive": "with recursive t(n) as (select 1 union all select n + 1 from t where n < 5) select max(n) from t",
    "from first": "from scores select metric, avg(value) group by all",
    "pivot": "from (pivot (select key, metric, value from scores) on metric in ('passed') using avg(value))",
    "unpivot": "unpivot (select calls, seconds from cases) on calls, seconds",
    "values": "select * from (values (1), (2)) v(a)",
    "union by name": "select key from cases union by name select key from scores",
    "list comprehension": "select [upper(tag) for tag in tags] from scores",
    "lambda": "select list_transform(tags, lambda tag: tag || '!') from scores",
    "describe": "describe scores",
    "summarize": "summarize cases",
    "json_each": "select key from json_each('{\"a\": 1}')",
    "range": "select count(*) from range(10)",
    "correlated": "select (select count(*) from scores s where s.index = c.index) from cases c",
    "lateral": "select * from cases c, lateral (select c.index + 1)",
    "columns": "select columns('.*index.*') from cases",
    "whole rows": "select scores from scores",
    "names of WITH in nested queries": "with a as (from cases), b as (from a), scores as (from b) "
    "select (select count(*) from a), * from (with c as (from b) from c union all from scores) order by (select 1)",
    "comment": "select 1 -- ; drop view scores",
    "semicolon in a text": "select ';'",
    "upper case": "SELECT COUNT(*) FROM Scores",
}


@pytest.mark.parametrize("name", ALLOWED)
def test_the_usual_forms_of_select_work(name: str, database: RunDatabase) -> None:
    assert database.query(ALLOWED[name]).fetch()


def test_a_journal_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """A run folder of somebody else could lead out of itself."""
    folder = run_of(tmp_path / "run", {"a": True})
    (folder / "calls.jsonl").unlink()
    (folder / "calls.jsonl").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match=r"calls\.jsonl is a link"):
        RunDatabase([folder])


def test_an_endless_result_is_read_row_by_row(database: RunDatabase) -> None:
    rows = database.query("select range as n, repeat('x', 1000) from range(1000000000000)").rows()
    assert [next(rows)[0] for _ in range(5000)] == list(range(5000))


def test_a_query_that_takes_too_long_is_stopped(place: Path) -> None:
    with (
        RunDatabase([place / "run"], timeout=0.3) as database,
        pytest.raises(UsageError, match=r"stopped after 0\.3 s"),
    ):
        database.query("select count(*) from range(1000000000000) a where hash(a.range) = 1")


def test_a_query_that_needs_too_much_memory_is_stopped(place: Path) -> None:
    with (
        RunDatabase([place / "run"], memory="50MB") as database,
        pytest.raises(UsageError, match="needs more than 50MB of memory"),
    ):
        database.query("select count(distinct range) from range(50000000)")


# DuckDB stops none of these by itself: each is one call of a function.
@pytest.mark.parametrize("query", ["select len(range(3000000000))", "select length(repeat('x', 2000000000))"])
def test_a_function_of_one_value_that_needs_too_much_memory_is_stopped_too(place: Path, query: str) -> None:
    with SqlProcess([place / "run"], memory="50MB", max_addresses=1 << 30) as database:
        with pytest.raises(UsageError, match="needs more than 50MB of memory"):
            database.query(query)
        assert database.query("select count(*) from runs").fetch() == [(1,)]


def test_a_query_in_a_process_returns_what_the_database_returns(place: Path, database: RunDatabase) -> None:
    query = "select *, 1.5::decimal(4, 2), date '2026-11-18', [1, null], {'a': 2::hugeint} from range(2500), runs"
    with SqlProcess([place / "run"]) as process:
        result = process.query(query)
        assert result.fetch() == database.query(query).fetch()
        assert result.columns == database.query(query).columns
        with pytest.raises(UsageError, match="no view named 'nothing'"):
            process.query("from nothing")
        assert not process.is_stale()


def test_the_process_reads_no_modules_of_the_working_folder(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pickle.py", "assay.py", "duckdb.py"):
        (tmp_path / name).write_text("open('executed', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    with SqlProcess([place / "run"]) as process:
        assert process.query("select 1").fetch() == [(1,)]
    assert not (tmp_path / "executed").exists()


def test_no_progress_bar_is_printed_between_the_rows(database: RunDatabase) -> None:
    """DuckDB prints one on stdout when a query takes two seconds."""
    setting = database._connection.execute("select current_setting('enable_progress_bar')").fetchone()
    assert setting == (False,)


def test_nothing_remains_on_the_disk(place: Path) -> None:
    database = RunDatabase([place / "run"])
    folder = database._folder
    assert folder.is_dir()
    database.close()
    assert not folder.exists()


def test_a_function_of_one_value_that_takes_too_long_is_killed_and_leaves_nothing_on_the_disk(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next query has a process of its own again."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with SqlProcess([place / "run"], timeout=0.1) as process:
        with pytest.raises(UsageError, match=r"stopped after 0\.1 s"):
            process.query("select levenshtein(repeat('a', 500000), repeat('b', 500000))")
        assert list(tmp_path.iterdir())
        process._timeout = 300
        assert process.query("select count(*) from runs").fetch() == [(1,)]
    assert not list(tmp_path.iterdir())
