"""Which code of users may run: looking at a run runs nothing that its folder has or names.

    with only_named_code(["my_suite.py"]):
        find_suite(info.suite)          # CodeNotNamed, unless it is in my_suite.py

A run folder names Python files: its suite, its loader, functions of its tasks, its memories. Who reads the folder of
somebody else must not run them. Commands that evaluate run what their own words name, so nothing is refused outside
of `only_named_code`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from assay.core.errors import UsageError
from assay.core.files import path_from_here

_named: ContextVar[frozenset[str] | None] = ContextVar("named_code", default=None)
"""The files, folders and modules that the user has named. None: everything may run."""


class CodeNotNamed(UsageError):
    """A run names code, and the user has not named it. `code` is what the user can name with `--code`."""

    def __init__(self, code: str) -> None:
        super().__init__(
            f"the run names code in {code}. Code does not run because a run names it. If you trust it, name it "
            f"yourself: add --code {code} (in Python code=[{code!r}])"
        )
        self.code = code


@contextmanager
def only_named_code(names: Iterable[str | Path] = ()) -> Iterator[None]:
    """Context manager: inside, only these files, folders and modules run, besides those of an outer such block."""
    token = _named.set((_named.get() or frozenset()) | _plain(names))
    try:
        yield
    finally:
        _named.reset(token)


def name_code(names: Iterable[str | Path]) -> None:
    """Add files, folders and modules to those that the user has named. Without `only_named_code`, all may run."""
    named = _named.get()
    if named is not None:
        _named.set(named | _plain(names))


def _plain(names: Iterable[str | Path]) -> frozenset[str]:
    """Return the names without the attribute: `FILE.py:NAME`, as options name suites and loaders, means the file."""
    return frozenset(re.sub(r"(\.py):[^/]*$", r"\1", str(name)) for name in names)


def is_restricted() -> bool:
    """Return whether only named code may run."""
    return _named.get() is not None


def refuse_unnamed_file(path: Path) -> None:
    """Raise CodeNotNamed if this Python file may not run. A named folder names all files in and below it."""
    named = _named.get()
    if named is None:
        return
    file = path.resolve()
    if not any(file == each or each in file.parents for each in (Path(name).resolve() for name in named)):
        raise CodeNotNamed(str(path_from_here(path)))


def refuse_unnamed_module(module: str) -> None:
    """Raise CodeNotNamed if this installed module may not be imported. A named package names all of its modules."""
    named = _named.get()
    if named is not None and not any(module == name or module.startswith(f"{name}.") for name in named):
        raise CodeNotNamed(module)
