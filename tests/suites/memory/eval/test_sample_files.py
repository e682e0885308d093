"""Reading samples in every layout, and reporting problems with their places."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.core.errors import InputError
from assay.core.memory import Turn
from assay.suites.memory.eval.sample import SampleTurn
from assay.suites.memory.eval.sample_files import check_samples, load_samples
from assay.suites.memory.eval.sample_schema import CHECKPOINTS, MAIN, POINTS

from suites.memory.eval.files import GOOD, Path_, changed, loaded, problems, without, written

NO_LIST = "expected an object, found a list; write one object after the other, without [ ] and commas around them"


def test_a_sample_has_all_that_the_data_says(tmp_path: Path) -> None:
    (sample,) = loaded(tmp_path / "a.json")
    assert (sample.sample_id, sample.sample_uuid) == ("ada", "ada")
    assert [session.id for session in sample.sessions] == ["S00", "S01", "S02"]
    assert sample.sessions[1].turns == (
        SampleTurn("user", "I live in Bern.", "2024-03-02 10:00", ("a tram",)),
        SampleTurn("assistant", "A fine town."),
    )
    question = sample.checkpoints[0].questions[0]
    assert (question.text, question.answer, question.type) == (
        "Where does Ada live?",
        "Bern",
        "factual_recall",
    )
    assert (question.abbrev, question.difficulty) == ("FR", "easy")
    assert sample.checkpoints[1].covered == ("S00", "S01", "S02")


def test_a_round_has_its_turns_with_their_roles(tmp_path: Path) -> None:
    """The text of a message is the whole round. Its turns have the captions too, and no role in their texts."""
    (sample,) = loaded(tmp_path / "a.json")
    (message,) = sample.messages["S01"]
    assert message.text == "user: I live in Bern. (shows a tram)\nassistant: A fine town."
    assert message.turns == (
        Turn("user", "I live in Bern. (shows a tram)"),
        Turn("assistant", "A fine town."),
    )


def test_speakers_that_are_no_roles_of_a_chat_give_no_turns(tmp_path: Path) -> None:
    (sample,) = loaded(tmp_path / "a.json", changed(("sessions", 1, "dialogue", 1, "role"), "Bob"))
    assert [message.turns for message in sample.messages["S01"]] == [()]
    assert sample.messages["S00"][0].turns == (Turn("user", "I am Ada."),)


def test_points_are_new_updates_or_interference(tmp_path: Path) -> None:
    """Points inside a session count like points in blocks. `raw` keeps all keys."""
    (sample,) = loaded(tmp_path / "a.json")
    bootstrap, first, second = sample.sessions
    assert [point.content for point in bootstrap.new] == ["The user is called Ada."]
    assert [point.memory_id for point in first.new] == ["mp_S01_1"]
    assert [point.memory_id for point in first.interference] == ["mp_S01_2"]
    (update,) = second.updates
    assert update.original == ("Ada lives in Bern.",)
    assert update.raw == GOOD["memory_points"][1]["memory_points"][0]


@pytest.mark.parametrize(("value", "update"), [("True", True), ("false", False), (True, True), (None, False)])
def test_an_update_is_marked_by_a_truth_or_a_text(tmp_path: Path, value: Any, update: bool) -> None:
    path = ("memory_points", 0, "memory_points", 0, "is_update")
    (sample,) = loaded(tmp_path / "a.json", changed(path, value))
    assert sample.sessions[1].points[0].update is update


def test_evidence_that_is_not_known_has_no_content(tmp_path: Path) -> None:
    """Its id stays in the output."""
    question = loaded(tmp_path / "a.json")[0].checkpoints[0].questions[0]
    assert question.evidence == ("mp_S01_1", "S01_img_1")
    assert question.contents == ("Ada lives in Bern.",)


@pytest.mark.parametrize(("answer", "text"), [(1, "1"), (2.5, "2.5"), (True, "true"), ("", "")])
def test_an_answer_is_a_text(tmp_path: Path, answer: Any, text: str) -> None:
    (sample,) = loaded(tmp_path / "a.json", changed(("qa_checkpoints", 1, "questions", 1, "answer"), answer))
    assert sample.checkpoints[1].questions[1].answer == text


def test_a_turn_may_show_an_image_alone(tmp_path: Path) -> None:
    path = ("sessions", 1, "dialogue", 0, "content")
    assert loaded(tmp_path / "a.json", without(path))[0].sessions[1].turns[0].captions == ("a tram",)
    written(tmp_path / "a.json", without(("sessions", 1, "dialogue", 1, "content")))
    assert problems(tmp_path / "a.json") == ["a.json $.sessions[1].dialogue[1].content: is missing"]


def test_ids_may_be_numbers(tmp_path: Path) -> None:
    (sample,) = loaded(tmp_path / "a.json", changed(("sample_id",), 7))
    assert sample.sample_id == "7"


def test_a_folder_is_read_by_path_and_hidden_files_are_not(tmp_path: Path) -> None:
    """Subfolders are read too. A file has a list of samples, or one sample per line."""
    (tmp_path / "b").mkdir()
    (tmp_path / ".old").mkdir()
    written(tmp_path / "b" / "x.json", changed(("sample_id",), "third"))
    written(tmp_path / "a.json", [changed(("sample_id",), "first"), changed(("sample_id",), "second")])
    lines = [msgspec.json.encode(changed(("sample_id",), name)) for name in ("fourth", "fifth")]
    (tmp_path / "c.jsonl").write_bytes(b"\n".join(lines))
    (tmp_path / "README.md").write_text("not data")
    written(tmp_path / ".old" / "x.json", {"broken": 1})
    samples = load_samples(tmp_path).samples
    assert [sample.sample_id for sample in samples] == ["first", "second", "third", "fourth", "fifth"]


def test_all_problems_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    written(tmp_path / "a.json", changed(("sessions", 0, "dialogue", 0, "role"), 1))
    written(tmp_path / "b.json", [changed(("sample_id",), "b"), without(("sessions", 0, "dialogue"))])
    (tmp_path / "c.json").write_text('{"sample_id":\n oh')
    bad = msgspec.json.encode(without(("sample_id",)))
    (tmp_path / "d.jsonl").write_bytes(b"\n" + bad + b"\n[]\n{}\n")
    assert problems(tmp_path) == [
        "a.json $.sessions[0].dialogue[0].role: must be a text, not a number",
        "b.json $[1].sessions[0].dialogue: is missing",
        "c.json:2: is not JSON: invalid character in line 2, column 2",
        "d.jsonl:2 $.sample_id: is missing",
        f"d.jsonl:3: {NO_LIST}",
        "d.jsonl:4 $.sessions: is missing",
    ]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("sessions",), [], "$.sessions: is empty: a sample needs at least one session"),
        (("sessions", 2, "session_id"), "S01", "$.sessions[2].session_id: duplicate id 'S01', first used at $.sessions[1].session_id"),
        (("qa_checkpoints", 1, "checkpoint_id"), "early", "$.qa_checkpoints[1].checkpoint_id: duplicate id 'early', first used at $.qa_checkpoints[0].checkpoint_id"),
        (("qa_checkpoints", 0, "covered_sessions"), ["S09"], "$.qa_checkpoints[0].covered_sessions[0]: the sample has no session 'S09'"),
        (("memory_points", 0, "session_id"), "S09", "$.memory_points[0].session_id: the sample has no session 'S09'"),
        (("qa_checkpoints", 0, "questions", 0, "question"), " ", "$.qa_checkpoints[0].questions[0].question: is empty"),
        (("qa_checkpoints", 0, "questions", 0, "evidence"), [{}], "$.qa_checkpoints[0].questions[0].evidence[0].memory_id: is missing"),
    ],
)  # fmt: skip
def test_data_that_prevents_a_run_is_refused(tmp_path: Path, path: Path_, value: Any, message: str) -> None:
    written(tmp_path / "a.json", changed(path, value))
    assert f"a.json {message}" in problems(tmp_path / "a.json")


def test_a_sample_id_stands_once_in_all_files(tmp_path: Path) -> None:
    written(tmp_path / "a.json", GOOD)
    written(tmp_path / "b.json", GOOD)
    assert problems(tmp_path) == ["b.json $: duplicate id 'ada', first used at a.json $"]


def test_missing_files_and_empty_folders_are_reported(tmp_path: Path) -> None:
    assert problems(tmp_path) == [f"{tmp_path}: this folder has no .json or .jsonl file"]
    assert "there is no such file; --dataset must be a sample file" in problems(tmp_path / "x.json")[0]
    assert problems(written(tmp_path / "y.json", [])) == ["y.json: there is no sample in it"]


def leaves(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Yield the path of every value below a value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inside:
        yield (*path, key)
        yield from leaves(below, (*path, key))


def is_refused(path: Path) -> bool:
    """Return whether a file is refused. Asserts that `assay check` reports the same problems."""
    try:
        samples = load_samples(path).samples
    except InputError as error:
        problems_list = error.problems
    else:
        assert len(samples) == 1
        return False
    assert problems_list
    assert set(problems_list) <= set(check_samples(path))
    return True


@pytest.mark.parametrize(
    ("wrong", "refused"),
    [
        (None, 68),
        (3, 72),
        (2.5, 82),
        (True, 80),
        ("", 69),
        ("x", 50),
        ([], 72),
        (["x"], 87),
        ([{}], 87),
        ({}, 87),
        ({"a": 1}, 87),
    ],
    ids=repr,
)
def test_a_value_of_another_type_is_refused_where_it_matters(tmp_path: Path, wrong: Any, refused: int) -> None:
    """Any value at any key is either read or reported."""
    path = tmp_path / "a.json"
    assert sum(is_refused(written(path, changed(at, wrong))) for at in leaves(GOOD)) == refused


def test_optional_keys_may_be_absent(tmp_path: Path) -> None:
    keys = [path for path in leaves(GOOD) if isinstance(path[-1], str)]
    needed = [path[-1] for path in keys if is_refused(written(tmp_path / "a.json", without(path)))]
    assert len(needed) == 40
    assert not {"timestamp", "attachments", "caption", "is_update", "evidence", "difficulty"} & set(needed)


def test_a_checkpoint_is_due_once_after_its_last_session(tmp_path: Path) -> None:
    """The order in `covered_sessions` does not matter."""
    value = changed(("qa_checkpoints", 0, "covered_sessions"), ["S01", "S00"])
    (sample,) = loaded(tmp_path / "a.json", value)
    due = {session.id: [each.part for each in sample.questions_after(session.id)] for session in sample.sessions}
    assert due == {"S00": [], "S01": ["early/1"], "S02": ["late/1", "late/2"]}


@pytest.mark.parametrize("covered", [[], None])
def test_a_checkpoint_without_sessions_is_due_at_the_end_with_a_warning(tmp_path: Path, covered: Any) -> None:
    path = written(tmp_path / "a.json", changed(("qa_checkpoints", 0, "covered_sessions"), covered))
    loaded = load_samples(path)
    assert loaded.warnings == [
        f"{path} $.qa_checkpoints[0].covered_sessions: names no session, so the checkpoint is asked after the last session"
    ]
    (sample,) = loaded.samples
    assert [each.part for each in sample.questions_after("S02")] == ["early/1", "late/1", "late/2"]


def test_a_cut_leaves_out_checkpoints_that_reach_beyond_it(tmp_path: Path) -> None:
    value = changed(("qa_checkpoints", 1, "covered_sessions"), [])
    value["qa_checkpoints"].append(deepcopy(GOOD["qa_checkpoints"][1]) | {"checkpoint_id": "third"})
    (sample,) = loaded(tmp_path / "a.json", value)
    first, removed = sample.first_sessions(2)
    assert [session.id for session in first.sessions] == ["S00", "S01"]
    assert ([each.id for each in first.checkpoints], removed) == (["early"], 2)
    assert [each.part for each in first.questions_after("S01")] == ["early/1"]
    assert sample.first_sessions(3) == sample.first_sessions(None) == (sample, 0)


def older(folder: Path, **row: Any) -> Path:
    """Write the valid sample in the older layout. `row` changes the ids of the rows."""
    row = row or {"sample_id": "ada"}
    written(folder / MAIN, [{"uuid": "u-1", "sample_id": "ada", "sessions": GOOD["sessions"]}])
    written(folder / POINTS, {**row, "memory_sessions": GOOD["memory_points"]})
    written(folder / CHECKPOINTS, {**row, "checkpoints": GOOD["qa_checkpoints"]})
    return folder


@pytest.mark.parametrize("row", [{"sample_id": "ada"}, {"uuid": "u-1"}, {"uuid": "u-1", "sample_id": "ada"}])
def test_the_older_layout_is_joined_from_three_files(tmp_path: Path, row: dict[str, str]) -> None:
    (newer,) = loaded(tmp_path / "a.json")
    (tmp_path / "older").mkdir()
    folder = older(tmp_path / "older", **row)
    (sample,) = load_samples(folder).samples
    assert (sample.sample_id, sample.sample_uuid) == ("ada", "u-1")
    assert (sample.sessions, sample.checkpoints) == (newer.sessions, newer.checkpoints)
    assert load_samples(folder / MAIN).samples == load_samples(folder / POINTS).samples == [sample]


def test_the_older_layout_takes_the_newer_names_of_its_lists(tmp_path: Path) -> None:
    older(tmp_path)
    written(tmp_path / POINTS, {"sample_id": "ada", "memory_points": GOOD["memory_points"]})
    written(tmp_path / CHECKPOINTS, {"sample_id": "ada", "qa_checkpoints": GOOD["qa_checkpoints"]})
    (sample,) = load_samples(tmp_path).samples
    assert sample.sessions[2].updates
    assert len(sample.checkpoints) == 2


def test_a_sample_without_a_row_is_refused(tmp_path: Path) -> None:
    older(tmp_path, sample_id="eve")
    assert problems(tmp_path) == [
        f"{MAIN} $[0]: {POINTS} has no row for this sample (ada or u-1)",
        f"{MAIN} $[0]: {CHECKPOINTS} has no row for this sample (ada or u-1)",
    ]
    (tmp_path / CHECKPOINTS).unlink()
    assert problems(tmp_path) == [f"{CHECKPOINTS}: there is no such file; it must be in the same folder as {MAIN}"]


def test_rows_of_the_older_layout_have_their_places(tmp_path: Path) -> None:
    """A row without a sample is a warning; two rows of one sample are an error."""
    older(tmp_path)
    row = msgspec.json.encode({"sample_id": "eve", "memory_sessions": []})
    (tmp_path / POINTS).write_bytes((tmp_path / POINTS).read_bytes() + b"\n" + row)
    assert load_samples(tmp_path).warnings == [f"{tmp_path / POINTS}:2: {MAIN} has no sample 'eve'"]
    (tmp_path / POINTS).write_bytes((tmp_path / POINTS).read_bytes() + b"\n" + row)
    written(tmp_path / CHECKPOINTS, {"sample_id": "ada", "checkpoints": [{"checkpoint_id": "x"}]})
    assert problems(tmp_path) == [
        f"{POINTS}:3: duplicate row for the sample 'eve', first on line 2",
        f"{CHECKPOINTS}:1 $.checkpoints[0].questions: is missing",
    ]


def test_many_problems_are_counted(tmp_path: Path) -> None:
    """The list of problems is limited."""
    written(tmp_path / "a.json", [{"x": 1}] * 1_300)
    with pytest.raises(InputError) as caught:
        load_samples(tmp_path)
    assert len(caught.value.problems) == 1_001
    assert str(caught.value.problems[-1]) == f"{tmp_path}: and 300 more errors"
