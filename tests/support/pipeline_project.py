"""A folder of pipelines, testsets and models: writes them, runs them, and reads the results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import assay
from assay.cli.main import main
from assay.core.report import Entry

from support.task_project import as_yaml

COMMAND = (
    "pipeline",
    "p.yaml",
    "--testset",
    "tests.jsonl",
    "--model",
    "python/model.py:answer",
    "--output-dir",
    "out",
)
"""As people type it in the folder of a lab."""
MODEL = '''
import asyncio

from assay.core.errors import ModelError
from assay.core.types import Failure

FIRST_SEED = 1234
flying = 0
met = asyncio.Event()


async def answer(prompt, params):
    """Does what the last message says: its first word is the order."""
    global flying
    word, _, rest = prompt[-1]["content"].strip().partition(" ")
    flying += 1
    try:
        return await ORDERS[word](rest, params)
    finally:
        flying -= 1


async def say(rest, params):
    return {"text": rest, "usage": {"input": 3, "output": 2}}


async def nth(rest, params):
    """Another reply each time the same is asked."""
    return rest.split("|")[params["seed"] - FIRST_SEED]


async def crowd(rest, params):
    """How many are asked at once. It counts turns of the loop, because on a busy machine the time is soon over."""
    await asyncio.sleep(0.01)
    for _ in range(50):
        await asyncio.sleep(0)
    return str(flying)


async def meet(rest, params):
    """Whether as many as it wants were asked at once, before it gave up waiting."""
    if flying >= int(rest.split()[0]):
        met.set()
    try:
        await asyncio.wait_for(met.wait(), 2)
    except TimeoutError:
        return "alone"
    return "together"


async def sleep(rest, params):
    await asyncio.sleep(float(rest))
    return "slept"


async def refuse(rest, params):
    raise ModelError(Failure("refusal", "I will not"))


async def down(rest, params):
    raise ModelError(Failure("bad_reply", "nobody is there"))


ORDERS = {f.__name__: f for f in (say, nth, crowd, meet, sleep, refuse, down)}
'''


class PipelineResult:
    """A run and its files."""

    def __init__(self, run: assay.Run) -> None:
        self.run = run
        self.code = run.exit_code
        self.rows = read_lines(run.folder / "results.jsonl")

    @property
    def row(self) -> dict[str, Any]:
        """The only row of results.jsonl."""
        (row,) = self.rows
        return row

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each test by id; with several variants, that of the last one."""
        return {str(row["id"]): row["result"] for row in self.rows}

    def output(self, step: str) -> Any:
        """Return the output of a step in the only row."""
        return self.row["steps"][step].get("output")

    def calls(self) -> list[dict[str, Any]]:
        """All calls in the log."""
        return read_lines(self.run.folder / "calls.jsonl")[1:]

    def prompts(self) -> list[str]:
        """The last message of every request except retries, in order of arrival."""
        return [call["request"]["messages"][-1]["content"] for call in self.calls() if "request" in call]

    @property
    def variants(self) -> list[str]:
        """The variants in the report."""
        assert self.run.report is not None
        return [entry.name for entry in self.run.report.entries]

    def entry(self, variant: str = "baseline") -> Entry:
        """Return the report's entry of one variant."""
        assert self.run.report is not None
        return next(entry for entry in self.run.report.entries if entry.name == variant)

    def step_figures(self, step: str) -> dict[str, Any]:
        """Return a step's row in the table of steps, by column."""
        (steps,) = self.entry().tables
        return next(dict(zip(steps.columns, row, strict=True)) for row in steps.rows if row[0] == step)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the values of a file of JSON lines; [] if there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def says(step: str, text: str = "{{ text }}", **more: Any) -> dict[str, Any]:
    """Return a prompt step whose reply is its own prompt."""
    return {"id": step, "type": "prompt", "template": f"say {text}", **more}


def orders(step: str, order: str, **more: Any) -> dict[str, Any]:
    """Return a prompt step whose prompt is a command for the scripted model."""
    return {"id": step, "type": "prompt", "template": order, **more}


def computes(step: str, returns: str, **more: Any) -> dict[str, Any]:
    """Return a code step that returns the value of an expression over `inputs`."""
    return {"id": step, "type": "code", "code": f"def transform(inputs):\n    return {returns}\n", **more}


def case(name: str | int = "t", **fields: Any) -> dict[str, Any]:
    """Return a test record. Without `inputs` it gets an input `text`, which most pipelines here need."""
    return {"id": name, "inputs": {"text": "hello"}} | fields


class PipelineProject:
    """Writes files into the working directory and runs pipelines there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("model.py", MODEL)
        self.tests(case())

    def write(self, name: str, text: str) -> str:
        """Write a file and create the folders above it."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return name

    def pipeline(self, *steps: dict[str, Any], name: str = "p.yaml", **keys: Any) -> str:
        """Write a pipeline file."""
        return self.write(name, as_yaml({"id": "p", "steps": list(steps)} | keys))

    def tests(self, *records: dict[str, Any], name: str = "tests.jsonl") -> str:
        """Write a testset."""
        return self.write(name, "".join(json.dumps(record) + "\n" for record in records))

    def script(self, *lines: dict[str, Any], name: str = "replies.jsonl") -> str:
        """Write a file of recorded replies and return its model name."""
        return "script/" + self.write(name, "".join(json.dumps(line) + "\n" for line in lines))

    def spec(self, **options: Any) -> assay.RunSpec:
        """Return the spec of a run."""
        values = {"pipeline": "p.yaml", "testset": ["tests.jsonl"], "model": "python/model.py:answer"}
        return assay.spec("pipeline", **{**values, "output_dir": "out", **options})

    def run(self, **options: Any) -> PipelineResult:
        """Run the pipeline on the tests."""
        return PipelineResult(assay.run(self.spec(**options)))

    def of(self, *steps: dict[str, Any], **fields: Any) -> PipelineResult:
        """Run these steps on one test with these fields."""
        self.pipeline(*steps)
        self.tests(case(**fields))
        return self.run()


class CommandResult(NamedTuple):
    """The exit code and output of a command."""

    code: int
    out: str
    err: str


def typed(capsys: pytest.CaptureFixture[str], *arguments: str) -> CommandResult:
    """Run `assay ...` in this process."""
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        # A run that did not finish prints the command that continues it.
        patch.setattr("sys.argv", ["assay", *arguments])
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
    said = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return CommandResult(ended.value.code, said.out, said.err)
