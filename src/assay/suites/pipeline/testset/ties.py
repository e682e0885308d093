"""`depends_on` within one file: cases tied together form a group and run in the order of their ties."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple


class Tie(NamedTuple):
    """One dependency as written: the record's ordinal in its file, and the id it names."""

    ordinal: int
    target: str


class Tied(NamedTuple):
    """Records, by ordinal, in the order in which they run; `brought` are those that nobody selected."""

    members: tuple[int, ...]
    brought: frozenset[int]

    @property
    def first(self) -> int:
        """The member that stands first in the file: there the group has its place."""
        return min(self.members)


class Ids:
    """The ids of a file as digests, in its order; eight bytes each. Expanded ids know whose they are."""

    def __init__(self) -> None:
        self.digests = array("q")
        self._expanded, self._owners = array("q"), array("q")

    def add(self, key: str) -> None:
        """The next record's id."""
        self.digests.append(digest(key))

    def add_expanded(self, keys: Iterable[str]) -> None:
        """The ids that the last record stands for."""
        for key in keys:
            self._expanded.append(digest(key))
            self._owners.append(len(self.digests) - 1)

    def all(self) -> array[int]:
        """Written and expanded ids, to look for repeated ones."""
        return self.digests + self._expanded

    def ordinals(self, wanted: set[str]) -> dict[str, int]:
        """Which record has or stands for each of these ids."""
        names = {digest(key): key for key in wanted}
        found = {names[it]: at for at, it in enumerate(self.digests) if it in names}
        for it, owner in zip(self._expanded, self._owners, strict=True):
            if it in names:
                found.setdefault(names[it], owner)
        return found


def digest(key: str) -> int:
    """An id in eight bytes, within this process."""
    return hash(key)


class Graph:
    """The ties of one file between records, by ordinal."""

    def __init__(self, ties: list[Tie], ids: Ids) -> None:
        known = ids.ordinals({tie.target for tie in ties})
        self.missing = [tie for tie in ties if tie.target not in known]
        self._needs: dict[int, list[int]] = {}
        for tie in ties:
            if tie.target in known:
                self._needs.setdefault(tie.ordinal, []).append(known[tie.target])

    def cycles(self) -> list[list[int]]:
        """Records that wait for each other, each for the next one; empty if all can be ordered."""
        done: set[int] = set()
        return [cycle for start in sorted(self._needs) for cycle in self._cycles_from(start, done)]

    def _cycles_from(self, start: int, done: set[int]) -> Iterator[list[int]]:
        """A walk in depth without recursion, since a chain may be long."""
        if start in done:
            return
        trail, walks = {start: None}, [iter(self._needs.get(start, ()))]  # a dict is a set in order
        while walks:
            following = next(walks[-1], None)
            if following is None:
                walks.pop()
                done.add(trail.popitem()[0])
            elif following in trail:
                order = list(trail)
                yield order[order.index(following) :]
            elif following not in done:
                trail[following] = None
                walks.append(iter(self._needs.get(following, ())))

    def tied(self, selected: Callable[[int], bool]) -> list[Tied]:
        """The groups among the selected records and all that they depend on, by place in the file."""
        mine = {
            at
            for at in {*self._needs, *(it for needs in self._needs.values() for it in needs)}
            if selected(at)
        }
        taken = self._with_needs(mine)
        return sorted(
            (self._ordered(group, group - mine) for group in self._components(taken)),
            key=lambda group: group.first,
        )

    def _with_needs(self, mine: set[int]) -> set[int]:
        taken, waiting = set(mine), list(mine)
        while waiting:
            for needed in self._needs.get(waiting.pop(), ()):
                if needed not in taken:
                    taken.add(needed)
                    waiting.append(needed)
        return taken

    def _components(self, taken: set[int]) -> list[set[int]]:
        """Only ties between records that are taken count; a record alone is no group."""
        beside: dict[int, list[int]] = {}
        for at in taken:
            for needed in self._needs.get(at, ()):
                beside.setdefault(at, []).append(needed)
                beside.setdefault(needed, []).append(at)
        groups, seen = [], set[int]()
        for start in beside:
            if start not in seen:
                group, waiting = {start}, [start]
                while waiting:
                    new = [at for at in beside[waiting.pop()] if at not in group]
                    group.update(new)
                    waiting += new
                seen |= group
                groups.append(group)
        return groups

    def _ordered(self, group: set[int], brought: set[int]) -> Tied:
        """Dependencies first; otherwise as in the file."""
        open_needs = {at: set(self._needs.get(at, ())) & group for at in group}
        waits_for: dict[int, list[int]] = {}
        for at, needs in open_needs.items():
            for needed in needs:
                waits_for.setdefault(needed, []).append(at)
        ready = sorted(at for at, needs in open_needs.items() if not needs)
        order: list[int] = []
        while ready:
            order.append(at := heappop(ready))
            for waiting in waits_for.get(at, ()):
                open_needs[waiting].discard(at)
                if not open_needs[waiting]:
                    heappush(ready, waiting)
        return Tied(tuple(order), frozenset(brought))
