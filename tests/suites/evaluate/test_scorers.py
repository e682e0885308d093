"""Scorers of `assay.evaluate`: what they take, what they may return, and when they run again."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import assay

ROWS = [{"q": "one", "a": "1"}, {"q": "two", "a": "2"}]
calls = 0


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def one(row: dict[str, str]) -> str:
    if row["q"] == "two":
        raise ValueError("two is too much")
    return "1"


def echo(row: dict[str, str]) -> str:
    return row["q"]


def test_a_scorer_takes_any_of_its_values_by_name() -> None:
    seen: dict[str, Any] = {}

    async def spy(answer: str, target: str, row: dict[str, str], ctx: Any, records: list[Any]) -> bool:
        seen[answer] = (target, row, await ctx.ask("judge this", role="judge"), records[0].data)
        return True

    Path("judge.py").write_text("def ask(prompt, params):\n    return 'fine'\n")
    assay.evaluate(ROWS, answer=echo, score=spy, target="a", judge="python/judge.py:ask")
    assert seen == {
        "one": ("1", {"q": "one", "a": "1"}, "fine", "one"),
        "two": ("2", {"q": "two", "a": "2"}, "fine", "two"),
    }


@pytest.mark.parametrize(
    ("value", "status", "number"),
    [
        (True, "scored", 1.0),
        (False, "scored", 0.0),
        (0.25, "scored", 0.25),
        (7, "scored", 7.0),
        (None, "not_applicable", None),
        ("good", "invalid", None),
        (math.nan, "invalid", None),
        ([1], "invalid", None),
        (10**400, "invalid", None),
    ],
)
def test_what_a_scorer_returns_is_a_truth_a_number_or_none(value: Any, status: str, number: float | None) -> None:
    run = assay.evaluate(ROWS, answer=echo, score=assay.scorer(lambda answer: value, name="own"), version="1")
    score = next(run.cases()).scores["own"]
    assert (score.status, score.value) == (status, number)


def test_a_dict_gives_several_metrics() -> None:
    def both(answer: str) -> dict[str, Any]:
        return {"length": len(answer), "has o": "o" in answer, "none": None}

    run = assay.evaluate(ROWS, answer=echo, score=both)
    assert run["length"].value == 3
    assert run["has o"].numerator == 2
    assert run["none"].value is None
    assert run["none"].left_out == {"not applicable": 2}


def test_an_exception_is_an_invalid_score_with_its_traceback() -> None:
    def broken(answer: str) -> bool:
        return answer[100] == "x"

    run = assay.evaluate(ROWS, answer=echo, score=broken)
    score = next(run.cases()).scores["broken"]
    assert score.status == "invalid"
    assert "IndexError" in score.reason
    assert "answer[100]" in score.data["traceback"]
    assert run["broken"].value is None
    assert run.exit_code == 1  # nothing was measured
    with pytest.raises(assay.CheckFailed, match="No case has a score: 2 invalid"):
        run.check()


def test_a_case_without_an_answer_is_wrong_for_truths_and_left_out_of_numbers() -> None:
    def truth(answer: str, target: str) -> Any:
        if answer:
            return answer == target
        return False

    def number(answer: str) -> float:
        return float(answer)

    scorers: list[Any] = ["exact_match", truth, lambda answer, target: answer == target, number]
    run = assay.evaluate(ROWS, answer=one, score=scorers, target="a")
    assert [run[name].denominator for name in ("exact_match", "lambda", "number")] == [2, 2, 1]
    assert run["truth"].left_out == {"no answer": 1}  # its annotation says nothing about a truth
    assert run["number"].left_out == {"no answer": 1}


def test_a_zero_of_a_metric_where_less_is_better_is_no_failure() -> None:
    def distance(answer: str) -> int:
        return len(answer) - 3

    run = assay.evaluate(ROWS, answer=echo, score=assay.scorer(distance, higher_is_better=False))
    assert list(run.cases(failed=True)) == []
    assert run["distance"].higher_is_better is False


def test_several_right_answers_in_a_list_count_each() -> None:
    rows = [{"q": "one", "a": ["eins", "one"]}, {"q": "two", "a": ["zwei"]}]
    run = assay.evaluate(rows, answer=echo, score="exact_match", target="a")
    assert run["exact_match"].numerator == 1


def test_a_metric_of_a_whole_corpus_has_one_number() -> None:
    rows = [
        {"q": "the cat sat on the mat", "a": "the cat sat on the mat"},
        {"q": "a dog", "a": "the dog barks"},
    ]
    run = assay.evaluate(rows, answer=echo, score=["bleu", "chrf"], target="a")
    assert run["bleu"].denominator == 2
    assert run["bleu"].value is not None
    assert 0 < run["bleu"].value < 100


def test_the_offline_judge_compares_with_the_target() -> None:
    rows = [
        {"question": "Where?", "a": "in Paris", "x": "Paris"},
        {"question": "Where?", "a": "in Rome", "x": "Oslo"},
    ]
    run = assay.evaluate(rows, answer=lambda x: x, score="judge", target="a", judge="offline")
    assert run["judge"].numerator == 1
    assert run.report is not None
    assert run.report.judges()[0].calibration is not None


def test_a_rubric_is_judged_by_a_model() -> None:
    Path("judge.py").write_text(
        "import json\n\n\ndef ask(prompt, params):\n"
        "    return json.dumps({'reason': 'r', 'passed': 'seventeen' in prompt[-1]['content']})\n"
    )
    rows = [{"q": "seventeen"}, {"q": "two"}]
    run = assay.evaluate(rows, answer=echo, score=assay.rubric("It counts."), judge="python/judge.py:ask")
    assert run["rubric"].numerator == 1
    again = assay.evaluate(
        rows, answer=echo, score=[assay.rubric("It counts."), lambda answer: 1.0], judge="python/judge.py:ask"
    )
    assert again.summary.this_start["paid"] == 0


def test_a_scorer_with_values_that_cannot_be_compared_runs_in_every_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def scored(answer: str) -> float:
        global calls  # noqa: PLW0603 - a global that the function assigns is not part of its identity
        calls += 1
        return float(client.fileno() > 0)

    before = calls
    with Path("client.txt").open("w") as client:
        for _ in range(2):
            assay.evaluate(ROWS, answer=echo, score=assay.scorer(scored, name="own"), name="unknown")
        assert calls - before == 4
        assert "the scorer own() uses client (_io.TextIOWrapper)" in capsys.readouterr().err
        for _ in range(2):
            assay.evaluate(ROWS, answer=echo, score=assay.scorer(scored, name="own", version="1"), name="known")
        assert calls - before == 6


def test_a_scorer_that_hangs_costs_its_own_score() -> None:
    import time

    def slow(answer: str) -> bool:
        time.sleep(30 if answer == "two" else 0)
        return True

    run = assay.evaluate(ROWS, answer=echo, score=slow, timeout=2.0)
    assert run["slow"].left_out == {"invalid": 1}


def test_the_same_metric_is_used_twice_under_two_names() -> None:
    loose = assay.exact_match("a", ignore_case=True, name="loose")
    rows = [{"q": "Eins", "a": "eins"}, {"q": "zwei", "a": "zwei"}]
    run = assay.evaluate(rows, answer=echo, score=[assay.exact_match("a"), loose])
    assert (run["exact_match"].numerator, run["loose"].numerator) == (1, 2)
    with pytest.raises(assay.UsageError, match="two scorers are called 'exact_match'. Give one of them another"):
        assay.evaluate(rows, answer=echo, score=["exact_match", assay.metric("exact_match", "a")], target="a")


def test_a_run_names_its_judges_with_their_calibration() -> None:
    rows = [{"question": "Where?", "a": "in Paris"}]
    run = assay.evaluate(rows, answer=lambda question: "Paris", score="judge", target="a", judge="offline")
    (judge,) = run.judges
    assert judge.name == "offline"
    assert judge.calibration is not None
    assert judge.calibration.overall.kappa == pytest.approx(0.65, abs=0.01)


def test_two_scorers_cannot_give_one_number() -> None:
    """The name of a dict's key may be that of another scorer, or of another dict's key."""

    def first(answer: str) -> dict[str, float]:
        return {"second": 0.0}

    def second(answer: str) -> float:
        return 1.0

    def third(answer: str) -> dict[str, float]:
        return {"shared": 0.0}

    def fourth(answer: str) -> dict[str, float]:
        return {"shared": 1.0}

    run = assay.evaluate(ROWS, answer=echo, score=[first, second, third, fourth])
    assert (run["second"].value, run["shared"].value) == (1.0, 0.0)
    with pytest.raises(assay.CheckFailed, match="'second', which is a number of the scorer 'second'"):
        run.check()
    reasons = {name: score.reason for name, score in next(run.cases()).scores.items()}
    assert "'shared', which is a number of the scorer 'third'" in reasons["fourth"]


def test_a_scorer_cannot_change_the_answer_of_the_next() -> None:
    def greedy(answer: list[int], records: list[Any]) -> float:
        answer.append(9)
        records[0].data.append(9)
        return 1.0

    def length(answer: list[int], records: list[Any]) -> float:
        return float(len(answer) + len(records[0].data))

    run = assay.evaluate(ROWS, answer=lambda row: [1], score=[greedy, length])
    assert run["length"].value == 2.0


def test_another_direction_is_shown_at_once() -> None:
    def size(answer: str) -> float:
        return float(len(answer))

    assay.evaluate(ROWS, answer=echo, score=assay.scorer(size))
    run = assay.evaluate(ROWS, answer=echo, score=assay.scorer(size, higher_is_better=False))
    assert run["size"].higher_is_better is False


def test_a_row_without_a_target_is_left_out_of_a_metric() -> None:
    run = assay.evaluate([{"q": "1", "a": "1"}, {"q": "2", "a": None}], answer=echo, score="exact_match", target="a")
    assert (run["exact_match"].value, run["exact_match"].denominator) == (1.0, 1)
    assert run["exact_match"].left_out == {"not applicable": 1}


def near(answer: str, target: str, *, shift: int = 0) -> bool:
    return int(answer) + shift == int(target)


def counted(function: Callable[..., bool]) -> Callable[..., bool]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> bool:
        return function(*args, **kwargs)

    return call


class Near:
    def __call__(self, answer: str, target: str) -> bool:
        return near(answer, target)

    def method(self, answer: str, target: str) -> bool:
        return near(answer, target)


@pytest.mark.parametrize(
    "scorer",
    [near, functools.partial(near, shift=0), Near(), Near().method, counted(near)],
    ids=["function", "partial", "object", "method", "wrapped"],
)
def test_a_case_without_an_answer_is_wrong_however_the_scorer_is_built(scorer: Any) -> None:
    run = assay.evaluate(ROWS, answer=one, score=assay.scorer(scorer, name="near"), target="a")
    assert (run["near"].value, run["near"].denominator) == (0.5, 2)


def test_a_run_in_which_no_case_has_an_answer_does_not_pass() -> None:
    """0 % is no measurement of a function that never answered."""

    def broken(row: dict[str, str]) -> str:
        raise KeyError("q")

    run = assay.evaluate(ROWS, answer=broken, score="exact_match", target="a")
    assert (run["exact_match"].value, run["exact_match"].left_out) == (None, {"no answer": 2})
    assert run.exit_code == 1
    with pytest.raises(assay.CheckFailed, match="No case has an answer, all 2 failed"):
        run.check()


def truth(answer: str) -> Any:
    """Neither its annotation nor its source says that it returns a bool."""
    values = {"one": False, "two": False}
    return values[answer]


@pytest.mark.parametrize(
    ("score", "method", "is_told"),
    [
        pytest.param(truth, "wilson", False, id="returns True and False"),
        pytest.param(assay.scorer(lambda answer: 0, name="s", right_wrong=True), "wilson", False, id="declared"),
        pytest.param(assay.scorer(truth, right_wrong=False), "", False, id="declared as a number"),
        pytest.param(lambda answer: 0, "", True, id="numbers that are all 0"),
        pytest.param(lambda answer: 0.25 if answer == "one" else 0.5, "t", False, id="numbers from 0 to 1"),
    ],
)
def test_a_proportion_is_what_returns_truths_or_is_declared(score: Any, method: str, is_told: bool) -> None:
    """Who returns only 0 and 1 and declares nothing is told what to declare."""
    report = assay.evaluate(ROWS, answer=echo, score=score).report
    assert report is not None
    (metric,) = [metric for _, metric in report.metrics()]
    assert metric.interval_method == method
    assert ("right_wrong=True" in metric.warning) is is_told
