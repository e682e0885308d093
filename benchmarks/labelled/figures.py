"""`python -m benchmarks.labelled.figures`: writes the shipped figures of the judge `offline` into docs/judges.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from assay.core.judges import Calibration
from assay.store.calibrations import SHIPPED

PAGE = Path(__file__).parents[2] / "docs" / "judges.md"
HEAD = "| kind | labels of | n | agreement | balanced accuracy | kappa | unreadable |"
_LINE = "|---|---|---|---|---|---|---|"


def table() -> list[str]:
    """Return the lines of the table: votes first, then all kinds of the constructed set."""
    return [HEAD, _LINE, *_rows()]


def _rows() -> Iterator[str]:
    votes = msgspec.json.decode(SHIPPED.joinpath("offline-votes.json").read_bytes(), type=Calibration)
    constructed = msgspec.json.decode(SHIPPED.joinpath("offline.json").read_bytes(), type=list[Calibration])
    for calibration in (votes, *constructed):
        overall = calibration.overall
        source = "the constructed set" if calibration.constructed else "votes of a model, conversations 5 to 9"
        low, high = overall.interval or (None, None)
        numbers = [overall.accuracy, overall.balanced_accuracy, overall.kappa, low, high]
        agreed, balanced, kappa, low_text, high_text = ("–" if each is None else f"{each:.2f}" for each in numbers)
        yield (
            f"| {calibration.kind} | {source} | {overall.n:,} | {agreed} | {balanced} | "
            f"{kappa} ({low_text}–{high_text}) | {overall.invalid:,} |"
        )


def page_with_table(text: str) -> str:
    """Return the page with the table in the place of the old one."""
    before, head, rest = text.partition(HEAD)
    if not head:
        raise ValueError(f"{PAGE} has no table that begins with {HEAD}")
    _, _, after = rest.partition("\n\n")
    return before + "\n".join(table()) + "\n\n" + after


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text("utf-8")), encoding="utf-8")
    print(f"wrote the figures of `offline` into {PAGE}")
