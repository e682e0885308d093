"""`assay label` in a real terminal, and the calibration of a judge with its labels."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import assay

from support.memory_talks import Talks, talk
from support.pipeline_project import typed
from support.runs import Made
from support.terminal import Terminal

QUESTION = "right? [y/n/s/u/m/?/q] "
Captured = pytest.CaptureFixture[str]


def hostile_talk() -> dict[str, Any]:
    """Four questions. The model's answer to the first one has control characters of terminals."""
    conversation = talk(4)
    conversation["sessions"][0]["messages"][0]["text"] = "Bob likes fruit1 \x1b[2J\x1b]0;owned\x07 \u202egnorw"
    return conversation


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> assay.Run:
    """A memory test of four questions in the current folder, judged by `offline`, which finds all of them right."""
    monkeypatch.chdir(tmp_path)
    finished = Talks(tmp_path, hostile_talk()).run(judge="offline", top_k=1)
    assert finished["judged"].denominator == 4
    return finished


def number_of(shown: str) -> int:
    """The question on the screen."""
    found = re.findall(r"who likes fruit(\d)", shown)
    assert len(set(found)) == 1, shown
    return int(found[0])


def label(run: assay.Run, wrong: set[int], *words: str) -> str:
    """Label all answers; those of the questions in `wrong` as wrong. Returns everything on the screen."""
    with Terminal("label", str(run.folder), *words, cwd=Path.cwd()) as terminal:
        shown = terminal.wait_for(QUESTION)
        for position in range(4):
            key = "n" if number_of(shown) in wrong else "y"
            if position < 3:
                shown = terminal.type(key, QUESTION)
        assert terminal.end(key) == 0
        return terminal.text


def lines(run: assay.Run) -> list[dict[str, Any]]:
    """The lines of labels.jsonl."""
    return [json.loads(line) for line in (run.folder / "labels.jsonl").read_text().splitlines()]


def test_labels_are_given_blind_and_calibrate_the_judge(run: assay.Run, capsys: Captured) -> None:
    """What the screen shows before the last label would be the same for any verdict, and obeys no text of a model."""
    text = label(run, {2}, "--by", "ann")
    before, end = text.rsplit(QUESTION, 1)
    for word in ("Correct", "Hallucination", "Omission", "agree", "own.py", "% of the reference"):
        assert word not in before
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "you and judged agree on 3 of 4, kappa 0.00" in end
    assert "right for the score, wrong for you: 1 of 1" in end
    assert sorted((line["question"][-1], line["label"], line["by"]) for line in lines(run)) == [
        ("1", True, "ann"),
        ("2", False, "ann"),
        ("3", True, "ann"),
        ("4", True, "ann"),
    ]
    for labels in (str(run.folder), str(run.folder / "labels.jsonl")):
        code, out, err = typed(
            capsys, "judge", "calibrate", "--judge", "offline", "--labels", labels, "--output-dir", "cal"
        )
        assert (code, err) == (0, "")
        assert re.search(r"^kappa +0\.000 .*4$", out, re.MULTILINE), out
        assert re.search(r"^accuracy +0\.750 4$", out, re.MULTILINE), out
        assert re.search(r"^label: wrong +1 +0$", out, re.MULTILINE), out


def test_the_screen_is_the_same_whatever_the_judge_said(tmp_path: Path) -> None:
    """Until the last label is given. Only then the agreement is printed."""
    screens, ends = [], []
    for name, values in (("one", (1.0, 0.0)), ("other", (0.0, 0.0))):
        made = Made(tmp_path / name / "run")
        for number, value in enumerate(values):
            made.case(
                f"k{number}",
                [{"metric": "right", "value": value, "expected": "x", "reason": f"it is {value}"}],
            )
        made.finish()
        with Terminal("label", "run", "--by", "ann", cwd=tmp_path / name) as terminal:
            screens.append(terminal.wait_for(QUESTION) + terminal.type("y", QUESTION))
            assert terminal.end("y") == 0
            ends.append(terminal.text.rsplit(QUESTION, 1)[1])
    assert screens[0] == screens[1]
    assert ["agree on 1 of 2" in ends[0], "agree on 0 of 2" in ends[1]] == [True, True]


def test_labelling_can_be_stopped_undone_and_continued(run: assay.Run) -> None:
    words = ("label", str(run.folder), "--by", "ann")
    with Terminal(*words, cwd=Path.cwd()) as terminal:
        first = number_of(terminal.wait_for(QUESTION))
        terminal.type("u", "there is no label of this session to undo")
        terminal.wait_for(QUESTION)
        second = number_of(terminal.type("y", QUESTION))
        assert [line["label"] for line in lines(run)] == [True]  # saved at once
        assert number_of(terminal.type("u", QUESTION)) == first
        assert lines(run) == []
        assert number_of(terminal.type("n", QUESTION)) == second
        assert "m  print the whole text" in terminal.type("?", QUESTION)
        assert "whole text" in terminal.type("m", QUESTION)
        third = number_of(terminal.type("s", QUESTION))
        # Undo goes back to the skipped answer, and the label before it stays.
        assert number_of(terminal.type("u", QUESTION)) == second
        assert [line["label"] for line in lines(run)] == [False]
        assert number_of(terminal.type("s", QUESTION)) == third
        assert terminal.end("q") == 0
        assert "1 of 4 answers labelled. The same command shows the others." in terminal.text
        assert "agree" not in terminal.text
    with Terminal(*words, cwd=Path.cwd()) as terminal:
        shown = terminal.wait_for(QUESTION)
        assert ("labelled before: 1" in shown, number_of(shown)) == (True, second)
        assert number_of(terminal.type("y", QUESTION)) == third
        assert terminal.interrupt() == 130
    assert [line["label"] for line in lines(run)] == [False, True]


def test_two_people_are_two_votes_and_a_newer_label_counts(run: assay.Run, capsys: Captured) -> None:
    """One row for each answer. If they disagree, the row has no label."""
    label(run, set(), "--by", "ann")
    label(run, {2, 3}, "--by", "bob")
    first = lines(run)[0]
    with (run.folder / "labels.jsonl").open("a") as file:
        file.write(json.dumps({**first, "label": False}) + "\n")  # ann changes her mind
    tied = {2, 3} ^ {int(first["question"][-1])}
    code, out, _ = typed(capsys, "judge", "calibrate", "--labels", str(run.folder), "--output-dir", "cal")
    assert code == 0
    assert f"left out: {len(tied)} rows, as many votes for as against" in out
    assert re.search(rf"^accuracy +[\d.]+ {4 - len(tied)}$", out, re.MULTILINE), out


def test_wrong_use_gets_a_sentence(run: assay.Run, capsys: Captured) -> None:
    for words, message in (
        (("label", "out"), "reads single keys from a terminal, and this is none"),
        (("label", "out", "--balance"), "--balance needs --sample"),
        (("judge", "calibrate", "--labels", "out"), "the run has no labels"),
        (("judge", "calibrate", "--labels", "nothing.jsonl"), "there is no such file"),
        (("judge", "calibrate", "--labels", "."), "has no labels"),
    ):
        code, _, err = typed(capsys, *words)
        assert code == 2
        assert message in err
