"""`assay rescore`: scores a finished run again from its saved replies. Sends no requests.

run = rescore("results", ["tasks/strict.yaml"], say=print)
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from assay.core.diff import differences
from assay.core.errors import InputError, UsageError
from assay.core.events import Notify
from assay.core.spec import RunSpec, build, fields, outputs_named_by
from assay.journal import folder as folders
from assay.journal.run_files import RunInfo, read_info, read_summary
from assay.runner.loops import run_blocking
from assay.runner.opening import OpenedSuite, open_suite, refuse_incomplete
from assay.runner.results import Run
from assay.runner.runner import Runner
from assay.store.runs import find_run, started_in
from assay.suites import find_suite
from assay.usercode.named_code import CodeNotNamed, only_named_code

# The error message lists this many differences. A changed prompt differs in hundreds of places.
_MAX_DIFFERENCES = 5
# The folder for result files in a run folder that was moved out of its output folder.
_OUTPUT_INSIDE = "results"


def rescore(
    name: str,
    tasks: Sequence[str] = (),
    observers: Sequence[Notify] = (),
    say: Callable[[str], object] = lambda _: None,
    code: Sequence[str | Path] = (),
) -> Run:
    """Score a finished run again from its saved replies, with `tasks` in place of its own task files.

    Sends no requests. `say` receives a text that tells which replies are reused and what is scored again. Of the code
    that the run names, only the files, folders and modules of `code` are run; a run that needs other code is refused.
    """
    with only_named_code(code):
        again = Rescore(name, tasks, observers)
        say(again.announcement)
        return run_blocking(lambda: again.runner)


class Rescore:
    """Opens a run with its own settings, some of its files replaced. Raises UsageError if a request changes."""

    def __init__(self, name: str, files: Sequence[str], observers: Sequence[Notify] = ()) -> None:
        self.folder = find_run(name)
        self.info = read_info(self.folder)
        if self.info.imported is not None:
            raise UsageError(
                f"{self.folder} was imported from {self.info.imported.files[0].path}. Only runs that assay made can be "
                "scored again: the settings of the other program's scorers are not known"
            )
        refuse_incomplete(self.folder, self.info)
        summary = read_summary(self.folder)
        if summary is None or summary.state not in ("finished", "incomplete"):
            raise UsageError(f"{self.folder} is not finished. Repeat the run's command to continue it")
        self._before = summary
        with hint_at_start_folder(self.folder, self.info, "the run was"):
            self.runner = self._open(list(files), observers)
        self._check_same_requests()

    def _open(self, files: list[str], observers: Sequence[Notify]) -> Runner:
        # A run folder is OUTPUT/assay/RUN. OUTPUT may have been moved or copied since the run. The output folder that
        # run.json names may be any folder of this machine, so a run folder that stands alone gets the files itself.
        in_place = self.folder.parent.name == folders.HOME
        output_dir = self.folder.parent.parent if in_place else self.folder / _OUTPUT_INSIDE
        spec = spec_of_run(self.info, output_dir=str(output_dir))
        spec = find_suite(self.info.suite).replace_files(spec, files, self.info.facts)
        suite, models = replay_suite(self.info, spec)
        return Runner(suite, models, observers, asks=False, folder=self.folder, trusted=False)

    def _check_same_requests(self) -> None:
        """Raise UsageError if the replaced files would send other requests than the run sent."""
        if self.runner.identity.ask == self.info.ask:
            return
        changed = changed_places(self.info, self.runner.identity.ask_parts) or "the order of tasks"
        command = find_suite(self.info.suite).Options.command or self.info.suite
        raise UsageError(
            f"this changes what is asked, not only how it is scored: {changed}. "
            f"Use `assay {command}`, which sends new requests (with --reuse RUN, only those that differ)"
        )

    @property
    def announcement(self) -> str:
        """The lines that tell the user which replies are reused and what is scored again."""
        before, ended = self._before, self._before.ok + self._before.subject_error
        lines = [f"reused: the replies of {ended:,} cases in {self.folder}; no requests sent"]
        if before.infra_error:
            lines.append(f"left out: {before.infra_error:,} without an answer")
        if self.runner.identity.score == before.score:
            lines.append("regraded: nothing, because filters and metrics are unchanged")
        else:
            scorers = ", ".join(scorer.id for scorer in self.runner.suite.scorers)
            lines.append(f"regraded: {ended:,} cases by {scorers} (before: {', '.join(before.scorers)})")
        return "\n".join([*lines, *left_out_outputs(self.info)])


def spec_of_run(info: RunInfo, **changes: Any) -> RunSpec:
    """Return the settings of a run with some of them changed, for a start that sends no requests.

    Files that the settings name for writing are left out: `left_out_outputs` says which.
    """
    suite_options = find_suite(info.suite).Options
    values = {key: value for key, value in info.spec.items() if key not in ("suite", "options")}
    outputs = outputs_named_by(suite_options, info.spec["options"])
    values |= {key: value for key, value in info.spec["options"].items() if key not in outputs}
    # These concern requests. The price table may be gone.
    values |= {"fresh": False, "reuse": None, "retry_failed": False, "max_cost": None, "prices": None}
    return build(info.suite, suite_options, values | changes)


def left_out_outputs(info: RunInfo) -> list[str]:
    """Return a sentence on what the run's own command writes outside of the output folder and this start does not."""
    suite_class = find_suite(info.suite)
    outputs = outputs_named_by(suite_class.Options, info.spec["options"])
    flags = {each.name: each.flags[0] for each in fields(suite_class.Options)}
    left_out = [f"{path} ({flags[name]})" for name, path in outputs.items()]
    if suite_class.stores:
        left_out.append(suite_class.stores)
    if not left_out:
        return []
    again = f"type the run's own command: {shlex.join(info.repeat_command)}"
    if not info.command:
        again = "repeat the program that made the run"
    rule = "Nothing outside of the output folder is written because a run names it"
    return [f"not written: {', '.join(left_out)}. {rule}. To write it, {again}"]


@contextmanager
def hint_at_start_folder(folder: Path, info: RunInfo, who_was: str) -> Iterator[None]:
    """Add the folder in which a run was started to the error of an option or file, unless that is this folder.

    The paths in the settings of a run are relative to that folder. `who_was` is "the run was" or "the shards were".
    """
    try:
        yield
    except CodeNotNamed:
        raise
    except (UsageError, InputError) as error:
        place = started_in(folder.resolve(), str(info.spec.get("output_dir") or ""))
        if place is None or place == Path.cwd() or not place.is_dir():
            raise
        raise UsageError(
            f"{error}\n{who_was} started in another folder. Change to {place} and repeat this command"
        ) from error


def replay_suite(info: RunInfo, spec: RunSpec) -> OpenedSuite:
    """Return the suite of a run, with models that know the run's replies only."""
    suite_class = find_suite(info.suite)
    # The endpoints of the fingerprints. In the options they may be spelled differently or be empty.
    known = info.parts["ask"]["models"] | info.parts.get("judges", {})
    return open_suite(
        suite_class.resolve(spec),
        suite_class,
        connect="none",
        endpoint=info.spec["base_url"] or "",
        endpoints={role: asked[1] for role, asked in known.items() if isinstance(asked, list) and len(asked) > 1},
    )


def changed_places(info: RunInfo, ask_parts: dict[str, Any]) -> str:
    """Return where what is asked now differs from what a run asked, the first places only."""
    now = msgspec.to_builtins(ask_parts, str_keys=True)
    places = [
        place.removeprefix("options.").removeprefix("plan.").removeprefix("data.")
        for place in differences(info.parts["ask"], now)
    ]
    return ", ".join(places[:_MAX_DIFFERENCES])
