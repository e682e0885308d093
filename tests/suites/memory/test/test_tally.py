"""The numbers of a memory: curve, denominators, seconds and tokens."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.types import Record, Score
from assay.core.usage import PurposeUsage
from assay.suites.memory.test.tally import MemoryTally


def tally_of(name: str = "m", *, reference: bool = False) -> MemoryTally:
    """Return an empty tally of a memory."""
    return MemoryTally(name, f"{name} (reference)" if reference else name, reference=reference)


def score(test: int, question: int, value: float | None, metric: str = "f1", category: Any = 1) -> Score:
    """Return a score in the form of the scorer."""
    about = {"category": category}
    return Score(0, "k", "s", "m", "x@1", metric, part=f"{test}/{question}", value=value, data=about)


def answer(**more: Any) -> Record:
    """Return an answer record in the form of the solver."""
    data = {"test": 1, "question": 1, "answer": "", "hits": [], "search_seconds": 0.5, "answer_seconds": 0.0}
    return Record(0, "k", "s", "m", 1, "answer", data=data | more)


def test_a_curve_has_every_conversation_at_each_point() -> None:
    """A conversation without a third test stays at its second. The curve ends at the headline."""
    tally = tally_of()
    tally.add_conversation(0, [10, 20, 30], [], [score(1, 1, 1.0), score(2, 1, 1.0), score(3, 1, 0.0)])
    tally.add_conversation(1, [50, 90], [], [score(1, 1, 0.0), score(2, 1, 1.0)])
    summary = tally.summary()
    assert [(point["dialogs_inserted"], point["f1"]["value"]) for point in summary["curve"]] == [
        (30.0, 0.5),
        (55.0, 1.0),
        (60.0, 0.5),
    ]
    assert summary["metrics"][0]["value"] == 0.5
    assert [
        (point["conversations"], point["dialogs_inserted"], point["f1"]["value"]) for point in summary["tests"]
    ] == [
        (2, 30.0, 0.5),
        (2, 55.0, 1.0),
        (1, 30.0, 0.0),
    ]


def test_headlines_and_categories_are_of_last_tests() -> None:
    """A score without a value counts nowhere."""
    tally = tally_of(reference=True)
    tally.add_conversation(
        0, [2, 4], [], [score(1, 1, 1.0), score(2, 1, 0.0), score(2, 2, 0.5, category="x"), score(2, 3, None)]
    )
    summary = tally.summary()
    assert (summary["alias"], summary["reference"]) == ("m (reference)", True)
    assert [(metric["metric"], metric["value"], metric["n"]) for metric in summary["metrics"]] == [("f1", 0.25, 2)]
    assert {name: metric["f1"]["value"] for name, metric in summary["categories"].items()} == {
        "1": 0.0,
        "x": 0.5,
    }


def test_evidence_that_names_no_message_is_counted() -> None:
    """Missing messages are counted, and so are questions without any existing message."""
    tally = tally_of()
    for places in (["D1:1"], ["D1:1", "D9:9"], ["D9:8", "D9:9"]):
        tally.count_evidence(places, {"D1:1"})
    assert (tally.counts["without_evidence"], tally.counts["unknown_places"]) == (1, 3)


def test_seconds_and_tokens_are_by_purpose() -> None:
    """Answers with 0 seconds are not counted: no model was called."""
    tally = tally_of()
    build = PurposeUsage(calls=3, reused=1, input_tokens=6, output_tokens=3, cost=0.5)
    usage = {"build": build, "answer": PurposeUsage(calls=2, failed=1, uncounted=1)}
    records = [
        answer(),
        answer(answer_seconds=2.0, tokens=[10, 1], search_seconds=1.5),
        answer(error="no"),
        Record(0, "k", "s", "m", 1, "fed", data={"insert_seconds": [1.0, 3.0], "usage": usage}),
    ]
    tally.add_conversation(0, [2], records, [])
    tally.add_conversation(1, [2], [Record(1, "l", "s", "m", 1, "fed", data={"insert_seconds": [2.0]})], [])
    summary = tally.summary()
    assert {stage: (each["seconds"], each["seconds_p50"]) for stage, each in summary["stages"].items()} == {
        "build": (6.0, 2.0),
        "retrieve": (2.5, 0.5),
        "answer": (2.0, 2.0),
    }
    building, answers = summary["stages"]["build"], summary["stages"]["answer"]
    assert (building["calls"], building["reused"], building["input_tokens"]) == (3, 1, 6)
    assert building["cost"] == 0.5
    # No reply has tokens, so they were not measured.
    assert (answers["calls"], answers["failed"], "input_tokens" in answers) == (2, 1, False)
    assert (summary["counts"]["answers"], summary["counts"]["errors"]) == (3, 1)


def test_failed_conversations_are_named() -> None:
    tally = tally_of()
    tally.add_failure("0003", "conv-x", "it fell")
    summary = tally.summary()
    assert summary["failures"] == [{"task_id": "0003", "sample_id": "conv-x", "reason": "it fell"}]
    assert (summary["counts"]["failed"], summary["counts"]["conversations"], summary["curve"]) == (1, 0, [])


def test_an_interval_stays_within_what_is_possible() -> None:
    """With two conversations the interval would exceed 0 to 1."""
    tally = tally_of()
    tally.add_conversation(0, [2], [], [score(1, 1, 1.0), score(1, 2, 1.0)])
    tally.add_conversation(1, [2], [], [score(1, 1, 0.0), score(1, 2, 0.0)])
    (metric,) = tally.summary()["metrics"]
    assert metric["value"] == 0.5
    assert metric["interval"] == pytest.approx((0.0, 1.0), abs=1e-9)


def test_the_report_has_the_numbers_of_the_summary() -> None:
    """Headline metrics, categories with their meaning, the curve of one metric, counts and failures."""
    tally = tally_of()
    tally.add_conversation(0, [10, 20, 30], [], [score(1, 1, 1.0), score(2, 1, 1.0), score(3, 1, 0.0)])
    tally.add_conversation(1, [50, 90], [], [score(1, 1, 0.0), score(2, 1, 1.0, "exact_match")])
    tally.add_failure("0003", "conv-x", "it fell")
    summary, entry = tally.summary(), tally.entry("f1", {"1": "multi-hop"}, [])
    assert [metric.name for metric in entry.metrics] == [values["metric"] for values in summary["metrics"]]
    for metric, values in zip(entry.metrics, summary["metrics"], strict=True):
        assert (metric.value, metric.denominator, metric.clusters) == (
            values["value"],
            values["n"],
            values["clusters"],
        )
        assert (metric.interval, metric.stderr) == (values["interval"], values["stderr"])
    (part,) = entry.slices
    assert (part.by, part.name, part.title) == ("category", "1", "multi-hop")
    curve, of_tests = entry.curves
    assert [(point.x, point.metric.value) for point in curve.points] == [
        (values["dialogs_inserted"], values["f1"]["value"]) for values in summary["curve"]
    ]
    assert [(point.x, point.metric.value) for point in of_tests.points] == [
        (values["dialogs_inserted"], values["f1"]["value"]) for values in summary["tests"] if "f1" in values
    ]
    assert entry.counts == {"conversations": 2, "failed": 1, "asked": 0, "errors": 0}
    ((example,),) = [examples.shown for examples in entry.examples]
    assert (example.label, example.reason) == ("conversation 0003 (conv-x)", "it fell")


def test_missing_verdicts_are_not_zero() -> None:
    """The value is None with a reason, and missing verdicts are counted."""
    tally = tally_of()
    unjudged = Score(0, "k", "s", "m", "x@1", "judged", part="1/1", status="not_applicable", value=None, data={})
    tally.add_conversation(0, [2], [], [unjudged])
    (metric,) = tally.entry("judged", {}, []).metrics
    assert (metric.value, metric.denominator, metric.left_out) == (None, 0, {"not_judged": 1})
    assert metric.reason
