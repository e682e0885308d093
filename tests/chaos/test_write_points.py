"""The machinery of chaos: every write is numbered, and a seed means the same scenario each time."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from chaos.configuration import CONFIGURATIONS
from chaos.process import Ended, Job, start
from chaos.scenario import TABLES, Scenario
from chaos.stage import Executor
from chaos.write_points import Disturbance, When


def _write_in_every_way() -> int:
    """Twelve write points."""
    Path("made").mkdir()
    with Path("made/text").open("w") as file:  # an open, and a write when it is closed
        file.write("0123456789")
    fd = os.open("made/plain", os.O_WRONLY | os.O_CREAT)
    os.write(fd, b"0123456789")
    os.fsync(fd)
    os.ftruncate(fd, 4)
    os.close(fd)
    shutil.copyfile("made/plain", "made/copy")  # an open, and two sends: the second finds the end of the file
    Path("made/copy").replace("made/renamed")
    Path("made/renamed").unlink()
    assert Path("made/text").read_text() == "0123456789"  # reading is no write point
    return 0


def _play(folder: Path, disturbance: Disturbance | None = None) -> Ended:
    stage = folder / "stage"
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir()
    return start(Job(stage, _write_in_every_way, folder / "logs"), disturbance).end()


def test_every_write_is_a_point_and_a_kill_comes_at_each(tmp_path: Path) -> None:
    whole = _play(tmp_path)
    assert (whole.code, whole.points) == (0, 12), whole.text
    reached = [_play(tmp_path, Disturbance("kill", number)).reached for number in range(1, 14)]
    kinds = [words.split()[1] if words else "" for words in reached]
    write = ["open", "write"]
    assert kinds == ["mkdir", *write, *write, "sync", "truncate", *write, "write", "rename", "unlink", ""]


@pytest.mark.parametrize(("when", "content"), [("before", ""), ("torn", "01234"), ("after", "0123456789")])
def test_a_torn_write_has_half_of_the_bytes(tmp_path: Path, when: When, content: str) -> None:
    for number, name in ((3, "text"), (5, "plain")):
        assert _play(tmp_path, Disturbance("kill", number, when)).killed
        assert (tmp_path / "stage" / "made" / name).read_text() == content


@pytest.mark.parametrize("executor", TABLES)
def test_a_seed_is_the_same_scenario_each_time_and_few_seeds_have_all_suites(executor: Executor) -> None:
    scenarios = [Scenario.of(seed, executor) for seed in range(300)]
    assert [str(each) for each in scenarios] == [str(Scenario.of(seed, executor)) for seed in range(300)]
    assert {each.configuration.suite for each in scenarios[:7]} == set(CONFIGURATIONS)
    assert {name for each in scenarios for name in each.faults} == set(TABLES[executor])
