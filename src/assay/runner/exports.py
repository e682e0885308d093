"""`assay export`: writes a run in the file format of another program, and names what the format cannot hold.

    written = assay.export("results", "lm-eval", "out")
    written.files, written.lost

The file or folder gets its final name when it is complete, so an export that fails leaves nothing behind.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from assay.core.errors import UsageError, unknown
from assay.core.exported import ExportedRun, Exporter, RunAbout
from assay.core.report import Report
from assay.core.suite import files_of
from assay.core.suite_pages import StoredCase, damage_of
from assay.files.redact import Redactor, secrets_from_environment
from assay.formats.tables import CsvExporter, JsonLinesExporter, ParquetExporter
from assay.runner.results import Run, name_of
from assay.store.cases import RunCases
from assay.store.runs import RunState, finished_run
from assay.suites import find_suite


def _suite_exporter(name: str) -> Callable[[], Exporter | None]:
    """Return a function that imports the suite and returns the exporter of its format."""
    return lambda: files_of(find_suite(name)).exporter()


def _inspect_exporter() -> Exporter:
    from assay.formats.inspect.export import InspectExporter

    return InspectExporter()


FORMATS: dict[str, Callable[[], Exporter | None]] = {
    "lm-eval": _suite_exporter("task"),
    "pipeline": _suite_exporter("pipeline"),
    "hop": _suite_exporter("hop"),
    "memory-test": _suite_exporter("memory-test"),
    "memory-eval": _suite_exporter("memory-eval"),
    "inspect": _inspect_exporter,
    "csv": CsvExporter,
    "json": JsonLinesExporter,
    "parquet": ParquetExporter,
}
"""Every format with a function that returns its exporter. None means that no exporter exists yet."""


class Export(Struct, kw_only=True):
    """What an export wrote, and what the format could not hold."""

    run: str
    format: str
    files: list[str]
    lost: list[str]


def export(run: str | Path | Run, format_name: str, output: str | Path | None = None) -> Export:
    """Write a finished run in another program's format: "lm-eval", "csv", "json", "parquet" and more.

    Without `output`, the file or folder is named after the run. The result has the paths of the files and what the
    format could not hold. Raises UsageError for an unknown format, a run that the format cannot hold, and an output
    that exists.
    """
    exporter = find_exporter(format_name)
    stored = StoredRun(finished_run(name_of(run)))
    with damage_of(str(stored.about.folder)):
        return _export(stored, exporter, format_name, Path(output) if output is not None else None)


def _export(run: StoredRun, exporter: Exporter, format_name: str, output: Path | None) -> Export:
    if refusal := exporter.refusal(run):
        raise UsageError(f"{run.about.folder} cannot be written as {format_name}: {refusal}")
    folder = run.about.folder.name
    target = output or Path(f"{folder}{exporter.suffix}" if exporter.suffix else f"{folder}-{format_name}")
    if target.exists() and not (target.is_dir() and not exporter.suffix and not any(target.iterdir())):
        raise UsageError(f"{target} exists. Pass another name with --output, or remove it first")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".export-", dir=target.parent) as temporary:
            written = Path(temporary) / target.name
            if not exporter.suffix:
                written.mkdir()
            files = exporter.write(run, written)
            # The run may be an imported one, or older than the variable. Parquet is redacted before it is packed.
            redactor = Redactor(secrets_from_environment())
            for file in files if exporter.suffix != ".parquet" else ():
                redactor.redact_file(file)
            if target.is_dir():
                target.rmdir()  # an empty folder that the user made
            shutil.move(written, target)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from None
    return Export(
        run=str(run.about.folder),
        format=format_name,
        files=[str(target / file.relative_to(written)) for file in files],
        lost=exporter.loses(run),
    )


def find_exporter(format_name: str) -> Exporter:
    """Return the exporter of a format. Raises UsageError if there is none."""
    if format_name not in FORMATS:
        raise UsageError(unknown("format", format_name, list(FORMATS)))
    exporter = FORMATS[format_name]()
    if exporter is None:
        raise UsageError(f"assay reads the format {format_name}, but cannot write it")
    return exporter


class StoredRun(ExportedRun):
    """A run of a run folder."""

    def __init__(self, state: RunState) -> None:
        info, summary = state.info, state.summary
        assert summary is not None
        self._cases = RunCases(state.folder)
        super().__init__(
            RunAbout(
                folder=state.folder,
                suite=info.suite,
                model=str(info.spec.get("model") or ""),
                started=info.started,
                seconds=summary.seconds,
                total=info.total,
                report=summary.report or Report(),
                scorers=summary.scorers,
                score_parts=info.score_parts,
                files=[Path(name) for name in summary.files],
                imported=info.imported,
                spec=info.spec,
                facts=info.facts,
                gold_columns=self._cases.gold_columns,
            )
        )

    def cases(self, *, calls: bool = True) -> Iterator[StoredCase]:
        """Yield the cases in data order, with their calls unless `calls` is False."""
        for case in self._cases:
            yield case._replace(calls=self._cases.calls(case.end.index)) if calls else case
