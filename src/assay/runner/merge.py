"""`assay merge`: makes one run of the shards of a run, and finishes it. Sends no requests.

    run = assay.merge(["shards/1", "shards/2"], "results")

The shards belong together if they have the same `ask` fingerprint, which covers data, prompts, code and models.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from assay.core.diff import differences
from assay.core.errors import UsageError, cannot_write
from assay.core.events import Notify
from assay.core.shard import Shard
from assay.files.write import close_to_others, open_new
from assay.journal import folder as folders
from assay.journal.folder import HOME
from assay.journal.integrity import refuse_lost_lines
from assay.journal.merge import create_merged_run, remove_killed_merge
from assay.journal.run_files import MergedShard, RunInfo, Summary, check_owner, read_info
from assay.runner.loops import run_blocking
from assay.runner.opening import refuse_incomplete
from assay.runner.rescore import changed_places, hint_at_start_folder, left_out_outputs, replay_suite, spec_of_run
from assay.runner.results import Run, load, name_of
from assay.runner.runner import Runner
from assay.store.runs import find_run, run_folders, state_of
from assay.suites import find_suite
from assay.usercode.named_code import CodeNotNamed, only_named_code
from assay.usercode.opened_files import CODE_FILES, CodeFile, listed_files

# So many shards, files and differences are named in a message.
_MAX_NAMES = 10
_OUTPUT_FLAGS = ("--output-dir", "--output-path")


def merge(
    shards: Sequence[str | Path | Run],
    output_dir: str | Path,
    observers: Sequence[Notify] = (),
    say: Callable[[str], object] = lambda _: None,
    code: Sequence[str | Path] = (),
) -> Run:
    """Make one run of all shards of a run (`--shard 3/16`), with report and result files. Sends no requests.

    Raises UsageError if a shard is missing, not complete, or of another run. The same call continues a merge that was
    killed. `say` receives a sentence about what is merged. `code` is that of `rescore`.
    """
    with only_named_code(code):
        all_shards = ShardMerge([name_of(each) for each in shards], str(output_dir), observers)
        count = "1 shard" if len(all_shards.shards) == 1 else f"{len(all_shards.shards):,} shards"
        say(f"merge {count} with {all_shards.total:,} cases; no requests sent")
        for sentence in all_shards.left_out:
            say(sentence)
        folder = all_shards.merge()
        runner = all_shards.runner
        if runner is None or all_shards.left_to:
            return replace(load(folder), reason=all_shards.left_to)
        return run_blocking(lambda: runner, computes=runner.suite.computes)


class ShardRun(NamedTuple):
    """A shard whose cases have all ended."""

    folder: Path
    info: RunInfo
    shard: Shard
    summary: Summary

    def __str__(self) -> str:
        return f"shard {self.shard} ({self.folder})"


class ShardMerge:
    """All shards of one run. Raises UsageError if they do not belong together, or one is missing or not complete.

    `names` are run folders, folders with runs, or beginnings of names of runs.
    """

    def __init__(self, names: Sequence[str], output_dir: str, observers: Sequence[Notify] = ()) -> None:
        self.shards = read_shards([folder for name in names for folder in _find_runs(name, output_dir)])
        self._first = self.shards[0].info
        self._output_dir = output_dir
        self._home = Path(output_dir) / HOME
        self._code_files = _read_code_files(self.shards)
        self.left_to = ""
        """Why this command cannot write the report, and what does; empty if it can."""
        self.runner: Runner | None = None
        """The start that finishes the merged run. None if only the user's program can."""
        # Opened before a line is copied: data that changed or is not here is told at once.
        self._open(observers)

    @property
    def left_out(self) -> list[str]:
        """Sentences about files that the run names and this command does not write."""
        return left_out_outputs(replace(self._first, command=self._command()))

    @property
    def total(self) -> int:
        """The number of cases of all shards."""
        return sum(shard.info.total for shard in self.shards)

    def _open(self, observers: Sequence[Notify]) -> None:
        info = self._first
        refuse_incomplete(self.shards[0].folder, info)
        suite_class = find_suite(info.suite)
        spec = spec_of_run(info, output_dir=self._output_dir, shard="")
        try:
            suite_class.replace_files(spec, (), info.facts)
        except CodeNotNamed:
            raise
        except UsageError as error:
            how = f"with output_dir={self._output_dir!r} and without shard. It calls nothing that was called"
            self.left_to = f"{error} {how}"
            return
        with hint_at_start_folder(self.shards[0].folder, info, "the shards were"):
            suite, models = replay_suite(info, spec)
            runner = Runner(suite, models, observers, asks=False, trusted=False)
        if runner.identity.ask != info.ask:
            changed = changed_places(info, runner.identity.ask_parts) or "the order of tasks"
            raise UsageError(
                f"the shards were asked something else than their command asks now: {changed} changed since. "
                "Restore the files that they were made with, then repeat this command"
            )
        if suite.exclusive_output:
            others = [run for run in folders.runs_of_suite(self._home, info.suite) if not self._is_own(run)]
            if others:
                raise UsageError(
                    f"{self._output_dir} already has another run: {others[0]}. Choose another --output-dir"
                )
        self.runner = runner
        if runner.identity.score != self.shards[0].summary.score:
            command = shlex.join(["assay", *self._command()[1:]])
            self.left_to = (
                "the shards were scored with other settings than those that they began with, such as another judge. "
                f"Finish the merged run with the same settings: {command}"
            )

    def merge(self) -> Path:
        """Return the merged run's folder. Copies all lines, unless an earlier start of this command has done it."""
        with folders.selection_lock(self._home):
            remove_killed_merge(self._home)
            path = self._find_merged() or self._copy()
            self._join_logs()
        if self.runner is not None:
            self.runner.continue_in(path)
        return path

    def _join_logs(self) -> None:
        """Put the logs of the shards, such as hop's observer.jsonl, one after the other. A log that is there stays."""
        for name in find_suite(self._first.suite).logs:
            target = Path(self._output_dir) / name
            # OUTPUT/assay/RUN is the folder of a shard.
            logs = [shard.folder.parent.parent / name for shard in self.shards]
            logs = [log for log in logs if log.is_file()]
            if not logs or (target.is_file() and target.stat().st_size):
                continue
            temporary = target.with_name(f".{name}.tmp")
            try:
                with open_new(temporary) as file:
                    close_to_others(temporary)
                    for log in logs:
                        with log.open("rb") as source:
                            shutil.copyfileobj(source, file)
                temporary.replace(target)
            except OSError as error:
                raise cannot_write(target, error) from error

    def _find_merged(self) -> Path | None:
        """Return the run that was merged from these shards; None if the output folder has no such run."""
        for run in folders.runs_of_suite(self._home, self._first.suite, self._first.ask):
            if self._is_own(run):
                return run
            ids = [shard.id for shard in read_info(run).merged]
            if ids and ids == [shard.info.id for shard in self.shards]:
                raise UsageError(
                    f"{run} was merged from these shards before one of them was continued. Choose another --output-dir"
                )
            raise UsageError(f"{self._output_dir} already has this run: {run}. Choose another --output-dir")
        return None

    def _is_own(self, run: Path) -> bool:
        merged = read_info(run).merged
        return [(each.id, each.journal) for each in merged] == [
            (shard.info.id, shard.summary.journal) for shard in self.shards
        ]

    def _copy(self) -> Path:
        info = RunInfo(
            suite=self._first.suite,
            ask=self._first.ask,
            started=min(shard.info.started for shard in self.shards),
            version=self._first.version,
            total=self.total,
            command=self._command(),
            spec=self._first.spec | {"output_dir": self._output_dir, "shard": ""},
            parts=self._first.parts,
            facts=self._first.facts,
            score_parts=self._first.score_parts,
            merged=[MergedShard(str(shard.folder), shard.info.id, shard.summary.journal) for shard in self.shards],
        )
        return create_merged_run(self._home, info, [shard.folder for shard in self.shards], self._code_files)

    def _command(self) -> list[str]:
        """Return the command line that continues the merged run: that of a shard, in the new output folder."""
        info = self._first
        if info.repeat_command[:1] != ["assay"]:
            return info.command
        words = []
        values = 0
        for word in info.command:
            flag, equals, _ = word.replace("_", "-").partition("=")
            if values:
                values -= 1
            elif flag in ("--shard", *_OUTPUT_FLAGS):
                values = 0 if equals else 1
            else:
                words.append(word)
        return [*words, "--output-dir", self._output_dir]


def read_shards(runs: Sequence[Path]) -> list[ShardRun]:
    """Return the shards in order. Raises UsageError if they are not all shards of one run, each once and complete."""
    found = [(folder, _read_info(folder)) for folder in runs]
    if not found:
        raise UsageError("name the shards to merge: assay merge shards/* --output-dir results")
    first_folder, first = found[0]
    for folder, info in found[1:]:
        _check_same_run(first_folder, first, folder, info)
    assert first.shard is not None
    count = first.shard.count
    problems: list[str] = []
    by_number: dict[int, tuple[Path, RunInfo]] = {}
    for folder, info in found:
        assert info.shard is not None
        other = by_number.setdefault(info.shard.number, (folder, info))[0]
        if other is not folder:
            problems.append(f"shard {info.shard} is there twice: {other} and {folder}. Pass one of them")
    if missing := [number for number in range(1, count + 1) if number not in by_number]:
        problems.append(_missing(missing, count))
    shards = []
    for _, (folder, info) in sorted(by_number.items()):
        shard = _read_complete(folder, info, problems.append)
        if shard is not None:
            shards.append(shard)
    if problems:
        raise UsageError("\n".join(problems))
    for shard in shards:
        if shard.summary.score != shards[0].summary.score:
            raise UsageError(
                f"{shard} was scored with other settings than {shards[0]}. Repeat its command with the settings of "
                f"the others, such as the judge, or bring both up to date with: assay rescore {shard.folder}"
            )
    return shards


def _find_runs(name: str, output_dir: str) -> list[Path]:
    """Return the runs of a folder, without a run that was merged into the output folder before."""
    if not Path(name).is_dir():
        return [find_run(name)]
    home = (Path(output_dir) / HOME).resolve()
    runs = [run for run in run_folders(Path(name)) if run.resolve().parent != home or not _is_merged(run)]
    return runs or [find_run(name)]  # raises: there is none


def _is_merged(run: Path) -> bool:
    return bool(read_info(run).merged)


def _read_info(folder: Path) -> RunInfo:
    info = read_info(folder)
    if info.shard is None:
        what = "was merged already" if info.merged else "is a whole run"
        raise UsageError(f"{folder} {what}, not a shard: it was not started with --shard. Leave it out")
    return info


def _check_same_run(first_folder: Path, first: RunInfo, folder: Path, info: RunInfo) -> None:
    assert first.shard is not None
    assert info.shard is not None
    if (info.suite, info.ask) != (first.suite, first.ask):
        if info.suite != first.suite:
            what = f"{info.suite} and {first.suite}"
        else:
            places = [*differences(first.parts["ask"], info.parts["ask"])]
            what = ", ".join(place.removeprefix("options.") for place in places[:_MAX_NAMES]) or "the order of data"
        raise UsageError(
            f"{folder} and {first_folder} are not shards of one run: they differ in {what}. Leave one of them out"
        )
    if info.shard.count != first.shard.count:
        raise UsageError(
            f"{folder} is shard {info.shard}, {first_folder} is shard {first.shard}: they divide the rows otherwise. "
            "Pass shards of one division"
        )
    if info.version != first.version:
        raise UsageError(
            f"{folder} was made by assay {info.version}, {first_folder} by assay {first.version}: their scores may "
            "differ for that reason. Run the shards with one version"
        )


def _missing(numbers: Sequence[int], count: int) -> str:
    listed = ",".join(map(str, numbers[:_MAX_NAMES]))
    more = f" and {len(numbers) - _MAX_NAMES:,} more" if len(numbers) > _MAX_NAMES else ""
    are = "shard {} of {} is missing" if len(numbers) == 1 else "shards {} of {} are missing"
    return (
        f"{are.format(listed + more, count)}. Run the command of the others with --shard {numbers[0]}/{count} and an "
        f"--output-dir of its own; with Slurm: sbatch --array={listed}"
    )


def _read_complete(folder: Path, info: RunInfo, tell: Callable[[str], None]) -> ShardRun | None:
    """Return a shard, verified as far as that is possible without its lines; None if it is not complete."""
    assert info.shard is not None
    check_owner(folder, info)
    run = state_of(folder)
    refuse_lost_lines(folder, run.summary)
    is_over = run.summary is not None and run.state in ("finished", "incomplete") and run.done == info.total
    if run.summary is not None and is_over:
        return ShardRun(folder, info, info.shard, run.summary)
    remain = f"{info.total - run.done:,} of {info.total:,} cases remain"
    if run.done == info.total:
        remain = "all cases have ended, but its report is not written"
    advice = "Wait for it"
    if run.state != "running":
        words = info.repeat_command
        advice = f"Continue it with: {shlex.join(words)}" if words else "Run its program again"
    tell(f"shard {info.shard} ({folder}) is not complete ({run.state}): {remain}. {advice}")
    return None


def _read_code_files(shards: Sequence[ShardRun]) -> list[CodeFile]:
    """Return the files that the code of the shards read. Raises UsageError if one had another content in a shard."""
    all_files = [(shard, file) for shard in shards for file in listed_files(shard.folder / CODE_FILES)]
    written = {file.path for _, file in all_files if file.written}
    known: dict[str, tuple[ShardRun, CodeFile]] = {}
    for shard, file in all_files:
        if file.path in written:
            continue
        other_shard, other = known.setdefault(file.path, (shard, file))
        if not file.is_like(other):
            raise UsageError(
                f"{file.path}, which the code of the run reads, was not the same in {other_shard} and {shard}. Run the "
                "shards with one version of it"
            )
    # Lines about written files first: a list keeps at most two contents of a file.
    return sorted((file for _, file in all_files), key=lambda file: not file.written)
