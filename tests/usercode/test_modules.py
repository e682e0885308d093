from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from assay.core.errors import InputError
from assay.usercode.code_hash import code_sha256
from assay.usercode.modules import installed, load_module


def folder(root: Path, name: str, **files: str) -> Path:
    """A folder with Python files."""
    (root / name).mkdir()
    for stem, text in files.items():
        (root / name / f"{stem}.py").write_text(text)
    return root / name


def test_a_changed_file_is_another_module(tmp_path: Path) -> None:
    """Within one process too: what is fingerprinted is what runs."""
    path = folder(tmp_path, "a", own="value = 1") / "own.py"
    assert load_module(path).value == 1
    assert load_module(path) is load_module(path)
    path.write_text("value = 2")
    assert load_module(path).value == 2


def test_equal_names_in_two_folders_stay_apart(tmp_path: Path) -> None:
    """Each file gets the helper that stands beside it, and leaves none behind for others."""
    for name in ("first", "second"):
        folder(tmp_path, name, own="from helper import WHO", helper=f"WHO = {name!r}")
        assert name == load_module(tmp_path / name / "own.py").WHO
    assert "helper" not in sys.modules


def test_a_helper_that_changed_is_noticed(tmp_path: Path) -> None:
    """The files beside it that it imports are part of a file's content; others are not."""
    here = folder(tmp_path, "a", own="import helper\nvalue = helper.VALUE", helper="VALUE = 1", other="")
    before = code_sha256(here / "own.py")
    (here / "other.py").write_text("x = 1")
    assert code_sha256(here / "own.py") == before
    assert load_module(here / "own.py").value == 1
    (here / "helper.py").write_text("VALUE = 2")
    assert code_sha256(here / "own.py") != before
    assert load_module(here / "own.py").value == 2


def test_a_file_that_changed_within_a_second_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same size, same second: Python would take the bytecode for current. So are a helper, a package, a late import."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    code = "import helper, pack.deep\nvalue = 1\n\ndef late():\n    import later\n    return later.VALUE\n"
    here = folder(tmp_path, "a", own=code, helper="VALUE = 1", later="VALUE = 1")
    folder(here, "pack", __init__="", deep="VALUE = 1")
    for number in "12":
        for path in here.rglob("*.py"):
            path.write_text(path.read_text().replace("= 1", f"= {number}"))
            os.utime(path, (1_000_000_000, 1_000_000_000))
        sys.modules.pop("later", None)
        own = load_module(here / "own.py")
        values = [own.value, own.helper.VALUE, own.pack.deep.VALUE, own.late()]
        assert values == [int(number)] * 4
    assert not list(here.rglob("*.pyc"))


def test_modules_of_one_folder_are_not_importable_from_another(tmp_path: Path) -> None:
    """A module by name is an installed one; what another file's folder holds does not count."""
    load_module(folder(tmp_path, "a", own="", lonely_module="") / "own.py")
    assert installed("lonely_module") is None
    assert installed("json") is sys.modules["json"]


def test_modules_that_were_loaded_before_come_back(tmp_path: Path) -> None:
    """A file of the user's may have the name of a module that others use."""
    import json

    here = folder(tmp_path, "a", own="from json import MINE", json="MINE = 7")
    assert load_module(here / "own.py").MINE == 7
    assert sys.modules["json"] is json


def test_an_exception_during_import_is_reported(tmp_path: Path) -> None:
    """With the file and the exception."""
    path = folder(tmp_path, "a", own="1 / 0") / "own.py"
    with pytest.raises(InputError, match=r"own.py: importing it raised ZeroDivisionError"):
        load_module(path)


def test_a_file_that_exits_is_not_taken_for_a_module(tmp_path: Path) -> None:
    """Neither then nor when it is asked for again."""
    path = folder(tmp_path, "a", own="raise SystemExit(3)") / "own.py"
    for _ in range(2):
        with pytest.raises(InputError, match=r"own.py: importing it raised SystemExit: 3"):
            load_module(path)
