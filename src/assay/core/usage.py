"""What the calls for one purpose cost: calls, tokens, seconds, price.

A purpose says what calls were made for: `build`, `retrieve` and `answer` of a memory, or `judge`. Tables,
summaries and `--json` have the key `stages` for purposes: a format that programs read keeps its keys. Calls of SDKs of
other projects, which go through the gateway, count too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from assay.core.types import Call, Score

BUILD, RETRIEVE, ANSWER, JUDGE = "build", "retrieve", "answer", "judge"
PURPOSES = (BUILD, RETRIEVE, ANSWER, JUDGE)
"""The purposes of the calls of a memory suite, in the order of its tables."""


class PurposeUsage(Struct, kw_only=True, omit_defaults=True):
    """Calls for one purpose. Those without usage or price are counted, so that a sum is never taken for the whole."""

    calls: int = 0
    reused: int = 0
    """How many of `calls` took their reply from another run. They cost that run, and this one nothing."""
    failed: int = 0
    """How many of `calls` have no reply."""
    uncounted: int = 0
    """Replies whose tokens the endpoint did not report."""
    input_tokens: int = 0
    output_tokens: int = 0
    unpriced: int = 0
    """Replies whose price is not known."""
    cost: float = 0.0
    """The price in US dollars of all replies that have one, reused ones included: what these calls cost anew."""
    seconds: float = 0.0
    """The sum of the times that the endpoint took."""

    @property
    def tokens(self) -> tuple[int | None, int | None]:
        """Input and output tokens; None if no reply reported them."""
        if self.calls == self.failed + self.uncounted:
            return None, None
        return self.input_tokens, self.output_tokens

    @property
    def price(self) -> float | None:
        """The cost, or None if no reply has a price."""
        return None if self.calls == self.failed + self.unpriced else self.cost

    def add_call(self, call: Call) -> None:
        """Count one call as it is logged."""
        response = call.response
        self.calls += 1
        self.reused += call.attempts == 0
        self.seconds += call.seconds
        if call.failure is not None:
            self.failed += 1
        elif response is None or response.usage is None:
            self.uncounted += 1
        if response is None:
            return
        if response.usage is not None:
            self.input_tokens += response.usage.input
            self.output_tokens += response.usage.output
        # A model in this process, or in a server that assay started, costs nothing.
        is_free = response.free or not response.address
        if response.cost is not None:
            self.cost += response.cost
        elif not is_free and call.failure is None:
            self.unpriced += 1

    def add(self, other: PurposeUsage) -> None:
        """Add the calls of another case or model."""
        self.calls += other.calls
        self.reused += other.reused
        self.failed += other.failed
        self.uncounted += other.uncounted
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.unpriced += other.unpriced
        self.cost += other.cost
        self.seconds += other.seconds


def add_usage(total: dict[str, PurposeUsage], usage: Mapping[str, PurposeUsage]) -> None:
    """Add usage by purpose to a total by purpose."""
    for purpose, calls in usage.items():
        total.setdefault(purpose, PurposeUsage()).add(calls)


def judge_usage(scores: Iterable[Score]) -> dict[str, PurposeUsage]:
    """Return what the judge's calls about one case cost. The last score of a scorer has the sums."""
    usage = PurposeUsage()
    for score in scores:
        end = score.end
        if end is None or not end.calls:
            continue
        usage.calls += end.calls
        usage.seconds += end.seconds
        if end.usage is None:
            usage.uncounted += end.calls
        else:
            usage.input_tokens += end.usage.input
            usage.output_tokens += end.usage.output
        if end.cost is None:
            usage.unpriced += end.calls
        else:
            usage.cost += end.cost
    return {JUDGE: usage} if usage.calls else {}
