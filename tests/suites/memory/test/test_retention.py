"""Whether a schedule tests retention: old evidence, questions without evidence, and what the user is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import UsageError
from assay.core.suite import pages_of
from assay.runner import api
from assay.store.cases import RunCases
from assay.store.category_curves import BY_AGE, category_curve
from assay.suites.memory.test.retention import age_bins
from assay.suites.memory.test.suite import MemoryTestSuite

from support.memory_talks import Talks, file_of, numbers_of, talk


def long_talk(messages: int = 40) -> dict[str, Any]:
    """Return a conversation with one question, about its first message."""
    conversation = talk(messages)
    conversation["questions"] = conversation["questions"][:1]
    return conversation


def with_question_without_evidence() -> dict[str, Any]:
    """Return a conversation of four messages with a question about each, and one without evidence before them."""
    conversation = talk()
    question = {"question": "who likes nothing", "answer": "nobody", "category": "open"}
    conversation["questions"].insert(0, question)
    return conversation


def notices(run: assay.Run) -> list[str]:
    """Return the notices of a run."""
    assert run.report is not None
    return run.report.notices


def recalls(run: assay.Run) -> dict[str, Any]:
    """Return the evidence recall of each memory."""
    summaries = [numbers_of(run, name) for name in ("STMemory", "bm25")]
    return {each["memory"]: each["curve"][-1]["evidence_recall"]["value"] for each in summaries}


def test_a_memory_of_the_last_messages_fails_only_at_the_end(tmp_path: Path) -> None:
    """The only question is about the first of 40 messages. After two messages any memory has it."""
    talks = Talks(tmp_path, long_talk())
    options: dict[str, Any] = {"memory": ["STMemory", "bm25"], "model": "", "no_answer": True}
    early = talks.run(**options)
    assert recalls(early) == {"STMemory": 1.0, "bm25": 1.0}
    late = talks.run(ask="at-end", **options)
    assert recalls(late) == {"STMemory": 0.0, "bm25": 1.0}


def test_a_schedule_that_asks_young_evidence_only_is_named(tmp_path: Path) -> None:
    """The warning has the median age at the last test, and the one that another schedule gives."""
    talks = Talks(tmp_path, long_talk())
    options: dict[str, Any] = {"model": "", "no_answer": True}
    (notice,) = notices(talks.run(**options))
    assert "does not test retention" in notice
    assert "since its evidence is 1;" in notice
    assert "--ask both it is 39." in notice
    assert notices(talks.run(ask="both", **options)) == []


def test_questions_without_evidence_are_asked_at_the_end(tmp_path: Path) -> None:
    """They are the last ones of the last test, they count as valid, and they have no recall."""
    talks = Talks(tmp_path, with_question_without_evidence())
    run = talks.run(ask="both")
    document = file_of(run)
    statistics = document["dataset_statistics"]
    assert (statistics["total_questions"], statistics["valid_questions"]) == (5, 5)
    assert statistics["invalid_questions"] == []
    last = document["test_results"][-1]
    assert (last["dialogs_inserted_count"], last["question_range"]) == (4, {"start": 1, "end": 5})
    question = last["questions"][-1]
    assert (question["question_index"], question["source_index"]) == (5, 0)
    assert question["predicted_answer"]
    numbers = {metric["metric"]: metric["n"] for metric in numbers_of(run)["metrics"]}
    assert (numbers["f1"], numbers["evidence_recall"]) == (5, 4)
    assert numbers_of(run)["counts"]["without_evidence"] == 1
    assert document["test_summary"]["test_threshold"] == "1/10 of total questions, and after the last dialog"


def test_the_default_does_not_ask_them_and_says_so(tmp_path: Path) -> None:
    talks = Talks(tmp_path, with_question_without_evidence())
    run = talks.run()
    statistics = file_of(run)["dataset_statistics"]
    assert (statistics["total_questions"], statistics["valid_questions"]) == (5, 4)
    assert [each["question_index"] for each in statistics["invalid_questions"]] == [1]
    (notice,) = notices(run)
    assert notice.startswith("Not asked: 1 question without usable evidence. --ask at-end")


def test_data_without_any_evidence_names_the_flag(tmp_path: Path) -> None:
    conversation = talk()
    for question in conversation["questions"]:
        del question["evidence"]
    talks = Talks(tmp_path, conversation)
    with pytest.raises(UsageError, match="none of the 4 questions has usable evidence.*--ask at-end"):
        talks.run()
    run = talks.run(ask="at-end")
    assert numbers_of(run)["counts"]["answers"] == 4
    assert {metric["metric"]: metric["n"] for metric in numbers_of(run)["metrics"]} == {
        "f1": 4,
        "exact_match": 4,
    }


def test_results_with_questions_without_evidence_are_imported(tmp_path: Path) -> None:
    """With the data file the imported run has the keys of the native one, so that both can be compared."""
    talks = Talks(tmp_path, with_question_without_evidence())
    run = talks.run(ask="at-end")
    folder = next(path.parent for path in run.files if path.name == "0000.json")
    imported = assay.import_results(folder, f"{tmp_path}/in", data=talks.values()["data"])
    (comparison,) = api.compare(run, imported).comparisons
    (row,) = [row for row in comparison.rows if row.metric == "f1"]
    assert (row.n, row.ties) == (5, 5)


def test_a_dry_run_says_what_asking_once_would_ask(tmp_path: Path) -> None:
    talks = Talks(tmp_path, with_question_without_evidence())
    suite = MemoryTestSuite(assay.spec("memory-test", **talks.values(segments=2)))
    facts = suite.overview(suite.rows()).facts
    assert facts["tests"] == "2 (--ask when-visible --trigger increment --segments 2)"
    assert facts["questions asked"] == "6 for each memory"
    assert facts["asked once"] == "5 for each memory with --ask at-end"
    assert facts["note 1"].startswith("Not asked: 1 question")


def test_scores_are_collected_by_the_age_of_the_evidence(tmp_path: Path) -> None:
    """Every answer of every test counts at its own age. The first message is asked at many ages."""
    talks = Talks(tmp_path, talk(60))
    run = talks.run(ask="every:2", memory=["STMemory"], model="", no_answer=True, top_k=10)
    retention = numbers_of(run)["retention"]
    answers = sum(range(2, 62, 2))
    assert (retention["answers"], retention["without_evidence"]) == (answers, 0)
    points = retention["points"]
    assert [(point["age_from"], point["age_to"]) for point in points] == [
        (0, 9),
        (10, 19),
        (20, 49),
        (50, 59),
    ]
    assert sum(point["evidence_recall"]["n"] for point in points) == answers
    values = [point["evidence_recall"]["value"] for point in points]
    assert values[0] > 0.9
    assert values[-1] == 0.0
    assert points[0]["evidence_recall"]["clusters"] == 1
    assert run.report is not None
    (curve,) = [curve for curve in run.report.entries[0].curves if curve.name == "evidence_recall_by_age"]
    assert [point.place for point in curve.points] == ["0–9", "10–19", "20–49", "50–59"]
    assert [point.metric.value for point in curve.points] == values
    assert {point.metric.unit for point in curve.points} == {"answer"}
    assert any(path.name == "retention.svg" for path in run.files)


def test_questions_without_evidence_have_no_age(tmp_path: Path) -> None:
    """They are asked once, at the end, and counted beside the curve."""
    retention = numbers_of(Talks(tmp_path, with_question_without_evidence()).run(ask="at-end"))["retention"]
    assert (retention["answers"], retention["without_evidence"]) == (4, 1)
    (point,) = retention["points"]
    assert (point["age_from"], point["age_to"], point["age"]) == (0, 3, 1.5)
    assert point["f1"]["n"] == 4


@pytest.mark.parametrize(
    ("ages", "bins"),
    [
        ([], []),
        ([3], [(0, 3)]),
        ([0] * 10 + [700] * 10, [(0, 499), (500, 700)]),
        ([0] * 10 + [700] * 9, [(0, 700)]),
        ([0] * 9 + [15] * 9 + [30] * 9, [(0, 30)]),
        (list(range(1000)), [(0, 9), (10, 19), (20, 49), (50, 99), (100, 199), (200, 499), (500, 999)]),
    ],
)
def test_a_bin_has_at_least_ten_answers(ages: list[int], bins: list[tuple[int, int]]) -> None:
    """Unless there are fewer answers in all. A small bin is merged with the next one, the last with the one before."""
    assert [(each.low, each.high) for each in age_bins(ages)] == bins


def test_a_category_has_its_own_curve_by_age(tmp_path: Path) -> None:
    """The page of the run shows it with the ranges of the curve over all questions."""
    conversation = talk(60)
    for number, question in enumerate(conversation["questions"]):
        question["category"] = "even" if number % 2 else "odd"
    run = Talks(tmp_path, conversation).run(ask="every:6", memory=["STMemory"], model="", no_answer=True)
    assert run.report is not None
    (curve,) = [curve for curve in run.report.entries[0].curves if curve.name.endswith(BY_AGE)]
    values = [(case.end.index, pages_of(MemoryTestSuite).curve_values(case)) for case in RunCases(run.folder)]
    parts = [category_curve(values, name, "evidence_recall", curve) for name in ("odd", "even")]
    for whole, odd, even in zip(curve.points, parts[0].points, parts[1].points, strict=True):
        assert (odd.span, even.span) == (whole.span, whole.span)
        assert odd.metric.denominator + even.metric.denominator == whole.metric.denominator
        assert odd.metric.denominator > 0
