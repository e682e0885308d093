"""`assay check` for samples: problems that a run accepts, and recognising samples by their keys."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import Problem
from assay.suites.memory.eval import halumem, sample_schema
from assay.suites.memory.eval.sample_files import has_samples, load_samples
from assay.suites.memory.eval.sample_schema import CHECKPOINTS, MAIN, POINTS

from suites.memory.eval.files import EXAMPLES, GOOD, Path_, changed, without, written
from support.suite_files import problems_in

POINT = ("memory_points", 0, "memory_points", 0)
UPDATE = ("memory_points", 1, "memory_points", 0)
QUESTION = ("qa_checkpoints", 0, "questions", 0)


def checked(path: Path) -> list[Problem]:
    """Return the problems that `assay check` reports, without the file name."""
    return [each._replace(where=each.where.removeprefix(f"{path} ")) for each in problems_in(path)]


def test_a_sound_sample_is_fine(tmp_path: Path) -> None:
    assert checked(written(tmp_path / "a.json", GOOD)) == []


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ((*QUESTION, "evidence"), [{"memory_id": "mp_x"}], Problem("$.qa_checkpoints[0].questions[0].evidence[0].memory_id", "the sample has no memory point or image 'mp_x'")),
        ((*QUESTION, "evidence"), [{"image_id": "img"}], Problem("$.qa_checkpoints[0].questions[0].evidence[0].image_id", "the sample has no memory point or image 'img'")),
        ((*QUESTION, "evidence"), [{"memory_id": "mp_S02_1"}], Problem("$.qa_checkpoints[0].questions[0].evidence[0].memory_id", "'mp_S02_1' belongs to session S02, but the checkpoint runs before it, after S01")),
        (("qa_checkpoints", 0, "covered_sessions"), ["S00"], Problem("$.qa_checkpoints[0].questions[0].evidence[1].image_id", "'S01_img_1' belongs to session S01, but the checkpoint runs before it, after S00")),
        ((*QUESTION, "evidence"), [{"memory_id": "mp_S01_2"}], Problem("$.qa_checkpoints[0].questions[0].evidence[0].memory_id", "'mp_S01_2' is interference, which a memory should not store", "warning")),
        ((*QUESTION, "answer"), " ", Problem("$.qa_checkpoints[0].questions[0].answer", "is empty: answers cannot be compared with it")),
        ((*POINT, "memory_id"), "mp_S00_1", Problem("$.memory_points[0].memory_points[0].memory_id", "duplicate id 'mp_S00_1', first used at $.sessions[0].memory_points[0].memory_id")),
        ((*UPDATE, "original_memories"), [], Problem("$.memory_points[1].memory_points[0].original_memories", "is empty, but an update should have the texts that it replaces", "warning")),
        ((*UPDATE, "original_memories"), ["Ada lives."], Problem("$.memory_points[1].memory_points[0].original_memories", "no earlier point has the text 'Ada lives.'", "warning")),
        ((*UPDATE, "original_memories"), ["Ada lives in Basel."], Problem("$.memory_points[1].memory_points[0].original_memories", "no earlier point has the text 'Ada lives in Basel.'", "warning")),
        (("sessions", 2, "dialogue"), [], Problem("$.sessions[2].dialogue", "is empty: the session has no turns", "warning")),
        (("qa_checkpoints", 0, "questions"), [], Problem("$.qa_checkpoints[0].questions", "is empty: the checkpoint asks nothing", "warning")),
    ],
)  # fmt: skip
def test_the_check_reports_problems_that_a_run_accepts(
    tmp_path: Path, path: Path_, value: Any, problem: Problem
) -> None:
    """A run accepts such data; only `assay check` reports it."""
    file = written(tmp_path / "a.json", changed(path, value))
    assert problem in checked(file)
    assert len(load_samples(file).samples) == 1


def test_the_check_also_reports_problems_that_prevent_a_run(tmp_path: Path) -> None:
    """Each problem is reported once."""
    value = changed(("qa_checkpoints", 0, "covered_sessions"), ["S01", "S09"])
    value["memory_points"][0]["session_id"] = "S08"
    path = written(tmp_path / "a.json", value)
    assert checked(path) == [
        Problem("$.memory_points[0].session_id", "the sample has no session 'S08'"),
        Problem("$.qa_checkpoints[0].covered_sessions[1]", "the sample has no session 'S09'"),
        Problem("$.memory_points[1].memory_points[0].original_memories", "no earlier point has the text 'Ada lives in Bern.'", "warning"),
        Problem("$.qa_checkpoints[0].questions[0].evidence[0].memory_id", "the sample has no memory point or image 'mp_S01_1'"),
    ]  # fmt: skip


def test_a_checkpoint_without_sessions_may_ask_about_all_of_them(tmp_path: Path) -> None:
    value = changed(("qa_checkpoints", 1, "covered_sessions"), [])
    assert [each.level for each in checked(written(tmp_path / "a.json", value))] == ["warning"]


def test_blocks_of_points_may_have_another_order_than_sessions(tmp_path: Path) -> None:
    """The check takes the order of sessions from the sessions."""
    value = changed(("memory_points",), GOOD["memory_points"][::-1])
    assert checked(written(tmp_path / "a.json", value)) == []


def test_the_example_of_the_page_is_fine(tmp_path: Path) -> None:
    """The example of the page passes the check, and the page documents every key that is read."""
    page = (EXAMPLES.parents[1] / "docs" / "memory-eval.md").read_text()
    blocks = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert blocks
    for block in blocks:
        (tmp_path / "a.json").write_text(block)
        assert checked(tmp_path / "a.json") == []
    shapes = [
        each
        for module in (sample_schema, halumem)
        for each in vars(module).values()
        if isinstance(each, type) and each.__module__ == module.__name__
    ]
    keys = {name for each in shapes for name in getattr(each, "__struct_encode_fields__", ())}
    assert len(keys) > 20
    assert not {key for key in keys if f"`{key}`" not in page}


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        (GOOD, True),
        ([GOOD], True),
        (without(("memory_points",)), True),
        (without(("qa_checkpoints",)) | {"id": 1, "questions": []}, True),
        ({"sample_id": "x", "sessions": []}, False),
        ({"memory_points": [], "qa_checkpoints": []}, False),
        ([1], False),
        ("x", False),
    ],
)
def test_samples_are_recognised_by_their_keys(tmp_path: Path, value: Any, is_one: bool) -> None:
    path = written(tmp_path / "a.json", value)
    assert has_samples(path) is has_samples(tmp_path) is is_one


def test_jsonl_files_folders_and_the_older_layout_are_recognised(tmp_path: Path) -> None:
    """One sample file in a folder is enough. A broken file or an empty folder is not recognised."""
    (tmp_path / "a.json").write_text("{")
    assert not has_samples(tmp_path)
    assert not has_samples(tmp_path / "absent.json")
    assert not has_samples(tmp_path / POINTS)
    (tmp_path / "b.jsonl").write_text(json.dumps(GOOD))
    assert has_samples(tmp_path / "b.jsonl")
    assert has_samples(tmp_path)
    (tmp_path / "b.jsonl").unlink()
    written(tmp_path / MAIN, [])
    assert all(has_samples(tmp_path / name) for name in ("", MAIN, POINTS, CHECKPOINTS))
