"""A task whose model waits for a file before its last answers, so that a test can look at a run that is running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TASK = """\
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
metric_list: [{metric: exact_match}]
"""
MODEL = """\
import asyncio, os, signal
from pathlib import Path

async def answer(prompt, params):
    if Path("stubborn").exists():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        Path("deaf").touch()
    number = int(prompt.split()[0])
    while number >= 3 and not Path("go").exists():
        await asyncio.sleep(0.01)
    return str(number + 1)
"""
WORDS = ["task", "sums.yaml", "--model", "python/model.py:answer", "--output-dir", "results"]
"""The words after `assay` that run the task. Three of six questions are answered at once."""


@contextmanager
def waiting_task(folder: Path) -> Iterator[Path]:
    """Write the task. At the end the model stops to wait, so that no process outlives the test."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sums.yaml").write_text(TASK)
    (folder / "model.py").write_text(MODEL)
    rows = (f'{{"question": "{number} + 1", "answer": "{number + 1}"}}\n' for number in range(6))
    (folder / "rows.jsonl").write_text("".join(rows))
    try:
        yield folder
    finally:
        (folder / "go").touch()
