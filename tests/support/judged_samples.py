"""Runs of memory eval against one endpoint: the model `subject` answers, every other model judges."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import assay

from servers.judging import JudgingServer
from support.memory_samples import Samples

SUBJECT = "subject"
STAGE_ONE = ("pipeline_sessions.jsonl", "pipeline_qa.jsonl")
STAGE_TWO = ("session_records.jsonl", "qa_records.jsonl", "aggregate_metrics.json")


def reply(body: dict[str, Any]) -> str:
    """Return the reply of the subject: to a question, the retrieved line with the most common words."""
    system, prompt = body["messages"][0]["content"], body["messages"][-1]["content"]
    if "Question: " not in prompt:
        return _reply_to_memory(system, prompt)
    lines = [line for line in prompt.splitlines() if line.startswith("[")]
    if not lines:
        return json.dumps({"answer": "Not mentioned in memory.", "citations": []})
    words = set(prompt.rpartition("Question: ")[2].lower().replace("?", "").split())
    best = max(range(len(lines)), key=lambda number: len(words & set(lines[number].lower().split())))
    return json.dumps({"answer": lines[best].partition("user: ")[2], "citations": [best + 1]})


def _reply_to_memory(system: str, prompt: str) -> str:
    """Return a reply to a request of a memory, in the form that its prompt asks for."""
    if "whole number" in system:
        return str(1 + len(prompt) % 10)
    if "line of its own" in system:
        return f"Who has pets, of {len(prompt)}?\nWhat is called Rex?"
    return "no" if "yes" in system else f"In short: {' '.join(prompt.split()[1:12])}"


class JudgedSamples(Samples):
    """Samples with a server that answers and judges, and keeps all requests."""

    def __init__(self, folder: Path, server: JudgingServer, *samples: dict[str, Any]) -> None:
        super().__init__(folder, *samples)
        self.server = server

    def values(self, **options: Any) -> dict[str, Any]:
        """Return the options of a run: `subject` answers and `judge-a` judges, at one endpoint."""
        defaults = {"model": f"openai/{SUBJECT}", "judge": "openai/judge-a", "base_url": self.server.url}
        return super().values(**defaults | options)

    def judged(self, judge: str, **options: Any) -> assay.Run:
        """Run `--eval-only` with this judge, without data and model."""
        defaults = {"dataset": "", "baseline": [], "model": "", "judge": judge, "eval_only": True}
        return self.run(**defaults | options)

    def calls(self) -> Counter[str]:
        """Return the number of requests so far, by model."""
        return Counter(body["model"] for body in self.server.bodies)

    def said_to(self, model: str) -> list[str]:
        """Return the messages of every request to a model."""
        return [json.dumps(body["messages"]) for body in self.server.bodies if body["model"] == model]

    def scorers(self) -> Counter[str]:
        """Return the number of scores in all run folders, by scorer."""
        counts: Counter[str] = Counter()
        for path in self.out.glob("assay/[!.]*/scores.jsonl"):
            whole = [json.loads(line) for line in path.read_text().splitlines()[1:]]
            counts.update(line["scorer"] for line in whole if line["type"] == "score")
        return counts


def stage_one(out: Path) -> dict[str, tuple[bytes, int]]:
    """Return content and modification time of every pipeline file, without those of earlier scorings."""
    paths = sorted(path for path in out.rglob("pipeline_*.jsonl") if "earlier" not in path.parts)
    return {str(path.relative_to(out)): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


def stage_two(out: Path) -> dict[str, bytes]:
    """Return the content of every file of stage two, without those of earlier scorings."""
    paths = [path for name in STAGE_TWO for path in out.rglob(name) if "earlier" not in path.parts]
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(paths)}
