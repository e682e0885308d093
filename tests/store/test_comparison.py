"""Comparing what two runs hold: which cases are paired, what counts, what flipped, what is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import UsageError
from assay.core.judges import JudgeInfo
from assay.core.report import Entry, Metric, PairedMetric, Report
from assay.core.types import Usage
from assay.journal.folder import lock_folder
from assay.store.comparison import Comparison, compare
from assay.store.gate import Drop, gate

from support.runs import Made, passed, run_of

RIGHT = dict.fromkeys("abcdef", True)


def compared(*runs: Path | str, **options: Any) -> Comparison:
    (comparison,) = compare([str(run) for run in runs], **options).comparisons
    return comparison


def report_of(name: str, **metric: Any) -> Report:
    return Report(entries=[Entry(name="set", metrics=[Metric(name=name, value=None, denominator=0, **metric)])])


def only_row(comparison: Comparison) -> PairedMetric:
    (row,) = comparison.rows
    return row


def test_cases_are_paired_by_content_whatever_their_order(tmp_path: Path) -> None:
    """The mean is over what both have; the rest is listed on its side."""
    base = run_of(tmp_path / "base", {"a": True, "b": True, "c": False, "old": True})
    new = run_of(tmp_path / "new", {"new": False, "c": True, "b": False, "a": True})
    comparison = compared(base, new)
    row = only_row(comparison)
    assert (comparison.paired, row.n, row.base, row.new) == (3, 3, 2 / 3, 2 / 3)
    assert (row.wins, row.losses, row.ties) == (1, 1, 1)
    assert [flip.case for flip in comparison.now_failing.shown] == ["b"]
    assert [flip.case for flip in comparison.now_passing.shown] == ["c"]
    assert (comparison.only_base.count, comparison.only_base.shown) == (1, ["set/old"])
    assert (comparison.only_new.count, comparison.only_new.shown) == (1, ["set/new"])


def test_a_set_of_another_name_is_paired_by_key_where_that_is_sure(tmp_path: Path) -> None:
    """A renamed file; a key that stands twice among what is left stays alone."""
    base, new = Made(tmp_path / "base"), Made(tmp_path / "new")
    for key in ("a", "b", "twice"):
        base.case(key, [passed(1)], within="before")
    base.case("same", [passed(1)], within="kept")
    for key in ("a", "b", "twice"):
        new.case(key, [passed(0)], within="after")
    new.case("twice", [passed(0)], within="third")
    new.case("same", [passed(1)], within="kept")
    comparison = compared(base.finish(), new.finish())
    assert comparison.paired == 3
    assert comparison.only_base.shown == ["before/twice"]
    assert comparison.only_new.shown == ["after/twice", "third/twice"]
    assert comparison.notes == ["2 cases are in sets with different names; they are paired by their content alone"]


def test_equal_set_and_key_come_before_equal_key(tmp_path: Path) -> None:
    """The same row in two sets is two cases."""
    base, new = Made(tmp_path / "base"), Made(tmp_path / "new")
    for run, value in ((base, True), (new, False)):
        run.case("a", [passed(value)], within="one")
        run.case("a", [passed(1)], within="two")
    comparison = compared(base.finish(), new.finish())
    assert {row.set: row.losses for row in comparison.rows} == {"": 1, "one": 1, "two": 0}
    assert [flip.set for flip in comparison.now_failing.shown] == ["one"]
    assert comparison.regressions == ["one passed: 1 of 1 were right and are wrong now"]


def test_what_has_no_value_on_one_side_is_left_out_and_counted(tmp_path: Path) -> None:
    """By reason and side; nothing becomes a 0."""
    base, new = Made(tmp_path / "base"), Made(tmp_path / "new")
    sides = {
        "na": (passed(1), passed(None, status="not_applicable")),
        "invalid": (passed(None, status="invalid"), passed(1)),
        "both": (passed(None, status="invalid"), passed(None, status="invalid")),
        "none": (passed(1), passed(None)),
        "good": (passed(1), passed(1)),
    }
    for key, (one, other) in sides.items():
        base.case(key, [one])
        new.case(key, [other])
    base.case("slow", [passed(1)])
    new.case("slow", status="infra_error")
    base.case("unscored")
    new.case("unscored", [passed(0)])
    comparison = compare([str(base.finish()), str(new.finish("incomplete"))])
    row = only_row(comparison.comparisons[0])
    assert (row.n, row.losses) == (1, 0)
    assert row.left_out == {
        "not_applicable in new": 1,
        "invalid in base": 1,
        "invalid in both": 1,
        "no number in new": 1,
        "infra_error in new": 1,
        "not scored in base": 1,
    }
    assert comparison.notes == ["new: 1 of 7 cases have no answer"]
    assert not comparison.comparisons[0].regressions


@pytest.mark.parametrize("side", ["base", "new"])
def test_a_metric_of_one_side_has_no_row(tmp_path: Path, side: str) -> None:
    """A note names it. A gate on it is undecided, and does not take another metric instead."""
    runs = []
    for name in ("base", "new"):
        run = Made(tmp_path / name)
        for key in "abc":
            further = [passed(1) | {"metric": "recall_at_10"}] if name != side else []
            run.case(key, [passed(1), *further])
        metrics = [Metric(name=name, value=1.0, denominator=3) for name in ("recall_at_10", "passed")]
        runs.append(str(run.finish(report=Report(entries=[Entry(name="m", subject="m", metrics=metrics)]))))
    (comparison,) = compare(runs, by="set").comparisons
    assert [row.metric for row in comparison.rows] == ["passed"]
    assert [row.metric for each in comparison.slices for row in each.rows] == ["passed"]
    assert [row.metric for row in comparison.one_sided_rows] == ["recall_at_10"]
    (note,) = comparison.notes
    assert note.endswith(f"recall_at_10, of which the {side} side has no score")
    (decision,) = gate(runs[1], drop=Drop(runs[0], 0.02)).decisions
    assert (decision.metric, decision.verdict) == ("recall_at_10", "inconclusive")


def test_questions_of_one_conversation_are_one_cluster(tmp_path: Path) -> None:
    """Pairs are made by part; ten questions about one conversation are not ten cases."""
    base, new = Made(tmp_path / "base"), Made(tmp_path / "new")
    for conversation in range(3):
        parts = [f"t01/q{n}" for n in range(10)]
        base.case(f"c{conversation}", [passed(1, part) for part in parts])
        new.case(f"c{conversation}", [passed(part[-1] > "2", part) for part in reversed(parts)])
    comparison = compared(base.finish(), new.finish())
    row = only_row(comparison)
    assert (row.n, row.clusters, row.losses, row.part) == (30, 3, 9, "")
    assert (row.interval_method, row.p_method, row.p) == ("clustered tango", "permutation", 0.25)
    assert row.few_clusters.startswith("too few clusters: 3")
    assert comparison.now_failing.shown[0].part == "t01/q0"
    assert comparison.significant_regressions == [], "three conversations that agree may do so by chance"


def test_filters_have_rows_of_their_own(tmp_path: Path) -> None:
    """Where parts are filters, each is a row; there is no row over all sets then."""
    runs = []
    for name in ("base", "new"):
        run = Made(tmp_path / name)
        run.case("a", [passed(1, "x"), passed(name == "base", "y")])
        run.case("a", [passed(1, "x"), passed(1, "y")], within="other")
        runs.append(run.finish(parts="filters"))
    comparison = compared(*runs)
    assert [(row.set, row.part, row.losses) for row in comparison.rows] == [
        ("set", "x", 0),
        ("set", "y", 1),
        ("other", "x", 0),
        ("other", "y", 0),
    ]


def test_metrics_of_one_part_are_told_apart(tmp_path: Path) -> None:
    """Also which way each is better: of a rate of errors, from 0 to 1 is a loss."""
    report = report_of("wrong", higher_is_better=False)
    runs = []
    for name in ("base", "new"):
        run = Made(tmp_path / name)
        for key in "ab":
            failed = float(name == "new" and key == "a")
            run.case(key, [passed(1, "x"), {"metric": "wrong", "part": "x", "value": failed}])
        runs.append(run.finish(report=report))
    comparison = compared(*runs)
    assert [(row.metric, row.losses, row.higher_is_better) for row in comparison.rows] == [
        ("passed", 0, True),
        ("wrong", 1, False),
    ]
    assert [(flip.metric, flip.new.value) for flip in comparison.now_failing.shown] == [("wrong", 1.0)]
    assert comparison.now_passing.count == 0


def test_a_row_without_pairs_has_no_numbers(tmp_path: Path) -> None:
    """What was left out is still told."""
    base, new = Made(tmp_path / "base"), Made(tmp_path / "new")
    base.case("a", [passed(1)])
    new.case("a", [passed(None, status="invalid")])
    row = only_row(compared(base.finish(), new.finish()))
    assert (row.n, row.base, row.difference, row.verdict) == (0, None, None, "unclear")
    assert row.left_out == {"invalid in new": 1}


def numbers(folder: Path, values: list[float], **metric: Any) -> Path:
    run = Made(folder)
    for at, value in enumerate(values):
        run.case(f"k{at}", [{"metric": "size", "value": value}])
    return run.finish(report=report_of("size", **metric))


@pytest.mark.parametrize(
    ("metric", "verdict", "lost"),
    [
        ({}, "better", 0),
        ({"higher_is_better": True}, "better", 0),
        ({"higher_is_better": False}, "worse", 6),
        ({"higher_is_better": False, "aggregation": "perplexity"}, "better", 0),
    ],
)
def test_the_direction_comes_from_the_report(tmp_path: Path, metric: dict[str, Any], verdict: str, lost: int) -> None:
    """Higher is better where nothing is said; of a perplexity's log-likelihoods, whatever is said."""
    base = numbers(tmp_path / "base", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], **metric)
    new = numbers(tmp_path / "new", [1.5, 2.6, 3.5, 4.4, 5.5, 6.4], **metric)
    comparison = compared(base, new)
    row = only_row(comparison)
    assert (row.verdict, row.losses, row.right_wrong) == (verdict, lost, False)
    assert bool(comparison.regressions) == (verdict == "worse")
    assert comparison.now_failing.count == 0, "numbers do not flip"


@pytest.mark.parametrize(
    ("metric", "is_counted"),
    [
        ({}, True),  # nothing is known of the metric
        ({"interval_method": "wilson"}, True),
        ({"interval_method": "logit t"}, True),
        ({"interval_method": "t"}, False),
        ({"interval_method": "", "stderr": 0.0}, False),
        ({"interval_method": "", "stderr": 0.0, "clusters": 1}, True),
    ],
)
def test_zeros_and_ones_of_another_scale_are_no_right_and_wrong_answers(
    tmp_path: Path, metric: dict[str, Any], is_counted: bool
) -> None:
    """The report tells by the interval of the metric what its values are."""
    base = numbers(tmp_path / "base", [0.0, 1.0, 0.0, 1.0, 0.0, 1.0], **metric)
    new = numbers(tmp_path / "new", [0.0, 1.0, 0.0, 1.0, 1.0, 1.0], **metric)
    comparison = compared(base, new)
    row = only_row(comparison)
    methods = ("tango", "mcnemar") if is_counted else ("paired t", "permutation")
    assert (row.interval_method, row.p_method) == methods
    assert comparison.now_passing.count == int(is_counted)


@pytest.mark.parametrize(
    ("base", "new", "is_counted"),
    [
        ({"interval_method": "", "stderr": 0.0}, {"interval_method": "normal"}, True),
        ({"interval_method": "normal"}, {"interval_method": "", "stderr": 0.0}, True),
        ({"interval_method": "", "stderr": 0.0}, {"interval_method": "t"}, False),
        ({"interval_method": "t"}, {"interval_method": "", "stderr": 0.0}, False),
    ],
)
def test_the_scale_does_not_depend_on_the_order_of_the_runs(
    tmp_path: Path, base: dict[str, Any], new: dict[str, Any], is_counted: bool
) -> None:
    """A run whose values are all equal has no interval; the other one tells."""
    runs = [
        numbers(tmp_path / "base", [1.0] * 6, **base),
        numbers(tmp_path / "new", [0.0, 1.0, 1.0, 1.0, 1.0, 1.0], **new),
    ]
    assert only_row(compared(*runs)).right_wrong is is_counted


def test_equal_numbers_of_another_scale_have_no_interval(tmp_path: Path) -> None:
    runs = [numbers(tmp_path / name, [0.0] * 6, stderr=0.0) for name in ("base", "new")]
    row = only_row(compared(*runs))
    assert (row.difference, row.interval, row.detectable) == (0.0, None, None)


@pytest.mark.parametrize(
    ("entries", "directions"),
    [
        ([("one", "", "", False), ("m", "", "m", True)], {"one": False, "two": True, "": True}),
        ([("x", "two", "", False), ("m", "", "m", True)], {"one": True, "two": False, "": True}),
        ([("other", "", "", False)], {"one": False, "two": False, "": False}),
        ([], {"one": True, "two": True, "": True}),
    ],
)
def test_the_direction_is_that_of_the_set_then_of_the_subject_then_of_any(
    tmp_path: Path, entries: list[tuple[str, str, str, bool]], directions: dict[str, bool]
) -> None:
    """An entry is a task or a subject; a row over all sets has the subject's."""
    report = Report(
        entries=[
            Entry(
                name=name,
                set=set_,
                subject=subject,
                metrics=[Metric(name="passed", value=None, denominator=0, higher_is_better=higher)],
            )
            for name, set_, subject, higher in entries
        ]
    )
    runs = []
    for name in ("base", "new"):
        run = Made(tmp_path / name)
        run.case("a", [passed(1)], within="one")
        run.case("a", [passed(1)], within="two")
        runs.append(run.finish(report=report))
    assert {row.set: row.higher_is_better for row in compared(*runs).rows} == directions


def test_the_side_names_its_judges_and_whether_it_is_a_yardstick(tmp_path: Path) -> None:
    """Judges of the subject's entries; where entries are tasks, of all of them."""
    judge = JudgeInfo(name="j", id="j@1", votes=1, kind="answer", fingerprint="f", metrics=["passed"])
    by_subject = Report(entries=[Entry(name="Oracle", subject="x", reference=True), Entry(name="y", judges=[judge])])
    run = Made(tmp_path / "run")
    for subject in ("x", "y"):
        run.case("a", [passed(1)], subject=subject)
    comparison = compared(run.finish(report=by_subject))
    assert (comparison.base.reference, comparison.base.judges) == (True, [])
    assert (comparison.new.reference, [one.name for one in comparison.new.judges]) == (False, ["j"])
    by_task = Report(entries=[Entry(name="task", judges=[judge]), Entry(name="group", judges=[judge])])
    runs = []
    for name in ("base", "new"):
        run = Made(tmp_path / name)
        run.case("a", [passed(1)])
        runs.append(run.finish(report=by_task))
    assert [one.name for one in compared(*runs).new.judges] == ["j"]


def test_a_flip_shows_the_expected_value(tmp_path: Path) -> None:
    """As the score names it."""
    runs = []
    for name in ("base", "new"):
        run = Made(tmp_path / name)
        run.case("a", [{**passed(name == "base"), "expected": {"answer": 4}}])
        runs.append(run.finish())
    assert compared(*runs).now_failing.shown[0].target == {"answer": 4}


def test_a_drop_that_may_be_chance_is_unclear(tmp_path: Path) -> None:
    """The interval holds 0: no regression, though the mean fell."""
    base = numbers(tmp_path / "base", [1.0, 2.0, 3.0, 4.0])
    comparison = compared(base, numbers(tmp_path / "new", [2.0, 1.0, 1.5, 4.2]))
    assert only_row(comparison).difference == pytest.approx(-0.325)
    assert (only_row(comparison).verdict, comparison.regressions) == ("unclear", [])


def test_subjects_of_one_run(tmp_path: Path) -> None:
    """The first with each other one; or those that are named."""
    run = Made(tmp_path / "run")
    for key in "abc":
        for subject, value in (("plain", True), ("short", key != "a"), ("long", True)):
            run.case(key, [passed(value)], subject=subject)
    folder = run.finish()
    comparison = compare([str(folder)]).comparisons
    assert [(one.base.subject, one.new.subject) for one in comparison] == [
        ("plain", "short"),
        ("plain", "long"),
    ]
    assert [one.now_failing.count for one in comparison] == [1, 0]
    named = compared(f"{folder}@short", f"{folder}@long")
    assert (named.now_passing.count, named.paired) == (1, 3)
    with pytest.raises(UsageError, match="no subject 'brief'; it has 'plain', 'short', 'long'"):
        compare([f"{folder}@brief", str(folder)])


def test_subjects_of_several_runs_are_paired_by_name(tmp_path: Path) -> None:
    """Those of one side only are named; without one in common it is refused."""
    folders = []
    for name, subjects in (("base", "xy"), ("new", "yz"), ("other", "uv")):
        run = Made(tmp_path / name)
        for subject in subjects:
            run.case("a", [passed(1)], subject=subject)
        folders.append(str(run.finish()))
    comparison = compare(folders[:2])
    assert [(one.base.subject, one.new.subject) for one in comparison.comparisons] == [("y", "y")]
    assert comparison.notes == ["only in base: the subjects 'x'", "only in new: the subjects 'z'"]
    with pytest.raises(UsageError, match=r"have no subject in common\. Choose one of each: RUN@SUBJECT"):
        compare([folders[0], folders[2]])


def test_single_subjects_are_compared_whatever_their_names(tmp_path: Path) -> None:
    """Two models on the same task; each NEW with BASE."""
    runs = []
    for name in ("one", "two", "three"):
        run = Made(tmp_path / name, model=name)
        run.case("a", [passed(1)], subject=name)
        runs.append(str(run.finish()))
    comparison = compare(runs).comparisons
    assert [(one.base.model, one.new.model) for one in comparison] == [("one", "two"), ("one", "three")]


def test_time_tokens_and_calls_are_those_of_paired_cases(tmp_path: Path) -> None:
    """A case of one side only costs nothing here."""
    base = run_of(tmp_path / "base", {"a": True, "b": True, "c": True})
    new = Made(tmp_path / "new")
    new.case("a", [passed(1)], seconds=1.0, usage=Usage(5, 2), calls=4)
    new.case("b", [passed(1)], seconds=4.0, calls=1)
    cost = compared(base, new.finish()).cost
    assert (cost["base"].seconds_per_case, cost["base"].calls, cost["base"].input_tokens) == (2.0, 2, 20)
    assert (cost["new"].seconds_per_case, cost["new"].calls, cost["new"].output_tokens) == (2.5, 5, 2)


def test_the_time_of_a_run_that_took_replies_of_another_run_is_not_measured(tmp_path: Path) -> None:
    base = run_of(tmp_path / "base", {"a": True, "b": True})
    new = Made(tmp_path / "new")
    new.case("a", [passed(1)], seconds=0.001, price=0.1, attempts=0)
    new.case("b", [passed(1)], seconds=2.0, price=0.1)
    comparison = compared(base, new.finish())
    assert (comparison.cost["base"].seconds_per_case, comparison.cost["new"].seconds_per_case) == (2.0, None)
    (note,) = comparison.notes
    assert note.startswith("seconds a case of new are not measured: replies were taken from another run")
    assert compared(base, base).cost["new"].seconds_per_case == 2.0


def test_flips_are_shown_up_to_a_number(tmp_path: Path) -> None:
    """All are counted."""
    runs = [run_of(tmp_path / str(value), dict.fromkeys("abcde", value)) for value in (True, False)]
    comparison = compared(*runs, flips=2)
    assert (comparison.now_failing.count, len(comparison.now_failing.shown)) == (5, 2)


def test_an_answer_that_no_score_carries_is_the_last_record(tmp_path: Path) -> None:
    """A suite that keeps nothing beside its values still shows what came back."""
    comparison = compared(run_of(tmp_path / "base", {"k": True}), run_of(tmp_path / "new", {"k": False}))
    assert comparison.now_failing.shown[0].new.answer == "text of k"


def test_runs_without_scores_have_no_rows(tmp_path: Path) -> None:
    """Cases are paired all the same, and their cost is told."""
    runs = []
    for name in ("base", "new"):
        run = Made(tmp_path / name)
        run.case("a", calls=3)
        runs.append(run.finish())
    comparison = compared(*runs)
    assert (comparison.paired, comparison.rows, comparison.cost["new"].calls) == (1, [], 3)


def refused(*runs: Path) -> str:
    with pytest.raises(UsageError) as error:
        compare([str(run) for run in runs])
    return str(error.value)


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    """Another suite, another scorer, no common case, one subject alone: each with its reason."""
    base = run_of(tmp_path / "base", RIGHT)
    assert "is a run of made" in refused(base, run_of(tmp_path / "suite", RIGHT, suite="other"))
    said = refused(base, run_of(tmp_path / "scorer", RIGHT, scorer="suite@2"))
    assert "suite@1" in said
    assert "suite@2" in said
    assert "assay rescore" in said
    assert "no case in common" in refused(base, run_of(tmp_path / "cases", {"z": True}))
    assert "Pass a second run" in refused(base)


@pytest.mark.parametrize("state", ["stopped", "unfinished"])
def test_a_run_that_is_not_finished_is_refused(tmp_path: Path, state: str) -> None:
    """It is named, with how it stands."""
    base = run_of(tmp_path / "base", RIGHT)
    other = Made(tmp_path / "other")
    other.case("a", [passed(1)])
    assert f"other is not finished ({state})" in refused(base, other.finish(state))


def test_a_run_that_is_running_is_refused(tmp_path: Path) -> None:
    """Its numbers would change under the reader."""
    base, other = run_of(tmp_path / "base", RIGHT), run_of(tmp_path / "other", RIGHT)
    lock = lock_folder(other)
    assert "other is not finished (running)" in refused(base, other)
    os.close(lock)


def test_scores_that_name_their_expectations_are_compared_case_by_case(tmp_path: Path) -> None:
    """One more case in a testset changes the scorer's fingerprint, not the other cases' expectations."""
    base, new = Made(tmp_path / "base", scorer="p@1"), Made(tmp_path / "new", scorer="p@2")
    base.case("same", [passed(1, gold="g1")])
    base.case("edited", [passed(1, gold="g2")])
    base.case("unmarked", [passed(1)])
    new.case("same", [passed(0, gold="g1")])
    new.case("edited", [passed(0, gold="g3")])
    new.case("unmarked", [passed(0)])
    new.case("added", [passed(1, gold="g4")])
    base.case("skipped", [passed(1, gold="g5")])
    new.case("skipped", [passed(None, status="not_applicable")])
    row = only_row(compared(base.finish(), new.finish()))
    assert (row.n, row.losses) == (1, 1)
    assert row.left_out == {"judged by other expectations": 2, "not_applicable in new": 1}
    assert "p@1" in refused(tmp_path / "base", run_of(tmp_path / "other", {"same": True}, scorer="q@1"))


def test_a_folder_may_have_an_at_sign(tmp_path: Path) -> None:
    """What is a folder is a run; the subject begins after it."""
    run = Made(tmp_path / "a@b")
    for subject in ("x", "y@1"):
        run.case("k", [passed(1)], subject=subject)
    folder = run.finish()
    assert compared(folder).new.subject == "y@1"
    assert compared(f"{folder}@y@1", f"{folder}@x").base.subject == "y@1"
