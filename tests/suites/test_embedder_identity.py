"""An embedder of the user's own is part of what makes a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import assay
from assay.run_setup import open_run

EXAMPLES = Path(__file__).parents[2] / "examples"
SUITES: dict[str, dict[str, Any]] = {
    "memory-test": {"data": str(EXAMPLES / "memory" / "talks.json"), "memory": ["dense"], "no_answer": True},
    "memory-eval": {"dataset": str(EXAMPLES / "memory-eval"), "baseline": ["dense"], "model": "script/x"},
}


@pytest.mark.parametrize("suite", SUITES)
def test_an_edited_embedder_is_another_run(suite: str, tmp_path: Path) -> None:
    file = tmp_path / "letters.py"
    fingerprints = set()
    for size in (1, 2, 2):
        file.write_text(f"def load():\n    return {size}\n")
        spec = assay.spec(suite, embedder=f"{file}:load", output_dir=str(tmp_path), **SUITES[suite])
        fingerprints.add(open_run(spec, asks=False).ask)
    assert len(fingerprints) == 2
