"""Finds the function that `assay hop` calls: in a file, in a module, or in the Hoplet of a task's folder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from assay.core.code import code_sha256
from assay.core.errors import InputError, Problem, UsageError
from assay.core.hashing import file_sha256, fingerprint
from assay.core.user_code import UserCodeError, call_here, installed, load_module
from assay.suites.hop.contract import Contract, find_contract

HOPLET, CODE, TEST_CASES = "Hoplet", "Hop.py", "TestCases"
_INSTALLED = "site-packages"
_FORMS = "name FILE.py:FUNCTION, PACKAGE.MODULE:FUNCTION or a task's folder with Hoplet/Hop.py"


class Target(NamedTuple):
    """A function and what is known of it. `code_identity` changes with its code and that of its helpers."""

    function: Callable[..., Any]
    name: str
    folder: Path
    contract: Contract | None
    code_identity: str
    test_cases: Path
    beside: Path
    """The folder of the function's own file; in a task's folder that is `Hoplet/`."""
    module: str
    """The module that was loaded; a function may come from another one."""


class _TargetCode(NamedTuple):
    """A module that was loaded, its file, and its content as a fingerprint."""

    module: ModuleType
    file: Path | None
    identity: str


def find_target(name: str, data: Path) -> Target:
    """The target of this name, for a batch over this data file; raises before anything is called."""
    folder = Path(name)
    if folder.is_dir():
        hoplet = folder / HOPLET if (folder / HOPLET / CODE).is_file() else folder
        if not (hoplet / CODE).is_file():
            raise UsageError(f"{name!r} has no {HOPLET}/{CODE}; {_FORMS}")
        return _target_in_file(hoplet / CODE, None, data)
    place, _, function = name.rpartition(":")
    if not place or not function:
        raise UsageError(f"{name!r} is no target; {_FORMS}")
    if place.endswith(".py"):
        return _target_in_file(Path(place), function, data)
    return _target_in_module(place, function, data)


def _target_in_file(path: Path, function: str | None, data: Path) -> Target:
    code = _TargetCode(load_module(path), path.resolve(), code_sha256(path.resolve()))
    contract = find_contract(path.resolve().parent)
    return _target(code, function or _main_function(code.module, path, contract), contract, data)


def _target_in_module(name: str, function: str, data: Path) -> Target:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # behind everything: what is installed comes first
    module = _imported(name)
    beside = Path(name.replace(".", "/") + ".py")
    if module is None and beside.is_file():  # its folder was used for a file of the user's before
        return _target_in_file(beside, function, data)
    if module is None:
        raise UsageError(f"there is no module {name!r}; {_FORMS}")
    file = getattr(module, "__file__", None)
    path = Path(file).resolve() if file else None
    contract = find_contract(path.parent) if path else None
    return _target(_TargetCode(module, path, _identity(module, path)), function, contract, data)


def _identity(module: ModuleType, path: Path | None) -> str:
    """A module of the user's own package is known by the whole package: it may import any of it."""
    if path is None or path.suffix != ".py":
        return module.__name__
    depth = module.__name__.count(".") + (path.name == "__init__.py")
    package = path.parents[depth - 1]
    if not depth or not package.is_relative_to(Path.cwd()) or _INSTALLED in package.parts:
        return code_sha256(path)
    return fingerprint(
        [[str(file.relative_to(package)), file_sha256(file)] for file in sorted(package.rglob("*.py"))]
    )


def _imported(name: str) -> ModuleType | None:
    """A module by name. Code that raises or exits while it is imported is a problem like others."""
    try:
        return call_here(installed, (name,))
    except UserCodeError as error:
        raise InputError(Problem(name, f"importing it raised {error.type_name}: {error.text}")) from error


def _target(code: _TargetCode, function: str, contract: Contract | None, data: Path) -> Target:
    value = getattr(code.module, function, None)
    if not callable(value):
        place = code.file or code.module.__name__
        raise UsageError(f"{place} has no function {function!r}{_known_functions(code.module)}")
    beside = code.file.parent if code.file else Path.cwd()
    task = beside.parent if beside.name == HOPLET else None
    name = (contract.name if contract else "") or (task.name if task else function)
    cases = task / TEST_CASES if task else data.resolve().parent
    identity = f"{code.identity}:{function}"
    return Target(value, name, task or beside, contract, identity, cases, beside, code.module.__name__)


def _known_functions(module: ModuleType) -> str:
    names = _public_functions(module)
    return f"; it has {', '.join(names)}" if names else ""


def _public_functions(module: ModuleType) -> list[str]:
    """The public functions that a module defines itself."""
    return [
        name
        for name, value in vars(module).items()
        if name[0] != "_"
        and callable(value)
        and not isinstance(value, type)
        and getattr(value, "__module__", None) == module.__name__
    ]


def _main_function(module: ModuleType, path: Path, contract: Contract | None) -> str:
    """The one that the contract names, else the one of its own name, else the one with "hop" in it."""
    if contract and contract.function:
        return contract.function
    names = _public_functions(module)
    if contract and contract.name in names:
        return contract.name
    hops = [name for name in names if "hop" in name.lower()]
    if not hops:
        raise UsageError(f'{path} has no function with "hop" in its name{_known_functions(module)}; {_FORMS}')
    if len(hops) > 1:
        raise UsageError(
            f"{path} has {len(hops)} functions that may be meant: {', '.join(hops)}; "
            f"say `function: {hops[0]}` in the contract, or name {path}:{hops[0]}"
        )
    return hops[0]
