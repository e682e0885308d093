"""The memory mem0 without its package installed. `make test-mem0` tests it with the package."""

from __future__ import annotations

import sys

import pytest

from assay.core.errors import MissingExtra
from assay.core.memory import find_memory, options_of

from support.memories import around


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is asked."""
    monkeypatch.setitem(sys.modules, "mem0", None)
    with pytest.raises(MissingExtra, match=r"pip install 'assay\[mem0\]'"):
        find_memory("mem0").make(around())


def test_to_look_at_it_loads_nothing() -> None:
    """Its description and options are there for everybody."""
    about = find_memory("mem0").about
    assert (about.asks, about.embeds) == (True, True)
    assert options_of(about, {"embedder": "local"})["threshold"] == 0.1
    assert "mem0.memory" not in sys.modules
