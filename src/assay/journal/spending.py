"""What the calls of a run cost: calls, tokens and prices, as the index counts them and summary.json has them."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from assay.core.types import ASK, COMMON, Response
from assay.journal.line_types import IndexedResponse

# First bytes of a JSON text that may be empty or all whitespace: its end, a space, an escape such as \n, and the
# first bytes of wider spaces in UTF-8.
_BLANK_BEGINS = (b'"', b" ", b"\\", b"\xc2", b"\xe1", b"\xe2", b"\xe3")


class CallCounts(msgspec.Struct):
    """`spent` in summary.json: calls and tokens of all starts of a run. Replies from another run do not count."""

    calls: int = 0
    retries: int = 0
    failed: int = 0
    input_tokens: int | UnsetType = UNSET
    """Left out if calls were made and no endpoint reported any token: 0 would be a measured number."""
    output_tokens: int | UnsetType = UNSET
    reasoning_tokens: int | UnsetType = UNSET
    """The part of `output_tokens` that was reasoning, as far as endpoints tell."""
    unpriced_calls: int = 0
    """Answered calls whose price is not known. Models without an endpoint, and servers that assay started, are free."""
    judge_replies: int = 0
    """Replies to scorers: the part of `calls` without `failed` that judges answered."""
    cut_replies: int = 0
    """Replies that ended at the token limit before an answer began, for example in the middle of the reasoning."""
    empty_replies: int = 0
    """Replies without any text that did not end at the token limit."""
    judge_cut_replies: int = 0
    judge_empty_replies: int = 0


class Spending(CallCounts):
    """What all starts of a run have spent, counted call by call. The index keeps it."""

    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None
    """The sum of the calls' prices in US dollars, judges included. None if no call has a price."""
    scoring_cost: float | None = None
    """The part of `cost` that scorers caused: the judges."""
    copied_cost: float | None = None
    """The same sum as `cost`, of replies that were copied: by --reuse, or from the file of an imported run."""
    price_tables: list[str] = []
    """The tables that prices of `cost` were computed from. Prices that endpoints reported are from no table."""
    adapted: list[str] = []
    """How requests were changed for endpoints that rejected a parameter; `judge: …` for those of scorers."""

    def counts(self) -> CallCounts:
        """Return the calls and tokens, for a summary."""
        counts = msgspec.convert(self, CallCounts, from_attributes=True)
        if counts.calls and not counts.input_tokens and not counts.output_tokens:
            counts.input_tokens = counts.output_tokens = counts.reasoning_tokens = UNSET
        return counts

    def add(self, stage: str, attempts: int, response: Response | IndexedResponse | None, *, failed: bool) -> None:
        """Count one call. `attempts` is 0 for a reply that was copied.

        A failed call has a response if it was billed: then it has the tokens and the price.
        """
        if response is not None and response.adapted:
            for change in response.adapted:
                text = change if stage in (ASK, COMMON) else f"judge: {change}"
                if text not in self.adapted:
                    self.adapted.append(text)
        price = response.cost if response is not None else None
        if attempts == 0:
            if price is not None:
                self.copied_cost = (self.copied_cost or 0.0) + price
            return
        if price is not None:
            self.cost = (self.cost or 0.0) + price
            if stage not in (ASK, COMMON):
                self.scoring_cost = (self.scoring_cost or 0.0) + price
            assert response is not None
            if response.price_table and response.price_table not in self.price_tables:
                self.price_tables.append(response.price_table)
        usage = response.usage if response is not None else None
        self.calls += 1
        self.retries += attempts - 1
        self.failed += failed
        if response is not None:
            if price is None and response.address and not response.free:
                self.unpriced_calls += 1
            if not failed:
                is_judge = stage not in (ASK, COMMON)
                self.judge_replies += is_judge
                # This method runs for every call of a run. Nearly all replies begin with a visible character.
                if type(response) is not Response or not response.text[:1].strip():
                    self._add_blank(response, is_judge=is_judge)
        if usage is not None:
            self.input_tokens += usage.input
            self.output_tokens += usage.output
            self.reasoning_tokens += usage.reasoning

    def _add_blank(self, response: Response | IndexedResponse, *, is_judge: bool) -> None:
        """Count a reply without text: cut before it began, or empty."""
        if not _is_blank(response):
            return
        if response.finish == "length":
            self.cut_replies += not is_judge
            self.judge_cut_replies += is_judge
        else:
            self.empty_replies += not is_judge
            self.judge_empty_replies += is_judge


def _is_blank(response: Response | IndexedResponse) -> bool:
    """Return whether a reply has no text. A likelihood and a reply to an SDK are in `data`, and are never blank."""
    if isinstance(response, Response):
        return response.data is None and not response.text.strip()
    text = bytes(response.text)
    # Decoding every text would take longer. Nearly all begin with another byte.
    if text[1:2] not in _BLANK_BEGINS or bytes(response.data):
        return False
    return not msgspec.json.decode(text, type=str).strip()
