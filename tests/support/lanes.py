"""The three lanes of tests: `make quick`, `make test` and `make test-long`. `tests/lanes.toml` says what is in each.

This is a pytest plugin. It selects the tests of `--lane`, and it keeps the quick lane quick: a quick test that starts
a process or opens a network connection fails, in every lane, with a message that says what to do.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
# The lanes of tests that each value of `--lane` runs.
SELECTED = {"quick": {"quick"}, "test": {"quick", "test"}, "long": {"long"}, "all": {"quick", "test", "long"}}
# Events of https://docs.python.org/3/library/audit_events.html.
_PROCESS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"})
_NETWORK = frozenset({"socket.bind", "socket.connect"})


class Names:
    """Names of tests: files, `core/test_x.py`, functions, `core/test_x.py::test_y`, and cases, `…::test_y[*-z]`."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(names)
        self._pattern = re.compile(f"(?:{'|'.join(map(self._escape, self.names))})(?=$|/|::|\\[)", re.DOTALL)

    def cover(self, name: str) -> bool:
        """Return whether one of the names is this one, or that of something around it: its folder, file or function."""
        return bool(self.names) and self._pattern.match(name) is not None

    @staticmethod
    def _escape(name: str) -> str:
        return re.escape(name).replace(r"\*", ".*")


class Lanes:
    """The content of `tests/lanes.toml`."""

    def __init__(self, path: Path) -> None:
        document = tomllib.loads(path.read_text())
        self._quick = Names(document["quick"]["places"])
        self._not_quick = Names(document["quick"]["except"])
        self._fixtures = frozenset(document["quick"]["not_with_fixtures"])
        self._long = Names(document["long"])

    def may_be_quick(self, file: str) -> bool:
        """Return whether a file, `core/test_x.py`, may have quick tests."""
        return self._quick.cover(file) and not self._not_quick.cover(file)

    def lane_of(self, name: str, fixtures: Iterable[str] = ()) -> str:
        """Return the first lane of a test: a quick test is also in the lane `test`."""
        if self._long.cover(name):
            return "long"
        if not self._quick.cover(name) or self._not_quick.cover(name):
            return "test"
        return "quick" if self._fixtures.isdisjoint(fixtures) else "test"

    def unused(self, tests: Collection[str]) -> list[str]:
        """Return the names in the file that none of these tests has, although their test file is among them."""
        tests_of: dict[str, list[str]] = {}
        for test in tests:
            tests_of.setdefault(test.partition("::")[0], []).append(test)
        names = [*self._not_quick.names, *self._long.names]
        return [
            name
            for name in names
            if (of_file := tests_of.get(name.partition("::")[0])) and not any(map(Names([name]).cover, of_file))
        ]


class QuickGuard:
    """Notes what a quick test does that no quick test may do."""

    def __init__(self) -> None:
        self.deeds: set[str] = set()
        self._is_watching = False
        sys.addaudithook(self._hear)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Note in `deeds` what happens inside the block."""
        self.deeds = set()
        self._is_watching = True
        try:
            yield
        finally:
            self._is_watching = False

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._is_watching:
            return
        if event in _PROCESS:
            self.deeds.add(f"starts a process ({event})")
        elif event in _NETWORK and isinstance(arguments[1], tuple):  # a path is a socket of this machine
            self.deeds.add(f"uses the network ({event})")


lanes = Lanes(TESTS / "lanes.toml")
_guard = QuickGuard()


def _name(item: pytest.Item) -> str:
    """Return `core/test_x.py::test_y[z]`. A node id has the same after the folder from which pytest started."""
    return f"{item.path.relative_to(TESTS).as_posix()}::{item.nodeid.partition('::')[2]}"


def _lane_of(item: pytest.Item) -> str:
    return lanes.lane_of(_name(item), item.fixturenames if isinstance(item, pytest.Function) else ())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--lane", choices=SELECTED, default="test", help="tests to run, by tests/lanes.toml (default: test)"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files without quick tests before they are imported."""
    if config.getoption("--lane") != "quick" or collection_path.suffix != ".py":
        return None
    return None if lanes.may_be_quick(collection_path.relative_to(TESTS).as_posix()) else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    is_whole = not config.getoption("lf", default=False) and not any("::" in argument for argument in config.args)
    if is_whole and (unused := lanes.unused([_name(item) for item in items])):
        raise pytest.UsageError(f"tests/lanes.toml names tests that do not exist: {', '.join(unused)}")
    wanted = SELECTED[config.getoption("--lane")]
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        (kept if _lane_of(item) in wanted else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    if _lane_of(item) != "quick":
        return (yield)
    with _guard.watching():
        result = yield
    if _guard.deeds:
        pytest.fail(
            f"A quick test {' and '.join(sorted(_guard.deeds))}. Call the function instead of the command, or "
            f'add "{_name(item).partition("[")[0]}" to `except` in tests/lanes.toml.',
            pytrace=False,
        )
    return result
