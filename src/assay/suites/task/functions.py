"""`!function module.name`: Python that stands beside a task file, imported when a run needs it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from assay.core.code import code_sha256
from assay.core.errors import InputError, Problem, UsageError
from assay.core.user_code import installed, load_module
from assay.core.yamlfile import FunctionRef
from assay.suites.task.data.stand_in import dataset_stand_in


def resolve(value: Any, where: str) -> Any:
    """The function a `!function` names; any other value as it is."""
    if not isinstance(value, FunctionRef):
        return value
    module, _, name = value.name.rpartition(".")
    if not module:
        raise InputError(Problem(where, f"!function {value.name}: expected module.name"))
    found = getattr(_module(value, module, where), name, None)
    if not callable(found):
        raise InputError(Problem(where, f"!function {value.name}: {module}.py has no function {name!r}"))
    return found


def _module(ref: FunctionRef, module: str, where: str) -> Any:
    path = source(ref)
    if path.is_file():
        try:
            with dataset_stand_in():
                return load_module(path)
        except InputError as error:
            raise InputError(Problem(where, f"!function {ref.name}: {error}")) from error
    if (other := installed(module)) is None:
        raise InputError(
            Problem(where, f"!function {ref.name}: there is no file {path} and no module {module!r}")
        )
    return other


def source(ref: FunctionRef) -> Path:
    """The file that should hold the function."""
    return ref.folder / (ref.name.rpartition(".")[0].replace(".", "/") + ".py")


def identity(value: Any) -> Any:
    """A setting as a fingerprint takes it: functions by their file's content, and its helpers'."""
    if isinstance(value, FunctionRef):
        path = source(value)
        return f"{value.name}@{code_sha256(path) if path.is_file() else 'installed'}"
    if isinstance(value, dict):
        return {key: identity(item) for key, item in value.items()}
    return [identity(item) for item in value] if isinstance(value, list) else value


def found(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], FunctionRef]]:
    """Every `!function` in a setting, with the keys that lead to it."""
    if isinstance(value, FunctionRef):
        yield at, value
        return
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from found(item, (*at, key))


def written(value: Any, *, deep: bool = False) -> Any:
    """A setting as results files show it: functions by their source, or, deep inside, by their name."""
    if isinstance(value, FunctionRef):
        return f"<function {value.name.rpartition('.')[2]}>" if deep else _source_text(value)
    if isinstance(value, dict):
        return {key: written(item, deep=deep) for key, item in value.items()}
    return [written(item, deep=deep) for item in value] if isinstance(value, list) else value


def _source_text(ref: FunctionRef) -> str:
    try:
        return inspect.getsource(resolve(ref, ""))
    except (InputError, UsageError, OSError, TypeError):
        return f"!function {ref.name}"


Function = Callable[..., Any]
