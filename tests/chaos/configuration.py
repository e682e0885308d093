"""The runs that chaos disturbs: every suite in several sizes, each with options that take other ways through the code.

configuration = CONFIGURATIONS["task"][3]
configuration.write(folder)            # its data files
configuration.words(url, start)        # what is typed after `assay`; `start` has the options of mark `how`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import assay
from assay.cli.main import main
from assay.core.errors import AssayError

from support.damaged_runs import HOP
from support.hop_batch import numbered
from support.labels import answer as labelled_answer
from support.memory_samples import sample
from support.memory_talks import talk
from support.task_project import as_yaml

OUTPUT = "out"
# An answer for every reader: the hop function, the answers with citations, the judges.
_JSON = (
    '{"result": "%s", "answer": "%s", "citations": [1], "reason": "%s", "label": "Correct", '
    '"labels": {"1": "Correct"}, "passed": true}'
)
_MODEL = ("--model", "openai/fake")
_JUDGE = ("--judge", "openai/judge")


class How(NamedTuple):
    """Options of one start that have no effect on results. Each start of a run may have others."""

    concurrency: int = 4
    quiet: bool = False
    timeout: float = 30.0
    max_retries: int = 3

    @property
    def flags(self) -> list[str]:
        """The options as people type them."""
        flags = ["--concurrency", str(self.concurrency), "--timeout", f"{self.timeout:g}"]
        return [*flags, "--max-retries", str(self.max_retries), *["--quiet"] * self.quiet]


class Configuration(NamedTuple):
    """One run: a suite with data and options."""

    suite: str
    name: str
    files: dict[str, str]
    command: tuple[str, ...] = ()
    """What is typed, without the options of the endpoint. Empty for an evaluation from Python."""
    wrap: str = ""
    """The text around the endpoint's answers."""
    evaluate: Callable[..., assay.Run] | None = None
    forgives: bool = False
    """Whether code of the run goes on without a reply, so that a case ends well although a call failed."""

    def __str__(self) -> str:
        return f"{self.suite} {self.name}"

    def write(self, folder: Path) -> None:
        """Write the data files."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")

    def start(self, url: str, how: How, more: Sequence[str] = ()) -> int:
        """Start or continue the run in the working folder of this process. Returns the exit code."""
        if self.evaluate is not None:
            return _evaluated(self.evaluate, url, how, more)
        return typed([*self.command, "--base-url", url, "--output-dir", OUTPUT, *how.flags, *more])


def typed(words: list[str]) -> int:
    """Type `assay …` in this process. Returns the exit code."""
    sys.argv = ["assay", *words]
    try:
        main(words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


_WITH_VALUE = ("reuse", "output_dir", "executor", "address", "workers")


def _evaluated(evaluate: Callable[..., assay.Run], url: str, how: How, more: Sequence[str]) -> int:
    """Do what a careful Python program does: show the message of an error, end with the code of the run."""
    options: dict[str, Any] = {"base_url": url, "output_dir": OUTPUT, **how._asdict()}
    words = list(more)
    while words:
        name = words.pop(0).removeprefix("--").replace("-", "_")
        options[name] = words.pop(0) if name in _WITH_VALUE else True
    if "workers" in options:
        options["workers"] = int(options["workers"])
    sys.argv = ["evaluate.py"]
    try:
        run = evaluate(**options)
    except AssayError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    sys.stderr.write(f"{run.reason or run.summary.exit_reason}\n")
    return run.exit_code


def _lines(rows: Sequence[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _task(size: int, repeats: int, *more: str, tasks: int = 1) -> Configuration:
    files = {}
    for number in range(tasks):
        keys = {
            "task": f"t{number}",
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": f"docs{number}.jsonl"},
            "test_split": "train",
            "output_type": "generate_until",
            "doc_to_text": f"{number}: {{{{q}}}}",
            "doc_to_target": "{{a}}",
            "repeats": repeats,
            "metric_list": [{"metric": "exact_match"}, {"metric": "f1"}],
        }
        files[f"t{number}.yaml"] = as_yaml(keys)
        files[f"docs{number}.jsonl"] = _lines([{"q": f"q{n}", "a": f"a{n % 3}"} for n in range(size)])
    names = ",".join(f"t{number}.yaml" for number in range(tasks))
    name = f"of {size} documents, {repeats} repeats, {tasks} tasks" + "".join(f" {word}" for word in more)
    return Configuration("task", name, files, ("task", names, *_MODEL, *more))


def _pipeline(size: int, *, judged: bool = False, variants: bool = False) -> Configuration:
    steps = [
        {"id": "one", "type": "prompt", "template": "say {{ text }}"},
        {"id": "two", "type": "prompt", "template": "say {{ one }}!"},
    ]
    keys: dict[str, Any] = {"id": "p", "steps": steps}
    if variants:
        keys["variants"] = {"loud": {"overrides": {"one": {"template": "shout {{ text }}"}}}}
    expected = "judge:It is polite." if judged else "other"
    tests = [
        {"id": f"t{n}", "inputs": {"text": f"word{n}"}, "expected_outputs": {"two": expected}} for n in range(size)
    ]
    files = {"p.yaml": as_yaml(keys), "tests.jsonl": _lines(tests)}
    name = f"of {size} tests" + ", judged" * judged + ", two variants" * variants
    words = ["pipeline", "p.yaml", "--testset", "tests.jsonl", *_MODEL]
    words += [*_JUDGE] * judged + ["--variant", "all"] * variants
    return Configuration("pipeline", name, files, tuple(words), _JSON if judged else "")


_CHAT = """
async def hop(session, fields):
    return {"answer": fields["n"] * 2, "said": await session.model.chat(f"say {fields['n']}")}
"""


def _hop(size: int, function: str, *more: str) -> Configuration:
    files = {"function.py": function, "rows.jsonl": _lines(numbered(size))}
    name = f"of {size} rows" + ", forgiving" * (function == HOP) + "".join(f" {word}" for word in more)
    words = ("hop", "function.py:hop", "rows.jsonl", *_MODEL, *more)
    return Configuration("hop", name, files, words, _JSON, forgives=function == HOP)


def _memory_test(sizes: Sequence[int], memories: str, *more: str) -> Configuration:
    words = ("likes", "grows", "eats")
    talks = [talk(size, f"c{number}", words[number % 3]) for number, size in enumerate(sizes)]
    command = ("memory", "test", "--dataset", "plain", "--data", "talks.json", "--memory", memories, *_MODEL)
    name = f"of {len(sizes)} conversations with {memories}" + "".join(f" {word}" for word in more)
    files = {"talks.json": json.dumps(talks)}
    return Configuration("memory test", name, files, (*command, "--top-k", "2", *more), _JSON)


def _memory_eval(samples: int, memories: str, *more: str) -> Configuration:
    files = {f"data/s{n}.json": json.dumps(sample(f"s{n}", 2)) for n in range(samples)}
    command = ("memory", "eval", "--dataset", "data", "--baseline", memories, *_MODEL, *more)
    name = f"of {samples} samples with {memories} {' '.join(more)}"
    return Configuration("memory eval", name, files, command, _JSON)


def _calibration(size: int, *more: str) -> Configuration:
    rows = [labelled_answer(n, right=n % 3 > 0, label=n % 2 > 0) for n in range(size)]
    command = ("judge", "calibrate", "--labels", "labels.jsonl", *_JUDGE, *more)
    name = f"of {size} labels" + "".join(f" {word}" for word in more)
    return Configuration("calibration", name, {"labels.jsonl": _lines(rows)}, command, _JSON)


def _evaluation(size: int, **more: Any) -> Configuration:
    rows = [{"n": n, "answer": str(n % 4)} for n in range(size)]

    def evaluate(**options: Any) -> assay.Run:
        values: dict[str, Any] = {"prompt": "Say {{n}}.", "model": "openai/fake", "score": ["f1"], **more}
        return assay.evaluate(rows, target="answer", name="sums", **values, **options)

    return Configuration("evaluate", f"of {size} rows {more or ''}".strip(), {}, wrap=_JSON, evaluate=evaluate)


_ALL = (
    _task(3, 1),
    _task(8, 2),
    _task(5, 1, tasks=2),
    _task(30, 1),
    _task(6, 1, "--predict-only"),
    _task(9, 1, "--limit", "5"),
    _pipeline(2),
    _pipeline(6),
    _pipeline(3, judged=True),
    _pipeline(4, variants=True),
    _hop(2, HOP),
    _hop(8, HOP),
    _hop(4, _CHAT, "--wrapper", "view"),
    _hop(8, _CHAT),
    _memory_test((3,), "bm25"),
    _memory_test((3, 3, 2), "bm25,STMemory"),
    _memory_test((3, 2), "GAMemory"),
    _memory_test((2, 2), "bm25", "--judge", "openai/judge"),
    _memory_eval(1, "bm25", "--judge", "offline"),
    _memory_eval(2, "bm25,STMemory", "--judge", "offline"),
    _memory_eval(2, "bm25", *_JUDGE),
    _memory_eval(1, "bm25", "--no-judge"),
    _evaluation(3),
    _evaluation(10),
    _evaluation(4, prompt={"short": "Say {{n}}.", "long": "Please say {{n}}."}),
    _evaluation(4, repeats=3),
    _calibration(4),
    _calibration(8),
    _calibration(4, "--votes", "3"),
)
CONFIGURATIONS = {
    suite: [each for each in _ALL if each.suite == suite] for suite in dict.fromkeys(each.suite for each in _ALL)
}
"""The configurations of each suite."""
