"""Grades a run anew from the replies it has: another filter, another metric, and not one request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from assay.core import registry
from assay.core.errors import UsageError
from assay.core.events import Notify
from assay.core.spec import RunSpec, build
from assay.journal import folder as folders
from assay.start import Run, Start
from assay.store.runs import find_run

_MOST_NAMED = 5


class Rescore:
    """One run with its settings, some task files replaced. Refused where that changes what was asked."""

    def __init__(self, name: str, files: Sequence[str], observers: Sequence[Notify] = ()) -> None:
        self.folder = find_run(name)
        self.info = folders.read_info(self.folder)
        summary = folders.read_summary(self.folder)
        if summary is None or summary.state == "stopped":
            raise UsageError(f"{self.folder} is not finished; the same command as before continues it")
        self._before = summary
        spec = self._spec()
        if files:
            spec = registry.find("suite", spec.suite).replaced(spec, list(files))
        self._start = Start(spec, observers, asks=False)
        self._refuse_another_question()

    def _spec(self) -> RunSpec:
        """The run's own settings, in the folder where it is now."""
        told = dict(self.info.spec)
        values = {key: value for key, value in told.items() if key not in ("suite", "options")}
        values |= {**told["options"], "output_dir": str(self.folder.parent.parent), "fresh": False}
        values |= {"reuse": None, "retry_failed": False}
        return build(self.info.suite, registry.find("suite", self.info.suite).Options, values)

    def _refuse_another_question(self) -> None:
        if self._start.ask == self.info.ask:
            return
        now = msgspec.to_builtins(self._start.parts["ask"], str_keys=True)
        places = list(_differences(self.info.parts["ask"], now))[:_MOST_NAMED]
        raise UsageError(
            f"this changes what is asked, not only how it is scored: {', '.join(places)}; "
            "run it with `assay task`, which asks again (with --reuse RUN, only what differs)"
        )

    @property
    def announcement(self) -> str:
        """What will be reused and what will be graded again."""
        before, ended = self._before, self._before.ok + self._before.subject_error
        calls = before.spent.get("calls", 0)
        reused = f"reused: {calls:,} replies of {ended:,} cases in {self.folder}; nothing is asked"
        if self._start.score == before.score:
            return f"{reused}\nregraded: nothing, the scores are those of these filters and metrics"
        scorers = ", ".join(scorer.id for scorer in self._start.plan.scorers)
        return f"{reused}\nregraded: {ended:,} cases by {scorers} (before: {', '.join(before.scorers)})"

    async def run(self) -> Run:
        """Score what has no score under these settings, and write the files again."""
        return self._start.shown() or await self._start.run()


def _differences(before: Any, now: Any, at: str = "") -> Any:
    """Dotted places at which two JSON values differ."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in before.keys() | now.keys():
            yield from _differences(before.get(key), now.get(key), f"{at}.{key}" if at else str(key))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for position, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from _differences(one, other, f"{at}[{position}]")
    elif before != now:
        yield at
