"""Targets: a function in a file, in a module, or in a task's folder."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest

from assay.core.errors import InputError, UsageError
from assay.suites.hop.target import find_target

CODE = """\
from helper import double

def hop_sum(session, input):
    return {"sum": double(input["n"])}

async def later(n):
    return {"sum": n}

def _hop_hidden():
    pass

LIMIT = 3
"""
DATA = Path("data/rows.jsonl")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sums.py").write_text(CODE)
    (tmp_path / "helper.py").write_text("def double(n):\n    return 2 * n\n")
    return tmp_path


@pytest.fixture
def task(tmp_path: Path) -> Path:
    hoplet = tmp_path / "Sums" / "Hoplet"
    hoplet.mkdir(parents=True)
    (hoplet / "Hop.py").write_text(CODE)
    (hoplet / "helper.py").write_text("def double(n):\n    return 2 * n\n")
    return hoplet.parent


def test_a_function_in_a_file(folder: Path) -> None:
    """Sync or async; results go beside the data; its own folder is the one it stands in."""
    target = find_target(f"{folder}/sums.py:hop_sum", DATA)
    assert target.function(None, {"n": 2}) == {"sum": 4}
    assert (target.name, target.folder, target.code_folder, target.contract) == (
        "hop_sum",
        folder,
        folder,
        None,
    )
    assert target.test_cases == DATA.resolve().parent
    assert inspect.iscoroutinefunction(find_target(f"{folder}/sums.py:later", DATA).function)


def test_the_identity_changes_with_the_code_its_helpers_and_the_function(folder: Path) -> None:
    target_name = f"{folder}/sums.py:hop_sum"
    first = find_target(target_name, DATA).code_identity
    assert find_target(target_name, DATA).code_identity == first
    assert find_target(f"{folder}/sums.py:later", DATA).code_identity != first
    (folder / "helper.py").write_text("def double(n):\n    return 3 * n\n")
    changed = find_target(target_name, DATA)
    assert changed.code_identity != first
    assert changed.function(None, {"n": 2}) == {"sum": 6}


def test_a_contract_beside_the_file_is_taken(folder: Path) -> None:
    (folder / "contract.yaml").write_text("name: Sums\ninputs: {n: int}\n")
    target = find_target(f"{folder}/sums.py:hop_sum", DATA)
    assert target.contract is not None
    assert (target.name, target.contract.inputs) == ("Sums", {"n": "int"})


def test_a_function_in_a_module_of_the_folder_we_are_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "hop_test_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "own.py").write_text("from .near import value\n\ndef run(n):\n    return value\n")
    (package / "near.py").write_text("value = 5\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    target = find_target("hop_test_package.own:run", DATA)
    assert (target.function(1), target.name, target.folder) == (5, "run", package)
    (package / "near.py").write_text("value = 6\n")
    assert find_target("hop_test_package.own:run", DATA).code_identity != target.code_identity
    assert target.test_cases == DATA.resolve().parent


def test_a_package_in_an_environment_below_us_is_not_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is installed may be large, and is not the user's: only the module's own file is its identity."""
    package = tmp_path / "site-packages" / "hop_installed_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "own.py").write_text("def run(n):\n    return n\n")
    (package / "other.py").write_text("value = 5\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(package.parent))
    before = find_target("hop_installed_package.own:run", DATA).code_identity
    (package / "other.py").write_text("value = 6\n")
    assert find_target("hop_installed_package.own:run", DATA).code_identity == before


def test_a_function_that_is_installed() -> None:
    target = find_target("json:dumps", DATA)
    assert target.function({}) == "{}"
    assert target.code_identity.endswith(":dumps")
    assert find_target("math:floor", DATA).name == "floor"


@pytest.mark.parametrize("place", ["", "Hoplet", "Hoplet/Hop.py:hop_sum"])
def test_a_task_folder_its_hoplet_or_its_file(task: Path, place: str) -> None:
    """All three are the same target: the task's results go to its TestCases."""
    (task / "Hoplet" / "metainfo.md").write_text("---\ninputs: {n: int}\n---\n# Sums\n")
    target = find_target(str(task / place), DATA)
    assert target.function.__name__ == "hop_sum"
    assert (target.name, target.folder, target.code_folder) == ("Sums", task, task / "Hoplet")
    assert target.test_cases == task / "TestCases"
    assert target.contract is not None
    assert target.contract.inputs == {"n": "int"}


def test_a_contract_chooses_the_function(task: Path) -> None:
    """By `function`, or by its own name; both before a name with "hop" in it."""
    metainfo = task / "Hoplet" / "metainfo.md"
    for front in ("function: later", "name: later", "name: Other\nhop_func_name: later"):
        metainfo.write_text(f"---\n{front}\n---\n")
        assert find_target(str(task), DATA).function.__name__ == "later"
    metainfo.write_text("---\nname: Fancy Name\n---\n")
    assert find_target(str(task), DATA).function.__name__ == "hop_sum"
    metainfo.write_text("---\nfunction: gone\n---\n")
    with pytest.raises(UsageError, match="has no function 'gone'; it has hop_sum, later"):
        find_target(str(task), DATA)


def test_two_functions_that_may_be_meant_are_named(task: Path) -> None:
    with (task / "Hoplet" / "Hop.py").open("a") as file:
        file.write("\ndef other_hop():\n    pass\n")
    with pytest.raises(
        UsageError, match='2 functions with "hop" in their names: hop_sum, other_hop; write `function: '
    ):
        find_target(str(task), DATA)


def test_imported_functions_are_not_meant(task: Path) -> None:
    """Only what Hop.py defines itself counts."""
    (task / "Hoplet" / "helper.py").write_text("def hop_double(n): ...\n")
    (task / "Hoplet" / "Hop.py").write_text("from helper import hop_double\n\ndef run():\n    pass\n")
    with pytest.raises(UsageError, match='no function with "hop" in its name; it has run'):
        find_target(str(task), DATA)


@pytest.mark.parametrize(
    ("target_name", "message"),
    [
        ("gone.py", "there is no file 'gone.py'"),
        ("sums.py:", "is not a target"),
        (":hop", "is not a target"),
        ("sums.py:gone", "has no function 'gone'; it has hop_sum, later"),
        ("sums.py:LIMIT", "has no function 'LIMIT'"),
        ("gone.py:f", "there is no file 'gone.py'"),
        ("no.such.module:f", "there is no module 'no.such.module'"),
        ("json:gone", "has no function 'gone'"),
        (".", "has no Hoplet/Hop.py"),
        ("nowhere", "is not a target"),
    ],
)
def test_what_is_no_target_says_why(
    folder: Path, monkeypatch: pytest.MonkeyPatch, target_name: str, message: str
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(UsageError, match=message):
        find_target(target_name, DATA)


@pytest.mark.parametrize("line", ["1 / 0", "raise SystemExit(3)", "def (", "import no_such_module_at_all"])
def test_code_that_cannot_be_imported_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """As a file and as a module; the process goes on."""
    (tmp_path / "hop_test_broken.py").write_text(line + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for target_name in ("hop_test_broken.py:f", "hop_test_broken:f"):
        with pytest.raises(InputError, match="importing it raised"):
            find_target(target_name, DATA)
