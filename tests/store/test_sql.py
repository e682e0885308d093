"""The views over runs: what counts, what does not, and one vocabulary for all suites."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import UsageError
from assay.core.judges import JudgeInfo
from assay.core.report import Entry, Interval, Metric, Report, Slice
from assay.core.types import ASK, Call, End, Failure, Record, Request, Response, Score, SdkRequest, Usage
from assay.journal.index import RunIndex
from assay.journal.journal import Journal
from assay.journal.run_files import read_summary, write_summary
from assay.store.notes import change_notes
from assay.store.sql import VIEWS, RunDatabase

from support.runs import Made, passed, run_of

HEAD = (0, "key", "set", "m")


def ask(folder: Path | list[Path], query: str, warn: Callable[[str], object] = lambda _: None) -> list[tuple[Any, ...]]:
    folders = folder if isinstance(folder, list) else [folder]
    with RunDatabase(folders, warn) as database:
        return database.query(query).fetch()


def rewritten(folder: Path, scorers: list[str]) -> Journal:
    """The journal of a run that is opened again, with other scorers in its summary."""
    summary = read_summary(folder)
    assert summary is not None
    summary.scorers = scorers
    write_summary(folder, summary)
    return Journal(folder, scorers, [])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three cases: right, wrong, and one without an answer."""
    run = Made(tmp_path / "run")
    run.case("a", [passed(1)], label="first", tags=("easy", "category:1"), calls=2, usage=Usage(10, 3), seconds=1.5)
    run.case("b", [{**passed(0), "reason": "no", "expected": {"x": 1}}], label="second", tags=("hard",))
    run.case("c", status="infra_error", label="third")
    return run.finish()


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_has_the_documented_columns(folder: Path, view: str) -> None:
    with RunDatabase([folder]) as database:
        assert database.query(f"select * from {view}").columns == list(VIEWS[view].columns)


def test_cases_and_failures(folder: Path) -> None:
    rows = ask(folder, 'select key, label, tags, status, error_kind, "try", calls, input_tokens, seconds from cases')
    assert rows == [
        ("a", "first", ["easy", "category:1"], "ok", None, 1, 2, 10, 1.5),
        ("b", "second", ["hard"], "ok", None, 1, 0, None, 0.0),
        ("c", "third", [], "infra_error", "timeout", 1, 0, None, 0.0),
    ]
    assert ask(folder, "select key, status, kind, message from failures") == [("c", "infra_error", "timeout", "slow")]


def test_scores_have_the_tags_and_the_label_of_their_case(folder: Path) -> None:
    rows = ask(folder, "select key, metric, value, status, reason, expected, label, tags from scores order by key")
    assert rows == [
        ("a", "passed", 1.0, "scored", None, None, "first", ["easy", "category:1"]),
        ("b", "passed", 0.0, "scored", "no", '{"x":1}', "second", ["hard"]),
    ]


def test_the_tags_of_a_part_come_before_those_of_the_case(tmp_path: Path) -> None:
    run = Made(tmp_path / "run")
    run.case(
        "a",
        [{**passed(1, "p"), "tags": ("own",), "label": "mine"}, passed(0, "q")],
        tags=("case",),
        label="c",
    )
    run.finish(parts="rows")
    assert ask(run.folder, "select part, label, tags from scores order by part") == [
        ("p", "mine", ["own"]),
        ("q", "c", ["case"]),
    ]


@pytest.mark.parametrize(
    "query",
    [
        "select scores from scores",
        "select s from scores s",
        "from scores",
        "select count(*) from scores a join scores b using (tags)",
        "select COLUMNS('ta.*') from scores",
        "select * exclude (value) from scores",
        "with t as (from scores) select tags from t",
        "select (select any_value(Tags) from scores)",
    ],
)
def test_a_query_gets_the_tags_however_it_names_them(folder: Path, query: str) -> None:
    """Views leave a join out if a query does not read its columns. No query may get NULL for that reason."""
    rows = ask(folder, query)
    assert "easy" in str(rows) or rows == [(2,)]


def test_only_the_last_try_counts(folder: Path) -> None:
    journal = rewritten(folder, ["suite@1"])
    end = End(2, "c", "set", "m", ASK, 2, "ok", [])
    journal.end_case(end, [Record(2, "c", "set", "m", 2, "answer", data="second try")])
    scored = Score(2, "c", "set", "m", "suite@1", "passed", value=1.0)
    journal.end_scoring(End(2, "c", "set", "m", "suite@1", 2, "ok", []), [scored])
    journal.close()
    assert ask(folder, "select \"try\", status from cases where key = 'c'") == [(2, "ok")]
    assert ask(folder, "select count(*) from failures") == [(0,)]
    assert ask(folder, "select answer from answers where key = 'c'") == [("second try",)]
    assert ask(folder, "select avg(value), count(*) from scores") == [(2 / 3, 3)]


def test_a_try_without_an_end_does_not_count(folder: Path) -> None:
    journal = rewritten(folder, ["suite@1"])
    journal.write_records([Record(0, "a", "set", "m", 2, "answer", data="interrupted")])
    journal.close()
    assert ask(folder, "select answer from answers order by key") == [
        ("text of a",),
        ("text of b",),
        ("text of c",),
    ]


def test_a_run_that_was_scored_again_has_the_scores_of_its_summary(folder: Path) -> None:
    journal = rewritten(folder, ["suite@2"])
    scored = Score(0, "a", "set", "m", "suite@2", "passed", value=0.25)
    journal.end_scoring(End(0, "a", "set", "m", "suite@2", 1, "ok", []), [scored])
    journal.close()
    assert ask(folder, "select key, value, scorer from scores") == [("a", 0.25, "suite@2")]


def test_a_running_run_shows_what_has_ended(tmp_path: Path) -> None:
    """The last line is not complete yet, and the run has no summary."""
    run = Made(tmp_path / "run")
    run.case("a", [passed(1)])
    run.finish()
    (run.folder / "summary.json").unlink()
    for name in ("calls", "records", "scores"):
        with (run.folder / f"{name}.jsonl").open("a") as file:
            file.write('{"type":"record","index":7,"ca')
    assert ask(run.folder, "select state, ok from runs") == [("unfinished", 1)]
    assert ask(run.folder, "select key from cases") == [("a",)]
    assert ask(run.folder, "select value from scores") == [(1.0,)]
    assert ask(run.folder, "select count(*) from calls") == [(0,)]


@pytest.mark.parametrize("what", ["changed", "doubled", "moved"])
def test_damaged_lines_are_no_data_and_the_run_is_named(folder: Path, what: str) -> None:
    path = folder / "scores.jsonl"
    header, first, second = path.read_bytes().splitlines(keepends=True)
    damaged = {
        "changed": [header, first.replace(b'"value":1.0', b'"value":0.9'), second],
        "doubled": [header, first, second, first],
        "moved": [header, second, first],
    }
    path.write_bytes(b"".join(damaged[what]))
    warnings: list[str] = []
    rows = ask(folder, "select key, value from scores order by key", warnings.append)
    expected = {"changed": [("b", 0.0)], "doubled": [("a", 1.0), ("b", 0.0)], "moved": []}
    assert rows == expected[what]
    assert len(warnings) == 1
    assert f"{folder} is damaged" in warnings[0]


@pytest.mark.parametrize(
    "query", ["select avg(value), count(*) from scores", "select avg(score), count(score) from rows"]
)
def test_a_changed_score_is_not_believed_when_an_index_covers_it(
    folder: Path, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other readers take numbers from the index, which was made before the damage. DuckDB reads the lines."""
    _save_index(folder, monkeypatch)
    path = folder / "scores.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"value":1.0', b'"value":0.9'))
    warnings: list[str] = []
    assert ask(folder, query, warnings.append) == [(0.0, 1)]
    assert len(warnings) == 1
    assert f"{folder} is damaged: 1 line of scores.jsonl left out" in warnings[0]
    assert not list(folder.glob("*.bin"))  # so that the next reader finds the damage


def test_a_changed_call_is_not_believed_when_an_index_covers_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = rewritten(folder, ["suite@1"])
    for number in range(2):
        request = Request(model="m", prompt=f"prompt {number}")
        journal.call(Call(*HEAD, ASK, 1, f"hash{number}", 0, request, Response(f"reply {number}"), None, 1, 0.5))
    journal.close()
    summary = read_summary(folder)
    assert summary is not None
    write_summary(folder, summary)  # with the present sizes of the files
    other = run_of(tmp_path / "other", {"a": True})
    _save_index(folder, monkeypatch)
    path = folder / "calls.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"reply 0"', b'"reply 7"'))
    warnings: list[str] = []
    with RunDatabase([folder, other], warnings.append) as database:
        assert database.query("select count(*) from scores").fetch() == [(3,)]
        assert warnings == []
        assert database.query("select run, reply from calls").fetch() == [("run", "reply 1")]
    assert "1 line of calls.jsonl left out" in warnings[0]


def _save_index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Save the index, as a large run does."""
    monkeypatch.setattr("assay.journal.sidecar.MIN_LINES", 1)
    RunIndex.of_run(folder)
    assert (folder / "index.bin").is_file()


def test_a_run_without_a_readable_run_json_is_listed_without_cases(folder: Path, tmp_path: Path) -> None:
    broken = run_of(tmp_path / "broken", {"a": True})
    (broken / "run.json").write_text("{}")
    warnings: list[str] = []
    rows = ask([folder, broken], "select run, state, ok, calls from runs order by run", warnings.append)
    assert rows == [("broken", "damaged", None, None), ("run", "finished", 2, 0)]
    assert "broken is damaged, its cases are not shown" in warnings[0]
    assert ask([folder, broken], "select distinct run from cases") == [("run",)]


def test_several_runs_are_told_apart_by_their_name(tmp_path: Path) -> None:
    """A run that needs a filter stands beside one that needs none. Of equal names, the path is the name."""
    one, two = run_of(tmp_path / "x" / "run", {"a": True}), run_of(tmp_path / "y" / "run", {"a": False})
    three = run_of(tmp_path / "three", {"a": True, "b": True})
    journal = rewritten(three, ["suite@1"])
    journal.write_records([Record(*HEAD, 2, "answer", data="interrupted")])
    journal.close()
    rows = ask([one, two, three], "select run, avg(value), count(*) from scores group by run order by run")
    assert rows == [(str(one), 1.0, 1), (str(two), 0.0, 1), ("three", 1.0, 2)]
    assert ask([one, two, three], "select count(*) from answers") == [(4,)]


def test_calls_have_all_prompts_and_unknown_numbers_are_null(folder: Path) -> None:
    """Of equal requests, the journal stores the text once. All tries are here, also the failed one."""
    journal = rewritten(folder, ["suite@1"])
    request = Request(model="m1", prompt="Why?", params={"temperature": 1})
    first = Response("because", "stop", Usage(4, 0), cost=0.25)
    journal.call(Call(0, "a", "set", "m", ASK, 1, "h1", 0, request, first, seconds=0.5))
    journal.call(Call(0, "a", "set", "m", ASK, 1, "h1", 1, None, Response("so"), attempts=2, seconds=0.25))
    chat = Request(model="m1", messages=[{"role": "user", "content": "Hm?"}])
    journal.call(Call(1, "b", "set", "m", "judge@1", 1, "h2", 0, chat, None, Failure("timeout", "slow", http=504)))
    journal.close()
    rows = ask(
        folder,
        "select key, stage, model, prompt, reply, input_tokens, output_tokens, cost, seconds, error_kind, http, n "
        "from calls order by hash, n",
    )
    assert rows == [
        ("a", "ask", "m1", "Why?", "because", 4, 0, 0.25, 0.5, None, None, 0),
        ("a", "ask", "m1", "Why?", "so", None, None, None, 0.25, None, None, 1),
        (
            "b",
            "judge@1",
            "m1",
            '[{"role":"user","content":"Hm?"}]',
            None,
            None,
            None,
            None,
            0.0,
            "timeout",
            504,
            0,
        ),
    ]
    assert ask(folder, "select cost from runs") == [(0.25,)]
    assert ask(folder, "select reply from calls where n = 1") == [("so",)]


def test_the_parameters_of_another_sdks_request_are_its_path_body_and_headers(folder: Path) -> None:
    journal = rewritten(folder, ["suite@1"])
    request = Request(model="m1", sdk=SdkRequest("/responses", {"input": "Hm?", "top_p": 1}, {"X-Own": "1"}))
    journal.call(Call(0, "a", "set", "m", ASK, 1, "h1", 0, request, Response("so")))
    journal.close()
    [(params,)] = ask(folder, "select params from calls")
    assert json.loads(params) == request.shown_params
    assert request.shown_params == {
        "path": "/responses",
        "body": {"input": "Hm?", "top_p": 1},
        "headers": {"X-Own": "1"},
    }


def test_the_cost_of_a_run_is_unknown_if_no_call_has_one(folder: Path) -> None:
    assert ask(folder, "select cost, input_tokens, started, imported from runs")[0][0] is None


def test_metrics_are_the_numbers_of_the_report(tmp_path: Path) -> None:
    run = Made(tmp_path / "run")
    run.case("a", [passed(1)])
    number = Metric(
        name="passed",
        value=0.5,
        numerator=1,
        denominator=2,
        interval=Interval(0.1, 0.9),
        left_out={"no answer": 1},
    )
    missing = Metric(name="f1", value=None, denominator=0, reason="nothing to score", filter="strict")
    part = Slice(by="tag", name="easy", metrics=[number])
    run.finish(report=Report(entries=[Entry(name="e", subject="m", metrics=[number, missing], slices=[part])]))
    rows = ask(
        run.folder,
        "select slice_by, slice, metric, filter, value, denominator, low, high, left_out, reason from metrics",
    )
    assert [(*row[:8], json.loads(row[8]), row[9]) for row in rows] == [
        (None, None, "passed", None, 0.5, 2, 0.1, 0.9, {"no answer": 1}, None),
        (None, None, "f1", "strict", None, 0, None, None, {}, "nothing to score"),
        ("tag", "easy", "passed", None, 0.5, 2, 0.1, 0.9, {"no answer": 1}, None),
    ]


def test_judgements_are_the_scores_of_judges_and_the_judged_checks_of_pipelines(tmp_path: Path) -> None:
    run = Made(tmp_path / "run", scorer="judge@1")
    verdict = {"label": "Correct", "answer": "Oslo", "votes": [["Correct", 3]]}
    run.case("a", [{"metric": "judged", "value": 1.0, "reason": "same", "expected": "Oslo", "data": verdict}])
    judges = [
        JudgeInfo(name=name, id=f"{name}@1", votes=3, kind="answer", fingerprint="1", metrics=["judged"])
        for name in ("b", "a")
    ]
    run.finish(report=Report(entries=[Entry(name="m", judges=judges)]))
    assert ask(run.folder, "select judge from judgements") == [("a@1, b@1",)]
    columns = "metric, verdict, value, status, reason, answer, expected"
    assert ask(run.folder, f"select {columns} from judgements") == [
        ("judged", "Correct", 1.0, "scored", "same", "Oslo", "Oslo")
    ]
    pipeline = Made(tmp_path / "pipeline", suite="pipeline")
    checks: list[dict[str, Any]] = [
        {"path": "a", "kind": "equal", "passed": True},
        {
            "path": "",
            "kind": "judge",
            "passed": False,
            "expected": "is polite",
            "actual": "no!",
            "why": "rude",
        },
        {"path": "", "kind": "judge", "passed": None, "expected": "is short", "actual": "no!"},
    ]
    pipeline.case("a", [passed(0, "test", checks=checks)])
    pipeline.finish(parts="rows")
    assert ask(pipeline.folder, f"select {columns} from judgements order by expected") == [
        ("passed", "failed", 0.0, "scored", "rude", "no!", "is polite"),
        ("passed", None, None, "invalid", None, "no!", "is short"),
    ]


def test_steps_have_one_vocabulary_for_pipelines_and_hop_functions(tmp_path: Path) -> None:
    run = Made(tmp_path / "run", suite="pipeline")
    run.case("a", [passed(1)])
    folder = run.finish(parts="rows")
    journal = rewritten(folder, ["suite@1"])
    data = {
        "status": "failed",
        "error": "no JSON",
        "attempts": 2,
        "tokens": {"input": 5, "output": 1},
        "seconds": 0.5,
    }
    hop = {
        "step": 1,
        "op": "hop_get",
        "status": "FAIL",
        "duration": 0.25,
        "calls": "many",
        "metadata": {"reason": "empty"},
    }
    records = [
        Record(0, "a", "set", "m", 2, "step", "test/summarise", data),
        Record(0, "a", "set", "m", 2, "step", "1", hop),
        Record(0, "a", "set", "m", 2, "answer", "test", {"outputs": {"x": 1}}),
    ]
    journal.end_case(End(0, "a", "set", "m", ASK, 2, "ok", []), records)
    journal.close()
    rows = ask(
        folder,
        "select part, step, status, error, calls, attempts, input_tokens, seconds from steps order by part desc",
    )
    assert rows == [
        ("test/summarise", "summarise", "failed", "no JSON", None, 2, 5, 0.5),
        ("1", "hop_get", "FAIL", "empty", None, None, None, 0.25),
    ]
    assert ask(folder, "select part, answer from answers") == [("test", '{"x":1}')]


def test_tags_notes_and_runs_without_calls(folder: Path) -> None:
    change_notes(folder, text="first try", add_tags=["baseline"])
    assert ask(folder, "select tags, notes from runs where list_contains(tags, 'baseline')") == [
        (["baseline"], ["first try"])
    ]


def test_a_line_longer_than_16_megabytes_is_read(tmp_path: Path) -> None:
    run = Made(tmp_path / "run")
    run.case("a", [{**passed(1), "reason": "x" * 34_000_000}])
    run.finish("stopped")  # such a run needs a filter, which reads the line before the query does
    assert ask(run.folder, "select length(reason) from scores") == [(34_000_000,)]


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    """Brackets and stars are patterns for DuckDB, a quote ends a text."""
    folders = [run_of(tmp_path / name, {"a": True}) for name in ("it's [1]", "a*b?", "a1b2", "名前")]
    assert ask(folders, "select count(*), count(distinct run) from scores") == [(4, 4)]
    assert ask(folders[:1], "select run from cases") == [("it's [1]",)]


def test_a_wrong_column_gets_the_nearest_name_and_the_list(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"no column named 'valu'; did you mean 'value'.*The columns are run, suite"):
        ask(folder, "select valu from scores")


def test_a_wrong_view_gets_the_nearest_name(folder: Path) -> None:
    with pytest.raises(UsageError, match="no view named 'score'; did you mean 'scores'"):
        ask(folder, "select * from score")


def test_a_run_that_grows_makes_the_database_stale(folder: Path) -> None:
    with RunDatabase([folder]) as database:
        assert not database.is_stale()
        journal = rewritten(folder, ["suite@1"])
        journal.end_case(End(3, "d", "set", "m", ASK, 1, "ok", []))
        journal.close()
        assert database.is_stale()
