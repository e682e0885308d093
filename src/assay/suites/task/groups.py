"""Groups of tasks: who belongs to them, and the numbers a group has of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from assay.core.errors import InputError, Problem
from assay.core.registry import unknown
from assay.core.yamlfile import FunctionRef
from assay.scoring.statistics import left_sum, normal_interval
from assay.suites.task.config import TaskConfig
from assay.suites.task.files import Origin

GROUP_KEYS = ("group", "group_alias", "task", "aggregate_metric_list", "metadata")
_AGGREGATE_KEYS = ("metric", "filter_list", "aggregation", "weight_by_size")


class Aggregate(Struct, frozen=True):
    """A metric that a group takes the mean of; without `filters`, for every filter its tasks have."""

    metric: str
    filters: list[str] | None
    weighted: bool


class Group(Struct, frozen=True):
    """A named set of tasks and groups."""

    name: str
    alias: str
    children: dict[str, TaskConfig | Group]
    aggregates: list[Aggregate]
    version: str

    def tasks(self) -> Iterator[TaskConfig]:
        """All tasks below, in order."""
        for child in self.children.values():
            if isinstance(child, Group):
                yield from child.tasks()
            else:
                yield child

    def below(self) -> Iterator[Group]:
        """All groups below, each before its own."""
        for child in self.children.values():
            if isinstance(child, Group):
                yield child
                yield from child.below()


def group_of(
    name: str, values: dict[str, Any], origin: Origin, children: dict[str, TaskConfig | Group]
) -> Group:
    """A group from its settings and its members."""
    listed = values.get("aggregate_metric_list") or []
    entries = listed if isinstance(listed, list) else [listed]
    problems: list[Problem] = []
    aggregates = [
        _aggregate(entry, f"{origin.where('aggregate_metric_list', at)} aggregate_metric_list.{at}", problems)
        for at, entry in enumerate(entries)
    ]
    metadata = values.get("metadata") or {}
    if not isinstance(metadata, dict):
        where = f"{origin.where('metadata')} metadata"
        problems.append(Problem(where, f"expected a mapping, found {metadata!r}"))
    if problems:
        raise InputError(problems)
    version = metadata.get("version", "N/A")
    return Group(name, values.get("group_alias") or name, children, aggregates, str(version))


def _aggregate(entry: Any, where: str, problems: list[Problem]) -> Aggregate:
    if not isinstance(entry, dict) or not isinstance(entry.get("metric"), str):
        problems.append(Problem(where, "expected a mapping with the key 'metric'"))
        return Aggregate("", None, weighted=True)
    strange = [key for key in entry if key not in _AGGREGATE_KEYS]
    problems += [Problem(where, unknown("key", str(key), list(_AGGREGATE_KEYS))) for key in strange]
    if entry.get("aggregation", "mean") != "mean" and not isinstance(entry["aggregation"], FunctionRef):
        problems.append(
            Problem(where, f"groups are aggregated by 'mean' only, found {entry['aggregation']!r}")
        )
    filters = entry.get("filter_list")
    chosen = [filters] if isinstance(filters, str) else filters
    return Aggregate(entry["metric"], chosen, weighted=entry.get("weight_by_size", True) is not False)


def all_groups(nodes: list[TaskConfig | Group]) -> list[Group]:
    """Every group once, outer ones first."""
    found: dict[str, Group] = {}
    for node in nodes:
        if isinstance(node, Group):
            for group in (node, *node.below()):
                found.setdefault(group.name, group)
    return list(found.values())


def inner_first(nodes: list[TaskConfig | Group]) -> list[Group]:
    """Every group once, after the groups in it."""
    found: dict[str, Group] = {}

    def visit(group: Group) -> None:
        for child in group.children.values():
            if isinstance(child, Group):
                visit(child)
        found.setdefault(group.name, group)

    for node in nodes:
        if isinstance(node, Group):
            visit(node)
    return list(found.values())


def aggregate(group: Group, results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A group's entry in results files, from those of its tasks."""
    found: dict[str, Any] = {"alias": group.alias, "name": group.name}
    if not group.aggregates:
        return found
    names = dict.fromkeys(task.name for task in group.tasks())
    tasks = [results[name] for name in names if name in results]  # `--samples` may name some of them only
    found["sample_len"] = sum(task["sample_len"] for task in tasks)
    counts = {}
    for wanted in group.aggregates:
        for part in _filters(wanted, tasks):
            key, error = f"{wanted.metric},{part}", f"{wanted.metric}_stderr,{part}"
            have = [task for task in tasks if isinstance(task.get(key), (int, float))]
            if have:
                found[key], found[error] = _mean(wanted, have, key, error)
                counts[key] = sum(task["sample_len"] for task in have)
    return found | ({"sample_count": counts} if counts else {})


def _filters(wanted: Aggregate, tasks: list[dict[str, Any]]) -> list[str]:
    if wanted.filters is not None:
        return wanted.filters
    start = f"{wanted.metric},"
    return sorted({key[len(start) :] for task in tasks for key in task if key.startswith(start)})


def _mean(wanted: Aggregate, tasks: list[dict[str, Any]], key: str, error: str) -> tuple[float, Any]:
    """The mean, weighted by the tasks' sizes or plain, and the standard error that belongs to it."""
    sizes = [task["sample_len"] if wanted.weighted else 1 for task in tasks]
    value = left_sum([task[key] * size for task, size in zip(tasks, sizes, strict=True)]) / sum(sizes)
    errors = [task[error] for task in tasks]
    if "N/A" in errors:
        return value, "N/A"
    if not wanted.weighted:
        return value, math.sqrt(left_sum([one**2 for one in errors])) / len(errors)
    if sum(sizes) <= len(sizes):
        return value, "N/A"
    spread = left_sum([(size - 1) * one**2 * size for one, size in zip(errors, sizes, strict=True)])
    return value, math.sqrt(spread / (sum(sizes) - len(sizes)) / sum(sizes))


def summary(group: Group, entry: dict[str, Any]) -> dict[str, Any]:
    """A group's entry in results files, as `summary.json` and the screen have numbers."""
    metrics = []
    for key, value in entry.items():
        metric, comma, part = key.partition(",")
        if not comma or metric.endswith("_stderr"):
            continue
        error = entry[f"{metric}_stderr,{part}"]
        known = error if isinstance(error, float) else None
        interval = normal_interval(value, known) if known is not None else None
        found: dict[str, Any] = {"filter": part, "metric": metric, "aggregation": "mean of tasks"}
        found |= {"n": entry["sample_count"][key], "value": value, "stderr": known, "interval": interval}
        metrics.append(found)
    return {"alias": group.alias, "group": list(group.children), "metrics": metrics}
