"""Everything in examples/pipeline runs offline on its recorded replies and meets its expectations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay import TestsetLoader
from assay.suites.pipeline.suite import PipelineSuite

from support.pipeline_project import CommandResult, PipelineProject, read_lines, typed
from support.suite_files import problems_of

EXAMPLES = Path(__file__).parents[3] / "examples" / "pipeline"
GOOD_CODE = """\
def aggregate(items):
    counts = {'positive': 0, 'negative': 0, 'neutral': 0}
    topics = []
    for item in items:
        counts[item['sentiment']] += 1
        if item['category'] not in topics:
            topics.append(item['category'])
    return {'total_feedback': len(items), 'sentiment_breakdown': counts, 'top_topics': topics}
"""


def example(capsys: pytest.CaptureFixture[str], name: str, *flags: str) -> CommandResult:
    """`assay pipeline examples/pipeline/NAME.yaml --model script/…/NAME.jsonl`, and perhaps more."""
    model = f"script/{EXAMPLES}/replies/{name}.jsonl"
    return typed(capsys, "pipeline", f"{EXAMPLES}/{name}.yaml", "--model", model, "--output-dir", "out", *flags)


def rows(name: str) -> list[dict[str, Any]]:
    """The newest results of an example."""
    return read_lines(Path("out") / name / "results.jsonl")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_pipeline_is_without_problems(path: Path) -> None:
    """In all its variants."""
    assert problems_of(PipelineSuite, path) == []


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("testsets/*/*.jsonl")), ids=lambda path: path.stem)
def test_every_testset_is_without_errors(path: Path) -> None:
    """Advice is allowed: a hundred items are more than a person reads."""
    assert [problem for problem in problems_of(PipelineSuite, path) if problem.level != "advice"] == []


def test_the_v1_example_and_its_v2_form_send_the_same_requests(
    lab: PipelineProject, capsys: pytest.CaptureFixture[str]
) -> None:
    """Example 1 of the format's document."""
    done = example(capsys, "echo")
    assert done.code == 0, done.err
    one, two = rows("echo")
    assert [one["result"], two["result"]] == ["passed", "passed"]
    assert (one["inputs"], one["outputs"], one["checks"]) == (two["inputs"], two["outputs"], two["checks"])


def test_the_steps_in_a_row_pass_in_both_variants(lab: PipelineProject, capsys: pytest.CaptureFixture[str]) -> None:
    """Example 2, with its intermediate expectations."""
    done = example(capsys, "sentiment", "--variant", "all")
    assert done.code == 0, done.err
    result = rows("sentiment")
    assert [(row["variant"], row["result"]) for row in result] == [
        ("baseline", "passed"),
        ("terse", "passed"),
    ]
    assert {check["of"] for check in result[0]["checks"]} == {"intermediate", "final", "rules"}
    assert "max_length" not in result[0]["inputs"]


def test_short_tests_pass(lab: PipelineProject, capsys: pytest.CaptureFixture[str]) -> None:
    """The testset of single features, by tag and by id."""
    unit = f"{EXAMPLES}/testsets/unit/sentiment_basic.jsonl"
    assert example(capsys, "sentiment", "--testset", unit).code == 0
    assert len(rows("sentiment")) == 3
    assert example(capsys, "sentiment", "--testset", unit, "--include-tags", "critical").code == 0
    assert [row["id"] for row in rows("sentiment")] == ["sentiment_negative_review"]


def test_the_batch_passes(lab: PipelineProject, capsys: pytest.CaptureFixture[str]) -> None:
    """Example 3: the aggregation has the names and numbers of the document."""
    done = example(capsys, "reviews")
    assert done.code == 0, done.err
    (row,) = rows("reviews")
    assert row["steps"]["aggregate_results"]["output"] == {
        "total_reviews": 5,
        "average_rating": 3.4,
        "sentiment_distribution": {"positive": 2, "negative": 2, "neutral": 1},
        "recommendation_rate": 0.4,
    }


def test_the_batch_fails_if_one_reply_differs(lab: PipelineProject, capsys: pytest.CaptureFixture[str]) -> None:
    """Example 3 with one other reply; the aggregation is the first step that went wrong."""
    replies = (EXAMPLES / "replies" / "reviews.jsonl").read_text()
    lab.write(
        "other.jsonl",
        replies.replace(r"\"neutral\", \"recommends\": false", r"\"positive\", \"recommends\": true"),
    )
    done = example(capsys, "reviews", "--model", "script/other.jsonl")
    assert done.code == 1
    (row,) = rows("reviews")
    assert row["result"] == "failed"
    assert row["first_wrong"]["step"] == "aggregate_results"
    wrong = {check["path"]: check.get("actual") for check in row["checks"] if check["passed"] is False}
    assert wrong["sentiment_distribution.positive"] == 3
    assert wrong["recommendation_rate"] == 0.6
    assert "failed at step aggregate_results" in done.out
    assert "sentiment_distribution" in done.out


def test_code_of_a_testset_is_refused_before_anything_is_written(
    lab: PipelineProject, capsys: pytest.CaptureFixture[str]
) -> None:
    """Example 4 without the flag: exit code 2, the place of the code, and the flag."""
    done = example(capsys, "feedback")
    assert done.code == 2
    assert "pipeline_full_features.jsonl:2: $.step_inputs.aggregate_insights.code is code" in done.err
    assert "--allow-code" in done.err
    assert not Path("out").exists()


def test_code_that_calls_an_undefined_name_fails_its_step(
    lab: PipelineProject, capsys: pytest.CaptureFixture[str]
) -> None:
    """Example 4 with the flag: errored at that step, with the reason; the steps before it are checked."""
    done = example(capsys, "feedback", "--allow-code")
    assert done.code == 1
    (row,) = rows("feedback")
    assert row["result"] == "errored"
    assert row["reason"].startswith("step aggregate_insights: the test's code, line 1: NameError: name 'analyze'")
    assert row["first_wrong"]["step"] == "aggregate_insights"
    passed = {check["step"] for check in row["checks"] if check["passed"]}
    assert passed == {"preprocess_batch", "analyze_sentiment"}
    assert row["steps"]["generate_report"]["status"] == "skipped"
    assert "errored at step aggregate_insights" in done.out
    assert "NameError" in done.out


def test_good_code_of_a_testset_passes_in_the_sandbox(lab: PipelineProject, capsys: pytest.CaptureFixture[str]) -> None:
    """Example 4 with code that works."""
    (test,) = TestsetLoader.load_testset(EXAMPLES / "testsets/integration/pipeline_full_features.jsonl")
    record = test.to_dict()
    record["step_inputs"]["aggregate_insights"]["code"] = GOOD_CODE
    lab.tests(record)
    done = example(capsys, "feedback", "--allow-code", "--testset", "tests.jsonl")
    assert done.code == 0, done.out
    (row,) = rows("feedback")
    assert row["result"] == "passed"
    assert {check["of"] for check in row["checks"]} == {"intermediate", "aggregation", "final"}


def test_a_large_batch_keeps_to_its_limits(lab: PipelineProject, capsys: pytest.CaptureFixture[str]) -> None:
    """A hundred items, checked by number and time. Recorded replies have no tokens, and the report says so."""
    done = example(capsys, "reviews", "--testset", f"{EXAMPLES}/testsets/performance")
    assert done.code == 0, done.out
    (row,) = rows("reviews")
    assert row["steps"]["analyze_batch"]["items"] == 100
    kinds = [(check["kind"], check["step"]) for check in row["checks"] if check["of"] == "performance"]
    assert kinds == [
        ("max_seconds", ""),
        ("max_seconds", "analyze_batch"),
        ("max_seconds", "conclude"),
    ]
    assert "max_tokens was not checked in 1 test" in done.out + done.err


def test_every_recorded_reply_is_used(lab: PipelineProject, capsys: pytest.CaptureFixture[str]) -> None:
    """A recorded reply without a request would mislead a reader."""
    example(capsys, "echo")
    example(capsys, "sentiment", "--variant", "all")
    unit = f"{EXAMPLES}/testsets/unit/sentiment_basic.jsonl"
    example(capsys, "sentiment", "--variant", "all", "--testset", unit)
    asked = {
        json.dumps(line["request"]["messages"])
        for path in Path("out/assay").glob("*/calls.jsonl")
        for line in read_lines(path)
        if "request" in line
    }
    for name in ("echo", "sentiment"):
        for line in read_lines(EXAMPLES / "replies" / f"{name}.jsonl"):
            assert json.dumps(line["messages"]) in asked
