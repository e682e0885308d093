"""WorkerLink: the driver's side of the conversation with one worker. RemoteTry: a case that runs there.

    link = WorkerLink(exchange, "node-1/4711", on_lost, on_report)
    case = RemoteTry(link, ctx)
    placement = link.start(bare, try_, started, blocked, case)    # `case` gets the messages of this case
    link.send(Reply(…))                                           # travels with the next group

Messages travel in groups. There is always one exchange that waits at the worker for messages to return; a group for the
worker is a new exchange, and ends the wait of the one before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from itertools import count
from typing import Any

from assay.core.errors import AssayError, StopRun, UsageError, WorkerLost
from assay.core.types import Case, Failure, Record, Request
from assay.engine.context import TryContext
from assay.executors.messages import (
    GROUP_SECONDS,
    Abandon,
    Ask,
    CaseBlocked,
    EndCase,
    MessageGroup,
    Opened,
    PartPassed,
    Passed,
    Reply,
    Send,
    Sent,
    StartCase,
    Stopped,
    ToDriver,
    Told,
    ToWorker,
)
from assay.usercode.blocked_calls import BlockedCall

Exchange = Callable[[int, Sequence[ToWorker]], Awaitable[MessageGroup]]
"""Number and messages of a group → some messages of the worker. Raises ConnectionError if the worker is gone."""

# Numbers of placements are unique in the process, so that a late message of a lost worker reaches nobody.
_numbers = count(1)


class WorkerLink:
    """The conversation with one worker, from its hello until it is lost or closed."""

    def __init__(
        self,
        exchange: Exchange,
        name: str,
        on_lost: Callable[[WorkerLink, AssayError | None], None],
        on_report: Callable[[Opened | Told], None],
    ) -> None:
        """`on_lost` gets the error with which the whole run stops, or None: the cases start again elsewhere."""
        self.name = name
        self._remote_exchange = exchange
        self._on_lost = on_lost
        self._on_report = on_report
        self._handlers: dict[int, RemoteTry] = {}
        self._sends: dict[int, asyncio.Future[Sent | None]] = {}
        self._queue: list[ToWorker] = []
        self._flush_at: asyncio.TimerHandle | None = None
        self._exchanges: set[asyncio.Task[Any]] = set()
        self._sent_groups = 0
        self._next_batch = 1
        self._early: dict[int, MessageGroup] = {}
        self.is_open = True
        self.must_end = False
        """Whether the worker is lost although its process lives."""
        self.is_reserved = False
        """Whether no further case may be placed here: one runs alone, or waits until the others have ended."""
        self.heard = asyncio.get_running_loop().time()
        """When the worker answered last, in seconds of the loop's clock."""
        self._flush()

    @property
    def cases(self) -> int:
        """How many cases the worker has."""
        return len(self._handlers)

    @property
    def load(self) -> int:
        """How many cases and model calls the worker has."""
        return len(self._handlers) + len(self._sends)

    def start(self, case: Case, try_: int, started: float, blocked: Sequence[BlockedCall], handler: RemoteTry) -> int:
        """Start a case on the worker. Returns the number of the placement."""
        number = next(_numbers)
        self._handlers[number] = handler
        self.send(StartCase(number, case, try_, started, blocked))
        return number

    def abandon(self, placement: int) -> None:
        """Forget a case, and stop it if it still runs."""
        if self._handlers.pop(placement, None) is not None and self.is_open:
            self.send(Abandon(placement))

    async def ask_model(self, role: str, request: Request, seed: int) -> Sent | None:
        """Ask a model in the worker. Returns None if the worker was lost."""
        if not self.is_open:
            return None
        number = next(_numbers)
        self._sends[number] = asyncio.get_running_loop().create_future()
        self.send(Send(number, role, request, seed))
        try:
            return await self._sends[number]
        finally:
            self._sends.pop(number, None)

    def send(self, message: ToWorker) -> None:
        """Send a message with the next group."""
        self._queue.append(message)
        if self._flush_at is None:
            self._flush_at = asyncio.get_running_loop().call_later(GROUP_SECONDS, self._flush)

    def lose(self, error: AssayError | None = None, *, counts: bool = True) -> None:
        """Give up the worker. Its cases start again elsewhere, or end with `error`, which concerns the whole run.

        Without `counts` it is known why the worker is lost, so it is no loss of its cases (WorkerLost).
        """
        if not self.is_open:
            return
        self.close()
        handlers, self._handlers = self._handlers, {}
        for handler in handlers.values():
            handler.fail(error or WorkerLost(self.name, counts=counts))
        for future in list(self._sends.values()):
            if not future.done():
                future.set_result(None)
        self._on_lost(self, error)

    def close(self) -> None:
        """End the conversation. Answers of the worker are ignored from now on."""
        self.is_open = False
        if self._flush_at is not None:
            self._flush_at.cancel()
        for exchange in self._exchanges:
            exchange.cancel()

    def _flush(self) -> None:
        self._flush_at = None
        if not self.is_open:
            return
        group, self._queue = self._queue, []
        self._sent_groups += 1
        exchange = asyncio.create_task(self._exchange(self._sent_groups, group))
        self._exchanges.add(exchange)
        exchange.add_done_callback(self._exchanges.discard)

    async def _exchange(self, number: int, group: Sequence[ToWorker]) -> None:
        try:
            batch = await self._remote_exchange(number, group)
            self.heard = asyncio.get_running_loop().time()
            self._take(batch)
        except ConnectionError:
            self.lose()
            return
        except AssayError as error:
            self.lose(error)  # such as a full disk: the loop stops the run with it
            return
        except Exception as error:  # noqa: BLE001 - a bug: nothing more comes from the worker, and the run must not wait
            self.lose(StopRun(f"the worker {self.name} failed: {last_line(error)}"))
            return
        # One exchange always waits at the worker. This one is over, although its task is not: if two of them end in the
        # same turn of the loop, the second must see that no other is left.
        task = asyncio.current_task()
        assert task is not None
        self._exchanges.discard(task)
        if not self._exchanges and self._flush_at is None and self.is_open:
            self._flush()

    def _take(self, batch: MessageGroup) -> None:
        """Handle a group of messages, and those that had overtaken it."""
        if not self.is_open:
            return
        self._early[batch.number] = batch
        while (ready := self._early.pop(self._next_batch, None)) is not None:
            self._next_batch += 1
            for message in ready.messages:
                self._receive(message)

    def _receive(self, message: ToDriver) -> None:
        if isinstance(message, (Opened, Told)):
            self._on_report(message)
        elif isinstance(message, Sent):
            future = self._sends.get(message.number)
            if future is not None and not future.done():
                future.set_result(message)
        else:
            handler = self._handlers.get(message.placement)
            if isinstance(message, (EndCase, Stopped)):
                self._handlers.pop(message.placement, None)
            if handler is not None:
                handler.receive(message)
            if isinstance(message, CaseBlocked):
                self.must_end = True
                self.lose(counts=False)


class RemoteTry:
    """One placement of a case on a worker: answers what it asks, until it ends."""

    def __init__(self, link: WorkerLink, ctx: TryContext) -> None:
        self.placement = 0
        self.blocked: BlockedCall | None = None
        """The call with which this case has blocked the worker."""
        self._link = link
        self._ctx = ctx
        self._ended: asyncio.Future[EndCase] = asyncio.get_running_loop().create_future()
        self._answers: set[asyncio.Task[None]] = set()

    async def result(self) -> Failure | None:
        """Wait for the end of the case, and return its failure. Raises errors that concern the whole run."""
        try:
            end = await self._ended
        except asyncio.CancelledError:
            await self._drop_answers()
            raise
        except Exception:
            # Calls in flight are paid. If the worker was lost, the next placement finds their replies in the log.
            await asyncio.gather(*self._answers, return_exceptions=True)
            raise
        # The case has ended without waiting for these, as code does that takes the first of several replies.
        await self._drop_answers()
        self._emit(end.records)
        return end.failure

    async def _drop_answers(self) -> None:
        for answer in self._answers:
            answer.cancel()
        await asyncio.gather(*self._answers, return_exceptions=True)

    def receive(self, message: Ask | Passed | EndCase | CaseBlocked | Stopped) -> None:
        """Take a message of the case."""
        if isinstance(message, Ask):
            self._start(self._answer(message))
        elif isinstance(message, Passed):
            self._emit(message.records)
            self._start(self._tell_passed(message))
        elif isinstance(message, CaseBlocked):
            self.blocked = message.call
        elif isinstance(message, EndCase):
            if not self._ended.done():
                self._ended.set_result(message)
        else:
            kind = UsageError if message.exit_code == UsageError.exit_code else StopRun
            self.fail(kind(message.message))

    def fail(self, error: Exception) -> None:
        """End the case with an error: WorkerLost, or one that concerns the whole run."""
        if not self._ended.done():
            self._ended.set_exception(error)

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _answer(self, ask: Ask) -> None:
        try:
            asker = self._ctx.model(ask.role)
            call, replayed = await asker.call_numbered(ask.request, ask.hash, ask.n, ask.purpose)
        except Exception as error:  # noqa: BLE001 - raised again where the loop waits for the case
            self.fail(error)
            return
        if self._link.is_open:
            self._link.send(Reply(self.placement, ask.number, call, replayed))

    async def _tell_passed(self, question: Passed) -> None:
        try:
            passed = await self._ctx.passed(question.part)
        except Exception as error:  # noqa: BLE001 - a bug of an expectation's code stops the case, as it would here
            self.fail(error)
            return
        if self._link.is_open:
            self._link.send(PartPassed(self.placement, question.number, passed))

    def _emit(self, records: list[Record]) -> None:
        for record in records:
            self._ctx.emit(record.kind, record.data, record.part)


def last_line(error: BaseException) -> str:
    """Return the last line of an error's message. Those of Ray are tracebacks of other processes."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
