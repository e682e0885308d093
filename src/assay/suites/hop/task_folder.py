"""A HOP task on disk: its contract, profiles and files, read without importing the code of its function.

    for folder in find_tasks(Path("Tasks")):
        task = read_task(folder)
        task.name, task.contract.inputs, task.profiles, task.problem

A task folder has `Hoplet/` with `Hop.py` and the contract, and `TestCases/` with data and results:

    Tasks/Verify/Hoplet/Hop.py
    Tasks/Verify/Hoplet/metainfo.md
    Tasks/Verify/TestCases/verify.jsonl
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from assay.core.errors import AssayError
from assay.files.paths import walk_folders
from assay.suites.hop.contract import MARKDOWN, YAML_NAMES, Contract, find_contract
from assay.suites.hop.settings import Profile, find_settings, load_settings
from assay.suites.hop.target import CODE, HOPLET, TEST_CASES


class HopTask(Struct, frozen=True, kw_only=True):
    """A task. Every value is what the files say now."""

    folder: Path
    name: str
    contract: Contract
    """Empty if the task has none, or an invalid one."""
    profiles: list[Profile]
    """Empty without settings: the function then has its own model, or needs none."""
    has_code: bool
    problem: str = ""
    """What is wrong with the contract or the settings. The task cannot run until it is mended."""

    @property
    def test_cases(self) -> Path:
        """The folder of data and result files. It need not exist."""
        return self.folder / TEST_CASES

    @property
    def data_files(self) -> list[Path]:
        """The JSONL files of the task, the newest first."""
        files = [path for path in self.test_cases.glob("*.jsonl") if path.is_file() and path.name[0] != "."]
        return sorted(files, key=lambda path: (-path.stat().st_mtime, path.name))


def is_task(folder: Path) -> bool:
    """Return whether a folder is a task: it has `Hoplet/Hop.py`, or `Hoplet/` and `TestCases/`."""
    hoplet = folder / HOPLET
    return hoplet.is_dir() and ((hoplet / CODE).is_file() or (folder / TEST_CASES).is_dir())


def find_tasks(root: Path) -> list[Path]:
    """Return the task folders at and below a folder, sorted by path. Links to folders are not followed."""
    return sorted(filter(is_task, walk_folders(root, _is_task_or_run, follow_links=False)))


def _is_task_or_run(folder: Path) -> bool:
    return is_task(folder) or (folder / "run.json").is_file()


def read_task(folder: Path) -> HopTask:
    """Read a task. An invalid contract or settings file is its `problem`, and raises nothing.

    What was read is kept until a file changes: every page of a task asks for it, and YAML is slow.
    """
    hoplet = folder / HOPLET
    files = [hoplet / name for name in (CODE, MARKDOWN, *YAML_NAMES)]
    settings = find_settings(None, hoplet, folder)
    return _read_task(folder, settings, tuple(_stamp(path) for path in (*files, settings)))


def _stamp(path: Path | None) -> tuple[int, int] | None:
    try:
        stat = path.stat() if path else None
    except OSError:
        return None
    return (stat.st_mtime_ns, stat.st_size) if stat else None


@lru_cache(maxsize=256)
def _read_task(folder: Path, settings: Path | None, _stamps: tuple[tuple[int, int] | None, ...]) -> HopTask:
    hoplet = folder / HOPLET
    contract, profiles, problems = Contract(), list[Profile](), list[str]()
    try:
        contract = find_contract(hoplet) or contract
    except AssayError as error:
        problems.append(str(error))
    try:
        profiles = list(load_settings(settings).profiles.values()) if settings is not None else []
    except AssayError as error:
        problems.append(str(error))
    return HopTask(
        folder=folder,
        name=contract.name or folder.resolve().name,
        contract=contract,
        profiles=profiles,
        has_code=(hoplet / CODE).is_file(),
        problem="\n".join(problems),
    )
