"""Makes `results_*.json` as the harness writes it, and the summary with every denominator."""

from __future__ import annotations

import json
import platform
import re
import time
from array import array
from pathlib import Path
from typing import Any

import assay
from assay.core.protocols import RunFacts
from assay.core.spec import RunSpec
from assay.core.types import End, Record, Score
from assay.scoring.statistics import AGGREGATIONS, BOOTSTRAP_DRAWS, normal_interval, stderr, wilson
from assay.suites.task.config import KEYS
from assay.suites.task.options import TaskOptions
from assay.suites.task.scorer import Metric, Pipeline

_UNSAFE = re.compile(r'["<>:/|\\?*\[\]]+')


def sanitise(name: str) -> str:
    """A model's name as a folder: `/a/b` is `__a__b`."""
    return _UNSAFE.sub("__", name) if name.strip(".") else "__"


class Tally:
    """All values of one filter and metric, in data order, and what was left out."""

    def __init__(self, part: str, metric: Metric) -> None:
        self.part = part
        self.metric = metric
        self.numbers = array("d")
        self.pairs: list[Any] = []
        self.left_out: dict[str, int] = {}

    def add(self, score: Score | None, status: str) -> None:
        """One case's score, or why it has none."""
        if score is None or score.status != "scored":
            why = status if score is None else score.status
            self.left_out[why] = self.left_out.get(why, 0) + 1
        elif score.value is not None:
            self.numbers.append(score.value)
        else:
            self.pairs.append(score.data["value"])

    @property
    def count(self) -> int:
        """The denominator."""
        return len(self.numbers) + len(self.pairs)

    def summary(self) -> dict[str, Any]:
        """The number with its denominator, what was left out and why, and an interval."""
        values: Any = self.numbers or self.pairs
        name = self.metric.aggregation
        found: dict[str, Any] = {
            "filter": self.part,
            "metric": self.metric.name,
            "aggregation": name,
            "n": self.count,
        }
        if self.left_out:
            found["left_out"] = self.left_out
        if not self.count:
            return {**found, "value": None, "stderr": None, "interval": None}
        value, error = AGGREGATIONS[name](values), stderr(name, values)
        found |= {"value": value, "stderr": error, "higher_is_better": self.metric.higher_is_better}
        if name == "mean" and self.numbers and set(self.numbers) <= {0.0, 1.0}:
            right = self.numbers.count(1.0)
            return {
                **found,
                "numerator": right,
                "interval": wilson(right, self.count),
                "interval_method": "wilson",
            }
        interval = normal_interval(value, error) if error is not None else None
        return {**found, "interval": interval, "interval_method": "normal"}


class TaskTally:
    """Counts a task's cases and collects their scores, in data order."""

    def __init__(self, filters: list[Pipeline], metrics: list[Metric]) -> None:
        self._tallies = [Tally(chain.name, metric) for chain in filters for metric in metrics]
        self._counts = {"ok": 0, "subject_error": 0, "infra_error": 0, "unfinished": 0}

    def add(self, found: tuple[End, list[Record], list[Score]] | None) -> None:
        """One case, as the reader gives it."""
        status = found[0].status if found else "unfinished"
        self._counts[status] += 1
        scores = found[2] if found else []
        for position, tally in enumerate(self._tallies):
            tally.add(scores[position] if scores else None, status)

    def summary(self, task: Any) -> dict[str, Any]:
        """Every filter and metric, with denominators."""
        return {
            "alias": task.values.get("task_alias") or task.name,
            "docs": task.original,
            "asked": self._counts["ok"] + self._counts["subject_error"],
            "counts": self._counts,
            "metrics": [tally.summary() for tally in self._tallies],
        }


def results_json(
    spec: RunSpec, tasks: list[Any], summary: dict[str, Any], facts: RunFacts, hashes: dict[str, str]
) -> str:
    """The whole results file: the harness's keys in the harness's order."""
    options = spec.options
    assert isinstance(options, TaskOptions)
    provider, _, name = spec.model.partition("/")
    arguments = options.model_args or _arguments(name, spec.base_url)
    by_name = sorted(tasks, key=lambda task: task.name)
    value: dict[str, Any] = {
        "results": {task.name: _task_results(task, summary[task.name]) for task in tasks},
        "group_subtasks": {},
        "configs": {task.name: _config(task, arguments) for task in by_name},
        "versions": {
            task.name: (task.values.get("metadata") or {}).get("version", "Yaml") for task in by_name
        },
        "n-shot": {task.name: task.values["num_fewshot"] for task in by_name},
        "higher_is_better": {
            task.name: {m.name: m.higher_is_better for m in task.metrics} for task in by_name
        },
        "n-samples": {
            task.name: {"original": task.original, "effective": summary[task.name]["asked"]} for task in tasks
        },
        "config": _run_config(spec, options, provider, arguments),
        "git_hash": None,
        "date": facts.started,
        "pretty_env_info": f"Python {platform.python_version()} on {platform.platform()}",
        "transformers_version": "N/A",
        "lm_eval_version": f"assay {assay.__version__}",
        "upper_git_hash": None,
        "task_hashes": hashes,
        "model_source": provider,
        "model_name": name,
        "model_name_sanitized": sanitise(name),
        "system_instruction": None,
        "system_instruction_sha": None,
        "fewshot_as_multiturn": True if options.apply_chat_template else None,
        "chat_template": "" if options.apply_chat_template else None,
        "chat_template_sha": None,
        "total_evaluation_time_seconds": str(facts.seconds),
    }
    if not options.log_samples:
        del value["task_hashes"]
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _arguments(name: str, base_url: str | None) -> dict[str, Any]:
    """The harness's `model_args` for a model that was named our way."""
    return {"model": name} | ({"base_url": base_url} if base_url and base_url.startswith("http") else {})


def _task_results(task: Any, summary: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {
        "name": task.name,
        "alias": task.values.get("task_alias") or task.name,
        "sample_len": summary["asked"],
    }
    for found in summary["metrics"]:
        error = found["stderr"]
        values[f"{found['metric']},{found['filter']}"] = found["value"]
        values[f"{found['metric']}_stderr,{found['filter']}"] = "N/A" if error is None else error
    return values


def _config(task: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """The configuration as it was used, in the harness's order, without what is null."""
    values = {key: task.values[key] for key in KEYS if task.values.get(key) is not None and key != "tag"}
    metadata = {**(task.values.get("metadata") or {}), **arguments, "config_source": str(task.path)}
    return values | {"metadata": metadata}


def _run_config(
    spec: RunSpec, options: TaskOptions, provider: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    return {
        "model": provider,
        "model_args": arguments,
        "batch_size": 1,
        "batch_sizes": [],
        "device": None,
        "use_cache": None,
        "limit": spec.limit,
        "bootstrap_iters": BOOTSTRAP_DRAWS,
        "gen_kwargs": options.gen_kwargs,
        "random_seed": 0,
        "numpy_seed": spec.seed,
        "torch_seed": spec.seed,
        "fewshot_seed": spec.seed,
    }


def file_names(spec: RunSpec, names: list[str], started: float) -> tuple[Path, str, str]:
    """The folder, the results file's name, and the samples files' name with `{}` for the task."""
    options = spec.options
    assert isinstance(options, TaskOptions)
    folder = Path(spec.output_dir) / sanitise(spec.model.partition("/")[2])
    when = time.strftime("%Y-%m-%dT%H-%M-%S", time.localtime(started))
    if options.lm_eval_quirks:
        when += f".{int(started % 1 * 1e6):06d}"
        return folder, f"results_{when}.json", f"samples_{{}}_{when}.jsonl"
    task = f"{sanitise(names[0])}_" if len(names) == 1 else ""
    return folder, f"results_{task}{when}.json", f"samples_{{}}_{when}.jsonl"
