"""Writes a run as one plain table: CSV, JSON lines or Parquet, for `assay export`.

A line is the row that people read: a test or a question where a case has several of them, else the case. The columns
are the same in all three; JSON keeps answers and rows of the data as values, the others have them as JSON text. A score
that was not measured is null in JSON and Parquet and an empty cell in CSV, never 0.
"""

from __future__ import annotations

import csv
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any, Self

import msgspec
from msgspec import Struct, field

from assay.core.exported import CasePart, ExportedRun, Exporter, case_parts, interim_loss
from assay.core.no_answer import is_measured
from assay.core.suite_pages import StoredCase
from assay.core.types import Score
from assay.files.redact import Redactor, secrets_from_environment
from assay.files.write import csv_cell

_encode = msgspec.json.Encoder().encode
_MAX_ROW_BYTES = 1 << 30


class ExportRow(Struct, kw_only=True):
    """One line of the table."""

    case: int
    key: str
    set: str
    subject: str
    label: str
    part: str
    tags: list[str]
    status: str
    error: str | None
    row: dict[str, Any] | None
    """The row of the data, where the run folder has it."""
    answer: Any
    expected: Any
    seconds: float | None
    """None if the time was not measured, as in most imported runs."""
    input_tokens: int | None
    output_tokens: int | None
    scores: dict[str, float | None] = field(default_factory=dict)
    """By metric, or by `metric,filter`."""


# Types of DuckDB for the columns before the scores. Nested values become JSON text.
_COLUMNS = {
    "case": "BIGINT",
    "key": "VARCHAR",
    "set": "VARCHAR",
    "subject": "VARCHAR",
    "label": "VARCHAR",
    "part": "VARCHAR",
    "tags": "VARCHAR",
    "status": "VARCHAR",
    "error": "VARCHAR",
    "row": "VARCHAR",
    "answer": "VARCHAR",
    "expected": "VARCHAR",
    "seconds": "DOUBLE",
    "input_tokens": "BIGINT",
    "output_tokens": "BIGINT",
}


def export_rows(run: ExportedRun) -> Iterator[ExportRow]:
    """Yield the rows of a run, in data order."""
    parts_are_rows = run.about.score_parts == "rows"
    for case in run.cases(calls=False):
        if not parts_are_rows:
            yield _row(run, case, "", case.scores, case.answer, with_part=run.about.score_parts == "filters")
            continue
        for part, scores, answers in case_parts(case) or [CasePart("", [], [])]:
            answer = answers[-1].data if answers else None
            yield _row(run, case, part, scores, answer, with_part=False)


def _row(
    run: ExportedRun, case: StoredCase, part: str, scores: list[Score], answer: Any, *, with_part: bool
) -> ExportRow:
    end = case.end
    usage = end.usage
    first = scores[0] if part and scores else None
    expected = next((score.expected for score in scores if score.expected is not None), None)
    while isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]  # a task with one request and one repeat has its reply in two lists
    return ExportRow(
        case=end.index,
        key=end.case,
        set=end.set,
        subject=end.subject,
        label=(first.label if first else "") or end.label,
        part=part,
        tags=list((first.tags if first else ()) or end.tags),
        status=end.status,
        error=f"{end.failure.kind}: {end.failure.message}" if end.failure else None,
        row=case.row,
        answer=answer,
        expected=expected,
        seconds=end.seconds or None,
        input_tokens=usage.input if usage else None,
        output_tokens=usage.output if usage else None,
        scores={
            f"{score.metric},{score.part}" if with_part and score.part else score.metric: (
                score.value if is_measured(run.report, end.set, end.subject, score.metric) else None
            )
            for score in scores
        },
    )


class TableExporter(Exporter):
    """Base of the three: they lose the same things."""

    def loses(self, run: ExportedRun) -> list[str]:
        """Return what a table of rows has no place for."""
        lost = ["prompts and replies of each call", "reasons of scores"]
        if any(True for _ in run.report.metrics()):
            lost.append("the report with its intervals")
        return lost + interim_loss(run)

    @abstractmethod
    def write(self, run: ExportedRun, target: Path) -> list[Path]:
        """Write the table to a file."""


class JsonLinesExporter(TableExporter):
    """Writes a JSON object on each line, with the scores in an object of their own."""

    suffix = ".jsonl"

    def write(self, run: ExportedRun, target: Path) -> list[Path]:
        with target.open("wb") as file:
            for row in export_rows(run):
                file.write(_encode(row) + b"\n")
        return [target]


class CsvExporter(TableExporter):
    """Writes a CSV file in UTF-8 with a header line."""

    suffix = ".csv"

    def write(self, run: ExportedRun, target: Path) -> list[Path]:
        with _FlatRows(run) as flat, target.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(map(csv_cell, [*_COLUMNS, *flat.score_columns.values()]))
            for row in flat:
                values = [row.get(name) for name in flat.names]
                writer.writerow([csv_cell(value) if isinstance(value, str) else value for value in values])
        return [target]


class ParquetExporter(TableExporter):
    """Writes a Parquet file."""

    suffix = ".parquet"

    def write(self, run: ExportedRun, target: Path) -> list[Path]:
        import duckdb  # takes 60 ms to import

        with _FlatRows(run) as flat, duckdb.connect(":memory:") as connection:
            Redactor(secrets_from_environment()).redact_file(Path(flat.path))
            columns = _COLUMNS | dict.fromkeys(flat.score_columns, "DOUBLE")
            types = ", ".join(f"{_text(name)}: {_text(kind)}" for name, kind in columns.items())
            # A row may be a whole transcript. DuckDB's own limit is 16 MB.
            source = (
                f"read_json({_text(flat.path)}, columns = {{{types}}}, format = 'newline_delimited', "
                f"maximum_object_size = {_MAX_ROW_BYTES})"
            )
            selected = ", ".join(f"{_name(name)} AS {_name(shown)}" for name, shown in flat.shown.items())
            # Every name and path is quoted.
            query = f"SELECT {selected} FROM {source}"  # noqa: S608
            connection.execute(f"COPY ({query}) TO {_text(str(target))} (FORMAT parquet)")
        return [target]


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class _FlatRows:
    """The rows as flat JSON objects in a temporary file, because the names of all scores are known at the end only.

    In the file a score has the key `score N`, so that no name of a metric can be that of another column.
    """

    def __init__(self, run: ExportedRun) -> None:
        self._file: IO[bytes] = NamedTemporaryFile(suffix=".jsonl")  # noqa: SIM115 - closed by __exit__
        self.path = self._file.name
        keys: dict[str, str] = {}
        for row in export_rows(run):
            flat = {name: value for name, value in msgspec.structs.asdict(row).items() if name != "scores"}
            flat["tags"] = "; ".join(row.tags)
            for name in ("row", "answer", "expected"):
                value = flat[name]
                flat[name] = value if value is None or isinstance(value, str) else _encode(value).decode()
            for name, number in row.scores.items():
                flat[keys.setdefault(name, f"score {len(keys)}")] = number
            self._file.write(_encode(flat) + b"\n")
        self._file.flush()
        self.score_columns = dict.fromkeys(keys.values(), "")
        taken = set(_COLUMNS)
        for name, key in keys.items():
            # DuckDB takes `F1` and `f1` for the same column.
            shown, number = name, 2
            while shown.lower() in taken:
                shown, number = f"{name} {number}", number + 1
            taken.add(shown.lower())
            self.score_columns[key] = shown
        self.names = [*_COLUMNS, *self.score_columns]
        self.shown = {name: name for name in _COLUMNS} | self.score_columns

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self._file.seek(0)
        for line in self._file:
            yield msgspec.json.decode(line)
