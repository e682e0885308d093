"""`assay rescore`: grade a finished run again from the replies it has. No model is asked."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from assay.core.diff import differences
from assay.core.errors import UsageError
from assay.core.events import Notify
from assay.core.spec import RunSpec, build
from assay.journal import folder as folders
from assay.models.calling.connect import ReplayOnlyModel
from assay.runner import Runner
from assay.store.runs import find_run
from assay.suites import find_suite

# Differences that a refusal names; the rest would not help.
_MAX_DIFFERENCES = 5


class Rescore:
    """One run with its settings, some of its files replaced. Refused where that changes what was asked."""

    def __init__(self, name: str, files: Sequence[str], observers: Sequence[Notify] = ()) -> None:
        self.folder = find_run(name)
        self.info = folders.read_info(self.folder)
        summary = folders.read_summary(self.folder)
        if summary is None or summary.state not in ("finished", "incomplete"):
            raise UsageError(f"{self.folder} is not finished; the same command as before continues it")
        self._before = summary
        suite_class = find_suite(self.info.suite)
        spec = suite_class.replace_files(self._spec_of_run(), list(files), self.info.facts)
        spec = suite_class.resolve(spec)
        # The endpoints as the run knew them: options may spell them otherwise.
        endpoints = {role: model[1] for role, model in self.info.parts["ask"]["models"].items()}
        main_endpoint = self.info.spec["base_url"] or ""
        suite = suite_class(msgspec.structs.replace(spec, base_url=main_endpoint or None))
        models = {role: ReplayOnlyModel(endpoints.get(role, main_endpoint)) for role in suite.roles}
        self.runner = Runner(suite, models, observers, asks=False, folder=self.folder)
        self._refuse_another_question()

    def _spec_of_run(self) -> RunSpec:
        """The settings of the run, in the folder where it is now."""
        values = {key: value for key, value in self.info.spec.items() if key not in ("suite", "options")}
        values |= self.info.spec["options"]
        # A run stands in OUTPUT/assay/RUN, unless somebody moved it.
        if self.folder.parent.name == folders.HOME:
            values["output_dir"] = str(self.folder.parent.parent)
        values["fresh"] = False
        values |= {"reuse": None, "retry_failed": False}
        return build(self.info.suite, find_suite(self.info.suite).Options, values)

    def _refuse_another_question(self) -> None:
        if self.runner.ask == self.info.ask:
            return
        now = msgspec.to_builtins(self.runner.ask_parts, str_keys=True)
        places = [
            place.removeprefix("options.").removeprefix("plan.").removeprefix("data.")
            for place in differences(self.info.parts["ask"], now)
        ]
        changed = ", ".join(places[:_MAX_DIFFERENCES]) or "the order of tasks"
        command = find_suite(self.info.suite).Options.command or self.info.suite
        raise UsageError(
            f"this changes what is asked, not only how it is scored: {changed}; "
            f"run it with `assay {command}`, which asks again (with --reuse RUN, only what differs)"
        )

    @property
    def announcement(self) -> str:
        """What is reused and what is graded again, for people."""
        before, ended = self._before, self._before.ok + self._before.subject_error
        lines = [f"reused: the replies of {ended:,} cases in {self.folder}; nothing is asked"]
        if before.infra_error:
            lines.append(f"left out: without an answer {before.infra_error:,}")
        if self.runner.score == before.score:
            lines.append("regraded: nothing, the scores are those of these filters and metrics")
        else:
            scorers = ", ".join(scorer.id for scorer in self.runner.suite.scorers)
            lines.append(f"regraded: {ended:,} cases by {scorers} (before: {', '.join(before.scorers)})")
        return "\n".join(lines)
