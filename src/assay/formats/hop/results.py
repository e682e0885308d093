"""Reads result files of HOP for `assay import`: flat rows of `batchhoptest`, records of the View, or a mixture.

A row of the file becomes a case with the key that a run of assay gives the same row, so `assay compare` pairs them.
Every number is computed as in a run: the expected values are in the rows, and the contract of the task is found beside
the file. Times and the steps' details come from `observer.jsonl` beside the file, if the file has one profile.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from assay.core.errors import InputError, Problem
from assay.core.imported import UNPLACED, ImportedCase, ImportedRun, ImportPlan, imported_scorer
from assay.core.report import Report
from assay.core.types import Failure, Record
from assay.files.read import BY_PROGRAMS, BrokenJson, Line, decode, decode_json, json_lines, too_deep
from assay.files.result_lines import ResultLines
from assay.suites.hop.batch_lines import file_status, is_meta, is_observer_line, is_pair
from assay.suites.hop.contract import Contract, read_contract
from assay.suites.hop.observer_log import FILE_NAME, ObservedCall, ObserverLog
from assay.suites.hop.result_folder import contract_file_beside, file_result, results_folder
from assay.suites.hop.rows import HopRow, RowReader
from assay.suites.hop.scorer import NOT_RUN, check_row, row_score
from assay.suites.hop.store.audit import Audit, read_audit, read_json
from assay.suites.hop.tally import NO_PROFILE, HopTally, RowResult

FORMAT = "hop"
ROW = "row"
"""The kind of the first record of an imported case: the row without its result, so that the run can be exported."""
_SCORER = imported_scorer("hop")
# assay names a result file after its data: `<data>_<YYYYmmdd_HHMMSS>.jsonl`.
_FILE_NAME = re.compile(r"(?P<data>.+)_(?P<when>\d{8}_\d{6})(_view)?\.jsonl")
_MAX_LISTED = 5
_MAX_DIGITS = 18
# As `suites/hop/result.py` writes results.
_encode = json.JSONEncoder(ensure_ascii=False).encode


def find_results(path: Path) -> ImportedRun | None:
    """Return the results at a path: a result file, or a task or `TestCases/` with one result file.

    Returns None if the path has no result file. Raises InputError if a folder has several, and for an observer's log.
    """
    if path.is_dir():
        folder = results_folder(path)
        # A named pipe beside the results must not keep the import waiting.
        paths = [each for each in sorted(folder.glob("*.jsonl")) if each.is_file()]
        files = [file for file in paths if _is_result(_first_value(file))]
        if len(files) > 1:
            names = ", ".join(map(str, files[:_MAX_LISTED])) + (", …" if len(files) > _MAX_LISTED else "")
            raise InputError(Problem(str(path), f"has {len(files)} result files. Import each one: {names}"))
        return HopRun(files[0]) if files else None
    if path.suffix != ".jsonl":
        return None
    first = _first_value(path)
    if isinstance(first, dict) and is_observer_line(first):
        raise InputError(Problem(str(path), "is the log of an observer; import the result file of the batch instead"))
    return HopRun(path) if _is_result(first) else None


class HopRun(ImportedRun):
    """The results of one result file."""

    def __init__(self, path: Path) -> None:
        yaml = contract_file_beside(path)
        self._contract = read_contract(yaml) if yaml is not None else Contract()
        self._reader = RowReader(self._contract)
        self._lines = ResultLines(path)
        self._profiles = _Profiles(path)
        self._facts: Counter[str] = Counter()
        self._index()
        name = _FILE_NAME.fullmatch(path.name)
        started = self._profiles.started or _time_in_name(name)
        files = [path] if yaml is None else [path, yaml.path]
        self._observer: ObserverLog | None = None
        observer = path.with_name(FILE_NAME)
        subjects = self._lines.subjects
        if observer.is_file() and len(subjects) == 1:
            self._observer = ObserverLog(observer, started)
            files.append(observer)
        self._set = name["data"] if name else path.stem
        self._tally = HopTally(self._contract.outputs)
        self._count = 0
        models = {self._profiles.models.get(subject, "") for subject in subjects}
        super().__init__(
            ImportPlan(
                format=FORMAT,
                suite="hop",
                files=files,
                total=self._lines.count,
                model=models.pop() if len(models) == 1 else "",
                subjects=subjects,
                scorers=[_SCORER],
                started=started,
                missing=self._missing(has_contract=yaml is not None),
                facts={
                    "rows": self._lines.row_count,
                    "profiles": subjects,
                    "set": self._set,
                    "meta": self._profiles.lines,
                },
            )
        )

    def _missing(self, *, has_contract: bool) -> list[str]:
        """Return what the file does not say, in short words."""
        facts, count = self._facts, self._lines.count
        missing = ["model calls", "tokens"]
        if self._observer is None:
            missing.append("times")
        elif self._observer.count < count:
            missing.append("times of some rows")
        if facts["without stats"]:
            missing.append(f"steps and retries ({facts['without stats']:,} of {count:,} rows)")
        if not has_contract:
            missing.append("the contract of the task (bands and tolerances of its outputs)")
        if facts["without profile"]:
            missing.append("profiles")
        if facts["without id"]:
            missing.append(f"ids ({facts['without id']:,} of {count:,} rows are numbered instead)")
        if facts["without inputs"]:
            missing.append(f"inputs ({facts['without inputs']:,} of {count:,} rows)")
        if facts["errors"]:
            missing.append("whether the function or its model failed; every error counts as the function's")
        return missing

    def _index(self) -> None:
        """Note the place of every result. Raises InputError at the first line that cannot be imported."""
        path = self._lines.path
        seen: dict[str, tuple[str, int]] = {}  # by id: the key of the row, and its line
        numbers: Counter[str] = Counter()
        for line in json_lines(path, BY_PROGRAMS):
            where = f"{path}:{line.number}"
            value = decode_json(line.raw, where)
            if isinstance(value, dict) and (is_meta(value) or is_observer_line(value)):
                continue
            audit = self._audit(value, where)
            profile = self._profiles.of(audit, line.number)
            numbers[profile] += 1
            row = self._row(value, audit, numbers[profile], where)
            key, earlier = seen.setdefault(str(row.id), (row.key, line.number))
            self._facts["without id"] += _id(value, audit) is None
            if key != row.key:
                message = f"line {earlier} has the same id {str(row.id)!r} with other inputs"
                if self._facts["without id"]:
                    message += "; a row without an id has its number as id, so give every row an id"
                raise InputError(Problem(where, message))
            repeated = self._lines.add(str(row.id), profile, line)
            if repeated:
                raise InputError(
                    Problem(
                        where,
                        f"line {repeated} has a result of the same row and profile; "
                        "split the file so that each one has the results of one batch",
                    )
                )
            self._facts["without stats"] += not audit.stats
            self._facts["without profile"] += profile == NO_PROFILE
            self._facts["without inputs"] += not row.fields
            self._facts["errors"] += audit.failed
        if not self._lines.count:
            raise InputError(Problem(str(path), "has no result rows, only meta lines"))

    def _audit(self, value: Any, where: str) -> Audit:
        """Return the result of a line. Raises InputError if the line has none, or a result that is too deep."""
        if not isinstance(value, (dict, list)):
            raise InputError(Problem(where, "expected an object with `hop_result`, or `input` with `result`"))
        if isinstance(value, dict):
            for name in ("hop_result", "result"):
                text = value.get(name)
                # The text is decoded later. Here it is only refused if it is nested too deeply to be stored.
                if isinstance(text, str) and text.count("[") + text.count("{") > BY_PROGRAMS.levels:
                    _refuse_deep(text, f"{where} $.{name}")
        audit = read_audit(value, self._contract.audit_key)
        if audit is None:
            message = "has no result: expected `hop_result`, or `input` with `result` or `error`"
            raise InputError(Problem(where, message))
        return audit

    def _row(self, value: Any, audit: Audit, number: int, where: str) -> HopRow:
        """Return the row of a line. A row without an id has its number among the rows of its profile as its id.

        That is the id which a run of assay gives the row too, unless its data file has other lines between the rows.
        """
        if isinstance(value, list):
            record: dict[str, Any] | None = {}
        else:
            try:
                record = self._reader.record(value)
            except ValueError as error:
                raise InputError(Problem(where, str(error))) from None
        if record is None:
            raise InputError(Problem(where, "its `input` is a meta line or a line of an observer's log"))
        if "result" in record and "result" not in audit.row:
            # A plain row: its `result` is the answer and no input.
            record = {key: item for key, item in record.items() if key != "result"}
        id_ = record.get("id")
        if id_ is not None and "id" not in self._contract.inputs and not _is_id(id_):
            raise InputError(Problem(f"{where} $.id", "expected a whole number or a text"))
        return self._reader.row(record, number)

    def cases(self) -> Iterator[ImportedCase]:
        """Yield the rows in the order of the file, each with all its profiles, and add them to the numbers."""
        for id_, lines in self._lines.rows():
            for profile, line in lines:
                yield self._case(id_, profile, line)

    def _case(self, id_: str, profile: str, line: Line) -> ImportedCase:
        where = f"{self._lines.path}:{line.number}"
        value = decode_json(line.raw, where)
        audit = self._audit(value, where)
        row = self._row(value, audit, row_number(id_), where)
        answer = None if audit.failed else _answer(value, audit)
        call = self._observed(row, audit, answer)
        result = replace(
            file_result(audit),
            profile=profile,
            id=row.id,
            index=self._count,
            seconds=call.seconds if call else None,
        )
        if call and call.steps:
            result = replace(result, steps=call.steps)
        verdict = check_row(row.expected, None if audit.failed else audit.fields, self._contract.outputs)
        self._tally.add(result, verdict)
        self._count += 1
        failure = None
        if audit.failed:
            failure = Failure("not_run" if result.error == NOT_RUN else "user_code", result.error)
        scored = failure is None or failure.status == "subject_error"
        return ImportedCase(
            key=row.key,
            set=self._set,
            subject=profile,
            label=str(row.id),
            tags=(result.tag,),
            failure=failure,
            records=[
                Record(*UNPLACED, try_=1, kind=ROW, data=row.record),
                *_records(result, answer),
            ],
            scores=[row_score(UNPLACED, _SCORER, row, audit, verdict)] if scored else [],
            seconds=result.seconds or 0.0,
        )

    def _observed(self, row: HopRow, audit: Audit, answer: _Answer | None) -> ObservedCall | None:
        if self._observer is None:
            return None
        result = audit.error
        if answer is not None:
            try:
                result = read_json(answer.text)
            except (ValueError, RecursionError):
                result = answer.text
        return self._observer.find(row.fields, result)

    def report(self) -> Report:
        """Return the numbers, with the profiles in the order of the file."""
        report = self._tally.report()
        order = {name: place for place, name in enumerate(self.plan.subjects)}
        return replace(report, entries=sorted(report.entries, key=lambda entry: order[entry.name]))


class _Profiles:
    """The profiles in the meta lines of a file, and to which of them a row without a profile belongs.

    With one profile, it is that one. With several, it is the profile of the meta line above the row, if the file has
    one meta line above the rows of each profile, as assay writes it. Else it is unknown.
    """

    def __init__(self, path: Path) -> None:
        self.lines: list[dict[str, Any]] = []
        self.models: dict[str, str] = {}
        self.started: float | None = None
        self._meta_lines: list[tuple[int, str]] = []
        last_is_meta = False
        self._is_sectioned = True
        for line in json_lines(path, BY_PROGRAMS):
            # Decoding only the lines that can be meta lines makes this pass cheap.
            value = decode_json(line.raw, f"{path}:{line.number}") if b'"_type"' in line.raw else None
            if isinstance(value, dict) and is_meta(value):
                self._add(value, line.number)
                self._is_sectioned &= not last_is_meta
                last_is_meta = True
            else:
                self._is_sectioned &= bool(self._meta_lines)
                last_is_meta = False
        self._next = 0

    def _add(self, meta: dict[str, Any], number: int) -> None:
        profile = meta.get("profile")
        profile = profile if isinstance(profile, str) and profile else NO_PROFILE
        self._meta_lines.append((number, profile))
        self.lines.append(meta)
        model = meta.get("run_llm")
        if isinstance(model, str):
            self.models[profile] = model
        began = _timestamp(meta.get("timestamp"))
        if began is not None and (self.started is None or began < self.started):
            self.started = began

    def of(self, audit: Audit, number: int) -> str:
        """Return the profile of the result in a line. Lines must be asked for in the order of the file."""
        while self._next < len(self._meta_lines) and self._meta_lines[self._next][0] < number:
            self._next += 1
        if audit.profile:
            return audit.profile
        profiles = {profile for _, profile in self._meta_lines}
        if len(profiles) == 1:
            return next(iter(profiles))
        return self._meta_lines[self._next - 1][1] if profiles and self._is_sectioned else NO_PROFILE


class _Answer(NamedTuple):
    """A result as the records of a run have it: the function's status, and the result as JSON text."""

    status: str
    text: str


def _answer(value: Any, audit: Audit) -> _Answer:
    """Return the answer in a line that is no error."""
    result = value
    if isinstance(value, dict):
        result = value.get("hop_result", value.get("result", audit.fields))
    status = audit.outcome or "OK"
    if isinstance(result, str):
        try:
            decoded = read_json(result)
        except (ValueError, RecursionError):
            # With a status, a run has a plain text as JSON too, and writes `[status, text]`.
            return _Answer(status, result if status == "OK" else _encode(result))
        if not is_pair(decoded):
            return _Answer(status, result)
        prefix = f"[{_encode(decoded[0])}, "
        if result.startswith(prefix) and not isinstance(decoded[1], str):
            return _Answer(file_status(decoded[0]), result[len(prefix) : -1])  # byte for byte
        result = decoded
    if is_pair(result):
        status, result = file_status(result[0]), result[1]
        # HOP's own pairs have the result as JSON text, assay's as a value.
        if isinstance(result, str) and result.lstrip()[:1] in ("{", "["):
            return _Answer(status, result)
    return _Answer(status, _encode(result))


def _records(result: RowResult, answer: _Answer | None) -> list[Record]:
    records = [
        Record(*UNPLACED, try_=1, kind="step", part=str(number), data=_step_data(step, number))
        for number, step in enumerate(result.steps, 1)
    ]
    if answer is not None:
        data = {"status": answer.status, "result": answer.text}
        records.append(Record(*UNPLACED, try_=1, kind="answer", data=data))
    return records


def _step_data(step: dict[str, Any], number: int) -> dict[str, Any]:
    """Return a step with the keys and types that `assay show` needs. The file may have anything there."""
    data = {**step, "step": step.get("step", number), "op": str(step.get("op", ""))}
    data["status"] = str(step.get("status", ""))
    if "task" in step:
        data["task"] = str(step["task"])
    for name, kind in (("duration", (int, float)), ("retry_count", int), ("metadata", dict)):
        if name in data and not isinstance(data[name], kind):
            del data[name]
    return data


def _first_value(path: Path) -> Any:
    """Return the value of the first line, or None if the line is not JSON.

    A line with a HOP key that cannot be read counts as a result, so that the import names what is wrong with it.
    """
    for line in json_lines(path, BY_PROGRAMS):
        try:
            return decode_json(line.raw, str(path))
        except InputError:
            return {"hop_result": None} if b'"hop_result"' in line.raw else None
    return None


def _is_result(value: Any) -> bool:
    if isinstance(value, dict) and is_meta(value):
        return True
    return isinstance(value, (dict, list)) and read_audit(value) is not None


def row_number(id_: str) -> int:
    """Return the number of a row without an id, which is its id then; 0 for any other id."""
    # Python refuses to read numbers with thousands of digits, and a text id may be one.
    return int(id_) if id_.isdecimal() and len(id_) <= _MAX_DIGITS else 0


def _id(value: Any, audit: Audit) -> Any:
    found = audit.row.get("id")
    return value.get("id") if found is None and isinstance(value, dict) else found


def _is_id(value: Any) -> bool:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return is_number or (isinstance(value, str) and bool(value.strip()))


def _refuse_deep(text: str, where: str) -> None:
    """Raise InputError if a text is JSON that is nested too deeply. Other texts are results too."""
    try:
        decode(text.encode("utf-8", "replace"), BY_PROGRAMS)
    except BrokenJson as error:
        if error.reason == too_deep(BY_PROGRAMS.levels):
            raise InputError(Problem(where, error.reason)) from None


def _timestamp(value: Any) -> float | None:
    """Return the seconds of an ISO time, which has no zone and is local, or of a number."""
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError):
            return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and isfinite(value) and value > 0 else None


def _time_in_name(name: re.Match[str] | None) -> float | None:
    if name is None:
        return None
    try:
        return time.mktime(time.strptime(name["when"], "%Y%m%d_%H%M%S"))
    except (ValueError, OverflowError):
        return None
