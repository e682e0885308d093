"""MGMemory needs no package, as `http`: it is killed in the same way."""

from __future__ import annotations

from pathlib import Path

from servers.memory_model import MemoryModel
from with_system.systems import memory_test
from with_system.test_runs import assert_kills_cost_nothing


def test_mgmemory_killed_often_is_as_undisturbed(tmp_path: Path, server: MemoryModel) -> None:
    """Its view, its facts and its summary are made again of the logged replies."""
    whole, killed = (
        memory_test(tmp_path / part / "out", server, "--memory-args", "words=200", memory="MGMemory")
        for part in ("whole", "killed")
    )
    assert_kills_cost_nothing(whole, killed, server)
