"""Python files of the user's own, imported from where they stand and kept apart from each other."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from types import ModuleType

from assay.core.code import code_sha256
from assay.core.errors import InputError, Problem, UsageError

USER_MODULE = "assay_user_"
"""How the names of their modules begin."""
_folders: set[str] = set()
"""Folders that were made importable, for imports that a function makes when it is called."""


def load_module(path: Path) -> ModuleType:
    """A Python file as a module. A file that changed is another module; its folder's modules are its own.

    Where it changes the working directory, that is undone: paths that were typed must still be found.
    """
    if not path.is_file():
        raise UsageError(f"there is no file {str(path)!r}")
    name = f"{USER_MODULE}{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    name += f"_{code_sha256(path.resolve())[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with chdir("."), _own_folder(path.resolve().parent):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise InputError(
            Problem(str(path), f"importing it raised {type(error).__name__}: {error}")
        ) from error
    return module


@contextmanager
def _own_folder(folder: Path) -> Iterator[None]:
    """Within this, modules of the folder win over equal names elsewhere; afterwards nobody else gets them."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
        _folders.add(str(folder))
    own = {path.stem for path in folder.glob("*.py")}
    hidden = {name: sys.modules.pop(name) for name in own & sys.modules.keys()}
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name not in before and _stands_in(name, folder)]:
            del sys.modules[name]
        sys.modules.update(hidden)


def _stands_in(name: str, folder: Path) -> bool:
    top = folder / name.partition(".")[0]
    file = getattr(sys.modules[name], "__file__", None)
    return file is not None and (Path(file) == top.with_suffix(".py") or top in Path(file).parents)


def installed(name: str) -> ModuleType | None:
    """A module by name that is not merely one of another user's folder."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or (spec.origin and str(Path(spec.origin).parent) in _folders):
        return None
    with chdir("."):
        return importlib.import_module(name)
