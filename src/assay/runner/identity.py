"""Which run this is: the fingerprints of a suite with its models, and the folder of the run that continues.

    identity = RunIdentity(opened)
    identity.find_run().folder          # of the newest run with the same `ask` fingerprint, or None

Everything that can change a reply is in `ask`: another `ask` is another run. Everything that can change a score is in
`score`: the same replies are scored again.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.core.diff import differences
from assay.core.errors import AssayError, UsageError
from assay.core.hashing import fingerprint
from assay.core.shard import Shard
from assay.core.spec import values_marked
from assay.core.suite import Suite
from assay.journal import folder as folders
from assay.journal.folder import HOME
from assay.journal.run_files import read_info
from assay.runner.opened import OpenedRun
from assay.suites import BUILT_IN
from assay.usercode.code_hash import code_sha256
from assay.usercode.model_args import ask_arguments
from assay.usercode.opened_files import CODE_FILES, outdated_files

# So many changed files are named.
_MAX_NAMES = 3


class OutdatedRun(NamedTuple):
    """A run whose code read files that have changed since, and their names."""

    folder: Path
    changed: list[str]


class FoundRun(NamedTuple):
    """The folder of the run that continues; None if a new one begins."""

    folder: Path | None
    outdated: OutdatedRun | None = None
    """The newest run that asks the same, if files that its code read have changed since."""


class RunIdentity:
    """The fingerprints of a run, and its folder. With `folder`, it is the run in that folder, whatever it asked."""

    def __init__(self, opened: OpenedRun, folder: Path | None = None) -> None:
        self.suite = opened.suite
        self.spec = opened.spec
        self._models = opened.models
        self.ask_parts = self._ask_parts()
        self.ask = fingerprint(self.ask_parts)
        self.score_parts = self._score_parts()
        self.score = fingerprint(self.score_parts)
        # As run.json has it, to be compared with that of other runs.
        self.reuse_identity = msgspec.to_builtins(opened.suite.reuse_identity(), str_keys=True)
        self.folder = folder
        self.shard = read_info(folder).shard if folder else Shard.parse(self.spec.shard)
        self.home = folder.parent if folder else Path(self.spec.output_dir) / HOME
        self.continued: Path | None = None
        """The run to continue, instead of the newest one that asks the same."""

    def _ask_parts(self) -> dict[str, Any]:
        """Return everything that can change a reply. A run with other parts is another run."""
        models = {
            name: [role.model, self._models[name].endpoint]
            for name, role in self.suite.roles.items()
            if role.mark == "ask"
        }
        return {
            "options": values_marked(self.spec, "ask")
            | {"model_args": ask_arguments(self.spec, self.suite.roles.values())},
            "suite": suite_identity(self.spec.suite, type(self.suite)),
            "models": models,
            "plan": self.suite.ask_identity(),
            "data": self.suite.data_identity(),
        }

    def _score_parts(self) -> dict[str, Any]:
        """Return everything that can change a score. After a change, the same replies are scored again."""
        judges = {
            name: [role.model, self._models[name].endpoint]
            for name, role in self.suite.roles.items()
            if role.mark == "score"
        }
        options = values_marked(self.spec, "score")
        return {"options": options, "models": judges, "plan": self.suite.score_identity()}

    def find_run(self) -> FoundRun:
        """Return the run to continue.

        It is the newest one with the same `ask` fingerprint whose code would read the same files.
        """
        if self.folder is not None:
            return FoundRun(self.folder)
        self._refuse_other_shards()
        if self.continued is not None:
            return FoundRun(self.continued)
        outdated: OutdatedRun | None = None
        if not self.spec.fresh:
            for run in reversed(folders.runs_of_suite(self.home, self.spec.suite, self.ask)):
                changed = outdated_files(run / CODE_FILES)
                if not changed:
                    return FoundRun(run)
                outdated = outdated or OutdatedRun(run, changed)
        return FoundRun(None, outdated)

    def _refuse_other_shards(self) -> None:
        """Raise UsageError if the output folder has another shard of this run, or a shard and this is the whole run.

        Such a run asks the same, so it would be continued, and shown as if all cases had ended.
        """
        for run in folders.runs_of_suite(self.home, self.spec.suite, self.ask):
            try:
                other = read_info(run).shard
            except AssayError:
                continue  # whoever continues this run hears of its damage
            if other == self.shard:
                continue
            output = self.spec.output_dir
            if other is None:
                raise UsageError(
                    f"{output} has the whole run: {run}. A shard needs an output folder of its own: pass "
                    "another --output-dir"
                )
            if self.shard is None:
                raise UsageError(
                    f"{output} has shard {other} of this run, not the whole run: {run}. Pass --shard {other} to "
                    "continue it, or choose another --output-dir for the whole run"
                )
            raise UsageError(
                f"{output} has shard {other} of this run: {run}. Each shard needs an output folder of its own: pass "
                f"another --output-dir, such as {output}/shard-{self.shard.number}"
            )

    def check_output_is_free(self, outdated: OutdatedRun | None) -> None:
        """Raise UsageError if the output folder has result files of another run, and their names are fixed.

        The new run would overwrite them, and the other run's replies were paid for.
        """
        if self.spec.fresh or not self.suite.exclusive_output:
            return
        others = folders.runs_of_suite(self.home, self.spec.suite)
        if not others:
            return
        newest = others[-1]
        now = msgspec.to_builtins(self.ask_parts, str_keys=True)
        options = [
            place.removeprefix("options.")
            for place in differences(read_info(newest).parts["ask"], now)
            if place.startswith("options.")
        ]
        changed_options = ", ".join(options) or "data, prompts or code"
        changed = names_of(outdated.changed) if outdated else changed_options
        raise UsageError(
            f"{self.spec.output_dir} already has a run with different settings ({changed}): {newest}. "
            "Repeat its command to continue it, choose another --output-dir, or pass --fresh."
        )


def suite_identity(name: str, suite: type[Suite[Any, Any]]) -> str:
    """Return the suite's part of a fingerprint: its name if it is built in, else a hash of its code."""
    if name in BUILT_IN:
        return name
    return f"{code_sha256(Path(inspect.getfile(suite)))}:{suite.__name__}"


def names_of(files: Sequence[str]) -> str:
    """Return the first names of some files, and how many more there are."""
    more = f" and {len(files) - _MAX_NAMES} more" if len(files) > _MAX_NAMES else ""
    return ", ".join(files[:_MAX_NAMES]) + more
