"""Tables on the screen: how wide a cell is, and what becomes of a table that is wider than the screen."""

from __future__ import annotations

import os
import pty
import struct
import subprocess
import sys
from fcntl import ioctl
from termios import TIOCSWINSZ

import pytest

from assay.store.render.screen import columns_of, split_columns, table

TABLE = 'from assay.store.render.screen import table; table(["step", "one", "two"], [["a" * 20, "b" * 15, "c" * 15]])'


@pytest.mark.parametrize(
    ("widths", "names", "room", "found"),
    [
        ([10, 10, 10], 1, None, [[0, 1, 2]]),
        ([10, 10, 10], 1, 34, [[0, 1, 2]]),
        ([10, 10, 10], 1, 33, [[0, 1], [0, 2]]),
        ([5, 5, 10, 10, 3], 2, 24, [[0, 1, 2], [0, 1, 3], [0, 1, 4]]),
        ([50, 50, 5], 1, 20, [[0, 1], [0, 2]]),
        ([50], 1, 20, [[0]]),
    ],
)
def test_a_table_comes_in_parts_that_fit(
    widths: list[int], names: int, room: int | None, found: list[list[int]]
) -> None:
    """Every part begins with what names the rows, every other column stands once."""
    assert split_columns(widths, names, room) == found


def test_chinese_names_stand_in_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Their characters are two columns wide."""
    table(["name", "n"], [["测试", "1"], ["ab", "22"], ["e\u0301", "3"]])
    assert capsys.readouterr().out.splitlines() == [
        "name   n",
        "────  ──",
        "测试   1",
        "ab    22",
        "e\u0301      3",
    ]
    assert columns_of("测试") == 4


def test_a_narrow_terminal_gets_parts_and_a_pipe_the_whole() -> None:
    """As a real terminal of 40 columns sees it."""
    above, below = pty.openpty()
    ioctl(below, TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    command = [sys.executable, "-c", TABLE]
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    subprocess.run(command, check=True, stdout=below, env=environment)
    os.close(below)
    shown = os.read(above, 4096).decode()
    os.close(above)
    assert max(map(len, shown.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines())) <= 40
    assert shown.count("a" * 20) == 2
    piped = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert piped.count("a" * 20) == 1
