"""`assay power`: cases, effects and power, from numbers and from runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.core.report import Entry, Interval, Metric, Report

from support.pipeline_project import typed
from support.runs import Made, passed


def answers(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    code, out, err = typed(capsys, "power", *words, "--json")
    assert code == 0, err
    plan: dict[str, Any] = json.loads(out)
    return {answer["comparison"]: answer for answer in plan["answers"]} | {"plan": plan}


def run_with(folder: Path, **fields: Any) -> str:
    metric = Metric(**{"name": "recall", "value": 0.6, "denominator": 1000, **fields})
    run = Made(folder)
    run.case("a", [passed(1)])
    return str(run.finish(report=Report(entries=[Entry(name="m", subject="m", metrics=[metric])])))


def test_a_metric_has_the_names_that_a_gate_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Made(tmp_path / "out" / "assay" / "r")
    run.case("a", [passed(1)])
    entries = [
        Entry(
            name=f"{name}-{filter_name}",
            set=name,
            subject="m",
            metrics=[Metric(name="acc", filter=filter_name, value=value, denominator=90, interval_method="wilson")],
        )
        for name, filter_name, value in (("t", "strict", 0.2), ("t", "loose", 0.3), ("u", "strict", 0.4))
    ]
    folder = str(run.finish(report=Report(entries=entries)))
    for metric, value, note in (
        ("acc,loose", 0.3, None),
        ("u acc", 0.4, None),
        ("u acc,strict@m", 0.4, None),
        ("acc,strict", 0.2, "acc,strict also fits u acc,strict. Pass --metric with one of these names"),
    ):
        plan = answers(capsys, "--run", folder, "--effect", "0.1", "--metric", metric)["plan"]
        assert (plan["baseline"], plan["notes"]) == (value, [note] if note else [])
    _, _, err = typed(capsys, "power", "--run", folder, "--effect", "0.1", "--metric", "f1")
    assert "there is no metric named 'f1'; known: t acc,strict, t acc,loose, u acc,strict" in err


def test_an_effect_needs_so_many_cases(capsys: pytest.CaptureFixture[str]) -> None:
    """Both systems on the same cases need half as many; a higher correlation needs fewer still."""
    code, out, _ = typed(capsys, "power", "--baseline", "0.72", "--effect", "0.03")
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()[2:4]] == [
        ["paired", "1,704"],
        ["unpaired", "3,397"],
    ]
    assert "correlation 0.5" in out
    closer = answers(capsys, "--baseline", "0.72", "--effect", "0.03", "--correlation", "0.8")
    assert closer["paired"]["cases"] < 1_704 / 2
    assert closer["unpaired"]["cases"] == 3_397


def test_cases_effect_and_power_answer_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    """The smallest effect of the cases that an effect needs is that effect."""
    needed = answers(capsys, "--baseline", "0.3", "--effect", "0.05", "--power", "0.9")["paired"]["cases"]
    given = ("--baseline", "0.3", "--cases", str(needed))
    assert answers(capsys, *given, "--power", "0.9")["paired"]["effect"] == pytest.approx(0.05, abs=2e-3)
    assert answers(capsys, *given, "--effect", "0.05")["paired"]["power"] == pytest.approx(0.9, abs=2e-3)


def test_clusters_multiply_the_cases(capsys: pytest.CaptureFixture[str]) -> None:
    """By 1 + 149 * 0.05 = 8.45, and a little more because 43 clusters have wider quantiles than infinitely many."""
    alone = answers(capsys, "--baseline", "0.6", "--effect", "0.05")["paired"]["cases"]
    words = ("--baseline", "0.6", "--effect", "0.05", "--clusters-of", "150", "--icc", "0.05")
    found = answers(capsys, *words)
    assert found["plan"]["design_effect"] == pytest.approx(8.45)
    assert 8.45 * alone < found["paired"]["cases"] < 9.2 * alone
    assert found["paired"]["clusters"] == -(-found["paired"]["cases"] // 150)


def test_a_plan_never_asks_for_fewer_clusters_than_a_test_can_use(capsys: pytest.CaptureFixture[str]) -> None:
    """Five clusters cannot have a p below 0.05."""
    words = ("--baseline", "0.5", "--effect", "0.4", "--clusters-of", "1000", "--icc", "0.01")
    assert answers(capsys, *words)["paired"]["clusters"] == 6


def test_a_run_gives_its_value_its_variance_and_its_clusters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """0.03 squared is 3.75 times the variance of 1,000 independent cases."""
    run = run_with(
        tmp_path / "run",
        stderr=0.03,
        clusters=100,
        interval=Interval(0.54, 0.66),
        interval_method="clustered logit t",
        unit="question",
    )
    found = answers(capsys, "--run", run, "--effect", "0.05")
    assert found["plan"]["baseline"] == 0.6
    assert found["plan"]["design_effect"] == pytest.approx(0.03**2 * 999 / 0.24)
    assert found["paired"]["clusters"] == -(-found["paired"]["cases"] // 10)
    code, out, _ = typed(capsys, "power", "--run", run, "--effect", "0.05", "--metric", "recall")
    assert (code, "10 questions per cluster" in out, "questions of each run" in out) == (0, True, True)


def test_numbers_of_any_size_use_the_variance_of_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_with(tmp_path / "run", value=12.0, stderr=0.1, interval_method="t", interval=Interval(11, 13))
    found = answers(capsys, "--run", run, "--effect", "0.5", "--unpaired")
    # by hand: the square of 1.96 and 0.8416 together, times two variances of 10, by 0.25
    assert found["unpaired"]["cases"] == 628
    assert "paired" not in found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name the effect to find"),
        (["--effect", "0.03"], "name the value to compare with"),
        (["--baseline", "0.7", "--effect", "0"], "an effect of 0 cannot be found"),
        (["--baseline", "0.9", "--effect", "0.2"], "is 1.1, which is not between 0 and 1"),
        (["--baseline", "7", "--effect", "0.2"], "--baseline 7 is not between 0 and 1"),
        (["--baseline", "0.7", "--effect", "0.1", "--icc", "0.1"], "belong together"),
        (["--baseline", "0.7", "--effect", "0.1", "--cases", "9", "--power", "0.8"], "give two of"),
        (["--baseline", "0.7", "--effect", "0.1", "--metric", "m"], "--metric needs --run"),
        (["--run", "RUN", "--effect", "0.1", "--baseline", "0.7"], "leave out --baseline"),
        (["--run", "RUN", "--effect", "0.1", "--metric", "recal"], "recall"),
        (["--run", "nowhere", "--effect", "0.1"], "nowhere"),
    ],
)
def test_a_question_without_an_answer_is_refused(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "RUN" in words:
        words = [run_with(tmp_path / "run", stderr=0.01) if word == "RUN" else word for word in words]
    code, _, err = typed(capsys, "power", *words)
    assert (code, message in " ".join(err.split())) == (2, True), err


def test_a_number_without_an_error_cannot_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And neither can a share of 1: nothing tells its variance."""
    run = run_with(tmp_path / "run", value=7.0)
    assert "has no standard error" in typed(capsys, "power", "--run", run, "--effect", "0.1")[2]
    run = run_with(tmp_path / "all", value=1.0, interval=Interval(0.9, 1.0), interval_method="wilson")
    assert "says nothing about its variance" in typed(capsys, "power", "--run", run, "--effect", "-0.1")[2]


def test_few_cases_may_show_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert answers(capsys, "--baseline", "0.5", "--cases", "3")["unpaired"]["effect"] is None


def test_the_example_of_the_page_prints_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text()
    shown = page.partition("```\nassay power --baseline")[2].split("```")[2].strip()
    _, out, _ = typed(capsys, "power", "--baseline", "0.72", "--effect", "0.03")
    assert out.strip() == shown
