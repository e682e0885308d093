"""Vectors that are replaced, and cosines of some of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.memories.helpers.vectors import CentredVectors, Vectors

from support.letters import letters

texts = st.lists(st.text("abcdef ", max_size=8), min_size=1, max_size=12)


@pytest.mark.parametrize("kind", [Vectors, CentredVectors])
@given(said=texts, other=st.text("abcdef ", max_size=8), data=st.data())
def test_what_was_replaced_is_as_if_it_had_never_been(
    kind: type[Vectors], said: list[str], other: str, data: st.DataObject
) -> None:
    """Also where it was asked about before, and in the mean of all."""
    place, aim = data.draw(st.integers(0, len(said) - 1)), letters("abd")
    replaced, fresh = kind(), kind()
    replaced.add(np.stack([letters(text) for text in said]))
    replaced.cosines(aim)
    replaced.replace(place, letters(other))
    fresh.add(np.stack([letters(text) for text in [*said[:place], other, *said[place + 1 :]]]))
    assert replaced.cosines(aim) == pytest.approx(fresh.cosines(aim), abs=2e-5)


@pytest.mark.parametrize("kind", [Vectors, CentredVectors])
@given(said=texts, data=st.data())
def test_some_are_as_near_as_among_all(kind: type[Vectors], said: list[str], data: st.DataObject) -> None:
    """In the order in which they are asked for."""
    places = data.draw(st.lists(st.integers(0, len(said) - 1), min_size=1))
    vectors = kind()
    vectors.add(np.stack([letters(text) for text in said]))
    near = vectors.cosines(letters("abd"))
    assert vectors.cosines(letters("abd"), places).tolist() == near[places].tolist()
