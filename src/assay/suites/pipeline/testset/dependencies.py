"""`depends_on` within one file: cases that depend on each other form a group and run in that order.

Cases are named here by their position in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple


class DependencyChain(NamedTuple):
    """Cases that run together, dependencies first. Nobody selected those in `brought`: others need them."""

    members: list[int]
    brought: frozenset[int]


class Dependencies:
    """The graph of one file.

    `ids[n]` are the ids of case `n`: its own, and those of its expansions. `needs[n]` are the ids in its
    `depends_on`. `missing` lists (case, id) for ids that no case has.
    """

    def __init__(self, ids: Sequence[Sequence[str]], needs: Sequence[Sequence[str]]) -> None:
        owners: dict[str, int] = {}
        for place, names in enumerate(ids):
            for name in names:
                owners.setdefault(name, place)
        self.missing: list[tuple[int, str]] = []
        self._needs: dict[int, list[int]] = {}
        for place, targets in enumerate(needs):
            for target in targets:
                if target in owners:
                    self._needs.setdefault(place, []).append(owners[target])
                else:
                    self.missing.append((place, target))

    def cycles(self) -> list[list[int]]:
        """Return cases that wait for each other, each for the next one. No cycle hides another."""
        done: set[int] = set()
        cycles: list[list[int]] = []
        for start in sorted(self._needs):
            cycles += self._cycles_from(start, done)
        return cycles

    def _cycles_from(self, start: int, done: set[int]) -> Iterator[list[int]]:
        """Walk in depth, without recursion since a chain may be thousands of cases long."""
        if start in done:
            return
        trail = {start: None}  # a dict is a set that keeps its order
        walks = [iter(self._needs.get(start, ()))]
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

    def chains(self, selected: set[int]) -> list[DependencyChain]:
        """Return the groups of the selected cases that depend on others, with everything they depend on.

        Cases that only an unselected case would connect stay apart. A case that depends on nothing, and that
        no other needs, is in no chain.
        """
        members = {place for place in selected if place in self._needs}
        waiting = list(members)
        while waiting:
            for needed in self._needs.get(waiting.pop(), ()):
                if needed not in members:
                    members.add(needed)
                    waiting.append(needed)
        neighbours: dict[int, list[int]] = {place: [] for place in members}
        for place in members:
            for needed in self._needs.get(place, ()):
                neighbours[place].append(needed)
                neighbours[needed].append(place)
        chains: list[DependencyChain] = []
        seen: set[int] = set()
        for start in sorted(members):
            if start in seen:
                continue
            group, waiting = {start}, [start]
            while waiting:
                for place in neighbours[waiting.pop()]:
                    if place not in group:
                        group.add(place)
                        waiting.append(place)
            seen |= group
            chains.append(DependencyChain(self._in_order(group), frozenset(group - selected)))
        return chains

    def _in_order(self, group: set[int]) -> list[int]:
        """Dependencies first; otherwise as in the file."""
        open_needs = {place: set(self._needs.get(place, ())) for place in group}
        waiting_for: dict[int, list[int]] = {}
        for place, needs in open_needs.items():
            for needed in needs:
                waiting_for.setdefault(needed, []).append(place)
        ready = [place for place, needs in open_needs.items() if not needs]
        heapify(ready)
        order: list[int] = []
        while ready:
            place = heappop(ready)
            order.append(place)
            for waiting in waiting_for.get(place, ()):
                open_needs[waiting].discard(place)
                if not open_needs[waiting]:
                    heappush(ready, waiting)
        return order
