"""`--judge` as people type it in `assay memory test` and `assay task`, and what other commands show of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import UsageError
from assay.core.judges import Calibration
from assay.scoring.agreement import JudgedRow, agreement
from assay.scoring.judge import Judge
from assay.scoring.questions import KINDS
from assay.store.calibrations import save_calibration

from support.commands import typed
from support.labels import write
from support.memory_samples import Samples, entry_of, sample
from support.memory_talks import Talks, talk
from support.task_project import TaskProject, docs_of


@pytest.fixture
def talks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Talks:
    """Two conversations in the working directory; one reference that no answer meets."""
    monkeypatch.chdir(tmp_path)
    ann = talk(4, "ann")
    ann["questions"][3]["answer"] = "nothing of the kind"
    return Talks(tmp_path, ann, talk(4, "ben"))


def measured(talks: Talks, *flags: str) -> int:
    """A test with the model that repeats what is found."""
    common = ("memory", "test", "--dataset", "plain", "--data", "talks.json", "--segments", "2")
    model = talks.values()["model"]
    return typed(*common, "--memory", talks.own, "--model", model, "--output-dir", "out", *flags)


def test_a_judged_memory_test_leads_with_it(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    """In the table, on the curve and by category; again in show, and for a conversation."""
    assert measured(talks, "--judge", "offline") == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].split() == ["metric", "own"]
    assert said[2].split()[:3] == ["judged", "right", "0.875"]
    assert said[2].split()[-1] == "7/8"
    assert said[3].startswith("token F1")
    assert any(line.startswith("judge offline (judged): calibrated: kappa") for line in said)
    assert any("judged right, test by test" in line for line in said)
    assert any(line.split()[:2] == ["plain", "0.875"] for line in said)
    assert typed("show", "out", "ann") == 0
    shown = capsys.readouterr().out.splitlines()
    tests = shown.index(next(line for line in shown if line.startswith("test ")))
    assert shown[tests + 3].split()[:4] == ["2", "0.750", "of", "4"]


def test_votes_without_a_judge_are_refused(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, before anything is asked."""
    assert measured(talks, "--votes", "3") == 2
    assert "name a judge with --judge" in capsys.readouterr().err
    assert measured(talks, "--judge", "offline", "--votes", "0") == 2
    assert talks.asked() == []


def test_a_judged_task_has_one_more_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a case shows the judge's word with its reason."""
    monkeypatch.chdir(tmp_path)
    TaskProject(tmp_path).task(docs=docs_of("a red kite=red kite", "x=the sea"))
    command = (
        "task",
        "t.yaml",
        "--model",
        "python/model.py:echo",
        "--output-dir",
        "out",
        "--judge",
        "offline",
    )
    assert typed(*command) == 0
    (line,) = [line.split() for line in capsys.readouterr().out.splitlines() if " judge " in line]
    assert (line[:4], line[-1]) == (["t", "none", "judge", "0.5000"], "1/2")
    assert typed("show", "out", "0") == 0
    said = capsys.readouterr().out
    assert "judge by none: 1, Correct" in said
    assert "exact_match by none: 0" in said
    assert typed("show", "out", "--failed") == 0
    (path,) = (tmp_path / "out").glob("assay/*/summary.json")
    assert json.loads(path.read_text())["report"]["entries"][0]["judges"][0]["name"] == "offline"


def test_a_pipeline_refuses_votes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its judge is asked once, and says so."""
    monkeypatch.chdir(tmp_path)
    assert typed("pipeline", "p.yaml", "--votes", "3") == 2
    assert "--votes does not apply to pipelines: the judge is asked once" in capsys.readouterr().err


def test_a_calibration_speaks_for_its_own_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers of recall have the calibration of recall. A kind without one may not decide an exit code."""
    samples = Samples(tmp_path)
    judge = f"python/{tmp_path}/right.py:judge"
    (tmp_path / "right.py").write_text(JUDGE_OF_RECALL)
    labels = write(tmp_path / "labels.jsonl", [recall_row(n, covered=n % 2 == 0) for n in range(6)])
    assert typed("judge", "calibrate", "--judge", judge, "--labels", labels, "--output-dir", f"{tmp_path}/cal") == 0
    run = samples.run(judge=judge)
    by_kind = {each.kind: each for each in entry_of(run).judges}
    assert list(by_kind["recall"].metrics) == ["recall", "update_recall"]
    calibrated = {kind: each.calibration for kind, each in by_kind.items() if each.calibration}
    assert list(calibrated) == ["recall"]
    assert calibrated["recall"].overall.kappa == 1.0
    capsys.readouterr()
    both = ("compare", str(run.folder), str(run.folder), "--fail-on-regression")
    assert typed(*both, "--min-kappa", "0.1") == 2
    said = capsys.readouterr()
    assert f"judge {judge} (recall, update_recall): calibrated: kappa 1.00" in said.out
    assert f"judge {judge} (7 scores): not calibrated" in said.out
    assert f"update cannot decide here: judge {judge} is not calibrated for update" in said.err
    assert f"`assay judge calibrate --judge {judge} --labels FILE` measures it" in said.err
    assert "recall cannot" not in said.err
    assert typed(*both) == 0


def test_a_memory_evaluation_stops_if_a_kind_is_not_calibrated(tmp_path: Path) -> None:
    """Before the first call. Every kind that the data asks for is named, with the command; others are not."""
    one = sample("s1")
    for group in one["memory_points"]:
        group["memory_points"] = [point for point in group["memory_points"] if point["memory_source"] != "interference"]
    samples = Samples(tmp_path, one)
    judge = f"python/{tmp_path}/right.py:judge"
    (tmp_path / "right.py").write_text(JUDGE_OF_RECALL)
    with pytest.raises(UsageError) as raised:
        samples.run(judge=judge, min_kappa=0.5)
    said = str(raised.value)
    for kind in ("recall", "correctness", "update", "answers", "evidence"):
        assert f"is not calibrated for {kind}, but --min-kappa requires a kappa of at least 0.5" in said
    assert "--labels built-in" in said
    assert "interference" not in said
    assert not list(tmp_path.rglob("asked.jsonl"))


def test_a_memory_evaluation_runs_if_every_kind_is_calibrated(tmp_path: Path) -> None:
    """A kappa below the minimum is refused again, with its value. --no-judge has no kappa."""
    judge = Judge("offline")
    for kind in KINDS:
        rows = [JudgedRow(value, value) for value in (True, False) * 5] + [JudgedRow(label=True, verdict=False)]
        save_calibration(
            Calibration(
                judge="offline",
                kind=kind,
                fingerprint=judge.fingerprint(kind),
                votes=1,
                labels="own.jsonl",
                labels_sha256="0",
                overall=agreement(rows),
            )
        )
    samples = Samples(tmp_path)
    assert samples.run(judge="offline", min_kappa=0.5).exit_code in (0, 4)
    with pytest.raises(UsageError, match=r"has kappa 0\.82 .* for recall on 11 labels of own\.jsonl"):
        samples.run(judge="offline", min_kappa=0.9)
    with pytest.raises(UsageError, match="for recall"):
        samples.run(judge="offline", min_kappa=0.9, eval_only=True)
    with pytest.raises(UsageError, match="--no-judge skips it"):
        samples.run(no_judge=True, min_kappa=0.5)


JUDGE_OF_RECALL = """
import json, re

def judge(messages, params):
    numbers = re.findall(r'^(\\d+): "\\[(?:normal|update)\\] (.*)"$', messages[-1]["content"], re.MULTILINE)
    memories = messages[-1]["content"].partition("The memories")[2]
    labels = {number: "covered" if point in memories else "missed" for number, point in numbers}
    return json.dumps({"reason": "r", "labels": labels}) if labels else "cannot say"
"""


def recall_row(n: int, *, covered: bool) -> dict[str, Any]:
    """A labelled point that the memories have, or not."""
    memories = [f"boat {n}" if covered else "nothing"]
    label = "covered" if covered else "missed"
    return {"kind": "recall", "points": [f"boat {n}"], "memories": memories, "label": label}


JUDGE = """
from pathlib import Path

def judge(messages, params):
    with Path(__file__).with_name("judged.txt").open("a") as file:
        file.write(messages[-1]["content"] + "\\n")
    first, _, rest = messages[-1]["content"].partition(" | ")
    gold, _, given = rest.partition(" | ")
    return "yes" if gold in given else "no"
"""
PROMPT = "{question} | {reference} | {response}"


def test_another_judge_prompt_judges_the_same_answers_again(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    """The answering model is not asked again, and the judge sees the user's words."""
    Path("judge.py").write_text(JUDGE)
    Path("own.txt").write_text(PROMPT)
    own = ("--judge", "python/judge.py:judge", "--judge-prompt", "own.txt")
    assert measured(talks, *own) == 0
    said = capsys.readouterr().out
    assert "0.875" in said
    assert "not calibrated" in said
    asked, judged = len(talks.asked()), Path("judged.txt").read_text().splitlines()
    assert min(judged) == "who likes fruit1 | Bob likes fruit1 | Bob likes fruit1"
    assert measured(talks, *own) == 0
    assert len(Path("judged.txt").read_text().splitlines()) == len(judged)
    Path("own.txt").write_text(f"{PROMPT} !")
    assert measured(talks, *own) == 0
    assert len(Path("judged.txt").read_text().splitlines()) == 2 * len(judged)
    assert len(talks.asked()) == asked
    assert len(list(Path("out").glob("assay/*/summary.json"))) == 1


@pytest.mark.parametrize("flags", [(), ("--judge", "offline")])
def test_a_judge_prompt_without_a_model_is_refused(
    talks: Talks, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]
) -> None:
    """Exit code 2, before anything is asked."""
    Path("own.txt").write_text(PROMPT)
    assert measured(talks, "--judge-prompt", "own.txt", *flags) == 2
    assert "add --judge PROVIDER/NAME" in capsys.readouterr().err
    assert talks.asked() == []


def test_a_judge_prompt_that_lacks_a_placeholder_is_refused(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says which one, before anything is asked."""
    Path("judge.py").write_text(JUDGE)
    Path("own.txt").write_text("{question} | {response}")
    assert measured(talks, "--judge", "python/judge.py:judge", "--judge-prompt", "own.txt") == 2
    assert "own.txt: the prompt lacks {reference}" in capsys.readouterr().err
    assert talks.asked() == []


def test_a_task_takes_a_judge_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its answers are judged with the user's words."""
    monkeypatch.chdir(tmp_path)
    TaskProject(tmp_path).task(docs=docs_of("a red kite=red kite", "x=the sea"))
    Path("judge.py").write_text(JUDGE)
    Path("own.txt").write_text(PROMPT)
    command = ("task", "t.yaml", "--model", "python/model.py:echo", "--output-dir", "out")
    assert typed(*command, "--judge", "python/judge.py:judge", "--judge-prompt", "own.txt") == 0
    (line,) = [line.split() for line in capsys.readouterr().out.splitlines() if " judge " in line]
    assert (line[:4], line[-1]) == (["t", "none", "judge", "0.5000"], "1/2")


def test_a_memory_evaluation_says_that_yes_and_no_tell_no_omissions(tmp_path: Path) -> None:
    """Answers are judged by the user's prompt; the notice says which numbers have no meaning."""
    (tmp_path / "judge.py").write_text(JUDGE_OF_ALL)
    (tmp_path / "own.txt").write_text(PROMPT)
    judge = f"python/{tmp_path}/judge.py:judge"
    run = Samples(tmp_path).run(judge=judge, judge_prompt=f"{tmp_path}/own.txt")
    assert run.report is not None
    assert [notice for notice in run.report.notices if "own.txt has no label for omissions" in notice]
    assert entry_of(run).judges[0].prompt_file == f"{tmp_path}/own.txt"
    assert "--judge-prompt" in entry_of(run).judges[0].advice
    assert "--judge-prompt" not in entry_of(run).judges[1].advice


JUDGE_OF_ALL = """
def judge(messages, params):
    return "no" if len(messages) == 1 else "cannot say"
"""
