"""The suite before a run: its cases, its identity, and its output folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import InputError
from assay.engine.cases import Cases
from assay.runner.opening import open_run
from assay.suites.memory.answer_prompt import plain_prompt
from assay.suites.memory.test.options import MemoryTestOptions
from assay.suites.memory.test.sink import Sink, output_folders
from assay.suites.memory.test.suite import REFERENCES, MemoryTestSuite

from support.memory_talks import Talks, talk


def built(talks: Talks, **options: Any) -> MemoryTestSuite:
    """Return the suite of a run that is not started."""
    return MemoryTestSuite(assay.spec("memory-test", **talks.values(**options)))


def test_equal_conversations_of_two_names_are_two_cases(tmp_path: Path) -> None:
    """`assay compare` pairs cases by their keys."""
    suite = built(Talks(tmp_path, talk(4, "a"), talk(4, "b")), memory=["bm25", "none"])
    cases = list(Cases(suite, suite.rows()).load(lambda index: index == 1, 1))
    assert [(case.index, case.label, case.subject) for case in cases] == [
        (0, "a", "bm25"),
        (2, "b", "bm25"),
        (3, "b", "none"),
    ]
    assert cases[0].key != cases[1].key == cases[2].key


def test_another_wording_is_another_run(tmp_path: Path) -> None:
    """With --no-answer the answer prompt does not count."""
    talks = Talks(tmp_path)
    assert built(talks).ask_identity()["prompt"] == plain_prompt().fingerprint
    assert built(talks, no_answer=True).ask_identity()["prompt"] is None


@pytest.mark.parametrize(("limit", "count"), [(None, 3), (2.0, 2), (0.5, 2), (0.1, 1), (9.0, 3)])
def test_a_limit_is_a_number_or_a_share_of_conversations(tmp_path: Path, limit: float | None, count: int) -> None:
    talks = Talks(tmp_path, *(talk(2, name) for name in "abc"))
    assert built(talks, limit=limit).rows().count == count


def test_reference_memories_come_last_and_once(tmp_path: Path) -> None:
    names = list(built(Talks(tmp_path), memory=["hybrid", "bm25"], references=True).memories)
    assert names == ["hybrid", "bm25", *(name for name in REFERENCES if name != "bm25")]
    alone = list(built(Talks(tmp_path), memory=["hybrid"], references=True).memories)
    assert alone == ["hybrid", "none", "FUMemory", "STMemory", "bm25", "oracle"]


def test_an_empty_folder_is_free(tmp_path: Path) -> None:
    """A run that was killed before its first file finds its folder again."""
    folders = output_folders(tmp_path, ["m"], "locomo", 0.0, "run-1")
    assert output_folders(tmp_path, ["m"], "locomo", 0.0, "run-1") == folders
    assert [path.parent for path in folders.values()] == [tmp_path / "locomo"]


def test_a_folder_is_taken_before_its_files_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_building_a_suite_reads_no_row(tmp_path: Path) -> None:
    """A suite can be built without its data file."""
    suite = built(Talks(tmp_path), data=f"{tmp_path}/not-there.json", judge="offline")
    assert suite.ask_identity()["memories"]
    assert set(suite.roles) == {"answer", "build"}
    with pytest.raises(InputError, match="there is no such file; --data names it"):
        suite.rows()


def test_the_default_folder_is_that_of_the_format(tmp_path: Path) -> None:
    """Without --output-dir SAGE's folder is used. List options accept commas."""
    values = Talks(tmp_path).values(memory=["bm25, none", "oracle"])
    del values["output_dir"]
    spec = open_run(assay.spec("memory-test", **values), asks=False).spec
    assert spec.output_dir == ".sage/benchmarks/benchmark_memory"
    assert isinstance(spec.options, MemoryTestOptions)
    assert spec.options.memory == ["bm25", "none", "oracle"]


def test_an_overview_says_how_often_it_will_ask(tmp_path: Path) -> None:
    """Questions are asked again in every test: four questions in two tests are six answers a memory."""
    talks = Talks(tmp_path)
    suite = built(talks, memory=["bm25", "GAMemory"], segments=2, judge="openai/judge", votes=3)
    overview = suite.overview(suite.rows())
    assert overview.facts["questions"] == "4"
    assert overview.facts["messages"] == "4"
    assert overview.facts["tests"].startswith("2 ")
    assert overview.facts["questions asked"] == "6 for each memory"
    calls = {planned.what: planned for planned in overview.calls}
    assert calls["answers"].calls == 12
    assert calls["answers"].input_tokens is not None
    assert 500 < calls["answers"].input_tokens < 5_000
    assert calls["GAMemory itself"].calls is None
    assert calls["verdicts, at most"].calls == 36
    assert talks.asked() == []
    once = built(talks, segments=1, judge="openai/judge", votes=3)
    (verdicts,) = [planned for planned in once.overview(once.rows()).calls if planned.what == "verdicts"]
    assert verdicts.calls == 12
    assert built(talks, no_answer=True, model="").overview(suite.rows()).calls == []
