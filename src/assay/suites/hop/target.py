"""Finds the function that `assay hop` calls: in a file, in a module, or in the Hoplet of a task folder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from assay.core.errors import InputError, Problem, UsageError, similar_file, unknown
from assay.core.hashing import file_sha256, fingerprint
from assay.suites.hop.contract import Contract, find_contract
from assay.usercode.code_hash import code_sha256
from assay.usercode.definitions import python_problem
from assay.usercode.errors import UserCodeError
from assay.usercode.modules import installed, load_module
from assay.usercode.named_code import refuse_unnamed_module
from assay.usercode.user_function import call_here

HOPLET, CODE, TEST_CASES, TASKS = "Hoplet", "Hop.py", "TestCases", "Tasks"
_INSTALLED = "site-packages"
_USAGE = "pass FILE.py:FUNCTION, PACKAGE.MODULE:FUNCTION, a task folder with Hoplet/Hop.py, or its name in Tasks/"


class Target(NamedTuple):
    """The function to call. `code_identity` is a fingerprint of its code and of the modules it imports."""

    function: Callable[..., Any]
    name: str
    folder: Path
    contract: Contract | None
    code_identity: str
    test_cases: Path
    code_folder: Path
    """The folder of the function's file. In a task folder that is `Hoplet/`."""
    module: str
    """The name of the loaded module. It may have imported the function from another module."""


class _TargetCode(NamedTuple):
    """A loaded module, its file, and the fingerprint of its code."""

    module: ModuleType
    file: Path | None
    identity: str


def find_target(name: str, data: Path) -> Target:
    """Return the target `name` for a batch over the file `data`. Imports the module, but calls no function.

    Raises UsageError or InputError if there is no such function.
    """
    folder = find_task(name) or Path(name)
    if folder.is_dir():
        hoplet = folder / HOPLET if (folder / HOPLET / CODE).is_file() else folder
        if not (hoplet / CODE).is_file():
            raise UsageError(f"{name!r} has no {HOPLET}/{CODE}; {_USAGE}")
        return _target_in_file(hoplet / CODE, None, data)
    if name.endswith(".py"):
        return _target_in_file(Path(name), None, data)
    module, _, function = name.rpartition(":")
    if not module or not function:
        if tasks := task_names():
            raise UsageError(f"{unknown('task', name, tasks)}\n{_USAGE}")
        raise UsageError(f"{name!r} is not a target; {_USAGE}")
    if module.endswith(".py"):
        return _target_in_file(Path(module), function, data)
    return _target_in_module(module, function, data)


def find_task(name: str) -> Path | None:
    """Return the folder of a task, or None if `name` names none.

    `name` is a path, or the name of a task in `Tasks/` of the current folder or of a folder above it.
    """
    path = Path(name)
    if _has_hoplet(path):
        return path
    if ":" in name or path.name != name:
        return None
    for folder in _task_parents():
        if _has_hoplet(folder / name):
            return folder / name
    return None


def find_data(name: str, task: Path | None) -> Path:
    """Return the data file: a path, or the name of a file in the task's `TestCases/`, also without `.jsonl`.

    Raises UsageError with the nearest name if there is no such file.
    """
    if Path(name).exists() or task is None:
        return Path(name)
    folder = task / TEST_CASES
    for path in (folder / name, folder / f"{name}.jsonl"):
        if path.is_file():
            return path
    names = sorted(path.name for path in folder.glob("*.jsonl") if path.name != "observer.jsonl")
    if not names:
        raise UsageError(f"there is no file {name!r}, neither here nor in {folder}, which has no *.jsonl file")
    raise UsageError(f"{folder}: {unknown('file', name, names)}")


def _has_hoplet(folder: Path) -> bool:
    return (folder / HOPLET).is_dir() or (folder / CODE).is_file()


def _task_parents() -> list[Path]:
    """Return every `Tasks/` of the current folder and of the folders above it, the nearest first."""
    folders = [Path(TASKS), *(folder / TASKS for folder in Path.cwd().parents)]
    return [folder for folder in folders if folder.is_dir()]


def task_names() -> list[str]:
    """Return the names of the tasks that `find_task` finds by their names."""
    return [path.name for folder in _task_parents() for path in sorted(folder.iterdir()) if _has_hoplet(path)]


def target_problem(name: str) -> str:
    """Return why a target cannot be found, without importing it; empty if it seems to exist or is a module."""
    folder = find_task(name) or Path(name)
    if folder.is_dir():
        hoplet = folder / HOPLET if (folder / HOPLET / CODE).is_file() else folder
        return "" if (hoplet / CODE).is_file() else f"{name!r} has no {HOPLET}/{CODE}; {_USAGE}"
    if name.endswith(".py"):
        return "" if Path(name).is_file() else f"there is no file {name!r}{similar_file(Path(name))}"
    module, _, function = name.rpartition(":")
    if not module or not function:
        return f"{name!r} is not a target; {_USAGE}"
    return python_problem(Path(module), function) if module.endswith(".py") else ""


def _target_in_file(path: Path, function: str | None, data: Path) -> Target:
    code = _TargetCode(load_module(path), path.resolve(), code_sha256(path.resolve()))
    contract = find_contract(path.resolve().parent)
    return _target(code, function or _main_function(code.module, path, contract), contract, data)


def _target_in_module(name: str, function: str, data: Path) -> Target:
    current_folder = str(Path.cwd())
    if current_folder not in sys.path:
        # At the end: a file in the current folder must not hide an installed package.
        sys.path.append(current_folder)
    module = _import(name)
    local_file = Path(name.replace(".", "/") + ".py")
    # `installed` returns None for modules in a folder from which a user's file was loaded earlier. The module
    # is then loaded as a file too.
    if module is None and local_file.is_file():
        return _target_in_file(local_file, function, data)
    if module is None:
        raise UsageError(f"there is no module {name!r}; {_USAGE}")
    file = getattr(module, "__file__", None)
    path = Path(file).resolve() if file else None
    contract = find_contract(path.parent) if path else None
    return _target(_TargetCode(module, path, _identity(module, path)), function, contract, data)


def _identity(module: ModuleType, path: Path | None) -> str:
    """Return a fingerprint of the module's code.

    For a module of a package in the current folder, it covers the whole package: the module may import any
    part of it. An installed package is covered by its own file only.
    """
    if path is None or path.suffix != ".py":
        return module.__name__
    depth = module.__name__.count(".") + (path.name == "__init__.py")
    package = path.parents[depth - 1]
    if not depth or not package.is_relative_to(Path.cwd()) or _INSTALLED in package.parts:
        return code_sha256(path)
    return fingerprint([[str(file.relative_to(package)), file_sha256(file)] for file in sorted(package.rglob("*.py"))])


def _import(name: str) -> ModuleType | None:
    """Import a module, or return None if there is none. Raises InputError if its code raises or exits."""
    refuse_unnamed_module(name)
    try:
        return call_here(installed, (name,))
    except UserCodeError as error:
        raise InputError(Problem(name, f"importing it raised {error.raised}")) from error


def _target(code: _TargetCode, function: str, contract: Contract | None, data: Path) -> Target:
    value = getattr(code.module, function, None)
    if not callable(value):
        source = code.file or code.module.__name__
        raise UsageError(f"{source} has no function {function!r}{_function_list(code.module)}")
    code_folder = code.file.parent if code.file else Path.cwd()
    task = code_folder.parent if code_folder.name == HOPLET else None
    name = (contract.name if contract else "") or (task.name if task else function)
    test_cases = task / TEST_CASES if task else data.resolve().parent
    return Target(
        function=value,
        name=name,
        folder=task or code_folder,
        contract=contract,
        code_identity=f"{code.identity}:{function}",
        test_cases=test_cases,
        code_folder=code_folder,
        module=code.module.__name__,
    )


def _function_list(module: ModuleType) -> str:
    names = _public_functions(module)
    return f"; it has {', '.join(names)}" if names else ""


def _public_functions(module: ModuleType) -> list[str]:
    """Return the public functions that the module defines itself, without imported ones."""
    return [
        name
        for name, value in vars(module).items()
        if name[0] != "_"
        and callable(value)
        and not isinstance(value, type)
        and getattr(value, "__module__", None) == module.__name__
    ]


def _main_function(module: ModuleType, path: Path, contract: Contract | None) -> str:
    """Return the function of a file: the contract's `function`, else its `name`, else the one with "hop" in it."""
    if contract and contract.function:
        return contract.function
    names = _public_functions(module)
    if contract and contract.name in names:
        return contract.name
    hops = [name for name in names if "hop" in name.lower()]
    if not hops:
        raise UsageError(f'{path} has no function with "hop" in its name{_function_list(module)}; {_USAGE}')
    if len(hops) > 1:
        raise UsageError(
            f'{path} has {len(hops)} functions with "hop" in their names: {", ".join(hops)}; '
            f"write `function: {hops[0]}` in the contract, or pass {path}:{hops[0]}"
        )
    return hops[0]
