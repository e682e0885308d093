"""Writes a large run without running it: the journal, as a task with two filters would have written it.

    python -m benchmarks.journal_run FOLDER --cases 1000000 --seed 1

The lines go through assay's own journal. Prompts have 30 to 110 words and replies about 350 characters, as in usual
question answering; every hundredth case failed. Runs of different seeds share questions and differ in answers.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import assay
from assay.core.hashing import request_hash
from assay.core.report import Entry, Interval, Metric, Report
from assay.core.types import ASK, Call, End, Failure, Record, Request, Response, Score, Status, Usage
from assay.journal import folder as folders
from assay.journal.folder import RunFolder
from assay.journal.journal import Journal
from assay.journal.run_files import RunInfo, Summary, write_summary

MODEL, TASK, SCORER, METRIC = "bench/model", "questions", "task@bench", "exact_match"
FILTERS = ("strict", "flexible")
TAGS = tuple(f"category:{number}" for number in range(20))
_WORDS = [f"{first}{second}" for first in ("al", "be", "cor", "du", "en") for second in ("ma", "ner", "tis", "vo")]


def write_run(output: Path, cases: int, seed: int, *, finished: bool = True) -> Path:
    """Write a run below `output` and return its folder. An unfinished run lacks its last ten cases and its summary."""
    home = output / folders.HOME
    home.mkdir(parents=True)
    folder = folders.create_run(home, _info(cases, seed))
    journal = Journal(folder.path, [SCORER], [], folder.info().id)
    right = dict.fromkeys(FILTERS, 0)
    for index in range(cases if finished else cases - 10):
        _write_case(journal, index, seed, right)
    if finished:
        write_summary(folder.path, _summary(journal, cases, right))
    journal.close()
    return _close(folder)


def _close(folder: RunFolder) -> Path:
    folder.close()
    return folder.path


def _write_case(journal: Journal, index: int, seed: int, right: dict[str, int]) -> None:
    draw = random.Random(index)
    head = (index, f"{index:016x}", TASK, MODEL)
    question = " ".join(draw.choices(_WORDS, k=draw.randint(30, 110)))
    target = str(draw.randint(0, 999))
    answers = random.Random(f"{seed}/{index}")
    failed = index % 100 == 99
    request = Request(model=MODEL, prompt=f"Question: {question}\nAnswer:", params={"max_tokens": 256})
    text = " ".join(answers.choices(_WORDS, k=65))
    found = target if answers.random() < 0.6 else "none"
    reply = Response(f"{text} #### {found}", "stop", Usage(len(question) // 4, 90))
    failure = Failure("refusal", "the endpoint refused this question") if failed else None
    call = Call(*head, ASK, 1, request_hash(request), 0, request, None if failed else reply, failure, 1, 0.5)
    journal.call(call)
    status: Status = "subject_error" if failed else "ok"
    tags = (TAGS[draw.randrange(len(TAGS))],)
    end = End(*head, ASK, 1, status, [], failure, reply.usage, 1, 0.5, str(index), tags)
    journal.end_case(end, [] if failed else [Record(*head, 1, "answer", "", [[reply.text]])])
    scores = []
    for name in FILTERS:
        value = 0.0 if failed else float(found == target)
        right[name] += int(value)
        scores.append(Score(*head, SCORER, METRIC, name, value=value, data={"filtered": [found]}, expected=target))
    journal.end_scoring(End(*head, SCORER, 1, "ok", []), scores)


def _info(cases: int, seed: int) -> RunInfo:
    return RunInfo(
        suite="task",
        ask=f"{seed:012x}",
        started=time.time(),
        version=assay.__version__,
        total=cases,
        command=["assay", "task", TASK],
        spec={"suite": "task", "model": MODEL, "base_url": None, "output_dir": "results", "options": {}},
        parts={"ask": {"models": {}, "seed": seed}},
        facts={},
        score_parts="filters",
    )


def _summary(journal: Journal, cases: int, right: dict[str, int]) -> Summary:
    counts = journal.counts(cases)
    metrics = [
        Metric(
            name=METRIC,
            filter=name,
            value=count / cases,
            numerator=count,
            denominator=cases,
            interval=Interval(count / cases - 0.001, count / cases + 0.001),
        )
        for name, count in right.items()
    ]
    return Summary(
        state="finished",
        score="bench",
        scorers=[SCORER],
        total=cases,
        ok=counts["ok"],
        subject_error=counts["subject_error"],
        infra_error=counts["infra_error"],
        exit_code=0,
        seconds=1.0,
        spent=journal.index.spent.counts(),
        this_start={},
        files=[],
        report=Report(entries=[Entry(name=TASK, subject=MODEL, set=TASK, metrics=metrics)]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unfinished", action="store_true")
    arguments = parser.parse_args()
    print(write_run(arguments.folder, arguments.cases, arguments.seed, finished=not arguments.unfinished))


if __name__ == "__main__":
    main()
