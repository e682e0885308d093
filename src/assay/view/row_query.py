"""The state of a table of rows, as it stands in the address: filters, order and page.

    query = RowQuery.parse(request.query)
    query.address(page=2)       # "?failed=1&page=2"

Pages of cases carry it too: there it says which case is the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import msgspec

from assay.core.errors import UsageError
from assay.store.open_run import OpenRun, RowSelection
from assay.view.address import read_address, write_address

PAGE_ROWS = 50


class RowQuery(RowSelection, frozen=True, kw_only=True, omit_defaults=True):
    """Which rows, in which order, and which page of them. Pages are numbered from 1."""

    page: int = 1

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Self:
        """Read the state from an address. Raises UsageError for a value of the wrong form."""
        parsed = read_address(cls, query)
        if parsed.page < 1:
            raise UsageError(f"pages are numbered from 1; there is no page {parsed.page}")
        return parsed

    def address(self, **changes: Any) -> str:
        """Return the part of the address after the path, with some values changed. Other filters start at page 1."""
        return write_address(self, **{"page": 1, **changes})

    @property
    def here(self) -> str:
        """The part of the address after the path, for this page."""
        return self.address(page=self.page)

    @property
    def selection(self) -> RowSelection:
        """The rows of all pages."""
        values = msgspec.structs.asdict(self)
        del values["page"]
        return RowSelection(**values)

    @property
    def filters(self) -> int:
        """The number of filters that are set."""
        shown = (self.failed, self.status, self.tag, self.subject, self.set, self.slower is not None)
        return sum(map(bool, shown))

    def sorted_by(self, column: str) -> str:
        """Return the address that sorts by a column, or turns the order if the rows are sorted by it already."""
        return self.address(sort=column, desc=not self.desc if self.sort == column else column != "index")

    def neighbours(self, run: OpenRun, index: int) -> tuple[int | None, int | None]:
        """Return the cases before and after a case among the selected rows. None at the ends, and outside of them."""
        cases = run.table().case[run.rows(self.selection)]
        places = (cases == index).nonzero()[0]
        if not len(places):
            return None, None
        first, last = int(places[0]), int(places[-1])
        before = int(cases[first - 1]) if first else None
        after = int(cases[last + 1]) if last + 1 < len(cases) else None
        return before, after
