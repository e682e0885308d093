"""Gates: which number a requirement names, what its interval decides, and which runs are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import UsageError
from assay.core.judges import Agreement, Calibration, JudgeInfo, Share
from assay.core.report import Entry, Interval, Metric, PairedMetric, Report
from assay.journal.folder import lock_folder
from assay.scoring.metric_builders import proportion_metric
from assay.store.gate import Drop, GateResult, Requirement, decide_drop, decide_level, gate

from support.runs import Made, passed, run_of


def metric(value: float | None, low: float = 0.0, high: float = 1.0, **more: Any) -> Metric:
    fields = {"name": "acc", "denominator": 100, "interval": Interval(low, high), **more}
    return Metric(value=value, **fields)


def run_with(folder: Path, *entries: Entry, state: str = "finished", answered: int = 2) -> Path:
    run = Made(folder)
    for number in range(2):
        run.case(f"k{number}", [passed(1)], status="ok" if number < answered else "infra_error")
    return run.finish(state, report=Report(entries=list(entries)))


def entry(*metrics: Metric, **more: Any) -> Entry:
    return Entry(**{"name": "m", "subject": "m", **more}, metrics=list(metrics))


def verdicts(result: GateResult) -> dict[str, str]:
    return {decision.requirement: decision.verdict for decision in result.decisions}


@pytest.mark.parametrize(
    ("text", "low", "high", "verdict"),
    [
        ("acc >= 0.8", 0.8, 0.9, "pass"),
        ("acc >= 0.8", 0.79, 0.9, "inconclusive"),
        ("acc >= 0.8", 0.7, 0.8, "inconclusive"),
        ("acc >= 0.8", 0.7, 0.79, "fail"),
        ("acc > 0.8", 0.8, 0.9, "inconclusive"),
        ("acc > 0.8", 0.81, 0.9, "pass"),
        ("acc > 0.8", 0.7, 0.8, "fail"),
        ("acc <= 0.2", 0.1, 0.2, "pass"),
        ("acc <= 0.2", 0.1, 0.3, "inconclusive"),
        ("acc <= 0.2", 0.2, 0.3, "inconclusive"),
        ("acc <= 0.2", 0.21, 0.3, "fail"),
        ("acc < 0.2", 0.1, 0.2, "inconclusive"),
        ("acc < 0.2", 0.1, 0.19, "pass"),
        ("acc < 0.2", 0.2, 0.3, "fail"),
    ],
)
def test_the_interval_decides(text: str, low: float, high: float, verdict: str) -> None:
    """All of it on the right side passes, none of it fails, anything else is open."""
    number = metric((low + high) / 2, low, high)
    decision = decide_level(Requirement.parse(text), "acc", number, point=False)
    assert decision.verdict == verdict
    assert decision.requirement == text
    assert decision.reason


def test_point_decides_by_the_value_and_says_so() -> None:
    """Also without an interval, and for a value that equals the threshold."""
    for value, verdict in ((0.8, "pass"), (0.79, "fail")):
        number = metric(value, interval=None)
        decision = decide_level(Requirement.parse("acc >= 0.8"), "acc", number, point=True)
        assert (decision.verdict, "--point" in decision.reason) == (verdict, True)


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (metric(0.9, interval=None), "there is no interval; --point decides by the value alone"),
        (metric(0.9, float("nan"), float("nan")), "there is no interval; --point decides by the value alone"),
        (
            metric(0.9, interval=None, warning="each value is 0 or 1"),
            "there is no interval; --point decides by the value alone; each value is 0 or 1",
        ),
        (metric(None, interval=None, reason="no case was scored"), "not measured: no case was scored"),
        (metric(float("nan")), "not measured"),
    ],
)
def test_a_number_without_interval_or_value_decides_nothing(number: Metric, reason: str) -> None:
    """Not measured is never a 0, so it neither passes nor fails."""
    decision = decide_level(Requirement.parse("acc <= 0.8"), "acc", number, point=False)
    assert (decision.verdict, decision.reason) == ("inconclusive", reason)


@pytest.mark.parametrize("point", [False, True])
def test_what_was_not_measured_is_open_with_point_too(point: bool) -> None:
    """--point needs a value."""
    number = metric(None, interval=None)
    assert decide_level(Requirement.parse("acc <= 1"), "acc", number, point=point).verdict == "inconclusive"


def paired(low: float, high: float, **more: Any) -> PairedMetric:
    middle = (low + high) / 2
    fields = {"set": "", "metric": "acc", "part": "", "higher_is_better": True, "n": 50, **more}
    fields.setdefault("interval", Interval(low, high))
    return PairedMetric(base=0.5, new=0.5 + middle, difference=middle, **fields)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.01, 0.05, "pass"),
        (-0.02, 0.05, "inconclusive"),
        (-0.05, -0.02, "inconclusive"),
        (-0.05, -0.021, "fail"),
    ],
)
def test_a_drop_is_decided_by_the_paired_interval(low: float, high: float, verdict: str) -> None:
    """If lower is better, a rise of the same size is the drop."""
    assert decide_drop(0.02, "acc", paired(low, high), point=False, is_whole=True).verdict == verdict
    falling = paired(-high, -low, higher_is_better=False)
    decision = decide_drop(0.02, "acc", falling, point=False, is_whole=True)
    assert (decision.verdict, decision.requirement) == (verdict, "acc rises by at most 0.02")


@pytest.mark.parametrize(
    "row",
    [
        paired(-0.3, 0.3, ties=50),
        paired(-0.3, 0.3, ties=50, higher_is_better=False),
        paired(-0.3, 0.3, ties=50, few_clusters="too few clusters: 3. An interval is reliable from 5 clusters on"),
        paired(0.0, 0.0, ties=50, interval=None),
    ],
    ids=["wide interval", "lower is better", "few clusters", "no interval"],
)
def test_a_system_with_the_same_value_in_every_pair_passes(row: PairedMetric) -> None:
    """Whatever its interval: that is about other cases. A rise that is asked for is not there."""
    for most in (0.02, 0.0):
        decision = decide_drop(most, "acc", row, point=False, is_whole=True)
        assert (decision.verdict, decision.reason) == ("pass", "no pair differs, and all cases are pairs: 50")
    assert decide_drop(-0.02, "acc", row, point=False, is_whole=True).verdict == "inconclusive"
    row.ties, row.wins, row.losses = 48, 1, 1
    assert decide_drop(0.02, "acc", row, point=False, is_whole=True).verdict == "inconclusive"


def test_point_allows_a_drop_of_exactly_the_limit() -> None:
    """The value decides alone; for a metric that is better when lower, the sign turns."""
    assert decide_drop(0.25, "acc", paired(-0.25, -0.25), point=True, is_whole=True).verdict == "pass"
    assert decide_drop(0.2, "acc", paired(-0.25, -0.25), point=True, is_whole=True).verdict == "fail"
    assert (
        decide_drop(0.2, "acc", paired(0.25, 0.25, higher_is_better=False), point=True, is_whole=True).verdict == "fail"
    )


def test_an_interval_from_too_few_clusters_decides_nothing() -> None:
    """However far it is from the threshold. --point decides."""
    warning = "too few clusters: 3. An interval is reliable from 5 clusters on"
    number = metric(0.9, 0.85, 0.95, few_clusters=True, warning=warning, clusters=3)
    requirement = Requirement.parse("acc >= 0.5")
    decision = decide_level(requirement, "acc", number, point=False)
    assert (decision.verdict, decision.cases_needed) == ("inconclusive", None)
    assert decision.reason == f"{warning}; --point decides by the value alone"
    assert decide_level(requirement, "acc", number, point=True).verdict == "pass"
    row = paired(0.1, 0.2, few_clusters=warning)
    assert decide_drop(0.02, "acc", row, point=False, is_whole=True).verdict == "inconclusive"
    assert decide_drop(0.02, "acc", row, point=True, is_whole=True).verdict == "pass"


@pytest.mark.parametrize(
    ("text", "value", "low", "high", "needed"),
    [
        # The interval reaches 0.1 beyond a threshold that is 0.05 away: half as long needs four times the cases.
        ("acc >= 0.8", 0.85, 0.75, 0.92, 400),
        ("acc >= 0.9", 0.85, 0.75, 0.95, 400),
        ("acc <= 0.8", 0.85, 0.75, 0.92, 400),
        ("acc >= 0.8", 0.81, 0.73, 0.87, 6400),
        ("acc >= 0.8", 0.8, 0.7, 0.9, None),
        ("acc >= 0.8", 0.80001, 0.7, 0.9, None),
    ],
)
def test_an_inconclusive_gate_says_how_many_cases_would_decide(
    text: str, value: float, low: float, high: float, needed: int | None
) -> None:
    """If the value stays the same; close to the threshold, no number of cases does."""
    number = metric(value, low, high, unit="question", clusters=20)
    decision = decide_level(Requirement.parse(text), "acc", number, point=False)
    assert (decision.verdict, decision.cases_needed) == ("inconclusive", needed)
    if needed is None:
        assert decision.reason.endswith("the value is too close to it for any number of questions")
    else:
        clusters = needed // 5
        assert decision.reason.endswith(
            f"if the value stays the same, about {needed:,} questions in {clusters:,} clusters would decide"
        )


def test_an_inconclusive_drop_says_how_many_pairs_would_decide() -> None:
    decision = decide_drop(0.02, "acc", paired(-0.05, 0.05), point=False, is_whole=True)
    assert decision.reason == ("the interval contains -0.02; if the value stays the same, about 320 pairs would decide")


def test_a_run_with_so_many_cases_is_decided() -> None:
    """85 of 100 against 0.8."""
    few, many = (
        decide_level(
            Requirement.parse("acc >= 0.8"),
            "acc",
            proportion_metric("acc", 0.85 * count, count),
            point=False,
        )
        for count in (100, 280)
    )
    assert (few.verdict, few.cases_needed, many.verdict) == ("inconclusive", 280, "pass")


@pytest.mark.parametrize(
    "text", ["acc", "acc = 0.8", ">= 0.8", "acc >=", "acc >= high", "acc >= nan", "acc >= inf", ""]
)
def test_a_requirement_that_cannot_be_read_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="such as 'exact_match >= 0.8'"):
        Requirement.parse(text)


@pytest.mark.parametrize(
    ("text", "meant"), [("acc => 0.8", "acc >= 0.8"), ("acc=>0.8", "acc >= 0.8"), ("acc =< 1", "acc <= 1")]
)
def test_a_turned_operator_is_refused_with_the_right_one(text: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"Did you mean '{meant}'"):
        Requirement.parse(text)


def test_a_requirement_holds_for_every_metric_that_its_name_fits(tmp_path: Path) -> None:
    """Set, filter and subject choose among them; fail beats inconclusive beats pass."""
    open_, bad = metric(0.8, 0.7, 0.9), metric(0.5, 0.4, 0.6)
    strict, loose = (metric(0.9, 0.85, 0.95, filter=name) for name in ("strict", "loose"))
    run = run_with(
        tmp_path / "run",
        Entry(name="maths", metrics=[strict, loose]),
        Entry(name="words", metrics=[open_]),
        Entry(name="worse", metrics=[bad]),
    )
    result = gate(str(run), ["acc >= 0.8"])
    assert verdicts(result) == {
        "maths acc,strict >= 0.8": "pass",
        "maths acc,loose >= 0.8": "pass",
        "words acc >= 0.8": "inconclusive",
        "worse acc >= 0.8": "fail",
    }
    assert (result.verdict, result.exit_code) == ("fail", 1)
    assert (gate(str(run), ["maths acc >= 0.8"]).verdict, gate(str(run), ["acc,loose >= 0.8"]).exit_code) == (
        "pass",
        0,
    )
    both = gate(str(run), ["maths  acc,strict >= 0.8", "words acc >= 0.8"])
    assert (both.verdict, both.exit_code) == ("inconclusive", 4)


def test_subjects_are_named_after_an_at(tmp_path: Path) -> None:
    """A reference such as an oracle counts only by its own name; a label is a name too."""
    number = metric(0.9, 0.85, 0.95, label="right")
    run = run_with(
        tmp_path / "run",
        entry(number, name="a", subject="a"),
        entry(number, name="b@2", subject="b@2"),
        entry(number, name="oracle", subject="oracle", reference=True),
    )
    assert list(verdicts(gate(str(run), ["right >= 0.8"]))) == ["acc@a >= 0.8", "acc@b@2 >= 0.8"]
    assert list(verdicts(gate(str(run), ["acc@b@2 >= 0.8"]))) == ["acc@b@2 >= 0.8"]
    assert list(verdicts(gate(str(run), ["acc@oracle >= 0.8"]))) == ["acc@oracle >= 0.8"]
    assert list(verdicts(gate(f"{run}@a", ["acc >= 0.8"]))) == ["acc@a >= 0.8"]
    with pytest.raises(UsageError, match="no subject named 'c'"):
        gate(f"{run}@c", ["acc >= 0.8"])


def test_an_unknown_metric_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run", entry(metric(0.9)))
    with pytest.raises(UsageError, match="no metric named 'ac'; did you mean 'acc'"):
        gate(str(run), ["ac >= 0.8"])
    with pytest.raises(UsageError, match="has no metrics"):
        gate(str(run_with(tmp_path / "empty", entry())), ["acc >= 0.8"])
    with pytest.raises(UsageError, match="name a requirement"):
        gate(str(run))


def test_unfinished_runs_are_refused(tmp_path: Path) -> None:
    """Stopped, killed and running: their numbers would still change."""
    stopped = run_with(tmp_path / "stopped", entry(metric(0.9)), state="stopped")
    with pytest.raises(UsageError, match=r"stopped is not finished \(stopped\)"):
        gate(str(stopped), ["acc >= 0"])
    running = run_with(tmp_path / "running", entry(metric(0.9)))
    lock_folder(running)
    with pytest.raises(UsageError, match=r"not finished \(running\)"):
        gate(str(running), ["acc >= 0"])
    killed = run_with(tmp_path / "killed", entry(metric(0.9)))
    (killed / "summary.json").unlink()
    with pytest.raises(UsageError, match=r"not finished \(unfinished\)"):
        gate(str(killed), ["acc >= 0"])


def test_an_incomplete_run_is_inconclusive_unless_told_otherwise(tmp_path: Path) -> None:
    """The reason has the number of missing cases, even if the interval would decide."""
    run = run_with(tmp_path / "run", entry(metric(0.9, 0.85, 0.95)), state="incomplete", answered=1)
    (decision,) = gate(str(run), ["acc >= 0.8"]).decisions
    assert decision.verdict == "inconclusive"
    assert decision.reason.startswith("run is incomplete: 1 of 2 cases have no answer")
    result = gate(str(run), ["acc >= 0.8"], allow_missing=True)
    assert (result.verdict, result.notes) == ("pass", ["run is incomplete: 1 of 2 cases have no answer"])


def many(folder: Path, right: int, of: int = 400) -> Path:
    return run_of(folder, {f"k{number}": number < right for number in range(of)})


def test_against_decides_on_the_cases_that_both_have(tmp_path: Path) -> None:
    """Pass, fail and inconclusive with the same limit; the first metric of the report is compared."""
    base = many(tmp_path / "base", 300)
    expected = {300: "pass", 295: "inconclusive", 250: "fail"}
    for right, verdict in expected.items():
        run = many(tmp_path / f"new{right}", right)
        result = gate(str(run), drop=Drop(str(base), 0.02))
        (decision,) = result.decisions
        assert decision.verdict == verdict, right
        assert (decision.base, decision.new, decision.denominator) == (0.75, right / 400, 400)
        assert result.against == str(base)


def test_a_drop_can_name_its_metrics(tmp_path: Path) -> None:
    """As `assay compare` names them, or by their titles in the report; without a set, the row over all sets."""
    runs = []
    for name in ("base", "new"):
        run = Made(tmp_path / name)
        for number in range(20):
            for set_name in ("one", "two"):
                scores = [passed(1), {"metric": "size", "value": 1.0}]
                run.case(f"{set_name}{number}", scores, within=set_name)
        report = Report(entries=[entry(metric(1.0, name="size", label="length of the answer"))])
        runs.append(str(run.finish(report=report)))
    base, new = runs
    names = list(verdicts(gate(new, drop=Drop(base, 0.5, ["length of the answer"]))))
    assert names == ["size drops by at most 0.5"]
    names = list(verdicts(gate(new, drop=Drop(base, 0.5, ["passed"]))))
    assert names == ["passed drops by at most 0.5"]
    names = list(verdicts(gate(new, drop=Drop(base, 0.5, ["two passed", "size"]))))
    assert names == ["two passed drops by at most 0.5", "size drops by at most 0.5"]
    with pytest.raises(UsageError, match="no metric named 'sise'; did you mean 'size'"):
        gate(new, drop=Drop(base, 0.5, ["sise"]))


def test_a_base_run_that_is_incomplete_leaves_the_gate_open(tmp_path: Path) -> None:
    base = run_with(tmp_path / "base", entry(metric(0.9)), state="incomplete", answered=1)
    new = run_with(tmp_path / "new", entry(metric(0.9)))
    (decision,) = gate(str(new), drop=Drop(str(base), 0.5)).decisions
    assert decision.reason.startswith("base is incomplete: 1 of 2 cases have no answer")


def calibrated(kappa: float) -> Calibration:
    none = Share(0, 1)
    overall = Agreement(
        n=50,
        invalid=0,
        positives=20,
        base_rate=0.4,
        accuracy=0.9,
        balanced_accuracy=0.9,
        kappa=kappa,
        interval=None,
        interval_method="",
        clusters=50,
        auc=None,
        false_accepts=none,
        false_rejects=none,
    )
    return Calibration(
        judge="j",
        kind="answer",
        fingerprint="f",
        votes=1,
        labels="l.jsonl",
        labels_sha256="",
        overall=overall,
    )


@pytest.mark.parametrize("decides", ["acc", "a score that is no metric of the report"])
def test_a_judge_below_the_floor_may_not_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decides: str) -> None:
    """Refused with the command that calibrates it; another metric of the run needs no judge."""
    monkeypatch.setenv("ASSAY_DATA", str(tmp_path / "data"))
    judge = JudgeInfo(name="j", id="j@1", votes=1, kind="answer", fingerprint="f", metrics=[decides])
    number = metric(0.9, 0.85, 0.95)
    run = run_with(tmp_path / "run", entry(number, judges=[judge]))
    with pytest.raises(UsageError, match="not calibrated.*assay judge calibrate --judge j"):
        gate(str(run), ["acc >= 0.8"], min_kappa=0.7)
    assert gate(str(run), ["acc >= 0.8"]).judges
    for kappa, refused in ((0.6, True), (0.8, False)):
        good = JudgeInfo(
            name="j",
            id="j@1",
            votes=1,
            kind="answer",
            fingerprint="f",
            metrics=[decides],
            calibration=calibrated(kappa),
        )
        run = run_with(tmp_path / f"run{kappa}", entry(number, judges=[good]))
        if refused:
            with pytest.raises(UsageError, match="requires at least 0.7"):
                gate(str(run), ["acc >= 0.8"], min_kappa=0.7)
        else:
            assert gate(str(run), ["acc >= 0.8"], min_kappa=0.7).verdict == "pass"


def test_a_metric_without_a_judge_needs_no_calibration(tmp_path: Path) -> None:
    judge = JudgeInfo(name="j", id="j@1", votes=1, kind="answer", fingerprint="f", metrics=["judged"])
    numbers = [metric(0.9, 0.85, 0.95), metric(0.9, 0.85, 0.95, name="judged")]
    run = run_with(tmp_path / "run", entry(*numbers, judges=[judge]))
    assert gate(str(run), ["acc >= 0.8"], min_kappa=0.7).verdict == "pass"
    with pytest.raises(UsageError, match="judged cannot decide here"):
        gate(str(run), ["judged >= 0.8"], min_kappa=0.7)


def test_equal_pairs_beside_cases_without_a_partner_pass_only_by_their_interval() -> None:
    """One equal pair says nothing about 39 other cases."""
    row = paired(-0.3, 0.3, ties=50)
    assert decide_drop(0.02, "acc", row, point=False, is_whole=False).verdict == "inconclusive"
