"""How prices are written on screens, pages and in messages."""

from __future__ import annotations

from math import floor, log10


def dollars(amount: float | None) -> str:
    """Return `$12.35`, `$0.0123` or `$0.0000405`; a dash for a price that is not known."""
    if amount is None:
        return "–"
    if amount >= 1:
        return f"${amount:,.2f}"
    if amount <= 0:
        return "$0"
    # Single calls cost fractions of a cent. Three digits of them say enough.
    digits = 4 if amount >= 0.001 else 2 - floor(log10(amount))
    cents, rest = f"{amount:.{digits}f}"[:4], f"{amount:.{digits}f}"[4:].rstrip("0")
    return f"${cents}{rest}"


def known_cost(amount: float | None, unpriced_calls: int) -> str:
    """Return `$0.0123`, or `at least $0.0123` if the price of some calls is not known."""
    text = dollars(amount)
    return f"at least {text}" if amount is not None and unpriced_calls else text
