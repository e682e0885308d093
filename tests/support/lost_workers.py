"""Ends the worker processes of a run on Ray at a message of a given number.

with killed_at(7) as messages:
run = start(executor="ray", workers=2)   # the worker of the seventh message is gone when it is handled
messages.count                               # how many there were
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from assay.executors.links import WorkerLink
from assay.executors.messages import Sent, ToDriver, ToWorker


class Messages:
    """The messages of a run, in both directions, as the driver sends and receives them."""

    def __init__(self) -> None:
        self.count = 0
        self.killed = ""
        self.replies = 0
        """Replies of models inside workers that have reached the driver."""


@contextmanager
def killed_at(number: int, on_kill: Callable[[], object] = lambda: None) -> Iterator[Messages]:
    """Kill -9 the worker that the message of this number comes from or goes to. 0 kills none."""
    seen = Messages()
    send, receive = WorkerLink.send, WorkerLink._receive

    def count(link: WorkerLink) -> None:
        seen.count += 1
        if seen.count == number:
            seen.killed = link.name
            with suppress(ProcessLookupError):
                os.kill(int(link.name.rpartition("/")[2]), signal.SIGKILL)
            on_kill()

    def counted_send(link: WorkerLink, message: ToWorker) -> None:
        count(link)
        send(link, message)

    def counted_receive(link: WorkerLink, message: ToDriver) -> None:
        count(link)
        seen.replies += isinstance(message, Sent)
        receive(link, message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkerLink, "send", counted_send)
        patch.setattr(WorkerLink, "_receive", counted_receive)
        yield seen
