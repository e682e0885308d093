"""What a memory may give for a question, whatever its snapshots show."""

from __future__ import annotations

from pathlib import Path

from support.memory_samples import Samples, entry_of, lines, sample

MERGING = """
from assay.core.memory import AboutMemory, SearchHit, MemoryItem

ABOUT = AboutMemory(summary="one note, made anew for each session, and whatever was noted before")

class Merging:
    def __init__(self, around):
        self.reset()

    def reset(self):
        self.texts, self.notes = [], []

    def add(self, messages):
        self.texts += [message.line for message in messages]

    def search(self, query, k):
        found = [SearchHit(note, 1.0) for note in self.notes]
        return [*found, SearchHit(MemoryItem("nowhere", "in no snapshot"), 0.5)]

    def items(self):
        return self.notes[-1:]

    def end_session(self):
        ids = tuple(str(number) for number in range(len(self.texts)))
        self.notes.append(MemoryItem(f"note {len(self.notes)}", " ".join(self.texts), sources=ids))
"""


def test_what_was_replaced_can_still_be_found(tmp_path: Path) -> None:
    """A search may give items that no snapshot shows, or shows no longer; the lines have their texts."""
    samples = Samples(tmp_path, sample("s1", 3))
    (tmp_path / "merging.py").write_text(MERGING)
    run = samples.run(baseline=[f"{tmp_path}/merging.py:Merging"])
    assert entry_of(run, "merging").counts["samples"] == 1
    sessions, questions = (lines(samples.out / f"pipeline_{name}.jsonl") for name in ("sessions", "qa"))
    shown = [row["memory_snapshot"] for row in sessions]
    assert [[one["memory_id"] for one in held] for held in shown] == [["note 0"], ["note 1"], ["note 2"]]
    assert [row["memory_delta"][0]["linked_previous"] for row in sessions] == [[], ["note 0"], ["note 1"]]
    found = [{one["memory_id"]: one["text"] for one in row["retrieval"]["items"]} for row in questions]
    texts = {one["memory_id"]: one["text"] for held in shown for one in held}
    assert found[2] == texts | {"nowhere": "in no snapshot"}
