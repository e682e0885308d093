"""The name of the offline judge changes with its code."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import assay
from assay.scoring import offline

PRINT = "from assay.scoring import offline; print(offline.FINGERPRINT)"


def fingerprint_of(source: Path) -> str:
    command = [sys.executable, "-c", PRINT]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(source)}, capture_output=True, text=True, check=True, cwd=source
    )
    return done.stdout.strip()


def test_another_code_is_another_judge(tmp_path: Path) -> None:
    """Any file of the judge counts, its lists of words too, and the words that it shares with the scores of answers."""
    shutil.copytree(
        Path(assay.__file__).parent, tmp_path / "assay", ignore=shutil.ignore_patterns("__pycache__")
    )
    assert fingerprint_of(tmp_path) == offline.FINGERPRINT
    found = {offline.FINGERPRINT}
    for name in ("scoring/offline/dates.py", "scoring/offline/families.txt", "scoring/text_overlap.py"):
        with (tmp_path / "assay" / name).open("a") as file:
            file.write("# another\n")
        found.add(fingerprint_of(tmp_path))
    assert len(found) == 4
    assert all(each.startswith("offline.v1@") for each in found)
