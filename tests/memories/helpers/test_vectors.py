"""Vectors that are replaced, and cosines of some of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from assay.memories.helpers.vectors import CentredVectors, Vectors

from support.letters import letters

texts = st.lists(st.text("abcdef ", max_size=8), min_size=1, max_size=12)


@pytest.mark.parametrize("kind", [Vectors, CentredVectors])
@given(said=texts, other=st.text("abcdef ", max_size=8), data=st.data())
def test_a_replaced_vector_has_no_effect_any_more(
    kind: type[Vectors], said: list[str], other: str, data: st.DataObject
) -> None:
    """A replaced vector has no effect any more, neither on cached cosines nor on the mean."""
    place, aim = data.draw(st.integers(0, len(said) - 1)), letters("abd")
    replaced, fresh = kind(), kind()
    replaced.add(np.stack([letters(text) for text in said]))
    replaced.cosines(aim)
    replaced.replace(place, letters(other))
    fresh.add(np.stack([letters(text) for text in [*said[:place], other, *said[place + 1 :]]]))
    assert replaced.cosines(aim) == pytest.approx(fresh.cosines(aim), abs=2e-5)


@pytest.mark.parametrize("kind", [Vectors, CentredVectors])
@given(said=texts, data=st.data())
def test_cosines_of_some_places_equal_those_of_all(kind: type[Vectors], said: list[str], data: st.DataObject) -> None:
    """In the order in which they are asked for."""
    places = data.draw(st.lists(st.integers(0, len(said) - 1), min_size=1))
    vectors = kind()
    vectors.add(np.stack([letters(text) for text in said]))
    near = vectors.cosines(letters("abd"))
    assert vectors.cosines(letters("abd"), places).tolist() == near[places].tolist()
