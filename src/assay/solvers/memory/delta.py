"""What a session changed in a memory: by identity first, then by text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from assay.core.memory import LINEAR, Item

ADD, UPDATE, KEEP, ARCHIVE = "add", "update", "keep", "archive"


class Change(Struct, frozen=True, omit_defaults=True):
    """One item that came, changed or went. `linked` are the ids that it replaces.

    `keep` is an item that has another id now and the same text: nothing that the session taught. Without a
    session of its own it stays with that of the item it replaces.
    """

    op: str
    id: str
    text: str = ""
    session: str = ""
    kind: str = LINEAR
    linked: tuple[str, ...] = ()


class Shown(Struct, frozen=True):
    """An item as a snapshot shows it."""

    id: str
    text: str
    session: str
    kind: str


class Made(Struct, frozen=True, omit_defaults=True):
    """All that a session changed. `order` is there where applying the changes alone gives another order."""

    changes: list[Change]
    order: list[str] | None = None


def made_by(before: Sequence[Item], now: Sequence[Item], session: str) -> Made:
    """From one snapshot to the next. An item that names no session came from this one."""
    if len(now) >= len(before) and now[: len(before)] == before:
        return Made([_change(ADD, item, session) for item in now[len(before) :]])
    old, names = {item.id: item for item in before}, [item.id for item in now]
    held = set(names)
    gone = _Gone([item for name, item in old.items() if name not in held])
    found = [change for item in now if (change := _of(item, old, gone, session))]
    replaced = {one for change in found for one in change.linked}
    found += [Change(ARCHIVE, item.id) for item in gone.items if item.id not in replaced]
    folded = [name for name in old if name in held] + [name for name in names if name not in old]
    return Made(found, None if folded == names else names)


class _Gone:
    """Items that went, found by text and by what they were made of: a memory may rename them all."""

    def __init__(self, items: list[Item]) -> None:
        self.items = items
        self._by_text: dict[str, list[str]] = {}
        self._by_source: dict[str, list[int]] = {}
        for at, item in enumerate(items):
            self._by_text.setdefault(item.text, []).append(item.id)
            if item.sources:
                self._by_source.setdefault(item.sources[0], []).append(at)

    def saying(self, text: str) -> tuple[str, ...]:
        """Ids of those with this very text."""
        return tuple(self._by_text.get(text, ()))

    def made_of(self, sources: tuple[str, ...]) -> tuple[str, ...]:
        """Ids of those that were made of these messages and of no others."""
        known = set(sources)
        near = sorted(at for source in known for at in self._by_source.get(source, ()))
        return tuple(self.items[at].id for at in near if known.issuperset(self.items[at].sources))


def _of(item: Item, old: Mapping[str, Item], gone: _Gone, session: str) -> Change | None:
    if (was := old.get(item.id)) is not None:
        changed = (was.text, was.kind) != (item.text, item.kind)
        return _change(UPDATE, item, session, (item.id,)) if changed else None
    if same := gone.saying(item.text):
        return _change(KEEP, item, "", same)
    replaced = gone.made_of(item.sources)
    return _change(UPDATE if replaced else ADD, item, session, replaced)


def _change(op: str, item: Item, session: str, linked: tuple[str, ...] = ()) -> Change:
    return Change(op, item.id, item.text, item.session or session, item.kind, linked)


class Fold:
    """Snapshots, made of one session's changes after another's."""

    def __init__(self) -> None:
        self.items: dict[str, Shown] = {}

    def apply(self, made: Made) -> None:
        """The next snapshot. What changes in place keeps its place, and what replaces others comes last."""
        gone: dict[str, Shown] = {}
        for change in made.changes:
            for one in change.linked:
                if one != change.id and one in self.items:
                    gone[one] = self.items.pop(one)
            if change.op == ARCHIVE:
                self.items.pop(change.id, None)
            else:
                kept = change.op == KEEP and not change.session
                session = gone[change.linked[0]].session if kept else change.session
                self.items[change.id] = Shown(change.id, change.text, session, change.kind)
        if made.order is not None:
            self.items = {name: self.items[name] for name in made.order}
