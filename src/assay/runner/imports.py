"""`assay import`: makes run folders of the results of other programs.

    run = assay.import_results("results_2026-11-15T18-25-44.json")

The cases go through the journal like those of a native run. The folder gets its final name when it is complete, so an
import that fails or is killed leaves no run behind.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

import assay
from assay.core.errors import InputError, Problem, UsageError, cannot_write, unknown, unreadable
from assay.core.hashing import file_sha256, fingerprint, request_hash
from assay.core.imported import ImportedCase, ImportedFile, ImportedRun, ImportOrigin
from assay.core.report import CaseCounts
from assay.core.suite import files_of
from assay.core.types import ASK, Call, End, Score
from assay.files.read import refuse_special_file
from assay.files.redact import Redactor, secrets_from_environment
from assay.files.write import close_to_others
from assay.journal import folder as folders
from assay.journal.folder import HOME, RunFolder
from assay.journal.journal import Journal
from assay.journal.run_files import ROWS, RunInfo, Summary, read_info, read_summary, result_digests, write_summary
from assay.runner.results import Run
from assay.runner.summary import complete_report, make_summary
from assay.suites import find_suite

DEFAULT_OUTPUT = "results"
_YEAR_9999 = 253_370_764_800.0


def _suite_reader(name: str) -> Callable[[Path], ImportedRun | None]:
    """Return the reader of a suite's own format. The suite is imported when it is used."""
    return lambda path: files_of(find_suite(name)).read_results(path)


def _read_inspect(path: Path) -> ImportedRun | None:
    from assay.formats.inspect.results import read_inspect

    return read_inspect(path)


def _read_promptfoo(path: Path) -> ImportedRun | None:
    from assay.formats.promptfoo import read_promptfoo

    return read_promptfoo(path)


class Format(NamedTuple):
    """A format that can be imported.

    `read` returns None for a file of another format, and raises InputError for a broken file of its own. `files` says
    in a message what the format consists of.
    """

    read: Callable[[Path], ImportedRun | None]
    files: str


FORMATS: dict[str, Format] = {
    "lm-eval": Format(_suite_reader("task"), "results_*.json with samples_*.jsonl beside it, or a folder with them"),
    "pipeline": Format(
        _suite_reader("pipeline"), "results.jsonl of a pipeline, or a snapshot or CSV file of Prompt Lab"
    ),
    "hop": Format(_suite_reader("hop"), "a JSONL file of results, or a task folder with one in TestCases/"),
    "memory-test": Format(_suite_reader("memory-test"), "a folder with 0000.json and so on"),
    "memory-eval": Format(_suite_reader("memory-eval"), "a folder with qa_records.jsonl and its neighbours"),
    "inspect": Format(_read_inspect, ".eval or .json logs, or a folder with them"),
    "promptfoo": Format(_read_promptfoo, "a .json, .jsonl or .yaml file that `promptfoo eval -o` wrote"),
}
"""Every format that `assay import` reads, by its name."""


def import_results(
    path: str | Path, output_dir: str = "", format_name: str = "", data: str | Path | None = None
) -> Run:
    """Make a run of a result file or folder that another program wrote. Sends no requests.

    The run folder is written below `output_dir`, by default `results`. `data` is the data file of the evaluation, for
    formats that do not repeat their data. A file with the content of an earlier import returns that run, with `asked`
    False. Raises UsageError if no format fits, and InputError if the file is broken. Nothing is written then.
    """
    source = read_results(Path(path), format_name)
    try:
        if data is not None:
            source.use_data(Path(data))
        return _import(source, Path(output_dir or DEFAULT_OUTPUT) / HOME)
    finally:
        source.close()


def result_files(path: Path, format_name: str = "") -> list[Path]:
    """Return the paths of which each becomes a run: all logs of a folder of Inspect logs, else the path itself."""
    from assay.formats.inspect.log import find_logs

    if not path.is_dir() or format_name not in ("", "inspect"):
        return [path]
    logs = find_logs(path)
    if logs and not format_name and (others := _matches(path)):
        for source in others.values():
            source.close()
        raise UsageError(f"{path} could be inspect or {' or '.join(others)}. Choose one with --as FORMAT")
    return logs or [path]


def read_results(path: Path, format_name: str = "") -> ImportedRun:
    """Return the results of a file or folder. Without a format, every format is tried."""
    from assay.formats.inspect.log import find_logs

    if format_name and format_name not in FORMATS:
        raise UsageError(unknown("format", format_name, list(FORMATS)))
    try:
        if path.is_file() and path.stat().st_size == 0:
            raise InputError(Problem(str(path), "is empty"))
        if not path.is_file() and not path.is_dir():
            # stat names what is wrong: missing, a broken link, no permission.
            path.stat()
            refuse_special_file(path)
    except OSError as error:
        raise InputError(unreadable(path, error)) from None
    if path.is_dir() and format_name in ("", "inspect") and (logs := find_logs(path)):
        raise UsageError(f"{path} has logs of Inspect, and each is a run. Pass one of them, such as {logs[0]}")
    if format_name:
        about = FORMATS[format_name]
        source = about.read(path)
        if source is None:
            raise UsageError(f"{path} is not in the format {format_name}. Expected: {about.files}")
        return source
    matches = _matches(path)
    if not matches:
        formats = "\n".join(f"  {name}: {about.files}" for name, about in FORMATS.items())
        raise UsageError(f"{path} has no results that assay can read. The formats are\n{formats}")
    if len(matches) > 1:
        for match in matches.values():
            match.close()
        raise UsageError(f"{path} could be {' or '.join(matches)}. Choose one with --as FORMAT")
    return next(iter(matches.values()))


def _matches(path: Path) -> dict[str, ImportedRun]:
    """Return the results of a file or folder in each format that it could be in."""
    sources = {name: about.read(path) for name, about in FORMATS.items()}
    return {name: source for name, source in sources.items() if source is not None}


def _import(source: ImportedRun, home: Path) -> Run:
    plan = source.plan
    origin = ImportOrigin(
        format=plan.format,
        files=[_described(path) for path in plan.files],
        producer=plan.producer,
        missing=plan.missing,
    )
    ask = fingerprint([plan.format, [file.sha256 for file in origin.files]])
    existing = folders.find_imported(home, plan.suite, ask)
    if existing is not None:
        summary = read_summary(existing)
        if summary is not None:
            return Run(existing, read_info(existing), summary, summary.exit_code, asked=False)
    info = RunInfo(
        suite=plan.suite,
        ask=ask,
        started=_started(plan.started),
        version=assay.__version__,
        total=plan.total,
        command=[word.encode(errors="replace").decode() for word in sys.argv],
        spec={
            "suite": plan.suite,
            "model": plan.model,
            "base_url": None,
            "output_dir": str(home.parent),
            "options": {"name": plan.name or plan.format},
        },
        parts={"ask": {"imported": [file.sha256 for file in origin.files], "models": {}}},
        facts=plan.facts,
        score_parts=plan.score_parts,
        imported=origin,
    )
    secrets = secrets_from_environment()
    info = Redactor(secrets).redacted(info)
    with folders.selection_lock(home):
        # Two runs of one second would get one name. Here the time comes from the file, so this is likely.
        while any(home.glob(f"{folders.stamp(info.started)}-*")):
            info.started += 1.0
        with tempfile.TemporaryDirectory(prefix=".import-", dir=home) as temporary:
            folder = folders.create_run(Path(temporary), info)
            try:
                summary = _write(source, folder, info, secrets)
            finally:
                folder.close()
            target = home / folder.path.name
            try:
                folder.path.rename(target)
            except OSError as error:
                raise cannot_write(target, error) from error
    return Run(target, info, summary, summary.exit_code)


def _started(seconds: float | None) -> float:
    """Return the start of the evaluation; now, if the file has none or one that no calendar has."""
    return seconds if seconds is not None and 0 < seconds < _YEAR_9999 else time.time()


def _described(path: Path) -> ImportedFile:
    try:
        return ImportedFile(path=str(path), sha256=file_sha256(path), bytes=path.stat().st_size)
    except OSError as error:
        raise InputError(unreadable(path, error)) from None


def _write(source: ImportedRun, folder: RunFolder, info: RunInfo, secrets: list[str]) -> Summary:
    """Write the journal and summary.json of an imported run, without secrets of the environment."""
    plan = source.plan
    source.prepare(folder.path)
    journal = Journal(folder.path, plan.scorers, secrets, info.id)
    try:
        count = 0
        for index, case in enumerate(source.cases()):
            _write_case(journal, index, case, plan.scorers)
            count += 1
        if count != plan.total:
            raise InputError(Problem(str(plan.files[0]), f"announces {plan.total:,} cases, but has {count:,}"))
        # No case is unanswered: nobody can ask it again. So the run is finished even if some cases have no answer.
        cases = CaseCounts(plan.total, journal.counts(plan.total)["ok"])
        report = source.report()
        complete_report(report, cases)
        summary = make_summary(
            journal, cases, report, slots=plan.total, score="imported", scorers=plan.scorers, seconds=plan.seconds
        )
        # The price that the file names. This run has sent nothing, so nothing was spent.
        summary.cost = journal.index.spent.copied_cost
    finally:
        journal.close()
    redactor, rows = Redactor(secrets), folder.path / ROWS
    if rows.is_file():
        redactor.redact_file(rows)
        close_to_others(rows)
    summary = redactor.redacted(summary)
    summary.digests = result_digests(folder.path)
    write_summary(folder.path, summary)
    return summary


def _write_case(journal: Journal, index: int, case: ImportedCase, scorers: Sequence[str]) -> None:
    head: dict[str, int | str] = {"index": index, "case": case.key, "set": case.set, "subject": case.subject}
    repeats: Counter[tuple[str, str]] = Counter()
    for call in case.calls:
        journal.call(_placed_call(call, head, repeats))
    status = case.failure.status if case.failure else "ok"
    end = End(
        *(index, case.key, case.set, case.subject),
        stage=ASK,
        try_=1,
        status=status,
        lines=[],
        failure=case.failure,
        usage=case.usage,
        calls=sum(call.stage == ASK for call in case.calls),
        seconds=_finite(case.seconds),
        label=case.label,
        tags=case.tags,
    )
    journal.end_case(end, [replace(record, **head) for record in case.records])
    if status == "infra_error" and not case.scores:
        return  # as in a native run, nothing is scored without an answer
    for scorer in scorers:
        scores: list[Score] = [replace(score, **head) for score in case.scores if score.scorer == scorer]
        journal.end_scoring(
            replace(
                end,
                stage=scorer,
                status="ok",
                lines=[],
                failure=None,
                usage=None,
                calls=0,
                seconds=0.0,
                label="",
                tags=(),
            ),
            scores,
        )


def _placed_call(call: Call, head: dict[str, int | str], repeats: Counter[tuple[str, str]]) -> Call:
    """Return the call with its case, hash and number. Of equal requests only the first call keeps its request."""
    digest = request_hash(call.request) if call.request is not None else fingerprint([call.stage])
    number = repeats[call.stage, digest]
    repeats[call.stage, digest] += 1
    # 0 attempts: this run sent no request, so none of its calls counts as spent.
    return replace(
        call,
        **head,
        hash=digest,
        n=number,
        attempts=0,
        request=None if number else call.request,
        seconds=_finite(call.seconds),
    )


def _finite(seconds: float) -> float:
    # A file may have NaN here. The journal would store null, which it could not read again.
    return seconds if isfinite(seconds) else 0.0
