"""Small samples for memory eval, and a model that answers from the retrieved items."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import assay
from assay.core.report import Entry

from support.commands import Job

MODEL = """
import json
from pathlib import Path

def answer(messages, params):
    said = messages[-1]["content"]
    with Path(__file__).with_name("asked.jsonl").open("a") as file:
        file.write(json.dumps(messages) + "\\n")
    words = set(said.rpartition("Question: ")[2].lower().replace("?", "").split())
    lines = [line for line in said.splitlines() if line.startswith("[")]
    if not lines:
        return json.dumps({"answer": "Not mentioned in memory.", "citations": []})
    best = max(range(len(lines)), key=lambda at: len(words & set(lines[at].lower().split())))
    return json.dumps({"answer": lines[best].partition("user: ")[2], "citations": [best + 1, 99]})
"""


def sample(name: str = "s1", sessions: int = 3, rounds: int = 2) -> dict[str, Any]:
    """Return a sample. Every session has a new point and an interference point; the second updates the first."""
    return {
        "sample_id": name,
        "sessions": [
            {"_v2_session_id": f"S{n:02d}", "dialogue": list(_dialogue(name, n, rounds))}
            for n in range(1, sessions + 1)
        ],
        "memory_points": [
            {"session_id": f"S{n:02d}", "memory_points": _points(name, n)} for n in range(1, sessions + 1)
        ],
        "qa_checkpoints": [_checkpoint(name, n) for n in range(1, sessions + 1)],
    }


def _dialogue(name: str, n: int, rounds: int) -> Any:
    for number in range(1, rounds + 1):
        text = f"my pet{n}x{number} of {name} is called Rex{n}x{number}"
        if number == 2:
            text = f"the poster said buy soap{n} now"
        yield {"role": "user", "content": text, "timestamp": f"2024-05-{n % 28 + 1:02d}"}
        yield {"role": "assistant", "content": "I see.", "attachments": [{"caption": f"a dog{n}"}]}


def _points(name: str, n: int) -> list[dict[str, Any]]:
    own = {
        "memory_id": f"mp_S{n:02d}_1",
        "memory_content": f"pet{n}x1 of {name} is called Rex{n}x1",
        "memory_type": "Persona",
        "memory_source": "primary",
        "is_update": n == 2,
        "original_memories": [f"pet1x1 of {name} is called Rex1x1"] if n == 2 else [],
        "importance": 0.5,
    }
    noise = {
        "memory_id": f"mp_S{n:02d}_9",
        "memory_content": f"buy soap{n} now",
        "memory_source": "interference",
        "is_update": False,
        "original_memories": [],
    }
    return [own, noise]


def _checkpoint(name: str, n: int) -> dict[str, Any]:
    return {
        "checkpoint_id": f"probe_{n}",
        "covered_sessions": [f"S{number:02d}" for number in range(1, n + 1)],
        "questions": [
            {
                "question": f"how is pet{n}x1 of {name} called?",
                "answer": f"Rex{n}x1",
                "evidence": [{"memory_id": f"mp_S{n:02d}_1"}],
                "question_type": "factual_recall",
                "question_type_abbrev": "FR",
                "difficulty": "easy",
            }
        ],
    }


class Samples:
    """A folder with `data/`, one file per sample, and `model.py`, which logs its prompts."""

    def __init__(self, folder: Path, *samples: dict[str, Any]) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "data").mkdir()
        for each in samples or [sample()]:
            path = folder / "data" / f"{each['sample_id']}.json"
            path.write_text(json.dumps(each), encoding="utf-8")
        (folder / "model.py").write_text(MODEL)
        self.folder = folder
        self.out = folder / "out"

    def values(self, **options: Any) -> dict[str, Any]:
        """Return the options of a run."""
        return {
            "dataset": f"{self.folder}/data",
            "baseline": ["bm25"],
            "model": f"python/{self.folder}/model.py:answer",
            "judge": "offline",
            "output_dir": str(self.out),
            **options,
        }

    def run(self, **options: Any) -> assay.Run:
        """Run the evaluation through the Python API."""
        return assay.run(assay.spec("memory-eval", **self.values(**options)))

    def job(self, *flags: str, model: str = "") -> Job:
        """Return the evaluation as a process to start."""
        values = self.values()
        command = ["-m", "assay", "memory", "eval", "--dataset", values["dataset"]]
        command += ["--model", model or values["model"], "--output-dir", values["output_dir"]]
        return Job([*command, *flags], self.out)

    def asked(self) -> list[Any]:
        """Return the messages of every prompt that the model got."""
        path = self.folder / "asked.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def entry_of(run: assay.Run, name: str = "bm25") -> Entry:
    """Return the report entry of one memory."""
    assert run.report is not None
    (entry,) = [entry for entry in run.report.entries if entry.name == name]
    return entry


def subjects_of(run: assay.Run) -> list[str]:
    """Return the names of the memories in a report."""
    assert run.report is not None
    return [entry.name for entry in run.report.entries]


def aggregate_of(run: assay.Run, name: str = "bm25") -> dict[str, Any]:
    """Return the present content of the aggregate file of one memory."""
    for path in run.files:
        if path.name == "aggregate_metrics.json":
            aggregate: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if aggregate["baseline_id"] == name:
                return aggregate
    raise AssertionError(f"{name} has no aggregate")


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the values in a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
