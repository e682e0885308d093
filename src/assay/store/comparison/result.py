"""What a comparison says. The structs are the JSON document of `assay compare --json`, field by field."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from assay.core.judges import JudgeInfo
from assay.core.report import PairedRow


class Side(Struct, kw_only=True):
    """One of the two: a subject of a run."""

    run: str
    folder: str
    suite: str
    subject: str
    model: str
    started: float
    state: str
    cases: int
    scorers: list[str]
    reference: bool = False
    """A yardstick, as its run says."""
    judges: list[JudgeInfo] = field(default_factory=list)
    """Those behind its scores, with what is known of them now."""


class FlipSide(Struct, kw_only=True):
    """One side of a flip: its value, what was answered, and why it was judged so."""

    index: int
    value: float
    answer: Any = None
    reason: str = ""


class Flip(Struct, kw_only=True):
    """A case that was right on one side and is wrong on the other.

    `check` is the first check that went the other way: path, kind, expected, base, new, why, and the step
    if it is of one. `id` is the one that the data gives the case, where its scores tell it.
    """

    set: str
    case: str
    metric: str
    part: str
    base: FlipSide
    new: FlipSide
    target: Any = None
    check: dict[str, Any] | None = None
    id: Any = None


class Flips(Struct, kw_only=True):
    """How many there are, and the first of them."""

    count: int = 0
    shown: list[Flip] = field(default_factory=list)


class OneSided(Struct, kw_only=True):
    """Cases without a partner: how many, and the first of them as `set/key`."""

    count: int = 0
    shown: list[str] = field(default_factory=list)


class Cost(Struct, kw_only=True):
    """What the paired cases of one side took, scoring aside."""

    seconds_per_case: float
    input_tokens: int
    output_tokens: int
    calls: int


class Comparison(Struct, kw_only=True):
    """Two subjects on the cases that they share."""

    base: Side
    new: Side
    paired: int
    rows: list[PairedRow]
    now_failing: Flips
    now_passing: Flips
    only_base: OneSided
    only_new: OneSided
    cost: dict[str, Cost]
    notes: list[str]
    regressions: list[str] = field(default_factory=list)
    significant_regressions: list[str] = field(default_factory=list)


class Compared(Struct, kw_only=True):
    """All pairs of sides of one command."""

    schema: int = 1
    comparisons: list[Comparison]
    notes: list[str] = field(default_factory=list)
