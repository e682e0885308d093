"""Which cases are meant: by tags and by ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from assay.suites.pipeline.testset.case import TestCase
from assay.suites.pipeline.testset.expansion import expanded_keys


class Selection(NamedTuple):
    """Any of the tags is enough, an excluded one always wins, ids narrow further. Case matters."""

    include_tags: frozenset[str] = frozenset()
    exclude_tags: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, include_tags: Iterable[str] = (), exclude_tags: Iterable[str] = (), ids: Iterable[str | int] = ()
    ) -> Selection:
        """From any lists; ids are compared as text."""
        return cls(frozenset(include_tags), frozenset(exclude_tags), frozenset(map(str, ids)))

    @property
    def all(self) -> bool:
        """Whether nothing is left out."""
        return not (self.include_tags or self.exclude_tags or self.ids)

    def has_tags(self, tags: Iterable[str]) -> bool:
        """Whether a case with these tags is meant, its id aside."""
        if not self.exclude_tags.isdisjoint(tags):
            return False
        return not self.include_tags or not self.include_tags.isdisjoint(tags)

    def keys(self, case: TestCase) -> list[str]:
        """The ids of the case's expansions that are meant; an unexpanded id means all of them."""
        if not self.has_tags(case.tags):
            return []
        keys = expanded_keys(case)
        if not self.ids or case.key in self.ids:
            return keys
        return [key for key in keys if key in self.ids]
