"""A HOP task folder whose function needs no model: it does what its input `mode` says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CODE = """
import asyncio
import os
from pathlib import Path

calls = 0  # the process stays open between rounds, so it counts them


async def hop_verify(session, fields):
    global calls
    calls += 1
    print("a function may print")
    mode = fields["mode"]
    if mode == "raise":
        raise ValueError("the source is down")
    if mode == "die":
        os.kill(os.getpid(), 9)
    if mode == "fail":
        return "FAIL", {"error": f"not verified {calls}"}
    if mode == "ask" and len(session.feedback) < 2:
        return "LACK_OF_INFO", {"clarification_questions": ["Which year?", "Which 公司?"], "calls": calls}
    if mode == "unsure":
        return "UNCERTAIN", {"summary": "perhaps", "calls": calls}
    if mode == "wait":
        gate = Path(__file__).parents[1] / "gate"
        while not gate.exists():
            await asyncio.sleep(0.02)
    errors = [
        {"kind": "number", "severity": "high", "text": "200 instead of 120"},
        {"kind": "style", "severity": "low", "text": "很长"},
    ]
    return {
        "answer": f"checked: {fields['claim']}",
        "score": fields.get("level", 4),
        "supported": fields.get("level", 4) > 3,
        "confidence": 0.75,
        "errors": errors,
        "feedback": list(session.feedback),
        "calls": calls,
    }
"""
CONTRACT = """\
---
name: Verify
version: 2.1.0
retry_quota: 1
max_feedback_rounds: 2
inputs:
  claim: {type: string, label: Claim, description: One sentence., example: The sky is blue.}
  mode: {type: string, choices: [plain, ask, unsure, fail, raise, die, wait], example: plain}
  level: {type: int?, example: 5}
  strict: bool?
  quick: bool
  extra: object?
outputs:
  score: {type: int, label: Score, bands: {BAD: [1, 2], MID: [3, 3], GOOD: [4, 5]}}
  supported: bool
  confidence: float
  errors: {type: array, aggregate: distribution, sub_field: kind}
audit_key: score
---
# Verify
"""


def write_task(folder: Path, **modes: str) -> Path:
    """Write the task with a data file for each keyword: one row for each word of its value, which is the row's mode."""
    (folder / "Hoplet").mkdir(parents=True)
    (folder / "TestCases").mkdir()
    (folder / "Hoplet" / "Hop.py").write_text(CODE)
    (folder / "Hoplet" / "metainfo.md").write_text(CONTRACT)
    for name, words in modes.items():
        rows = [row(number, mode) for number, mode in enumerate(words.split(), 1)]
        write_lines(folder / "TestCases" / f"{name}.jsonl", rows)
    return folder


def row(number: int, mode: str = "plain") -> dict[str, Any]:
    """An input row. Even rows get a score of 2 and expect 4, odd ones get and expect 5."""
    return {
        "id": number,
        "tag": "even" if number % 2 == 0 else "odd",
        "claim": f"claim {number}",
        "mode": mode,
        "level": 2 if number % 2 == 0 else 5,
        "quick": False,
        "expected_score": 4 if number % 2 == 0 else 5,
    }


def write_lines(path: Path, records: list[Any]) -> None:
    """Write JSON lines; texts are lines already."""
    lines = [each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in records]
    path.write_text("".join(f"{line}\n" for line in lines))
