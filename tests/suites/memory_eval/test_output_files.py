"""Files of an evaluation that cannot be written: nothing of them stays, and nothing is paid again."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from assay.suites.memory_eval.output_files import OutputLines

from support.memory_samples import Samples


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """No file may grow longer meanwhile, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fill(lines: OutputLines, size: int) -> None:
    """With more than fits."""
    for _ in range(1_000):
        lines.add(b"x" * size)


@pytest.mark.parametrize("size", [100, 5_000, 20_000])
def test_nothing_stays_of_a_file_that_did_not_fit(tmp_path: Path, size: int) -> None:
    """Whether the bytes that do not fit were written, or still wait to be."""
    lines = OutputLines(tmp_path / "lines.jsonl")
    with files_up_to(10_000):
        with pytest.raises(OSError, match="too large"):
            fill(lines, size)
        lines.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """The other baseline's files do not stay in part; once there is room, nothing is asked again."""
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
