"""Links in an output folder of somebody else: scoring its run again replaces them and never writes where they lead."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import pytest

from assay.runner.rescore import rescore

from support.damaged_runs import SMALL_RUNS, SmallRun

# The other suites write into the run folder, in which a link is damage.
_IN_OUTPUT_FOLDER = [small for small in SMALL_RUNS if small.suite in ("task", "hop", "memory-test", "memory-eval")]


@pytest.mark.parametrize("small", _IN_OUTPUT_FOLDER, ids=lambda small: small.suite)
def test_rescore_writes_through_no_link_in_the_output_folder(small: SmallRun, tmp_path: Path) -> None:
    for name, content in small.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with chdir(tmp_path):
        run = small.start()
        files = [Path(name) for name in run.summary.files]
        assert files
        for file in files:
            file.unlink()
            temporaries = [f".{file.name}.{middle}tmp" for middle in ("", "0.", "1.", "hashes.")]
            for name in (file.name, *temporaries):
                (file.parent / name).symlink_to(elsewhere / name)
        again = rescore(str(run.folder), code=[tmp_path])
    written = [tmp_path / name for name in again.summary.files]
    assert len(written) == len(files)
    assert all(file.is_file() and not file.is_symlink() for file in written)
    assert list(elsewhere.iterdir()) == []
