"""The loop: which cases run, when a case counts, what one bad case costs, and how a run stops and goes on.

Each test is one or two starts of a run: a solver, scorers and a model of the test around a real journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from assay.core.errors import CaseFailed, ModelError, StopRun, UsageError, WorkerLost
from assay.core.events import Ended, Finished, Noted, Started
from assay.core.protocols import Context, ScorerInput
from assay.core.types import BAD_CASE, Failure, Response, Score

from support.engine_run import EchoModel, EngineRun, FunctionScorer, answer, ask, case, cases, turns

TIMEOUT = Failure("timeout", "no reply")
REFUSAL = Failure("refusal", "I will not")


async def not_asked(inputs: str, ctx: Context) -> None:
    raise AssertionError("a case that has ended runs again")


class FailingModel(EchoModel):
    """A model that fails for one prompt until `failure` is None."""

    def __init__(self, prompt: str, failure: Failure) -> None:
        super().__init__()
        self.prompt = prompt
        self.failure: Failure | None = failure

    async def reply(self, prompt: str) -> Response:
        if prompt == self.prompt and self.failure is not None:
            raise ModelError(self.failure)
        return await super().reply(prompt)


# When a case counts.


def test_cases_start_in_data_order_and_are_read_in_data_order_however_they_end(tmp_path: Path) -> None:
    started: list[str] = []

    async def solve(inputs: str, ctx: Context) -> None:
        started.append(inputs)
        if inputs == "first":
            await third_ended.wait()
        ctx.emit("answer", inputs)
        if inputs == "third":
            third_ended.set()

    third_ended = asyncio.Event()
    result = EngineRun(tmp_path).start(solve, cases("first", "second", "third"), open_cases=2)
    assert started == ["first", "second", "third"]
    assert [event.case.inputs for event in result.events if isinstance(event, Ended)] == ["second", "third", "first"]
    assert result.answers == [["first"], ["second"], ["third"]]


def test_a_start_tells_how_many_cases_are_done_and_runs_the_others(tmp_path: Path) -> None:
    run = EngineRun(tmp_path)
    assert run.start(answer, cases("a", "b")).events[0] == Started(total=2, done=0)
    result = run.start(answer, cases("a", "b", "c"))
    assert result.events[0] == Started(total=3, done=2)
    assert [event.case.inputs for event in result.events if isinstance(event, Ended)] == ["c"]
    assert result.events[-1] == Finished()


def test_a_case_without_an_end_runs_again_and_only_the_records_of_its_last_try_count(tmp_path: Path) -> None:
    """Its code had emitted a record, and even 64 more, which are written at once."""

    async def solve(inputs: str, ctx: Context) -> None:
        for number in range(65):
            ctx.emit("lost", number)
        run.loop.cancel()
        await asyncio.Event().wait()

    run = EngineRun(tmp_path)
    assert run.start(solve, cases("a")).statuses == [None]
    assert b"lost" in (tmp_path / "records.jsonl").read_bytes()
    again = run.start(answer, cases("a"))
    assert (again.statuses, again.answers, again.end(0).try_) == (["ok"], [["a!"]], 1)


def test_the_end_of_a_case_has_what_its_calls_cost(tmp_path: Path) -> None:
    async def solve(inputs: str, ctx: Context) -> None:
        await ask(ctx, "one")
        await ask(ctx, "two", role="judge")

    end = EngineRun(tmp_path).start(solve, [replace(case(0), tags=("hard",))]).end(0)
    assert (end.calls, end.usage, end.label, end.tags) == (2, None, "row 0", ("hard",))


# Failures: one bad case does not stop the others.


def raise_(error: BaseException) -> None:
    raise error


def cancel_own_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


@pytest.mark.parametrize(
    ("act", "status", "kind", "message"),
    [
        (lambda: raise_(ModelError(TIMEOUT)), "infra_error", "timeout", "no reply"),
        (lambda: raise_(ModelError(REFUSAL)), "subject_error", "refusal", "I will not"),
        (lambda: raise_(CaseFailed(Failure("failed_step", "step 2"))), "subject_error", "failed_step", "step 2"),
        (lambda: raise_(CaseFailed(Failure("bad_reply", "empty"))), "infra_error", "bad_reply", "empty"),
        (lambda: raise_(KeyError("gone")), "subject_error", "user_code", "KeyError: 'gone'"),
        (cancel_own_task, "subject_error", "user_code", "its code cancelled a task of the run"),
    ],
    ids=["no reply", "refusal", "failed step", "bad reply", "bug", "cancels itself"],
)
def test_a_case_that_fails_keeps_its_records_and_the_others_run(
    act: Callable[[], None], status: str, kind: str, message: str, tmp_path: Path
) -> None:
    """The kind of the failure says whether it counts against the subject."""

    async def solve(inputs: str, ctx: Context) -> None:
        ctx.emit("answer", inputs)
        if inputs == "bad":
            act()
        await asyncio.sleep(0)  # a cancelled task ends where it waits

    result = EngineRun(tmp_path).start(solve, cases("good", "bad", "also good"))
    assert result.error is None
    assert result.statuses == ["ok", status, "ok"]
    assert result.answers == [["good"], ["bad"], ["also good"]]
    failure = result.end(1).failure
    assert failure is not None
    assert (failure.kind, failure.message) == (kind, message)


def test_a_case_with_bad_data_ends_with_its_failure_and_is_not_asked(tmp_path: Path) -> None:
    bad = Failure(BAD_CASE, "the label is outside the choices")
    result = EngineRun(tmp_path).start(not_asked, [replace(case(0), failure=bad)])
    assert (result.end(0).failure, result.end(0).outcome) == (bad, "bad_data")


@pytest.mark.parametrize(
    ("failure", "retry_failed", "tries"),
    [(TIMEOUT, False, 2), (REFUSAL, False, 1), (REFUSAL, True, 2)],
    ids=["no reply", "refusal", "refusal with --retry-failed"],
)
def test_the_next_start_runs_a_case_again_that_an_endpoint_failed(
    failure: Failure, retry_failed: bool, tries: int, tmp_path: Path
) -> None:
    """A failure of the subject is a result, unless the user wants it again. No reply of the first try is paid twice."""

    async def solve(inputs: str, ctx: Context) -> None:
        ctx.emit("answer", await ask(ctx, "paid"))
        ctx.emit("answer", await ask(ctx, "fails"))

    model = FailingModel("fails", failure)
    run = EngineRun(tmp_path, model)
    first = run.start(solve, cases("a"))
    assert (first.statuses, first.end(0).try_) == ([failure.status], 1)
    model.failure = None
    second = run.start(solve, cases("a"), retry_failed=retry_failed)
    assert second.end(0).try_ == tries
    assert second.answers == ([["paid!", "fails!"]] if tries == 2 else [["paid!"]])
    assert model.prompts == ["paid"] + ["fails"] * tries


# How many cases are open.


def test_no_more_cases_run_at_once_than_open_cases(tmp_path: Path) -> None:
    open_now = most = 0

    async def solve(inputs: str, ctx: Context) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        if open_now == 3:
            three_are_open.set()
        await three_are_open.wait()
        await turns()
        open_now -= 1

    three_are_open = asyncio.Event()
    result = EngineRun(tmp_path).start(solve, cases(*"abcdefg"), open_cases=3)
    assert result.statuses == ["ok"] * 7
    assert most == 3


def test_a_case_opens_when_there_is_a_permit_for_its_first_request(tmp_path: Path) -> None:
    """An open case has its data in memory, so four cases that wait for one permit would only cost room."""

    class OneByOne(EchoModel):
        async def reply(self, prompt: str) -> Response:
            await turns()
            opened_before_reply.append(list(opened))
            return await super().reply(prompt)

    async def solve(inputs: str, ctx: Context) -> None:
        opened.append(inputs)
        await answer(inputs, ctx)

    opened: list[str] = []
    opened_before_reply: list[list[str]] = []
    result = EngineRun(tmp_path, OneByOne()).start(solve, cases(*"abcd"), open_cases=4, permits=1)
    assert result.statuses == ["ok"] * 4
    assert opened_before_reply[0] == ["a"]


# A run that is stopped, and goes on.


class StoppingModel(EchoModel):
    """A model during whose reply to one prompt something happens, such as Ctrl-C."""

    def __init__(self, prompt: str, act: Callable[[], object]) -> None:
        super().__init__()
        self.prompt = prompt
        self.act = act

    async def reply(self, prompt: str) -> Response:
        if prompt == self.prompt:
            await turns()
            self.act()
            await asyncio.sleep(0)  # a cancelled task ends where it waits
        return await super().reply(prompt)


async def length(given: ScorerInput, ctx: Context) -> float:
    return len(given.records[0].data)


@pytest.mark.parametrize("open_cases", [1, 2])
def test_a_stopped_run_finishes_the_calls_in_flight_and_starts_no_other_case(open_cases: int, tmp_path: Path) -> None:
    """They are paid for. The case is scored too. Of several reasons to stop the first one is raised."""

    async def solve(inputs: str, ctx: Context) -> None:
        started.append(inputs)
        await answer(inputs, ctx)

    def stop() -> None:
        run.loop.stop(StopRun("enough"))
        run.loop.stop(StopRun("a later reason"))

    started: list[str] = []
    run = EngineRun(tmp_path, StoppingModel("b", stop))
    scorer = FunctionScorer(length)
    result = run.start(solve, cases("a", "b", "c"), scorers=[scorer], open_cases=open_cases, permits=1)
    assert started == ["a", "b"]
    assert repr(result.error) == "StopRun('enough')"
    assert result.statuses == ["ok", "ok", None]
    assert result.scores == [[2], [2], []]


@pytest.mark.parametrize("swallows", [False, True])
def test_a_case_that_needs_another_call_after_the_stop_does_not_end(swallows: bool, tmp_path: Path) -> None:
    """Not even if its code swallows the error and makes up an answer. The next start sends only the second request."""

    async def solve(inputs: str, ctx: Context) -> None:
        first = await ask(ctx, "first")
        try:
            second = await ask(ctx, "second")
        except StopRun:
            if not swallows:
                raise
            second = "made up"
        ctx.emit("answer", [first, second])

    model = StoppingModel("first", lambda: run.loop.stop(StopRun("enough")))
    run = EngineRun(tmp_path, model)
    assert run.start(solve, cases("a")).statuses == [None]
    assert run.start(solve, cases("a")).answers == [[["first!", "second!"]]]
    assert model.prompts == ["first", "second"]


def test_after_ctrl_c_a_case_that_ends_is_scored_by_the_next_start(tmp_path: Path) -> None:
    """Code of a scorer may take long; whoever pressed Ctrl-C waits for paid calls only."""
    scorer = FunctionScorer(length)
    run = EngineRun(tmp_path, StoppingModel("a", lambda: run.loop.stop(KeyboardInterrupt())))
    result = run.start(answer, cases("a", "b"), scorers=[scorer])
    assert isinstance(result.error, KeyboardInterrupt)
    assert (result.statuses, result.scores) == (["ok", None], [[], []])
    assert run.start(not_asked, cases("a"), scorers=[scorer]).scores == [[2]]


def test_a_cancelled_run_abandons_its_open_cases_and_keeps_their_replies(tmp_path: Path) -> None:
    async def solve(inputs: str, ctx: Context) -> None:
        await ask(ctx, f"{inputs} 1")
        ctx.emit("answer", await ask(ctx, f"{inputs} 2"))

    def cancel() -> None:
        run.loop.cancel()

    model = StoppingModel("b 2", cancel)
    run = EngineRun(tmp_path, model)
    assert run.start(solve, cases("a", "b", "c")).statuses == ["ok", None, None]
    model.prompt = ""
    assert run.start(solve, cases("a", "b", "c")).answers == [["a 2!"], ["b 2!"], ["c 2!"]]
    assert model.prompts == ["a 1", "a 2", "b 1", "b 2", "b 2", "c 1", "c 2"]


def test_a_reason_to_stop_that_a_call_raises_ends_the_run(tmp_path: Path) -> None:
    """Here the budget of --max-calls. The run can be continued."""
    run = EngineRun(tmp_path)
    result = run.start(answer, cases("a", "b", "c"), max_calls=2)
    assert isinstance(result.error, StopRun)
    assert str(result.error) == "stopped after 2 calls, as --max-calls says"
    assert result.statuses == ["ok", "ok", None]
    assert run.start(answer, cases("a", "b", "c"), max_calls=2).answers == [["a!"], ["b!"], ["c!"]]


def test_a_mistake_that_every_case_would_make_ends_the_run_at_the_first(tmp_path: Path) -> None:
    async def solve(inputs: str, ctx: Context) -> None:
        await ask(ctx, inputs, role="critic")

    result = EngineRun(tmp_path).start(solve, cases("a", "b"))
    assert isinstance(result.error, UsageError)
    assert result.statuses == [None, None]


# Workers of an executor that are lost.


def test_a_case_whose_worker_is_lost_goes_on_elsewhere_with_its_replies(tmp_path: Path) -> None:
    async def solve(inputs: str, ctx: Context) -> None:
        ctx.emit("answer", await ask(ctx, inputs))
        if losses:
            raise losses.pop()

    losses = [WorkerLost("node/1")]
    model = EchoModel()
    result = EngineRun(tmp_path, model).start(solve, cases("a", "b"), on_workers=True)
    assert result.answers == [["a!"], ["b!"]]
    assert (result.end(0).try_, result.end(0).calls) == (1, 1)
    assert model.prompts == ["a", "b"]


def test_a_case_that_was_lost_with_three_workers_fails(tmp_path: Path) -> None:
    """It may be the case that ends them. A loss with an explanation does not count."""

    async def solve(inputs: str, ctx: Context) -> None:
        if inputs == "a":
            raise losses.pop(0)

    losses = [WorkerLost("w0", counts=False), *(WorkerLost(name) for name in ("w1", "w2", "w3", "w4"))]
    result = EngineRun(tmp_path).start(solve, cases("a", "b"), on_workers=True)
    assert result.statuses == ["infra_error", "ok"]
    message = "3 workers were lost while they ran this case: w1, w2, w3"
    assert result.end(0).failure == Failure("worker_lost", message)


# Scorers.


def test_scorers_get_the_case_with_its_gold_after_its_end_one_after_another(tmp_path: Path) -> None:
    async def exact(given: ScorerInput, ctx: Context) -> float:
        steps.append("exact")
        return float(given.records[0].data == given.case.gold)

    async def by_judge(given: ScorerInput, ctx: Context) -> float:
        steps.append("judge")
        return len(await ask(ctx, "is it right?", role="judge"))

    async def solve(inputs: str, ctx: Context) -> None:
        steps.append("solve")
        await answer(inputs, ctx)

    async def checkpoint(given: ScorerInput) -> None:
        steps.append(f"checkpoint {given.end.status}")

    steps: list[str] = []
    run = EngineRun(tmp_path)
    scorers = [FunctionScorer(exact, "exact@1"), FunctionScorer(by_judge, "judge@1")]
    result = run.start(solve, [replace(case(0, "a"), gold="a!")], scorers=scorers, checkpoint=checkpoint)
    assert steps == ["solve", "checkpoint ok", "exact", "judge"]
    assert result.scores == [[1, len("is it right?!")]]
    assert [call.stage for call in run.calls()] == ["ask", "judge@1"]


def test_a_failure_of_the_subject_is_scored_and_a_failure_of_an_endpoint_is_not(tmp_path: Path) -> None:
    """The case that an endpoint failed has no result yet: the next start asks again."""

    async def zero(given: ScorerInput, ctx: Context) -> float:
        return 0.0

    async def solve(inputs: str, ctx: Context) -> None:
        raise ModelError({"refusal": REFUSAL, "timeout": TIMEOUT}[inputs])

    result = EngineRun(tmp_path).start(solve, cases("refusal", "timeout"), scorers=[FunctionScorer(zero)])
    assert result.scores == [[0.0], []]


@pytest.mark.parametrize(
    ("act", "note"),
    [
        (lambda: raise_(ModelError(TIMEOUT)), "set row 0 could not be judged: no reply"),
        (lambda: raise_(KeyError("gone")), "set row 0 could not be scored: KeyError: 'gone'"),
        (cancel_own_task, "set row 0 could not be scored: its code cancelled a task of the run"),
    ],
    ids=["judge", "bug", "cancels itself"],
)
def test_a_scorer_that_fails_costs_its_own_score_until_the_next_start(
    act: Callable[[], None], note: str, tmp_path: Path
) -> None:
    """The other scorers and cases are scored, and the solver is not asked again."""

    async def fails(given: ScorerInput, ctx: Context) -> float:
        if given.case.index == 0:
            act()
        await asyncio.sleep(0)  # a cancelled task ends where it waits
        return 5.0

    run = EngineRun(tmp_path)
    result = run.start(
        answer, cases("a", "b"), scorers=[FunctionScorer(fails, "fails@1"), FunctionScorer(length, "length@1")]
    )
    assert (result.error, result.statuses, result.unscored) == (None, ["ok", "ok"], 1)
    assert result.scores == [[2.0], [5.0, 2.0]]
    (told,) = [event.text for event in result.events if isinstance(event, Noted)]
    assert told.splitlines()[0] == note

    async def mended(given: ScorerInput, ctx: Context) -> float:
        scored.append(given.case.index)
        return 7.0

    scored: list[int] = []
    scorers = [FunctionScorer(mended, "fails@1"), FunctionScorer(mended, "length@1")]
    assert run.start(not_asked, cases("a", "b"), scorers=scorers).scores == [[7.0, 2.0], [5.0, 2.0]]
    assert scored == [0]


def test_ten_cases_that_could_not_be_scored_are_named_and_all_are_counted(tmp_path: Path) -> None:
    async def fails(given: ScorerInput, ctx: Context) -> float:
        raise ModelError(TIMEOUT)

    result = EngineRun(tmp_path).start(answer, cases(*"abcdefghijkl"), scorers=[FunctionScorer(fails)])
    assert result.unscored == 12
    assert sum(isinstance(event, Noted) for event in result.events) == 10


class LengthScorer(FunctionScorer):
    """A scorer that only computes."""

    def __init__(self) -> None:
        super().__init__(length)

    def score_at_once(self, given: ScorerInput) -> list[Score]:
        return [Score(*given.case.head, self.id, "metric", value=len(given.records[0].data) + 0.5)]


def test_a_scorer_that_only_computes_is_not_awaited(tmp_path: Path) -> None:
    assert EngineRun(tmp_path).start(answer, cases("a"), scorers=[LengthScorer()]).scores == [[2.5]]


class JudgeScorer(FunctionScorer):
    """A scorer whose calls are shared by all its versions."""

    call_stage = "judge"


def test_a_changed_scorer_scores_all_cases_again_and_pays_no_equal_call_twice(tmp_path: Path) -> None:
    async def judged(given: ScorerInput, ctx: Context) -> float:
        return len(await ask(ctx, given.records[0].data, role="judge"))

    judge = EchoModel()
    run = EngineRun(tmp_path, judge=judge)
    assert run.start(answer, cases("a", "b"), scorers=[JudgeScorer(judged, "judge@1")]).scores == [[3], [3]]
    assert run.start(not_asked, cases("a", "b"), scorers=[JudgeScorer(judged, "judge@2")]).scores == [[3], [3]]
    assert judge.prompts == ["a!", "b!"]


def test_a_start_that_only_scores_runs_no_case(tmp_path: Path) -> None:
    run = EngineRun(tmp_path)
    run.start(answer, cases("a"))
    result = run.start(not_asked, cases("a", "b"), scorers=[FunctionScorer(length)], asks=False)
    assert (result.statuses, result.scores) == (["ok", None], [[2], []])


def test_a_case_whose_row_is_another_one_now_is_not_scored(tmp_path: Path) -> None:
    """The answer to one question would be compared with the gold of another."""
    run = EngineRun(tmp_path)
    run.start(answer, cases("a"))
    changed = [replace(case(0, "another"), key="another key")]
    result = run.start(answer, changed, scorers=[FunctionScorer(length)])
    assert isinstance(result.error, StopRun)
    assert "set row 0 is another document now" in str(result.error)
    assert result.scores == [[]]


def test_a_case_that_two_scorers_cannot_score_is_counted_once(tmp_path: Path) -> None:
    async def fails(given: ScorerInput, ctx: Context) -> float:
        raise ModelError(TIMEOUT)

    scorers = [FunctionScorer(fails, "one@1"), FunctionScorer(fails, "two@1")]
    assert EngineRun(tmp_path).start(answer, cases("a", "b"), scorers=scorers).unscored == 2
