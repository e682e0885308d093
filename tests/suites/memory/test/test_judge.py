"""`--judge` in memory test: what is judged, how many calls it costs, and what is left out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import UsageError
from assay.runner import api
from assay.scoring.questions import AnswerQuestion, Verdict
from assay.suites.memory.test.conversation import ConversationQuestion
from assay.suites.memory.test.scorers import FIRST_PART, ConversationGold

from servers.judging import JudgingServer, about, always, by_words
from support.memory_talks import Talks, numbers_of, talk


@pytest.fixture
def server() -> Iterator[JudgingServer]:
    """An endpoint for judges only."""
    with JudgingServer(by_words) as running:
        yield running


def at(server: JudgingServer, **more: Any) -> dict[str, Any]:
    """Return the options of a run with a judge at this server."""
    return {"judge": "judge", "base_url": server.url, "segments": 2, **more}


def asked(server: JudgingServer) -> list[str]:
    """Return the questions that judges were shown, sorted."""
    return sorted(matter.question for matter in server.questions if isinstance(matter, AnswerQuestion))


def metrics(run: assay.Run, name: str = "own") -> dict[str, dict[str, Any]]:
    """Return the headline metrics of a memory by name, in order."""
    return {metric["metric"]: metric for metric in numbers_of(run, name)["metrics"]}


def test_without_the_flag_nothing_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Environment variables that name a judge for other commands are ignored."""
    plain = Talks(tmp_path).run(fresh=True)
    for name in ("OPENAI_MODEL", "JUDGE_MODEL", "OPENAI_MODEL_JUDGE"):
        monkeypatch.setenv(name, "gpt")
    run = Talks(tmp_path).run()
    assert run.folder == plain.folder
    assert (run.asked, len(run.summary.scorers)) == (False, 1)
    summary = numbers_of(run)
    assert "judge" not in summary
    assert list(metrics(run))[:3] == ["f1", "exact_match", "evidence_recall"]
    assert "judged" not in metrics(run)
    assert "invalid" not in summary["metrics"][0]


def test_offline_is_a_metric_like_the_others(tmp_path: Path) -> None:
    """`judged` is the first metric and the curve, and has values by test and category. The summary names the judge."""
    first, second = talk(4, "a"), talk(4, "b")
    first["questions"][0]["answer"] = "something else altogether"
    run = Talks(tmp_path, first, second).run(judge="offline", segments=2)
    summary = numbers_of(run)
    assert next(iter(metrics(run))) == "judged"
    judged = metrics(run)["judged"]
    assert (judged["value"], judged["n"], judged["clusters"], judged["invalid"]) == (0.875, 8, 2, 0)
    assert judged["interval"] is not None
    assert summary["categories"]["plain"]["judged"]["n"] == 8
    assert [test["judged"]["value"] for test in summary["tests"]] == [0.75, 0.875]
    assert [point["judged"]["n"] for point in summary["curve"]] == [4, 8]
    assert summary["judge"]["name"] == "offline"
    assert (summary["judge"]["votes"], summary["judge"]["id"].partition("@")[0]) == (1, "offline")
    (beside,) = [path for path in run.files if path.name == "summary.json"]
    assert json.loads(beside.read_text())["judge"] == summary["judge"]
    (curve,) = [path for path in run.files if path.name == "curve.svg"]
    assert ">judged<" in curve.read_text()


def test_equal_answers_are_judged_once(tmp_path: Path, server: JudgingServer) -> None:
    """Six answers in two tests are four pairs of a question and an answer: four calls."""
    run = Talks(tmp_path).run(**at(server))
    assert asked(server) == [f"who likes fruit{n}" for n in range(1, 5)]
    assert [body["model"] for body in server.bodies] == ["judge"] * 4
    summary = numbers_of(run)
    assert [test["judged"]["n"] for test in summary["tests"]] == [2, 4]
    assert summary["judge"]["name"] == "openai/judge"


def test_another_judge_asks_judges_only(tmp_path: Path, server: JudgingServer) -> None:
    """The answering model is not called again. Verdicts of the first judge stay in the journal and are reused."""
    talks = Talks(tmp_path)
    first = talks.run(**at(server, judge=None))
    prompts = talks.asked()
    assert (server.bodies, next(iter(metrics(first)))) == ([], "f1")
    judged = talks.run(**at(server))
    assert (judged.folder, metrics(judged)["judged"]["value"]) == (first.folder, 1.0)
    server.judge = always("Omission")
    other = talks.run(**at(server, judge="openai/judge-2"))
    assert (other.folder, metrics(other)["judged"]["value"]) == (first.folder, 0.0)
    assert [body["model"] for body in server.bodies] == ["judge"] * 4 + ["judge-2"] * 4
    again = talks.run(**at(server))
    assert (len(server.bodies), metrics(again)["judged"]["value"]) == (8, 1.0)
    assert talks.asked() == prompts
    assert first.summary.scorers[0] == again.summary.scorers[0]


def test_unreadable_verdicts_are_left_out_of_the_denominator(tmp_path: Path, server: JudgingServer) -> None:
    """An unreadable verdict is requested once more, then counted as invalid."""
    server.spoil = about("fruit1", "prose")
    run = Talks(tmp_path).run(**at(server))
    judged = metrics(run)["judged"]
    assert (judged["value"], judged["n"], judged["invalid"]) == (1.0, 3, 1)
    assert metrics(run)["f1"]["n"] == 4
    assert len(server.bodies) == 5
    summary = numbers_of(run)
    assert [(point["judged"]["n"], point["judged"]["invalid"]) for point in summary["curve"]] == [
        (1, 1),
        (3, 1),
    ]
    assert summary["categories"]["plain"]["judged"]["invalid"] == 1
    assert run.exit_code == 4


def test_empty_answers_and_abstentions_need_no_judge(tmp_path: Path, server: JudgingServer) -> None:
    """A failed answer is empty and wrong without a judge call. Abstention has its own rule."""
    conversation = talk()
    conversation["questions"][0]["question"] = "boom"
    conversation["questions"][1]["abstention"] = True
    del conversation["questions"][2]["answer"]
    run = Talks(tmp_path, conversation).run(**at(server, segments=1))
    assert asked(server) == ["who likes fruit4"]
    judged = metrics(run)["judged"]
    assert (judged["value"], judged["n"], judged["invalid"]) == (0.5, 2, 0)
    assert metrics(run)["abstention"]["n"] == 1


def test_the_judge_sees_the_reference_of_the_word_scores(tmp_path: Path, server: JudgingServer) -> None:
    """In LoCoMo's category 3 only the text before the semicolon is the reference."""
    question = ConversationQuestion.of("?", ["D1:1"], {"category": 3}, reference="yes; since she said so")
    assert ConversationGold([], {}, {3: FIRST_PART}).reference(question) == "yes"
    assert ConversationGold([], {}).reference(question) == "yes; since she said so"
    Talks(tmp_path, talk(1)).run(**at(server))
    assert server.questions == [AnswerQuestion("who likes fruit1", "Bob likes fruit1", "Bob likes fruit1")]


def test_an_unreachable_judge_is_asked_in_the_next_start(tmp_path: Path, server: JudgingServer) -> None:
    """The other scores are complete, unjudged answers are counted, and the exit code is 3."""
    talks, server.spoil = Talks(tmp_path), about("fruit3", "500")
    run = talks.run(**at(server, max_retries=0))
    judged = metrics(run)["judged"]
    assert (judged["value"], judged["n"], judged["invalid"], judged["not_judged"]) == (None, 0, 0, 4)
    assert (run.exit_code, run.summary.unscored, metrics(run)["f1"]["n"]) == (3, 1, 4)
    assert len(server.bodies) == 4
    server.spoil, paid = about("fruit3", ""), talks.asked()
    server.questions.clear()
    run = talks.run(**at(server, max_retries=0))
    assert (run.exit_code, metrics(run)["judged"]["n"], talks.asked()) == (0, 4, paid)
    assert "not_judged" not in metrics(run)["judged"]
    assert asked(server) == ["who likes fruit3"]


def test_votes_are_asked_for_and_kept(tmp_path: Path, server: JudgingServer) -> None:
    """The majority wins. Another number of votes judges again without calling the answering model."""
    labels = iter(["Correct", "Omission", "Correct"] * 4)
    server.judge = lambda _: Verdict((next(labels),))
    talks = Talks(tmp_path, talk(1))
    run = talks.run(**at(server, segments=1, votes=3))
    assert (len(server.bodies), metrics(run)["judged"]["value"]) == (3, 1.0)
    assert numbers_of(run, "own")["judge"]["votes"] == 3
    (line,) = [json.loads(line) for line in _lines(run) if '"judged"' in line]
    assert sorted(line["data"]["votes"]) == [["Correct", 2], ["Omission", 1]]  # they arrive in any order
    assert (line["data"]["label"], line["data"]["stable"]) == ("Correct", False)
    prompts = len(talks.asked())
    again = talks.run(**at(server, segments=1, votes=1))
    assert (again.folder, len(server.bodies), len(talks.asked())) == (run.folder, 4, prompts)


def _lines(run: assay.Run) -> list[str]:
    return (run.folder / "scores.jsonl").read_text().splitlines()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"judge": "offline", "no_answer": True}, "--no-answer"),
        ({"votes": 3}, "--votes is the number of judge calls"),
        ({"judge": "openai-completions/m", "base_url": "http://127.0.0.1:1/v1"}, "cannot do chat"),
    ],
)
def test_judge_flags_that_cannot_work_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    """The command fails before the first request."""
    talks = Talks(tmp_path)
    with pytest.raises(UsageError, match=message):
        talks.run(**options)
    assert talks.asked() == []


def test_memories_are_compared_by_the_judge(tmp_path: Path) -> None:
    """The comparison uses the questions of the last tests, and shows answers where the memories differ."""
    talks = Talks(tmp_path)
    run = talks.run(memory=[talks.own, "none"], judge="offline", segments=2)
    (comparison,) = api.compare([str(run.folder)], flips=100).comparisons
    (row,) = [row for row in comparison.rows if row.metric == "judged"]
    assert (row.n, row.base, row.new, row.losses) == (4, 1.0, 0.0, 4)
    (example, *_) = [flip for flip in comparison.now_failing.shown if "judged" in flip.also]
    assert (example.base.answer, example.new.answer) == ("Bob likes fruit1", "Not mentioned.")
    assert comparison.notes == ["not compared: plain precision, of which the new side has no score"]


@pytest.mark.parametrize(("judge", "why"), [(None, "not scored in new"), ("judge", "judged by other expectations")])
def test_runs_with_different_judges_are_compared_without_the_judge(
    tmp_path: Path, server: JudgingServer, judge: str | None, why: str
) -> None:
    """Verdicts of two judges are not comparable, so only word scores are compared."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first = Talks(tmp_path / "one").run(**at(server, judge="offline"))
    two = Talks(tmp_path / "two").run(**at(server, judge=judge))
    (comparison,) = api.compare([str(first.folder), str(two.folder)]).comparisons
    rows = {row.metric: row for row in (*comparison.rows, *comparison.one_sided_rows)}
    assert {row.n for name, row in rows.items() if name != "judged"} == {4}
    assert {"f1", "exact_match", "evidence_recall", "recall_at_1", "mrr", "ndcg"} <= rows.keys()
    assert rows["judged"].left_out == {why: 4}
    assert any("different judges" in note for note in comparison.notes)
