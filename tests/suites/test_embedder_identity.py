"""An embedder of the user's own is part of what makes a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import UsageError
from assay.runner.opening import open_run

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
        fingerprints.add(open_run(spec, asks=False).identity.ask)
    assert len(fingerprints) == 2


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("name", ["lettres.py:load", "python/letters.py:load"])
def test_a_missing_file_of_an_embedder_is_named(
    suite: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a similar name of its folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "letters.py").write_text("def load():\n    return 1\n")
    spec = assay.spec(suite, embedder=name, output_dir=str(tmp_path), **SUITES[suite])
    with pytest.raises(UsageError) as caught:
        open_run(spec, asks=False)
    assert f"there is no file {name.partition(':')[0]!r}" in str(caught.value)
    assert ("letters.py" in str(caught.value).partition(";")[2]) is (name[0] == "l")
