"""Memory evaluations: many samples through `bm25` against a bare script that makes the same calls."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.figures import Figure
from benchmarks.measure import Server, Used, environment, python

CONCURRENCY = 64
QUESTIONS = 5
ROUNDS = 5
LONG = 10
"""Times the sessions, for the second figure."""


class Work(NamedTuple):
    """So many samples of so many sessions."""

    data: Path
    samples: int
    sessions: int

    @property
    def calls(self) -> int:
        """One for each question."""
        return self.samples * self.sessions * QUESTIONS


def sessions(folder: Path, endpoint: Server, samples: int, turns: int) -> Iterator[Figure]:
    """CPU against the bare script, and what ten times the sessions cost."""
    work, bare_lines = _work(folder, samples, 10), folder / "bare.jsonl"
    ours, bare, judged = [], [], []
    for _ in range(turns):
        ours.append(_assay(work, endpoint, folder, "--no-judge"))
        _prompts(folder, bare_lines)
        bare.append(_bare(bare_lines, work, endpoint, folder))
        judged.append(_assay(work, endpoint, folder, "--judge", "offline"))
    mine, other, with_judge = (min(turn.cpu for turn in each) for each in (ours, bare, judged))
    note = f"{mine:.2f} s / {other:.2f} s, {work.calls:,} questions"
    yield Figure("CPU against the bare script", mine / other, 2.0, "x", note)
    note = f"{with_judge:.2f} s / {mine:.2f} s; {with_judge / other:.2f} times the script"
    yield Figure("CPU judged offline against not judged", with_judge / mine, 3.0, "x", note)
    yield from _longer(folder, endpoint, max(1, samples // LONG))


def _longer(folder: Path, endpoint: Server, samples: int) -> Iterator[Figure]:
    """Few samples, with ten sessions and with a hundred: CPU beyond the start, and bytes of the journal."""
    found = []
    start = min(_assay(_work(folder, 1, 1), endpoint, folder, "--no-judge").cpu for _ in range(3))
    for count in (10, 10 * LONG):
        used = _assay(_work(folder, samples, count), endpoint, folder, "--no-judge")
        found.append((used.cpu - start, _journal(folder)))
    (cpu, size), (long_cpu, long_size) = found
    note = f"{samples} samples, {10 * LONG} sessions / 10; {long_cpu:.2f} s / {cpu:.2f} s beyond the start"
    yield Figure("ten times the sessions, CPU", long_cpu / cpu, 12.0, "x", note)
    note = f"{long_size / 1e6:.1f} MB / {size / 1e6:.2f} MB"
    yield Figure("ten times the sessions, journal", long_size / size, 12.0, "x", note)


def _work(folder: Path, samples: int, count: int) -> Work:
    data = folder / f"data_{samples}_{count}"
    if not data.exists():
        data.mkdir()
        for number in range(samples):
            (data / f"{number:04d}.json").write_text(json.dumps(sample(number, count)), encoding="utf-8")
    return Work(data, samples, count)


def sample(number: int, count: int) -> dict[str, Any]:
    """Return a sample of `memory eval` with `count` sessions."""
    return {
        "sample_id": f"sample-{number:04d}",
        "sessions": [{"_v2_session_id": f"S{at:03d}", "dialogue": [*_turns(number, at)]} for at in range(count)],
        "memory_points": [{"session_id": f"S{at:03d}", "memory_points": [*_points(number, at)]} for at in range(count)],
        "qa_checkpoints": [_checkpoint(number, at, count) for at in range(count)],
    }


def _turns(number: int, at: int) -> Iterator[dict[str, str]]:
    for n in range(ROUNDS):
        said = f"On day {at} I bought thing{number}x{at}x{n} for {n + 3} coins in the town {at % 7}."
        yield {"role": "user", "content": said, "timestamp": f"2024-01-{at % 28 + 1:02d}"}
        yield {"role": "assistant", "content": f"Noted: thing{number}x{at}x{n} is yours now."}


def _points(number: int, at: int) -> Iterator[dict[str, Any]]:
    for n in range(ROUNDS):
        content = f"The user bought thing{number}x{at}x{n} for {n + 3} coins"
        yield {"memory_id": f"mp_S{at:03d}_{n}", "memory_content": content, "is_update": False}


def _checkpoint(number: int, at: int, count: int) -> dict[str, Any]:
    asked = [
        {
            "question": f"Q{(number * count + at) * QUESTIONS + n}: how much was thing{number}x{at}x{n}?",
            "answer": f"{n + 3} coins",
            "evidence": [{"memory_id": f"mp_S{at:03d}_{n}"}],
            "question_type_abbrev": "FR",
        }
        for n in range(QUESTIONS)
    ]
    return {"checkpoint_id": f"probe_{at}", "covered_sessions": [f"S{at:03d}"], "questions": asked}


def _assay(work: Work, endpoint: Server, folder: Path, *flags: str) -> Used:
    output = folder / "output"
    shutil.rmtree(output, ignore_errors=True)
    endpoint.reset()
    command = ["memory", "eval", "--dataset", work.data, "--baseline", "bm25", "--output-dir", output]
    command += ["--model", "openai/fake", "--base-url", endpoint.url, "--concurrency", CONCURRENCY, *flags]
    used = python("-m", "assay", *command, env=environment(uvloop=True), log=folder / "assay.log")
    if used.code or endpoint.stats()["asked"] != work.calls:
        raise SystemExit(f"{endpoint.stats()['asked']} requests instead of {work.calls}:\n{used.output}")
    return used


def _bare(lines: Path, work: Work, endpoint: Server, folder: Path) -> Used:
    log = folder / "bare_log.jsonl"
    log.unlink(missing_ok=True)
    endpoint.reset()
    script = Path(__file__).with_name("bare.py")
    command = (script, lines, CONCURRENCY, log, endpoint.url)
    used = python(*command, env=environment(uvloop=True), log=folder / "bare.log")
    if used.code or endpoint.stats()["asked"] != work.calls:
        raise SystemExit(f"{endpoint.stats()['asked']} requests instead of {work.calls}:\n{used.output}")
    return used


def _prompts(folder: Path, lines: Path) -> None:
    """What the bare script asks: the prompts of the run before it, as they stand in its log."""
    if lines.exists():
        return
    (log,) = folder.glob("output/assay/*/calls.jsonl")
    with lines.open("w", encoding="utf-8") as file:
        for line in log.read_text(encoding="utf-8").splitlines()[1:]:
            asked = json.loads(line)["request"]["messages"]
            text = "\n".join(message["content"] for message in asked)
            file.write(json.dumps({"question": text, "answer": "?"}) + "\n")


def _journal(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("output/assay/*/*.jsonl"))
