"""CPU of the filter stage, against the code of another commit: `python -m benchmarks.filters FOLDER [TURNS]`.

FOLDER has the `src` of the other commit: `mkdir /tmp/before && git archive COMMIT src | tar -x -C /tmp/before`. The
stage scores 10,000 documents with the filters and the metric of GSM8K and of a multiple-choice task, as a run does,
without its journal. The two commits take turns, each in processes of its own. The figure is the ratio of the fastest
turns. Exits with 1 if it is above the limit.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, cast

from benchmarks.measure import REPOSITORY, environment

DOCUMENTS = 10_000
LIMIT = 1.1
_SLICE = 20
_ROUNDS = 8
_FILTERS = [
    {
        "name": "strict-match",
        "filter": [
            {"function": "regex", "regex_pattern": r"#### (\-?[0-9\.\,]+)"},
            {"function": "take_first"},
        ],
    },
    {
        "name": "flexible-extract",
        "filter": [
            {"function": "regex", "group_select": -1, "regex_pattern": r"(-?[$0-9.,]{2,})|(-?[0-9]+)"},
            {"function": "take_first"},
        ],
    },
    {
        "name": "choice",
        "filter": [
            {
                "function": "multi_choice_regex",
                "regex_pattern": r"The answer is (\([A-D]\))",
                "ignore_case": True,
            },
            {"function": "take_first"},
        ],
    },
]
_TASK = {
    "task": "filters",
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"test": "docs.jsonl"}},
    "test_split": "test",
    "doc_to_text": "{{question}}",
    "doc_to_target": "{{answer}}",
    "filter_list": _FILTERS,
    "metric_list": [
        {
            "metric": "exact_match",
            "ignore_case": True,
            "regexes_to_ignore": [",", r"\$", "(?s).*#### ", r"\.$"],
        }
    ],
}
_SENTENCES = (
    "Natalia sold {0} clips in April and half as many in May. ",
    "Each of the {1} boxes holds {0} apples, so there are {2} apples in total. ",
    "She pays $1,{0}.50 for the tickets, which leaves her with {1} dollars. ",
    "We subtract the {1} that were given away before the weekend. ",
)


def reply(number: int) -> str:
    """Return a reply of about 600 characters, with an answer at its end."""
    text = "".join(_SENTENCES[(number + step) % 4].format(number % 97, step + 2, number) for step in range(9))
    return f"{text}\n#### {number % 7}" if number % 5 else f"{text}The answer is (B)."


def stage(folder: Path) -> float:
    """Return the CPU seconds that scoring all documents takes in this process."""
    from assay.core.protocols import ScorerInput
    from assay.core.types import Case, End, Record
    from assay.suites.task.config import TaskFiles, read_task
    from assay.suites.task.filters import read_filters
    from assay.suites.task.metrics import read_metrics
    from assay.suites.task.requests import TaskGold
    from assay.suites.task.scorer import TaskScorer, TaskScoring

    path = folder / "filters.yaml"
    path.write_text(json.dumps(_TASK))  # JSON is YAML
    config = read_task(TaskFiles().read(path), path)
    scoring = TaskScoring("generate_until", read_filters(config), read_metrics(config, quirks=False))
    scorer = TaskScorer("task@bench", {"filters": scoring})
    given = []
    for number in range(DOCUMENTS):
        gold = TaskGold({"choices": ["apples", "pears", "plums", "figs"]}, str(number % 9), str(number % 9))
        case = Case(number, str(number), "filters", "model", str(number), None, gold)
        head = (number, str(number), "filters", "model")
        records = [Record(*head, try_=1, kind="answer", data=[[reply(number)]])]
        given.append(ScorerInput(case, End(*head, stage="ask", try_=1, status="ok", lines=[]), records))

    async def score_all() -> list[float]:
        seconds = []
        for first in range(0, DOCUMENTS, _SLICE):
            started = time.perf_counter()
            for each in given[first : first + _SLICE]:
                await scorer.score(each, cast("Any", None))
            seconds.append(time.perf_counter() - started)
        return seconds

    # Other processes never disturb a slice of some milliseconds in every round, so its fastest round is its CPU time.
    # The kernel's own count of CPU time has steps of 10 ms.
    rounds = [asyncio.run(score_all()) for _ in range(_ROUNDS)]
    fastest: list[float] = [min(slices) for slices in zip(*rounds, strict=True)]
    return sum(fastest)


def measure(source: Path, folder: Path) -> float:
    """Return the CPU seconds of the stage with the code in a folder, in a process of its own."""
    program = "import sys; from pathlib import Path; from benchmarks.filters import stage; "
    program += "print(stage(Path(sys.argv[1])))"
    env = environment(uvloop=True) | {"PYTHONPATH": f"{source}:{REPOSITORY}"}
    command = [sys.executable, "-c", program, str(folder)]
    return float(subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Measure both commits in turns and print the ratio."""
    before_source, turns = Path(sys.argv[1]) / "src", int(sys.argv[2]) if len(sys.argv) > 2 else 5
    before, now = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(turns):
            before.append(measure(before_source, Path(folder)))
            now.append(measure(REPOSITORY / "src", Path(folder)))
    ratio = min(now) / min(before)
    print(f"{DOCUMENTS:,} documents: {min(before):.3f} s before, {min(now):.3f} s now, ratio {ratio:.3f}")
    sys.exit(ratio > LIMIT)


if __name__ == "__main__":
    main()
