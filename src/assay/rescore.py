"""Grades a run anew from the replies it has: another filter, another metric, and not one request."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from assay.core.diff import differences
from assay.core.errors import UsageError
from assay.core.events import Notify
from assay.core.spec import RunSpec, build
from assay.journal import folder as folders
from assay.models.calling.connect import ReplayOnlyModel
from assay.runner import Run, Runner
from assay.store.runs import find_run
from assay.suites import find_suite

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
        suite_class = find_suite(self.info.suite)
        spec = suite_class.replace_files(self._spec(), list(files), self.info.facts)
        spec = suite_class.resolve(spec)
        # The endpoints as the run knew them: options may spell them otherwise.
        endpoints = {role: asked[1] for role, asked in self.info.parts["ask"]["models"].items()}
        known = self.info.spec["base_url"] or ""
        suite = suite_class(msgspec.structs.replace(spec, base_url=known or None))
        models = {role: ReplayOnlyModel(endpoints.get(role, known)) for role in suite.roles}
        self._start = Runner(suite, models, observers, asks=False)
        self._refuse_another_question()

    def _spec(self) -> RunSpec:
        """The run's own settings, in the folder where it is now."""
        told = dict(self.info.spec)
        values = {key: value for key, value in told.items() if key not in ("suite", "options")}
        values |= {**told["options"], "output_dir": str(self.folder.parent.parent), "fresh": False}
        values |= {"reuse": None, "retry_failed": False}
        return build(self.info.suite, find_suite(self.info.suite).Options, values)

    def _refuse_another_question(self) -> None:
        if self._start.ask == self.info.ask:
            return
        now = msgspec.to_builtins(self._start.ask_parts, str_keys=True)
        places = [
            place.removeprefix("plan.").removeprefix("data.")
            for place in differences(self.info.parts["ask"], now)
        ]
        named = ", ".join(places[:_MOST_NAMED]) or "the order of tasks"
        raise UsageError(
            f"this changes what is asked, not only how it is scored: {named}; "
            f"run it with `assay {self.info.suite}`, which asks again (with --reuse RUN, only what differs)"
        )

    @property
    def announcement(self) -> str:
        """What will be reused and what will be graded again."""
        before, ended = self._before, self._before.ok + self._before.subject_error
        lines = [f"reused: the replies of {ended:,} cases in {self.folder}; nothing is asked"]
        if before.infra_error:
            lines.append(f"left out: without an answer {before.infra_error:,}")
        if self._start.score == before.score:
            lines.append("regraded: nothing, the scores are those of these filters and metrics")
        else:
            scorers = ", ".join(scorer.id for scorer in self._start.suite.scorers)
            lines.append(f"regraded: {ended:,} cases by {scorers} (before: {', '.join(before.scorers)})")
        return "\n".join(lines)

    async def run(self) -> Run:
        """Score what has no score under these settings, and write the files again."""
        return self._start.finished() or await self._start.run()
