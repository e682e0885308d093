"""Which code of users may run: looking at a run runs nothing that its folder has or names.

    with only_named_code(["my_suite.py"]):
        find_suite(info.suite)          # CodeNotNamed, unless it is in my_suite.py

A run folder names Python files: its suite, its loader, functions of its tasks, its memories. Who reads the folder of
somebody else must not run them. Commands that evaluate run what their own words name, so nothing is refused outside
of `only_named_code` and `only_named_code_in_process`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from assay.core.errors import UsageError, similar_file
from assay.files.paths import can_exist, path_from_here

_named: ContextVar[frozenset[str] | None] = ContextVar("named_code", default=None)
"""The files, folders and modules that the user has named. None: what holds in the process holds here."""


class _Process:
    """What holds in every thread of the process: a new thread has no context variables."""

    named: frozenset[str] | None = None
    """None: everything may run."""

    def __init__(self) -> None:
        self.matched: set[str] = set()
        """The named files, folders and modules in which a run had code."""
        self.refused: dict[str, None] = {}
        """Code of runs that was not named."""


_process = _Process()


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
    token = _named.set((_allowed() or frozenset()) | _plain(names))
    try:
        yield
    finally:
        _named.reset(token)


@contextmanager
def only_named_code_in_process() -> Iterator[None]:
    """Context manager: inside, no thread of the process runs code that `name_code` has not named.

    For a command that only reads. A program may evaluate in another thread, so functions have `only_named_code`.
    """
    before, _process.named = _process.named, frozenset()
    _process.matched, _process.refused = set(), {}
    try:
        yield
    finally:
        _process.named = before


def name_code(names: Iterable[str | Path]) -> None:
    """Add files, folders and modules to those that the user has named, if not all may run."""
    named = _named.get()
    if named is not None:
        _named.set(named | _plain(names))
    elif _process.named is not None:
        _process.named |= _plain(names)


def unmatched_code(names: Iterable[str | Path]) -> str:
    """Return a sentence about names in which no run had code so far; empty if there are none.

    A wrong name would otherwise change nothing, silently.
    """
    unmatched = sorted(_plain(names) - _process.matched)
    if not unmatched:
        return ""
    sentence = f"--code {', '.join(unmatched)} had no effect: this command met no code of a run there"
    if not _process.refused:
        return f"{sentence}, and needed none that was not named"
    return f"{sentence}. The run names code in {', '.join(_process.refused)}. If you trust it, add " + " ".join(
        f"--code {code}" for code in _process.refused
    )


def _allowed() -> frozenset[str] | None:
    named = _named.get()
    return _process.named if named is None else named


def _plain(names: Iterable[str | Path]) -> frozenset[str]:
    """Return the names without the attribute: `FILE.py:NAME`, as options name suites and loaders, means the file.

    Raises UsageError for a path that does not exist. A name without `/` and `.py` may be a module.
    """
    plain = set()
    for name in names:
        text = re.sub(r"(\.py):[^/]*$", r"\1", str(name))
        path = Path(text)
        is_path = isinstance(name, Path) or "/" in text or text.endswith(".py")
        if is_path and not (can_exist(path) and path.exists()):
            raise UsageError(f"there is no file or folder {text!r}{similar_file(path)}")
        plain.add(text)
    return frozenset(plain)


def runs_only_named_code() -> bool:
    """Return whether only named code may run."""
    return _allowed() is not None


def refuse_unnamed_file(path: Path) -> None:
    """Raise CodeNotNamed if this Python file may not run. A named folder names all files in and below it."""
    named = _allowed()
    if named is None:
        return
    file = path.resolve()
    places = {name: Path(name).resolve() for name in named}
    _refuse_unmatched(
        {name for name, place in places.items() if place == file or place in file.parents},
        str(path_from_here(path)),
    )


def refuse_unnamed_module(module: str) -> None:
    """Raise CodeNotNamed if this installed module may not be imported. A named package names all of its modules."""
    named = _allowed()
    if named is not None:
        _refuse_unmatched({name for name in named if module == name or module.startswith(f"{name}.")}, module)


def _refuse_unmatched(matches: set[str], code: str) -> None:
    """Raise CodeNotNamed if no name matches. Remembers both for `unmatched_code`."""
    if matches:
        _process.matched |= matches
        return
    _process.refused[code] = None
    raise CodeNotNamed(code)
