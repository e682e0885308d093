"""A memory of a user's own that fails."""

from __future__ import annotations

RAISING = """\
class Own:
    def __init__(self, around):
        pass

    def reset(self):
        pass

    def add(self, messages):
        raise KeyError("text")

    def search(self, query, k):
        return []

    def items(self):
        return []

    def end_session(self):
        pass
"""
"""The source of `Own`, which raises when messages are added."""
