"""A task's metrics: what is measured of each answer, and how one number is made of all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from assay.core import registry
from assay.core.errors import InputError, MissingExtra, Problem, UsageError
from assay.core.registry import unknown
from assay.core.yamlfile import FunctionRef
from assay.scoring import statistics
from assay.scoring.metrics import DEFAULT_METRICS, Measure
from assay.suites.task import functions
from assay.suites.task.chains import bound
from assay.suites.task.config import GENERATE, TaskConfig
from assay.suites.task.likelihoods import METRICS

_KEYS = frozenset({"metric", "aggregation", "higher_is_better", "hf_evaluate"})
OF_NUMBERS = statistics.OF_NUMBERS


_CLEANING = frozenset({"ignore_case", "ignore_punctuation", "ignore_numbers", "regexes_to_ignore"})
"""Options of exact_match that task files write for other metrics too, where the harness leaves them out."""


class Metric(NamedTuple):
    """A metric with its options bound. `measure` is None where the output type or Python computes it."""

    name: str
    measure: Measure | None = None
    aggregation: str = "mean"
    aggregate: Callable[[Any], Any] = statistics.mean
    higher_is_better: bool | None = None
    right_wrong: bool = False
    own: Callable[..., Any] | None = None
    """The user's function, called as the harness calls it."""
    options: Mapping[str, Any] = MappingProxyType({})
    """What it is told beside references and predictions."""


BYPASS = Metric("bypass", None, "bypass", lambda _values: 999)
"""What `--predict-only` puts in place of every metric."""


def metrics(config: TaskConfig, *, imports: bool = True, quirks: bool = False) -> dict[str, Metric]:
    """The task's metrics by name. Of two with one name the later one counts, as in the harness."""
    listed = config.values.get("metric_list")
    if listed is None:
        listed = [{"metric": name} for name in DEFAULT_METRICS[config.output]]
    problems: list[Problem] = []
    found: dict[str, Metric] = {}
    for position, entry in enumerate(listed):
        reader = _Reader(config, config.where("metric_list", position), imports=imports, quirks=quirks)
        try:
            metric = reader.read(entry)
            found[metric.name] = metric
        except InputError as error:
            problems.extend(error.problems)
        except MissingExtra:
            raise
        except Exception as error:  # noqa: BLE001 - re.error and whatever a plugin raises on wrong options
            problems.append(Problem(reader.where, str(error)))
    if problems:
        raise InputError(problems)
    return found


class _Reader:
    """Reads one entry of `metric_list`."""

    def __init__(self, config: TaskConfig, where: str, *, imports: bool, quirks: bool) -> None:
        self._output = config.output
        self._python = config.values.get("process_results") is not None
        self.where = where
        self._imports = imports
        self._quirks = quirks

    def read(self, entry: Any) -> Metric:
        if not isinstance(entry, dict) or not isinstance(entry.get("metric"), (str, FunctionRef)):
            raise UsageError("expected a mapping with the key 'metric'")
        named = entry["metric"]
        if isinstance(named, FunctionRef):
            return self._function(named, entry)
        options = {key: value for key, value in entry.items() if key not in _KEYS}
        module = self._module(named, entry)
        aggregation, aggregate = self._aggregation(entry, module)
        higher = entry.get("higher_is_better", getattr(module, "HIGHER_IS_BETTER", None))
        right_wrong = getattr(module, "RIGHT_WRONG", False)
        measure = None
        if not self._python and self._output == GENERATE:
            measure = self._measure(module, aggregation, options)
        return Metric(named, measure, aggregation, aggregate, higher, right_wrong)

    def _module(self, name: str, entry: dict[str, Any]) -> Any:
        """The metric's file; Python and likelihoods give values under names that need none."""
        if self._python:
            return registry.find("metric", name) if name in registry.built_in("metric") else None
        if self._output != GENERATE and name not in METRICS[self._output]:
            raise UsageError(unknown(f"metric for {self._output}", name, list(METRICS[self._output])))
        return registry.find("metric", name)

    def _measure(self, module: Any, aggregation: str, options: dict[str, Any]) -> Measure:
        build = getattr(module, f"build_{aggregation}", module.build)
        known = inspect.signature(build).parameters
        options = {key: value for key, value in options.items() if key in known or key not in _CLEANING}
        if self._quirks and "quirks" in known:
            options = {**options, "quirks": True}
        measure: Measure = bound(build, options)
        return measure

    def _function(self, ref: FunctionRef, entry: dict[str, Any]) -> Metric:
        """`metric: !function`: its name is the function's, its options are passed on with each call."""
        name = ref.name.rpartition(".")[2]
        if self._output != GENERATE and not self._python:
            raise UsageError(f"{name} is called for generated answers; {self._output} needs process_results")
        options = {key: value for key, value in entry.items() if key not in _KEYS}
        function = functions.resolve(ref, self.where) if self._imports else None
        aggregation, aggregate = self._aggregation(entry, None)
        higher = entry.get("higher_is_better")
        return Metric(name, None, aggregation, aggregate, higher, own=function, options=options)

    def _aggregation(self, entry: dict[str, Any], module: Any) -> tuple[str, Callable[[Any], Any]]:
        default = module.AGGREGATIONS[0] if module else "mean"
        named = entry.get("aggregation", default)
        if isinstance(named, FunctionRef):
            function = functions.resolve(named, self.where) if self._imports else statistics.mean
            return f"!function {named.name}", function
        if named not in statistics.AGGREGATIONS:
            raise UsageError(unknown("aggregation", str(named), sorted(statistics.AGGREGATIONS)))
        if module and not self._python and named not in module.AGGREGATIONS:
            raise UsageError(
                unknown(f"aggregation for {entry['metric']}", str(named), list(module.AGGREGATIONS))
            )
        return str(named), statistics.AGGREGATIONS[named]
