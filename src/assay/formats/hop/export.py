"""Writes a run as a task folder of HOP, for `assay export RUN --to hop`.

    TARGET/TestCases/<data>_<time>.jsonl     the result file, in the flat form
    TARGET/TestCases/observer.jsonl          the time and the steps of each row
    TARGET/Hoplet/metainfo.md                the contract, if the run has one

`assay import TARGET` gives the numbers of the run again: bands and tolerances need the contract, times the log.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec

from assay.core.errors import InputError, Problem
from assay.core.exported import ExportedRun, Exporter
from assay.core.hashing import file_sha256
from assay.core.suite_pages import StoredCase
from assay.files.read import BY_PROGRAMS, decode_json, json_lines
from assay.formats.hop.results import ROW, row_number
from assay.suites.hop.batch_lines import RESULT_KEYS, is_meta, result_file_name
from assay.suites.hop.contract import MARKDOWN, YAML_NAMES, Contract, contract_file, read_contract
from assay.suites.hop.observer_log import FILE_NAME
from assay.suites.hop.result import FAIL, OK
from assay.suites.hop.result_file import ResultFile
from assay.suites.hop.rows import HopRow, RowReader
from assay.suites.hop.store.audit import read_json
from assay.suites.hop.tally import RowResult, case_result
from assay.suites.hop.target import HOPLET, TEST_CASES

_STEP_KEYS = ("timestamp", "step", "op", "task", "status", "duration", "retry_count", "metadata")
_encode = msgspec.json.Encoder().encode


class HopExporter(Exporter):
    """Writes a task folder with the results of the run."""

    def refusal(self, run: ExportedRun) -> str:
        """Refuse runs of other suites, and a run of assay whose result file is gone: the journal has no inputs."""
        if run.about.suite != "hop":
            return "only hop runs have rows for a function. `--to json` writes a table of any run"
        gone = [path for path in run.about.files if not path.is_file()]
        if gone:
            return f"its result file {gone[0]} is gone. Repeat the command of the run, which writes it again"
        return ""

    def loses(self, run: ExportedRun) -> list[str]:
        """Return what HOP's files have no place for."""
        lost = []
        if run.about.imported is None:
            lost = ["model calls", "tokens", "whether the function or its model failed"]
        tables = {table.name for entry in run.report.entries for table in entry.tables}
        if "seconds" in tables and len(run.about.facts["profiles"]) > 1:
            lost.append("times: the observer's log names no profile")
        if _contract_path(run) is None and any(name.startswith("bands ") for name in tables):
            lost.append("the contract of the task, which was not found")
        return lost

    def write(self, run: ExportedRun, target: Path) -> list[Path]:
        """Write the result file, the log and the contract."""
        folder = target / TEST_CASES
        folder.mkdir()
        facts, started = run.about.facts, run.about.started
        contract = Contract()
        files = []
        if (source := _contract_path(run)) is not None:
            copy = target / HOPLET / source.name
            copy.parent.mkdir()
            shutil.copyfile(source, copy)
            files.append(copy)
            if (yaml := contract_file(copy.parent)) is not None:
                contract = read_contract(yaml)
        own = _OwnFile(run, contract)
        overwritten = [name for name in RESULT_KEYS if name in contract.inputs]
        path = folder / result_file_name(Path(f"{facts['set']}.jsonl"), started)
        log_path = folder / FILE_NAME
        with ResultFile(path, "view" if overwritten else "flat", started) as result_file, log_path.open("wb") as log:
            for profile in facts["profiles"]:
                # One pass for each profile: the file has the rows of a profile together, the run those of a row.
                result_file.copy_meta(own.meta.get(profile, {"_type": "meta", "profile": profile}))
                for case in run.cases(calls=False):
                    if case.end.subject == profile:
                        row = own.row(case)
                        result = case_result(case.end, case.records, row, profile, case.end.index)
                        result_file.row(row, result)
                        if len(facts["profiles"]) == 1:
                            log.write(_log_lines(facts["set"], started, row, result, case.answer))
        if log_path.stat().st_size:
            files.append(log_path)
        else:
            log_path.unlink()
        return [path, *files]


class _OwnFile:
    """The rows and meta lines of a run: from its result file, or of an imported run from its journal."""

    def __init__(self, run: ExportedRun, contract: Contract) -> None:
        self._reader = RowReader(contract)
        self._records: dict[str, dict[str, Any]] = {}
        self.meta: dict[str, dict[str, Any]] = {}
        for meta in run.about.facts.get("meta", ()):
            self.meta[str(meta.get("profile"))] = meta
        self._path = run.about.folder
        for path in run.about.files:
            self._path = path
            for line in json_lines(path, BY_PROGRAMS):
                value = decode_json(line.raw, f"{path}:{line.number}")
                if not isinstance(value, dict):
                    continue
                if is_meta(value):
                    self.meta[str(value.get("profile"))] = value
                elif (record := self._reader.record(value)) is not None:
                    row = self._reader.row(record, line.number)
                    self._records[str(row.id)] = row.record

    def row(self, case: StoredCase) -> HopRow:
        """Return the row of a case."""
        label = case.end.label
        record = next((each.data for each in case.records if each.kind == ROW), None)
        if record is None:
            record = self._records.get(label)
        if record is None:
            message = f"has no row {label!r}. Repeat the command of the run, which writes the file again"
            raise InputError(Problem(str(self._path), message))
        return self._reader.row(record, row_number(label))


def _log_lines(hoplet: str, started: float, row: HopRow, result: RowResult, answer: Any) -> bytes:
    """Return the lines of one call. A row whose time is not known has none."""
    if not result.seconds:
        return b""
    run = {"run_id": f"{result.index or 0:032x}", "timestamp": started}
    records: list[dict[str, Any]] = [{"type": "run_start", **run, "hoplet": hoplet, "input": row.fields}]
    for step in result.steps:
        known = {key: step[key] for key in _STEP_KEYS if key in step}
        records.append({"type": "step", **run, **known})
    end = {"type": "run_end", **run, "duration": result.seconds}
    if result.ok:
        try:
            value = read_json(answer["result"])
        except (ValueError, RecursionError):
            value = answer["result"]  # a text of another tool that is not JSON
        # As in HOP's tracer, the status is that of the last step.
        status = result.steps[-1].get("status", OK) if result.steps else OK
        records.append({**end, "status": status, "result": value})
    else:
        records.append({**end, "status": FAIL, "metadata": {"error": result.error}})
    return b"".join(_encode(record) + b"\n" for record in records)


def _contract_path(run: ExportedRun) -> Path | None:
    """Return the contract of a run: the file that was imported with it, or that of its function.

    The function is not loaded. The contract of a function in an installed module is not found.
    """
    if run.about.imported is not None:
        for file in run.about.imported.files:
            path = Path(file.path)
            is_contract = path.name in (MARKDOWN, *YAML_NAMES)
            if is_contract and path.is_file() and file_sha256(path) == file.sha256:
                return path
        return None
    target = str(run.about.spec.get("options", {}).get("target") or "")
    code = Path(target.rpartition(":")[0] if ".py:" in target else target)
    folders = (code / HOPLET, code) if code.is_dir() else (code.parent,) if code.suffix == ".py" else ()
    for folder in folders:
        try:
            yaml = contract_file(folder) if folder.is_dir() else None
        except InputError:
            yaml = None  # edited since the run, and broken
        if yaml is not None:
            return yaml.path
    return None
