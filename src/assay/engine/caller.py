"""Makes every call to a model: replay from the log, permits, retries, budget, logging.

    ledger = CallLedger(journal, notify, max_calls=None, find_reply=None)   # one per start of a run
    caller = Caller(facts, model, permits, ledger, seed=1, max_retries=5)   # one per role and start
    asker = caller.bind(case, stage, try_, replies)                         # one per try and stage
    response = await asker.ask(request)

The rule is never to pay twice. A call is logged before the case sees its reply, and a request that the log
answers is not sent. After a kill, only the calls that were in flight are sent again.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Collection
from functools import partial

from msgspec.structs import replace

from assay.core.dollars import dollars
from assay.core.errors import AssayError, DiskFull, ModelError, ModelRefused, StopRun
from assay.core.events import Called, Noted, Notify, Retrying, Waiting
from assay.core.protocols import Model
from assay.core.roles import LIKELIHOOD
from assay.core.types import COMMON, NO_CASE, Call, Case, Failure, Request, Response
from assay.core.usage import BUILD, RETRIEVE
from assay.engine.asker import CaseAsker, ModelFacts
from assay.engine.permits import NONE_TRIED, Permits
from assay.engine.prices import Pricer, PriceTable
from assay.engine.reasoning import split_reasoning
from assay.engine.several import SeveralEndpoints
from assay.engine.shared_calls import SharedCalls
from assay.files.redact import Redactor
from assay.journal.calls import ReusableCalls
from assay.journal.journal import Journal, Replies

# Without a Retry-After header the wait doubles with each attempt, from the first value up to the longest. The
# five waits of the default --max-retries take 8 to 16 seconds together.
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 30.0

# A run whose first calls all fail with the same words of the endpoint stops after this many. One request may be wrong,
# and so may the rows of one kind at the start of the data; more calls would be as hopeless, and may be paid.
MAX_SAME_FAILURES = 20

# So often the observers of a run are told how many calls are open, so that a slow endpoint is never silent.
REPORT_SECONDS = 1.0

# What a memory asks. The answers of two subjects are not shared: each subject is evaluated on replies of its own.
SHARED_PURPOSES = (BUILD, RETRIEVE)

# Returns the call of another run (--reuse) for (case, stage, request hash, n), or None if it has no reply there.
FindReply = Callable[[Case, str, str, int], Call | None]


class CallLedger:
    """What all callers of a run share: the log, the budgets of --max-calls and --max-cost, the counts, the stop signal.

    `halted` is None until the run must stop. Then it is the reason, and no further call is made.
    """

    def __init__(
        self,
        journal: Journal,
        notify: Notify,
        max_calls: int | None,
        find_reply: FindReply | None,
        max_cost: float | None = None,
        *,
        redactor: Redactor | None = None,
    ) -> None:
        """`redactor` cleans the messages of failures before they are printed or raised. The journal does it itself."""
        self._journal = journal
        self.redactor = redactor
        self.notify = notify
        self.find_reply = find_reply
        self.halted: AssayError | None = None
        self.paused_calls = 0
        """Calls whose last attempt failed and that wait before the next one."""
        self.lost_replies = 0
        """Replies that arrived, and that the log could not take. They were paid for, and are requested again later."""
        self.halt_event = asyncio.Event()
        self.shared: SharedCalls | None = None
        """Replies that the subjects of the run share, for calls made for SHARED_PURPOSES. None: nothing is shared."""
        self._max_calls = max_calls
        self._calls_left = max_calls
        self.max_cost = max_cost
        self._cost = 0.0
        self._counts = dict.fromkeys(("paid", "replayed", "failed", "retries", "input_tokens", "output_tokens"), 0)

    def counts(self) -> dict[str, int]:
        """Return the calls and tokens since this start of the run, and `lost` replies if there are any."""
        return self._counts | ({"lost": self.lost_replies} if self.lost_replies else {})

    @property
    def ended_calls(self) -> int:
        """The calls that ended since this start of the run, with a reply or a failure."""
        return self._counts["paid"] + self._counts["replayed"]

    def count_call(self, call: Call, *, replayed: bool) -> None:
        """Count a call that ended. Replayed calls cost no tokens."""
        usage = call.response.usage if call.response else None
        cost = call.response.cost if call.response else None
        failed = call.failure is not None
        counts = self._counts
        counts["replayed" if replayed else "paid"] += 1
        if failed:
            counts["failed"] += 1
        if usage and not replayed:
            counts["input_tokens"] += usage.input
            counts["output_tokens"] += usage.output
        if cost is not None and not replayed:
            self._cost += cost
        self.notify(Called(usage, failed, replayed, cost))

    def count_retry(self, failure: Failure, wait: float) -> None:
        """Count an attempt that failed and will be repeated after a wait."""
        self._counts["retries"] += 1
        self.notify(Retrying(failure, wait))

    def take_from_budget(self, attempt: int) -> None:
        """Allow one attempt to be sent. Raises if the run is halted, or --max-calls or --max-cost is used up.

        Retries are free: a call is taken from the budget with its first attempt. The price of a call is known when it
        has ended, so the calls in flight come on top of --max-cost.
        """
        if self.halted:
            raise self.halted
        if self.max_cost is not None and self._cost >= self.max_cost:
            raise self.halt(StopRun(f"stopped at {dollars(self._cost)}, as --max-cost {self.max_cost:g} says"))
        if self._calls_left is not None and attempt == 1:
            if self._calls_left == 0:
                raise self.halt(StopRun(f"stopped after {self._max_calls} calls, as --max-calls says"))
            self._calls_left -= 1

    def halt(self, reason: AssayError) -> AssayError:
        """Allow no further call. Return the reason to raise: the first reason given, if there are several."""
        self.halted = self.halted or reason
        self.halt_event.set()
        return self.halted

    async def sleep(self, seconds: float) -> None:
        """Sleep before the next attempt of a call, or raise as soon as the run is halted."""
        self.paused_calls += 1
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.halt_event.wait(), seconds)
        finally:
            self.paused_calls -= 1
        if self.halted:
            raise self.halted

    def write(self, call: Call) -> Call:
        """Log one call and return it as logged: without secrets.

        Halt the run if the log cannot be written: unlogged calls would be paid again later.
        """
        try:
            return self._journal.call(call)
        except AssayError as error:
            if call.response is not None and call.attempts and not isinstance(error, DiskFull):
                self.lost_replies += 1
            raise self.halt(error) from error

    @contextlib.asynccontextmanager
    async def reports(self, permits: Collection[Permits]) -> AsyncIterator[None]:
        """Tell the observers of the run every second how many calls are open, until the block ends."""
        task = asyncio.create_task(self._report(permits))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            error = None if task.cancelled() else task.exception()
        if error is not None:  # an observer raised it
            raise error

    async def _report(self, permits: Collection[Permits]) -> None:
        ended, changed_at = self.ended_calls, time.monotonic()
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            now = time.monotonic()
            if self.ended_calls != ended:
                ended, changed_at = self.ended_calls, now
            in_flight = sum(each.in_flight for each in permits)
            self.notify(Waiting(in_flight, self.paused_calls, now - changed_at))


class Caller:
    """Sends the calls of one role to its model: waits for permits, retries, and halts the run if that is hopeless."""

    def __init__(
        self,
        facts: ModelFacts,
        model: Model,
        permits: Permits,
        ledger: CallLedger,
        *,
        seed: int,
        max_retries: int,
        prices: PriceTable | None = None,
        max_wait: float = 120.0,
    ) -> None:
        self.facts = facts
        self.name = facts.name
        self.model = model
        self.answered = False
        """Whether earlier starts of the run have replies of the role, so that its requests are not hopeless."""
        self._prices = prices
        self._pricers: dict[str, Pricer | None] = {}  # by model
        self.permits = permits
        self.ledger = ledger
        self._seed = seed
        self._max_retries = max_retries
        self._max_wait = max_wait
        # By the number that `permits` gives out: the endpoints of this model, mostly one.
        self._members = model.members if isinstance(model, SeveralEndpoints) else (model,)
        self._reply_counts = [0] * len(self._members)
        self._reply_count = 0
        self._last_failure: Failure | None = None
        self._same_failures = 0
        self._adapted: tuple[str, ...] = ()

    def bind(self, case: Case, stage: str, try_: int, replies: Replies | ReusableCalls) -> CaseAsker:
        """Return the model for one try of one case. `replies` are logged calls that the try may replay."""
        return CaseAsker(self.facts, partial(self._find_or_make, case, stage, try_, replies))

    def bind_shared(self, replies: Replies | ReusableCalls) -> CaseAsker:
        """Return the model for the gateway's shared endpoint, which all cases use.

        A request there does not tell its case, so equal requests are numbered over the whole run.
        """
        return self.bind(Case(NO_CASE, "", "", "", "", None), COMMON, 1, replies)

    async def _find_or_make(
        self,
        case: Case,
        stage: str,
        try_: int,
        replies: Replies | ReusableCalls,
        request: Request,
        hash_: str,
        n: int,
        purpose: str,
    ) -> tuple[Call, bool]:
        """Return the call from the log, or make and log it. Also returns whether the reply was there already.

        A reply may also come from another run (--reuse), or from the call of another subject.
        """
        ledger = self.ledger
        call = replies.get((stage, hash_, n)) if replies else None
        if call is not None:
            ledger.count_call(call, replayed=True)
            return call, True
        response: Response | None = None
        failure: Failure | None = None
        attempts = 0
        seconds = 0.0
        reused = ledger.find_reply(case, stage, hash_, n) if ledger.find_reply else None
        is_shared = False
        if reused is not None:
            # 0 attempts in the log mark a call that this run has not paid.
            response = reused.response
            seconds = reused.seconds
        else:
            try:
                if ledger.shared is not None and purpose in SHARED_PURPOSES:
                    send = partial(self.send, request, n, case.index)
                    key = (case.key, stage, hash_, n)
                    response, attempts, seconds = await ledger.shared.get(key, send)
                    is_shared = attempts == 0
                else:
                    response, attempts, seconds = await self.send(request, n, case.index)
            except ModelError as error:
                failure, attempts, seconds = error.failure, error.attempts, error.seconds
                response = error.response
        call = Call(
            case.index,
            case.key,
            case.set,
            case.subject,
            stage,
            try_,
            hash_,
            n,
            request if n == 0 else None,  # repeats have the hash only
            response,
            failure,
            attempts,
            round(seconds, 6),
        )
        # The case gets the call as it is logged, so that a replay gives it the same.
        call = ledger.write(call)
        replayed = reused is not None or is_shared
        ledger.count_call(call, replayed=replayed)
        return call, replayed

    async def send(self, request: Request, n: int, order: int) -> tuple[Response, int, float]:
        """Send a request and repeat it after failures that a retry may cure.

        Returns the reply, the number of attempts and the seconds of the last attempt. Raises ModelError, or
        the reason to stop the run. `n` counts equal requests of a try: the seed sent is the run's seed + n.
        Permits go to the lowest `order` first.
        """
        # The runner has checked the needs that the suite declares. User code may request likelihoods without that.
        if request.continuation is not None and LIKELIHOOD not in self.model.can:
            raise ModelError(Failure("rejected", f"{request.model} cannot do {LIKELIHOOD}"))
        replies_before = self._reply_count
        attempt = rounds = 0
        tried: frozenset[int] = NONE_TRIED
        while True:
            attempt += 1
            # The number of an endpoint: several base URLs have several.
            at = self.permits.take(tried)  # without a coroutine, as nearly always
            if at is None:
                at = await self.permits.acquire(order, tried)
            # Waiting for a permit is not the endpoint's time.
            started = time.perf_counter()
            try:
                self.ledger.take_from_budget(attempt)
                response = await self._members[at].send(request, self._seed + n)
            except BaseException as raised:  # noqa: BLE001 - what is no failure of the call is raised again
                error = self._end_failed_attempt(request, raised, at)
                error.attempts = attempt
                error.seconds = time.perf_counter() - started
                self._halt_if_refused(error.failure, at)
                # Another endpoint can have the call at once. A round of all endpoints counts as one retry.
                may_help = error.retry or error.failure.kind in ("unreachable", "auth", "not_found")
                if may_help and self.permits.may_move(at, tried):
                    tried |= {at}
                    self.ledger.count_retry(error.failure, 0.0)
                    continue
                tried = NONE_TRIED
                rounds += 1
                if not error.retry or rounds > self._max_retries:
                    self._halt_if_down(error, replies_before)
                    self._halt_if_hopeless(error.failure)
                    raise error from error.__cause__
                await self._wait_before_retry(error, rounds)
                continue
            self._reply_count += 1
            self._reply_counts[at] += 1
            self.permits.succeeded(at)
            self.permits.release(at)
            if response.adapted and response.adapted != self._adapted:
                self._tell_adapted(response.adapted)
            response = self._priced(request, split_reasoning(response))
            seconds = time.perf_counter() - started
            if response.waited:
                seconds -= response.waited
                response = replace(response, waited=0.0)
            return response, attempt, seconds

    def _end_failed_attempt(self, request: Request, raised: BaseException, at: int) -> ModelError:
        """Release the permit of an attempt that raised. Returns the call's failure; raises other exceptions."""
        try:
            if isinstance(raised, ModelError):
                error = self._without_secrets(raised)
                # Before the release: it must not give the permit to a call that would fail alike.
                if error.failure.kind == "rate_limited":
                    self.permits.overloaded(at)
                self.permits.failed(error.failure, at)
                if error.response is not None:
                    error.response = self._priced(request, error.response)
                return error
            if isinstance(raised, AssayError) or not isinstance(raised, Exception):
                raise raised
            # A bug of the provider, for example with an odd reply. It must not count against the evaluated model.
            failure = Failure("bad_reply", f"the provider raised {type(raised).__name__}: {raised}")
            self.permits.failed(failure, at)
            error = self._without_secrets(ModelError(failure, retry=True))
            error.__cause__ = raised
            return error
        finally:
            self.permits.release(at)

    def _without_secrets(self, error: ModelError) -> ModelError:
        """Return the error with a message that may be printed."""
        if self.ledger.redactor:
            error.failure = self.ledger.redactor.redacted(error.failure)
            error.args = (error.failure.message,)
        return error

    def _priced(self, request: Request, response: Response) -> Response:
        """Return the response with its price, if the endpoint reports one or the price table has it."""
        if self._prices is not None and response.cost is None:
            name = self.name
            # Code with its own SDK may name another model of the same endpoint.
            if request.sdk is not None and response.data is not None:
                name = f"{name.partition('/')[0]}/{request.sdk.body.get('model') or name.partition('/')[2]}"
            if name not in self._pricers:
                self._pricers[name] = self._prices.pricer(name)
            pricer = self._pricers[name]
            if pricer is not None:
                response = pricer.apply(response)
        if response.cost is None and self.ledger.max_cost is not None:
            # This reply is paid, so the case gets it. The next call would be one that nobody limits.
            self.ledger.halt(
                StopRun(
                    f"a reply of {self.name} has no price, so --max-cost cannot be kept: the endpoint reported none, "
                    "and it counted no tokens or the price table lacks the model that was asked. Leave --max-cost out"
                )
            )
        return response

    def _tell_adapted(self, changes: tuple[str, ...]) -> None:
        """Tell once how requests are changed for this endpoint. Every reply has it too."""
        new = [change for change in changes if change not in self._adapted]
        self._adapted += tuple(new)
        if new:
            # The format has no such parameter, the endpoint has just rejected one, or a prompt is too long.
            self.ledger.notify(Noted(f"requests to {self.name} are adapted: {', '.join(new)}"))

    def _halt_if_refused(self, failure: Failure, at: int) -> None:
        """Halt the run if this endpoint will refuse every later call too."""
        # Before the first reply these errors mean a wrong key or a wrong model name. After it, the key and the
        # name have worked, so the endpoint had a passing fault and only this call fails.
        never_accepted = failure.kind in ("auth", "not_found") and not self._reply_counts[at]
        if failure.kind == "unsupported" or never_accepted:
            raise self.ledger.halt(ModelRefused(failure.message))
        if failure.kind == "no_credit":
            raise self.ledger.halt(StopRun(failure.message))

    def _halt_if_down(self, error: ModelError, replies_before: int) -> None:
        """Halt the run if no call of this role was answered during all retries of this call: the endpoint is down."""
        message = error.failure.message
        if error.failure.kind == "unreachable" and self._reply_count == replies_before:
            # An error that no retry cures, such as a certificate's, has its own advice.
            if error.retry:
                advice = "Check the base URL and whether the server runs"
                message = f"{message}{'' if message.endswith('?') else '.'} {advice}"
            raise self.ledger.halt(StopRun(message))

    def _halt_if_hopeless(self, failure: Failure) -> None:
        """Halt the run if the endpoint rejected its first calls, all with the same words, and answered none.

        Failures that count against the evaluated model, such as refusals, never halt a run.
        """
        if self._reply_count or self.answered or failure.kind not in ("rejected", "bad_reply"):
            self._same_failures = 0
            return
        self._same_failures = self._same_failures + 1 if failure == self._last_failure else 1
        self._last_failure = failure
        if self._same_failures >= MAX_SAME_FAILURES:
            raise self.ledger.halt(
                StopRun(f"stopped after {MAX_SAME_FAILURES} calls that all failed alike: {failure.message}")
            )

    async def _wait_before_retry(self, error: ModelError, rounds: int) -> None:
        # The random factor spreads calls that failed together, so that they are not repeated all at once. A wait
        # from Retry-After is only lengthened, since the endpoint would refuse an earlier attempt, unless it is longer
        # than --max-wait.
        if error.wait is not None:
            wait = min(error.wait, self._max_wait / 1.1) * random.uniform(1.0, 1.1)  # noqa: S311
        else:
            longest = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** (rounds - 1), self._max_wait)
            wait = longest * random.uniform(0.5, 1.0)  # noqa: S311
        self.ledger.count_retry(error.failure, wait)
        await self.ledger.sleep(wait)
