"""A comparison holds numbers, not records."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from assay.core.types import Commit, Record, Score
from assay.journal.lines import JournalFile
from assay.journal.run_files import read_summary, write_summary
from assay.store.comparison import compare

from support.runs import Made

CASES = 5_000
MOST_BYTES = 12_000_000
"""A few blocks of the files that are being read, and some 400 bytes a case of both runs together."""
TEXT = "word " * 800


def large_run(folder: Path, *, wrong: int) -> str:
    """Every `wrong`-th case is wrong. The lines are written as the journal would, but with few writes."""
    Made(folder).finish()
    records, scores = JournalFile(folder / "records.jsonl"), JournalFile(folder / "scores.jsonl")
    for index in range(CASES):
        head = (index, f"{index * 7919:016x}", "s", "m")
        records.add(Record(*head, 1, "answer", data=TEXT, end=Commit()))
        value = float(index % wrong != 0)
        data = {"filtered": TEXT}
        scores.add(Score(*head, "suite@1", "passed", value=value, data=data, end=Commit()))
    for file in (records, scores):
        file.write()
        file.close()
    summary = read_summary(folder)
    assert summary is not None
    write_summary(folder, summary)  # it has the sizes of the journal
    return str(folder)


def test_memory_does_not_grow_with_texts(tmp_path: Path) -> None:
    """5,000 cases with 8,000 bytes of text on each side: a comparison fits into a fraction of that."""
    runs = [large_run(tmp_path / "base", wrong=4), large_run(tmp_path / "new", wrong=5)]
    tracemalloc.start()
    try:
        (comparison,) = compare(runs).comparisons
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (comparison.rows[0].n, comparison.now_failing.count) == (CASES, CASES // 5 - CASES // 20)
    assert peak < MOST_BYTES < sum(path.stat().st_size for path in tmp_path.rglob("*.jsonl")) / 6
