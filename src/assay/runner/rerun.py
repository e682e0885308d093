"""`assay rerun`: runs a run's own command again, for all cases or only for those that failed.

run = rerun(find_run("results"), spec_of_its_command, failed=True, say=print)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from assay.core.diff import differences
from assay.core.events import Notify
from assay.core.spec import RunSpec
from assay.files.paths import path_from_here
from assay.journal.run_files import read_info, usable_summary
from assay.runner.loops import run_blocking
from assay.runner.opening import open_run
from assay.runner.results import Run
from assay.runner.runner import Runner
from assay.usercode.opened_files import CODE_FILES, outdated_files

# So many places in which a run differs are named. A changed prompt differs in hundreds.
_MAX_DIFFERENCES = 3

# Parts of a suite's plan, as people call them.
_PLAN_WORDS = {"code": "the code of the function", "imports": "a module that the code imports"}

NOTHING_FAILED = (
    "nothing failed: every case of {run} has an answer. Wrong answers and failed checks are not asked again, because "
    "that would only raise the score"
)


def rerun(
    folder: Path,
    spec: RunSpec,
    *,
    failed: bool,
    observers: Sequence[Notify] = (),
    say: Callable[[str], object] = lambda _: None,
) -> Run:
    """Run `spec`, the command of the run in `folder`, again: in a new run, or with `failed` only what failed.

    `say` receives a sentence about what is asked.
    """
    again = Rerun(folder, spec, failed=failed)
    return run_blocking(lambda: again.open(observers, say))


class Rerun:
    """The second start of a run's command.

    With `failed`, cases without an answer are asked again in the same run: refusals, exceptions in the user's code,
    endpoints that did not answer. If a file of the run was edited since, its command starts another run, which takes
    the replies to equal requests from the first one. Without `failed`, all cases are asked again, in a new run.
    """

    def __init__(self, folder: Path, spec: RunSpec, *, failed: bool) -> None:
        # As the run itself names it, in the folder in which its command was typed.
        self._folder = path_from_here(folder)
        self._info = read_info(folder)
        self._spec = replace(spec, retry_failed=failed, fresh=not failed)
        self._failed = failed

    def open(self, observers: Sequence[Notify], say: Callable[[str], object]) -> Runner:
        """Open the run. `say` gets a sentence about what is asked, or that nothing is."""
        runner = open_run(self._spec, observers, command=self._info.command)
        if not self._failed:
            return runner
        if runner.identity.ask != self._info.ask:
            runner.borrow_replies(self._folder)
            say(
                f"{self._changed(runner)} changed since {self._folder.name}, so this is another run. "
                "It takes the replies to equal requests from there"
            )
            return runner
        if outdated_files(self._folder / CODE_FILES):
            runner.borrow_replies(self._folder)
            return runner  # it says which file of the code has changed
        runner.continue_in(self._folder)
        summary = usable_summary(self._folder)
        if summary is not None and summary.state == "finished":
            count = summary.subject_error
            # A step that failed after its replies came, as by a pattern that does not match, finds them in the log.
            cases = f"run again: {count:,} of {summary.total:,} cases; only requests without a saved reply are sent"
            say(cases if count else NOTHING_FAILED.format(run=self._folder.name))
        return runner

    def _changed(self, runner: Runner) -> str:
        """Return in plain words what the command would ask otherwise than the run asked."""
        now = msgspec.to_builtins(runner.identity.ask_parts, str_keys=True)
        places = differences(self._info.parts["ask"], now)
        words = dict.fromkeys(_in_words(place) for place in places)
        more = f" and {len(words) - _MAX_DIFFERENCES} more" if len(words) > _MAX_DIFFERENCES else ""
        return ", ".join([*words][:_MAX_DIFFERENCES]) + more or "the order of rows"


def _in_words(place: str) -> str:
    """Return the name of a difference for people: `--limit` for `options.limit`, `the model` for `models.main[1]`."""
    part, _, rest = place.partition(".")
    if part == "options":
        # The endpoint of a Python function or of weights on this disk is a hash of its file.
        return "the model" if rest == "base_url" else f"--{rest.replace('_', '-')}"
    if part == "models":
        return "the model"
    if part == "plan":
        return _PLAN_WORDS.get(rest, rest)
    return "the code of the suite" if part == "suite" else "the data"
