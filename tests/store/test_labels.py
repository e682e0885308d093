"""Labels of answers: which answers are shown, in which order, and what is written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import InputError, UsageError
from assay.core.judges import JudgeInfo
from assay.core.report import Entry, Report
from assay.core.suite import pages_of
from assay.store.labels import FILE, Answers, RunLabels, agreement_with_scores, choose_answers
from assay.suites import find_suite

from support.hop_batch import Batch
from support.memory_samples import Samples
from support.memory_talks import Talks
from support.pipeline_project import PipelineProject, case, says
from support.runs import Made


def made(folder: Path, values: Sequence[float | None], **finish: Any) -> Path:
    """A run with an answer for each value of its metric `right`, and a graded metric beside it."""
    run = Made(folder)
    for number, value in enumerate(values):
        status = "scored" if value is not None else "invalid"
        score = {
            "metric": "right",
            "value": value,
            "status": status,
            "expected": f"ref {number}",
            "data": {"id": number},
        }
        run.case(
            f"k{number}",
            [{"metric": "f1", "value": 0.5}, score],
            tags=("even" if number % 2 == 0 else "odd",),
        )
    return run.finish(**finish)


def keys(answers: Answers) -> list[str]:
    """The cases of the answers, in their order."""
    return [place.key.case for place in answers.places]


def test_the_order_depends_on_the_seed_and_not_on_the_verdicts(tmp_path: Path) -> None:
    """Otherwise the order would tell the person something."""
    one = made(tmp_path / "one", [1, 0] * 20)
    other = made(tmp_path / "other", [0, 0, 0, 1] * 10)
    order = keys(choose_answers(one, metric="right"))
    assert order == keys(choose_answers(other, metric="right"))
    assert sorted(order) != order
    assert set(order) == {f"k{number}" for number in range(40)}
    assert order != keys(choose_answers(one, metric="right", seed=1))
    assert order[:7] == keys(choose_answers(one, metric="right", sample=7))


@pytest.mark.parametrize(
    ("right", "wrong", "sample", "expected"),
    [(30, 10, 10, (5, 5)), (38, 2, 10, (8, 2)), (2, 38, 10, (2, 8)), (3, 3, 20, (3, 3)), (9, 9, 5, (2, 3))],
)
def test_a_balanced_sample_has_both_verdicts(
    tmp_path: Path, right: int, wrong: int, sample: int, expected: tuple[int, int]
) -> None:
    folder = made(tmp_path / "run", [1.0] * right + [0.0] * wrong)
    answers = choose_answers(folder, metric="right", sample=sample, balance=True)
    counts = Counter(place.accepted for place in answers.places)
    assert (counts[True], counts[False]) == expected
    # In the order of the whole run, so that the two kinds are mixed.
    whole = keys(choose_answers(folder, metric="right"))
    assert keys(answers) == [key for key in whole if key in set(keys(answers))]


def test_the_metric_of_a_judge_comes_first(tmp_path: Path) -> None:
    judge = JudgeInfo(name="j", id="j@1", votes=1, kind="answer", fingerprint="1", metrics=["right"])
    judged = made(tmp_path / "judged", [1, 0], report=Report(entries=[Entry(name="m", judges=[judge])]))
    assert choose_answers(judged).metric == "right"
    plain = made(tmp_path / "plain", [1, 0])
    assert choose_answers(plain).metric == "f1"
    with pytest.raises(UsageError, match="no metric named 'rihgt'; did you mean 'right'"):
        choose_answers(plain, metric="rihgt")
    with pytest.raises(UsageError, match="no answer with a score yet"):
        choose_answers(made(tmp_path / "empty", []))


def test_a_label_is_a_whole_line_and_can_be_undone(tmp_path: Path) -> None:
    folder = made(tmp_path / "run", [1, 0, None])
    answers = choose_answers(folder, metric="right")
    labels = RunLabels(folder, "ann")
    for place in answers.places:
        labels.add(place, answers.read(place), right=True)
        assert (folder / FILE).read_bytes().endswith(b"\n")
        assert not (folder / FILE).stat().st_mode & 0o007, "other users cannot read it"
    undone = labels.undo()
    assert undone == answers.places[-1].key
    lines = [json.loads(line) for line in (folder / FILE).read_text().splitlines()]
    assert [(line["case"], line["label"], line["by"]) for line in lines] == [
        (place.key.case, True, "ann") for place in answers.places[:2]
    ]
    assert lines[0]["response"] == f"text of {lines[0]['case']}"
    assert lines[0]["reference"] == f"ref {lines[0]['case'][1:]}"
    assert not any(name in line for line in lines for name in ("value", "verdict", "accepted"))
    with pytest.raises(UsageError, match="another process has"):
        RunLabels(folder, "bob")
    labels.close()
    again = RunLabels(folder, "ann")
    assert set(again.labels) == {place.key for place in answers.places[:2]}
    assert again.undo() is None  # only labels of this session
    again.close()
    bob = RunLabels(folder, "bob")
    assert not bob.labels
    bob.close()


def test_a_line_that_a_kill_left_behind_is_cut_and_a_foreign_line_is_named(tmp_path: Path) -> None:
    folder = made(tmp_path / "run", [1, 0])
    answers = choose_answers(folder, metric="right")
    labels = RunLabels(folder, "ann")
    labels.add(answers.places[0], answers.read(answers.places[0]), right=False)
    labels.close()
    whole = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(whole + whole[:30])
    labels = RunLabels(folder, "ann")
    labels.add(answers.places[1], answers.read(answers.places[1]), right=True)
    labels.close()
    assert [json.loads(line)["label"] for line in (folder / FILE).read_bytes().splitlines()] == [False, True]
    (folder / FILE).write_bytes(whole + b'{"label": 1}\n')
    with pytest.raises(InputError, match=r"labels\.jsonl:2: this is no label"):
        RunLabels(folder, "ann")
    RunLabels(made(tmp_path / "other", [1]), "ann").close()
    assert not (tmp_path / "other" / FILE).exists()


def test_agreement_counts_only_answers_with_a_verdict(tmp_path: Path) -> None:
    folder = made(tmp_path / "run", [1, 1, 1, 0, 0, None])
    answers = choose_answers(folder, metric="right")
    labels = RunLabels(folder, "ann")
    for place in answers.places:
        labels.add(place, answers.read(place), right=place.key.case in ("k0", "k1", "k3", "k5"))
    result = agreement_with_scores(labels.labels, answers.places)
    labels.close()
    assert (result.n, result.invalid, result.accuracy) == (5, 1, 0.6)
    assert (result.false_accepts.count, result.false_rejects.count) == (1, 1)


def texts_of(run: assay.Run, metric: str = "") -> dict[tuple[str, str], tuple[str, str, str]]:
    """Rubric or question, reference and response of each answer to label, by case and part."""
    answers = choose_answers(run.folder, pages_of(find_suite(run.info.suite)).graded_answers, metric=metric)
    texts = {}
    for place in answers.places:
        answer = answers.read(place)
        texts[place.key.subject, place.key.part] = (
            answer.rubric or answer.question,
            answer.reference,
            answer.response,
        )
    return texts


def test_question_reference_and_answer_of_a_memory_test(tmp_path: Path) -> None:
    """The answer of the last test counts, of which only the questions have a label."""
    texts = texts_of(Talks(tmp_path).run(judge="offline"))
    assert len(texts) == 4
    assert all(
        question == f"who likes fruit{number}" and reference == f"Bob likes fruit{number}" and response
        for number, (question, reference, response) in enumerate(sorted(texts.values()), 1)
    )


def test_question_reference_and_answer_of_a_memory_evaluation(tmp_path: Path) -> None:
    run = Samples(tmp_path).run()
    answers = choose_answers(run.folder, pages_of(find_suite("memory-eval")).graded_answers)
    assert answers.metric == "answer"
    answer = answers.read(answers.places[0])
    assert answer.question.endswith("?")
    assert answer.reference
    assert answer.response
    assert answer.evidence


def test_reference_and_answer_of_a_hop_row(tmp_path: Path) -> None:
    """Its function calls no model, so there is no prompt that could be the question."""
    answers = choose_answers(Batch(tmp_path).run().folder, pages_of(find_suite("hop")).graded_answers)
    answer = answers.read(next(place for place in answers.places if place.position == 1))
    assert (answer.question, answer.reference, answer.response) == ("", '{"answer":4}', '{"answer": 4}')


def test_question_reference_and_answer_of_a_task(tmp_path: Path, sums: Path) -> None:
    spec = assay.spec(
        "task",
        tasks=[str(sums / "sums.yaml")],
        model=f"python/{sums}/model.py:answer",
        output_dir=str(tmp_path),
    )
    answers = choose_answers(assay.run(spec).folder, pages_of(find_suite("task")).graded_answers)
    answer = answers.read(next(place for place in answers.places if place.position == 3))
    assert (answer.question, answer.reference, answer.response) == ("Q: 3+3?\nA:", "6", "3")


def test_question_reference_and_answer_of_an_evaluation(tmp_path: Path) -> None:
    run = assay.evaluate(
        [{"question": "2+2?", "answer": "4"}],
        answer=lambda question: "four",
        score=[assay.exact_match("answer")],
        output_dir=str(tmp_path),
    )
    assert list(texts_of(run).values()) == [("2+2?", "4", "four")]


def test_a_text_that_a_judge_read_is_labelled_by_its_rubric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lab = PipelineProject(tmp_path)
    lab.pipeline(says("one"))
    lab.tests(case("a", expected_outputs={"one": "judge:It greets."}), case("b", expected_outputs={"one": "hello"}))
    judge = lab.script({"text": '{"reason": "it does", "passed": true}'}, name="judge.jsonl")
    run = lab.run(judge=judge).run
    assert list(texts_of(run).values()) == [("It greets.", "", "hello")]
    assert set(texts_of(run, "passed")) == {("baseline", "a"), ("baseline", "b")}


def test_answers_that_filters_show_differently_are_different_answers(tmp_path: Path) -> None:
    """With the same text, two filters are about one answer. Tasks with other filters are labelled too."""
    run = Made(tmp_path / "run")
    for number in range(2):
        scores = [
            {"metric": "right", "part": "strict", "value": 1.0},
            {"metric": "right", "part": "loose", "value": 0.0, "data": {"answer": "cut"} if number else None},
        ]
        run.case(f"k{number}", scores)
    run.case("other", [{"metric": "right", "part": "none", "value": 1.0}], within="other")
    folder = run.finish(parts="filters")
    strict, loose = (choose_answers(folder, metric=f"right,{name}") for name in ("strict", "loose"))
    same = {place.key.case: place.key for place in strict.places}
    assert {place.key.case: place.key == same[place.key.case] for place in loose.places} == {
        "k0": True,
        "k1": False,
    }
    assert [loose.read(place).response for place in sorted(loose.places)] == ["text of k0", "cut"]
    every = choose_answers(folder)
    assert (every.metric, sorted(keys(every))) == ("right", ["k0", "k1", "other"])
    assert all(place.accepted for place in every.places)
    with pytest.raises(UsageError, match="right,loose"):
        choose_answers(folder, metric="right,lose")
