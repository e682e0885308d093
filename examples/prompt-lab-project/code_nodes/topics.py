"""How many reviews name each topic."""

from collections import Counter


def aggregate(items: list[dict[str, str]]) -> dict[str, int]:
    """Count the topics of all items."""
    return dict(Counter(item["topic"] for item in items))
