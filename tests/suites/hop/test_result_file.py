"""The result file on its way to the disk."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from assay.core.protocols import ScorerInput
from assay.core.types import Case, End
from assay.files.redact import Redactor
from assay.suites.hop.batch_lines import result_file_name
from assay.suites.hop.result_file import PartialFile, ResultFile
from assay.suites.hop.rows import HopRow
from assay.suites.hop.store.audit import Audit


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
    """The file can be written all the same."""
    name = result_file_name(tmp_path / f"{stem}.jsonl", 0.0)
    ResultFile(tmp_path / name, "flat", 0.0).close()
    kept, day, clock = name.removesuffix(".jsonl").rsplit("_", 2)
    assert stem.startswith(kept)
    assert 198 <= len(kept.encode()) <= 200
    assert (len(day), len(clock)) == (8, 6)
    assert result_file_name(Path("short.jsonl"), 0.0).startswith("short_19")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rows.jsonl", "rows"),
        ("rows_20260219_103000.jsonl", "rows_20260219_103000"),
        ("rows_20260219_103000_20260220_103000.jsonl", "rows_20260219_103000"),
        ("rows_20260219_103000_20260220_103000_20260221_103000_view.jsonl", "rows_20260219_103000"),
        ("rows_20260219_103000_view.jsonl", "rows"),
        ("rows_20260219_103000_view_20260220_103000_view.jsonl", "rows"),
        ("rows_20260219_103000.partial.jsonl", "rows"),
        ("rows_20260219_103000_view_20260220_103000.jsonl", "rows"),
        ("rows_view.jsonl", "rows_view"),
        ("rows_20260219_103000_b.jsonl", "rows_20260219_103000_b"),
        ("_20260219_103000.jsonl", "_20260219_103000"),
    ],
)
@pytest.mark.parametrize("view", [False, True])
def test_a_batch_over_the_output_of_a_batch_has_the_name_of_its_data(name: str, expected: str, *, view: bool) -> None:
    """However often it is repeated. A first time may be the data's own, as in the names of daily exports."""
    made = result_file_name(Path(name), 1e9, view=view)
    stem = made.removesuffix(".jsonl").removesuffix("_view") if view else made.removesuffix(".jsonl")
    assert stem.rsplit("_", 2)[0] == expected


META = {"_type": "meta", "profile": "p"}


def partial_file(folder: Path, secret: str = "") -> PartialFile:
    return PartialFile(folder / "rows_1.jsonl", [META], "flat", Redactor([secret] if secret else []))


def add_row(file: PartialFile, record: dict[str, Any]) -> None:
    row = HopRow(record["id"], "t", None, None, {}, {}, record, 1, "", "")
    end = End(0, "", "", "p", "ask", 1, "ok", [], None, None, 0, 0.0)
    file.add(ScorerInput(Case(0, "", "", "p", "", None, row), end, []), Audit({}), "{}")


def add_rows(file: PartialFile, *ids: int, word: str = "") -> None:
    async def add() -> None:
        for number in ids:
            add_row(file, {"id": number, "word": word})

    asyncio.run(add())


def ids_in(path: Path) -> list[int]:
    return [json.loads(line)["id"] for line in path.read_text().splitlines() if line.startswith('{"id"')]


def test_a_partial_file_has_the_rows_so_far(tmp_path: Path) -> None:
    """Meta lines come once."""
    file = partial_file(tmp_path)
    add_rows(file, *range(1, 1001))
    assert list(tmp_path.iterdir()) == []
    file.flush()
    assert file.path.name == "rows_1.partial.jsonl"
    add_rows(file, 1001)
    file.flush()
    assert ids_in(file.path) == list(range(1, 1002))
    assert file.path.read_text().count("_type") == 1
    file.remove()
    file.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_partial_file_has_no_secret_and_follows_no_link(tmp_path: Path) -> None:
    """Rows of the data may have a key in them. A file that cannot be written is given up."""
    file = partial_file(tmp_path, secret="sk-very-secret-key")
    add_rows(file, 1, word="sk-very-secret-key")
    file.flush()
    assert b"very-secret" not in file.path.read_bytes()
    assert ids_in(file.path) == [1]
    file.remove()
    other = tmp_path / "other"
    other.touch()
    file.path.symlink_to(other)
    add_rows(file, 2)
    file.flush()
    assert other.read_bytes() == b""
    add_rows(file, 3)
    file.flush()


def test_rows_are_written_while_the_batch_runs(tmp_path: Path) -> None:
    """By the loop, without a further call."""

    async def run() -> None:
        file = PartialFile(tmp_path / "rows_1.jsonl", [META], "flat", Redactor([]), seconds=0.01)
        for _ in range(500):
            add_row(file, {"id": 1})
        while not file.path.exists() or len(ids_in(file.path)) < 500:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    asyncio.run(run())
