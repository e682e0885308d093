from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import assay
from assay.core import registry
from assay.core.errors import InputError, UsageError, similar_names
from assay.usercode import plugins


def test_built_ins_are_found_by_file_name_or_in_a_table() -> None:
    """A file is a plugin: its name is the plugin's name. Metrics and filters have tables, with names no file may have."""
    assert registry.find("filter", "take_first").build()(["a", "b"]) == "a"
    assert registry.find("model", "openai-completions").ABOUT.can == {"text", "loglikelihood", "embeddings"}
    assert {"exact_match", "chrf++"} <= set(registry.names("metric"))
    assert registry.find("metric", "chrf++").aggregations == ("chrf++",)


def test_an_unknown_name_lists_the_nearest() -> None:
    """A typo is answered with what was meant."""
    with pytest.raises(UsageError, match="no filter named 'take_frist'; did you mean 'take_first'"):
        plugins.find("filter", "take_frist")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tets", ["test"]),
        ("tset", ["test"]),
        ("ste", ["set"]),
        ("TEST", ["test"]),
        ("descriptoin", ["description"]),
        ("restriction", []),
        ("ses", []),
        ("sett", ["set"]),
        ("", []),
    ],
)
def test_a_name_is_similar_if_it_is_probably_misspelled(name: str, expected: list[str]) -> None:
    """The same rule for all messages and checks."""
    assert similar_names(name, ["test", "set", "description", "path"]) == expected


def test_no_other_code_decides_which_names_are_similar() -> None:
    """`core/params.py` has a higher bar: it refuses a name that a server may know. The offline judge reads months."""
    files = Path(assay.__file__).parent.rglob("*.py")
    users = {path.name for path in files if "get_close_matches" in path.read_text(encoding="utf-8")}
    assert users == {"errors.py", "params.py", "dates.py"}


def test_a_path_names_an_object_in_a_file(tmp_path: Path) -> None:
    """`path/to/file.py:Name` needs no installation."""
    (tmp_path / "mine.py").write_text("import neighbour\nclass Thing:\n    value = neighbour.VALUE\n")
    (tmp_path / "neighbour.py").write_text("VALUE = 7\n")
    assert plugins.find("metric", f"{tmp_path}/mine.py:Thing").value == 7
    with pytest.raises(UsageError, match="has no 'Nothing'"):
        plugins.find("metric", f"{tmp_path}/mine.py:Nothing")


def test_a_file_that_raises_is_bad_input(tmp_path: Path) -> None:
    """An import that fails says which file and why."""
    (tmp_path / "broken.py").write_text("1/0\n")
    with pytest.raises(InputError, match="broken.py: importing it raised ZeroDivisionError"):
        plugins.find("metric", f"{tmp_path}/broken.py:x")


def test_installed_memories_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the entry point `assay.memories`, as documented."""
    install_diary(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert "diary" in registry.names("memory")
    assert plugins.find("memory", "diary").__module__ == "diary"


def test_a_package_is_found_when_it_comes_and_gone_when_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process that has looked before, such as a notebook."""
    monkeypatch.syspath_prepend(tmp_path)
    os.utime(tmp_path, (0, 0))  # the clock of a file system may tick once in 10 ms
    assert "diary" not in registry.names("memory")
    install_diary(tmp_path)
    assert "diary" in registry.names("memory")
    os.utime(tmp_path, (1, 1))
    assert "diary" in registry.names("memory")
    shutil.rmtree(tmp_path / "diary-1.0.dist-info")
    assert "diary" not in registry.names("memory")


def install_diary(folder: Path) -> None:
    """As pip would: a module, and metadata with an entry point."""
    (folder / "diary.py").write_text("def make(around): ...\n")
    (folder / "diary-1.0.dist-info").mkdir()
    (folder / "diary-1.0.dist-info" / "METADATA").write_text("Name: diary\nVersion: 1.0\n")
    (folder / "diary-1.0.dist-info" / "entry_points.txt").write_text("[assay.memories]\ndiary = diary:make\n")
