"""The context of a try: models by role, numbered requests and their replay, records, and what depends on the case."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import ModelError, UsageError
from assay.core.protocols import Model
from assay.core.types import ASK, Call, Case, End, Failure, Record, Response, Usage
from assay.core.usage import BUILD, JUDGE
from assay.engine.asker import CaseAsker
from assay.engine.caller import CallLedger
from assay.engine.context import NOTHING_SPENT, PassedFunction, RunContext, TryContext
from assay.journal.journal import Journal

from support.engine_run import SEED, STARTED, EchoModel, ask, callers, case, logged_calls, request, turns

SECRET = "sk-1234567890"
SCORER = "judge@1"


class Run:
    """An open run: its journal, its models, and a context for each stage and try."""

    def __init__(self, folder: Path, passed: PassedFunction | None = None, seed: int = SEED, **models: Model) -> None:
        self.folder = folder
        self.journal = Journal(folder, [SCORER], [SECRET])
        self.ledger = CallLedger(self.journal, lambda _: None, None, None)
        self._callers = callers(models, self.journal, self.ledger)
        self._context = RunContext(
            bind=self._bind,
            journal=self.journal,
            seed=seed,
            started=STARTED,
            passed=passed,
        )

    def _bind(self, role: str, ctx: TryContext) -> CaseAsker | None:
        if role not in self._callers:
            return None
        index = ctx.case.index
        replies = self.journal.replies(index, ctx.stage, self.journal.last_try(index))
        return self._callers[role].bind(ctx.case, ctx.stage, ctx.try_, replies)

    def context(self, of: Case | None = None, stage: str = ASK) -> TryContext:
        return TryContext(of or case(0), stage, 1, self._context)

    def end(self, ctx: TryContext) -> list[Record]:
        """Commit the try as the loop does. Returns its records as readers get them."""
        usage, calls, cost = ctx.spent()
        end = End(*ctx.case.head, ctx.stage, ctx.try_, "ok", ctx.written, None, usage, calls, cost=cost)
        self.journal.end_case(end, ctx.pending)
        return self.journal.reader.records(ctx.case.index)


Open = Callable[..., Run]


@pytest.fixture
def open_run(tmp_path: Path) -> Iterator[Open]:
    """Open the run of this test. Another call closes it and opens it again, as the next start does."""
    runs: list[Run] = []

    def start(passed: PassedFunction | None = None, seed: int = SEED, **models: Model) -> Run:
        close()
        runs.append(Run(tmp_path, passed, seed, **models))
        return runs[-1]

    def close() -> None:
        while runs:
            runs.pop().journal.close()

    yield start
    close()


def wait_for(main: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(main, 30))


# Models.


def test_a_role_has_a_model_of_its_own_and_main_is_the_default(open_run: Open) -> None:
    main, judge = EchoModel(), EchoModel()
    ctx = open_run(main=main, judge=judge).context()

    async def ask_both() -> None:
        await ask(ctx, "question")
        await ask(ctx, "verdict", role="judge")

    wait_for(ask_both())
    assert ctx.model() is ctx.model("main")
    assert (main.prompts, judge.prompts) == (["question"], ["verdict"])


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (
            lambda ctx: ask(ctx, "?", role="critic"),
            "this run has no model for the role 'critic'. Pass one with --model",
        ),
        (lambda ctx: ctx.passed("step"), "ctx.passed() is not available: this suite has no `passed` method."),
        (lambda ctx: ctx.base_url(), "ctx.base_url() is not available: this run has no gateway for SDKs"),
    ],
    ids=["role", "passed", "gateway"],
)
def test_what_a_run_does_not_have_is_a_mistake_with_a_message(
    use: Callable[[TryContext], Coroutine[Any, Any, Any]], message: str, open_run: Open
) -> None:
    ctx = open_run(main=EchoModel()).context()
    with pytest.raises(UsageError) as raised:
        wait_for(use(ctx))
    assert str(raised.value) == message


# Requests: numbered, logged, replayed.


def test_equal_requests_of_a_try_are_numbered_and_each_has_a_seed_of_its_own(open_run: Open) -> None:
    """So that a model that is asked five times gives five samples. The log has the text of a request once."""
    model = EchoModel()
    run = open_run(main=model)
    ctx = run.context()

    async def ask_three_times() -> None:
        for prompt in ("same", "other", "same", "same"):
            await ask(ctx, prompt)

    wait_for(ask_three_times())
    logged = logged_calls(run.folder)
    assert [(call.n, call.request is not None) for call in logged] == [(0, True), (0, True), (1, False), (2, False)]
    assert len({call.hash for call in logged}) == 2
    assert model.seeds == [SEED, SEED, SEED + 1, SEED + 2]


class LastFirst(EchoModel):
    """A model that answers three requests, the last one first. Each reply has the number of its request."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = [asyncio.Event() for _ in range(4)]
        self.turns[3].set()

    async def reply(self, prompt: str) -> Response:
        number = len(self.prompts)
        await self.turns[number].wait()
        self.turns[number - 1].set()
        return Response(f"reply {number}")


def test_the_next_start_gives_each_of_equal_requests_its_own_reply_and_sends_none(open_run: Open) -> None:
    """Also if they were made at once and were answered in another order."""

    async def ask_at_once(ctx: TryContext) -> list[str]:
        return await ctx.map(lambda prompt: ask(ctx, prompt), ["same", "same", "same"])

    first, second = LastFirst(), EchoModel()
    run = open_run(main=first)
    replies = wait_for(ask_at_once(run.context()))
    assert replies == ["reply 1", "reply 2", "reply 3"]
    assert [call.n for call in logged_calls(run.folder)] == [2, 1, 0]
    assert wait_for(ask_at_once(open_run(main=second).context())) == replies
    assert second.prompts == []


def test_a_reply_is_in_the_log_without_secrets_before_the_case_has_it(open_run: Open) -> None:
    """A replay gives the case the same."""

    class Telling(EchoModel):
        async def reply(self, prompt: str) -> Response:
            return Response(f"the key is {SECRET}")

    async def ask_and_look() -> tuple[str, list[Call]]:
        return await ask(run.context(), "?"), logged_calls(run.folder)

    run = open_run(main=Telling())
    text, (call,) = wait_for(ask_and_look())
    assert call.response is not None
    assert text == call.response.text == "the key is [redacted]"


def test_a_seed_that_the_solver_sets_is_part_of_the_request(open_run: Open) -> None:
    """Replies to another seed do not answer it."""
    model = EchoModel()
    run = open_run(main=model)
    ctx = run.context()

    async def ask_with_seeds() -> None:
        for seed in (1, 2, None):
            ctx.model().seed = seed
            await ask(ctx, "same")

    wait_for(ask_with_seeds())
    logged = logged_calls(run.folder)
    assert [call.request and call.request.params for call in logged] == [{"seed": 1}, {"seed": 2}, {}]
    assert [call.n for call in logged] == [0, 0, 0]


# What the calls of a try cost.


class Billing(EchoModel):
    """A model of an endpoint that reports tokens and prices. It refuses to answer `no`."""

    async def reply(self, prompt: str) -> Response:
        if prompt == "no":
            raise ModelError(Failure("refusal", "no"))
        return Response("yes", usage=Usage(10, 2), cost=0.5, address="http://here")


def test_calls_are_counted_by_their_purpose_and_replayed_ones_count_alike(open_run: Open) -> None:
    """The price of the try is that of calls whose purpose was named."""

    async def ask_for_purposes(ctx: TryContext) -> None:
        asker = ctx.model()
        for purpose, prompt in ((BUILD, "one"), (BUILD, "two"), (JUDGE, "no"), ("", "for no purpose")):
            asker.purpose = purpose
            try:
                await asker.ask(request(asker, prompt))
            except ModelError:
                assert prompt == "no"

    for model in (Billing(), EchoModel()):
        ctx = open_run(main=model).context()
        wait_for(ask_for_purposes(ctx))
        usage = ctx.model().usage
        assert {name: (used.calls, used.failed, used.cost) for name, used in usage.items()} == {
            BUILD: (2, 0, 1.0),
            JUDGE: (1, 1, 0.0),
        }
        assert ctx.spent() == (Usage(30, 6), 4, 1.0)
    assert model.prompts == []


def test_tokens_that_no_endpoint_reported_are_unknown_and_not_zero(open_run: Open) -> None:
    ctx = open_run(main=EchoModel()).context()
    assert ctx.spent() == NOTHING_SPENT
    wait_for(ask(ctx, "?"))
    assert ctx.spent() == (None, 1, None)


# Records.


def test_records_are_read_in_the_order_in_which_they_were_emitted_with_the_head_of_their_case(open_run: Open) -> None:
    """They are written in groups, the last one with the end of the case."""
    run = open_run()
    ctx = run.context(case(3))
    for number in range(150):
        ctx.emit("step", number, part=f"step/{number}")
    assert (len(ctx.written), len(ctx.pending)) == (128, 22)
    records = run.end(ctx)
    assert [record.data for record in records] == list(range(150))
    assert records[149].part == "step/149"
    heads = {(record.index, record.case, record.set, record.subject, record.try_, record.kind) for record in records}
    assert heads == {(3, "key 3", "set", "subject", 1, "step")}


def test_the_verdict_on_a_part_sees_the_records_so_far_as_the_journal_will_have_them(open_run: Open) -> None:
    async def passed(of: Case, records: Sequence[Record], part: str) -> bool:
        seen.append((of.key, part, [record.data for record in records]))
        return True

    seen: list[tuple[str, str, list[str]]] = []
    ctx = open_run(passed=passed).context()
    ctx.emit("answer", f"the key is {SECRET}", part="step")
    assert wait_for(ctx.passed("step"))
    assert seen == [("key 0", "step", ["the key is [redacted]"])]


# The same in every try.


def test_random_numbers_and_the_time_are_the_same_in_every_try(open_run: Open) -> None:
    """The numbers depend on the seed, the case and the name alone. The time is that of the run's first start."""

    def draws(run: Run, index: int, name: str) -> float:
        return run.context(case(index)).rng(name).random()

    run = open_run()
    first = draws(run, 0, "order")
    assert draws(run, 0, "order") == first
    others = {draws(run, 1, "order"), draws(run, 0, "noise"), draws(open_run(seed=SEED + 1), 0, "order")}
    assert len(others | {first}) == 4
    assert run.context().now() == STARTED


# Many calls at once.


def test_map_returns_results_in_order_and_raises_after_all_have_ended(open_run: Open) -> None:
    """The other calls are paid for."""
    ctx = open_run().context()
    ended: list[str] = []

    async def work(item: str) -> str:
        if item == "fails":
            raise ValueError(item)
        await turns()
        ended.append(item)
        return item.upper()

    assert wait_for(ctx.map(work, ["a", "b"])) == ["A", "B"]
    with pytest.raises(ValueError, match="fails"):
        wait_for(ctx.map(work, ["fails", "c", "d"]))
    assert ended == ["a", "b", "c", "d"]


# The context of a scorer.


def test_replies_to_the_solver_do_not_answer_a_scorer(open_run: Open) -> None:
    """A judge that is the evaluated model must not get the answer as its verdict."""
    model = EchoModel()
    wait_for(ask(open_run(main=model).context(), "same"))
    run = open_run(main=model)
    wait_for(ask(run.context(stage=SCORER), "same"))
    assert model.prompts == ["same", "same"]
    assert [call.stage for call in logged_calls(run.folder)] == [ASK, SCORER]


def test_a_record_that_a_scorer_emits_is_no_record_of_the_case(open_run: Open) -> None:
    run = open_run()
    ctx, scoring = run.context(), run.context(stage=SCORER)
    ctx.emit("answer", "of the solver")
    run.end(ctx)
    for _ in range(65):
        scoring.emit("answer", "of the scorer")
    assert [record.data for record in run.journal.reader.records(0)] == ["of the solver"]
