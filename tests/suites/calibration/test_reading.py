"""Files of labels in every form: which rows are read, which are left out, and the messages for invalid files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import InputError
from assay.scoring.questions import AnswerQuestion
from assay.suites.calibration.labelled_question import majority
from assay.suites.calibration.labels import (
    REPEATED,
    TIED,
    UNLABELLED,
    LabelFile,
    LabelledRow,
    RubricText,
    parse_vote,
    parse_votes,
    read_labels,
)
from assay.suites.calibration.suite import CalibrationSuite

from support.suite_files import problems_of


def row(**fields: Any) -> dict[str, Any]:
    """A row that can be judged."""
    return {"question": "When?", "reference": "May", "response": "In May", "label": True} | fields


def answer_of(labelled: LabelledRow) -> AnswerQuestion:
    """The question of a row, which is about an answer."""
    assert isinstance(labelled.question, AnswerQuestion)
    return labelled.question


def reading(path: Path, value: Any, **field_names: str) -> LabelFile:
    """What is read of this JSON."""
    path.write_text(json.dumps(value))
    return read_labels(path, field_names)


def lines(path: Path, *rows: Any) -> Path:
    """JSON lines."""
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "labels.json"


def test_a_list_lines_and_an_object_are_read_alike(tmp_path: Path, path: Path) -> None:
    """Only the places of the rows differ; JSON lines need no special suffix."""
    both = [row(), row(label=False, response="June")]
    result = [
        reading(path, both),
        reading(path, {"meta": {"scores": [1, 2]}, "rows": both}),
        read_labels(lines(tmp_path / "a.jsonl", *both), {}),
        read_labels(lines(tmp_path / "a.txt", *both), {}),
    ]
    rows = [
        [(answer_of(labelled).response, labelled.labels[0], labelled.cluster) for labelled in file.rows]
        for file in result
    ]
    assert rows == [[("In May", True, None), ("June", False, None)]] * 4
    assert [each.rows[1].place.removeprefix(str(tmp_path)) for each in result] == [
        "/labels.json $[1]",
        "/labels.json $.rows[1]",
        "/a.jsonl:2",
        "/a.txt:2",
    ]


def test_equal_rows_count_once(tmp_path: Path, path: Path) -> None:
    """Published files have the same answers in several lists. A list without rows of its own makes no cluster."""
    both = [row(), row(label=False, response="June")]
    by_type = {"time": [both[0]], "place": [both[1]]}
    for file in (
        reading(path, {"responses": both, "by_type": by_type}),
        read_labels(lines(tmp_path / "labels.jsonl", *both, *both), {}),
    ):
        assert [(answer_of(each).response, each.cluster) for each in file.rows] == [
            ("In May", None),
            ("June", None),
        ]
        assert file.all_left_out == {REPEATED: 2}
    # Another system gave the same answer.
    assert len(reading(path, [row(model="a"), row(model="b")]).rows) == 2


def test_lists_by_user_are_clusters(path: Path) -> None:
    """The key of a list is the cluster of its rows; rows have several votes."""
    one = {
        "question_id": "q0",
        "question": "When?",
        "golden_answer": "7 May",
        "generated_answer": "On 7 May",
        "llm_judgments": {"judgment_1": True, "judgment_2": False, "judgment_3": True},
        "category": "2",
    }
    value = {
        "correct": 2,
        "detailed_results": {"user 0": [one], "user_1": [one | {"question_id": "q1"}]},
        "metadata": {"runs": [{}]},
    }
    result = reading(path, value)
    assert [(r.cluster, r.category, r.labels[0], r.votes[0]) for r in result.rows] == [
        ("user 0", "2", True, (True, False, True)),
        ("user_1", "2", True, (True, False, True)),
    ]
    assert (answer_of(result.rows[0]).reference, answer_of(result.rows[0]).response) == ("7 May", "On 7 May")
    assert result.rows[0].place == f'{path} $.detailed_results["user 0"][0]'
    assert result.lists_without_rows == [f"{path} $.metadata.runs"]


def test_records_of_memory_eval_with_a_label_are_read(path: Path) -> None:
    """Only labelled lines count; the judge gets the evidence."""
    record = {
        "sample_id": "s1",
        "question": "When?",
        "gold_answer": "May",
        "gold_evidence_contents": ["They met in May."],
        "question_type": "temporal",
        "question_type_abbrev": "TR",
        "generated_answer": "June",
        "eval": {"answer_label": "Hallucination"},
    }
    result = reading(path, [record | {"label": "Hallucination"}, record, record | {"label": None}])
    (one,) = result.rows
    assert (one.labels, one.words, one.cluster, one.category) == ((False,), ("Hallucination",), "s1", "TR")
    assert answer_of(one).evidence == ("They met in May.",)
    assert result.left_out == {"answer": {UNLABELLED: 2}}


@pytest.mark.parametrize(
    ("fields", "reference", "response"),
    [
        ({"answer": "a", "response": "b"}, "a", "b"),
        ({"reference": "a", "answer": "b"}, "a", "b"),
        ({"answer": "a", "predicted_answer": "b"}, "a", "b"),
        ({"reference": 7, "response": 7.5}, "7", "7.5"),
        ({"reference": "a", "response": ""}, "a", ""),
        ({"reference": "a", "response": "b", "answer": "c"}, "a", "b"),
    ],
)
def test_the_key_answer_is_reference_or_response(
    path: Path, fields: dict[str, Any], reference: str, response: str
) -> None:
    """It is the reference if the row has a response under another name."""
    (one,) = reading(path, [{"question": "q", "label": 1, **fields}]).rows
    assert (answer_of(one).reference, answer_of(one).response) == (reference, response)


def test_options_name_the_fields(path: Path) -> None:
    """They win over the usual names; `a.b` is b inside a."""
    value = {"q": "When?", "truth": "May", "said": "June", "label": True, "human": {"word": "no"}, "k": 3}
    field_names = {
        "question": "q",
        "reference": "truth",
        "response": "said",
        "label": "human.word",
        "category": "k",
    }
    (one,) = reading(path, [value], **field_names).rows
    assert (one.question, one.labels, one.category) == (
        AnswerQuestion("When?", "May", "June"),
        (False,),
        "3",
    )


def test_rows_with_a_rubric(path: Path) -> None:
    """They have a text instead of question and answer; the reference is optional."""
    result = reading(path, [{"rubric": "It greets.", "text": "Hello", "label": "pass"}])
    (one,) = result.rows
    assert (one.question, one.labels) == (RubricText("It greets.", "Hello"), (True,))


@pytest.mark.parametrize(
    ("value", "right"),
    [
        *((True, True), (0, False), (1.0, True), (" CORRECT", True), ("Wrong", False), ("Omission", False)),
        *(("Hallucination", False), ("incorrect", False), ("1", True), ("no", False)),
    ],
)
def test_words_for_labels(value: Any, right: bool) -> None:
    assert parse_vote(value) is right


@pytest.mark.parametrize("value", [2, 0.5, "maybe", "", ["yes", "perhaps"], [], {}, [[True]]])
def test_what_is_no_label_is_not_guessed(value: Any) -> None:
    with pytest.raises(ValueError, match="is not a label|list of votes is empty"):
        parse_votes(value)


def test_majorities() -> None:
    """A tie has no majority."""
    assert [majority(votes) for votes in ([True], [True, False], [False, False, True])] == [True, None, False]


def test_ties_are_left_out(path: Path) -> None:
    """They are counted."""
    result = reading(path, [row(label=[True, False]), row()])
    assert (len(result.rows), result.all_left_out) == (1, {TIED: 1})


def test_every_problem_is_reported_at_once(tmp_path: Path, path: Path) -> None:
    """With the line or path, and the names that were looked for."""
    bad = [row(label="maybe"), row(), {"response": "x", "label": 1}, row(reference=["a"]), 7]
    with pytest.raises(InputError) as raised:
        reading(path, bad)
    messages = [str(problem).removeprefix(str(path)) for problem in raised.value.problems]
    assert messages[0].startswith(" $[0].label: 'maybe' is not a label")
    assert messages[1].startswith(" $[2]: the row has no question (looked for question, query, prompt)")
    assert messages[2].startswith(" $[2]: the row has no reference")
    assert messages[3:] == [" $[3].reference: must be a text or a number", " $[4]: a row must be an object"]
    file = lines(tmp_path / "a.jsonl", row(), row(label=3))
    file.write_text(file.read_text() + "{nonsense\n")
    with pytest.raises(InputError) as raised:
        read_labels(file, {})
    places = sorted(problem.where for problem in raised.value.problems)
    assert places == [f"{file}:2 $.label", f"{file}:3"]
    assert problems_of(CalibrationSuite, file) == raised.value.problems


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "the file has no rows"),
        ({"a": {"b": 1}}, "the file has no rows"),
        ([row(label=None)], "no row has a label .*--label-field"),
        ([row(label=[1, 0])], "tied"),
        (
            [row(), {"rubric": "r", "text": "t", "label": 1}],
            r"\$\[1\]: the row has a rubric, but .*\$\[0\] has none",
        ),
    ],
)
def test_files_that_cannot_be_used(path: Path, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        reading(path, value)


def test_files_that_are_not_json(path: Path) -> None:
    """The message has the line; a missing file is reported too."""
    path.write_text('[\n{"question": 1,\n]')
    with pytest.raises(InputError, match=r"labels\.json:3: is not JSON"):
        read_labels(path, {})
    with pytest.raises(InputError, match="no such file; --labels names it"):
        read_labels(path.with_name("other"), {})


def test_a_byte_order_mark_is_no_problem(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps([row()]).encode())
    assert len(read_labels(path, {}).rows) == 1


def test_many_problems_are_cut(path: Path) -> None:
    """The rest is counted."""
    with pytest.raises(InputError) as raised:
        reading(path, [row(label=f"{number}?") for number in range(250)])
    assert len(raised.value.problems) == 201
    assert "and 50 more problems" in str(raised.value)
