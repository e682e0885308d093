"""What a run is before it starts: its cases and what makes it another run; and where its files go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import assay
from assay.solvers.memory.answers import ANSWER_PROMPT, prompt_fingerprint
from assay.suites.memory_test.places import folders
from assay.suites.memory_test.plan import REFERENCES, MemoryTestPlan
from assay.suites.memory_test.sink import Sink

from support.memory_talks import Talks, talk


def planned(talks: Talks, **options: Any) -> MemoryTestPlan:
    """The plan of a run that is not started."""
    return MemoryTestPlan(assay.spec("memory-test", **talks.values(**options)))


def test_equal_conversations_of_two_names_are_two_cases(tmp_path: Path) -> None:
    """A comparison pairs them by their keys."""
    plan = planned(Talks(tmp_path, talk(4, "a"), talk(4, "b")), memory=["bm25", "none"])
    cases = list(plan.load(lambda index: index == 1))
    assert [(case.index, case.label, case.subject) for case in cases] == [
        (0, "0000", "bm25"),
        (2, "0001", "bm25"),
        (3, "0001", "none"),
    ]
    assert cases[0].key != cases[1].key == cases[2].key


def test_another_wording_is_another_run(tmp_path: Path) -> None:
    """Only where a model answers."""
    talks = Talks(tmp_path)
    assert planned(talks).ask["prompt"] == prompt_fingerprint(ANSWER_PROMPT)
    assert planned(talks, no_answer=True).ask["prompt"] is None


@pytest.mark.parametrize(("limit", "count"), [(None, 3), (2.0, 2), (0.5, 2), (0.1, 1), (9.0, 3)])
def test_a_limit_is_a_number_or_a_share_of_conversations(
    tmp_path: Path, limit: float | None, count: int
) -> None:
    talks = Talks(tmp_path, *(talk(2, name) for name in "abc"))
    assert planned(talks, limit=limit).total == count


def test_yardsticks_follow_what_is_named_once(tmp_path: Path) -> None:
    found = list(planned(Talks(tmp_path), memory=["hybrid", "bm25"], references=True).memories)
    assert found == ["hybrid", "bm25", *(name for name in REFERENCES if name != "bm25")]
    alone = list(planned(Talks(tmp_path), memory=["hybrid"], references=True).memories)
    assert alone == ["hybrid", "none", "FUMemory", "STMemory", "bm25", "oracle"]


def test_an_empty_folder_is_of_whoever_comes(tmp_path: Path) -> None:
    """A run that was killed before its first file finds its folder again."""
    one = folders(tmp_path, ["m"], "locomo", 0.0, "run-1")
    assert folders(tmp_path, ["m"], "locomo", 0.0, "run-1") == one
    assert [path.parent for path in one.values()] == [tmp_path / "locomo"]


def test_a_folder_is_taken_before_its_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was killed between two files continues in the same folder."""
    talks = Talks(tmp_path, talk(2, "a"), talk(2, "b"))
    write, written = Sink.write, list[Path]()

    def fails(sink: Sink, path: Path) -> None:
        written.append(path)
        if len(written) == 2:
            raise OSError("the disk is full")
        write(sink, path)

    monkeypatch.setattr(Sink, "write", fails)
    assert talks.run().exit_code == 3
    assert {path.parent for path in talks.run().files} == {written[0].parent}
