"""`assay hop` and `batchhoptest` as people type them, where they write, and what they show."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from assay.suites.hop.options import HopOptions

from support.commands import Job, typed
from support.hop_batch import as_lines, numbered

CODE = """
async def hop_double(session, fields):
    async with session.tracer.trace_step(op="ask", task="t") as step:
        step.retry_count = 1
        await session.model.chat(f"n {fields['n']}")
    if fields["n"] == 5:
        raise ValueError("five")
    return {"answer": fields["n"] * 2}
"""
CONTRACT = """\
---
name: Double
inputs: {n: int}
outputs: {answer: {type: int, compare: equal, bands: {low: [0, 5], high: [6, 99]}}}
---
"""


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A task folder with two profiles, in the working directory."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "Tasks" / "Double"
    for name in ("Hoplet", "TestCases"):
        (folder / name).mkdir(parents=True)
    (folder / "Hoplet" / "Hop.py").write_text(CODE)
    (folder / "Hoplet" / "metainfo.md").write_text(CONTRACT)
    rows = [row | {"difficulty": "easy"} for row in numbered(6)]
    (folder / "TestCases" / "rows.jsonl").write_text(as_lines(rows))
    (tmp_path / "replies.jsonl").write_text('{"text": "x"}\n')
    (folder / "settings.yaml").write_text(
        "llms: {one: {model: script/replies.jsonl}}\nprofiles: {fast: {run: one}, careful: {run: one}}\n"
    )
    return folder


def test_results_stand_in_the_tasks_folder(task: Path) -> None:
    """Named by the data and the time; the log beside them; the rows found by their name alone."""
    assert typed("hop", "Tasks/Double", "rows.jsonl") == 0
    names = sorted(path.name for path in (task / "TestCases").iterdir())
    assert names[:3] == ["assay", "observer.jsonl", "rows.jsonl"]
    assert len(names) == 4
    assert re.fullmatch(r"rows_\d{8}_\d{6}\.jsonl", names[3])


def test_a_contract_in_a_broken_block_is_refused_by_run_and_check(
    task: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the block the function would get every field, unchecked."""
    (task / "Hoplet" / "metainfo.md").write_text('## Inputs\n\n```json\n{"n": "int",,}\n```\n')
    for command, code in ((("hop", "Tasks/Double", "rows.jsonl"), 2), (("check", "Tasks/Double"), 1)):
        assert typed(*command) == code
        told = "".join(capsys.readouterr()).replace("\n", " ")
        assert "metainfo.md:4: not YAML: " in told
        assert "mend the block" in told


def test_results_of_a_bare_function_stand_beside_its_rows(task: Path, tmp_path: Path) -> None:
    """Unless a folder is named."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.jsonl").write_text(as_lines(numbered(2)))
    (tmp_path / "f.py").write_text("def f(n):\n    return {'answer': n}\n")
    assert typed("hop", "f.py:f", "data/mine.jsonl") == 0
    assert len(list((tmp_path / "data").glob("mine_*.jsonl"))) == 1
    assert typed("hop", "f.py:f", "data/mine.jsonl", "--output-dir", "elsewhere") == 0
    assert len(list((tmp_path / "elsewhere").glob("mine_*.jsonl"))) == 1
    assert len(list((tmp_path / "data").glob("mine_*.jsonl"))) == 1


@pytest.mark.parametrize(
    ("words", "profiles"),
    [
        ([], ["fast", "careful"]),
        (["--profiles", "careful", "fast", "--workers", "2"], ["careful", "fast"]),
        (["--profiles", "careful"], ["careful"]),
        (["--profiles=careful,fast"], ["careful", "fast"]),
        (["--profiles", "fast", "--profiles", "careful"], ["fast", "careful"]),
    ],
)
def test_profiles_as_batchhoptest_takes_them(task: Path, words: list[str], profiles: list[str]) -> None:
    """Several words, commas, or the flag again; none means all."""
    assert typed("hop", "Tasks/Double", "rows.jsonl", *words) == 0
    (path,) = (task / "TestCases").glob("rows_*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["profile"] for line in lines if "_type" in line] == profiles


def test_words_after_profiles() -> None:
    """Up to the next flag; a flag without words stays one, for the command line to refuse."""

    def joined(words: list[str]) -> list[str]:
        return HopOptions.translate(words, lambda _: None)

    assert joined(["t", "d", "--profiles", "a", "b", "-x"]) == ["t", "d", "--profiles", "a,b", "-x"]
    assert joined(["--profiles=a", "b"]) == ["--profiles", "a,b"]
    assert joined(["--profiles", "--quiet"]) == ["--profiles", "--quiet"]
    assert joined(["t", "--profiles"]) == ["t", "--profiles"]


def test_an_unknown_profile_is_refused(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With those there are; nothing is written."""
    assert typed("hop", "Tasks/Double", "rows.jsonl", "--profiles", "fats") == 2
    assert "fast" in capsys.readouterr().err
    assert [path.name for path in (task / "TestCases").iterdir()] == ["rows.jsonl"]


def test_the_report(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By profile, tag and difficulty; bands, operators, what differs, and the profiles against each other."""
    assert typed("hop", "Tasks/Double", "rows.jsonl") == 0
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines()]
    bare = [[cell for cell in line if not cell.startswith("(0.")] for line in lines]
    assert ["right", "of", "all", "0.500", "3/6", "0.500", "3/6"] in bare
    assert ["right", "of", "completed", "0.600", "3/5", "0.600", "3/5"] in bare
    assert ["completed", "0.833", "5/6", "0.833", "5/6"] in bare
    assert ["total", "6", "6"] in lines
    assert ["errors", "1", "1"] in lines
    assert ["#odd", "fast", "0.000", "0/3", "0.000", "0/2", "0.667", "2/3", "3", "1"] in bare
    assert any(line[:2] == ["easy", "fast"] and line[-2:] == ["6", "1"] for line in lines)
    assert "bands of answer" in out
    assert ["profile", "low", "high", "(no", "band)"] in lines
    assert ["fast", "low", "2", "0", "0"] in lines
    assert ["fast", "high", "0", "3", "1"] in lines
    assert ["field", "profile", "same", "band", "other", "end", "↓", "within", "one"] in lines
    assert ["answer", "fast", "0.833", "5/6", "0.000", "0/6", "0.833", "5/6"] in bare
    assert ["fast", "ask", "6", "6", "6"] in lines
    assert any(line[:2] == ["fast", "[ValueError]"] and line[-1] == "1" for line in lines)
    assert "fast: 3 rows differ or failed" in out
    assert "[ValueError] five" in out
    assert any(line[:2] == ["fast", "careful"] for line in lines)


def test_one_is_no_plural(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row that differs, a call, a case."""
    words = ["hop", "Tasks/Double", "rows.jsonl", "--limit", "1", "--profiles", "fast"]
    assert typed(*words) == 0
    out = capsys.readouterr().out
    assert "fast: 1 row differs or failed" in out
    assert "1 of 1 case · 1 call · " in out


def test_a_row_is_shown_with_its_steps_and_what_was_returned(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row of a profile is a case; what differs is said as in the report."""
    assert typed("hop", "Tasks/Double", "rows.jsonl", "--output-dir", "out") == 0
    capsys.readouterr()
    assert typed("show", "out", "0") == 0
    out = capsys.readouterr().out
    for part in ("with fast", "step 1 ask: OK", "result: OK", "answer"):
        assert part in out


def test_analysing_shows_the_same_table(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the folder, with the task's own contract; durations are not in the files."""
    assert typed("hop", "Tasks/Double", "rows.jsonl") == 0
    ran = capsys.readouterr().out
    assert typed("hop", "--analyse", "Tasks/Double/TestCases") == 0
    shown = capsys.readouterr().out
    for part in ("#odd", "bands of answer", "3 rows differ or failed", "[ValueError] five"):
        assert (part in ran, part in shown) == (True, True)
    assert re.search(r"right of completed +0\.600 \(\S+\) 3/5", shown)
    assert ["fast", "careful", "0.5000", "0.5000"] in [line.split()[:4] for line in shown.splitlines()]


def test_analysing_a_task(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its folder means its `TestCases`; a row without an id is told as such."""
    line = {"input": {"n": 1, "expected_answer": 2}, "error": "timeout"}
    (task / "TestCases" / "old.jsonl").write_text(as_lines([line]))
    assert typed("hop", "--analyse", "Tasks/Double") == 0
    shown = capsys.readouterr().out
    assert "(none): 1 row differs or failed" in shown
    assert "  (no id) #(untagged): timeout" in shown


def test_a_row_is_shown(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its position, or by its id if one profile ran: prompt, steps, result and every check."""
    assert typed("hop", "Tasks/Double", "rows.jsonl", "--profiles", "fast", "--output-dir", "out") == 0
    capsys.readouterr()
    for name in ("@2", "3", "rows/3"):
        assert typed("show", "out", name) == 0
        shown = capsys.readouterr().out
        assert re.match(r"case 2 · rows · \w{16} · row 3 with fast · ok\n", shown)
        assert re.search(r"^step 1 ask: OK \(0\.\d{3} s, 1 × retried\)\n  t\n", shown, re.MULTILINE)
        end = shown[shown.index("result: OK") :].splitlines()
        assert end[:3] == ["result: OK", '  {"answer": 6}', "correct: 0"]
        assert end[4:6] == ["  ✗ answer", "    answer: expected 7, found 6"]
    assert typed("show", "out", "5") == 0
    assert "[ValueError] five" in capsys.readouterr().out
    assert typed("show", "out") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["1", "2", "✓"] in [line[:3] for line in lines]


def test_a_step_is_shown_with_what_it_says(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each of its metadata; nothing for a task that is not told."""
    (task / "Hoplet" / "Hop.py").write_text(
        "async def hop(session, fields):\n"
        "    with session.tracer.trace_step('look', metadata={'where': '这里'}):\n"
        "        return 'UNCERTAIN', {'answer': 2}\n"
    )
    assert typed("hop", "Tasks/Double", "rows.jsonl", "--output-dir", "out") == 0
    capsys.readouterr()
    assert typed("show", "out", "0") == 0
    shown = capsys.readouterr().out
    assert re.search(r"look: OK \(0\.\d{3} s\)\n  where: 这里\nresult: UNCERTAIN\n", shown)


def test_rows_that_went_another_way_are_named_by_their_ids(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where two batches are compared; a run without a model says nothing in its place."""
    assert typed("hop", "Tasks/Double", "rows.jsonl", "--profiles", "fast", "--output-dir", "one") == 0
    (task / "Hoplet" / "Hop.py").write_text(CODE.replace("== 5", "== 4"))
    assert typed("hop", "Tasks/Double", "rows.jsonl", "--profiles", "fast", "--output-dir", "two") == 0
    capsys.readouterr()
    assert typed("compare", "one", "two") == 0
    shown = capsys.readouterr().out
    assert re.search(r"now failing: 1\n  case 3 · rows/\w{16} · row 4 · correct · 1 → 0", shown)
    assert " ·  · " not in shown


def test_a_batch_that_has_not_ended_has_no_numbers(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says how far it came and how it goes on, and nothing about rows."""
    assert typed("hop", "Tasks/Double", "rows.jsonl", "--max-calls", "2", "--workers", "1") == 3
    out, err = capsys.readouterr()
    assert re.match(r"\d of 12 cases · 2 calls", out)
    assert "Continue with" in err


def test_a_folder_without_results_is_told(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows that nobody ran are no results."""
    assert typed("hop", "--analyse", "Tasks/Double/TestCases") == 2
    assert "no result row" in capsys.readouterr().err


def test_rows_of_several_profiles_in_the_views_form_are_told_of(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They do not say their profile; with one profile there is nothing to tell apart."""
    assert typed("hop", "Tasks/Double", "rows.jsonl", "--wrapper", "view") == 0
    assert "so the file mixes 2 profiles" in capsys.readouterr().err
    assert typed("hop", "Tasks/Double", "rows.jsonl", "--wrapper", "view", "--profiles", "fast") == 0
    assert typed("hop", "Tasks/Double", "rows.jsonl") == 0
    assert "apart" not in capsys.readouterr().err


def test_rows_that_expect_nothing_are_reported(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dash instead of a rate, with several profiles as well."""
    (task / "TestCases" / "bare.jsonl").write_text(as_lines([{"id": 1, "tag": "t", "n": 1}]))
    assert typed("hop", "Tasks/Double", "bare.jsonl") == 0
    assert "–" in capsys.readouterr().out


def test_batchhoptest(task: Path) -> None:
    """The console script is the same command."""
    words = ["Tasks/Double", "rows.jsonl", "--workers", "5", "--profiles", "fast", "careful"]
    script = "from assay.cli.main import batchhoptest; batchhoptest()"
    done = Job(["-c", script, *words], task).run()
    assert done.code == 0, done.err
    (path,) = (task / "TestCases").glob("rows_*.jsonl")
    assert len(path.read_text().splitlines()) == 14


def test_something_is_missing(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A target, rows, a file of that name, a target that is none."""
    for words in ([], ["Tasks/Double"], ["Tasks/Double", "none.jsonl"], ["Tasks", "rows.jsonl"]):
        assert typed("hop", *words) == 2
        assert len(capsys.readouterr().err.splitlines()) <= 3
