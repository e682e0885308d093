"""The tables `run_table`, `metric_table` and `judge_table`, made from run.json and summary.json of every run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from assay.core.report import Entry, Metric
from assay.journal.index import INFRA_ERROR, OK, SUBJECT_ERROR, RunIndex
from assay.journal.integrity import FINAL_STATES
from assay.journal.spending import CallCounts
from assay.store.notes import notes_or_warning
from assay.store.sql.sources import RunSource, literal

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class _RunRow(msgspec.Struct, kw_only=True):
    run: str
    folder: str
    suite: str
    name: str | None
    model: str | None
    state: str
    started: float
    seconds: float | None
    cases: int
    ok: int | None
    subject_error: int | None
    infra_error: int | None
    calls: int | None
    retries: int | None
    failed_calls: int | None
    input_tokens: int | None
    output_tokens: int | None
    imported: str | None
    producer: str | None
    version: str
    command: list[str]
    tags: list[str]
    notes: list[str]


class _MetricRow(msgspec.Struct, kw_only=True):
    run: str
    suite: str
    entry: str
    subject: str
    set: str
    slice_by: str | None
    slice: str | None
    variant: str | None
    metric: str
    filter: str | None
    value: float | None
    numerator: float | None
    denominator: int
    unit: str
    low: float | None
    high: float | None
    stderr: float | None
    clusters: int | None
    higher_is_better: bool | None
    left_out: dict[str, int]
    reason: str | None
    warning: str | None


class _JudgeRow(msgspec.Struct):
    run: str
    metric: str
    judge: str


_TYPES = {
    str: "VARCHAR",
    float: "DOUBLE",
    int: "BIGINT",
    bool: "BOOLEAN",
    list[str]: "VARCHAR[]",
    dict[str, int]: "JSON",
}


def create_tables(
    connection: DuckDBPyConnection, sources: Sequence[RunSource], folder: Path, warn: Callable[[str], object]
) -> None:
    """Create the tables. `folder` is for temporary files, `warn` gets a sentence about notes that cannot be read."""
    runs = (_run_row(source, warn) for source in sources)
    _create(connection, "run_table_raw", _RunRow, runs, folder)
    connection.execute(
        "create or replace table run_table as "
        "select * replace (make_timestamp((started * 1000000)::bigint) as started) from run_table_raw"
    )
    metrics = (row for source in sources for row in _metric_rows(source))
    _create(connection, "metric_table", _MetricRow, metrics, folder)
    judges = (row for source in sources for row in _judge_rows(source))
    _create(connection, "judge_table", _JudgeRow, judges, folder)


def _create(
    connection: DuckDBPyConnection,
    name: str,
    row_type: type[msgspec.Struct],
    rows: Iterator[msgspec.Struct],
    folder: Path,
) -> None:
    """Create a table of structs. A file of JSON lines is the fastest way in that needs no other package."""
    path = folder / f"{name}.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    fields = {}
    for field in msgspec.structs.fields(row_type):
        plain = [kind for kind in (*getattr(field.type, "__args__", ()),) if kind in _TYPES]
        fields[field.name] = _TYPES[field.type if field.type in _TYPES else plain[0]]
    columns = ", ".join(f"{literal(field)}: {literal(kind)}" for field, kind in fields.items())
    connection.execute(
        f"create or replace table {name} as select * from read_json({literal(str(path))}, "
        f"format = 'newline_delimited', columns = {{{columns}}})"
    )
    path.unlink()


def _run_row(source: RunSource, warn: Callable[[str], object]) -> _RunRow:
    folder, info, summary, state = source.run.folder, source.run.info, source.run.summary, source.run.state
    counts: tuple[int | None, int | None, int | None]
    spent: CallCounts | None
    if state in FINAL_STATES and summary is not None:
        counts, spent = (summary.ok, summary.subject_error, summary.infra_error), summary.spent
    elif source.has_journal:
        index = RunIndex.of_run(folder)
        ok, subject_error, infra_error = (index.ask.codes.count(code) for code in (OK, SUBJECT_ERROR, INFRA_ERROR))
        counts, spent = (ok, subject_error, infra_error), index.spent
    else:
        counts, spent = (None, None, None), None
    notes = notes_or_warning(folder, warn)
    imported = info.imported
    # Calls without any token mean that no endpoint counted them. The file of an imported run may not have them.
    has_tokens = spent is not None and (spent.input_tokens or spent.output_tokens)
    unknown = spent is None or (not has_tokens and (spent.calls > 0 or imported is not None))
    options = info.spec.get("options")
    name = options.get("name") if isinstance(options, dict) else None
    return _RunRow(
        run=source.name,
        folder=str(folder),
        suite=info.suite,
        name=str(name) if name else None,
        model=str(info.spec["model"]) if info.spec.get("model") else None,
        state=state,
        started=info.started,
        seconds=(summary.seconds or (None if imported else 0.0)) if summary else None,
        cases=info.total,
        ok=counts[0],
        subject_error=counts[1],
        infra_error=counts[2],
        calls=spent.calls if spent else None,
        retries=spent.retries if spent else None,
        failed_calls=spent.failed if spent else None,
        input_tokens=None if unknown or spent is None else spent.input_tokens or 0,
        output_tokens=None if unknown or spent is None else spent.output_tokens or 0,
        imported=imported.format if imported else None,
        producer=imported.producer or None if imported else None,
        version=info.version,
        command=info.command,
        tags=notes.tags,
        notes=[note.text for note in notes.notes],
    )


def _metric_rows(source: RunSource) -> Iterator[_MetricRow]:
    summary = source.run.summary
    if summary is None or summary.report is None:
        return
    for entry in summary.report.entries:
        for metric in entry.metrics:
            yield from _rows_of(source, entry, metric)
        for part in entry.slices:
            for metric in part.metrics:
                yield from _rows_of(source, entry, metric, part.by, part.name)


def _rows_of(
    source: RunSource,
    entry: Entry,
    metric: Metric,
    slice_by: str | None = None,
    slice_name: str | None = None,
) -> Iterator[_MetricRow]:
    for variant, number in [(None, metric), *metric.beside.items()]:
        yield _MetricRow(
            run=source.name,
            suite=source.run.info.suite,
            entry=entry.name,
            subject=entry.subject,
            set=entry.set,
            slice_by=slice_by,
            slice=slice_name,
            variant=variant,
            metric=metric.name,
            filter=metric.filter or None,
            value=number.value,
            numerator=number.numerator,
            denominator=number.denominator,
            unit=number.unit,
            low=number.interval[0] if number.interval else None,
            high=number.interval[1] if number.interval else None,
            stderr=number.stderr,
            clusters=number.clusters,
            higher_is_better=number.higher_is_better,
            left_out=number.left_out,
            reason=number.reason or None,
            warning=number.warning or None,
        )


def _judge_rows(source: RunSource) -> Iterator[_JudgeRow]:
    summary = source.run.summary
    for judge in summary.report.judges() if summary and summary.report else ():
        for metric in judge.metrics:
            yield _JudgeRow(source.name, metric, judge.id)
