"""A batch from its rows to its result file: the lines of the document, rounds over own output, what continues."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import assay
from assay.core.errors import InputError, UsageError
from assay.core.report import PairedMetric
from assay.hop import analyse
from assay.journal.run_files import write_summary
from assay.runner import api
from assay.store.run_list import RunFilter, list_runs

from support.hop_batch import COUNTING, NONE, Batch, lines_of, numbered, numbers, results_of, stable
from support.hop_document import FLAT_SHORT, GENERAL, META, RESULT, VERIFY, VIEW, VIEW_SHORT

VERIFYING = """
async def hop(session, fields):
    same = fields["context_window"] == fields["model_output"]
    return "OK", {"hallucination_detected": not same}
"""
ASKING = "async def hop(n, session):\n    return {'said': await session.model.chat(f'number {n}')}\n"


def texts_of(batch: Batch, **options: Any) -> list[str]:
    (path,) = batch.run(**options).files
    return path.read_text(encoding="utf-8").splitlines()


def test_lines_come_out_as_the_document_prints_them(tmp_path: Path) -> None:
    """Key by key in its order: the meta line, then each input with hop_result, hop_stats and profile."""
    batch = Batch(tmp_path, VERIFYING, VERIFY)
    (tmp_path / "r.jsonl").write_text('{"text": "x"}\n')
    (tmp_path / "settings.yaml").write_text(
        "defaults: {temperature: 0.1}\n"
        f"llms: {{kimi: {{model: 'script/{tmp_path}/r.jsonl', params: {{max_tokens: 4000}}}}}}\n"
        "profiles: {kimi-full: {run: kimi, verify: kimi}}\n"
    )
    meta, *rows = texts_of(batch)
    told = json.loads(meta)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", told["timestamp"])
    like = json.loads(META)
    assert list(told) == list(like)
    assert meta == json.dumps(
        like | {key: told[key] for key in ("run_llm", "verify_llm", "timestamp")}, ensure_ascii=False
    )
    assert told["run_llm"] == told["verify_llm"] == f"{tmp_path}/r.jsonl"
    assert rows == [
        f"{VERIFY[at][:-1]}, "
        f'"hop_result": "{{\\"hallucination_detected\\": {truth}}}", '
        '"hop_stats": {"retry_count": 0, "execution_path": [], "status": "OK"}, "profile": "kimi-full"}'
        for at, truth in enumerate(("true", "false"))
    ]
    assert set(json.loads(rows[0])) == {*json.loads(RESULT), "description", "expected_hallucination_detected"}


def test_the_view_form_is_the_documents(tmp_path: Path) -> None:
    """`{"input", "result"}` with the result as text, `{"input", "error"}` where there is none, nothing else."""
    code = """
def hop(question):
    if question == "fail case":
        raise TimeoutError("timeout")
    return '{"answer": "...", "confidence": "High"}'
"""
    rows = [json.loads(line)["input"] for line in VIEW]
    _, good, bad = texts_of(Batch(tmp_path, code, rows), wrapper="view")
    assert good == VIEW[0].replace('{"input": {', '{"input": {"id": 1, ')
    assert list(json.loads(bad)) == ["input", "error"]
    assert json.loads(bad)["error"].startswith("[TimeoutError] timeout")


@pytest.mark.parametrize("line", [GENERAL, FLAT_SHORT, VIEW_SHORT, *VIEW])
def test_every_form_of_a_row_may_be_run(tmp_path: Path, line: str) -> None:
    """Whatever form it has, the function gets its question and the row keeps what was told of it."""
    code = "def hop(session, fields):\n    return {'fields': fields}\n"
    (row,) = results_of(Batch(tmp_path, code, [META, line]).run())
    assert json.loads(row["hop_result"])["fields"] == {"question": row["question"]}
    assert row["profile"] == "default"
    assert ("expected_answer" in row) == (line == GENERAL)


@pytest.mark.parametrize("wrapper", ["flat", "view"])
def test_rounds_over_own_output(tmp_path: Path, wrapper: str) -> None:
    """Three times: nothing is nested, the inputs are the same, each id stands there once for each profile."""
    code = "def hop(session, fields):\n    return {'fields': fields}\n"
    batch = Batch(tmp_path, code, numbered(3))
    batch.profiles("a", "b")
    first = [line.get("input", line) for line in results_of(batch.run(wrapper=wrapper))]
    data = batch.folder / "rows.jsonl"
    for at in range(3):
        (path,) = batch.run(wrapper=wrapper, data=str(data), output_dir=f"{tmp_path}/out{at}").files
        again = [json.loads(line) for line in path.read_text().splitlines()]
        rows = [line for line in again if line.get("_type") != "meta"]
        assert len(rows) == 6
        assert [line.get("input", line) for line in rows] == first
        result = "hop_result" if wrapper == "flat" else "result"
        assert [json.loads(row[result])["fields"] for row in rows] == [{"n": n} for n in (1, 2, 3)] * 2
        if wrapper == "flat":
            assert [(row["id"], row["profile"]) for row in rows] == [(n, p) for p in "ab" for n in (1, 2, 3)]
        data = path


def test_an_error_row_has_no_result_and_its_reason(tmp_path: Path) -> None:
    """`hop_result` is null, `hop_stats.error` says what happened and where."""
    batch = Batch(tmp_path, "def hop(n, session):\n    raise ValueError('no')\n", numbered(1))
    run = batch.run()
    (row,) = results_of(run)
    assert row["hop_result"] == "null"
    assert row["hop_stats"] == {
        "retry_count": 0,
        "execution_path": [],
        "status": "ERROR",
        "error": "[ValueError] no (hop.py:2: raise ValueError('no'))",
    }
    assert run.exit_code == 1, "no row has a result"
    assert numbers(run.report)["default"]["errors"] == 1


@pytest.mark.parametrize(
    ("returned", "written"),
    [
        ("('OK', {'a': 1})", '{"a": 1}'),
        ("('OK', '{\"a\":  1}')", '{"a":  1}'),
        ("('FAIL', {'a': 1})", '["FAIL", {"a": 1}]'),
        ("('UNCERTAIN', '{\"a\": 1}')", '["UNCERTAIN", {"a": 1}]'),
        ("('LACK_OF_INFO', 'no source')", '["LACK_OF_INFO", "no source"]'),
        ("('FAIL', None)", '["FAIL", null]'),
    ],
)
def test_what_else_a_function_says_is_kept(tmp_path: Path, returned: str, written: str) -> None:
    """OK writes the result itself; another status the pair, whose call still worked."""
    run = Batch(tmp_path, f"def hop(n, session):\n    return {returned}\n", numbered(1)).run()
    (row,) = results_of(run)
    assert row["hop_result"] == written
    assert row["hop_stats"]["status"] == "OK"
    figures = numbers(run.report)["default"]
    assert (figures["errors"], figures["completed"]) == (0, int("OK" in returned))


def test_the_path_is_that_of_the_tracer(tmp_path: Path) -> None:
    """`{step, op, status}` of each step in order; retries beside them where there were any, and their sum."""
    code = """
def hop(n, session):
    with session.tracer.trace_step(op="look", task="t"):
        pass
    with session.tracer.trace_step(op="think", task="t") as step:
        step.status, step.retry_count = "UNCERTAIN", 2
    return {}
"""
    (row,) = results_of(Batch(tmp_path, code, numbered(1)).run())
    assert row["hop_stats"]["execution_path"] == [
        {"step": 1, "op": "look", "status": "OK"},
        {"step": 2, "op": "think", "status": "UNCERTAIN", "retry_count": 2},
    ]
    assert row["hop_stats"]["retry_count"] == 2


def test_profiles(tmp_path: Path) -> None:
    """All of them in the order of the file, or those named; an unknown one is refused before anything is written."""
    batch = Batch(tmp_path, ASKING, numbered(2))
    batch.profiles("a", "b", "c")
    assert [line["profile"] for line in lines_of(batch.run()) if "_type" in line] == ["a", "b", "c"]
    assert list(numbers(batch.run(profiles=["c", "a"]).report)) == ["c", "a"]
    with pytest.raises(UsageError, match="profile named 'd'"):
        batch.run(profiles=["d"], output_dir=str(tmp_path / "other"))
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("wrapper", ["flat", "view"])
def test_difficulty_and_description_are_carried(tmp_path: Path, wrapper: str) -> None:
    """Into the file, through another run over it, and never to the function; a wrong one stops before a call."""
    about = {"difficulty": "hard", "description": "一"}
    batch = Batch(tmp_path, "def hop(**fields):\n    return fields\n", [{"id": 1, "tag": "t", "n": 1, **about}])
    (path,) = batch.run(wrapper=wrapper).files
    again = batch.run(wrapper=wrapper, data=str(path), output_dir=f"{tmp_path}/again")
    (row,) = results_of(again)
    assert {key: row.get("input", row)[key] for key in about} == about
    assert json.loads(row["result" if wrapper == "view" else "hop_result"]) == {"n": 1}
    assert list(numbers(again.report)["default"]["difficulties"]) == ["hard"]
    batch.rows([{"id": 1, "tag": "t", "n": 1, "difficulty": "tough"}])
    with pytest.raises(InputError, match=r"\$\.difficulty: expected one of easy, medium, hard"):
        batch.run(output_dir=f"{tmp_path}/never")
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("result", ["[1, 2]", "3", "True", "None", "{'a': 1}", "'why'"])
def test_a_status_counts_whatever_stands_beside_it(tmp_path: Path, result: str) -> None:
    """FAIL with a list is no completed row, in the run and in its file."""
    run = Batch(tmp_path, f"def hop(n):\n    return 'FAIL', {result}\n", numbered(1)).run()
    (figures,) = numbers(run.report).values()
    (read,) = numbers(analyse(tmp_path / "out")).values()
    assert figures["completed"] == read["completed"] == 0
    assert figures["total"] == read["total"] == 1


CHANGING = """
async def hop(session, fields):
    fields["list"].append(fields["deep"]["list"][0].pop("n"))
    return {"list": fields["list"]}
"""


def test_what_a_function_changes_in_its_input_stays_there(tmp_path: Path) -> None:
    """The other profiles get the row as the file has it, at any depth, and the result file shows it so."""
    given = {"list": [1], "deep": {"list": [{"n": 2}]}}
    batch = Batch(tmp_path, CHANGING, [{"id": 1, "tag": "t", **given, "expected_list": [1, 2]}])
    batch.profiles("a", "b", "c")
    run = batch.run()
    assert [row["hop_result"] for row in results_of(run)] == ['{"list": [1, 2]}'] * 3
    assert [{name: row[name] for name in given} for row in results_of(run)] == [given] * 3
    seen = [json.loads(line) for line in (batch.out / "observer.jsonl").read_text().splitlines()]
    assert [one["input"] for one in seen if one["type"] == "run_start"] == [given] * 3


MOVING = """
import os
{first}
async def hop(n, session):
    os.chdir("/")
    return {{"said": await session.model.chat(f"number {{n}}")}}
"""


@pytest.mark.parametrize("first", ["", 'os.chdir("/")'])
def test_code_that_goes_to_another_folder_changes_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """On import or in a call: rows are found, results stand where they should, and a stopped run goes on."""
    Batch(tmp_path, MOVING.format(first=first), numbered(6))
    (tmp_path / "r.jsonl").write_text('{"text": "x"}\n')
    monkeypatch.chdir(tmp_path)
    named: dict[str, Any] = {"target": "hop.py:hop", "data": "rows.jsonl", "output_dir": "out"}
    values = named | {"model": "script/r.jsonl", "workers": 2}
    assert assay.run(assay.spec("hop", **values, max_calls=3)).exit_code == 3
    run = assay.run(assay.spec("hop", **values))
    assert (run.exit_code, len(results_of(run)), Path.cwd()) == (0, 6, tmp_path)


def test_a_model_wins_over_settings_that_are_only_found(tmp_path: Path) -> None:
    """Not over profiles that are named, nor over a file that is."""
    batch = Batch(tmp_path)
    batch.profiles("a", "b")
    told: dict[str, Any] = {"model": f"script/{tmp_path}/a.jsonl"}
    assert list(numbers(batch.run(**told).report)) == ["default"]
    assert list(numbers(batch.run(**told, profiles=["b"]).report)) == ["b"]
    assert list(numbers(batch.run(**told, settings=f"{tmp_path}/settings.yaml").report)) == ["a", "b"]


@pytest.mark.parametrize(("limit", "count"), [(3, 3), (0.5, 5), (99, 10)])
def test_a_limit_is_of_rows_not_of_cases(tmp_path: Path, limit: float, count: int) -> None:
    """Each of the first rows runs with every profile."""
    batch = Batch(tmp_path, NONE, numbered(10))
    batch.profiles("a", "b")
    rows = results_of(batch.run(limit=limit))
    assert [(row["profile"], row["id"]) for row in rows] == [(p, n) for p in "ab" for n in range(1, count + 1)]


def test_a_batch_that_was_stopped_continues(tmp_path: Path) -> None:
    """The same command goes on where --max-calls stopped it, and asks nothing again.

    Until then a partial file has the rows that ended. A run that is scored again has none.
    """
    batch = Batch(tmp_path, ASKING, numbered(5))
    batch.profiles("a", "b")
    stopped = batch.run(max_calls=4)
    assert (stopped.exit_code, stopped.files) == (3, [])
    (partial,) = batch.out.glob("rows_*")
    assert re.fullmatch(r"rows_\d{8}_\d{6}\.partial\.jsonl", partial.name)
    lines = partial.read_text().splitlines()
    run = batch.run()
    assert [path for path in batch.out.glob("rows_*") if path not in run.files] == []
    whole = run.files[0].read_text().splitlines()
    assert lines[:2] == [line for line in whole if '"_type": "meta"' in line]
    assert len(lines[2:]) == 4
    assert set(lines) <= set(whole)
    assert run.folder == stopped.folder
    assert (run.exit_code, run.summary.spent.calls, run.summary.this_start["paid"]) == (0, 10, 6)
    assert len(results_of(run)) == 10
    shown = batch.run()
    assert (shown.asked, shown.files) == (False, run.files)
    assert shown.report == run.report
    # As after a kill between the result file and the removal of the partial one.
    partial.write_text("\n".join(lines))
    batch.rows([row | {"expected_answer": 0} for row in numbered(5)])
    assert batch.run().folder == run.folder
    assert list(batch.out.glob("rows_*")) == run.files


def test_a_batch_that_was_killed_has_all_its_rows_in_the_partial_file_when_it_goes_on(tmp_path: Path) -> None:
    """The last rows before a kill are in the journal only, and a line may be incomplete."""
    batch = Batch(tmp_path, ASKING, numbered(6))
    batch.profiles("a")
    batch.run(max_calls=3)
    (partial,) = batch.out.glob("rows_*")
    lines = partial.read_text().splitlines(keepends=True)
    partial.write_text("".join(lines[:-2]) + lines[-2][:9])
    batch.run(max_calls=1)
    again = partial.read_text().splitlines(keepends=True)
    assert set(lines) < set(again)
    assert [json.loads(line).get("id") for line in again] == [None, 1, 2, 3, 4]
    partial.unlink()  # as if it was killed before its first rows were written
    batch.run(max_calls=1)
    assert partial.read_text().splitlines(keepends=True)[:-1] == again


def test_other_expectations_are_graded_without_a_call(tmp_path: Path) -> None:
    """The same run, its function not called again, other numbers, and the same file with the new expectation."""
    batch = Batch(tmp_path, COUNTING, numbered(4))
    first = batch.run()
    assert numbers(first.report)["default"]["correct_of_all"]["numerator"] == 2
    batch.rows([row | {"expected_answer": row["n"] * 2} for row in numbered(4)])
    again = batch.run()
    assert (again.folder, again.files) == (first.folder, first.files)
    assert numbers(again.report)["default"]["correct_of_all"]["numerator"] == 4
    assert (tmp_path / "called").read_text().count("\n") == 4
    assert [row["expected_answer"] for row in results_of(again)] == [2, 4, 6, 8]


def test_other_code_is_another_run_with_a_file_of_its_own(tmp_path: Path) -> None:
    """Also within one second: no batch writes over the results of another."""
    batch = Batch(tmp_path, COUNTING, numbered(2))
    runs = [batch.run()]
    for factor in (3, 4):
        batch.code(COUNTING.replace("n * 2", f"n * {factor}"))
        runs.append(batch.run())
    assert len({run.folder for run in runs}) == len({run.files[0] for run in runs}) == 3
    answers = [[json.loads(row["hop_result"])["answer"] for row in results_of(run)] for run in runs]
    assert answers == [[2, 4], [3, 6], [4, 8]]
    assert all(re.fullmatch(r"rows_\d{8}_\d{6}\.jsonl", run.files[0].name) for run in runs)
    assert not list(batch.out.glob(".*.tmp"))


def test_a_result_file_that_is_gone_is_written_again(tmp_path: Path) -> None:
    """Under its name, without a call."""
    batch = Batch(tmp_path, COUNTING, numbered(2))
    run = batch.run()
    before = run.files[0].read_bytes()
    run.files[0].unlink()
    assert batch.run().files == run.files
    assert run.files[0].read_bytes() == before
    assert (tmp_path / "called").read_text().count("\n") == 2


def test_analysing_the_folder_gives_the_runs_own_numbers(tmp_path: Path) -> None:
    """Durations aside, whatever the function does: statuses, errors, bare values, texts in `result`, retries."""
    code = """
def hop(n, session):
    with session.tracer.trace_step(op="work", task="t") as step:
        step.retry_count = n % 3
    if n % 7 == 0:
        raise ValueError(f"seven: {n}")
    answers = [{"answer": n * 2}, ("FAIL", {"answer": 1}), ("FAIL", "plain"), '["UNCERTAIN", {"answer": 4}]',
               {"result": '{"answer": 10}'}, "5", ("OK", '"text"')]
    return answers[n % 7 - 1]
"""
    rows = [row | {"difficulty": ("easy", "hard")[n % 2], "expected_result": 5} for n, row in enumerate(numbered(28))]
    rows[3].pop("expected_answer")
    batch = Batch(tmp_path, code, rows)
    batch.contract(
        "name: c\nfunction: hop\noutputs: {answer: {type: int, compare: equal, bands: {L: [0, 9], H: [10, 99]}}}"
    )
    batch.profiles("a", "b")
    run = batch.run()
    extra = [
        "",
        "[1, 2]",
        "not json",
        '{"type": "step", "run_id": "r", "timestamp": 1, "op": "o"}',
        '{"id": 1, "ta',
    ]
    (batch.out / "noise.jsonl").write_text("\n".join([*extra[:-1], json.dumps(numbered(1)[0]), extra[-1]]))
    figures = numbers(analyse(batch.out, f"{tmp_path}/hop.py:hop"))
    assert stable(figures) == stable(numbers(run.report))
    assert figures["a"]["errors"] == 4
    (ours,) = api.compare([f"{run.folder}@a", f"{run.folder}@b"]).comparisons
    theirs = msgspec.convert(figures["b"]["compared_with"]["a"], PairedMetric)
    assert {**msgspec.to_builtins(ours.rows[0]), "set": ""} == msgspec.to_builtins(theirs)
    assert figures["a"]["operators"] == {"work": {"calls": 28, "ok": 28, "retries": 28}}


def test_the_other_form_is_written_without_a_call(tmp_path: Path) -> None:
    """`--wrapper` concerns the file only: the same run, the function not called again, and the first file stays."""
    batch = Batch(tmp_path, COUNTING, numbered(2))
    flat = batch.run()
    rows = results_of(flat)
    written = flat.files[0].read_bytes()
    view = batch.run(wrapper="view")
    assert view.folder == flat.folder
    assert view.files == [flat.files[0].with_name(f"{flat.files[0].stem}_view.jsonl")]
    assert flat.files[0].read_bytes() == written
    inputs = [{key: row[key] for key in ("id", "tag", "n", "expected_answer")} for row in rows]
    assert results_of(view) == [
        {"input": one, "result": row["hop_result"]} for one, row in zip(inputs, rows, strict=True)
    ]
    assert (tmp_path / "called").read_text().count("\n") == 2


def test_a_run_that_is_scored_again_keeps_the_time_of_its_calls(tmp_path: Path) -> None:
    """The list of runs shows it."""
    batch = Batch(tmp_path, rows=numbered(2))
    first = batch.run()
    write_summary(first.folder, msgspec.structs.replace(first.summary, seconds=20.5))
    batch.rows([row | {"expected_answer": 0} for row in numbered(2)])
    again = batch.run()
    assert again.summary.spent.calls == 0
    assert 20.5 < again.summary.seconds < 40
    (listed,) = list_runs(batch.out, RunFilter())
    assert listed.seconds == again.summary.seconds


def test_runs_of_changed_settings_are_told_apart_in_words(tmp_path: Path) -> None:
    """The list of runs has models and parameters of the profiles, not hashes."""
    batch = Batch(tmp_path, rows=numbered(1))
    for model, temperature in (("m-1", 0), ("m-2", 0.5)):
        (tmp_path / "settings.yaml").write_text(
            f"llms: {{x: {{model: {model}, base_url: 'http://127.0.0.1:9/v1', params: {{temperature: {temperature}}}}}}}\n"
            "profiles: {fast: {run: x}}\n"
        )
        batch.run()
    assert [run.differs for run in list_runs(batch.out, RunFilter())] == [
        {"profiles.fast.run.model": "m-1", "profiles.fast.run.params.temperature": "0"},
        {"profiles.fast.run.model": "m-2", "profiles.fast.run.params.temperature": "0.5"},
    ]


HISTORY = """
async def hop(n, session):
    options = {"include_history": False, "explanation_description": "", "top_p": 1, "verifier": None}
    got = await session.hop_get("a", **options)
    return {"got": got, "judged": await session.hop_judge("b", return_format=str, **options)}
"""


def test_parameters_of_hops_operators_that_have_no_effect_are_named_once_and_not_sent(tmp_path: Path) -> None:
    batch = Batch(tmp_path, HISTORY, numbered(2))
    (tmp_path / "r.jsonl").write_text('{"text": "{\\"result\\": \\"True\\"}"}\n')
    done = batch.typed("--model", f"script/{tmp_path}/r.jsonl")
    assert done.code == 0, done.err
    for name in ("include_history", "explanation_description", "return_format"):
        assert done.err.count(f"`{name}` of an operator has no effect") == 1
    (folder,) = (batch.out / "assay").iterdir()
    calls = [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()[1:]]
    assert [call["request"]["params"] for call in calls if "request" in call] == [{"top_p": 1}] * 4
