"""What a session changed: the words for it, and that snapshots can be made of changes alone."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import given, strategies as st
from msgspec.structs import replace

from assay.core.memory import MemoryItem
from assay.suites.memory.snapshots import (
    ADD,
    ARCHIVE,
    KEEP,
    UPDATE,
    ItemChange,
    MemorySnapshot,
    SessionChanges,
    SnapshotItem,
    diff_snapshots,
)

ITEMS = st.builds(
    MemoryItem,
    id=st.sampled_from("abcdefg"),
    text=st.sampled_from(["", "red", "green", "blue"]),
    session=st.sampled_from(["", "", "S-own"]),
    sources=st.lists(st.sampled_from("123"), unique=True, max_size=3).map(tuple),
    kind=st.sampled_from(["linear", "insight"]),
    status=st.sampled_from(["active", "active", "superseded"]),
    metadata=st.sampled_from([{}, {"trust": 0.5}]),
)
SNAPSHOTS = st.lists(st.lists(ITEMS, unique_by=lambda item: item.id, max_size=6), max_size=6)


def changes(before: Sequence[MemoryItem], now: Sequence[MemoryItem]) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(change.op, change.id, change.linked) for change in diff_snapshots(before, now, "S").changes]


def written_and_read(made: SessionChanges) -> SessionChanges:
    """As a journal gives it back."""
    return msgspec.json.decode(msgspec.json.encode(made), type=SessionChanges)


def each(item: MemoryItem | SnapshotItem) -> tuple[Any, ...]:
    """What a snapshot shows of an item, without its session."""
    return item.id, item.text, item.kind, item.status, item.metadata


@given(SNAPSHOTS)
def test_changes_give_every_snapshot_in_its_order(snapshots: list[list[MemoryItem]]) -> None:
    """Whatever came, went, changed, was re-ordered or got another id."""
    fold, before = MemorySnapshot(), list[MemoryItem]()
    for number, now in enumerate(snapshots):
        fold.apply(written_and_read(diff_snapshots(before, now, f"S{number}")))
        shown = [each(item) for item in fold.items.values()]
        assert shown == [each(item) for item in now]
        assert list(fold.items) == [item.id for item in now]
        assert all(item.session for item in fold.items.values())
        before = now


@given(SNAPSHOTS)
def test_what_is_gone_is_told_once(snapshots: list[list[MemoryItem]]) -> None:
    """Every id of before that is not there now is archived or replaced. What is there is archived if it is not active."""
    for before, now in itertools.pairwise(snapshots):
        made = diff_snapshots(before, now, "S")
        gone = {item.id for item in before} - {item.id for item in now}
        archived = [each.id for each in made.changes if each.op == ARCHIVE and each.status == "active"]
        stored = {each.id for each in made.changes if each.op == ARCHIVE and each.status != "active"}
        assert stored <= {item.id for item in now if item.status != "active"}
        replaced = {name for change in made.changes for name in change.linked if name != change.id}
        assert gone == {*archived, *replaced}
        assert replaced.isdisjoint(archived)
        assert len(archived) == len(set(archived))
        told = [change.id for change in made.changes]
        assert len(told) == len(set(told))


@given(SNAPSHOTS)
def test_what_stays_is_not_told(snapshots: list[list[MemoryItem]]) -> None:
    """A change is there for what is new or has another text, kind, status or metadata, and for nothing else."""
    for before, now in itertools.pairwise(snapshots):
        old = {item.id: each(item) for item in before}
        changed = {item.id for item in now if old.get(item.id) != each(item)}
        present = {item.id for item in now}
        assert {change.id for change in diff_snapshots(before, now, "S").changes} & present == changed


RED, GREEN = MemoryItem("a", "red", sources=("1",)), MemoryItem("b", "green", sources=("2",))


def test_what_is_added_at_the_end_is_all_that_is_said() -> None:
    """The common case: no order, no archive, and the session is this one unless the item names another."""
    made = diff_snapshots([RED], [RED, GREEN, MemoryItem("c", "blue", session="S0")], "S")
    assert made == SessionChanges([ItemChange(ADD, "b", "green", "S"), ItemChange(ADD, "c", "blue", "S0")])


def test_the_same_id_with_another_text_is_an_update_of_itself() -> None:
    """It keeps its place."""
    made = diff_snapshots([RED, GREEN], [MemoryItem("a", "pink"), GREEN], "S")
    assert made == SessionChanges([ItemChange(UPDATE, "a", "pink", "S", linked=("a",))])


def test_another_kind_is_an_update_too() -> None:
    """Files show the kind."""
    assert changes([RED], [MemoryItem("a", "red", kind="insight")]) == [(UPDATE, "a", ("a",))]


def test_a_new_id_made_of_the_same_messages_replaces() -> None:
    """Of one or of several; one that was made of other messages too is not replaced by a part of them."""
    both = MemoryItem("c", "red and green", sources=("1", "2"))
    assert changes([RED, GREEN], [both]) == [(UPDATE, "c", ("a", "b"))]
    assert changes([both], [RED]) == [(ADD, "a", ()), (ARCHIVE, "c", ())]
    assert changes([MemoryItem("x", "from nothing")], [RED]) == [(ADD, "a", ()), (ARCHIVE, "x", ())]


def test_a_new_id_with_the_same_text_teaches_nothing() -> None:
    """It is kept, with the session that it came from."""
    fold = MemorySnapshot()
    fold.apply(diff_snapshots([], [RED], "S1"))
    made = diff_snapshots([RED], [MemoryItem("z", "red"), MemoryItem("y", "red")], "S2")
    assert [(change.op, change.linked) for change in made.changes] == [(KEEP, ("a",)), (KEEP, ("a",))]
    fold.apply(made)
    assert [(item.id, item.session) for item in fold.items.values()] == [("z", "S1"), ("y", "S1")]


def test_the_order_is_told_where_it_changes() -> None:
    """As when the newest comes first."""
    assert diff_snapshots([RED], [GREEN, RED], "S").order == ["b", "a"]
    assert diff_snapshots([RED, GREEN], [GREEN, RED], "S") == SessionChanges([], ["b", "a"])
    assert diff_snapshots([RED, GREEN], [GREEN], "S") == SessionChanges([ItemChange(ARCHIVE, "a")])


class Counted(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_a_memory_that_renames_everything_costs_no_square() -> None:
    """Each item is looked up, not compared with all that went."""
    count = 300
    before = [MemoryItem(f"a{at}", Counted(f"text {at}"), sources=(str(at),)) for at in range(count)]
    now = [MemoryItem(f"b{at}", Counted(f"text {at}"), sources=(str(at),)) for at in range(count)]
    Counted.compared = 0
    assert {change.op for change in diff_snapshots(before, now, "S02").changes} == {"keep"}
    assert Counted.compared < 10 * count


def test_an_item_that_is_no_longer_active_is_archived_once_and_stays() -> None:
    """It keeps the session that wrote it. Later changes of it are no news for judges."""
    first = MemoryItem("a", "red", "S1")
    old, older = replace(first, status="superseded"), replace(first, status="forgotten", text="reddish")
    assert changes([first], [old]) == [(ARCHIVE, "a", ("a",))]
    assert changes([old], [older]) == [(KEEP, "a", ("a",))]
    assert changes([old], [first]) == [(UPDATE, "a", ("a",))]
    assert changes([old], []) == [(ARCHIVE, "a", ())]
    assert changes([], [old]) == [(ARCHIVE, "a", ())]
    fold = MemorySnapshot()
    for before, now, session in (([], [first], "S1"), ([first], [old], "S2"), ([old], [older], "S3")):
        fold.apply(written_and_read(diff_snapshots(before, now, session)))
    assert list(fold.items.values()) == [SnapshotItem("a", "reddish", "S1", "linear", "forgotten")]


def test_other_metadata_add_no_information() -> None:
    first = MemoryItem("a", "red", metadata={"trust": 0.5})
    now = replace(first, metadata={"trust": 0.9})
    assert changes([first], [now]) == [(KEEP, "a", ("a",))]
    fold = MemorySnapshot()
    fold.apply(diff_snapshots([], [first], "S1"))
    fold.apply(written_and_read(diff_snapshots([first], [now], "S2")))
    assert list(fold.items.values()) == [SnapshotItem("a", "red", "S1", "linear", metadata={"trust": 0.9})]


def test_the_journal_of_plain_items_has_no_new_keys() -> None:
    assert msgspec.to_builtins(diff_snapshots([], [MemoryItem("a", "red")], "S1")) == {
        "changes": [{"op": "add", "id": "a", "text": "red", "session": "S1"}]
    }
