"""A folder of task files with their data and models: writes them, runs them, and reads the results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import assay
from assay.core.errors import InputError
from assay.core.report import Curve, Entry, Metric

MODEL = '''
def last(prompt):
    """The last line of the prompt."""
    text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    return text.rsplit("\\n", 1)[-1]


async def echo(prompt, params):
    return last(prompt)


async def repeats(prompt, params):
    """The n-th of the words of the last line, n from 0 on."""
    return last(prompt).split()[params["seed"] - 1234]
'''
LIKELY = '''
import json
from pathlib import Path

from assay.core.types import Response


class Likely:
    """Says of each text what a table says: by prompt and continuation, else by continuation."""

    can = frozenset({"loglikelihood"})

    def __init__(self):
        self.endpoint = Path(__file__).with_name("likely.json").read_text()
        self.table = json.loads(self.endpoint)

    async def send(self, request, seed):
        both = f"{request.prompt}|{request.continuation}"
        logprob, greedy = self.table[both if both in self.table else request.continuation]
        return Response("", data={"logprob": logprob, "greedy": greedy})

    async def close(self):
        pass


class Provider:
    connect = staticmethod(lambda connection: Likely())
'''


class Fn(str):
    """`!function module.name` in a task file."""

    __slots__ = ()


class _Dumper(yaml.CSafeDumper):
    """A YAML dumper that writes `Fn`, and repeats equal values instead of using aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(Fn, lambda dumper, value: dumper.represent_scalar("!function", str(value)))


def as_yaml(values: Any) -> str:
    """Return settings as the text of a task file, with keys in the given order."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def docs_of(*pairs: str) -> list[dict[str, Any]]:
    """Return documents from texts `q=a`. The echoing model is right if q equals a."""
    return [dict(zip(("q", "a"), pair.split("=", 1), strict=True)) for pair in pairs]


class TaskResult:
    """A run and its files."""

    def __init__(self, run: assay.Run) -> None:
        self.run = run
        self.file: dict[str, Any] = json.loads(run.files[0].read_text())
        self.results: dict[str, Any] = self.file["results"]

    def rows(self, task: str = "t") -> list[dict[str, Any]]:
        """Return the rows of one task's samples file."""
        (path,) = [path for path in self.run.files[1:] if path.name.startswith(f"samples_{task}_2")]
        return [json.loads(line) for line in path.read_text().splitlines()]

    def column(self, name: str, task: str = "t") -> list[Any]:
        """Return one key of all rows; None for a row without it."""
        return [row.get(name) for row in self.rows(task)]

    def prompts(self, task: str = "t", request: int = 0) -> list[Any]:
        """Return the prompt, or the messages, of each document."""
        result = [row["arguments"][f"gen_args_{request}"]["arg_0"] for row in self.rows(task)]
        return [json.loads(one[0]) if isinstance(one, list) else one for one in result]

    def entry(self, task: str = "t") -> Entry:
        """Return the report's entry of a task or a group."""
        assert self.run.report is not None
        (entry,) = [entry for entry in self.run.report.entries if entry.name == task]
        return entry

    def metric(self, name: str, task: str = "t") -> Metric:
        """Return a metric of the report."""
        (metric,) = [metric for metric in self.entry(task).metrics if metric.name == name]
        return metric

    def curve(self, name: str, filter_: str, task: str = "t") -> Curve:
        """Return `pass@k` or `maj@k` of one filter."""
        (curve,) = [
            curve
            for curve in self.entry(task).curves
            if curve.name == name and curve.points[0].metric.filter == filter_
        ]
        return curve


class TaskProject:
    """Writes files into the working directory and runs tasks there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("model.py", MODEL)

    def write(self, name: str, text: str) -> Path:
        """Write a file and create the folders above it."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def data(self, name: str, docs: list[dict[str, Any]]) -> Path:
        """Write documents as JSON lines."""
        return self.write(name, "".join(json.dumps(doc) + "\n" for doc in docs))

    def task(self, file: str = "t.yaml", docs: list[dict[str, Any]] | None = None, **changes: Any) -> str:
        """Write a task with the prompt `q` and the target `a`, with changes. A change to None removes a key."""
        name = changes.get("task", Path(file).stem)
        data = Path(file).with_suffix(".jsonl")
        settings: dict[str, Any] = {
            "task": name,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": data.name}},
            "test_split": "test",
            "doc_to_text": "{{q}}",
            "doc_to_target": "{{a}}",
        }
        kept = {key: value for key, value in (settings | changes).items() if value is not None}
        self.write(file, as_yaml(kept))
        self.data(str(data), docs if docs is not None else docs_of("x=x", "y=z"))
        return file

    def group(self, file: str, **settings: Any) -> str:
        """Write the file of a group."""
        self.write(file, as_yaml({"group": Path(file).stem} | settings))
        return file

    def likely(self, table: dict[str, tuple[float, bool]]) -> str:
        """Write a model that returns likelihoods."""
        self.write("likely.json", json.dumps(table))
        self.write("likely.py", LIKELY)
        return "likely.py:Provider/table"

    def spec(self, *tasks: str, **options: Any) -> assay.RunSpec:
        """Return the spec of a run."""
        values = {"model": "python/model.py:echo", "output_dir": "out", **options}
        return assay.spec("task", tasks=list(tasks) or ["t.yaml"], **values)

    def run(self, *tasks: str, **options: Any) -> TaskResult:
        """Run tasks; `t.yaml` if none is given."""
        return TaskResult(assay.run(self.spec(*tasks, **options)))


FOUR = docs_of("1=1", "2=0", "3=3", "4=4")


def has_requests(lab: TaskProject) -> bool:
    """Return whether a run has sent a request."""
    return any((lab.folder / "out").glob("assay/[!.]*/calls.jsonl"))


def refused(lab: TaskProject, match: str, **changes: Any) -> None:
    """Assert that a task is refused with this message before the first request."""
    lab.task(docs=FOUR, **changes)
    with pytest.raises(InputError, match=match):
        lab.run()
    assert not has_requests(lab)
