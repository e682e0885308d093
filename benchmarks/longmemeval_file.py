"""`python -m benchmarks.longmemeval_file`: the memory that a run over a file as large as LongMemEval's needs.

Writes a file in LongMemEval's schema with invented chats, 500 questions and 120 MB, runs `assay memory test` over it in
a process of its own, and prints the peak of that process's memory. Exit code 1 above --most megabytes.

    python -m benchmarks.longmemeval_file --megabytes 300 --memory bm25,STMemory
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

_TYPES = (
    "single-session-user",
    "single-session-assistant",
    "single-session-preference",
    "multi-session",
    "temporal-reasoning",
    "knowledge-update",
)
# The shares of the published files: about 12 messages in a session, 30 of 500 questions without an answer.
_MESSAGES, _ABSTENTIONS = 12, 17
_SYLLABLES = ("ka", "to", "mi", "re", "lu", "so", "ne", "va", "di", "pa", "gu", "bo")


def write_file(path: Path, questions: int, size: int) -> None:
    """Write a list of questions with their chats, of about `size` bytes in all. Equal calls write equal files."""
    with path.open("w", encoding="utf-8") as file:
        for number, entry in enumerate(_entries(questions, size // questions)):
            file.write(("[\n" if number == 0 else ",\n") + json.dumps(entry))
        file.write("\n]\n")


def _entries(count: int, size: int) -> Iterator[dict[str, Any]]:
    rng = random.Random(11)
    words = ["".join(rng.choices(_SYLLABLES, k=rng.randint(1, 4))) for _ in range(4_000)]
    for number in range(count):
        sessions: list[list[dict[str, Any]]] = []
        length = 0
        while length < size:
            session: list[dict[str, Any]] = []
            for place in range(_MESSAGES):
                text = " ".join(rng.choices(words, k=rng.randint(20, 140)))
                session.append({"role": "assistant" if place % 2 else "user", "content": text})
                length += len(text) + 40
            sessions.append(session)
        answer = rng.randrange(len(sessions))
        thing, value = rng.sample(words, 2)
        for message in sessions[answer]:
            message["has_answer"] = False
        sessions[answer][0]["content"] += f" My {thing} is called {value}{number}."
        sessions[answer][0]["has_answer"] = True
        first = datetime(2023, 1, 2, 8, 30, tzinfo=UTC) + timedelta(days=number % 90)
        dates = [_date(first + timedelta(days=place)) for place in range(len(sessions))]
        abstains = number % _ABSTENTIONS == _ABSTENTIONS - 1
        yield {
            "question_id": f"q{number:04d}{'_abs' if abstains else ''}",
            "question_type": _TYPES[number % len(_TYPES)],
            "question": f"What is my {thing} called?",
            "answer": "You did not tell me." if abstains else f"{value}{number}",
            "question_date": _date(first + timedelta(days=len(sessions) + 3)),
            "haystack_dates": dates,
            "haystack_session_ids": [f"s{number}_{place}" for place in range(len(sessions))],
            "haystack_sessions": sessions,
            "answer_session_ids": [f"s{number}_{answer}"],
        }


def _date(day: datetime) -> str:
    return day.strftime("%Y/%m/%d (%a) %H:%M")


def main() -> int:
    """Write the file, run over it, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--megabytes", type=int, default=120)
    parser.add_argument("--memory", default="bm25")
    parser.add_argument("--most", type=int, default=300, help="megabytes of memory that the run may need")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="assay-longmemeval-") as folder:
        path = Path(folder) / "longmemeval.json"
        write_file(path, options.questions, options.megabytes * 1_000_000)
        command = [
            sys.executable,
            "-m",
            "assay",
            "memory",
            "test",
            "--dataset",
            "longmemeval",
            "--data",
            str(path),
        ]
        command += ["--memory", options.memory, "--no-answer", "--output-dir", f"{folder}/out"]
        started = time.perf_counter()
        run = subprocess.run(
            command, check=False, cwd=folder, stdout=subprocess.DEVNULL, env={**os.environ, "NO_COLOR": "1"}
        )
        seconds = time.perf_counter() - started
        # Kilobytes on Linux. This process has no other child.
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1_000
        written = sum(1 for _ in Path(folder).rglob("0*.json"))
        print(f"file     {path.stat().st_size / 1e6:,.0f} MB, {options.questions:,} questions")
        print(f"run      exit code {run.returncode}, {seconds:.0f} s, {written:,} result files")
        print(f"memory   {peak:,.0f} MB at most, limit {options.most:,} MB")
    return int(run.returncode != 0 or peak > options.most)


if __name__ == "__main__":
    raise SystemExit(main())
