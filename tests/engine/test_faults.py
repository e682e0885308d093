"""Failures are data: every case ends with an answer or a recorded failure, and every denominator says which."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from servers.fake_openai import FakeOpenAI
from support.commands import Job, task_job
from support.tasks import FILTERS, question, right, write_task

DOCS = 300
MIXED = {
    "429": 0.10,
    "500": 0.05,
    "drop": 0.01,
    "cut": 0.01,
    "hang": 0.01,
    "garbage": 0.005,
    "no_choices": 0.005,
}


def counts(job: Job) -> dict[str, int]:
    """How the summary says cases ended."""
    summary = job.summary()
    return {name: summary[name] for name in ("ok", "subject_error", "infra_error", "total")}


def metric(job: Job, position: int = 0) -> dict[str, Any]:
    """A number of the summary with its denominator: the filters' metrics in order."""
    found: dict[str, Any] = job.summary()["report"]["entries"][0]["metrics"][position]
    return found


def rows_by_doc(job: Job, name: str) -> dict[int, dict[str, Any]]:
    """The rows of one filter by doc; each doc has one row."""
    rows = [row for row in job.rows() if row["filter"] == name]
    assert [row["doc_id"] for row in rows] == sorted({row["doc_id"] for row in rows})
    return {row["doc_id"]: row for row in rows}


def test_faults_that_pass_leave_no_trace(tmp_path: Path) -> None:
    """With retries every case gets its answer, and the files are those of a run without faults."""
    task = write_task(tmp_path / "task", DOCS)
    with FakeOpenAI() as server:
        calm, stormy = task_job(task, server, tmp_path / "calm"), task_job(task, server, tmp_path / "stormy")
        assert calm.run().code == 0
        server.reset()
        server.behave(faults=MIXED)
        finished = stormy.run("--timeout", "0.6")
        outcomes = Counter(seen.outcome for seen in server.stats().requests)
    assert finished.code == 0
    assert outcomes.keys() >= {"ok", "429", "500", "left", "drop", "cut", "garbage", "no_choices"}
    assert counts(stormy) == {"ok": DOCS, "subject_error": 0, "infra_error": 0, "total": DOCS}
    assert stormy.summary()["spent"]["retries"] == outcomes.total() - DOCS
    assert stormy.samples() == calm.samples()
    assert stormy.results() == calm.results()


def test_faults_without_retries_are_recorded_and_asked_again(tmp_path: Path) -> None:
    """A case without an answer is in the samples, out of the mean, counted beside it, and asked next time."""
    task = write_task(tmp_path / "task", DOCS)
    with FakeOpenAI(faults=MIXED) as server:
        job = task_job(task, server, tmp_path / "out", "--timeout", "2", "--max-retries", "0")
        first = job.run()
        failed = {seen.prompt for seen in server.stats().requests if seen.outcome != "ok"}
        assert first.code == 3
        assert_failures_stand_beside(job, {n for n in range(DOCS) if question(n) in failed})
        assert f"{len(failed)} infra error" in first.out
        assert f"{len(failed)} cases got no answer" in first.err
        server.reset()
        server.behave()
        second = job.run()
        assert second.code == 0, second.err
        assert {seen.prompt for seen in server.stats().requests} == failed
        assert counts(job) == {"ok": DOCS, "subject_error": 0, "infra_error": 0, "total": DOCS}
        assert not [row for row in job.rows() if "error" in row]


def test_only_the_failed_repeats_are_asked_again(tmp_path: Path) -> None:
    """A case that ended without an answer keeps its good replies: the next try pays for the bad ones alone."""
    task = write_task(tmp_path / "task", 10, repeats=8)
    with FakeOpenAI(faults={"500": 0.1}, faulty_attempts=1) as server:
        job = task_job(task, server, tmp_path / "out", "--max-retries", "0")
        assert job.run().code == 3
        first = server.stats().requests
        failed = {(seen.prompt, seen.seed) for seen in first if seen.outcome != "ok"}
        assert len(first) == 80
        assert 0 < job.summary()["infra_error"] < 10
        assert job.run().code == 0
        assert {(seen.prompt, seen.seed) for seen in server.stats().requests[80:]} == failed
        assert len(server.stats().requests) == 80 + len(failed)


def assert_failures_stand_beside(job: Job, failed: set[int]) -> None:
    """These docs have a row with an error and no value; the mean is that of the others."""
    count = len(failed)
    assert counts(job) == {"ok": DOCS - count, "subject_error": 0, "infra_error": count, "total": DOCS}
    assert sum(job.summary()["failures"].values()) == count
    for position, chain in enumerate(FILTERS):
        rows = rows_by_doc(job, str(chain["name"]))
        assert list(rows) == list(range(DOCS))
        assert {doc for doc, row in rows.items() if "error" in row} == failed
        assert all(rows[doc]["metrics"] == [] and "exact_match" not in rows[doc] for doc in failed)
        found = metric(job, position)
        assert found["left_out"] == {"infra_error": count}
        assert (found["denominator"], found["numerator"]) == (
            DOCS - count,
            sum(right(n) for n in range(DOCS) if n not in failed),
        )
        assert found["value"] == pytest.approx(found["numerator"] / found["denominator"])


@pytest.mark.parametrize("fault", ["400", "500", "drop", "garbage"])
def test_one_doc_that_always_fails_costs_itself_alone(tmp_path: Path, fault: str) -> None:
    """The others are answered and scored; the run says that it is not complete."""
    task = write_task(tmp_path / "task", 20)
    with FakeOpenAI(always={question(7): fault}) as server:
        job = task_job(task, server, tmp_path / "out", "--max-retries", "1")
        assert job.run().code == 3
        assert counts(job) == {"ok": 19, "subject_error": 0, "infra_error": 1, "total": 20}
        assert [row["doc_id"] for row in job.rows() if "error" in row] == [7, 7]
        assert len(server.stats().outcomes(question(7))) == (1 if fault == "400" else 2)
        server.reset()
        assert job.run().code == 3
        assert {seen.prompt for seen in server.stats().requests} == {question(7)}


METRICS = [{"metric": "exact_match"}, {"metric": "f1"}]


@pytest.mark.parametrize(("fault", "kind"), [("overflow", "context_overflow"), ("refusal", "refusal")])
def test_failure_of_the_subject_counts_against_it(tmp_path: Path, fault: str, kind: str) -> None:
    """It is wrong where there is right and wrong, left out and counted elsewhere, and no fault of the run."""
    task = write_task(tmp_path / "task", 20, metric_list=METRICS)
    with FakeOpenAI(always={question(3): fault, question(11): fault}) as server:
        job = task_job(task, server, tmp_path / "out")
        finished = job.run()
        assert len(server.stats().requests) == 20
    assert finished.code == 0
    assert_counted_against(job, {3, 11}, kind)
    assert "2 not applicable" in finished.out


def assert_counted_against(job: Job, failed: set[int], kind: str) -> None:
    """These docs of twenty score 0 in exact_match and nothing in f1."""
    assert counts(job) == {"ok": 18, "subject_error": 2, "infra_error": 0, "total": 20}
    rows = rows_by_doc(job, "first")
    for doc in failed:
        assert rows[doc]["error"].startswith(f"{kind}: ")
        assert rows[doc]["exact_match"] == 0.0
        assert rows[doc]["metrics"] == ["exact_match"]
        assert "f1" not in rows[doc]
    exact, f1 = metric(job, 0), metric(job, 1)
    assert (exact["denominator"], exact["numerator"]) == (
        20,
        sum(right(n) for n in range(20) if n not in failed),
    )
    assert "left_out" not in exact
    assert (f1["denominator"], f1["left_out"]) == (18, {"not_applicable": 2})


MODEL = """\
def answer(prompt, params):
    if prompt.startswith(("Q3:", "Q11:")):
        raise KeyError("no such thing")
    from servers.fake_openai import answer_of
    return answer_of(prompt, params["seed"])
"""


def test_python_model_that_raises_fails_as_the_subject(tmp_path: Path) -> None:
    """What a user's function raises is a result about the function."""
    task = write_task(tmp_path / "task", 20, metric_list=METRICS)
    tests = Path(__file__).parents[1]
    (tmp_path / "model.py").write_text(f"import sys\nsys.path.append({str(tests)!r})\n{MODEL}")
    model = f"python/{tmp_path / 'model.py'}:answer"
    out = tmp_path / "out"
    job = Job(["-m", "assay", "task", str(task), "--model", model, "--output-dir", str(out)], out)
    assert job.run().code == 0
    assert_counted_against(job, {3, 11}, "user_code")
    assert "KeyError: 'no such thing'" in rows_by_doc(job, "first")[3]["error"]
