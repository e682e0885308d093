"""Writes runs without running anything: the journal and the two files that a finished run has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from assay.core.report import Report
from assay.core.types import (
    ASK,
    Call,
    End,
    Failure,
    Record,
    Request,
    Response,
    Score,
    ScoreStatus,
    Status,
    Usage,
)
from assay.journal.journal import Journal
from assay.journal.run_files import FILES, RunInfo, Summary, write_info, write_summary
from assay.journal.spending import CallCounts


class Made:
    """A run that grows case by case and is finished at the end."""

    def __init__(self, folder: Path, scorer: str = "suite@1", suite: str = "made", model: str = "m") -> None:
        self.folder = folder
        self.scorer = scorer
        folder.mkdir(parents=True)
        for name in FILES:
            (folder / name).touch()
        self._journal = Journal(folder, [scorer], [])
        self._info = RunInfo(
            suite=suite,
            ask=folder.name,
            started=1_700_000_000.0,
            version="0",
            total=0,
            command=["assay"],
            spec={"model": model},
            parts={},
            facts={},
        )
        self._keys: list[str] = []
        self._cost: float | None = None
        self._counts: dict[str, int] = {"ok": 0, "subject_error": 0, "infra_error": 0}

    def case(
        self,
        key: str,
        scores: Sequence[dict[str, Any]] = (),
        *,
        within: str = "set",
        subject: str = "m",
        price: float | None = None,
        attempts: int = 1,
        **end: Any,
    ) -> None:
        """One case with its scores: dicts of Score's fields. No scores and `status` for one without an answer.

        With a `price` it has a call, whose endpoint reported it; with 0 `attempts` its reply is another run's.
        """
        index = sum(self._counts.values())
        if price is not None:
            self._cost = (self._cost or 0.0) + price
            reply = Response("reply", "stop", cost=price)
            request = Request(model="m", prompt=key)
            call = Call(index, key, within, subject, ASK, 1, f"hash-{key}", 0, request, reply, attempts=attempts)
            self._journal.call(call)
        self._keys.append(key)
        status: Status = end.pop("status", "ok")
        self._counts[status] += 1
        failure = Failure("timeout", "slow") if status != "ok" else None
        record = Record(index, key, within, subject, 1, "answer", data=f"text of {key}")
        self._journal.end_case(End(index, key, within, subject, ASK, 1, status, [], failure, **end), [record])
        if scores:
            told = [Score(index, key, within, subject, self.scorer, **score) for score in scores]
            self._journal.end_scoring(End(index, key, within, subject, self.scorer, 1, "ok", []), told)

    def score_again(self, scores: Sequence[dict[str, Any]]) -> None:
        """Score all cases with the scorer of now, one score each, as a start with another judge does."""
        for index, score in enumerate(scores):
            head = (index, self._keys[index], "set", "m")
            self._journal.end_scoring(End(*head, self.scorer, 1, "ok", []), [Score(*head, self.scorer, **score)])

    def write_info(self, total: int) -> None:
        """Write run.json as for a run that is not over, so that it can be read."""
        self._info.total = total
        write_info(self.folder, self._info)

    def finish(
        self,
        state: str = "finished",
        report: Report | None = None,
        parts: Literal["none", "filters", "rows"] = "none",
    ) -> Path:
        """Write what stands beside the journal; returns the run's folder."""
        self._journal.close()
        self._info.score_parts = parts
        total = self._info.total = sum(self._counts.values())
        write_info(self.folder, self._info)
        summary = Summary(
            state=state,
            score="1",
            scorers=[self.scorer],
            total=total,
            exit_code=0,
            seconds=1.0,
            spent=CallCounts(),
            this_start={},
            files=[],
            report=report or Report(),
            ok=self._counts["ok"],
            subject_error=self._counts["subject_error"],
            infra_error=self._counts["infra_error"],
            cost=self._cost,
        )
        write_summary(self.folder, summary)
        return self.folder


def passed(value: float | None, part: str = "", status: ScoreStatus = "scored", **data: Any) -> dict[str, Any]:
    """A right or wrong score, or one that has no value."""
    number = None if value is None else float(value)
    return {"metric": "passed", "part": part, "status": status, "value": number, "data": data or None}


def run_of(folder: Path, values: dict[str, bool], **made: Any) -> Path:
    """A finished run: right and wrong by key, one score a case."""
    run = Made(folder, **made)
    for key, value in values.items():
        run.case(key, [passed(value)], seconds=2.0, usage=Usage(10, 3), calls=1)
    return run.finish()
