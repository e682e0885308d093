"""Calls a Hoplet's function on inputs that a person typed, again and again with the person's feedback.

    rounds = HopRounds(Path("Tasks/Verify"), "fast", scratch)
    result = await rounds.run(RoundRequest(fields={"claim": "…"}))
    if result.status == "LACK_OF_INFO":
        result = await rounds.run(RoundRequest(fields={"claim": "…"}, feedback=["It was in 2019."]))
    await rounds.close()

This is behind the Run tab of `assay view`, which does it in a process of its own. Every round is a run of one row in a
scratch folder, so it has the models, retries, time limit and secrets of a batch. Models stay connected and the
function's module stays loaded between rounds. The observer's log is that of the task.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from assay.core.errors import AssayError
from assay.core.protocols import Model
from assay.runner import api
from assay.runner.opening import open_run
from assay.runner.runner import Runner
from assay.suites.hop.suite import HopSuite
from assay.suites.hop.target import TEST_CASES
from assay.suites.hop.trace import HopletObserver

ERROR = "ERROR"
"""The status of a round without a result: the function raised, or an endpoint did not answer."""


class RoundRequest(Struct, frozen=True):
    """The inputs of the function, and the feedback to all earlier results."""

    fields: dict[str, Any]
    feedback: list[str] = field(default_factory=list)


class RoundStep(Struct, frozen=True):
    """A traced step of the function."""

    op: str
    task: str
    status: str
    duration: float | None = None
    retry_count: int = 0


class RoundResult(Struct, frozen=True, kw_only=True):
    """What the function returned. `result` is JSON text; empty with the status ERROR, which has an `error`."""

    status: str
    result: str = ""
    error: str = ""
    traceback: str = ""
    seconds: float = 0.0
    calls: int = 0
    """Requests to models."""
    steps: list[RoundStep] = field(default_factory=list)


class HopRounds:
    """The rounds of one person with one function and one profile. The profile is empty for a task without settings."""

    def __init__(
        self,
        task: Path,
        profile: str,
        scratch: Path,
        *,
        target: str = "",
        observer: HopletObserver | None = None,
    ) -> None:
        """`target` is another function than that of the task's contract, `observer` another log than the task's."""
        self._task = task
        self._target = target or str(task)
        self._observer = observer
        self._profile = profile
        self._scratch = scratch
        self._count = 0
        self._models: Mapping[str, Model] | None = None
        self._runner: Runner | None = None

    async def run(self, request: RoundRequest) -> RoundResult:
        """Call the function once. Errors of the task, the settings and the models are results with the status ERROR."""
        self._count += 1
        folder = self._scratch / str(self._count)
        try:
            return await self._run(request, folder)
        except AssayError as error:
            return RoundResult(status=ERROR, error=str(error))

    async def close(self) -> None:
        """Close the connections to the models."""
        if self._runner is not None:
            await self._runner.close()

    async def _run(self, request: RoundRequest, folder: Path) -> RoundResult:
        data = _write_row(folder, request.fields)
        spec = api.spec(
            "hop",
            target=self._target,
            data=str(data),
            profiles=[self._profile] if self._profile else [],
            output_dir=str(folder),
            # The flat form refuses a contract with an input called `profile`.
            wrapper="view",
            workers=1,
        )
        if self._models is None:
            self._models = open_run(spec).models
        logs = self._task / TEST_CASES
        observer = self._observer
        if observer is None and os.access(logs, os.W_OK):
            observer = HopletObserver(logs / "observer.jsonl", self._task.name)
        suite = HopSuite(HopSuite.resolve(spec), feedback=request.feedback, observer=observer)
        self._runner = Runner(suite, self._models)
        run = await self._runner.run()
        case = next(run.cases(), None)
        if case is None:
            return RoundResult(status=ERROR, error=run.reason or "The function did not run.")
        steps, status, result = [], ERROR, ""
        for record in case.records:
            if record.kind == "step":
                steps.append(msgspec.convert(record.data, RoundStep))
            elif record.kind == "answer":
                status, result = record.data["status"], record.data["result"]
        failure = case.error
        return RoundResult(
            status=status if failure is None else ERROR,
            result=result,
            error=failure.message if failure else "",
            traceback=(failure.traceback or "") if failure else "",
            seconds=case.seconds,
            calls=len(case.calls),
            steps=steps,
        )


def _write_row(folder: Path, fields: dict[str, Any]) -> Path:
    """Write the data file of a round. A field may be called `id` or `tag` itself."""
    folder.mkdir(parents=True)
    data = folder / "row.jsonl"
    data.write_bytes(msgspec.json.encode({"id": 1, "tag": "run", **fields}) + b"\n")
    return data
