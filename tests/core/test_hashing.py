from __future__ import annotations

from assay.core.hashing import fingerprint


def test_the_order_of_keys_does_not_change_a_fingerprint() -> None:
    """Equal content has one name."""
    assert fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
