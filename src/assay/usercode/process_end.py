"""How the command's process ends. A module of its own, because the command line imports it at every start."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

leave_threads = threading.Event()
"""Set if a thread is inside a library and cannot be ended, so that Python's own end would wait for it or crash. The
command then ends the process without it."""

# All functions of `os` that end or replace the process, except those that end it with a signal: its exit code is then
# not 0. `os.execvp` and the like call one of the last two.
_NAMES = ("_exit", "execv", "execve")

_lock = threading.Lock()
_originals: dict[str, Callable[..., Any]] = {}
_depth = 0


@contextmanager
def refuse_exits() -> Iterator[None]:
    """Let `os._exit` and `os.exec…` raise SystemExit, as `sys.exit` does, so that user code fails its case only.

    Otherwise `os._exit(0)` would end a run as if it had succeeded. A copy of the process that the code makes, with
    `os.fork` or `multiprocessing`, still ends as it likes. These contexts may overlap, also in several threads.
    """
    global _depth  # noqa: PLW0603 - the functions of `os` are global too
    with _lock:
        if _depth == 0:
            for name in _NAMES:
                _originals[name] = getattr(os, name)
                setattr(os, name, _refusal(name, _originals[name]))
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                for name, original in _originals.items():
                    setattr(os, name, original)


def _refusal(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    process = os.getpid()

    def refuse(*args: Any, **kwargs: Any) -> Any:
        if os.getpid() != process:
            return original(*args, **kwargs)
        raise SystemExit(f"os.{name} would end the whole run")

    return refuse
