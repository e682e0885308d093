"""The two files that say what a run is: `run.json`, written when it is created, and `summary.json`, its results.

    info = read_info(folder)        # the options of the run
    summary = read_summary(folder)  # state, numbers and report; None before the first start has ended

Both end with a checksum, so a changed file is never believed. That of `summary.json` depends on the id of the run.
"""

from __future__ import annotations

import filecmp
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

import msgspec

from assay.core.errors import DamagedRun, Problem, UsageError, cannot_write
from assay.core.hashing import file_sha256
from assay.core.imported import ImportOrigin
from assay.core.report import Entry, Metric, Report
from assay.core.shard import Shard
from assay.files.plain_files import is_plain, plain_problem, plain_size, read_plain
from assay.files.write import own_temporary, write_whole
from assay.journal.line_types import CALLS, RECORDS, SCORES
from assay.journal.lines import FORMAT, DamagedLine, is_imported, other_format, read_header, run_id, seed
from assay.journal.spending import CallCounts, Spending

FILES = (CALLS, RECORDS, SCORES)
"""The files of the journal."""
ROWS = "rows.jsonl"
"""The rows of an evaluation from Python, which has no data file."""
# A file of the journal that is longer than this has lines after its header.
MAX_HEADER = 120
_CHECKSUM_END = re.compile(rb',\n  "crc": "([0-9a-f]{8})"\n\}\n\Z')
# What is wrong with a file whose checksum does not match, and what to do.
_CHANGED = "the file was changed after it was written: its checksum does not match. "
_RUN_ADVICE = (
    "Restore it from a copy; or repeat the command of the run with --fresh --reuse {folder}, which starts another run "
    "and takes all replies from this one"
)
_SUMMARY_ADVICE = "Repeat the command of the run, which writes it again from the journal"
_IMPORTED_ADVICE = "The run was imported: delete its folder and import the file again"
_OTHER_RUN = "the file belongs to another run than the journal beside it. "


class RunInfo(msgspec.Struct, kw_only=True):
    """`run.json`: the options of the run and facts about its data. Written once, when the run is created.

    `parts["ask"]` is what the fingerprint `ask` was computed from. It serves to name the differences of two runs.
    """

    schema: int = FORMAT
    suite: str
    ask: str
    started: float
    version: str
    total: int
    command: list[str]
    spec: dict[str, Any]
    parts: dict[str, Any]
    facts: dict[str, Any]
    score_parts: Literal["none", "filters", "rows"] = "none"
    """The meaning of `Score.part` in this suite: `Suite.parts`."""
    id: str = ""
    """A random text. It is part of every checksum of the run, so files of another run are recognised."""
    imported: ImportOrigin | None = None
    """The files of another program that the run was made from. None for a run of assay's own."""
    shard: Shard | None = None
    """Which part of the rows this run has. `total` counts its cases only. None for a run of all rows."""
    merged: list[MergedShard] = []
    """The shards whose lines `assay merge` copied into this run, in order."""
    replaces: str = ""
    """The run whose replies to equal requests this one takes, because it asks nearly the same: its name or its path."""

    @property
    def repeat_command(self) -> list[str]:
        """The words to type to continue this run. Empty if no command line is known.

        `command` begins with a path, such as that of `assay/__main__.py` after `python -m assay`. `--fresh` is left
        out, because it would start another run, and `--watch`, because it would wait for changes.
        """
        program, *words = self.command or [""]
        if not program:
            return []
        words = [word for word in words if word not in ("--fresh", "--watch")]
        # `assay.run` keeps the command line of the Python program that called it.
        is_script = program.endswith(".py") and not program.endswith("/assay/__main__.py")
        return ["python", program, *words] if is_script else ["assay", *words]


class MergedShard(msgspec.Struct, frozen=True):
    """A shard as it was when it was merged: the id of its run, and the sizes of its journal in bytes."""

    folder: str
    id: str
    journal: dict[str, int]


class Summary(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`summary.json`: state and results of the run. Each start rewrites it at its end.

    `state` is "finished", "incomplete" (cases without an answer), "stopped", or "unfinished" while a start works.
    `score` is the fingerprint of the scoring settings. `spent` counts the calls of all starts, `this_start` those of
    the last one.
    """

    state: str
    score: str
    scorers: list[str]
    total: int
    ok: int
    subject_error: int
    infra_error: int
    exit_code: int
    seconds: float
    """The time of all starts that ended. A start that was killed is not measured."""
    spent: CallCounts
    this_start: dict[str, int]
    files: list[str]
    report: Report | None = None
    failures: dict[str, int] = {}
    first_failures: dict[str, str] = {}
    """The message of the first failure of each kind in `failures` and `failed_calls`."""
    newest: str = ""
    unscored: int = 0
    cost: float | None = None
    """The price of all calls of all starts in US dollars, judges included. None if no call has a price."""
    scoring_cost: float | None = None
    """The part of `cost` that scorers caused: the judges."""
    price_tables: list[str] = []
    """The date and hash of each price table that prices were computed from. Empty if endpoints reported all prices."""
    adapted: list[str] = []
    """How requests were changed for endpoints that rejected a parameter, such as "no temperature"."""
    journal: dict[str, int] = {}
    """The size in bytes of each file of the journal. Lines that are missing at the end of a file are found by it."""
    digests: dict[str, str] = {}
    """The SHA-256 of each file in `files`, and of `rows.jsonl` if the run folder has one."""
    failed_calls: dict[str, int] = {}
    """The number of failed calls by kind of failure. The case of such a call may have ended well."""
    ran_on: str = ""
    """Where else than in the process of the command cases have run, as "2 workers of Ray" of the last such start."""
    scoring_again: bool = False
    """Whether a start that scores the run again has begun and not ended. Until it ends, this is the run's result, and
    the files of the journal may be longer than `journal` says: scores that do not count yet follow."""
    exit_reason: str = ""
    """One sentence that says why `exit_code` is not 0, or which task or memory of a run with code 0 has no score."""

    @property
    def end_sentence(self) -> str:
        """Why the exit code is not 0: `No row has an answer, all 2 failed: …. Exit code 1`."""
        stop = "" if self.exit_reason.endswith("?") else "."
        return f"{self.exit_reason}{stop} Exit code {self.exit_code}"

    @property
    def reply_problems(self) -> list[str]:
        """Sentences about replies without an answer: those that were cut at the token limit, and those without text."""
        spent = self.spent
        own_replies = spent.calls - spent.failed - spent.judge_replies
        sentences = []
        for who, option, replies, cut, empty in (
            ("", "--gen-kwargs", own_replies, spent.cut_replies, spent.empty_replies),
            ("judge: ", "--judge-kwargs", spent.judge_replies, spent.judge_cut_replies, spent.judge_empty_replies),
        ):
            if cut:
                what = f"{who}{_part_of(cut, replies)} cut at max_tokens before an answer began"
                sentences.append(f"{what}: raise it with {option} max_tokens=N")
            if empty:
                sentences.append(f"{who}{_part_of(empty, replies)} empty")
        return sentences

    def with_spending(self, spending: Spending) -> Summary:
        """Return the summary with what the calls of all starts have cost until now."""
        # Rounded, because a sum of many small floats has digits that no call has.
        return msgspec.structs.replace(
            self,
            spent=spending.counts(),
            cost=None if spending.cost is None else round(spending.cost, 12),
            scoring_cost=None if spending.scoring_cost is None else round(spending.scoring_cost, 12),
            price_tables=list(spending.price_tables),
        )


def _part_of(count: int, replies: int) -> str:
    return f"{count:,} of {replies:,} {'reply' if replies == 1 else 'replies'} {'was' if count == 1 else 'were'}"


def read_info(folder: Path) -> RunInfo:
    """Read `run.json`. Raises InputError for a run of another format, DamagedRun if the file was changed."""
    path = folder / "run.json"
    try:
        content = read_plain(path)
        is_intact = _seal_matches(content, path.stem, "")
        written = msgspec.json.decode(content, type=_Format).schema
        # Formats 1 and 2 had no checksum. A later format has one that matches.
        if written != FORMAT and (is_intact or _CHECKSUM_END.search(content) is None):
            raise other_format(str(path), written)
        if not is_intact:
            raise _changed(path)
        return msgspec.json.decode(content, type=RunInfo)
    except FileNotFoundError:
        if has_journal(folder):
            raise _changed(path, "the file is missing. ") from None
        raise UsageError(f"{folder} is not a run folder: it has no run.json") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _changed(path) from None


class _Format(msgspec.Struct):
    """The fields of `run.json` that every format has. Format 1 had no number."""

    suite: str
    schema: int = 1


def read_summary(folder: Path, *, run: str = "", kind: type[Summary] = Summary) -> Summary | None:
    """Read `summary.json`. Returns None if the run has none yet. Raises DamagedRun if the file was changed.

    `run` is the id of the run that wrote it. Empty: it is the id in `run.json`.
    """
    path = folder / "summary.json"
    try:
        content = read_plain(path)
        if not _seal_matches(content, path.stem, run or run_id(folder)):
            # If the checksum matches with the id that the journal has, `run.json` is the wrong file.
            if any(_seal_matches(content, path.stem, other) for other in _journal_ids(folder)):
                raise _changed(folder / "run.json", _OTHER_RUN)
            raise _changed(path)
        return msgspec.json.decode(content, type=kind)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _changed(path) from None


def usable_summary(folder: Path) -> Summary | None:
    """Read `summary.json`. Returns None also for a damaged one: the next start writes it again."""
    try:
        return read_summary(folder)
    except DamagedRun:
        return None


class SummaryHead(Summary, kw_only=True):
    """A summary whose report has only the names and metrics of its entries, for lists of many runs.

    The rest of a report takes most of the time: `report` itself is read from a key that no file has.
    """

    report: Report | None = msgspec.field(default=None, name="report in full")
    head: _ReportHead | None = msgspec.field(default=None, name="report")

    def __post_init__(self) -> None:
        if self.head is not None:
            self.report = Report(entries=[Entry(name=entry.name, metrics=entry.metrics) for entry in self.head.entries])


class _ReportHead(msgspec.Struct):
    """The entries of a report, each without its details."""

    entries: list[_EntryHead] = []


class _EntryHead(msgspec.Struct):
    """The name and the metrics of an entry."""

    name: str
    metrics: list[Metric] = []


def write_info(folder: Path, info: RunInfo) -> None:
    """Write `run.json`. Raises StopRun if the disk is full."""
    _write_sealed(folder / "run.json", info)


def write_summary(folder: Path, summary: Summary) -> None:
    """Write `summary.json`, with the sizes of the journal, completely or not at all. Raises StopRun on a full disk."""
    summary = msgspec.structs.replace(summary, journal=journal_sizes(folder))
    _write_sealed(folder / "summary.json", summary, run_id(folder))


def write_summary_at(folder: Path, summary: Summary, run: str) -> None:
    """Write a `summary.json` as it is given, for the run with the id `run`. Raises StopRun on a full disk."""
    _write_sealed(folder / "summary.json", summary, run)


def _write_sealed(path: Path, value: RunInfo | Summary, run: str = "") -> None:
    """Write indented JSON with a checksum as its last key."""
    body = msgspec.json.format(msgspec.json.encode(value), indent=2)[: -len("\n}")]
    checksum = crc32(body, seed(run, path.stem))
    try:
        write_whole(path, b'%b,\n  "crc": "%08x"\n}\n' % (body, checksum))
    except OSError as error:
        raise cannot_write(path, error) from error


def _seal_matches(content: bytes, file: str, run: str) -> bool:
    end = _CHECKSUM_END.search(content)
    return end is not None and crc32(content[: end.start()], seed(run, file)) == int(end[1], 16)


def _changed(path: Path, what: str = _CHANGED) -> DamagedRun:
    """Return the error for a damaged `run.json` or `summary.json`, with what to do."""
    advice = _SUMMARY_ADVICE if path.name == "summary.json" else _RUN_ADVICE
    if is_imported(path.parent):
        advice = _IMPORTED_ADVICE
    return DamagedRun(Problem(str(path), what + advice.format(folder=path.parent)))


def check_owner(folder: Path, info: RunInfo, ask: str = "") -> None:
    """Raise DamagedRun if `run.json` belongs to another run than the journal beside it.

    `ask` is the fingerprint that the run must have, if it is known.
    """
    ids = _journal_ids(folder)
    if (info.id and ids and info.id not in ids) or (ask and info.ask != ask):
        raise _changed(folder / "run.json", _OTHER_RUN)


def _journal_ids(folder: Path) -> set[str]:
    """Return the ids of the run in the first lines of the journal's files. Damaged first lines are left out."""
    ids = set()
    for name in FILES:
        path, damage = folder / name, list[DamagedLine]()
        if plain_size(path):
            header = read_header(path, damage=damage)
            if not damage:
                ids.add(header.run)
    return ids


def journal_sizes(folder: Path) -> dict[str, int]:
    """Return the sizes of the journal's files. A file that is missing or no plain file is left out."""
    sizes = {name: plain_size(folder / name) for name in FILES}
    return {name: size for name, size in sizes.items() if size is not None}


def has_journal(folder: Path) -> bool:
    """Return whether a file of the journal has lines after its header."""
    return any(size > MAX_HEADER for size in journal_sizes(folder).values())


def result_digests(folder: Path, paths: Sequence[Path] = ()) -> dict[str, str]:
    """Return the SHA-256 of result files by their paths, and of the run's stored rows, if there are any."""
    digests = {str(path): file_sha256(path) for path in paths if path.is_file()}
    if is_plain(folder / ROWS):
        digests[ROWS] = file_sha256(folder / ROWS)
    return digests


def time_finished(folder: Path) -> int:
    """Return when the result files of a run were written; 0 if it has no summary."""
    path = folder / "summary.json"
    return path.stat().st_mtime_ns if path.is_file() else 0


def has_own_newest(folder: Path, summary: Summary) -> bool:
    """Return whether the folder for the newest results is in the output folder of the run, or there is none.

    It is elsewhere after the output folder was moved, and in a forged summary.
    """
    output = folder.resolve().parent.parent
    return not summary.newest or Path(summary.newest).resolve().is_relative_to(output)


def copy_to_newest(folder: Path, summary: Summary) -> None:
    """Copy the run's result files and summary to `Outcome.newest`, the folder for the newest run, if there is one."""
    if not summary.newest:
        return
    target = Path(summary.newest)
    try:
        target.mkdir(parents=True, exist_ok=True)
        # A user may have named another place for a file. It stays there.
        result_files = map(Path, summary.files)
        own = [file for file in result_files if file.absolute().is_relative_to(folder.absolute())]
        for file in (*own, folder / "summary.json"):
            if (problem := plain_problem(file)) is not None:
                raise DamagedRun(problem)
            newest = target / file.name
            # On a read-only disk a finished run is shown all the same, if nothing is to be written.
            if newest.is_file() and filecmp.cmp(file, newest, shallow=False):
                continue
            # A second process that shows the run, while this one still copies, copies the same files.
            temporary = own_temporary(newest)
            shutil.copy(file, temporary)  # with its permissions
            temporary.replace(newest)
    except OSError as error:
        # A failed rename has two names. The second one is that of the file to write.
        raise cannot_write(error.filename2 or target, error) from error
