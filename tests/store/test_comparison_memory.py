"""A comparison holds numbers, not records."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from assay.store.comparison import compare

from support.runs import Made

CASES = 20_000
MOST_BYTES = 12_000_000
"""A few blocks of the files that are being read, and some 400 bytes a case of both runs together."""
RECORD = '{"type":"record","index":%d,"case":"%016x","set":"s","subject":"m","try":1,"kind":"answer","data":"%s","end":{}}\n'
SCORE = '{"type":"score","index":%d,"case":"%016x","set":"s","subject":"m","scorer":"suite@1","metric":"passed","value":%d,"data":{"filtered":"%s"},"end":{}}\n'
TEXT = "word " * 200


def large_run(folder: Path, *, wrong: int) -> str:
    """Every `wrong`-th case is wrong. The lines are written as the journal would."""
    Made(folder).finish()
    with (folder / "records.jsonl").open("a") as file:
        file.writelines(RECORD % (at, at * 7919, TEXT) for at in range(CASES))
    with (folder / "scores.jsonl").open("a") as file:
        file.writelines(SCORE % (at, at * 7919, at % wrong != 0, TEXT) for at in range(CASES))
    return str(folder)


def test_memory_does_not_grow_with_texts(tmp_path: Path) -> None:
    """20,000 cases with 2,000 bytes of text on each side: a comparison fits into a fraction of that."""
    runs = [large_run(tmp_path / "base", wrong=4), large_run(tmp_path / "new", wrong=5)]
    tracemalloc.start()
    try:
        (found,) = compare(runs).comparisons
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found.rows[0].n, found.now_failing.count) == (CASES, CASES // 5 - CASES // 20)
    assert peak < MOST_BYTES < sum(path.stat().st_size for path in tmp_path.rglob("*.jsonl")) / 6
