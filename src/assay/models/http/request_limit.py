"""A limit for the HTTP requests of a piece of work, for `assay doctor`, which promises to send only a few.

    limit = RequestLimit(8)
    with limited_requests(limit):
        await model.send(request, seed)     # may be several requests: adapted ones, a tokenizer
    limit.sent

It counts where requests are sent, so no provider has to.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from assay.core.errors import ModelError
from assay.core.types import Failure

REQUESTS_SPENT = "requests_spent"
"""The kind of the failure of a request that was not sent because of the limit."""


class RequestLimit:
    """The number of requests that were sent, and the most that may be."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.sent = 0


_limit: ContextVar[RequestLimit | None] = ContextVar("request_limit", default=None)


@contextmanager
def limited_requests(limit: RequestLimit) -> Iterator[None]:
    """Limit the requests that are sent in the block, and in the tasks that it starts."""
    token = _limit.set(limit)
    try:
        yield
    finally:
        _limit.reset(token)


def leave_request_limit() -> None:
    """Let the requests of this task be sent without a limit, such as those that wait for a server to start."""
    _limit.set(None)


def count_request() -> None:
    """Count a request that is about to be sent. Raises ModelError instead if the limit is reached."""
    limit = _limit.get()
    if limit is None:
        return
    if limit.sent >= limit.most:
        raise ModelError(Failure(REQUESTS_SPENT, f"not sent: the limit of {limit.most} requests is reached"))
    limit.sent += 1
