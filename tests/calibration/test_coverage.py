"""The offline judge of coverage: LoCoMo's observed facts against sets of ten messages.

A fact names the turns that it was observed in. Its own set has those turns; the other set has ten messages
of other sessions of the same conversation. Two ways to fill the own set are measured, each with and without
the speaker's name before a message:

- neighbours: ten turns in a row around the fact's first turn, its other turns in place of the last ones; the
  other set is ten turns in a row of one other session;
- strangers: the fact's turns and messages drawn from other sessions; the other set is drawn from there too.

Images count by their captions. A fact whose turns do not exist is left out and counted.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from assay.scoring import offline
from assay.scoring.questions import COVERED, RecallQuestion

from calibration.labelled import DEVELOPED_ON, HELD_OUT, auc

Turn = dict[str, Any]
Shown = pytest.CaptureFixture[str]
TEN = 10


class Fact(NamedTuple):
    """A fact, the session it was observed in, and the places of its turns there."""

    text: str
    session: int
    places: list[int]


def sessions_of(sample: dict[str, Any]) -> dict[int, list[Turn]]:
    found = ((re.fullmatch(r"session_(\d+)", key), turns) for key, turns in sample["conversation"].items())
    return {int(match[1]): turns for match, turns in found if match}


def facts_of(sample: dict[str, Any], sessions: dict[int, list[Turn]]) -> Iterator[Fact | None]:
    """The facts of a conversation, without those whose turns do not exist."""
    for observed in sample["observation"].values():
        for text, turns in (fact for facts in observed.values() for fact in facts):
            named = [(int(a), int(b) - 1) for a, b in re.findall(r"D(\d+):(\d+)", str(turns))]
            there = [(a, b) for a, b in named if 0 <= b < len(sessions.get(a, []))]
            places = [b for a, b in there if a == there[0][0]][:TEN]
            yield Fact(text, there[0][0], places) if there else None


def message(turn: Turn, speakers: bool) -> str:
    said = turn["text"] + (f" [{turn['blip_caption']}]" if turn.get("blip_caption") else "")
    return f"{turn['speaker']}: {said}" if speakers else said


def neighbours(fact: Fact, sessions: dict[int, list[Turn]], rng: random.Random) -> tuple[list[Turn], list[Turn]]:
    turns = sessions[fact.session]
    start = max(0, min(fact.places[0] - rng.randrange(TEN), len(turns) - TEN))
    around = [place for place in range(start, min(start + TEN, len(turns))) if place not in fact.places]
    own = sorted((fact.places + around)[:TEN])
    other = sessions[rng.choice([session for session in sessions if session != fact.session])]
    first = rng.randrange(max(1, len(other) - TEN + 1))
    return [turns[place] for place in own], other[first : first + TEN]


def strangers(fact: Fact, sessions: dict[int, list[Turn]], rng: random.Random) -> tuple[list[Turn], list[Turn]]:
    others = [turn for session, turns in sessions.items() if session != fact.session for turn in turns]
    own = [sessions[fact.session][place] for place in fact.places]
    return own + rng.sample(others, TEN - len(own)), rng.sample(others, TEN)


def covers(fact: Fact, turns: list[Turn], speakers: bool) -> tuple[float, bool]:
    texts = tuple(message(turn, speakers) for turn in turns)
    verdict = offline.verdict(RecallQuestion((fact.text,), (False,), texts))
    return verdict.sure[0], verdict.labels == (COVERED,)


@pytest.mark.parametrize("speakers", [True, False], ids=["with speakers", "without speakers"])
@pytest.mark.parametrize("fill", [neighbours, strangers])
@pytest.mark.parametrize("half", [DEVELOPED_ON, HELD_OUT], ids=["developed on", "held out"])
def test_a_facts_own_turns_cover_it(
    locomo: list[dict[str, Any]], half: range, fill: Any, speakers: bool, capsys: Shown
) -> None:
    """The judge ranks own sets above others; balanced accuracy is printed at the shipped threshold."""
    rng, own, other, left_out = random.Random(0), [], [], 0
    for sample in (locomo[at] for at in half):
        sessions = sessions_of(sample)
        for fact in facts_of(sample, sessions):
            if fact is None:
                left_out += 1
                continue
            mine, others = fill(fact, sessions, rng)
            own.append(covers(fact, mine, speakers))
            other.append(covers(fact, others, speakers))
    area = auc([sure for sure, _ in own], [sure for sure, _ in other])
    kept, refused = sum(label for _, label in own), sum(not label for _, label in other)
    with capsys.disabled():
        print(
            f"\nCoverage of conversations {half[0]} to {half[-1]}, {fill.__name__}, "
            f"{'with' if speakers else 'without'} speakers: AUC {area:.3f}, own sets covered {kept}/{len(own)}, "
            f"other sets missed {refused}/{len(other)}, facts left out {left_out}"
        )
    assert area >= 0.96
