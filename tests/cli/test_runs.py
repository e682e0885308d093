"""`assay runs` and `assay note`, typed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from assay.cli.runs import parse_since
from assay.core.errors import UsageError
from assay.store.render.screen import columns_of

from conftest import Assay
from support.hop_batch import Batch
from support.pipeline_project import typed
from support.runs import run_of
from support.terminal import Terminal

RUN = ("task", "sums.yaml", "--model", "python/model.py:answer", "--output-dir", "out")
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with three runs."""
    monkeypatch.chdir(tmp_path)
    for name, model in (
        ("2026-01-01T00-00-00-made-1", "openai/small"),
        ("2026-01-02T00-00-00-made-2", "openai/模型"),
    ):
        run_of(tmp_path / "out" / "assay" / name, {"a": True, "b": False}, model=model)
    long = "python//somewhere/far/away/on/this/disk/model.py:answer"
    run_of(tmp_path / "out" / "assay" / "2026-01-03T00-00-00-made-3", {"a": True}, model=long)
    return tmp_path


def test_runs_that_differ_in_one_option_can_be_told_apart(assay_in: Assay, sums: Path) -> None:
    assay_in(*RUN)
    assay_in(*RUN, "--limit", "2", "--concurrency", "3")
    listed = json.loads(assay_in("runs", "--json").stdout)
    assert [run["differs"] for run in listed] == [{"limit": None}, {"limit": "2"}]
    table = assay_in("runs", "out").stdout.splitlines()
    assert [line.rstrip().endswith("limit=2") for line in table] == [False, False, False, True]
    # An edited prompt is another run, too.
    task = sums / "sums.yaml"
    task.write_text(task.read_text().replace("Q: {{question}}", "Question:\\nQ: {{question}}"))
    assay_in(*RUN)
    listed = json.loads(assay_in("runs", "--json").stdout)
    prompts = [run["differs"]["sums.doc_to_text"] for run in listed]
    assert prompts[0] == prompts[1] != prompts[2]


def test_a_list_fits_into_the_terminal(runs: Path) -> None:
    """Numbers and names stay whole. Below a run stands what people wrote about it, cut to the line."""
    with Terminal("note", "2026-01-02", "long " * 40, "--tag", "paper", cwd=runs) as terminal:
        assert terminal.end() == 0
    with Terminal("runs", cwd=runs, columns=80) as terminal:
        assert terminal.end() == 0
        lines = terminal.text.splitlines()
    assert max(map(columns_of, lines)) <= 80
    assert [line.split()[0] for line in lines[2:4]] == ["2026-01-01T00-00-00", "2026-01-02T00-00-00"]
    assert lines[4].startswith("    #paper · long long")
    assert "python/…/model.py:answer" in lines[5]
    assert "finished 1" in lines[5]


def test_order_and_limit(runs: Path, capsys: Captured) -> None:
    def listed(*words: str) -> list[str]:
        return [run["name"][:10] for run in json.loads(typed(capsys, "runs", "--json", *words).out)]

    assert listed() == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert listed("--limit", "2") == ["2026-01-02", "2026-01-03"]
    assert listed("--limit", "2", "--reverse") == ["2026-01-03", "2026-01-02"]
    assert listed("--sort", "cases", "--limit", "2") == ["2026-01-01", "2026-01-02"]
    assert listed("--sort", "model", "--limit", "1") == ["2026-01-03"]


def test_an_empty_list_says_why(runs: Path, capsys: Captured) -> None:
    assert typed(capsys, "runs", "--model", "gpt").out == "no run below . matches\n"
    (runs / "empty").mkdir()
    assert typed(capsys, "runs", "empty").out == "no runs below empty\n"
    assert typed(capsys, "runs", "empty", "--json").out == "[]\n"


def test_since_takes_a_duration_or_a_date() -> None:
    now = time.mktime(time.strptime("2026-03-05 12:00", "%Y-%m-%d %H:%M"))
    assert parse_since("90m", now) == now - 5400
    assert parse_since("2d", now) == now - 2 * 86400
    assert parse_since("1 w", now) == now - 7 * 86400
    assert parse_since("2026-03-05 12:00", 0) == now
    assert parse_since("2026-03-05", 0) == now - 12 * 3600
    for text in ("", "2", "2y", "yesterday", "2026-02-30", "-2d", "9999999d"):
        with pytest.raises(UsageError, match="is no time: write 30m"):
            parse_since(text, now)


def test_a_note_is_shown_and_found(runs: Path, capsys: Captured) -> None:
    code, out, _ = typed(capsys, "note", "2026-01-01", "first line\nsecond \x1b[2Jline", "--tag", "base")
    assert code == 0
    assert out.splitlines()[0] == "tags  base"
    assert "\x1b" not in out
    assert typed(capsys, "note", "2026-01-01").out == out
    assert out in typed(capsys, "show", "2026-01-01").out
    for words in (("--tag", "base"), ("--search", "SECOND")):
        assert [run["name"][:10] for run in json.loads(typed(capsys, "runs", "--json", *words).out)] == ["2026-01-01"]
    assert typed(capsys, "note", "2026-01-01", "--clear").out == ""
    assert "has no notes" in typed(capsys, "note", "2026-01-01").err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("note", "out", "x"), "has 3 runs"),
        (("note", "2026-01-01", "  "), "the note is empty"),
        (("note", "2026-01-01", "--tag", "a b"), "cannot be a tag"),
        (("note", "2026-01-01", "--clear", "--remove-tag", "x"), "--clear removes all tags"),
        (("note", "2027", "x"), "there is no run '2027'"),
        (("runs", "--since", "soon"), "--since 'soon' is no time"),
        (("runs", "--suite", "tsk"), "there is no suite named 'tsk'; did you mean 'task'?"),
        (("show", "2026-01-01", "--markdown", "--latex"), "pass one of them"),
        (("show", "2026-01-01", "--markdown", "--failed"), "report of the whole run: leave out --failed"),
        (
            ("show", "2026-01-01", "a", "--latex"),
            "--latex prints the report of the whole run: leave out the case",
        ),
        (("show", __file__), "is a file, and not a run folder"),
        (("note", "2026-01-01", "--remove-tag", "x"), "has no tag 'x'; it has no tags"),
        (("show", "2026-01-01", "a", "--position", "1"), "pass one of them"),
    ],
)
def test_wrong_use_gets_a_sentence(runs: Path, capsys: Captured, words: tuple[str, ...], message: str) -> None:
    code, _, err = typed(capsys, *words)
    assert code == 2
    assert message in err


def test_show_tells_id_and_position_apart(tmp_path: Path, capsys: Captured) -> None:
    """An id wins. The command says how to get the case at that position."""
    run = str(Batch(tmp_path).run().folder)  # the rows have the ids 1 to 4
    code, out, err = typed(capsys, "show", run, "1")
    assert (code, out.startswith("case 0 · ")) == (0, True)
    assert err == "1 is the id of the case at position 0. --position 1 shows the case at position 1.\n"
    code, out, err = typed(capsys, "show", run, "--position", "1")
    assert (out.startswith("case 1 · "), err) == (True, "")
    assert typed(capsys, "show", run, "@1").out == out
    assert typed(capsys, "show", run, "0").out == typed(capsys, "show", run, "1").out  # no row has the id 0


def test_show_lists_all_cases_of_an_id_also_where_one_has_it_as_its_position(tmp_path: Path, capsys: Captured) -> None:
    """With two profiles, every id is that of two cases."""
    batch = Batch(tmp_path)
    batch.profiles("fast", "full")
    run = str(batch.run(profiles=["fast", "full"]).folder)
    for number in range(1, 5):
        code, _, err = typed(capsys, "show", run, str(number))
        assert (
            code,
            f"'{number}' matches 2 cases. Pass the position of one: @{2 * number - 2} (" in err,
        ) == (
            2,
            True,
        )
