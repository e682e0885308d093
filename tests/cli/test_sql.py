"""`assay sql` and `assay show --where` as people type them, over real runs."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

import assay
from assay.core.errors import MissingExtra, UsageError
from assay.runner import api
from assay.store.sql import ROWS, ROWS_COLUMNS, VIEWS

from conftest import DOCS, MODEL, TASK, write_docs
from support.commands import environment, typed
from support.terminal import is_readable

ROOT = Path(__file__).parents[2]
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of a task, of a pipeline and of two memories."""
    root = tmp_path_factory.mktemp("runs")
    (root / "sums.yaml").write_text(TASK)
    write_docs(root / "sums.jsonl", DOCS)
    (root / "model.py").write_text(MODEL)
    examples = ROOT / "examples"
    model = f"python/{root / 'model.py'}:answer"
    specs: dict[str, dict[str, Any]] = {
        "task": {"tasks": [str(root / "sums.yaml")], "model": model},
        "memory-test": {
            "data": str(examples / "memory/talks.json"),
            "memory": ["bm25", "STMemory"],
            "no_answer": True,
        },
        "pipeline": {
            "pipeline": str(examples / "pipeline/reviews.yaml"),
            "model": f"script/{examples / 'pipeline/replies/reviews.jsonl'}",
        },
    }
    for suite, options in specs.items():
        assay.run(assay.spec(suite, **options, output_dir=str(root / suite)))
    return root


@pytest.fixture
def _here(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs)


@pytest.mark.usefixtures("_here")
def test_without_a_place_the_runs_below_the_current_folder_are_asked(capsys: Captured) -> None:
    assert typed("sql", "select suite, count(*) as n from cases group by suite order by suite") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[2:]] == [["memory-test", "6"], ["pipeline", "1"], ["task", "6"]]


@pytest.mark.usefixtures("_here")
def test_a_query_may_be_longer_than_the_name_of_a_file(capsys: Captured) -> None:
    condition = " or ".join(f"suite = 'suite number {n}'" for n in range(40))
    assert typed("sql", f"select count(*) as n from cases where suite = 'task' or {condition}") == 0
    assert capsys.readouterr().out.split()[-1] == "6"


def test_a_folder_without_runs_gets_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    assert typed("sql", "select * from runs") == 2
    assert "there are no runs below the current folder" in capsys.readouterr().err
    assert typed("sql", "select * from runs", "nowhere") == 2
    assert "there is no run 'nowhere'" in capsys.readouterr().err


def test_the_formats_say_the_same(runs: Path, capsys: Captured, tmp_path: Path) -> None:
    query = "select index, label, tags, value, reason, value > 0 as good from scores order by index limit 2"
    assert typed("sql", query, str(runs / "task"), "--format", "csv") == 0
    assert capsys.readouterr().out == "index,label,tags,value,reason,good\n0,0,[],1.0,,true\n1,1,[],0.0,,false\n"
    assert typed("sql", query, str(runs / "task"), "--format", "json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows[0] == {"index": 0, "label": "0", "tags": [], "value": 1.0, "reason": None, "good": True}
    file = tmp_path / "scores.parquet"
    assert typed("sql", query, str(runs / "task"), "--output", str(file)) == 0
    assert duckdb.connect().execute(f"select value from '{file}'").fetchall() == [(1.0,), (0.0,)]
    assert typed("sql", query, str(runs / "task"), "--output", str(tmp_path / "scores.csv")) == 0
    assert (tmp_path / "scores.csv").read_text().startswith("index,label,")
    assert re.findall(r"wrote \S+/scores\.(\w+): 2 rows", capsys.readouterr().out) == ["parquet", "csv"]


def test_a_csv_file_has_no_formulas(runs: Path, capsys: Captured) -> None:
    query = "select '=cmd()' as a, -1.5 as b, '-2' as c, null as d, ['=x'] as e, 'f' as \"=g\""
    assert typed("sql", query, str(runs / "task"), "--format", "csv") == 0
    assert capsys.readouterr().out == 'a,b,c,d,e,\'=g\n\'=cmd(),-1.5,-2,,"[""=x""]",f\n'


@pytest.mark.parametrize("name", ["x.csv", "x.json", "x.parquet"])
@pytest.mark.usefixtures("_here")
def test_an_existing_file_is_not_overwritten(name: str, tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / name
    file.write_text("mine")
    assert typed("sql", "select 1 as a from runs", "--output", str(file)) == 2
    assert "exists. Pass another name with --output" in capsys.readouterr().err
    assert file.read_text() == "mine"


@pytest.mark.usefixtures("_here")
def test_a_query_that_fails_between_two_rows_leaves_no_file(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "x.csv"
    query = "select cast(if(range < 900000, '1', 'x') as int) as a from range(1000000)"
    assert typed("sql", query, "--output", str(file)) == 2
    assert "Could not convert" in capsys.readouterr().err
    assert not file.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "parquet"], "name a file with --output"),
        (["--output", "x.txt"], "has no ending .csv, .json or .parquet"),
        (["--output", "x.csv", "--format", "table"], "a table goes to the terminal"),
        (["--output", "nowhere/x.csv"], "cannot write nowhere/x.csv"),
        (["--output", "nowhere/x.parquet"], "cannot write nowhere/x.parquet"),
    ],
)
@pytest.mark.usefixtures("_here")
def test_an_output_that_does_not_fit_is_refused(options: list[str], message: str, capsys: Captured) -> None:
    assert typed("sql", "select 1 as a from runs", *options) == 2
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("_here")
def test_a_table_shows_a_thousand_rows_and_counts_the_others(capsys: Captured) -> None:
    assert typed("sql", "select range as n from range(1500)") == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 1002
    assert "500 more rows" in shown.err


@pytest.mark.usefixtures("_here")
def test_control_characters_of_a_model_do_not_reach_the_terminal(capsys: Captured) -> None:
    assert typed("sql", "select chr(27) || '[2J' as reply from runs") == 0
    assert "\x1b" not in capsys.readouterr().out


def test_a_result_file_of_another_program_is_asked_like_a_run(capsys: Captured) -> None:
    (file,) = (ROOT / "tests/golden/lm_eval/out/b_em").rglob("results_*.json")
    query = "select imported, (select count(*) from scores) > 0 as scored, seconds from runs"
    assert typed("sql", query, str(file), "--format", "json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["imported"], row["scored"]) == ("lm-eval", True)
    # The file has no times. A mean over this and other runs must not count them as 0.
    assert typed("sql", "select avg(seconds) as mean from cases", str(file), "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == [{"mean": None}]


def test_interim_scores_have_the_label_and_tags_of_their_question(runs: Path, capsys: Captured) -> None:
    """The journal has them only in the scores of the last test."""
    query = """select question, count(distinct interim) as kinds, count(distinct label) as labels,
      count(distinct tags) as tags, count(distinct coalesce(expected, '')) as expected
      from scores group by "index", subject, question"""
    assert typed("sql", query, str(runs / "memory-test"), "--format", "json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["kinds"] for row in rows} == {1, 2}
    assert {(row["labels"], row["tags"], row["expected"]) for row in rows} == {(1, 1, 1)}
    assert typed("sql", "select count(*) as n from scores", str(runs / "memory-test"), "--format", "json") == 0
    (counted,) = json.loads(capsys.readouterr().out)
    query = "select count(*) as n from (select label, tags from scores)"
    assert typed("sql", query, str(runs / "memory-test"), "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == [counted]


@pytest.mark.usefixtures("_here")
def test_queries_from_a_pipe_are_answered_one_after_the_other(runs: Path) -> None:
    text = "select count(*) as n\nfrom runs;\n.format csv\nselect 1 as a;\n.schema runs\n.nothing\nselect 2 as b"
    done = subprocess.run(
        [sys.executable, "-m", "assay", "sql"],
        input=text, cwd=runs, env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2  # because of .nothing
    assert "there is no command named '.nothing'" in done.stderr
    assert "a\n1\n" in done.stdout
    assert done.stdout.endswith("b\n2\n")
    assert "price" in done.stdout  # the explanation of the column cost


def test_ctrl_c_stops_a_query_and_not_the_prompt(runs: Path, tmp_path: Path) -> None:
    """With a history that only its user can read."""
    with terminal(["sql", str(runs / "task")], tmp_path) as (process, talk):
        talk("", "assay> ")
        talk("select count(*)\n", "...> ")
        talk("from cases;\n", "assay> ")
        os.write(process.stdin_fd, b"select count(*) from range(1000000000000) a where hash(a.range) = 1;\n")
        begin = process.cpu_seconds()
        while process.cpu_seconds() < begin + 0.3:
            time.sleep(0.01)  # until the query runs
        process.popen.send_signal(signal.SIGINT)
        assert "stopped" in talk("", "assay> ")
        assert "failures" in talk(".views\n", "assay> ")
        os.write(process.stdin_fd, b".quit\n")
        assert process.popen.wait(timeout=30) == 0
    history = tmp_path / "assay" / "sql_history"
    assert "from cases;" in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


class Terminal:
    def __init__(self, popen: subprocess.Popen[bytes], stdin_fd: int) -> None:
        self.popen = popen
        self.stdin_fd = stdin_fd

    def cpu_seconds(self) -> float:
        """Return the CPU time of the process in which the queries run."""
        (child,) = Path(f"/proc/{self.popen.pid}/task/{self.popen.pid}/children").read_text().split()
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __call__(self, text: str, until: str) -> str:
        """Type a text and return the output up to `until`."""
        os.write(self.stdin_fd, text.encode())
        output = ""
        deadline = time.monotonic() + 60
        while not output.endswith(until):
            assert is_readable(self.stdin_fd, max(0.0, deadline - time.monotonic())), output
            output += os.read(self.stdin_fd, 65536).decode()
            output = re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", output)
        return output


@contextmanager
def terminal(words: list[str], state: Path) -> Iterator[tuple[Terminal, Terminal]]:
    """A command at a terminal of its own."""
    parent, child = pty.openpty()
    env = environment() | {"XDG_STATE_HOME": str(state), "TERM": "dumb"}
    with subprocess.Popen(
        [sys.executable, "-m", "assay", *words],
        stdin=child,
        stdout=child,
        stderr=child,
        env=env,
        start_new_session=True,
    ) as popen:
        os.close(child)
        terminal = Terminal(popen, parent)
        try:
            yield terminal, terminal
        finally:
            popen.kill()
            os.close(parent)


# assay show --where


def test_where_shows_the_questions_of_a_memory(runs: Path, capsys: Captured) -> None:
    words = [
        "show",
        str(runs / "memory-test"),
        "--where",
        "category = 2 and score < 0.5 and subject = 'STMemory'",
    ]
    assert typed(*words, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows
    for row in rows:
        assert (row["category"], row["subject"], row["tags"]) == (2, "STMemory", ["2"])
        assert row["score"] == row["evidence_recall"] < 0.5
        assert row["label"].endswith("?")
        assert row["expected"]
    assert typed(*words, "--limit", "1") == 0
    shown = capsys.readouterr()
    assert rows[0]["label"] in shown.out
    assert f"… {len(rows) - 1} more (--limit {len(rows)} shows all)" in shown.err


def test_where_knows_the_tests_of_a_pipeline_and_the_cases_of_a_task(runs: Path, capsys: Captured) -> None:
    assert typed("show", str(runs / "pipeline"), "--where", "passed = 1 and verdict = 'passed'", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["score"], row["part"]) == (1.0, row["label"])
    assert typed("show", str(runs / "task"), "--where", "score = 0 and index > 1", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["index"], row["answer"], row["expected"]) for row in rows] == [(3, "3", "6"), (5, "5", "10")]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("categry = 2", "no column named 'categry'; did you mean 'category'"),
        ("  ", "--where is empty"),
        ("score <", "is no condition"),
        (
            "true) union select * from read_text('/etc/passwd') where (true",
            "the function read_text is not allowed",
        ),
        ("true); drop view rows; --", "is no condition"),
        ("score < 0.5 -- only the bad ones", ""),
    ],
)
def test_a_condition_is_checked_like_a_query(runs: Path, where: str, message: str, capsys: Captured) -> None:
    assert typed("show", str(runs / "memory-test"), "--where", where) == (2 if message else 0)
    assert message in capsys.readouterr().err


def test_where_without_a_match_says_so(runs: Path, capsys: Captured) -> None:
    assert typed("show", str(runs / "task"), "--where", "score = 7") == 0
    assert "no row of the run meets the condition" in capsys.readouterr().err


# run.frame


def test_a_frame_is_arrow_pandas_or_polars(runs: Path) -> None:
    run = assay.load(runs / "task")
    table = run.frame("scores")
    assert table.column_names == list(VIEWS["scores"].columns)
    assert table.column("value").to_pylist() == [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    assert list(run.frame("cases", as_="pandas")["label"]) == ["0", "1", "2", "3", "4", "5"]
    assert run.frame("rows", as_="polars")["score"].sum() == 3.0


def test_a_frame_without_its_package_names_the_extra(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"without pyarrow needs an optional package: pip install 'assay\[frames\]'"):
        assay.load(runs / "task").frame("scores")


def test_an_unknown_frame_gets_the_nearest_name(runs: Path) -> None:
    with pytest.raises(UsageError, match="no view named 'score'; did you mean 'scores'"):
        assay.load(runs / "task").frame("score")


# The page


def test_the_page_has_every_view_with_its_columns() -> None:
    page = (ROOT / "docs" / "sql.md").read_text()
    views = {name: view.columns for name, view in VIEWS.items()} | {ROWS: ROWS_COLUMNS}
    for name, columns in views.items():
        section = page.split(f"### {name}\n", 1)[1].split("\n#", 1)[0]
        assert dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE)) == columns


@pytest.mark.usefixtures("_here")
def test_the_queries_of_the_page_and_of_the_help_run() -> None:
    page = (ROOT / "docs" / "sql.md").read_text()
    queries = re.findall(r'^assay sql "([^"]+)"', page, re.MULTILINE)
    conditions = re.findall(r'^assay show results --where "([^"]+)"', page, re.MULTILINE)
    assert (len(queries), len(conditions)) == (4, 3)
    with api.open_sql([]) as database:
        for query in queries:
            assert database.query(query).columns
    for condition in conditions:
        assert typed("show", "memory-test", "--where", condition) == 0
