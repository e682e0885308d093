"""The names of result files: one for each run, the same at every start of it."""

from __future__ import annotations

from pathlib import Path

from assay.core.protocols import RunFacts
from assay.suites.hop.writing import ResultFile, result_path


def path_for(tmp_path: Path, run: str) -> Path:
    (tmp_path / run).mkdir(exist_ok=True)
    facts = RunFacts(1_800_000_000.0, 1.0, tmp_path / run)
    return result_path(tmp_path, Path("data/rows.jsonl"), facts)


def written(path: Path) -> Path:
    file = ResultFile(path, "flat", 0.0)
    file.close()
    return path


def test_runs_of_one_second_have_files_of_their_own(tmp_path: Path) -> None:
    """Whether the other one is written already or only begun; each run finds its own again."""
    first = written(path_for(tmp_path, "a"))
    begun = path_for(tmp_path, "b")
    third = path_for(tmp_path, "c")
    stem = first.stem
    assert [path.name for path in (begun, third)] == [f"{stem}_2.jsonl", f"{stem}_3.jsonl"]
    assert [path_for(tmp_path, run) for run in "abc"] == [first, begun, third]
    written(third)
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == [first.name, third.name]


def test_a_file_appears_whole(tmp_path: Path) -> None:
    """Until it is closed there is none of its name, and afterwards nothing else is left."""
    path = path_for(tmp_path, "a")
    file = ResultFile(path, "flat", 0.0)
    assert not path.exists()
    file.close()
    assert [one.name for one in tmp_path.iterdir() if one.is_file()] == [path.name]


def test_a_start_that_was_killed_while_it_wrote_is_no_obstacle(tmp_path: Path) -> None:
    """The next one writes over what it left."""
    path = path_for(tmp_path, "a")
    (tmp_path / f".{path.name}.tmp").write_text('{"half')
    written(path_for(tmp_path, "a"))
    assert path.read_text() == ""
