"""Which files count as read by the user's code, and how their list survives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from assay.usercode.modules import load_module
from assay.usercode.opened_files import CodeFiles, note_read, note_written, outdated_files, watch_opens


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of a run, with a file."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    (work / "p.txt").write_text("Hello")
    watch_opens()
    return work


def listed_files(path: Path) -> list[str]:
    """The names of the files in a list."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line)["path"] for line in lines]


def test_a_file_is_listed_before_the_code_has_its_content(here: Path) -> None:
    run = here / "run"
    run.mkdir()
    with CodeFiles(run / "list", apart_from=run):
        assert not (run / "list").exists()
        with (here / "p.txt").open():
            assert listed_files(run / "list") == ["p.txt"]
    assert outdated_files(run / "list") == []
    (here / "p.txt").write_text("Howdy")
    assert outdated_files(run / "list") == ["p.txt"]


def test_the_list_moves_with_its_folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path is that from the working folder. A copied project must not look at the files of the original."""
    with CodeFiles(here / "list"):
        (here / "p.txt").read_text()
    copy = here.with_name("copy")
    here.rename(copy)
    monkeypatch.chdir(copy)
    assert outdated_files(copy / "list") == []


def test_equal_content_is_no_change_whatever_its_time(here: Path) -> None:
    with CodeFiles(here / "list"):
        (here / "p.txt").read_text()
    (here / "p.txt").unlink()
    (here / "p.txt").write_text("Hello")
    assert outdated_files(here / "list") == []


def test_the_next_start_goes_on_with_the_list_after_a_torn_line(here: Path) -> None:
    """The code never got the content of the file of the torn line."""
    with CodeFiles(here / "list"):
        (here / "p.txt").read_text()
    with (here / "list").open("ab") as file:
        file.write(b'{"path":"q.tx')
    assert outdated_files(here / "list") == []
    (here / "q.txt").write_text("Hi")
    with CodeFiles(here / "list"):
        (here / "p.txt").read_text()
        (here / "q.txt").read_text()
    assert listed_files(here / "list") == ["p.txt", "q.txt"]
    assert outdated_files(here / "list") == []


@pytest.mark.parametrize("line", [b'{"path":"p.txt","size":5,', b'{"path":"q.txt","size":5,"crc":"00000000"}'])
def test_a_damaged_line_is_counted_and_left_out(here: Path, line: bytes) -> None:
    """It must not cost the replies of the run. So it must not count as a changed file."""
    with CodeFiles(here / "list"):
        (here / "p.txt").read_text()
    with (here / "list").open("ab") as file:
        file.write(line + b"\n")
    assert outdated_files(here / "list") == []
    assert CodeFiles(here / "list").damaged == 1
    (here / "p.txt").write_text("Bye")
    assert outdated_files(here / "list") == ["p.txt"]


def test_a_line_of_another_run_is_damage(here: Path) -> None:
    for run in ("one", "two"):
        (here / run).mkdir()
    with CodeFiles(here / "one" / "list"):
        (here / "p.txt").read_text()
    (here / "two" / "list").write_bytes((here / "one" / "list").read_bytes())
    assert CodeFiles(here / "two" / "list").damaged == 1


def test_files_that_nobody_edits_for_a_run_are_left_out(here: Path, tmp_path: Path) -> None:
    """Hidden files, temporary files outside of the working folder, those of Python, devices, the runs themselves."""
    (here / "runs").mkdir()
    for file in (here / ".key", here / "runs" / "a", tmp_path / "elsewhere"):
        file.write_text("x")
    with CodeFiles(here / "list", apart_from=here / "runs"):
        for file in (here / ".key", here / "runs" / "a", tmp_path / "elsewhere", Path(pytest.__file__)):
            file.read_text()
        Path("/etc/hostname").read_text()
        Path("/proc/self/stat").read_text()
    assert listed_files(here / "list") == []


def test_a_file_that_the_code_writes_after_it_read_it_is_no_input_in_later_starts_either(here: Path) -> None:
    with CodeFiles(here / "list"):
        (here / "p.txt").read_text()
    with CodeFiles(here / "list"):
        (here / "p.txt").write_text("mine")
    (here / "p.txt").write_text("anything")
    assert outdated_files(here / "list") == []


def test_a_file_of_another_process_that_was_saved_since_counts_as_changed(here: Path) -> None:
    """The process tells size and time of what it read. The content of then is gone."""
    with CodeFiles(here / "list"):
        note_read(str(here / "p.txt"), 5, 1)
    assert outdated_files(here / "list") == ["p.txt"]
    with CodeFiles(here / "list"):
        note_written(str(here / "p.txt"))
    assert outdated_files(here / "list") == []


def test_a_large_file_counts_by_size_and_time(here: Path) -> None:
    """It has holes, so it takes no room. It is not read."""
    with (here / "large").open("wb") as file:
        file.truncate(1 << 40)
    with CodeFiles(here / "list"), (here / "large").open("rb"):
        pass
    assert outdated_files(here / "list") == []
    with (here / "large").open("r+b") as file:
        file.write(b"x")
    assert outdated_files(here / "list") == ["large"]


def test_a_module_is_imported_anew_if_a_file_changed_that_it_reads_on_import(here: Path) -> None:
    (here / "mine.py").write_text("from pathlib import Path\nTEXT = Path('p.txt').read_text()\n")
    first = load_module(here / "mine.py")
    assert load_module(here / "mine.py") is first
    (here / "p.txt").write_text("Howdy")
    assert load_module(here / "mine.py").TEXT == "Howdy"


PROGRAM = """\
import sys
from pathlib import Path
from assay.usercode.opened_files import CodeFiles, watch_opens
opened = []
sys.addaudithook(lambda event, words: opened.append(words[0]) if event == "open" else None)
watch_opens()
with CodeFiles(Path("list")):
    for _ in range(100):
        open("p.txt").read()
print(sum(str(name).endswith("p.txt") for name in opened))
"""


def test_a_file_that_is_opened_for_every_row_is_hashed_once(here: Path) -> None:
    (here / "program.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, "program.py"], cwd=here, capture_output=True, text=True, check=False)
    assert done.stdout == "101\n", done.stderr
