"""The room that a run reserves on the disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import environment

PROGRAM = """if True:
    import os, sys
    from pathlib import Path
    if sys.argv[2] == "macOS":
        del os.posix_fallocate  # Python has none there
    from assay.journal.disk_reserve import RESERVED_BYTES, DiskReserve
    reserve = DiskReserve(Path(sys.argv[1]))
    files = [file for file in Path("/proc/self/fd").iterdir() if ".room" in os.path.realpath(file)]
    print(*(os.stat(file).st_blocks * 512 >= RESERVED_BYTES for file in files))
    reserve.close()
"""


@pytest.mark.parametrize("system", ["Linux", "macOS"])
def test_the_reserve_occupies_its_room_on_every_system(tmp_path: Path, system: str) -> None:
    words = [sys.executable, "-c", PROGRAM, str(tmp_path), system]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")
    assert list(tmp_path.iterdir()) == []
