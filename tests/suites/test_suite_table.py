"""The table of built-in suites, and suites that are found by their file."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.errors import UsageError
from assay.core.spec import SuiteOptions
from assay.suites import BUILT_IN, absolute, command_table, find_options, find_suite, suite_names


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_a_line_of_the_table_says_what_the_classes_say(name: str) -> None:
    """Help and commands are made from the table and the options, without importing the suite."""
    about, options, suite = BUILT_IN[name], find_options(name), find_suite(name)
    assert issubclass(options, SuiteOptions)
    assert suite.Options is options
    assert suite.name == name
    assert about.summary
    assert name in suite_names()
    if name != "evaluate":  # only Python runs it
        assert about.command == (options.command or name)
        assert command_table()[about.command] == (name, about.summary)


def test_an_unknown_suite_is_refused_with_its_name() -> None:
    with pytest.raises(UsageError, match="there is no suite named 'quizz'"):
        find_suite("quizz")


def test_what_is_no_suite_is_refused(tmp_path: Path) -> None:
    """A file may hold anything."""
    (tmp_path / "other.py").write_text("class Other:\n    pass\n")
    with pytest.raises(UsageError, match="is not a suite: it must be a subclass"):
        find_suite(f"{tmp_path / 'other.py'}:Other")
    with pytest.raises(UsageError, match="has no 'Nothing'"):
        find_suite(f"{tmp_path / 'other.py'}:Nothing")


def test_a_suite_by_its_file_is_found_from_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are shown from other folders than they were started in."""
    monkeypatch.chdir(tmp_path)
    assert absolute("quiz.py:Quiz") == f"{tmp_path}/quiz.py:Quiz"
    assert absolute("memory-test") == "memory-test"
