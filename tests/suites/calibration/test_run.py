"""Calibrations as runs: numbers, files, calls of the judge, and the stored calibration."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import InputError, UsageError
from assay.core.judges import RUBRIC, Calibration, Share
from assay.runner.rescore import rescore
from assay.scoring.judge import Judge
from assay.scoring.judges.rubric import RubricJudge
from assay.scoring.questions import (
    CORRECT,
    HALLUCINATION,
    MEMORIZED,
    REJECTED,
    AnswerQuestion,
    InterferenceQuestion,
    Verdict,
)
from assay.store.calibrations import calibration_folder, find_calibration
from assay.suites.calibration.suite import confidence

from servers.judging import JudgingServer, always, by_words
from servers.loopback import LoopbackServer, chat
from support.labels import answer, even, text, write

JUDGE = "openai/judge"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, and no judge in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_MODEL", "JUDGE_MODEL", "OPENAI_MODEL_JUDGE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    """A judge of rubrics."""
    with LoopbackServer(even) as running:
        yield running


def calibrate(rows: list[dict[str, Any]], **options: Any) -> assay.Run:
    """A run over these rows."""
    labels = write(Path("labels.jsonl"), rows)
    return assay.run(assay.spec("calibration", labels=labels, output_dir="out", **options))


def found_in(run: assay.Run) -> Calibration:
    """Return the judge in the run's report."""
    assert run.report is not None
    (judge,) = run.report.judges()
    assert judge.calibration is not None
    return judge.calibration


def test_the_offline_judge_makes_no_calls() -> None:
    """Every number is in the results and in calibration.json, and the judge is calibrated afterwards."""
    rows = [answer(n, right=n < 6, category=str(n % 2), sample_id=f"c{n % 4}") for n in range(10)]
    rows += [answer(10, right=True, label="Omission"), answer(11, right=False, label=[1, 1, 0])]
    run = calibrate(rows)
    result = found_in(run)
    assert (run.exit_code, run.summary.spent.calls) == (0, 0)
    assert (result.judge, result.kind, result.labels, result.overall.n) == (
        "offline",
        "answer",
        "labels.jsonl",
        12,
    )
    assert (result.overall.false_accepts, result.overall.false_rejects) == (Share(1, 5), Share(1, 7))
    assert {name: one.n for name, one in result.categories.items()} == {"0": 5, "1": 5}
    assert result.overall.clusters == 6
    assert result.among_votes is not None
    assert (result.among_votes.rows, result.among_votes.unanimous) == (1, 0)
    assert json.loads((run.folder / "calibration.json").read_text())["overall"]["n"] == 12
    assert find_calibration("offline", Judge("offline").fingerprint("answer")) == result


def test_disagreements_are_shown_with_the_judges_reason() -> None:
    """Only these rows, with their places."""
    run = calibrate([answer(1, right=True), answer(2, right=True, label=False), answer(3, right=False)])
    (disagreement,) = [json.loads(line) for line in (run.folder / "disagreements.jsonl").read_text().splitlines()]
    assert (disagreement["place"], disagreement["what"], disagreement["judge"]) == (
        "labels.jsonl:2",
        "false accept",
        CORRECT,
    )
    assert (disagreement["label"], disagreement["response"]) == (False, "boat number 2")
    assert disagreement["reason"]


def test_each_row_is_judged_once(server: LoopbackServer) -> None:
    """Stopped, continued, repeated, and with edited labels."""
    rows = [text(n, label=n % 2 == 0) for n in range(8)]
    options = {"judge": JUDGE, "base_url": server.url, "concurrency": 1}
    stopped = calibrate(rows, max_calls=3, **options)
    assert (stopped.exit_code, len(server.bodies)) == (3, 3)
    assert find_calibration(JUDGE, RubricJudge().fingerprint, RUBRIC) is None
    ended = calibrate(rows, **options)
    assert (ended.exit_code, found_in(ended).overall.kappa, len(server.bodies)) == (0, 1.0, 8)
    assert calibrate(rows, **options).asked is False
    rows[0] = text(0, label=False)
    edited = calibrate(rows, **options)
    assert edited.folder == ended.folder
    assert found_in(edited).overall.false_accepts == Share(1, 5)
    assert len(server.bodies) == 8
    remembered = find_calibration(JUDGE, RubricJudge().fingerprint, RUBRIC)
    assert remembered == found_in(edited)


def test_labels_of_several_people_on_one_text_count_separately(server: LoopbackServer) -> None:
    """Only rows that are equal in every field count once."""
    rows = [text(2, label=True), text(2, label=False), text(2, label=True) | {"person": "Bo"}]
    assert found_in(calibrate(rows, judge=JUDGE, base_url=server.url)).overall.false_accepts == Share(1, 1)
    assert len(server.bodies) == 3


def test_labels_never_reach_the_judge(server: LoopbackServer) -> None:
    """Neither do the category and the votes."""
    rows = [text(n, label=True) | {"label": ["Correct", "Correct"], "category": "zebra"} for n in (2, 4)]
    calibrate(rows, judge=JUDGE, base_url=server.url)
    requests = json.dumps(server.bodies)
    assert len(server.bodies) == 2
    assert "zebra" not in requests
    assert "Correct" not in requests


def test_a_verdict_that_cannot_be_read_is_invalid(server: LoopbackServer) -> None:
    """It is counted, in no other number, and among the disagreements."""
    run = calibrate([text(n, label=n != 1) for n in (1, 2, 13)], judge=JUDGE, base_url=server.url)
    result = found_in(run)
    assert (result.overall.n, result.overall.invalid, result.overall.kappa) == (2, 1, 1.0)
    assert '"what":"invalid"' in (run.folder / "disagreements.jsonl").read_text()
    assert run.exit_code == 0


def test_a_calibration_with_unjudged_rows_is_not_stored() -> None:
    """The rows are counted; the same command judges them again."""

    def failing(body: dict[str, Any]) -> tuple[int, Any]:
        return (400, {"error": {"message": "no"}}) if "number 4" in str(body) else even(body)

    with LoopbackServer(failing) as server:
        run = calibrate([text(n, label=n % 2 == 0) for n in range(6)], judge=JUDGE, base_url=server.url)
    assert (run.exit_code, run.summary.unscored) == (3, 1)
    assert found_in(run).left_out == {"not judged": 1}
    assert find_calibration(JUDGE, RubricJudge().fingerprint, RUBRIC) is None


def test_a_limited_calibration_is_not_stored() -> None:
    """It covers only some rows, and a notice says so."""
    run = calibrate([answer(n, right=n % 2 == 0) for n in range(6)], limit=2)
    assert (found_in(run).overall.n, found_in(run).left_out) == (2, {"beyond --limit": 4})
    assert find_calibration("offline", Judge("offline").fingerprint("answer")) != found_in(run)


def test_cluster_selects_rows() -> None:
    """The other rows are counted; an unknown cluster is an error."""
    rows = [answer(n, right=n % 2 == 0, sample_id=f"c{n % 3}") for n in range(9)]
    result = found_in(calibrate(rows, cluster=["c0,c2"]))
    assert (result.overall.n, result.overall.clusters, result.left_out) == (6, 2, {"of other clusters": 3})
    assert find_calibration("offline", Judge("offline").fingerprint("answer")) == result
    with pytest.raises(UsageError, match="no cluster named 'c4'"):
        calibrate(rows, cluster=["c4"])


@pytest.mark.parametrize(("floor", "code"), [(None, 0), (0.6, 0), (0.7, 1)])
def test_min_kappa_decides_the_exit_code(floor: float | None, code: int) -> None:
    """Also of a finished run, without a call."""
    rows = [answer(n, right=n < 5) for n in range(9)] + [answer(9, right=True, label=False)]
    rows += [answer(10, right=True, label=False)]
    calibrate(rows)
    run = calibrate(rows, min_kappa=floor)
    kappa = found_in(run).overall.kappa
    assert kappa is not None
    assert 0.6 < kappa < 0.7
    assert run.exit_code == code


def test_an_undefined_kappa_is_below_every_minimum() -> None:
    """If all labels are the same."""
    assert calibrate([answer(n, right=True) for n in range(3)], min_kappa=-1.0).exit_code == 1


def test_bad_files_are_refused_before_anything_is_written(server: LoopbackServer) -> None:
    """And before the first call."""
    with pytest.raises(InputError, match=r"labels\.jsonl:2 \$\.label"):
        calibrate([text(1, label=True), text(2, label=True) | {"label": "?"}], judge=JUDGE, base_url=server.url)
    assert not Path("out").exists()
    assert server.bodies == []


def test_rubrics_need_a_model() -> None:
    """The judge is called once, as in pipelines."""
    with pytest.raises(UsageError, match="pass one with --judge"):
        calibrate([text(1, label=True)])
    with pytest.raises(UsageError, match="--votes"):
        calibrate([text(1, label=True)], judge=JUDGE, votes=3, base_url="http://127.0.0.1:9/v1")
    with pytest.raises(UsageError, match="--labels FILE"):
        assay.run(assay.spec("calibration"))


def test_confidence_is_the_share_of_votes() -> None:
    """Of votes for Correct; without votes the judge's own measure, else None."""
    votes = ((HALLUCINATION,), (CORRECT,), (HALLUCINATION,))
    question = AnswerQuestion("q", "r", "a")
    assert confidence(question, Verdict((HALLUCINATION,), sure=(2 / 3,), votes=votes)) == pytest.approx(1 / 3)
    assert confidence(question, Verdict((CORRECT,), sure=(0.7,))) == 0.7
    assert confidence(question, Verdict((CORRECT,))) is None
    # The measure of `offline` for interference grows with what was memorized.
    interference = InterferenceQuestion("c", ("m",))
    assert confidence(interference, Verdict((REJECTED,), sure=(0.1,))) is None
    assert confidence(interference, Verdict((REJECTED,), votes=((REJECTED,), (MEMORIZED,)))) == 0.5


def test_a_model_judges_answers_by_votes() -> None:
    """Another number of votes is another judge in the same run, and is called."""

    def correct(body: dict[str, Any]) -> tuple[int, Any]:
        right = "no idea at all" not in json.dumps(body["messages"])
        return 200, chat(json.dumps({"reasoning": "r", "label": CORRECT if right else HALLUCINATION}))

    rows = [answer(n, right=n < 3) for n in range(6)]
    with LoopbackServer(correct) as server:
        one = calibrate(rows, judge="judge", base_url=server.url)
        assert (found_in(one).overall.kappa, len(server.bodies)) == (1.0, 6)
        three = calibrate(rows, judge="judge", base_url=server.url, votes=3)
        assert len(server.bodies) == 6 + 18
    assert three.folder == one.folder
    assert (found_in(three).judge, found_in(three).votes, found_in(three).overall.auc) == (JUDGE, 3, 1.0)
    assert found_in(three).fingerprint != found_in(one).fingerprint


def test_another_endpoint_of_the_judge_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verdicts of one server are not reused for another."""
    rows = [answer(n, right=n < 3) for n in range(6)]
    kappas = []
    for judge in (by_words, always(HALLUCINATION)):
        with JudgingServer(judge) as own:
            monkeypatch.setenv("OPENAI_BASE_URL_JUDGE", own.url)
            run = calibrate(rows, judge=JUDGE)
            assert len(own.bodies) == 6
            assert calibrate(rows, judge=JUDGE).folder == run.folder
            assert len(own.bodies) == 6
        kappas.append(found_in(run).overall.kappa)
    assert kappas == [1.0, 0.0]


def test_rescore_stores_no_calibration_and_writes_no_file_that_the_run_names() -> None:
    """The folder may be somebody else's. What is not written is said, with the command that writes it."""
    run = calibrate([answer(n, right=n % 2 == 0) for n in range(4)], judge="offline", save="saved.json")
    stored = calibration_folder()
    shutil.rmtree(stored)
    Path("saved.json").unlink()
    said: list[str] = []
    rescore(str(run.folder), say=said.append)
    assert (stored.exists(), Path("saved.json").exists()) == (False, False)
    assert "not written: saved.json (--save), the judge's calibration for later reports." in said[0]
