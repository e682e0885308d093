"""Trials: what a person does in the Run tab with one set of inputs.

    trial = await trials.start(task, "fast", {"claim": "…"})     # the function runs in a process of its own
    trial.state                                                 # running, waiting, over, cancelled
    await trials.give_feedback(trial, "It was in 2019.")         # after LACK_OF_INFO or UNCERTAIN
    await trials.confirm(trial)                                 # after UNCERTAIN
    await trials.retry(trial)                                   # after FAIL or an error
    await trials.cancel(trial)                                  # while it runs

OK ends a trial and its process. After LACK_OF_INFO and UNCERTAIN the process stays open and waits for feedback. Trials
are kept in the memory of the server: they are for trying, and a batch is what keeps its results.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from assay.core.errors import UsageError
from assay.suites.hop.result import FAIL, LACK_OF_INFO, OK, UNCERTAIN
from assay.suites.hop.task_folder import HopTask
from assay.view.hop.process import HopProcess
from assay.view.hop.round import ERROR, RoundRequest, RoundResult

MAX_TRIALS = 50
"""Trials that the server remembers. The oldest ones are forgotten."""
MAX_PROCESSES = 8
"""Open processes. A further trial ends the process that has waited for longest."""

TrialState = Literal["running", "waiting", "over", "cancelled"]


class TrialRound(NamedTuple):
    """One call of the function. `feedback` is what the person said before it; empty for a first call or a retry."""

    feedback: str
    result: RoundResult


class Trial:
    """One set of inputs and the rounds with it, the newest last."""

    def __init__(self, task: HopTask, profile: str, fields: dict[str, Any]) -> None:
        self.id = secrets.token_urlsafe(9)
        self.folder = task.folder
        self.profile = profile
        self.fields = fields
        self.feedback: list[str] = []
        self.rounds: list[TrialRound] = []
        self.retries = 0
        self.is_confirmed = False
        self.state: TrialState = "running"
        self.began = time.monotonic()
        """When the newest round began."""
        self._max_rounds = task.contract.max_feedback_rounds
        self._retry_quota = task.contract.retry_quota
        self._process: HopProcess | None = None
        self._work: asyncio.Task[None] | None = None

    @property
    def result(self) -> RoundResult | None:
        """The newest result."""
        return self.rounds[-1].result if self.rounds else None

    @property
    def asks_feedback(self) -> bool:
        """Whether the function waits for feedback, and another round is allowed."""
        return self.state == "waiting" and self.rounds_left > 0

    @property
    def rounds_left(self) -> int:
        """Rounds of feedback that are left."""
        return self._max_rounds - len(self.feedback)

    @property
    def can_confirm(self) -> bool:
        """Whether a person may take the result as it is."""
        return self.state == "waiting" and self.result is not None and self.result.status == UNCERTAIN

    @property
    def retries_left(self) -> int | None:
        """Retries that are left. None is without a limit."""
        return None if self._retry_quota is None else max(0, self._retry_quota - self.retries)

    @property
    def can_retry(self) -> bool:
        """Whether the call failed and may be repeated."""
        failed = self.result is not None and self.result.status in (FAIL, ERROR)
        return self.state == "over" and failed and self.retries_left != 0

    def run(self, feedback: str = "") -> None:
        """Begin a round, with further feedback if there is some."""
        if feedback:
            self.feedback.append(feedback)
        self.state, self.began = "running", time.monotonic()
        self._work = asyncio.create_task(self._run(feedback))

    async def _run(self, feedback: str) -> None:
        if self._process is None or self._process.is_over:
            self._process = await HopProcess.start(self.folder, self.profile)
        result = await self._process.run(RoundRequest(self.fields, list(self.feedback)))
        self.rounds.append(TrialRound(feedback, result))
        if result.status in (LACK_OF_INFO, UNCERTAIN):
            self.state = "waiting"
        else:
            self.state = "over"
            if result.status == OK:
                await self.end_process()

    async def wait(self) -> None:
        """Wait for the end of the round."""
        if self._work is not None:
            with suppress(asyncio.CancelledError):
                await asyncio.shield(self._work)

    @property
    def has_process(self) -> bool:
        """Whether a process is open for the trial."""
        return self._process is not None and not self._process.is_over

    async def end_process(self) -> None:
        """End the process of the trial, if it has one."""
        if self._process is not None:
            await self._process.end()

    async def stop(self) -> None:
        """Stop a running round at once."""
        if self._work is not None and not self._work.done():
            self._work.cancel()
            with suppress(asyncio.CancelledError):
                await self._work
        await self.end_process()


class Trials:
    """All trials of a server."""

    def __init__(self) -> None:
        self._trials: dict[str, Trial] = {}

    def find(self, trial_id: str, folder: Path) -> Trial | None:
        """Return a trial of a task. None if the server has forgotten it, or was started again since."""
        trial = self._trials.get(trial_id)
        return trial if trial is not None and trial.folder == folder else None

    async def start(self, task: HopTask, profile: str, fields: dict[str, Any]) -> Trial:
        """Begin a trial. Raises UsageError if too many functions run already."""
        open_trials = [trial for trial in self._trials.values() if trial.has_process]
        if len(open_trials) >= MAX_PROCESSES:
            idle = [trial for trial in open_trials if trial.state != "running"]
            if not idle:
                raise UsageError(f"{MAX_PROCESSES} functions are running already. Wait for one, or cancel one.")
            await idle[0].end_process()
        trial = Trial(task, profile, fields)
        self._trials[trial.id] = trial
        for old in [each for each in self._trials.values() if each.state != "running"][:-MAX_TRIALS]:
            await old.end_process()
            del self._trials[old.id]
        trial.run()
        return trial

    async def give_feedback(self, trial: Trial, text: str) -> None:
        """Call the function again with the feedback. Raises UsageError if it does not wait for any."""
        if not trial.asks_feedback:
            raise UsageError("This run does not wait for feedback.")
        if not text.strip():
            raise UsageError("Write the feedback first.")
        trial.run(text.strip())

    async def confirm(self, trial: Trial) -> None:
        """Take an uncertain result as it is. The trial is over."""
        if not trial.can_confirm:
            raise UsageError("This run has no uncertain result to confirm.")
        trial.is_confirmed, trial.state = True, "over"
        await trial.end_process()

    async def retry(self, trial: Trial) -> None:
        """Call the function again with the same inputs. Raises UsageError if it did not fail, or too often."""
        if not trial.can_retry:
            raise UsageError("This run cannot be repeated: it did not fail, or no retry is left.")
        trial.retries += 1
        trial.run()

    async def cancel(self, trial: Trial) -> None:
        """Kill the function. The inputs are kept."""
        if trial.state != "running":
            return
        await trial.stop()
        trial.state = "cancelled"

    async def close(self) -> None:
        """End all processes."""
        for trial in self._trials.values():
            await trial.stop()
