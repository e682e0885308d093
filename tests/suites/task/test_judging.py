"""`--judge` in `assay task`: an additional metric of the first filter's answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import assay
from assay.core.errors import UsageError
from assay.runner import api
from assay.runner.rescore import rescore
from assay.scoring.questions import AnswerQuestion, Verdict
from assay.store.cases import RunCases
from assay.suites.task.filters import FilterChain
from assay.suites.task.judge import answer_to_judge, reference_texts
from assay.suites.task.suite import TaskSuite

from servers.fake_openai import FakeOpenAI
from servers.judging import JudgingServer, about, always, by_words
from support.task_project import FOUR, Fn, TaskProject, TaskResult, docs_of, has_requests

FILTERS = [
    {
        "name": "digit",
        "filter": [{"function": "regex", "regex_pattern": "([0-9])"}, {"function": "take_first"}],
    },
    {"name": "whole", "filter": [{"function": "take_first"}]},
]


def last_line(body: dict[str, Any]) -> str:
    """The model under test repeats the last line of what it is asked."""
    return str(body["messages"][-1]["content"]).rsplit("\n", 1)[-1]


@pytest.fixture
def server() -> Iterator[JudgingServer]:
    """Where the model and the judges answer."""
    with JudgingServer(by_words, other=last_line) as running:
        yield running


def at(server: JudgingServer, **more: Any) -> dict[str, Any]:
    """The options of a run that this judge judges."""
    return {"model": "openai/m", "base_url": server.url, "judge": "judge", **more}


def models(server: JudgingServer) -> list[str]:
    """Who was asked, in order."""
    return [body["model"] for body in server.bodies]


def test_without_the_flag_nothing_is_judged(lab: TaskProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Environment variables do not choose a judge; the run stays the same."""
    lab.task()
    plain = lab.run()
    for name in ("OPENAI_MODEL", "JUDGE_MODEL", "OPENAI_MODEL_JUDGE"):
        monkeypatch.setenv(name, "gpt")
    result = lab.run()
    assert (result.run.folder, result.run.asked) == (plain.run.folder, False)
    assert "judge" not in result.file
    assert result.entry().judges == []
    assert [metric.name for metric in result.entry().metrics] == ["exact_match"]
    assert set(result.column("metrics")[0]) == {"exact_match"}


def test_the_offline_judge_is_a_metric_beside_the_others(lab: TaskProject) -> None:
    """In the table, the results file and every row, under the first filter."""
    lab.task(docs=docs_of("7=7", "the sea=a boat"), filter_list=FILTERS)
    result = lab.run(judge="offline")
    judged = result.metric("judge")
    assert (judged.filter, judged.value, judged.denominator, judged.numerator) == ("digit", 0.5, 2, 1)
    assert judged.stderr == pytest.approx(0.5)
    assert (result.results["t"]["judge,digit"], result.results["t"]["judge_stderr,digit"]) == (0.5, 0.5)
    assert result.file["higher_is_better"]["t"]["judge"] is True
    assert result.column("judge") == [1.0, 0.0, None, None]
    assert [row["metrics"] for row in result.rows()[::2]] == [["exact_match", "judge"], ["exact_match"]]
    assert list(result.rows()[0])[-2:] == ["exact_match", "judge"]
    assert json.loads(msgspec.json.encode(result.entry().judges)) == [result.file["judge"]]
    assert (result.file["judge"]["name"], result.file["judge"]["votes"]) == ("offline", 1)


def test_only_the_judge_is_added_to_files(lab: TaskProject) -> None:
    """A run that is judged later has the rows and numbers it had, and the judge's."""
    lab.task(docs=FOUR, filter_list=FILTERS)
    before = lab.run()
    rows, numbers = before.rows(), before.results["t"]
    after = lab.run(judge="offline")
    assert after.run.folder == before.run.folder
    cut = [{key: value for key, value in row.items() if key != "judge"} for row in after.rows()]
    for row in cut:
        row["metrics"] = [name for name in row["metrics"] if name != "judge"]
    assert cut == rows
    assert {key: value for key, value in after.results["t"].items() if "judge" not in key} == numbers


def test_the_judge_sees_the_question_without_examples(lab: TaskProject, server: JudgingServer) -> None:
    """Nor description nor prefix; the answer is what the first filter left, else the reply as it is."""
    shots = {"sampler": "first_n", "samples": [{"q": "1 of an example", "a": "1"}]}
    lab.task(
        docs=docs_of("say 5=5", "say nothing=5"),
        description="Be brief.",
        fewshot_config=shots,
        num_fewshot=1,
        filter_list=FILTERS,
    )
    for chat in (False, True):
        lab.run(**at(server, concurrency=1, apply_chat_template=chat))
        assert [body["messages"][0]["content"].startswith("Be brief.") for body in server.bodies[:1]] == [True]
        assert server.questions == [
            AnswerQuestion("say 5", "5", "5"),
            AnswerQuestion("say nothing", "5", "say nothing"),
        ]
        server.bodies.clear()
        server.questions.clear()


def test_another_judge_calls_only_judges(lab: TaskProject, server: JudgingServer) -> None:
    """Verdicts of the first judge stay in the journal and cost nothing."""
    lab.task(docs=FOUR)
    first = lab.run(**at(server, judge=None))
    assert models(server) == ["m"] * 4
    judged = lab.run(**at(server))
    assert (judged.run.folder, judged.metric("judge").value) == (first.run.folder, 0.75)
    server.judge = always("Omission")
    other = lab.run(**at(server, judge="openai/judge-2"))
    assert other.metric("judge").value == 0.0
    assert lab.run(**at(server)).metric("judge").value == 0.75
    assert models(server) == ["m"] * 4 + ["judge"] * 4 + ["judge-2"] * 4


def test_another_metric_calls_no_judge(lab: TaskProject, server: JudgingServer) -> None:
    """Another first filter or target does, because the judge's input changes."""
    lab.task(docs=FOUR, filter_list=FILTERS)
    first = lab.run(**at(server))
    lab.task(docs=FOUR, filter_list=FILTERS, metric_list=[{"metric": "exact_match", "ignore_case": True}])
    second = lab.run(**at(server))
    assert second.run.summary.scorers[0] != first.run.summary.scorers[0]
    assert (second.run.folder, len(server.questions)) == (first.run.folder, 4)
    lab.task(docs=FOUR, filter_list=FILTERS[::-1])
    assert lab.run(**at(server)).run.folder == first.run.folder
    assert len(server.questions) == 8
    lab.task(docs=FOUR, filter_list=FILTERS, doc_to_target="{{a}} ")
    lab.run(**at(server))
    assert (len(server.questions), models(server).count("m")) == (12, 4)


def test_rescore_of_a_judged_run_sends_no_request(lab: TaskProject, server: JudgingServer) -> None:
    """The new metric is computed, and the verdicts stay."""
    lab.task(docs=FOUR)
    run = lab.run(**at(server)).run
    lab.task(docs=FOUR, metric_list=[{"metric": "exact_match", "ignore_case": True}])
    again = rescore(str(run.folder))
    assert len(server.bodies) == 8
    assert again.report is not None
    assert [metric.name for _, metric in again.report.metrics()] == ["exact_match", "judge"]


def test_votes_are_asked_for_and_kept(lab: TaskProject, server: JudgingServer) -> None:
    """The majority counts; other votes are another judge."""
    message = iter(["Correct", "Omission", "Correct", "Omission"])
    server.judge = lambda _: Verdict((next(message),))
    lab.task(docs=FOUR[:1])
    result = lab.run(**at(server, votes=3))
    assert (result.metric("judge").value, models(server)) == (1.0, ["m", "judge", "judge", "judge"])
    assert result.file["judge"]["votes"] == 3
    result = lab.run(**at(server, votes=1))
    assert (result.metric("judge").value, len(models(server))) == (0.0, 5)


def test_several_targets_are_alternatives(lab: TaskProject, server: JudgingServer) -> None:
    """A model is asked once and shown all of them; `offline` takes them one by one."""
    docs = [{"q": "a grey boat", "a": ["the whole wide sea and all of its fish", "grey boat"]}]
    lab.task(docs=docs, doc_to_target="a")
    lab.run(**at(server))
    (shown,) = server.questions
    assert isinstance(shown, AnswerQuestion)
    assert shown.reference.splitlines() == [
        "Any one of these is a right answer:",
        "- the whole wide sea and all of its fish",
        "- grey boat",
    ]
    assert lab.run(**at(server, judge="offline")).metric("judge").value == 1.0


def test_an_unreadable_verdict_is_in_no_denominator(lab: TaskProject, server: JudgingServer) -> None:
    """It is requested once more, then counted as invalid; the row has the reason."""
    server.spoil = about("1", "prose")
    lab.task(docs=FOUR)
    result = lab.run(**at(server))
    judged = result.metric("judge")
    assert (judged.denominator, judged.left_out, len(server.questions)) == (3, {"invalid": 1}, 5)
    assert result.metric("exact_match").denominator == 4
    assert ("judge" in result.rows()[0], result.rows()[0]["error"][:18]) == (False, "judge: no verdict:")


def test_an_empty_answer_needs_no_judge(lab: TaskProject, server: JudgingServer) -> None:
    """It is wrong; a document without a target is left out."""
    lab.task(docs=[{"q": "x\n", "a": "1"}, {"q": "2", "a": ""}, {"q": "3", "a": "3"}])
    result = lab.run(**at(server))
    judged = result.metric("judge")
    assert server.questions == [AnswerQuestion("3", "3", "3")]
    assert (judged.value, judged.denominator, judged.left_out) == (0.5, 2, {"not_applicable": 1})


def test_a_document_without_an_answer_is_wrong_or_left_out(lab: TaskProject) -> None:
    """As in every metric of right and wrong: a refusal counts, an endpoint that failed does not."""
    lab.task(docs=docs_of("one=x", "two=x", "three=x"))
    with FakeOpenAI(always={"one": "refusal", "two": "400"}) as fake:
        result = lab.run(model="openai/m", base_url=fake.url, judge="offline", max_retries=0)
    judged = result.metric("judge")
    assert (judged.value, judged.denominator, judged.left_out) == (0.0, 2, {"infra_error": 1})


def test_a_judge_that_does_not_answer_is_called_in_the_next_start(lab: TaskProject, server: JudgingServer) -> None:
    """The other metrics are reported; the documents count as not judged."""
    server.spoil = about("4", "500")
    lab.task(docs=FOUR)
    result = lab.run(**at(server, max_retries=0))
    assert (result.run.exit_code, result.run.summary.unscored) == (3, 1)
    assert (result.metric("exact_match").denominator, result.metric("judge").left_out) == (
        4,
        {"not judged": 1},
    )
    server.spoil = about("4", "")
    server.bodies.clear()
    result = lab.run(**at(server, max_retries=0))
    assert (result.run.exit_code, result.metric("judge").denominator, models(server)) == (0, 4, ["judge"])


def test_likelihoods_are_not_judged(lab: TaskProject, server: JudgingServer) -> None:
    """Alone they are refused; next to generated answers there is a notice."""
    choice: dict[str, Any] = {
        "output_type": "multiple_choice",
        "doc_to_choice": ["x", "z"],
        "doc_to_target": "x",
    }
    lab.task("c.yaml", **choice)
    lab.task()
    lab.write("both.py", "def both(p, _):\n    return p\n\nboth.loglikelihood = lambda c, t: (-1.0, True)\n")
    with pytest.raises(UsageError, match=r"--judge: c has output_type multiple_choice.*remove --judge"):
        lab.run("c.yaml", judge="offline", model="python/both.py:both")
    assert not has_requests(lab)
    messages: list[str] = []
    spec = lab.spec("c.yaml", "t.yaml", **at(server, model="python/both.py:both"))
    run = assay.run(spec, observers=[lambda event: messages.append(str(getattr(event, "text", event)))])
    assert any("c is not judged" in text for text in messages)
    result = TaskResult(run)
    assert (len(result.entry("c").judges), len(result.entry("t").judges)) == (0, 1)
    assert [metric.name for metric in result.entry("c").metrics] == ["acc", "acc_norm"]


@pytest.mark.parametrize(
    ("options", "changes", "message"),
    [
        ({"judge": "offline", "predict_only": True}, {}, "--predict-only"),
        ({"votes": 2}, {}, "--votes is the number of judge calls per verdict"),
        ({"judge": "offline"}, {"metric_list": [{"metric": Fn("own.judge")}]}, "a metric of its own"),
        (
            {"judge": "offline"},
            {"doc_to_target": None, "process_results": Fn("own.process")},
            "has no doc_to_target",
        ),
    ],
)
def test_what_cannot_be_judged_is_refused(
    lab: TaskProject, options: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    """Before the first request."""
    lab.write("own.py", "def judge(**_):\n    return 1\n\n\ndef process(doc, results):\n    return {}\n")
    lab.task(**changes)
    with pytest.raises(UsageError, match=message):
        lab.run(**options)
    assert not has_requests(lab)


def test_tasks_with_process_results_are_judged_too(lab: TaskProject) -> None:
    """Even if it returns no number."""
    lab.write("own.py", "def process(doc, results):\n    return {}\n")
    lab.task(process_results=Fn("own.process"))
    judged = lab.run(judge="offline").metric("judge")
    assert (judged.denominator, judged.value) == (2, 0.5)


def test_the_judge_reads_the_filtered_answer() -> None:
    """Of a list the first item; if the filters fail or find nothing, the reply unchanged."""

    def fails(*_: Any) -> Any:
        raise ValueError

    cases: list[tuple[Any, str]] = [
        (lambda *_: ["a", "b"], "a"),
        (lambda *_: 7, "7"),
        (lambda *_: "[invalid]", "raw"),
        (lambda *_: " ", "raw"),
        (lambda *_: [], "raw"),
        (fails, "raw"),
    ]
    for step, wanted in cases:
        assert answer_to_judge(FilterChain("c", [("own", step)], ends_in_list=False), ["raw"], {}) == wanted


def test_the_judge_gets_distinct_targets_as_text() -> None:
    """Empty targets are dropped."""
    assert reference_texts(["a", 7, "", None, "a"]) == ["a", "7"]
    assert reference_texts(0) == ["0"]
    assert reference_texts(None) == reference_texts([]) == reference_texts("  ") == []


def test_runs_are_compared_by_the_judge(lab: TaskProject) -> None:
    """With the answers that the judge read."""
    lab.task(docs=FOUR)
    lab.write("other.py", "async def silent(prompt, params):\n    return 'no idea'\n")
    runs = [lab.run(judge="offline", model=model).run for model in ("python/model.py:echo", "python/other.py:silent")]
    (result,) = api.compare([str(Path(run.folder)) for run in runs]).comparisons
    (row,) = [row for row in result.rows if row.metric == "judge"]
    assert (row.n, row.base, row.new) == (4, 0.75, 0.0)
    shown = result.now_failing.shown[0]
    assert (shown.metric, shown.also) == ("exact_match", ["judge,none"])
    assert (shown.base.answer, shown.new.answer) == (["1"], ["no idea"])


def test_a_judge_without_a_provider_is_an_openai_model(lab: TaskProject, server: JudgingServer) -> None:
    """Both names are the same judge, which is called once."""
    lab.task(docs=FOUR)
    first = lab.run(**at(server))
    second = lab.run(**at(server, judge="openai/judge"))
    assert (second.run.summary.scorers, len(server.questions)) == (first.run.summary.scorers, 4)


def test_a_judge_at_an_endpoint_of_its_own(
    lab: TaskProject, server: JudgingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another endpoint is another judge, and no key or model is asked there for anything else."""
    lab.task(docs=FOUR)
    first = lab.run(**at(server))
    with JudgingServer(always("Correct")) as own:
        monkeypatch.setenv("OPENAI_BASE_URL_JUDGE", own.url)
        result = lab.run(**at(server))
    assert (result.run.folder, models(own), len(server.bodies)) == (first.run.folder, ["judge"] * 4, 8)
    assert (first.metric("judge").value, result.metric("judge").value) == (0.75, 1.0)


def test_an_unfinished_run_shows_both_scorers(lab: TaskProject) -> None:
    """Without a summary the newest score of each name counts, the judge last."""
    lab.task()
    run = lab.run(judge="offline").run
    (run.folder / "summary.json").unlink()
    case = RunCases(run.folder).case(0)
    assert case is not None
    assert [score.metric for score in case.scores] == ["exact_match", "judge"]


def test_a_task_names_votes_that_have_no_effect(lab: TaskProject) -> None:
    lab.task()
    suite = TaskSuite(TaskSuite.resolve(lab.spec(judge="offline", votes=3)))
    assert [notice for notice in suite.notices if "--votes 3 has no effect" in notice]
