"""The lanes of `tests/lanes.toml`, and the guard of the quick one."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.lanes import Lanes, QuickGuard

LANES = """
[quick]
places = ["core", "test_shape.py"]
not_with_fixtures = ["server"]
except = ["core/slow", "core/test_a.py::test_starts"]

[long]
"core/test_a.py::test_many[*-forty]" = "more patterns"
"engine/test_b.py::test_kill" = "more kills"
"""


@pytest.fixture
def lanes(tmp_path: Path) -> Lanes:
    (tmp_path / "lanes.toml").write_text(LANES)
    return Lanes(tmp_path / "lanes.toml")


@pytest.mark.parametrize(
    ("name", "lane"),
    [
        ("core/test_a.py::test_new", "quick"),
        ("core/deep/test_new.py::test_new[1]", "quick"),
        ("test_shape.py::test_x", "quick"),
        ("core/slow/test_a.py::test_x", "test"),
        ("core/test_a.py::test_starts[one]", "test"),
        ("core/test_a.py::test_starts_nothing", "quick"),
        ("core/test_a.py::test_many[all-ten]", "quick"),
        ("core/test_a.py::test_many[all-forty]", "long"),
        ("core_other/test_a.py::test_x", "test"),
        ("engine/test_b.py::test_x", "test"),
        ("engine/test_b.py::test_kill[task]", "long"),
    ],
)
def test_a_test_is_in_the_lane_of_its_folder_unless_an_entry_names_it(lanes: Lanes, name: str, lane: str) -> None:
    assert lanes.lane_of(name) == lane


def test_a_test_with_a_server_is_not_quick(lanes: Lanes) -> None:
    assert lanes.lane_of("core/test_a.py::test_new", ["tmp_path", "server"]) == "test"


def test_an_entry_for_a_test_that_is_gone_is_found_if_its_file_was_collected(lanes: Lanes) -> None:
    names = ["core/test_a.py::test_new", "core/test_a.py::test_many[all-forty]"]
    assert lanes.unused(names) == ["core/test_a.py::test_starts"]


@pytest.fixture(scope="module")
def guard() -> QuickGuard:
    return QuickGuard()


def start_process() -> None:
    subprocess.run([sys.executable, "-c", ""], check=True)


def listen() -> None:
    socket.create_server(("127.0.0.1", 0)).close()


def use_a_pair() -> None:
    for end in socket.socketpair():
        end.close()


@pytest.mark.parametrize(
    ("act", "deeds"),
    [
        (start_process, {"starts a process (subprocess.Popen)"}),
        (listen, {"uses the network (socket.bind)"}),
        (use_a_pair, set()),
    ],
)
def test_the_guard_hears_of_processes_and_of_the_network(
    guard: QuickGuard, act: Callable[[], None], deeds: set[str]
) -> None:
    with guard.watching():
        act()
    assert guard.deeds == deeds
    start_process()
    assert guard.deeds == deeds
