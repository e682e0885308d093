"""The result file on its way to the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.hop_records import result_file_name
from assay.suites.hop.files import ResultFile


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


@pytest.mark.parametrize("stem", ["n" * 250, "数" * 83, "x" + "数" * 80])
def test_a_name_that_gets_too_long_is_cut(tmp_path: Path, stem: str) -> None:
    """A batch over its own output adds a time to the name each time: the file can be written all the same."""
    name = result_file_name(tmp_path / f"{stem}.jsonl", 0.0)
    ResultFile(tmp_path / name, "flat", 0.0).close()
    kept, day, clock = name.removesuffix(".jsonl").rsplit("_", 2)
    assert stem.startswith(kept)
    assert 198 <= len(kept.encode()) <= 200
    assert (len(day), len(clock)) == (8, 6)
    assert result_file_name(Path("short.jsonl"), 0.0).startswith("short_19")
