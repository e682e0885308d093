"""MTMemory: thresholds by hand, and where a message is hung up."""

from __future__ import annotations

import asyncio
import math

import pytest

from assay.core.memory import MemoryItem
from assay.memories import mt_memory
from assay.memories.mt_memory import ROOT, MemTree, threshold

from support.memories import Placed, around, find, held, said

PLACED = {
    "east": (1, 0, 0),
    "east too": (1, 0, 0),
    "north": (0, 1, 0),
    "nearly": (0.5, 0, math.sqrt(0.75)),
    "east again": (1, 0, 0),
    "all east": (1, 0, 0),
    "?": (1, 0, 0),
}


def grown(*texts: str, replies: tuple[str, ...] = (), **options: float) -> tuple[MemTree, Placed, list[MemoryItem]]:
    model = Placed(PLACED, replies)
    memory = mt_memory.make(around(model, **options))

    async def work() -> list[MemoryItem]:
        await memory.add([said(f"D1:{number}", text) for number, text in enumerate(texts, 1)])
        return list(await held(memory))

    return memory, model, asyncio.run(work())


def test_the_threshold_rises_with_depth() -> None:
    """0.4 at the root, 0.4 * e^0.5 = 0.6595 at the bottom."""
    assert threshold(0, 3, 0.4, 0.5) == 0.4
    assert threshold(3, 3, 0.4, 0.5) == pytest.approx(0.65949, abs=1e-5)
    assert threshold(1, 2, 0.4, 0.5) == pytest.approx(0.4 * math.exp(0.25))


def test_what_is_far_from_all_hangs_on_the_root() -> None:
    """No note is passed, so nothing is asked."""
    memory, model, items = grown("east", "north")
    assert memory._children == {ROOT: [0, 1], 0: [], 1: []}
    assert not model.asked
    assert [(item.id, item.kind, item.sources) for item in items] == [
        ("node:1", "graph_node", ("D1:1",)),
        ("node:2", "graph_node", ("D1:2",)),
    ]


def test_what_is_near_hangs_below_and_what_it_passes_is_rewritten() -> None:
    """The second goes below the first, a leaf, which stays; the third passes the first, which does not."""
    memory, model, items = grown("east", "east too", "east again", replies=("all east",))
    assert memory._children == {ROOT: [0], 0: [1], 1: [2], 2: []}
    assert [item.text for item in items] == ["all east", "east too", "east again"]
    assert [item.sources for item in items] == [("D1:1", "D1:3"), ("D1:2",), ("D1:3",)]
    ((messages, _),) = model.asked
    assert "<summary>\neast\n</summary>\n<note>\neast again\n</note>" in messages[1]["content"]
    assert "above 1 narrower" in messages[0]["content"]


def test_the_threshold_of_the_note_itself_decides() -> None:
    """A cosine of 0.5 passes the root's 0.4 and not the 0.4 * e^(0.5 * 1/2) = 0.5136 one deeper."""
    memory, model, _ = grown("east", "east too", "nearly")
    assert memory._children[0] == [1, 2]
    assert not model.asked
    memory, model, _ = grown("east", "east too", "nearly", replies=("all east",), rate=0.4)
    assert memory._children[1] == [2]
    assert len(model.asked) == 1


def test_as_near_as_the_threshold_is_near_enough() -> None:
    """A cosine of 0.5 passes a threshold of 0.5."""
    memory, _, _ = grown("east", "nearly", base=0.5)
    assert memory._children[0] == [1]


def test_the_depth_of_the_tree_is_that_of_its_deepest_note() -> None:
    """A note on the root in between does not make the tree flat: 0.4 * e^(0.4 * 1/2) = 0.4886 lets 0.5 pass."""
    memory, _, _ = grown("east", "east too", "north", "nearly", replies=("all east",), rate=0.4)
    assert memory._children[1] == [3]


def test_a_search_takes_all_notes_by_what_they_say_now() -> None:
    """A rewritten note is found by its new text."""
    memory, _, _ = grown("nearly", "east", "east too", replies=("all east",))
    found = asyncio.run(find(memory, "?", 3))
    assert [(each.item.id, each.score) for each in found] == [
        ("node:1", 1.0),
        ("node:2", 1.0),
        ("node:3", 1.0),
    ]
    assert found[0].item.text == "all east"
    assert (found[0].item.session, found[0].item.date) == ("D1", "2023-05-08")
