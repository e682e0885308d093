"""Compares the items of a memory before and after a session, and rebuilds snapshots from the changes.

    changes = diff_snapshots(items_before, items_after, "S02")
    snapshot.apply(changes)

The journal stores only the changes, because a snapshot usually resembles the previous one. Items are matched
by id, then by text, then by their source messages, because a memory may give all its items new ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from assay.core.memory import ACTIVE, LINEAR, JsonValue, MemoryItem

ADD, UPDATE, KEEP, ARCHIVE = "add", "update", "keep", "archive"


class ItemChange(Struct, frozen=True, omit_defaults=True):
    """How one session changed one item.

    `op` is `add`, `update`, `archive` or `keep`. An archived item was removed, or it is still stored with a `status`
    other than ACTIVE. `keep` means that the session added no information: the same text existed before, under another
    id or with other metadata. `linked` has the ids of the items that this item replaces. An empty `session` means the
    session of the item before, or of the replaced item.
    """

    op: str
    id: str
    text: str = ""
    session: str = ""
    kind: str = LINEAR
    linked: tuple[str, ...] = ()
    status: str = ACTIVE
    metadata: dict[str, JsonValue] = {}


class SnapshotItem(Struct, frozen=True):
    """An item of a snapshot. `session` is the id of the session that added or updated it."""

    id: str
    text: str
    session: str
    kind: str
    status: str = ACTIVE
    metadata: dict[str, JsonValue] = {}


class SessionChanges(Struct, frozen=True, omit_defaults=True):
    """All changes of a session. `order` lists all item ids; None if `MemorySnapshot.apply` gives that order."""

    changes: list[ItemChange]
    order: list[str] | None = None


def diff_snapshots(before: Sequence[MemoryItem], now: Sequence[MemoryItem], session: str) -> SessionChanges:
    """Return the changes between two snapshots. `session` is the session id of items that have none."""
    # Fast path: most memories only append items.
    if len(now) >= len(before) and now[: len(before)] == before:
        return SessionChanges([_change(_new_op(item), item, session) for item in now[len(before) :]])
    old = {item.id: item for item in before}
    ids = [item.id for item in now]
    present = set(ids)
    removed = _RemovedItems([item for id_, item in old.items() if id_ not in present])
    changes: list[ItemChange] = []
    for item in now:
        change = _item_change(item, old, removed, session)
        if change is not None:
            changes.append(change)
    replaced = {id_ for change in changes for id_ in change.linked}
    changes += [ItemChange(ARCHIVE, item.id) for item in removed.items if item.id not in replaced]
    # The order that MemorySnapshot.apply produces without `order`: remaining items, then new items.
    order = [id_ for id_ in old if id_ in present] + [id_ for id_ in ids if id_ not in old]
    return SessionChanges(changes, None if order == ids else ids)


def _item_change(
    item: MemoryItem, old: Mapping[str, MemoryItem], removed: _RemovedItems, session: str
) -> ItemChange | None:
    previous = old.get(item.id)
    if previous is not None:
        return _changed_item(item, previous, session)
    if same := removed.with_text(item.text):
        return _change(KEEP if item.status == ACTIVE else ARCHIVE, item, "", same)
    replaced = removed.built_from(item.sources)
    return _change(UPDATE if replaced and item.status == ACTIVE else _new_op(item), item, session, replaced)


def _changed_item(item: MemoryItem, previous: MemoryItem, session: str) -> ItemChange | None:
    """Return the change of an item that keeps its id; None if nothing that a snapshot shows has changed."""
    same_text = (previous.text, previous.kind) == (item.text, item.kind)
    if same_text and (previous.status, previous.metadata) == (item.status, item.metadata):
        return None
    if item.status != ACTIVE:
        # Archived only once. What happens to it later is no change for judges.
        return _change(ARCHIVE if previous.status == ACTIVE else KEEP, item, "", (item.id,))
    if same_text and previous.status == ACTIVE:
        return _change(KEEP, item, "", (item.id,))
    return _change(UPDATE, item, session, (item.id,))


def _new_op(item: MemoryItem) -> str:
    """Return the change of a new item. One that is not active was superseded within the session."""
    return ADD if item.status == ACTIVE else ARCHIVE


def _change(op: str, item: MemoryItem, session: str, linked: tuple[str, ...] = ()) -> ItemChange:
    return ItemChange(op, item.id, item.text, item.session or session, item.kind, linked, item.status, item.metadata)


class _RemovedItems:
    """The removed items, indexed by text and by source. Comparing all pairs would take quadratic time."""

    def __init__(self, items: list[MemoryItem]) -> None:
        self.items = items
        self._by_text: dict[str, list[str]] = {}
        self._by_source: dict[str, list[int]] = {}
        for index, item in enumerate(items):
            self._by_text.setdefault(item.text, []).append(item.id)
            # One source is enough: `built_from` looks up all sources of the new item.
            if item.sources:
                self._by_source.setdefault(item.sources[0], []).append(index)

    def with_text(self, text: str) -> tuple[str, ...]:
        """Return the ids of items with exactly this text."""
        return tuple(self._by_text.get(text, ()))

    def built_from(self, sources: tuple[str, ...]) -> tuple[str, ...]:
        """Return the ids of items whose source messages are all among `sources`."""
        messages = set(sources)
        indices = sorted(index for source in messages for index in self._by_source.get(source, ()))
        return tuple(self.items[index].id for index in indices if messages.issuperset(self.items[index].sources))


class MemorySnapshot:
    """The items of a memory after a session. `apply` adds the changes of the next session."""

    def __init__(self) -> None:
        self.items: dict[str, SnapshotItem] = {}

    def apply(self, session: SessionChanges) -> None:
        """Apply the changes of a session. An updated item keeps its position; new items come last."""
        removed: dict[str, SnapshotItem] = {}
        for change in session.changes:
            for id_ in change.linked:
                if id_ != change.id and id_ in self.items:
                    removed[id_] = self.items.pop(id_)
            if change.op == ARCHIVE and change.status == ACTIVE:
                self.items.pop(change.id, None)
                continue
            origin = change.session
            if not origin and change.linked:
                before = self.items.get(change.id) or removed[change.linked[0]]
                origin = before.session
            self.items[change.id] = SnapshotItem(
                change.id, change.text, origin, change.kind, change.status, change.metadata
            )
        if session.order is not None:
            self.items = {id_: self.items[id_] for id_ in session.order}
