"""The report of existing result files, for `assay hop --analyse`: rates, field statistics and times by profile.

    result = report_on_files([Path("Tasks/Verify")], profiles=["fast"])
    result.files                # the newest result file of the task
    result.report.entries       # a profile each

Result files of HOP, of its View and of assay are read alike. Times come from `observer.jsonl` beside a file.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from assay.core.errors import UsageError, unknown
from assay.core.report import Report, Table
from assay.files.read import json_lines
from assay.scoring.statistics import percentiles
from assay.suites.hop.batch_lines import VIEW_SUFFIX, expectations, function_fields, is_meta, is_observer_line
from assay.suites.hop.contract import Contract
from assay.suites.hop.observer_log import FILE_NAME, ObserverLog
from assay.suites.hop.result_folder import contract_of, file_result, results_folder, store_of
from assay.suites.hop.scorer import check_row
from assay.suites.hop.store import FieldStats
from assay.suites.hop.store.audit import Audit, read_audit, read_json
from assay.suites.hop.tally import NO_PROFILE, HopTally
from assay.suites.hop.target import find_task, task_names

_TIME_IN_NAME = re.compile(r"_(\d{8}_\d{6})(?:_view)?$")
_MAX_LISTED = 5  # values of a distribution, lines and files in a sentence


class FileReport(Struct, kw_only=True):
    """A report on result files. `files` are counted, `not_counted` are older results of the same folder."""

    files: list[str]
    not_counted: list[str]
    stats: dict[str, dict[str, Any]]
    """By profile: the statistics of the data store, `get_stats` of `BaseDataStore`."""
    report: Report

    def as_json(self) -> str:
        """Return the whole report as one JSON document."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()


def analyse(path: Path | str, target: str = "", profiles: Collection[str] = (), *, all_files: bool = False) -> Report:
    """Return the report of a result file, or of the newest one of a folder or a task. Files of other tools work too.

    With `all_files`, every result file of the folder counts.
    """
    return report_on_files([Path(path)], target, profiles, all_files=all_files).report


def report_on_files(
    paths: Sequence[Path], target: str = "", profiles: Collection[str] = (), *, all_files: bool = False
) -> FileReport:
    """Return the report of files, of a folder, or of a task's `TestCases/`.

    Of a folder the newest result file with one of the profiles counts, or every result file with `all_files`. Raises
    UsageError if there is no result, or none of a profile.
    """
    builder = _ReportBuilder(paths, target, profiles)
    builder.read(all_files=all_files)
    return builder.result()


class _ReportBuilder:
    def __init__(self, paths: Sequence[Path], target: str, profiles: Collection[str]) -> None:
        self._paths = [results_folder(find_task(str(path)) or path) for path in paths]
        for path in self._paths:
            if not path.exists():
                raise UsageError(unknown("file, folder or task", str(path), task_names()))
        self._contract = contract_of(self._paths[0], target)
        self._profiles = list(dict.fromkeys(profiles))
        self._files: list[Path] = []
        self._not_counted: list[Path] = []
        self._notices: list[str] = []
        self._starts: list[float] = []  # of all result files, to divide the observer's log among them
        self._known: list[str] = []  # profiles of all result files
        self._rows: dict[str, Counter[str]] = {}  # by profile: the rows of each file
        self._tally = HopTally(self._contract.outputs)

    def read(self, *, all_files: bool) -> None:
        """Choose the files and count their rows."""
        for path in self._paths:
            if path.is_file():
                self._files.append(path)
                self._starts.append(_started(path)[0])
                self._known += _profiles_in(path, self._contract)
                continue
            files = sorted(filter(Path.is_file, path.glob("*.jsonl")), key=_started, reverse=True)
            with_results = []
            for file in files:
                if names := _profiles_in(file, self._contract):
                    self._known += names
                    self._starts.append(_started(file)[0])
                    with_results.append((file, names))
            view_stems = {f"{file.stem}{VIEW_SUFFIX}" for file, _ in with_results}
            chosen = [
                file
                for file, names in with_results
                if file.stem not in view_stems and (not self._profiles or set(names) & set(self._profiles))
            ]
            chosen = chosen if all_files else chosen[:1]
            self._files += chosen
            self._not_counted += [file for file, _ in with_results if file not in chosen]
        for name in self._profiles:
            if self._known and name not in self._known:
                raise UsageError(unknown("profile", name, list(dict.fromkeys(self._known))))
        for file in self._files:
            self._read_file(file)
        if not self._tally.profiles:
            raise UsageError(f"{', '.join(map(str, self._paths))} has no result rows")
        for name in self._profiles:
            if name not in self._tally.profiles:
                counted = ", ".join(file.name for file in self._files)
                raise UsageError(f"{counted} has no rows of the profile {name!r}; --all counts older files too")

    def _read_file(self, file: Path) -> None:
        observer = file.with_name(FILE_NAME)
        log = None
        if observer.is_file():
            since = _started(file)[0]
            until = min((start for start in self._starts if start > since), default=None)
            log = ObserverLog(observer, since, until)
            if not log.count and until is None:
                # The times of a result file are local times, and the file may come from another time zone.
                log = ObserverLog(observer, None)
        timed, bad, other = 0, list[int](), list[int]()
        for line in json_lines(file):
            try:
                value = read_json(line.raw)
            except (ValueError, RecursionError):
                bad.append(line.number)
                continue
            audit = read_audit(value, self._contract.audit_key) if isinstance(value, (dict, list)) else None
            if audit is None:
                if not (isinstance(value, dict) and (is_meta(value) or is_observer_line(value))):
                    other.append(line.number)
                continue
            profile = audit.profile or NO_PROFILE
            if not self._profiles or profile in self._profiles:
                timed += self._add(audit, log)
                self._rows.setdefault(profile, Counter())[str(file)] += 1
        self._notices += _line_notices(file, bad, "cannot be read as JSON")
        self._notices += _line_notices(file, other, "has no result", "have no result")
        if log is not None and not timed and log.count:
            seconds = percentiles(log.seconds)
            times = f"p50 {seconds['p50']:.4g} s, p95 {seconds['p95']:.4g} s" if seconds["n"] else "no durations"
            self._notices.append(
                f"{observer}: none of its {log.count:,} calls has the input and the result of a row, so they are in no "
                f"table; over all of them: {times}"
            )

    def _add(self, audit: Audit, log: ObserverLog | None) -> bool:
        """Count a row. Returns whether the observer's log has its time."""
        contract = self._contract
        result = file_result(audit)
        call = None
        if log is not None:
            answer = audit.error if audit.failed else audit.raw or audit.fields
            fields = function_fields(audit.row, tuple(contract.inputs))
            call = log.take(fields, answer, audit.profile or "")
            if call is None and audit.outcome:
                call = log.take(fields, [audit.outcome, answer], audit.profile or "")
        if call is not None:
            result = replace(result, seconds=call.seconds, steps=call.steps or result.steps)
        expected = expectations(audit.row, tuple(contract.inputs))
        outputs = None if audit.failed else audit.fields
        self._tally.add(result, check_row(expected, outputs, contract.outputs))
        return call is not None

    def result(self) -> FileReport:
        """Return the report, with the statistics of the fields and the files of every profile."""
        store = store_of(self._files[0].parent, self._contract, self._files)
        report = replace(self._tally.report(), differences=self._tally.differences())
        stats = {}
        for entry in report.entries:
            profile, no_profile = (None, True) if entry.name == NO_PROFILE else (entry.name, False)
            stats[entry.name] = store.get_stats(profile, without_profile=no_profile)
            if fields := store.field_stats(profile, without_profile=no_profile):
                entry.tables.insert(0, _field_table(fields))
            counts = self._rows[entry.name].items()
            files = ", ".join(f"{name} ({count:,} {'row' if count == 1 else 'rows'})" for name, count in counts)
            entry.notes.append(f"counted {files}")
        if self._not_counted:
            names = ", ".join(path.name for path in self._not_counted[:_MAX_LISTED])
            more = ", …" if len(self._not_counted) > _MAX_LISTED else ""
            count = len(self._not_counted)
            files = "1 other result file is" if count == 1 else f"{count:,} other result files are"
            self._notices.append(f"{files} not counted: {names}{more}. Name files, or pass --all, to count more")
        report.notices.extend(self._notices)
        return FileReport(
            files=[str(path) for path in self._files],
            not_counted=[str(path) for path in self._not_counted],
            stats=stats,
            report=report,
        )


def _field_table(fields: Sequence[FieldStats]) -> Table:
    rows: list[list[str | int | float | None]] = []
    for stats in fields:
        value: str | float | None = stats.value
        if stats.field.agg_type == "distribution":
            counts = [f"{_short(each)} {count:,}" for each, count in stats.counts[:_MAX_LISTED]]
            value = ", ".join([*counts, "…"] if len(stats.counts) > _MAX_LISTED else counts)
        rows.append([stats.field.field_name, stats.field.agg_type.replace("_", " "), value, stats.of])
    return Table(
        name="fields",
        title="output fields",
        columns=["field", "statistic", "value", "of rows"],
        rows=[list(row) for row in rows],
        note="A rate counts all rows; one without the field counts as false. The others count the rows with a value.",
    )


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 40 else f"{text[:39]}…"


def _line_notices(file: Path, lines: list[int], one: str, several: str = "") -> Iterator[str]:
    if lines:
        numbers = ", ".join(map(str, lines[:_MAX_LISTED])) + (", …" if len(lines) > _MAX_LISTED else "")
        if len(lines) == 1:
            yield f"{file}: 1 line {one} and was left out: line {numbers}"
        else:
            yield f"{file}: {len(lines):,} lines {several or one} and were left out: lines {numbers}"


def _profiles_in(file: Path, contract: Contract) -> list[str]:
    """Return the profiles of a file's results, each once. Empty if the file has no results."""
    names: dict[str, None] = {}
    for line in json_lines(file):
        try:
            value = read_json(line.raw)
        except (ValueError, RecursionError):
            continue
        audit = read_audit(value, contract.audit_key) if isinstance(value, (dict, list)) else None
        if audit is not None:
            names[audit.profile or NO_PROFILE] = None
    return list(names)


def _started(file: Path) -> tuple[float, str]:
    """Return when the batch of a file began, and the file's name to order files of the same second.

    The time is in the name, else in a meta line on the first line; else it is that of the last change.
    """
    for text, form in ((_name_time(file), "%Y%m%d_%H%M%S"), (_meta_time(file), "%Y-%m-%dT%H:%M:%S")):
        try:
            return time.mktime(time.strptime(text, form)), file.name
        except (ValueError, OverflowError):
            continue
    return file.stat().st_mtime, file.name


def _name_time(file: Path) -> str:
    match = _TIME_IN_NAME.search(file.stem)
    return match[1] if match else ""


def _meta_time(file: Path) -> str:
    first = next(json_lines(file), None)
    try:
        value = read_json(first.raw) if first else None
    except (ValueError, RecursionError):
        return ""
    timestamp = value.get("timestamp") if isinstance(value, dict) and is_meta(value) else None
    return timestamp[:19] if isinstance(timestamp, str) else ""
