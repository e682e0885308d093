"""Which code may run while somebody looks at a run: only what the user has named."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from assay.core.errors import UsageError
from assay.usercode.modules import installed, load_module
from assay.usercode.named_code import (
    CodeNotNamed,
    name_code,
    only_named_code,
    only_named_code_in_process,
    unmatched_code,
)


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that writes `executed` beside itself. The working folder has no part in it."""
    folder = tmp_path / "own"
    folder.mkdir()
    file = folder / "suite.py"
    file.write_text("import pathlib\npathlib.Path(__file__).with_name('executed').touch()\n")
    monkeypatch.chdir(tmp_path)
    return file


def executed(suite: Path) -> bool:
    return suite.with_name("executed").exists()


def test_a_file_that_nobody_named_does_not_run(suite: Path) -> None:
    """The sentence says what to type, with the path as seen from the working folder."""
    suite.with_name("other.py").touch()
    with only_named_code(["own/other.py"]), pytest.raises(CodeNotNamed, match=r"add --code own/suite\.py"):
        load_module(suite)
    assert not executed(suite)


@pytest.mark.parametrize("name", ["own/suite.py", "own/suite.py:Quiz", "own", ".", "own/../own/suite.py"])
def test_a_file_runs_if_it_or_its_folder_is_named(suite: Path, name: str) -> None:
    with only_named_code([name]):
        load_module(suite)
    assert executed(suite)


def test_a_link_names_the_file_that_it_leads_to(suite: Path, tmp_path: Path) -> None:
    """A link in a named folder that leads out of it is not named."""
    (tmp_path / "trusted").mkdir()
    link = tmp_path / "trusted" / "suite.py"
    link.symlink_to(suite)
    with only_named_code(["trusted"]), pytest.raises(CodeNotNamed):
        load_module(link)
    assert not executed(suite)


def test_names_are_added_inside_and_forgotten_outside(suite: Path) -> None:
    with only_named_code():
        with only_named_code(["own"]):
            load_module(suite)
        with pytest.raises(CodeNotNamed):
            load_module(suite)
        name_code(["own"])
        load_module(suite)
    name_code(["elsewhere"])  # of no effect: nothing is refused here
    load_module(suite)


def test_a_command_that_reads_runs_no_code_in_any_thread(suite: Path) -> None:
    """A thread of an executor has no context variables of the thread that started it."""
    with ThreadPoolExecutor(1) as other_thread:
        with only_named_code_in_process():
            with pytest.raises(CodeNotNamed):
                other_thread.submit(load_module, suite).result()
            assert not executed(suite)
            name_code(["own"])
            other_thread.submit(load_module, suite).result()
            assert executed(suite)
        other_thread.submit(load_module, suite).result()


@pytest.mark.parametrize("name", ["other.py", "own/other.py:Quiz", "other/folder", Path("other")])
def test_a_named_file_must_exist(suite: Path, name: str | Path) -> None:
    with pytest.raises(UsageError, match="there is no file or folder 'o"), only_named_code([name]):
        pass
    with only_named_code(), pytest.raises(UsageError, match="there is no file or folder 'o"):
        name_code([name])


def test_a_module_that_nobody_named_is_not_imported() -> None:
    with only_named_code(["json"]):
        assert installed("json.decoder") is not None
        with pytest.raises(CodeNotNamed, match="add --code antigravity"):
            installed("antigravity")


def test_a_name_that_matches_no_code_of_the_run_is_told(suite: Path) -> None:
    """With what the run names, and what to type. Otherwise a wrong name would change nothing, silently."""
    suite.with_name("other.py").touch()
    with only_named_code_in_process():
        assert unmatched_code(["own/other.py"]).endswith("and needed none that was not named")
        name_code(["own/other.py"])
        with suppress(CodeNotNamed):
            load_module(suite)
        assert unmatched_code(["own/other.py"]) == (
            "--code own/other.py had no effect: this command met no code of a run there. The run names code in "
            "own/suite.py. If you trust it, add --code own/suite.py"
        )
        name_code(["own/suite.py"])
        load_module(suite)
        assert unmatched_code(["own/suite.py"]) == ""
