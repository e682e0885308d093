"""A Hoplet in a folder of its own, run as a batch through the Python interface or as a process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

import assay
from assay.core.report import Entry, Metric, Report, Slice, Table

from support.commands import Finished, Job

COUNTING = """
from pathlib import Path

def hop(n, session):
    with Path(__file__).with_name("called").open("a") as file:
        file.write(f"{n}\\n")
    return {"answer": n * 2}
"""
NONE = "def hop(session, fields):\n    return {'answer': fields['n'] * 2}\n"


def as_lines(records: Sequence[Any]) -> str:
    """JSON lines; texts are lines already."""
    texts = [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in records]
    return "".join(f"{text}\n" for text in texts)


def numbered(count: int, **more: Any) -> list[dict[str, Any]]:
    """Rows with a number each; the even ones expect twice of it, the odd ones something else."""
    return [
        {"id": n, "tag": "even" if n % 2 == 0 else "odd", "n": n, "expected_answer": n * 2 + n % 2, **more}
        for n in range(1, count + 1)
    ]


class Batch:
    """`hop.py`, `rows.jsonl` and, where given, settings and a contract."""

    def __init__(self, folder: Path, code: str = NONE, rows: Sequence[Any] = ()) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.code(code)
        self.rows(rows or numbered(4))

    def code(self, text: str) -> None:
        """Other code for the function."""
        (self.folder / "hop.py").write_text(text, encoding="utf-8")

    def rows(self, rows: Sequence[Any]) -> None:
        """Other rows."""
        (self.folder / "rows.jsonl").write_text(as_lines(rows), encoding="utf-8")

    def profiles(self, *names: str, replies: Sequence[dict[str, Any]] = ({"text": "hello"},)) -> None:
        """Settings in which every profile has a script of its own."""
        lines = ["defaults: {temperature: 0.1}", "llms:"]
        for name in names:
            (self.folder / f"{name}.jsonl").write_text(as_lines(replies))
            lines.append(f"  llm-{name}: {{model: 'script/{self.folder}/{name}.jsonl'}}")
        lines += ["profiles:", *(f"  {name}: {{run: llm-{name}}}" for name in names)]
        (self.folder / "settings.yaml").write_text("\n".join(lines) + "\n")

    def contract(self, text: str) -> None:
        """What the function promises."""
        (self.folder / "metainfo.md").write_text(f"---\n{text}\n---\n")

    @property
    def out(self) -> Path:
        """Where everything is written."""
        return self.folder / "out"

    def run(self, **options: Any) -> assay.Run:
        """The batch through the Python interface."""
        values = {
            "target": f"{self.folder}/hop.py:hop",
            "data": f"{self.folder}/rows.jsonl",
            "output_dir": str(self.out),
            **options,
        }
        return assay.run(assay.spec("hop", **values))

    def job(self, *flags: str) -> Job:
        """The batch as a process."""
        command = ["-m", "assay", "hop", f"{self.folder}/hop.py:hop", f"{self.folder}/rows.jsonl"]
        return Job([*command, "--output-dir", str(self.out), *flags], self.out)

    def typed(self, *flags: str) -> Finished:
        """The command from start to end, in this process."""
        return self.job(*flags).run()

    def run_process(self, *flags: str) -> Finished:
        """The command as a process of its own: its end shows that no thread of the function holds it."""
        with self.job(*flags).started() as started:
            return started.end()


def lines_of(run: assay.Run) -> list[dict[str, Any]]:
    """Every line of a run's result file."""
    (path,) = run.files
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def results_of(run: assay.Run) -> list[dict[str, Any]]:
    """Its rows, without meta lines."""
    return [line for line in lines_of(run) if line.get("_type") != "meta"]


def numbers(report: Report | None) -> dict[str, Any]:
    """The numbers of a report by profile, each rate with numerator and denominator."""
    assert report is not None
    found: dict[str, Any] = {}
    for entry in report.entries:
        tables = {table.name: table for table in entry.tables}
        fields = {part.name: _rates(part.metrics) for part in entry.slices if part.by == "field"}
        (examples,) = entry.examples
        seconds = tables["seconds"].rows[0] if "seconds" in tables else [0, None, None]
        found[entry.name] = {
            **_counts(entry),
            "tags": {part.name: _counts(part) for part in entry.slices if part.by == "tag"},
            "difficulties": {part.name: _counts(part) for part in entry.slices if part.by == "difficulty"},
            "bands": {
                name.removeprefix("bands "): {
                    "matrix": {str(row[0]): dict(zip(table.columns[1:], row[1:], strict=True)) for row in table.rows},
                    "accuracy": fields[name.removeprefix("bands ")]["band_accuracy"],
                    "cross_band": fields[name.removeprefix("bands ")]["cross_band"],
                }
                for name, table in tables.items()
                if name.startswith("bands ")
            },
            "within_one": {name: rates["within_one"] for name, rates in fields.items() if "within_one" in rates},
            "seconds": dict(zip(("n", "p50", "p95"), seconds, strict=True)),
            "operators": _by_name(tables.get("operators")),
            "error_kinds": {name: counts["rows"] for name, counts in _by_name(tables.get("errors")).items()},
            "differing": {
                "count": examples.total,
                "shown": [(one.label, one.part, one.reason) for one in examples.shown],
            },
            "compared_with": {
                pair.base: msgspec.to_builtins(pair.row) for pair in report.differences if pair.new == entry.name
            },
        }
    return found


def _counts(part: Entry | Slice) -> dict[str, Any]:
    rates = _rates(part.metrics)
    return {**part.counts, **rates, "completed": rates["completion"]["numerator"]}


def _rates(metrics: list[Metric]) -> dict[str, Any]:
    return {
        metric.name: {
            "value": metric.value,
            "numerator": metric.numerator,
            "n": metric.denominator,
            "interval": metric.interval,
        }
        for metric in metrics
    }


def _by_name(table: Table | None) -> dict[str, dict[str, Any]]:
    rows = table.rows if table else []
    columns = table.columns[1:] if table else []
    return {str(row[0]): dict(zip(columns, row[1:], strict=True)) for row in rows}


def stable(results: dict[str, Any]) -> dict[str, Any]:
    """Numbers without durations, nor what only files have: a run is compared by its scores."""
    return {
        profile: {key: value for key, value in found.items() if key not in ("seconds", "compared_with")}
        for profile, found in results.items()
    }
