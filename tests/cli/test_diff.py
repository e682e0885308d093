"""`assay diff`, typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.hop_batch import Batch
from support.pipeline_project import PipelineProject, case, says, typed
from support.terminal import Terminal

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A pipeline run of two tests, whose model repeats its prompt."""
    monkeypatch.chdir(tmp_path)
    lab = PipelineProject(tmp_path)
    lab.pipeline(says("one"))
    lab.tests(case("a", inputs={"text": "to be or not"}), case("b", inputs={"text": "to see or \x1b[2Jnot"}))
    return str(lab.run().run.folder)


def test_words_that_differ_are_marked_and_obey_nothing(run: str, capsys: Captured) -> None:
    code, out, _ = typed(capsys, "diff", run, "a", "b")
    assert code == 0
    assert "to [-be-] {+see+} or " in out
    assert "\x1b" not in out
    assert "these are different rows of the data" in out
    assert typed(capsys, "diff", run, "@0", run, "@1").out == out
    code, out, _ = typed(capsys, "diff", run, "a", "a")
    assert ("[-" in out, "reply 1: the same" in out) == (False, True)
    code, out, _ = typed(capsys, "diff", run, "a", "b", "--markdown")
    assert (code, "```diff" in out) == (0, True)


def test_a_terminal_shows_colours_and_no_brackets(run: str) -> None:
    with Terminal("diff", run, "a", "b", cwd=Path.cwd()) as terminal:
        assert terminal.end() == 0
    assert "\x1b[31m\x1b[9mbe\x1b[0m" in terminal.raw
    assert "[-" not in terminal.text
    assert "\x1b[2J" not in terminal.raw


def test_wrong_use_gets_a_sentence(run: str, capsys: Captured, tmp_path: Path) -> None:
    for words, message in (
        (("diff", run, "a"), "name two cases"),
        (("diff", run, "a", run, "b", "c"), "name two cases"),
        (("diff", run, "a", "zzz"), "has no case 'zzz'"),
        (("diff", run, "a", "nowhere", "b"), "there is no run 'nowhere'"),
    ):
        code, _, err = typed(capsys, *words)
        assert (code, message in err) == (2, True), err
    # Cases of different suites can be looked at, too.
    other = str(Batch(tmp_path / "hop").run().folder)
    assert typed(capsys, "diff", run, "a", other, "1").code == 0
