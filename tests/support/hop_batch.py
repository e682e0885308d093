"""A Hoplet in a folder of its own, run as a batch through the Python interface or as a process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import assay
from assay import api

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

    def run(self, **options: Any) -> api.Run:
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
        """The process from start to end."""
        return self.job(*flags).run()


def lines_of(run: api.Run) -> list[dict[str, Any]]:
    """Every line of a run's result file."""
    (path,) = run.files
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def results_of(run: api.Run) -> list[dict[str, Any]]:
    """Its rows, without meta lines."""
    return [line for line in lines_of(run) if line.get("_type") != "meta"]


def stable(results: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a run without durations, nor what only files have: a run is compared by its scores."""
    return {
        profile: {key: value for key, value in found.items() if key not in ("seconds", "compared_with")}
        for profile, found in results.items()
    }
