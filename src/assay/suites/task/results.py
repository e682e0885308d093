"""Makes `results_*.json` as the harness writes it."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import assay
from assay.core.protocols import RunFacts
from assay.core.spec import RunSpec
from assay.suites.task import functions
from assay.suites.task.config import KEYS
from assay.suites.task.groups import aggregate, all_groups, inner_first
from assay.suites.task.groups import summary as group_summary
from assay.suites.task.options import TaskOptions, seeds_of

_DEEP = frozenset({"fewshot_config", "filter_list"})
"""Settings in which the harness shows a function by its name and address, not by its source."""
_UNSAFE = re.compile(r'["<>:/|\\?*\[\]]+')


def sanitise(name: str) -> str:
    """A model's name as a folder: `/a/b` is `__a__b`."""
    return _UNSAFE.sub("__", name) if name.strip(".") else "__"


def results_json(
    spec: RunSpec,
    nodes: list[Any],
    tasks: list[Any],
    summary: dict[str, Any],
    facts: RunFacts,
    hashes: dict[str, str],
) -> tuple[str, dict[str, Any]]:
    """The whole results file: the harness's keys in the harness's order; and the groups' own numbers."""
    options = spec.options
    assert isinstance(options, TaskOptions)
    by_task = {task.name: _task_results(task, summary[task.name]) for task in tasks}
    by_group = {group.name: aggregate(group, by_task) for group in inner_first(nodes)}
    numbered = [group for group in all_groups(nodes) if group.aggregates]
    value: dict[str, Any] = {"results": by_task | by_group}
    if numbered:
        names = {group.name for group in numbered}
        value["groups"] = {name: found for name, found in by_group.items() if name in names}
    value["group_subtasks"] = {group.name: list(group.children) for group in all_groups(nodes)}
    value |= _about_tasks(spec, nodes, tasks, summary)
    value |= _about_run(spec, options, facts, hashes)
    made: Counter[str] = sum((task.quirks for task in tasks), Counter())
    if made:
        value["lm_eval_quirks"] = dict(made)
    if judge := next((found["judge"] for found in summary.values() if "judge" in found), None):
        value["judge"] = judge
    if not (options.log_samples or options.predict_only):
        del value["task_hashes"]
    groups = {group.name: group_summary(group, by_group[group.name]) for group in numbered}
    return json.dumps(value, indent=2, ensure_ascii=False, default=str), groups


def _about_tasks(
    spec: RunSpec, nodes: list[Any], tasks: list[Any], summary: dict[str, Any]
) -> dict[str, Any]:
    """What stands for each task and group, sorted by name where the harness sorts."""
    arguments = _given_arguments(spec)
    groups = all_groups(nodes)
    versions = {task.name: (task.values.get("metadata") or {}).get("version", "Yaml") for task in tasks}
    shots = {task.name: task.values["num_fewshot"] for task in tasks}
    higher = {task.name: _directions(task, summary[task.name]["metrics"]) for task in tasks}
    for group in groups:
        versions[group.name] = group.version
        if len(agreed := {shots[name] for name in group.children if name in shots}) == 1:
            shots[group.name] = agreed.pop()
        if together := _agreed([higher[name] for name in group.children if name in higher]):
            higher[group.name] = together
    return {
        "configs": dict(sorted((task.name, _config(task, arguments)) for task in tasks)),
        "versions": dict(sorted(versions.items())),
        "n-shot": dict(sorted(shots.items())),
        "higher_is_better": dict(sorted(higher.items())),
        "n-samples": {
            task.name: {"original": task.original, "effective": summary[task.name]["asked"]} for task in tasks
        },
    }


def _directions(task: Any, metrics: list[dict[str, Any]]) -> dict[str, bool | None]:
    """Which way each metric is better, also of names that a metric gave."""
    declared = {metric.name: metric.higher_is_better for metric in task.scoring.metrics.values()}
    given = {one["metric"]: one.get("higher_is_better") for one in metrics}
    return declared | {name: higher for name, higher in given.items() if higher is not None}


def _agreed(maps: list[dict[str, bool | None]]) -> dict[str, bool | None]:
    """Which way is better, where all tasks agree; null where they do not."""
    found: dict[str, bool | None] = {}
    for one in maps:
        for name, higher in one.items():
            found[name] = higher if found.get(name, higher) == higher else None
    return found


def _about_run(
    spec: RunSpec, options: TaskOptions, facts: RunFacts, hashes: dict[str, str]
) -> dict[str, Any]:
    provider, _, name = spec.model.partition("/")
    chat, system = options.apply_chat_template, options.system_instruction
    return {
        "config": _run_config(spec, options, provider),
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
        "system_instruction": system,
        "system_instruction_sha": hashlib.sha256(system.encode()).hexdigest() if system else None,
        "fewshot_as_multiturn": options.multiturn if chat else None,
        "chat_template": "" if chat else None,
        "chat_template_sha": None,
        "total_evaluation_time_seconds": str(facts.seconds),
    }


def _given_arguments(spec: RunSpec) -> dict[str, Any]:
    options = spec.options
    assert isinstance(options, TaskOptions)
    return options.model_args or _arguments(spec.model.partition("/")[2], spec.base_url)


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
    values = {
        key: functions.written(task.values[key], deep=key in _DEEP)
        for key in KEYS
        if task.values.get(key) is not None and key != "tag"
    }
    metadata = {**(task.values.get("metadata") or {}), **arguments, "config_source": task.config.source}
    return values | {"metadata": metadata}


def _run_config(spec: RunSpec, options: TaskOptions, provider: str) -> dict[str, Any]:
    seeds = seeds_of(spec)
    return {
        "model": provider,
        "model_args": _given_arguments(spec),
        "batch_size": 1,
        "batch_sizes": [],
        "device": None,
        "use_cache": None,
        "limit": spec.limit,
        "bootstrap_iters": options.bootstrap_iters,
        "gen_kwargs": options.gen_kwargs,
        "random_seed": seeds.random,
        "numpy_seed": seeds.numpy,
        "torch_seed": seeds.torch,
        "fewshot_seed": seeds.fewshot,
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
