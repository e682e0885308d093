"""The name of the offline judge changes with what it does."""

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


def test_other_rules_are_another_judge_and_other_comments_are_not(tmp_path: Path) -> None:
    """Any file of the judge counts, its lists of words too, and the words that it shares with the scores of answers."""
    shutil.copytree(Path(assay.__file__).parent, tmp_path / "assay", ignore=shutil.ignore_patterns("__pycache__"))
    changes = (
        ("scoring/offline/dates.py", "LATER = 1\n"),
        ("scoring/offline/families.txt", "cellar basement\n"),
        ("scoring/text_overlap.py", "LATER = 1\n"),
    )
    for name, _ in changes:
        if name.endswith(".py"):
            with (tmp_path / "assay" / name).open("a") as file:
                file.write('# another comment\n"""Another docstring."""\n')
    assert fingerprint_of(tmp_path) == offline.FINGERPRINT
    found = {offline.FINGERPRINT}
    for name, line in changes:
        with (tmp_path / "assay" / name).open("a") as file:
            file.write(line)
        found.add(fingerprint_of(tmp_path))
    assert len(found) == 4
    assert all(each.startswith("offline.v1@") for each in found)
