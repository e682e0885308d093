"""Child processes of assay run no module of the folder in which assay was started."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
from pathlib import Path

import msgspec
import pytest

import assay
from assay.usercode.child_process import spawned_safely
from assay.view.compare_process import ComparisonProcess, FlippedQuestion
from assay.view.index_process import IndexProcess
from assay.view.search_process import SearchProcess, SearchQuery

from support.runs import run_of

# Modules that every Python process imports early, ours, and one that only `multiprocessing` needs.
MODULES = ("json", "asyncio", "pickle", "assay", "msgspec", "multiprocessing", "contextlib")


@pytest.fixture
def hostile_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: each of its modules writes the file `executed` when it is imported."""
    folder = tmp_path / "downloads"
    folder.mkdir()
    for name in MODULES:
        (folder / f"{name}.py").write_text(f"open({str(folder / 'executed')!r}, 'a').write({name!r})\n")
    monkeypatch.chdir(folder)
    return folder


def test_processes_of_the_view_run_nothing_of_the_working_folder(hostile_folder: Path, tmp_path: Path) -> None:
    run = run_of(tmp_path / "results" / "assay" / "one", {"a": True, "b": False})

    query = SearchQuery(folder=str(run), text="text of a", places=("record",))

    async def use_all() -> None:
        async with SearchProcess(query) as search:
            assert [hit async for hit in search]
        comparison = await ComparisonProcess.start([str(run), str(run)])
        assert await comparison.ask(FlippedQuestion(), msgspec.Raw)
        await comparison.end()
        index = await IndexProcess.start(run)
        while not index.is_over:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)
        assert index.error == ""

    asyncio.run(use_all())

    assert not (hostile_folder / "executed").exists()


def test_spawned_processes_run_nothing_of_the_working_folder(hostile_folder: Path) -> None:
    """`--watch` spawns a process for each round. Its own variable is not left behind."""
    process = multiprocessing.get_context("spawn").Process(target=os.getpid)
    with spawned_safely():
        process.start()
    process.join()

    assert process.exitcode == 0
    assert not (hostile_folder / "executed").exists()
    assert "PYTHONSAFEPATH" not in os.environ


def test_every_python_child_is_started_without_the_working_folder() -> None:
    """By a function of child_process.py, or isolated (-I)."""
    package = Path(assay.__file__).parent
    bare = [
        str(path.relative_to(package))
        for path in sorted(package.rglob("*.py"))
        for start in re.finditer(r"[\[(,]\s*sys\.executable,", path.read_text())
        if path.name != "child_process.py" and '"-I"' not in path.read_text()[start.start() - 900 : start.end() + 40]
    ]
    assert bare == []
