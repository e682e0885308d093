"""The result file on its way to the disk."""

from __future__ import annotations

from pathlib import Path

from assay.suites.hop.writing import ResultFile


def test_a_file_appears_whole(tmp_path: Path) -> None:
    """Until it is closed there is none of its name, and afterwards nothing else is left."""
    path = tmp_path / "rows.jsonl"
    file = ResultFile(path, "flat", 0.0)
    assert not path.exists()
    file.close()
    assert list(tmp_path.iterdir()) == [path]


def test_a_start_that_was_killed_while_it_wrote_is_no_obstacle(tmp_path: Path) -> None:
    """The next one writes over what it left."""
    path = tmp_path / "rows.jsonl"
    (tmp_path / ".rows.jsonl.tmp").write_text('{"half')
    ResultFile(path, "flat", 0.0).close()
    assert path.read_text() == ""
