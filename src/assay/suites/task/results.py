"""Builds the results file, `results_*.json`, in the format of lm-evaluation-harness.

The numbers are the return values of the aggregations (`MetricResult.value`), neither rounded nor converted,
because tests and users compare the file byte by byte with the harness's. They may be integers, NaN or any
other object.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

import assay
from assay.core.judges import JudgeInfo
from assay.core.roles import Role
from assay.core.spec import RunSpec
from assay.core.suite import RunFacts
from assay.files.paths import fitting_name
from assay.suites.task.catalog import TaskNode, all_groups, groups_inner_first, sanitise, task_file_part
from assay.suites.task.config import KEYS, written_setting
from assay.suites.task.options import TaskOptions, seeds_of
from assay.suites.task.tally import MetricResult, TaskNumbers, aggregate_group
from assay.suites.task.task import Task
from assay.usercode.model_args import arguments_for

# Settings in which the harness writes a function as `<function name at 0x…>`, not as source text.
_NESTED_FUNCTIONS = frozenset({"fewshot_config", "filter_list"})


def file_names(spec: RunSpec, tasks: list[str], started: float) -> tuple[Path, str, str]:
    """Return the folder, the name of the results file, and the name of samples files with `{}` for the task."""
    options = spec.options
    assert isinstance(options, TaskOptions)
    folder = Path(spec.output_dir)
    if not options.results_name:
        folder /= fitting_name(sanitise(spec.model.partition("/")[2]))
    when = time.strftime("%Y-%m-%dT%H-%M-%S", time.localtime(started))
    if options.lm_eval_quirks:
        # The harness writes microseconds, and no task in the name of the results file.
        when += f".{int(started % 1 * 1e6):06d}"
    if options.results_name:
        return folder, f"{options.results_name}_{when}.json", f"samples_{{}}_{when}.jsonl"
    if options.lm_eval_quirks:
        return folder, f"results_{when}.json", f"samples_{{}}_{when}.jsonl"
    task = f"{task_file_part(tasks[0])}_" if len(tasks) == 1 else ""
    return folder, f"results_{task}{when}.json", f"samples_{{}}_{when}.jsonl"


class ResultsFile:
    """The content of one results file. `groups` holds the entry of every group."""

    def __init__(
        self, spec: RunSpec, nodes: list[TaskNode], tasks: list[Task], numbers: dict[str, TaskNumbers]
    ) -> None:
        options = spec.options
        assert isinstance(options, TaskOptions)
        self._spec = spec
        self._options = options
        self._nodes = nodes
        self._tasks = tasks
        self._numbers = numbers
        self._by_task = {task.name: _task_entry(task, numbers[task.name]) for task in tasks}
        self.groups: dict[str, dict[str, Any]] = {}
        for group in groups_inner_first(nodes):
            self.groups[group.name] = aggregate_group(group, self._by_task)

    def as_json(self, run: RunFacts, hashes: dict[str, str], quirks: Counter[str], judge: JudgeInfo | None) -> str:
        """Return the file's text: the keys of the harness in its order, then `lm_eval_quirks` and `judge`."""
        options = self._options
        groups = all_groups(self._nodes)
        value: dict[str, Any] = {"results": self._by_task | self.groups}
        with_metrics = {group.name for group in groups if group.metrics}
        if with_metrics:
            value["groups"] = {name: entry for name, entry in self.groups.items() if name in with_metrics}
        value["group_subtasks"] = {group.name: list(group.children) for group in groups}
        value |= self._about_tasks()
        value |= self._about_run(run)
        # As in the harness, the key exists only if samples are written, because the hashes are computed then.
        # `_about_run` has already inserted the key at the harness's position; assigning keeps that position.
        if options.log_samples or options.predict_only:
            value["task_hashes"] = hashes
        else:
            del value["task_hashes"]
        if quirks:
            value["lm_eval_quirks"] = dict(quirks)
        if judge is not None:
            value["judge"] = msgspec.to_builtins(judge)
        return json.dumps(value, indent=2, ensure_ascii=False, default=str)

    def _about_tasks(self) -> dict[str, Any]:
        """Return the keys with one entry per task and group. The harness sorts all but `n-samples` by name."""
        arguments = self._model_arguments()
        configs, versions, shots, higher, samples = {}, {}, {}, {}, {}
        for task in self._tasks:
            configs[task.name] = _task_config(task, arguments, predict_only=self._options.predict_only)
            versions[task.name] = (task.values.get("metadata") or {}).get("version", "Yaml")
            shots[task.name] = task.values["num_fewshot"]
            higher[task.name] = _directions(task, self._numbers[task.name].metrics)
            answered = self._numbers[task.name].answered
            samples[task.name] = {"original": task.original, "effective": answered}
        for group in all_groups(self._nodes):
            versions[group.name] = group.version
            # A group has a number of examples only if all its members have the same.
            member_shots = {shots[name] for name in group.children if name in shots}
            if len(member_shots) == 1:
                shots[group.name] = member_shots.pop()
            directions = _common_directions([higher[name] for name in group.children if name in higher])
            if directions:
                higher[group.name] = directions
        return {
            "configs": dict(sorted(configs.items())),
            "versions": dict(sorted(versions.items())),
            "n-shot": dict(sorted(shots.items())),
            "higher_is_better": dict(sorted(higher.items())),
            "n-samples": samples,
        }

    def _about_run(self, run: RunFacts) -> dict[str, Any]:
        options = self._options
        provider, _, name = self._spec.model.partition("/")
        source = options.harness_model or provider
        chat, system = options.apply_chat_template, options.system_instruction
        return {
            "config": self._run_config(source),
            "git_hash": None,
            "date": run.started,
            "pretty_env_info": _environment(),
            "transformers_version": "N/A",
            "lm_eval_version": f"assay {assay.__version__}",
            "upper_git_hash": None,
            "task_hashes": {},
            "model_source": source,
            "model_name": name,
            "model_name_sanitized": sanitise(name),
            "system_instruction": system,
            "system_instruction_sha": hashlib.sha256(system.encode()).hexdigest() if system else None,
            "fewshot_as_multiturn": options.multiturn if chat else None,
            "chat_template": "" if chat else None,
            "chat_template_sha": None,
            "total_evaluation_time_seconds": str(run.seconds),
        }

    def _run_config(self, source: str) -> dict[str, Any]:
        options, seeds = self._options, seeds_of(self._spec)
        arguments = arguments_for(self._spec, Role(self._spec.model))
        return {
            "model": source,
            "model_args": self._model_arguments(),
            "batch_size": arguments.get("batch_size", 1),
            "batch_sizes": [],
            "device": arguments.get("device"),
            "use_cache": None,
            "limit": self._spec.limit,
            "bootstrap_iters": options.bootstrap_iters,
            "gen_kwargs": self._spec.gen_kwargs,
            "random_seed": seeds.random,
            "numpy_seed": seeds.numpy,
            "torch_seed": seeds.torch,
            "fewshot_seed": seeds.fewshot,
        }

    def _model_arguments(self) -> dict[str, Any]:
        """Return `model_args` in the harness's form, also for a model given as `--model PROVIDER/NAME`."""
        if self._spec.model_args:
            return self._spec.model_args
        arguments: dict[str, Any] = {"model": self._spec.model.partition("/")[2]}
        base_url = self._spec.base_url
        if base_url and base_url.startswith("http"):
            arguments["base_url"] = base_url
        return arguments


def _task_entry(task: Task, numbers: TaskNumbers) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": task.name,
        "alias": task.values.get("task_alias") or task.name,
        "sample_len": numbers.answered,
    }
    for result in numbers.metrics:
        entry[f"{result.metric},{result.filter}"] = result.value
        entry[f"{result.metric}_stderr,{result.filter}"] = "N/A" if result.stderr is None else result.stderr
    return entry


def _task_config(task: Task, arguments: dict[str, Any], *, predict_only: bool) -> dict[str, Any]:
    """Return the settings of a task as the run used them, in the harness's order, without null values."""
    config = {}
    for key in KEYS:
        if key == "process_results" and predict_only:
            # The harness writes this word, whether the task has such a function or not.
            config[key] = key
        # The harness does not write `tag`.
        if task.values.get(key) is not None and key != "tag":
            config[key] = written_setting(task.values[key], nested=key in _NESTED_FUNCTIONS)
    metadata = {**(task.values.get("metadata") or {}), **arguments, "config_source": task.config.source}
    return config | {"metadata": metadata}


def _directions(task: Task, metrics: list[MetricResult]) -> dict[str, bool | None]:
    """Return `higher_is_better` of each metric, also for names that the task's own Python returned."""
    directions = {metric.name: metric.higher_is_better for metric in task.scoring.metrics.values()}
    for result in metrics:
        if result.higher_is_better is not None:
            directions[result.metric] = result.higher_is_better
    return directions


def _common_directions(tasks: list[dict[str, bool | None]]) -> dict[str, bool | None]:
    """Return `higher_is_better` by metric for a group: the value of its tasks, None if they differ."""
    common: dict[str, bool | None] = {}
    for directions in tasks:
        for name, higher in directions.items():
            common[name] = higher if common.get(name, higher) == higher else None
    return common


def _environment() -> str:
    """Return `Python 3.11.7 on Linux-6.1.0-x86_64`. The module `platform` would start a process for it."""
    version = ".".join(map(str, sys.version_info[:3]))
    system = os.uname()
    return f"Python {version} on {system.sysname}-{system.release}-{system.machine}"
