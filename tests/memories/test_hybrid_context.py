"""What a message gets of the scores around it, against a loop over all pairs."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
from hypothesis import given, strategies as st

from assay.core.memory import Message
from assay.memories.hybrid import ContextShares, ConversationContext

rows = st.lists(st.tuples(st.sampled_from("abc"), st.floats(-1, 4)), min_size=1, max_size=20)


@given(rows, st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_shares_come_from_the_same_stretch_only(
    said: list[tuple[str, float]], before: float, after: float, session: float
) -> None:
    """Half as much from two steps away, nothing from three; a name that returns is another session."""
    context, scores = ConversationContext(), np.array([score for _, score in said])
    for name, _ in said:
        context.add([Message("x", "", session=name)])
    changes = [one[0] != other[0] for one, other in pairwise(said)]
    numbers = list(accumulate(changes, initial=0))
    wanted = []
    for place, number in enumerate(numbers):
        mine = [other for other in range(len(said)) if numbers[other] == number]
        total = scores[place] + session * max(scores[other] for other in mine)
        for other in mine:
            share = {1: before, 2: before / 2, -1: after, -2: after / 2}.get(place - other, 0.0)
            total += share * scores[other]
        wanted.append(total)
    found = context.spread(scores, ContextShares(before, after, session, 1.0), [])
    np.testing.assert_allclose(found, wanted, atol=1e-9)


def test_sessions_without_names_end_where_it_is_told() -> None:
    context = ConversationContext()
    context.add([Message("1", "")])
    context.end_session()
    context.add([Message("2", "")])
    assert context.spread(np.array([1.0, 0.0]), ContextShares(1, 1, 1, 0), []).tolist() == [2.0, 0.0]


def test_what_is_said_by_somebody_whom_the_question_names_counts_more() -> None:
    """Any part of the speaker's name counts. Negative scores are not multiplied."""
    context = ConversationContext()
    context.add([Message("1", "", "Anna Li"), Message("2", "", "Ben"), Message("3", "", "Anna Li"), Message("4", "")])
    scores, shares = np.array([1.0, 1.0, -1.0, 1.0]), ContextShares(0, 0, 0, 0.5)
    assert context.spread(scores, shares, ["li", "went"]).tolist() == [1.5, 1.0, -1.0, 1.0]
    assert context.spread(scores, shares, ["ben", "anna"]).tolist() == [1.5, 1.5, -1.0, 1.0]
    assert context.spread(scores, shares, ["went"]).tolist() == scores.tolist()
