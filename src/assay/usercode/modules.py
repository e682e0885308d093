"""Imports the user's Python files, and installed modules that the user names.

    module = load_module(Path("tasks/hop.py"))

A file is imported under a name of its own, so two files `hop.py` in two folders are two modules.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from assay.core.errors import InputError, Problem, UsageError, similar_file
from assay.usercode.code_hash import code_sha256
from assay.usercode.errors import UserCodeError
from assay.usercode.named_code import refuse_unnamed_file, refuse_unnamed_module
from assay.usercode.opened_files import CodeFile, CodeFiles, outdated, watch_opens
from assay.usercode.process_end import refuse_exits
from assay.usercode.user_function import call_here

USER_MODULE = "assay_user_"
"""Prefix of the names of the user's files in `sys.modules`."""

_read_on_import: dict[str, list[CodeFile]] = {}
"""The files that a module opened when it was imported, such as a prompt, by the name of the module."""

_folders: set[str] = set()
"""Folders of user files that were added to `sys.path`, for imports inside functions."""


def load_module(path: Path) -> ModuleType:
    """Import a Python file by its path. A file that changed since its last import is imported as a new module.

    So is one that read another file on import, such as a prompt, if that file changed.
    Two files in two folders may each import their own `helper.py`. If the file changes the working directory, it is
    changed back, because relative paths of the command line must stay valid.
    """
    if not path.is_file():
        raise UsageError(f"there is no file {str(path)!r}{similar_file(path)}")
    refuse_unnamed_file(path)
    name = f"{USER_MODULE}{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    name += f"_{code_sha256(path.resolve())[:16]}"
    if name in sys.modules and not outdated(_read_on_import.get(name, ())):
        return sys.modules[name]
    _read_on_import.pop(name, None)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    loader = _SourceLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with chdir("."), refuse_exits(), _own_folder(path.resolve().parent), _files_read_by(name):
            call_here(loader.exec_module, (module,))
    except UserCodeError as error:
        del sys.modules[name]
        raise InputError(Problem(str(path), f"importing it raised {error.raised}")) from error
    except BaseException:
        del sys.modules[name]
        raise
    return module


def installed(name: str) -> ModuleType | None:
    """Import an installed module by name. None if it does not exist, or exists only in the folder of a user's file."""
    refuse_unnamed_module(name)
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or (spec.origin and str(Path(spec.origin).parent) in _folders):
        return None
    with chdir("."), _files_read_by(name):
        return importlib.import_module(name)


def files_read_on_import() -> list[CodeFile]:
    """Return the files that the user's modules opened when they were imported."""
    return [file for files in _read_on_import.values() for file in files]


@contextmanager
def _files_read_by(module: str) -> Iterator[None]:
    """Context manager: the files that are read inside belong to the import of this module."""
    watch_opens()
    with CodeFiles() as files:
        yield
    # Python imports a module only once. A second import reads nothing and must not forget what the first one read.
    _read_on_import.setdefault(module, files.files())


class _SourceLoader(SourceFileLoader):
    """Compiles a user's file each time, and neither reads nor writes bytecode.

    Python takes bytecode for current if the file has the same size and the same second of change. A file that was
    edited twice within a second would run as it was, under the identity of the new text.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


class _SourceFinder(MetaPathFinder):
    """Finds modules and packages that stand beside a user's file, for `_SourceLoader`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package = sys.modules.get(fullname.rpartition(".")[0])
        if path is not None and not (package and isinstance(package.__loader__, _SourceLoader)):
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is None or spec.origin is None or type(spec.loader) is not SourceFileLoader:
            return None
        if path is None:
            file = Path(spec.origin)
            folder = file.parent.parent if file.name == "__init__.py" else file.parent
            if str(folder) not in _folders:
                return None
        spec.loader = _SourceLoader(fullname, spec.origin)
        return spec


_finder = _SourceFinder()


@contextmanager
def _own_folder(folder: Path) -> Iterator[None]:
    """Context manager: inside, modules of the folder take precedence. Afterwards other files cannot import them."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
        _folders.add(str(folder))
    names = {path.stem for path in folder.glob("*.py")}
    hidden = {name: sys.modules.pop(name) for name in names & sys.modules.keys()}
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name not in before and _is_in(name, folder)]:
            del sys.modules[name]
        sys.modules.update(hidden)


def _is_in(name: str, folder: Path) -> bool:
    """Return whether a loaded module is a file or package of this folder."""
    top = folder / name.partition(".")[0]
    file = getattr(sys.modules[name], "__file__", None)
    return file is not None and (Path(file) == top.with_suffix(".py") or top in Path(file).parents)
