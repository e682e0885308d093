"""CaseWorker: runs cases of a run in this process, for a driver that may be on another machine.

    worker = CaseWorker(plan)
    hello = await worker.hello(connection)                        # ready, or the reason why not
    group = await worker.exchange(connection, 1, [StartCase(…)])  # delivers messages, returns those for the driver

Cases run in a thread with an event loop of its own. So code that blocks its loop does not keep messages from arriving.
The file reads from the top down: CaseWorker (exchanges messages), CaseRunner (runs cases in the thread).
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import assay
from assay.core import events
from assay.core.diff import differences
from assay.core.errors import AssayError, ModelError
from assay.core.events import Event, Noted
from assay.core.protocols import Model
from assay.core.suite import WorkerSolver
from assay.core.types import ASK, Call, Case, Failure, Record, Request
from assay.engine.asker import CaseAsker
from assay.engine.context import RunContext, TryContext
from assay.engine.gateway import Gateway
from assay.engine.one_try import solve_once
from assay.executors.messages import (
    GROUP_SECONDS,
    Abandon,
    Ask,
    CaseBlocked,
    EndCase,
    Hello,
    MessageGroup,
    Opened,
    PartPassed,
    Passed,
    Reply,
    Send,
    Sent,
    StartCase,
    Stopped,
    Told,
    ToWorker,
)
from assay.executors.outbox import Outbox
from assay.executors.plan import WorkerPlan
from assay.files.excerpt import cut_end
from assay.files.redact import Redactor, secrets_from_environment
from assay.usercode.blocked_calls import BlockedCall, CaseCalls, case_calls
from assay.usercode.opened_files import ForwardedFiles
from assay.usercode.thread_alarm import ThreadAlarm
from assay.usercode.watchdog import StepOwner

T = TypeVar("T")
# The loop of the cases notes the time this often. It is blocked if it did not for the time limit and this much longer.
_TURN_SECONDS = 1.0
_BLOCKED_SECONDS = 30.0
# So many places at which files differ are named.
_MAX_PLACES = 3


class CaseWorker:
    """Delivers messages of the driver to the cases, in order, and returns what they say."""

    def __init__(self, plan: WorkerPlan) -> None:
        self._outbox = Outbox()
        self._runner = CaseRunner(plan, self._outbox)
        self._plan = plan
        self._connection = 0
        self._forget()

    def _forget(self) -> None:
        self._next_number = 1
        self._early: dict[int, Sequence[ToWorker]] = {}
        self._batches = 0
        self._parked = asyncio.Event()

    async def hello(self, connection: int) -> Hello:
        """Forget everything of an earlier connection, and say who this is once the suite is built."""
        self._connection = connection
        self._parked.set()
        self._runner.abandon_all()
        self._outbox.take()
        self._runner.tell_files_again()
        self._forget()
        name = f"{socket.gethostname()}/{os.getpid()}"
        here = Hello(name=name)
        if self._plan.version != assay.__version__:
            problem = f"it has assay {assay.__version__}, and the driver has {self._plan.version}"
            return msgspec.structs.replace(here, problem=problem, kind="version")
        checked = asyncio.wrap_future(self._runner.call(self._runner.checked(here)))
        while not checked.done():
            await asyncio.wait([checked], timeout=_TURN_SECONDS)
            self._runner.end_if_blocked()
        return checked.result()

    async def exchange(self, connection: int, number: int, messages: Sequence[ToWorker]) -> MessageGroup:
        """Deliver messages, then wait for some for the driver. A later exchange ends the wait of an earlier one.

        The driver numbers its exchanges, because Ray does not promise their order. Raises ConnectionResetError if the
        driver has said hello again since it sent this one.
        """
        self._check(connection)
        self._runner.end_if_blocked()
        self._early[number] = messages
        while (ready := self._early.pop(self._next_number, None)) is not None:
            self._next_number += 1
            if ready:
                self._runner.deliver(ready)
        self._parked.set()
        released = self._parked = asyncio.Event()
        await self._outbox.wait(released)
        if not released.is_set():
            await asyncio.sleep(GROUP_SECONDS)
        self._check(connection)
        self._batches += 1
        return MessageGroup(self._batches, self._outbox.take())

    async def close(self) -> None:
        """Stop the cases, and close the processes, ports and files that solver and models have opened."""
        self._connection = 0
        await asyncio.wrap_future(self._runner.call(self._runner.close()))

    def _check(self, connection: int) -> None:
        if connection != self._connection:
            raise ConnectionResetError("the driver has connected again")


class CaseRunner:
    """The thread that runs the cases, with the suite and the models of this worker."""

    def __init__(self, plan: WorkerPlan, outbox: Outbox) -> None:
        self._plan = plan
        self._outbox = outbox
        self._loop = asyncio.new_event_loop()
        self._worker_solver: WorkerSolver | None = None
        self._models: dict[str, Model] = {}
        self._gateway: Gateway | None = None
        self._files: ForwardedFiles | None = None
        self._is_built = False
        self._open: dict[int, OpenCase] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._abandoned: set[asyncio.Task[None]] = set()
        self._last_turn = time.monotonic()
        threading.Thread(target=self._work, name="assay-worker", daemon=True).start()

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        ThreadAlarm(threading.get_ident(), self._report_blocked)
        events.notify.set(self._tell)
        self._turn()
        self._loop.run_forever()

    def _turn(self) -> None:
        self._last_turn = time.monotonic()
        self._loop.call_later(_TURN_SECONDS, self._turn)

    def _report_blocked(self, owner: StepOwner, error: BaseException) -> None:
        """Tell the driver of a case whose code cannot be interrupted. Called in the thread of the alarm."""
        self._outbox.put(CaseBlocked(owner.placement, BlockedCall.of(owner.call, error)))

    def end_if_blocked(self) -> None:
        """End this process if code has blocked the loop of the cases for longer than any call may take.

        Code with a time limit is interrupted long before, or its case is told to the driver. This is for other code.
        The driver starts the cases again elsewhere, and gives up the one that does it three times. Building the suite
        may take longer, as weights are hashed then.
        """
        if self._is_built and time.monotonic() - self._last_turn > self._plan.timeout + _BLOCKED_SECONDS:
            os._exit(1)

    def _tell(self, event: Event) -> None:
        if isinstance(event, Noted):
            self._outbox.put(Told(event.text))

    def call(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the thread. Returns its concurrent future."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    async def checked(self, here: Hello) -> Hello:
        """Build suite and models unless they are built, and compare them with the driver's."""
        plan = self._plan
        try:
            if self._worker_solver is None:
                with suppress(OSError):  # a cluster without a shared folder: the identities tell what is missing
                    os.chdir(plan.folder)
                self._files = ForwardedFiles(lambda file: self._outbox.put(Opened(file)), apart_from=Path(plan.output))
                self._files.__enter__()  # as long as the process lives
                Redactor(secrets_from_environment(plan.key_variables))  # from now on no text is cut inside of one
                self._worker_solver = plan.build()
                self._models = {role: connect() for role, connect in plan.models.items()}
                self._gateway = Gateway(plan.roles)
                self._last_turn = time.monotonic()  # the loop did not turn meanwhile
                self._is_built = True
        except Exception as error:  # noqa: BLE001 - told to the driver, which stops with this sentence
            text = str(error) if isinstance(error, AssayError) else f"{type(error).__name__}: {error}"
            return msgspec.structs.replace(here, problem=text, kind="build")
        own = msgspec.to_builtins(self._worker_solver.identity, str_keys=True)
        if places := list(differences(plan.identity, own)):
            named = "; ".join(_both_values(place, plan.identity, own) for place in places[:_MAX_PLACES])
            return msgspec.structs.replace(here, problem=named, kind="files")
        for role, model in self._models.items():
            if model.endpoint != plan.roles[role].endpoint:
                problem = f"{plan.roles[role].name} is {model.endpoint} there and {plan.roles[role].endpoint} here"
                return msgspec.structs.replace(here, problem=problem, kind="models")
        return here

    # Messages, called in any thread.

    def tell_files_again(self) -> None:
        """Tell the driver of all files that code has opened here. An earlier connection may have lost some."""
        if self._files is not None:
            self._files.tell_again()

    def deliver(self, messages: Sequence[ToWorker]) -> None:
        """Hand messages to the thread."""
        self._loop.call_soon_threadsafe(self._receive, messages)

    def abandon_all(self) -> None:
        """Stop all cases: the driver has lost the connection and starts them again elsewhere."""
        self._loop.call_soon_threadsafe(self._cancel_all)

    # In the thread.

    async def close(self) -> None:
        """Close what the solver and the models have opened."""
        self._cancel(list(self._open))
        if self._gateway is not None:
            await self._gateway.close()
        for model in self._models.values():
            await model.close()
        if self._worker_solver is not None:
            await self._worker_solver.solver.close()

    def _receive(self, messages: Sequence[ToWorker]) -> None:
        for message in messages:
            if isinstance(message, StartCase):
                # Registered at once: the next message may abandon it.
                started = OpenCase(message, self._plan, self._gateway, self._outbox)
                self._open[message.placement] = started
                started.task = self._start(self._run_case(message, started))
            elif isinstance(message, Send):
                self._start(self._send(message))
            elif isinstance(message, Abandon):
                self._cancel([message.placement])
            elif (opened := self._open.get(message.placement)) is not None:
                opened.receive(message)

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _cancel_all(self) -> None:
        self._cancel(list(self._open))

    def _cancel(self, placements: Sequence[int]) -> None:
        for number in placements:
            opened = self._open.pop(number, None)
            if opened is not None and opened.task is not None:
                self._abandoned.add(opened.task)
                opened.task.cancel()

    async def _run_case(self, start: StartCase, opened: OpenCase) -> None:
        assert self._worker_solver is not None
        case_calls.set(CaseCalls(start.placement, start.blocked))
        try:
            failure = await solve_once(
                self._worker_solver.solver, start.case.inputs, opened.ctx, self._forgive_cancellation
            )
            self._outbox.put(EndCase(start.placement, opened.unsent_records(), failure))
        except asyncio.CancelledError:
            return  # abandoned by the driver
        except AssayError as error:
            self._outbox.put(Stopped(start.placement, str(error), error.exit_code))
        except BaseException as error:  # noqa: BLE001 - a bug of assay; the driver stops with it
            self._outbox.put(Stopped(start.placement, f"{type(error).__name__}: {error}", 1))
        finally:
            self._open.pop(start.placement, None)
            if opened.task is not None:
                self._abandoned.discard(opened.task)

    def _forgive_cancellation(self) -> bool:
        task = asyncio.current_task()
        if task is None or task in self._abandoned:
            return False
        while task.cancelling():
            task.uncancel()
        return True

    async def _send(self, message: Send) -> None:
        try:
            response = await self._models[message.role].send(message.request, message.seed)
            self._outbox.put(Sent(message.number, response))
        except ModelError as error:
            self._outbox.put(Sent(message.number, error.response, error.failure, error.retry, error.wait))
        except Exception as error:  # noqa: BLE001 - as the caller does for a bug of a provider
            failure = Failure("bad_reply", f"the provider raised {type(error).__name__}: {error}")
            self._outbox.put(Sent(message.number, None, failure, retry=True))


class OpenCase:
    """A case that runs here: its context, and its questions to the driver that have no answer yet."""

    def __init__(self, start: StartCase, plan: WorkerPlan, gateway: Gateway | None, outbox: Outbox) -> None:
        self.task: asyncio.Task[None] | None = None
        self._placement = start.placement
        self._roles = plan.roles
        self._outbox = outbox
        self._asked = 0
        self._waiting: dict[int, asyncio.Future[Reply | PartPassed]] = {}
        self._sent_records = 0
        run = RunContext(
            bind=self._bind,
            journal=None,
            seed=plan.seed,
            started=start.started,
            gateway=gateway,
            passed=self._passed,
        )
        self.ctx = TryContext(start.case, ASK, start.try_, run)

    def receive(self, message: Reply | PartPassed) -> None:
        """Give an answer of the driver to the code that waits for it."""
        future = self._waiting.pop(message.number, None)
        if future is not None and not future.done():
            future.set_result(message)

    def unsent_records(self) -> list[Record]:
        """Return the records that the driver does not have yet."""
        records = self.ctx.records[self._sent_records :]
        self._sent_records += len(records)
        # As JSON values: a struct leaves out a default only where it is the very object of the class, which it no
        # longer is in another process. The journal would have other bytes.
        return [msgspec.structs.replace(each, data=msgspec.to_builtins(each.data)) for each in records]

    async def _answer(self, number: int) -> Reply | PartPassed:
        future: asyncio.Future[Reply | PartPassed] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        return await future

    def _number(self) -> int:
        self._asked += 1
        return self._asked

    def _bind(self, role: str, ctx: TryContext) -> CaseAsker | None:
        """Return the model of a role. Its requests are numbered here, and the driver answers from its log, or asks."""
        facts = self._roles.get(role)
        return None if facts is None else CaseAsker(facts, partial(self._ask, role))

    async def _ask(self, role: str, request: Request, hash_: str, n: int, purpose: str) -> tuple[Call, bool]:
        number = self._number()
        self._outbox.put(Ask(self._placement, number, role, request, hash_, n, purpose))
        reply = await self._answer(number)
        assert isinstance(reply, Reply)
        return reply.call, reply.replayed

    async def _passed(self, case: Case, records: Sequence[Record], part: str) -> bool:
        number = self._number()
        self._outbox.put(Passed(self._placement, number, part, self.unsent_records()))
        answer = await self._answer(number)
        assert isinstance(answer, PartPassed)
        return answer.passed


def _both_values(place: str, here: Any, there: Any) -> str:
    """Return a place at which two identities differ, with both values."""
    values = []
    for identity in (here, there):
        value = identity
        for part in place.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        values.append(cut_end(str(value), 60))
    return f"{place} is {values[1]} there and {values[0]} here"
