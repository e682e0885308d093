"""The files that SQL reads: which runs, which files of each, and which of their lines count.

Only lines of the last try that ended count, and only the scores that the summary names. The index of a run tells
whether every line of a file counts. If so, DuckDB reads the file without a filter. Otherwise the table `counted` lists
the places (`at`) of the lines that count. A file with damaged lines is replaced by a copy of its intact lines. DuckDB
knows no checksums, so every line is verified before DuckDB reads it, also lines that a sidecar of the index covers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from assay.core.errors import InputError, UsageError
from assay.core.types import ASK
from assay.files.plain_files import is_plain, open_plain_file, plain_size
from assay.journal.index import RunIndex, StageIndex
from assay.journal.line_types import CALLS, RECORDS, SCORES
from assay.journal.lines import copy_intact_lines, forget_sidecars, is_unchanged, run_id
from assay.journal.run_files import read_info, usable_summary
from assay.store.cases import counted_scorers
from assay.store.runs import RunState, states

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_GLOB = frozenset("*?[")
FAILURE = 'STRUCT(kind VARCHAR, message VARCHAR, "where" VARCHAR, http BIGINT, traceback VARCHAR)'
USAGE = "STRUCT(input BIGINT, output BIGINT)"
_HEAD = {"type": "VARCHAR", "index": "BIGINT", "case": "VARCHAR", "set": "VARCHAR", "subject": "VARCHAR"}
# Columns are never inferred: a key that first occurs late in a file would be missed.
LINE_COLUMNS: dict[str, dict[str, str]] = {
    CALLS: {
        **_HEAD,
        "stage": "VARCHAR",
        "try": "BIGINT",
        "hash": "VARCHAR",
        "n": "BIGINT",
        "request": "STRUCT(model VARCHAR, endpoint VARCHAR, prompt VARCHAR, messages JSON, continuation VARCHAR, "
        "params JSON, sdk JSON)",
        "response": f"STRUCT(text VARCHAR, finish VARCHAR, usage {USAGE}, data JSON, reasoning VARCHAR, "
        "cost DOUBLE, price_table VARCHAR, address VARCHAR)",
        "failure": FAILURE,
        "attempts": "BIGINT",
        "seconds": "DOUBLE",
    },
    RECORDS: {
        **_HEAD,
        "stage": "VARCHAR",
        "try": "BIGINT",
        "kind": "VARCHAR",
        "part": "VARCHAR",
        "data": "JSON",
        # An end of its own line has these fields at the top.
        "status": "VARCHAR",
        "lines": "BIGINT[]",
        "failure": FAILURE,
        "usage": USAGE,
        "calls": "BIGINT",
        "seconds": "DOUBLE",
        "label": "VARCHAR",
        "tags": "VARCHAR[]",
        "end": f'STRUCT("try" BIGINT, status VARCHAR, lines BIGINT[], failure {FAILURE}, usage {USAGE}, calls BIGINT, '
        "seconds DOUBLE, label VARCHAR, tags VARCHAR[])",
        "at": "BIGINT",
    },
    SCORES: {
        **_HEAD,
        "stage": "VARCHAR",
        "scorer": "VARCHAR",
        "metric": "VARCHAR",
        "part": "VARCHAR",
        "vote": "BIGINT",
        "status": "VARCHAR",
        "value": "DOUBLE",
        "reason": "VARCHAR",
        "data": "JSON",
        "expected": "JSON",
        "label": "VARCHAR",
        "tags": "VARCHAR[]",
        "interim": "BOOLEAN",
        "lines": "BIGINT[]",
        "end": "STRUCT(lines BIGINT[])",
        "at": "BIGINT",
    },
}


class RunSource(Struct):
    """One run that queries read. `name` is unique among them: the name of the folder, or its path."""

    number: int
    name: str
    run: RunState
    has_journal: bool
    """False if `run.json` cannot be read: without it, no line can be verified."""

    @property
    def grows(self) -> bool:
        """Whether the last line of a file may be incomplete: a process writes it, or was killed."""
        return self.run.state not in ("finished", "incomplete")

    def size(self) -> int:
        """Return the bytes of the journal. It grows with every line."""
        return sum(plain_size(path) or 0 for path in self.paths())

    def paths(self) -> list[Path]:
        """Return the paths of the journal's files. They may not exist."""
        return [self.run.folder / name for name in (CALLS, RECORDS, SCORES)]


def open_sources(folders: Iterable[Path], warn: Callable[[str], object]) -> list[RunSource]:
    """Return the runs in these folders. `warn` gets a sentence about each run that is damaged or cannot be read."""
    runs = [run for folder in dict.fromkeys(folder.resolve() for folder in folders) for run in states(folder)]
    names = Counter(run.folder.name for run in runs)
    sources = []
    for number, run in enumerate(runs):
        name = str(run.folder) if names[run.folder.name] > 1 else run.folder.name
        try:
            read_info(run.folder)
            has_journal = run.state != "unreadable"
        except (InputError, UsageError):
            has_journal = False
        if run.problem:
            shown = "only its intact lines are shown" if has_journal else "its cases are not shown"
            warn(f"{run.folder} is {run.state}, {shown}: {run.problem}")
        # `states` reads only the beginning of a report.
        whole = run._replace(summary=usable_summary(run.folder))
        sources.append(RunSource(number, name, whole, has_journal))
    return sources


class _File(NamedTuple):
    """A file that DuckDB reads: the journal's own, or a copy of its intact lines."""

    path: Path
    source: RunSource
    filtered: bool


class JournalFiles:
    """The journal files of all runs, for the views. Indexes are read when the first view needs them."""

    def __init__(
        self,
        connection: DuckDBPyConnection,
        sources: Sequence[RunSource],
        copies: Path,
        warn: Callable[[str], object],
    ) -> None:
        self._connection = connection
        self._sources = sources
        self._copies = copies
        self._warn = warn
        self._files: dict[str, list[_File]] | None = None
        self._calls_are_verified = False
        self.max_line_bytes = 0
        """The longest line that DuckDB accepts; 0 is DuckDB's default of 16 MB."""

    def relation(self, name: str, suite: str = "", **types: str) -> str:
        """Return a SELECT of the counting lines of all files with this name, or of those of one suite.

        It adds `run`, `suite`, `parts` (the meaning of `part`), `imported` and `number` (of the run). `types` replaces
        the types of columns: DuckDB decodes all fields of a struct, so a struct of fewer fields is faster.
        """
        if self._files is None:
            self._files = self._prepare()
        if name == CALLS and not self._calls_are_verified:
            self._files[CALLS] = [self._verified_calls(file) for file in self._files[CALLS]]
            self._calls_are_verified = True
        files = [file for file in self._files[name] if suite in ("", file.source.run.info.suite)]
        if not files:
            all_columns = {**LINE_COLUMNS[name], **types}
            columns = ", ".join(f'null::{kind} as "{column}"' for column, kind in all_columns.items())
            return f"select {columns}, '' as run, '' as suite, '' as parts, false as imported, 0 as number where false"
        groups: dict[tuple[bool, bool], list[_File]] = {}
        for file in files:
            groups.setdefault((file.filtered, file.source.grows), []).append(file)
        return " union all ".join(
            self._select(name, types, group, filtered, grows) for (filtered, grows), group in groups.items()
        )

    def _select(self, name: str, types: dict[str, str], files: list[_File], filtered: bool, grows: bool) -> str:
        paths = ", ".join(literal(str(file.path)) for file in files)
        all_columns = {**LINE_COLUMNS[name], **types}
        columns = ", ".join(f"{literal(column)}: {literal(kind)}" for column, kind in all_columns.items())
        options = ", ignore_errors = true" if grows else ""  # an incomplete last line becomes a row of NULLs
        if self.max_line_bytes:
            options += f", maximum_object_size = {self.max_line_bytes}"
        lines = f"read_json([{paths}], format = 'newline_delimited', columns = {{{columns}}}, filename = true{options})"
        where = "type <> 'assay'"  # the header
        if filtered:
            where += f' and (number, "at") in (select number, "at" from counted where file = {literal(name)})'
        if len(files) == 1:
            # Constants are cheaper than a join.
            (file,) = files
            info = file.source.run.info
            return (
                f"select *, {literal(file.source.name)} as run, {literal(info.suite)} as suite, "
                f"{literal(info.score_parts)} as parts, {info.imported is not None} as imported, "
                f"{file.source.number} as number from {lines} where {where}"
            )
        return (
            "select lines.*, f.run, f.suite, f.parts, f.imported, f.number "
            f"from {lines} lines join journal_files f using (filename) where {where}"
        )

    def longest_line(self) -> int:
        """Return the bytes of the longest line of all files. Reads them."""
        longest = 0
        for source in self._sources:
            for path in filter(is_plain, source.paths()):
                with open_plain_file(path) as lines:
                    longest = max(longest, max(map(len, lines), default=0))
        return longest

    def _prepare(self) -> dict[str, list[_File]]:
        files: dict[str, list[_File]] = {CALLS: [], RECORDS: [], SCORES: []}
        self._connection.execute('create or replace table counted(file varchar, number integer, "at" bigint)')
        for source in self._sources:
            if not source.has_journal:
                continue
            folder = source.run.folder
            index = _verified_index(folder)
            scorers = counted_scorers(folder, source.run.summary)
            damaged = {line.path.name for line in index.damage.values()}
            if damaged and not source.run.problem:
                self._warn_of(folder, len(index.damage), damaged)
            for name, found in files.items():
                path = folder / name
                if not is_plain(path):
                    continue
                stages = [ASK] if name == RECORDS else scorers
                filtered = name != CALLS and (source.grows or not index.every_line_counts(name, stages))
                if name in damaged:
                    path = self._copies / f"{source.number}-{name}"
                    copy_intact_lines(folder / name, path)
                elif _GLOB.intersection(str(path)):
                    # DuckDB would take the path for a pattern, and has no way to say that it is none.
                    path = self._copies / f"{source.number}-{name}"
                    path.unlink(missing_ok=True)
                    path.symlink_to(folder / name)
                found.append(_File(path, source, filtered))
                if filtered:
                    self._count(name, path, source, [index.stage(stage) for stage in stages])
        self._list_files([file for group in files.values() for file in group])
        return files

    def _verified_calls(self, file: _File) -> _File:
        """Return the calls of a run, or a copy of their intact lines.

        Calls are verified apart from the other files: they are the longest, and most queries do not read them.
        """
        folder = file.source.run.folder
        path = folder / CALLS
        index = RunIndex.of_run(folder)
        # A file whose damage is known is a copy already.
        is_copy = file.path.parent == self._copies and not file.path.is_symlink()
        if is_copy or is_unchanged(path, index.positions[CALLS], run_id(folder)):
            return file
        forget_sidecars(folder)
        damage = [line for line in RunIndex.of_run(folder, verify=True).damage.values() if line.path == path]
        self._warn_of(folder, len(damage), [CALLS])
        copy = self._copies / f"{file.source.number}-{CALLS}"
        copy.unlink(missing_ok=True)
        copy_intact_lines(path, copy)
        self._connection.execute(
            "update journal_files set filename = ? where filename = ?", [str(copy), str(file.path)]
        )
        return file._replace(path=copy)

    def _warn_of(self, folder: Path, count: int, files: Iterable[str]) -> None:
        self._warn(
            f"{folder} is damaged: {count:,} {'line' if count == 1 else 'lines'} of {', '.join(sorted(files))} left "
            f"out, with the cases that need them. `assay check {folder}` lists the damage"
        )

    def _list_files(self, files: Sequence[_File]) -> None:
        rows = []
        for path, source, _ in files:
            info = source.run.info
            texts = ", ".join(map(literal, (str(path), source.name, info.suite, info.score_parts)))
            rows.append(f"({texts}, {source.number}, {info.imported is not None})")
        self._connection.execute(
            "create or replace table journal_files("
            "filename varchar, run varchar, suite varchar, parts varchar, number integer, imported boolean)"
        )
        if rows:
            self._connection.execute(f"insert into journal_files values {', '.join(rows)}")

    def _count(self, name: str, path: Path, source: RunSource, stages: Sequence[StageIndex]) -> None:
        """Add the counting lines of one file to `counted`: the last end of each case, and the lines that it commits."""
        import numpy as np

        ends = []
        for stage in stages:
            if stage.codes:
                has_ended = np.frombuffer(stage.codes, dtype=np.uint8) != 0
                ends.append(np.asarray(stage.offsets)[has_ended])
        if not ends:
            return
        self._connection.register("ends", {"at": np.concatenate(ends)})
        columns = "{'lines': 'BIGINT[]', 'end': 'STRUCT(lines BIGINT[])', 'at': 'BIGINT'}"
        size = f", maximum_object_size = {self.max_line_bytes}" if self.max_line_bytes else ""
        self._connection.execute(
            f"""insert into counted
            select {literal(name)}, {source.number},
              unnest(list_append(coalesce("end".lines, lines, []), "at"))
            from read_json({literal(str(path))}, format = 'newline_delimited', ignore_errors = true,
              columns = {columns}{size})
            where "at" in (select "at" from ends)"""
        )
        self._connection.unregister("ends")


def _verified_index(folder: Path) -> RunIndex:
    """Return the index of a run after verifying every line of its records and scores.

    A damaged line that a sidecar covers is not counted, as if there were no sidecar.
    """
    index, run = RunIndex.of_run(folder), run_id(folder)
    if all(is_unchanged(folder / name, index.positions[name], run) for name in (RECORDS, SCORES)):
        return index
    forget_sidecars(folder)
    return RunIndex.of_run(folder, verify=True)


def literal(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def refuse_links(sources: Iterable[RunSource]) -> None:
    """Raise UsageError if a journal file is a link: it could lead out of the folders that the user named."""
    for source in sources:
        for path in source.paths():
            if path.is_symlink():
                raise UsageError(
                    f"{path} is a link. SQL reads only files inside the run folders; replace the link by the file"
                )
