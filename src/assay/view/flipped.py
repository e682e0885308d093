"""The filter "flipped": rows whose verdict differs from that of another run, and the runs to choose from.

    flipped = await flipped_rows(site, folder, query)       # None if the address names no other run
    run.rows(query.selection, flipped)

The pairs are those of the page Compare, which keeps them open.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlencode

from msgspec import Struct

from assay.core.errors import UsageError
from assay.store.comparison.case_pages import FlippedRows
from assay.store.run_list import RunFilter, list_runs
from assay.view.open_comparisons import RunChoice
from assay.view.row_query import RowQuery

if TYPE_CHECKING:
    from assay.view.site import Site

# Runs to choose from, the newest ones. The address accepts all.
_MAX_BASES = 200


class BaseRun(Struct, kw_only=True):
    """A run to which the rows can be compared."""

    name: str
    title: str


async def flipped_rows(site: Site, folder: Path, query: RowQuery) -> FlippedRows | None:
    """Return the rows that flipped against the run of the address; None if it names none.

    Raises UsageError if the runs cannot be compared, and 404 for a run that does not exist.
    """
    if not query.against:
        return None
    base, new = site.choice(query.against), RunChoice(folder, "")
    for choice in (base, new):
        await site.runs.wait_for_index(choice.folder)  # shows the progress for a large run
    try:
        return await site.comparisons.flipped([base, new])
    except UsageError as error:
        # The paths of the message are those of the machine; pages name runs by their path below DIR.
        message = str(error)
        for choice in (base, new):
            message = message.replace(str(choice.folder), unquote(site.name(choice.folder) or ""))
        raise UsageError(message) from None


def compare_address(query: RowQuery, name: str, index: int, part: str) -> str:
    """Return the address of a row beside the same row of the run `query.against`. `name` is quoted already."""
    values = {"run": [query.against, unquote(name)], "case": index, **({"part": part} if part else {})}
    return "/compare/case?" + urlencode(values, doseq=True, errors="replace")


def base_runs(site: Site, folder: Path, suite: str) -> list[BaseRun]:
    """Return the other runs of this suite below DIR that have ended, newest first. Reads some small files of each."""
    bases = []
    for run in reversed(list_runs(site.root, RunFilter(suites=(suite,)), count_running=False)):
        name = site.name(Path(run.folder))
        if name is None or run.exit_code is None or run.problem or Path(run.folder).resolve() == folder:
            continue
        facts = (run.title or run.name, run.model, run.headline)
        bases.append(BaseRun(name=unquote(name), title=" · ".join(filter(None, facts))))
    return bases[:_MAX_BASES]
