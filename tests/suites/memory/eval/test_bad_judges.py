"""Whole evaluations with failing judges: invalid verdicts are counted and change no other figure."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.scoring.questions import KINDS, AnswerQuestion, JudgeQuestion, RecallQuestion, Verdict

from servers.judging import FORGIVEN, SPOILED, JudgingServer
from support.commands import typed
from support.judged_samples import JudgedSamples, reply, stage_two
from support.memory_samples import aggregate_of, entry_of, lines, sample

UNREADABLE = [how for how in SPOILED if how not in FORGIVEN]
OF_KIND = {
    "recall": {"recall", "update_recall"},
    "correctness": {"correctness", "hallucination"},
    "update": {"update"},
    "interference": {"interference"},
    "answer": {"answer", "answer_hallucination", "answer_omission"},
    "evidence": {"evidence", "evidence_mean", "retrieved_evidence"},
}
Spoil = Callable[[JudgeQuestion, int], str]


def mixed(matter: JudgeQuestion) -> Verdict:
    """Return pseudo-random labels that are equal for equal questions, so that few figures are 0 or 1."""
    labels = matter.labels
    hashes = [zlib.crc32(f"{number} {matter!r}".encode()) for number in range(matter.count)]
    return Verdict(tuple(labels[each % len(labels)] for each in hashes), "so it is")


def unspoiled(_matter: JudgeQuestion, _attempt: int) -> str:
    return ""


def evaluated(folder: Path, spoil: Spoil = unspoiled, **options: Any) -> tuple[assay.Run, JudgedSamples]:
    """A run over two samples with pseudo-random verdicts."""
    with JudgingServer(mixed, spoil, reply) as server:
        judged_samples = JudgedSamples(folder, server, sample("one", 3), sample("two", 2))
        return judged_samples.run(**options), judged_samples


def figures(run: assay.Run) -> dict[str, Any]:
    """Return value, numerator, denominator and interval of every metric."""
    return {
        metric.name: [
            metric.value,
            metric.numerator,
            metric.denominator,
            metric.interval,
            metric.beside.get("pooled"),
        ]
        for metric in entry_of(run).metrics
    }


def of(run: assay.Run, key: str) -> dict[str, Any]:
    return {metric.name: getattr(metric, key) for metric in entry_of(run).metrics}


def invalid(run: assay.Run) -> dict[str, int]:
    return {metric.name: metric.left_out.get("invalid", 0) for metric in entry_of(run).metrics}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[assay.Run, JudgedSamples]:
    return evaluated(tmp_path_factory.mktemp("whole") / "samples")


@pytest.fixture(scope="module")
def first_alone(tmp_path_factory: pytest.TempPathFactory) -> assay.Run:
    return evaluated(tmp_path_factory.mktemp("first") / "samples", sample_id=["one"])[0]


def test_the_undisturbed_run_has_varied_figures(undisturbed: tuple[assay.Run, JudgedSamples]) -> None:
    """Most figures are neither 0 nor 1, and nothing is invalid."""
    run, judged_samples = undisturbed
    between = [value for value in of(run, "value").values() if 0 < value < 1]
    assert len(between) >= 8
    assert set(invalid(run).values()) == {0}
    assert {matter.kind for matter in judged_samples.server.questions} == set(KINDS)


@pytest.mark.parametrize("how", FORGIVEN)
def test_readable_replies_in_another_form_count(
    tmp_path: Path, undisturbed: tuple[assay.Run, JudgedSamples], how: str
) -> None:
    """Code fences, surrounding text and trailing commas are accepted without another request."""
    run, judged_samples = evaluated(tmp_path / "samples", lambda _matter, _attempt: how)
    assert stage_two(judged_samples.out) == stage_two(undisturbed[1].out)
    assert judged_samples.calls() == undisturbed[1].calls()
    assert run.exit_code == 0


@pytest.mark.parametrize("how", UNREADABLE)
def test_a_second_reply_mends_a_bad_one(tmp_path: Path, undisturbed: tuple[assay.Run, JudgedSamples], how: str) -> None:
    """Every question is asked twice, and the files equal those of an undisturbed run."""
    _, judged_samples = evaluated(tmp_path / "samples", lambda _matter, attempt: how if attempt == 1 else "")
    assert stage_two(judged_samples.out) == stage_two(undisturbed[1].out)
    assert judged_samples.calls()["judge-a"] == 2 * undisturbed[1].calls()["judge-a"]


@pytest.mark.parametrize("how", UNREADABLE)
def test_unreadable_verdicts_leave_the_denominator(
    tmp_path: Path, undisturbed: tuple[assay.Run, JudgedSamples], first_alone: assay.Run, how: str
) -> None:
    """All verdicts of one sample are unreadable: figures are those of the other sample, and invalid ones are counted."""
    run, judged_samples = evaluated(tmp_path / "samples", lambda matter, _: how if " two " in repr(matter) else "")
    whole = undisturbed[0]
    assert run.exit_code == 4
    spoiled = {matter for matter in judged_samples.server.questions if " two " in repr(matter)}
    assert entry_of(run).invalid_verdicts == len(spoiled), "each once, whatever is computed from it"
    assert run.summary.exit_reason == f"Undecided: {len(spoiled)} verdicts of the judge cannot be used"
    assert figures(run) | {"f1": 0, "bleu1": 0} == figures(first_alone) | {"f1": 0, "bleu1": 0}
    assert {name: figures(run)[name] for name in ("f1", "bleu1")} == {
        name: figures(whole)[name] for name in ("f1", "bleu1")
    }
    for name, beside in of(run, "beside").items():
        over_all = beside["over_all"]
        assert over_all.denominator == of(whole, "denominator")[name]
        assert over_all.value == pytest.approx(of(run, "numerator")[name] / over_all.denominator)
    assert invalid(run) == {
        name: 0 if name in ("f1", "bleu1") else of(whole, "denominator")[name] - number
        for name, number in of(first_alone, "denominator").items()
    }
    expected = aggregate_of(first_alone)
    for section, numbers in aggregate_of(whole).items():
        if "num_total" in numbers:
            expected[section]["num_total"] = numbers["num_total"]
    assert aggregate_of(run) == expected, "every num_total counts what the judge was asked about"
    assert aggregate_of(run)["question_answering"]["num_valid"] == 3
    nulls(judged_samples)


def nulls(judged_samples: JudgedSamples) -> None:
    """Assert that the records of the second sample have null and a reason, no label and no 0."""
    sessions, questions = (
        [row["eval"] for row in lines(judged_samples.out / f"{name}_records.jsonl") if row["sample_id"] == "two"]
        for name in ("session", "qa")
    )
    for evaluation in questions:
        assert (evaluation["answer_label"], evaluation["answer_is_valid"]) == (None, False)
        assert (evaluation["evidence_hit_rate"], evaluation["num_evidence"]) == (None, 1)
        assert evaluation["answer_reasoning"].startswith("no verdict: ")
    for evaluation in sessions:
        assert {evaluation[name] for name in ("recall", "update_recall", "correctness_rate")} == {None}
        assert {evaluation[name] for name in ("update_score", "interference_score")} == {None}
        assert [record["label"] for record in evaluation["interference_records"]] == [None]
        for kind in ("interference", "update"):
            # 0 items were judged only where there is none.
            assert evaluation[f"{kind}_total_items"] == (None if evaluation[f"{kind}_records"] else 0)
        assert {record["label"] for record in evaluation["correctness_records"]} == {None}


@pytest.mark.parametrize("kind", KINDS)
def test_failing_verdicts_of_one_kind_leave_the_other_kinds(
    tmp_path: Path, undisturbed: tuple[assay.Run, JudgedSamples], kind: str
) -> None:
    """Only the metrics of the failing kind are invalid. All other figures are unchanged."""
    run, _ = evaluated(tmp_path / "samples", lambda matter, _: "prose" if matter.kind == kind else "")
    whole = undisturbed[0]
    for name, figure in figures(run).items():
        if name in OF_KIND[kind]:
            assert figure[:3] == [None, 0, 0]
            assert invalid(run)[name] == of(whole, "beside")[name]["over_all"].denominator
        else:
            assert figure == figures(whole)[name]


def test_a_rate_limited_judge_is_asked_by_the_next_start(
    tmp_path: Path, first_alone: assay.Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """429 beyond all retries is not an invalid verdict: exit code 3, and the same command asks for the rest."""
    busy = True

    def spoil(matter: JudgeQuestion, _attempt: int) -> str:
        return "429" if busy and " two " in repr(matter) else ""

    with JudgingServer(mixed, spoil, reply) as server:
        judged_samples = JudgedSamples(tmp_path / "samples", server, sample("one", 3), sample("two", 2))
        run = judged_samples.run(max_retries=0)
        assert (run.exit_code, run.summary.state, run.summary.unscored) == (3, "incomplete", 1)
        assert set(invalid(run).values()) == {0}
        judged = figures(run) | {"f1": 0, "bleu1": 0}
        assert judged == figures(first_alone) | {"f1": 0, "bleu1": 0}
        assert typed("show", str(judged_samples.out)) == 0
        assert "1 case could not be judged; it will be judged again" in capsys.readouterr().err
        busy = False
        received = Counter(judged_samples.said_to("judge-a"))
        assert judged_samples.run().exit_code == 0
        again = Counter(judged_samples.said_to("judge-a")) - received
        assert all(" two " in prompt for prompt in again)
        assert max(Counter(judged_samples.said_to("subject")).values()) == 1


class Wavering:
    """Return another label in every third vote about some questions."""

    def __init__(self) -> None:
        self._votes: Counter[JudgeQuestion] = Counter()

    def __call__(self, matter: JudgeQuestion) -> Verdict:
        verdict = mixed(matter)
        self._votes[matter] += 1
        if self._votes[matter] != 3 or matter not in self:
            return verdict
        other = [label for label in matter.labels if label != verdict.labels[0]]
        return Verdict((other[0], *verdict.labels[1:]), "on second thoughts")

    def __contains__(self, matter: JudgeQuestion) -> bool:
        return isinstance(matter, AnswerQuestion | RecallQuestion) and "pet1x1" in repr(matter)


def flaky(run: assay.Run) -> dict[str, tuple[Any, Any]]:
    """Return the votes table: verdicts with several votes and disagreements, by score."""
    tables = [table for table in entry_of(run).tables if table.name == "votes"]
    return {str(name): (count, differ) for table in tables for name, count, differ in table.rows}


def test_votes_that_disagree_are_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The majority wins, so no figure changes. Scores, summary and `assay show` mark the disagreement."""
    one = sample("one", 2)
    del one["qa_checkpoints"][0]["questions"][0]["evidence"]
    with JudgingServer(Wavering(), other=reply) as server:
        judged_samples = JudgedSamples(tmp_path / "samples", server, one)
        single = judged_samples.run()
        calls = judged_samples.calls()["judge-a"]
        run = judged_samples.run(votes=3, output_dir=f"{tmp_path}/votes")
        assert judged_samples.calls()["judge-a"] == 4 * calls
    assert figures(run) == figures(single)
    assert flaky(single) == {}
    assert {name for name, (_, differ) in flaky(run).items() if differ} == {
        "question answering",
        "memory recall",
    }
    assert flaky(run)["question answering"] == (2, 1)
    assert typed("show", f"{tmp_path}/votes", "one") == 0
    output = capsys.readouterr().out.splitlines()
    marked = [line.split()[0] for line in output if "(flaky)" in line]
    assert marked == ["S01", "probe_1/1"]


def test_a_bad_vote_among_good_ones_is_asked_again(
    tmp_path: Path, undisturbed: tuple[assay.Run, JudgedSamples]
) -> None:
    """Every question costs one more call, and all three votes count."""
    run, judged_samples = evaluated(tmp_path / "samples", lambda _, attempt: "half" if attempt == 2 else "", votes=3)
    assert figures(run) == figures(undisturbed[0])
    assert judged_samples.calls()["judge-a"] == 4 * undisturbed[1].calls()["judge-a"]
    (path,) = judged_samples.out.glob("assay/*/scores.jsonl")
    scores = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    votes = [score["data"]["votes"] for score in scores if "votes" in (score.get("data") or {})]
    assert {len(each) for each in votes} == {3}


def test_show_failed_has_the_reason_of_every_invalid_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line for the scores that are computed from one verdict."""
    _, judged_samples = evaluated(tmp_path / "samples", lambda matter, _: "prose" if " two " in repr(matter) else "")
    assert typed("show", str(judged_samples.out), "--failed") == 0
    rows = capsys.readouterr().out.partition("invalid scores")[2].splitlines()[3:]
    assert all("no verdict: " in row for row in rows)
    known = {" ".join(row.partition("no verdict: ")[0].split()) for row in rows}
    assert {"1 S01 recall", "1 S01 correctness, hallucination", "1 S02 recall, update_recall"} <= known
