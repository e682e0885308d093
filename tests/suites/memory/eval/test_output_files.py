"""Files that cannot be written: no partial file remains, and no call is repeated."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from assay.suites.memory.eval.output_files import OutputLines

from support.memory_samples import Samples


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """Limit the file size, to simulate a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fill(lines: OutputLines, size: int) -> None:
    """Write more lines than fit."""
    for _ in range(1_000):
        lines.add(b"x" * size)


@pytest.mark.parametrize("size", [100, 5_000, 20_000])
def test_a_file_that_does_not_fit_is_removed(tmp_path: Path, size: int) -> None:
    """Whether the write or the flush fails."""
    lines = OutputLines(tmp_path / "lines.jsonl")
    with files_up_to(10_000):
        with pytest.raises(OSError, match="too large"):
            fill(lines, size)
        lines.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_created(tmp_path: Path) -> None:
    """No partial files of the other baseline remain. Later the same command asks nothing again."""
    samples = Samples(tmp_path)
    samples.out.mkdir()
    (samples.out / "STMemory").write_text("a file")
    stopped = samples.run(baseline=["bm25,STMemory"])
    assert (stopped.exit_code, "STMemory" in stopped.reason) == (3, True)
    assert list((samples.out / "bm25").iterdir()) == []
    (samples.out / "STMemory").unlink()
    prompts = len(samples.asked())
    assert samples.run(baseline=["bm25,STMemory"]).exit_code == 0
    assert len(samples.asked()) == prompts
