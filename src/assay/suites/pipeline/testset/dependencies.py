"""The graph of `depends_on` in one testset file. Cases that depend on each other run as one group, in order.

In this module a case is the number of its record in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple


class DependencyChain(NamedTuple):
    """Cases that run together, dependencies first.

    `unselected` are those that the user did not select, but on which selected cases depend.
    """

    members: list[int]
    unselected: frozenset[int]


class Dependencies:
    """The dependency graph of one file.

    `ids[n]` are the ids of case `n`: its own, and those of its parameter combinations. `needs[n]` are the ids
    in its `depends_on`. `missing` lists (case, id) for ids that no case has.
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
        """Return the cycles: lists of cases in which each depends on the next, and the last on the first."""
        done: set[int] = set()
        cycles: list[list[int]] = []
        for start in sorted(self._needs):
            cycles += self._cycles_from(start, done)
        return cycles

    def _cycles_from(self, start: int, done: set[int]) -> Iterator[list[int]]:
        """Yield the cycles that are reachable from a case, by depth-first search.

        The search does not use recursion, because a chain may be thousands of cases long.
        """
        if start in done:
            return
        # The path from the start to the present case. A dict is a set that keeps its order.
        trail = {start: None}
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
        """Group the selected cases that depend on other cases, together with all cases they depend on.

        A case that depends on no case, and on which no selected case depends, is in no chain. Unselected cases
        belong to a chain only if a selected case depends on them.
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
        """Return the cases of a group with dependencies first, otherwise in file order."""
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
