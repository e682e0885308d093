"""A small valid sample, a user in HaluMem's schema, and functions that change it and write it to files."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.core.errors import InputError
from assay.suites.memory.eval.sample import Sample
from assay.suites.memory.eval.sample_files import load_samples

EXAMPLES = Path(__file__).parents[4] / "examples" / "memory-eval"

GOOD: dict[str, Any] = {
    "sample_id": "ada",
    "sessions": [
        {
            "_v2_session_id": "S00",
            "dialogue": [{"role": "user", "content": "I am Ada.", "timestamp": "2024-03-01 10:00"}],
            "memory_points": [{"memory_id": "mp_S00_1", "memory_content": "The user is called Ada."}],
        },
        {
            "session_id": "S01",
            "dialogue": [
                {
                    "role": "user",
                    "content": "I live in Bern.",
                    "timestamp": "2024-03-02 10:00",
                    "attachments": [{"caption": "a tram", "image_id": "S01_img_1"}],
                },
                {"role": "assistant", "content": "A fine town."},
            ],
        },
        {"session_id": "S02", "dialogue": [{"role": "user", "content": "I moved to Basel."}]},
    ],
    "memory_points": [
        {
            "session_id": "S01",
            "memory_points": [
                {"memory_id": "mp_S01_1", "memory_content": "Ada lives in Bern.", "is_update": False},
                {
                    "memory_id": "mp_S01_2",
                    "memory_content": "The tram is for sale.",
                    "memory_source": "interference",
                },
            ],
        },
        {
            "session_id": "S02",
            "memory_points": [
                {
                    "memory_id": "mp_S02_1",
                    "memory_content": "Ada lives in Basel.",
                    "memory_source": "primary",
                    "is_update": "True",
                    "original_memories": ["Ada lives in Bern."],
                }
            ],
        },
    ],
    "qa_checkpoints": [
        {
            "checkpoint_id": "early",
            "covered_sessions": ["S00", "S01"],
            "questions": [
                {
                    "question": "Where does Ada live?",
                    "answer": "Bern",
                    "evidence": [{"memory_id": "mp_S01_1"}, {"image_id": "S01_img_1"}],
                    "question_type": "factual_recall",
                    "question_type_abbrev": "FR",
                    "difficulty": "easy",
                }
            ],
        },
        {
            "checkpoint_id": "late",
            "covered_sessions": ["S00", "S01", "S02"],
            "questions": [
                {
                    "question": "Where does Ada live?",
                    "answer": "Basel",
                    "evidence": [{"memory_id": "mp_S02_1"}],
                },
                {"question": "How many moves?", "answer": 1},
            ],
        },
    ],
}

Path_ = tuple[str | int, ...]

_POINT = {"index": 1, "memory_type": "Persona Memory", "importance": 0.75, "memory_source": "primary"}
HALUMEM_USER: dict[str, Any] = {
    "uuid": "u-7",
    "persona_info": "Name: Ada; ...",
    "sessions": [
        {
            "start_time": "Sep 04, 2025, 21:12:18",
            "end_time": "Sep 04, 2025, 21:40:00",
            "dialogue": [
                {
                    "role": "user",
                    "content": "I live in Bern.",
                    "timestamp": "Sep 04, 2025, 21:12:18",
                    "dialogue_turn": 0,
                },
                {"role": "assistant", "content": "A fine town.", "dialogue_turn": 0},
            ],
            "memory_points": [
                {
                    **_POINT,
                    "memory_content": "Ada lives in Bern.",
                    "is_update": "False",
                    "original_memories": [],
                },
                {**_POINT, "memory_content": "Trams are for sale.", "memory_source": "interference"},
            ],
        },
        {
            "start_time": "Oct 01, 2025, 08:00:00",
            "dialogue": [{"role": "user", "content": "I moved to Basel."}],
            "memory_points": [
                {
                    **_POINT,
                    "memory_content": "Ada lives in Basel.",
                    "is_update": "True",
                    "original_memories": ["Ada lives in Bern."],
                }
            ],
            "questions": [
                {
                    "question": "Where did Ada live before?",
                    "answer": "Bern",
                    "evidence": [{"memory_content": "Ada lives in Bern.", "memory_type": "Persona Memory"}],
                    "difficulty": "easy",
                    "question_type": "Basic Fact Recall",
                },
                {
                    "question": "Does Ada ski?",
                    "answer": "Unknown",
                    "evidence": [],
                    "question_type": "Memory Boundary",
                },
            ],
        },
        {
            "is_generated_qa_session": True,
            "dialogue": [{"role": "user", "content": "What is a prime?"}],
            "memory_points": [{**_POINT, "memory_content": "Noise."}],
            "questions": [{"question": "?", "answer": "!"}],
        },
    ],
    "token_cost": {},
    "total_question_count": 2,
}


def changed(path: Path_, value: Any) -> dict[str, Any]:
    """Return the valid sample with another value at one key path."""
    sample = deepcopy(GOOD)
    *above, last = path
    inside: Any = sample
    for step in above:
        inside = inside[step]
    inside[last] = value
    return sample


def without(path: Path_) -> dict[str, Any]:
    """Return the valid sample without one key."""
    sample = deepcopy(GOOD)
    *above, last = path
    inside: Any = sample
    for step in above:
        inside = inside[step]
    del inside[last]
    return sample


def written(path: Path, value: Any) -> Path:
    """Write a value as a JSON file and return its path."""
    path.write_bytes(msgspec.json.encode(value))
    return path


def loaded(path: Path, value: Any = GOOD) -> list[Sample]:
    """Write a value as a file and return the samples that are read from it."""
    return load_samples(written(path, value)).samples


def problems(path: Path) -> list[str]:
    """Return the problems that prevent a run, without the name of the folder."""
    with pytest.raises(InputError) as caught:
        load_samples(path)
    folder = path if path.is_dir() else path.parent
    return [str(problem).replace(f"{folder}/", "") for problem in caught.value.problems]
