"""WorldMemArena's published layout, tested on an invented sample: one file for each sample, in folders by kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.suites.memory.eval.sample_files import load_samples

from suites.memory.eval.files import written
from support.suite_files import problems_in

IMAGE = {"caption": "a red kayak", "type": "image", "image_id": "S01_img_1", "file_path": "images/kayak.png"}


def point(name: str, text: str, **more: Any) -> dict[str, Any]:
    """Return a point with all keys of the published data."""
    return {
        "memory_id": name,
        "memory_content": text,
        "memory_type": "Event",
        "memory_source": "primary",
        "is_update": "False",
        "original_memories": [],
        "importance": 0.7,
        "timestamp": "2025-02-01 09:00",
        "update_type": "",
        **more,
    }


def sample(name: str) -> dict[str, Any]:
    """Return a sample with a bootstrap session, whose points are inside it."""
    talk = {
        "role": "user",
        "content": "I bought a kayak.",
        "timestamp": "2025-02-02 10:00",
        "attachments": [IMAGE],
    }
    update = point("mp_S02_1", "Kim owns two kayaks.", is_update="True", original_memories=["Kim owns a kayak."])
    return {
        "sample_id": name,
        "sessions": [
            {
                "_v2_session_id": "S00",
                "dialogue": [{"role": "user", "content": "I am Kim.", "timestamp": "2025-02-01 09:00"}],
                "memory_points": [point("mp_S00_1", "The user is called Kim.", memory_source="system")],
            },
            {"_v2_session_id": "S01", "dialogue": [talk, {"role": "assistant", "content": "Nice."}]},
            {"_v2_session_id": "S02", "dialogue": [{"role": "user", "content": "And a second one."}]},
        ],
        "memory_points": [
            {"session_id": "S01", "memory_points": [point("mp_S01_1", "Kim owns a kayak.")]},
            {"session_id": "S02", "memory_points": [update]},
        ],
        "qa_checkpoints": [
            {
                "checkpoint_id": "probe_1",
                "covered_sessions": ["S00", "S01"],
                "questions": [
                    {
                        "question": "What colour is the kayak?",
                        "answer": "Red",
                        "evidence": [{"image_id": "S01_img_1"}, {"memory_id": "mp_S01_1"}],
                        "question_type": "visual_factual_recall",
                        "question_type_abbrev": "VFR",
                        "difficulty": "easy",
                    }
                ],
            },
            {"checkpoint_id": "probe_2", "covered_sessions": ["S02", "S01"], "questions": []},
        ],
    }


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for folder, name in (("lifelong", "life_001"), ("agent", "agent_001")):
        (tmp_path / folder).mkdir()
        written(tmp_path / folder / f"{name}.json", sample(name))
    return tmp_path


def test_samples_are_found_in_their_folders(data: Path) -> None:
    assert [each.sample_id for each in load_samples(data).samples] == ["agent_001", "life_001"]


def test_a_sample_has_points_captions_and_checkpoints(data: Path) -> None:
    first = load_samples(data).samples[0]
    assert [[point.memory_id for point in session.points] for session in first.sessions] == [
        ["mp_S00_1"],
        ["mp_S01_1"],
        ["mp_S02_1"],
    ]
    (message,) = first.messages["S01"]
    assert message.text == "user: I bought a kayak. (shows a red kayak)\nassistant: Nice."
    ((_, part, question),) = first.questions_after("S01")
    assert (part, question.abbrev, question.contents) == ("probe_1/1", "VFR", ("Kim owns a kayak.",))
    assert first.sessions[2].updates[0].raw["importance"] == 0.7


def test_the_check_knows_the_layout(data: Path) -> None:
    """Only the checkpoint without a question is remarkable."""
    messages = {problem.message for problem in problems_in(data)}
    assert messages == {"is empty: the checkpoint asks nothing"}
