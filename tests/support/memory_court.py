"""Samples, and one endpoint at which the model `subject` answers and every other model judges."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from assay import api

from servers.judging import JudgingServer
from support.memory_samples import Samples

SUBJECT = "subject"
STAGE_ONE = ("pipeline_sessions.jsonl", "pipeline_qa.jsonl")
STAGE_TWO = ("session_records.jsonl", "qa_records.jsonl", "aggregate_metrics.json")


def reply(body: dict[str, Any]) -> str:
    """What the subject says: in the form that memories ask for, else the line that fits a question best."""
    system, said = body["messages"][0]["content"], body["messages"][-1]["content"]
    if "Question: " not in said:
        return _told(system, said)
    lines = [line for line in said.splitlines() if line.startswith("[")]
    if not lines:
        return json.dumps({"answer": "Not mentioned in memory.", "citations": []})
    words = set(said.rpartition("Question: ")[2].lower().replace("?", "").split())
    best = max(range(len(lines)), key=lambda at: len(words & set(lines[at].lower().split())))
    return json.dumps({"answer": lines[best].partition("user: ")[2], "citations": [best + 1]})


def _told(system: str, said: str) -> str:
    """To a memory that asks."""
    if "whole number" in system:
        return str(1 + len(said) % 10)
    if "line of its own" in system:
        return f"Who has pets, of {len(said)}?\nWhat is called Rex?"
    return "no" if "yes" in system else f"In short: {' '.join(said.split()[1:12])}"


class Court(Samples):
    """Runs and judges at a server that keeps what it was asked."""

    def __init__(self, folder: Path, server: JudgingServer, *samples: dict[str, Any]) -> None:
        super().__init__(folder, *samples)
        self.server = server

    def values(self, **options: Any) -> dict[str, Any]:
        """The subject answers and `judge-a` judges, at one endpoint."""
        told = {"model": f"openai/{SUBJECT}", "judge": "openai/judge-a", "base_url": self.server.url}
        return super().values(**told | options)

    def judged(self, judge: str, **options: Any) -> api.Run:
        """`--eval-only`, without the data: all that is told is where, and by whom."""
        told = {"dataset": "", "baseline": [], "model": "", "judge": judge, "eval_only": True}
        return self.run(**told | options)

    def calls(self) -> Counter[str]:
        """Requests that arrived, by model."""
        return Counter(body["model"] for body in self.server.bodies)

    def said_to(self, model: str) -> list[str]:
        """All that a model was asked, request by request."""
        return [json.dumps(body["messages"]) for body in self.server.bodies if body["model"] == model]

    def scorers(self) -> Counter[str]:
        """Lines of scores.jsonl in all run folders, by scorer."""
        found: Counter[str] = Counter()
        for path in self.out.glob("assay/*/scores.jsonl"):
            whole = [json.loads(line) for line in path.read_text().splitlines()[1:]]
            found.update(line["scorer"] for line in whole if line["type"] == "score")
        return found


def stage_one(out: Path) -> dict[str, tuple[bytes, int]]:
    """Content and time of every pipeline file."""
    paths = sorted(path for path in out.rglob("pipeline_*.jsonl"))
    return {str(path.relative_to(out)): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


def stage_two(out: Path) -> dict[str, bytes]:
    """What the judge's word became, file by file."""
    paths = [path for name in STAGE_TWO for path in out.rglob(name)]
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(paths)}
