"""What a session changed: the words for it, and that snapshots can be made of changes alone."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from assay.core.memory import Item
from assay.solvers.memory.delta import ADD, ARCHIVE, KEEP, UPDATE, Change, Fold, Made, made_by

ITEMS = st.builds(
    Item,
    id=st.sampled_from("abcdefg"),
    text=st.sampled_from(["", "red", "green", "blue"]),
    session=st.sampled_from(["", "", "S-own"]),
    sources=st.lists(st.sampled_from("123"), unique=True, max_size=3).map(tuple),
    kind=st.sampled_from(["linear", "insight"]),
)
SNAPSHOTS = st.lists(st.lists(ITEMS, unique_by=lambda item: item.id, max_size=6), max_size=6)


def changes(before: Sequence[Item], now: Sequence[Item]) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(change.op, change.id, change.linked) for change in made_by(before, now, "S").changes]


def written_and_read(made: Made) -> Made:
    """As a journal gives it back."""
    return msgspec.json.decode(msgspec.json.encode(made), type=Made)


@given(SNAPSHOTS)
def test_changes_give_every_snapshot_in_its_order(snapshots: list[list[Item]]) -> None:
    """Whatever came, went, changed, was re-ordered or got another id."""
    fold, before = Fold(), list[Item]()
    for number, now in enumerate(snapshots):
        fold.apply(written_and_read(made_by(before, now, f"S{number}")))
        shown = [(item.id, item.text, item.kind) for item in fold.items.values()]
        assert shown == [(item.id, item.text, item.kind) for item in now]
        assert list(fold.items) == [item.id for item in now]
        assert all(item.session for item in fold.items.values())
        before = now


@given(SNAPSHOTS)
def test_what_is_gone_is_told_once(snapshots: list[list[Item]]) -> None:
    """Every id of before that is not there now is archived or replaced; nothing that is there is archived."""
    for before, now in itertools.pairwise(snapshots):
        made = made_by(before, now, "S")
        gone = {item.id for item in before} - {item.id for item in now}
        archived = [change.id for change in made.changes if change.op == ARCHIVE]
        replaced = {name for change in made.changes for name in change.linked if name != change.id}
        assert gone == {*archived, *replaced}
        assert replaced.isdisjoint(archived)
        assert len(archived) == len(set(archived))
        told = [change.id for change in made.changes]
        assert len(told) == len(set(told))


@given(SNAPSHOTS)
def test_what_stays_is_not_told(snapshots: list[list[Item]]) -> None:
    """A change is there for what is new or has another text or kind, and for nothing else."""
    for before, now in itertools.pairwise(snapshots):
        old = {item.id: (item.text, item.kind) for item in before}
        changed = {item.id for item in now if old.get(item.id) != (item.text, item.kind)}
        assert {each.id for each in made_by(before, now, "S").changes if each.op != ARCHIVE} == changed


RED, GREEN = Item("a", "red", sources=("1",)), Item("b", "green", sources=("2",))


def test_what_is_added_at_the_end_is_all_that_is_said() -> None:
    """The common case: no order, no archive, and the session is this one unless the item names another."""
    made = made_by([RED], [RED, GREEN, Item("c", "blue", session="S0")], "S")
    assert made == Made([Change(ADD, "b", "green", "S"), Change(ADD, "c", "blue", "S0")])


def test_the_same_id_with_another_text_is_an_update_of_itself() -> None:
    """It keeps its place."""
    made = made_by([RED, GREEN], [Item("a", "pink"), GREEN], "S")
    assert made == Made([Change(UPDATE, "a", "pink", "S", linked=("a",))])


def test_another_kind_is_an_update_too() -> None:
    """Files show the kind."""
    assert changes([RED], [Item("a", "red", kind="insight")]) == [(UPDATE, "a", ("a",))]


def test_a_new_id_made_of_the_same_messages_replaces() -> None:
    """Of one or of several; one that was made of other messages too is not replaced by a part of them."""
    both = Item("c", "red and green", sources=("1", "2"))
    assert changes([RED, GREEN], [both]) == [(UPDATE, "c", ("a", "b"))]
    assert changes([both], [RED]) == [(ADD, "a", ()), (ARCHIVE, "c", ())]
    assert changes([Item("x", "from nothing")], [RED]) == [(ADD, "a", ()), (ARCHIVE, "x", ())]


def test_a_new_id_with_the_same_text_teaches_nothing() -> None:
    """It is kept, with the session that it came from."""
    fold = Fold()
    fold.apply(made_by([], [RED], "S1"))
    made = made_by([RED], [Item("z", "red"), Item("y", "red")], "S2")
    assert [(change.op, change.linked) for change in made.changes] == [(KEEP, ("a",)), (KEEP, ("a",))]
    fold.apply(made)
    assert [(item.id, item.session) for item in fold.items.values()] == [("z", "S1"), ("y", "S1")]


def test_the_order_is_told_where_it_changes() -> None:
    """As when the newest comes first."""
    assert made_by([RED], [GREEN, RED], "S").order == ["b", "a"]
    assert made_by([RED, GREEN], [GREEN, RED], "S") == Made([], ["b", "a"])
    assert made_by([RED, GREEN], [GREEN], "S") == Made([Change(ARCHIVE, "a")])


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
    before = [Item(f"a{at}", Counted(f"text {at}"), sources=(str(at),)) for at in range(count)]
    now = [Item(f"b{at}", Counted(f"text {at}"), sources=(str(at),)) for at in range(count)]
    Counted.compared = 0
    assert {change.op for change in made_by(before, now, "S02").changes} == {"keep"}
    assert Counted.compared < 10 * count
