"""The state of a table of rows, as it stands in the address: filters, order, columns and page.

    query = RowQuery.parse(request.query)
    query.address(page=2)       # "?failed=1&page=2"

Pages of cases carry it too: there it says which case is the next one.
"""

from __future__ import annotations

from typing import Any, Self

import msgspec
from multidict import MultiMapping

from assay.core.errors import UsageError
from assay.store.comparison.case_pages import FlippedRows
from assay.store.open_run import OpenRun, RowSelection
from assay.view.address import address_fields, read_address, write_address

PAGE_ROWS = 50


class RowQuery(RowSelection, frozen=True, kw_only=True, omit_defaults=True):
    """Which rows, in which order, with which columns, and which page of them. Pages are numbered from 1."""

    columns: tuple[str, ...] = ()
    """The columns that a person chose; empty for those of every new table."""
    bases: bool = False
    """Whether the page offers the runs for `against`. Not always: finding them reads a file of each run below DIR."""
    page: int = 1

    @classmethod
    def parse(cls, query: MultiMapping[str]) -> Self:
        """Read the state from an address. Raises UsageError for a value of the wrong form."""
        parsed = read_address(cls, {**query, "columns": query.getall("columns", [])})
        if parsed.page < 1:
            raise UsageError(f"pages are numbered from 1; there is no page {parsed.page}")
        return parsed

    def address(self, **changes: Any) -> str:
        """Return the part of the address after the path, with some values changed. Other filters start at page 1."""
        return write_address(self, **{"page": 1, "bases": False, **changes})

    def hidden_fields(self, *shown: str) -> list[tuple[str, str]]:
        """Return the fields that a form has to keep, because it has no control for them. It starts at page 1."""
        return [(name, value) for name, value in address_fields(self) if name not in (*shown, "page", "bases")]

    @property
    def here(self) -> str:
        """The part of the address after the path, for this page."""
        return self.address(page=self.page)

    @property
    def selection(self) -> RowSelection:
        """The rows of all pages."""
        values = msgspec.structs.asdict(self)
        return RowSelection(**{name: values[name] for name in RowSelection.__struct_fields__})

    @property
    def cleared(self) -> str:
        """The address of all rows, in this order and with these columns."""
        return type(self)(sort=self.sort, desc=self.desc, columns=self.columns).here

    @property
    def filters(self) -> int:
        """The number of values of the address that filter."""
        kept = ("sort", "desc", "columns", "bases", "page")
        return sum(name not in kept for name, _ in address_fields(self))

    def sorted_by(self, column: str) -> str:
        """Return the address that sorts by a column, or turns the order if the rows are sorted by it already."""
        return self.address(sort=column, desc=not self.desc if self.sort == column else column != "index")

    def neighbours(self, run: OpenRun, index: int, flipped: FlippedRows | None = None) -> tuple[int | None, int | None]:
        """Return the cases before and after a case among the selected rows. None at the ends, and outside of them."""
        cases = run.table().case[run.rows(self.selection, flipped)]
        places = (cases == index).nonzero()[0]
        if not len(places):
            return None, None
        first, last = int(places[0]), int(places[-1])
        before = int(cases[first - 1]) if first else None
        after = int(cases[last + 1]) if last + 1 < len(cases) else None
        return before, after
