"""HaluMem's published schema, tested on an invented user."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

from assay.suites.memory.eval.sample import Sample, SampleTurn
from assay.suites.memory.eval.sample_files import has_samples, load_samples

from suites.memory.eval.files import EXAMPLES, HALUMEM_USER as USER, problems, written
from support.suite_files import problems_in

UNKNOWN = "no point of this session or an earlier one has this text"


def sample(tmp_path: Path, user: dict[str, Any] = USER) -> Sample:
    """Return the sample of a line of a JSONL file."""
    (tmp_path / "HaluMem-Medium.jsonl").write_text(json.dumps(user) + "\n")
    (only,) = load_samples(tmp_path / "HaluMem-Medium.jsonl").samples
    return only


def test_sessions_and_points_get_ids_by_position(tmp_path: Path) -> None:
    """The points of the output have all keys of the data and the id."""
    user = sample(tmp_path)
    assert (user.sample_id, user.sample_uuid) == ("u-7", "u-7")
    assert [session.id for session in user.sessions] == ["S01", "S02", "S03"]
    first, second, _ = user.sessions
    assert [point.memory_id for point in first.new] == ["mp_S01_1"]
    assert [point.content for point in first.interference] == ["Trams are for sale."]
    (update,) = second.updates
    assert update.original == ("Ada lives in Bern.",)
    assert update.raw == {"memory_id": "mp_S02_1", **USER["sessions"][1]["memory_points"][0]}


def test_turns_have_roles_and_the_date_of_their_session(tmp_path: Path) -> None:
    first, second, _ = sample(tmp_path).sessions
    assert first.turns[0] == SampleTurn("user", "I live in Bern.", "Sep 04, 2025, 21:12:18")
    assert second.turns[0].timestamp == "Oct 01, 2025, 08:00:00"


def test_questions_are_asked_after_their_session(tmp_path: Path) -> None:
    """Evidence quotes points. It may be a point of an earlier session, or nothing."""
    user = sample(tmp_path)
    assert [len(user.questions_after(session.id)) for session in user.sessions] == [0, 2, 0]
    checkpoint, part, question = user.questions_after("S02")[0]
    assert (checkpoint, part) == ("after_S02", "after_S02/1")
    assert (question.evidence, question.contents) == (("mp_S01_1",), ("Ada lives in Bern.",))
    assert (question.type, question.abbrev, question.difficulty) == ("Basic Fact Recall", "BFR", "easy")
    assert question.date == "Oct 01, 2025, 08:00:00"
    boundary = user.questions_after("S02")[1].question
    assert (boundary.abbrev, boundary.evidence, boundary.contents) == ("MB", (), ())


def test_the_end_of_a_session_is_the_date_of_its_questions(tmp_path: Path) -> None:
    user = deepcopy(USER)
    user["sessions"][1]["end_time"] = "Oct 01, 2025, 09:00:00"
    assert sample(tmp_path, user).questions_after("S02")[0].question.date == "Oct 01, 2025, 09:00:00"


def test_generated_sessions_are_inserted_but_not_scored(tmp_path: Path) -> None:
    last = sample(tmp_path).sessions[-1]
    assert (len(last.turns), last.points) == (1, ())


def test_the_example_is_sound() -> None:
    path = EXAMPLES.with_name("memory") / "halumem.jsonl"
    assert problems_in(path) == []
    (user,) = load_samples(path).samples
    assert [question.abbrev for _, _, question in user.questions_after("S02")] == ["DU", "BFR", "MB"]


def test_a_file_of_halumem_is_recognised_and_checked(tmp_path: Path) -> None:
    """Each mistake has its place in the line of its user."""
    sample(tmp_path)
    path = tmp_path / "HaluMem-Medium.jsonl"
    assert has_samples(path)
    assert problems_in(path) == []
    user = deepcopy(USER)
    user["sessions"][1]["questions"][0]["evidence"][0]["memory_content"] = "Ada lives in Rome."
    user["sessions"][1]["memory_points"][0]["original_memories"] = ["Ada lives in Oslo."]
    user["sessions"][0]["dialogue"] = []
    path.write_text(json.dumps(USER) + "\n" + json.dumps(user | {"uuid": "u-8"}) + "\n")
    told = [str(problem).removeprefix(f"{path}:") for problem in problems_in(path)]
    assert told == [
        "2 $.sessions[0].dialogue: is empty: the session has no turns",
        "2 $.sessions[1].memory_points[0].original_memories: no earlier point has the text 'Ada lives in Oslo.'",
        "2 $.sessions[1].questions[0].evidence[0].memory_content: " + UNKNOWN,
    ]


def test_problems_of_a_user_have_their_places(tmp_path: Path) -> None:
    user = deepcopy(USER)
    del user["sessions"][0]["dialogue"][0]["content"]
    user["sessions"][1]["questions"][0]["evidence"] = "Ada lives in Bern."
    written(tmp_path / "a.json", [user])
    assert problems(tmp_path / "a.json") == [
        "a.json $[0].sessions[0].dialogue[0].content: is missing",
        "a.json $[0].sessions[1].questions[0].evidence: must be a list, not a text",
    ]
