"""Small conversations for memory test, and a model and a memory that log what they get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import assay

from support.commands import Job

MODEL = """
import json
from pathlib import Path

def answer(messages, params):
    said = messages[-1]["content"]
    with Path(__file__).with_name("asked.jsonl").open("a") as file:
        file.write(json.dumps(said) + "\\n")
    if "boom" in said:
        raise ValueError("no answer")
    lines = [line for line in said.splitlines() if line.startswith("- ")]
    return lines[0].rpartition(": ")[2] if lines else "Not mentioned."
"""
MEMORY = """
from pathlib import Path
from assay.core.memory import SearchHit, MemoryItem

class Own:
    def __init__(self, around):
        self.around = around
        self.held = []
        self.log = Path(__file__).with_name("log.txt")

    def reset(self):
        self.held = []

    async def add(self, messages):
        for message in messages:
            if "poison" in message.text:
                raise RuntimeError("it is bad")
            self.held.append(MemoryItem(message.id, message.line, sources=(message.id,)))

    def search(self, query, k):
        with self.log.open("a") as file:
            file.write(f"{query.text} {list(query.evidence)}\\n")
        words = set(query.text.lower().split())
        ranked = sorted(self.held, key=lambda item: -len(words & set(item.text.lower().split())))
        return [SearchHit(item, 1.0) for item in ranked[:k]]

    def items(self):
        return self.held

    def end_session(self):
        pass
"""


def talk(count: int = 4, name: str = "a", words: str = "likes") -> dict[str, Any]:
    """Return a conversation of one session with a question about every message."""
    return {
        "id": name,
        "sessions": [
            {
                "date": "5 May 2024",
                "messages": [{"speaker": "Ann", "text": f"Bob {words} fruit{n}"} for n in range(1, count + 1)],
            }
        ],
        "questions": [
            {
                "question": f"who {words} fruit{n}",
                "answer": f"Bob {words} fruit{n}",
                "evidence": [f"D1:{n}"],
                "category": "plain",
            }
            for n in range(1, count + 1)
        ],
    }


class Talks:
    """A folder with `talks.json`, `model.py` and the memory `own.py`."""

    def __init__(self, folder: Path, *talks: dict[str, Any]) -> None:
        self.folder = folder
        (folder / "talks.json").write_text(json.dumps(talks or [talk()]), encoding="utf-8")
        (folder / "model.py").write_text(MODEL)
        (folder / "own.py").write_text(MEMORY)
        self.own = f"{folder}/own.py:Own"

    def values(self, **options: Any) -> dict[str, Any]:
        """Return the options of a run."""
        return {
            "dataset": "plain",
            "data": f"{self.folder}/talks.json",
            "memory": [self.own],
            "model": f"python/{self.folder}/model.py:answer",
            "output_dir": f"{self.folder}/out",
            "top_k": 2,
            **options,
        }

    def run(self, **options: Any) -> assay.Run:
        """Run the test through the Python API."""
        return assay.run(assay.spec("memory-test", **self.values(**options)))

    def job(self, *flags: str) -> Job:
        """Return the test as a process to start."""
        values = self.values()
        command = ["-m", "assay", "memory", "test", "--dataset", "plain", "--data", values["data"]]
        command += ["--model", values["model"], "--output-dir", values["output_dir"]]
        return Job([*command, *flags], self.folder / "out")

    def asked(self) -> list[str]:
        """Return every prompt that the model got."""
        path = self.folder / "asked.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def searched(self) -> list[str]:
        """Return every query of the memory with its evidence."""
        return (self.folder / "log.txt").read_text().splitlines()


def file_of(run: assay.Run, name: str = "0000.json") -> dict[str, Any]:
    """Return the output file of one conversation."""
    (path,) = [path for path in run.files if path.name == name]
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def numbers_of(run: assay.Run, memory: str = "") -> dict[str, Any]:
    """Return the `summary.json` of one memory. Without a name the run must have one memory."""
    summaries = [json.loads(path.read_text()) for path in run.files if path.name == "summary.json"]
    matches: list[dict[str, Any]] = [each for each in summaries if memory in ("", each["memory"])]
    (summary,) = matches
    return summary
