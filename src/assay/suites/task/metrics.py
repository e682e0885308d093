"""A task's metrics: the value of each answer, and the aggregation of all values to one number.

Metrics of generated text come from the table of `scoring/metrics.py`, or from the task's own Python. Metrics
of likelihoods (the likeliest choice, the perplexity of a text) are in this file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import Struct

from assay.core.errors import InputError, MissingExtra, Problem, UsageError, similar, unknown
from assay.files.yaml_files import FunctionRef
from assay.language.patterns import PatternStopped
from assay.scoring import statistics
from assay.scoring.metrics import BUILT_IN, DEFAULT_METRICS, Measure, MetricPlugin, find_metric
from assay.suites.task.catalog import GroupMetric
from assay.suites.task.config import CHOICE, GENERATE, LIKELIHOOD, ROLLING, TaskConfig, import_function
from assay.suites.task.filters import NO_FILTER, FilterChain, build_with_options, parameters_of
from assay.suites.task.requests import NO_LABEL, TaskGold

_ENTRY_KEYS = frozenset({"metric", "aggregation", "higher_is_better", "hf_evaluate", "right_wrong"})
# Options of exact_match. Existing task files also pass them to other metrics, where the harness ignores them.
_EXACT_MATCH_OPTIONS = frozenset({"ignore_case", "ignore_punctuation", "ignore_numbers", "regexes_to_ignore"})


class TaskMetric(Struct, frozen=True):
    """A metric with its options.

    `measure` computes the value of one generated answer. It is None for metrics of likelihoods, for `user_function` and
    for tasks with `process_results`. `right_wrong` declares that the value is 1 for right and 0 for wrong: the number
    has the interval of a proportion, and a document without an answer counts as 0.
    """

    name: str
    measure: Measure | None = None
    aggregation: str = "mean"
    aggregate: Callable[[Any], Any] = statistics.mean
    higher_is_better: bool | None = None
    right_wrong: bool = False
    # A function of the user (`metric: !function`), and the options passed with each call.
    user_function: Callable[..., Any] | None = None
    options: Mapping[str, Any] = MappingProxyType({})


# Replaces all metrics with `--predict-only`. The harness writes 999 as its value.
BYPASS = TaskMetric("bypass", None, "bypass", lambda _values: 999, higher_is_better=True)


def read_metrics(config: TaskConfig, *, imports: bool = True, quirks: bool = False) -> dict[str, TaskMetric]:
    """Return the task's metrics by name. If two entries have the same name, the last one is used (as in lm_eval).

    With `imports` False no Python of the task is imported. Raises InputError with all problems.
    """
    entries = config.values.get("metric_list")
    if entries is None:
        entries = [{"metric": name} for name in DEFAULT_METRICS[config.output]]
    problems: list[Problem] = []
    metrics: dict[str, TaskMetric] = {}
    for position, entry in enumerate(entries):
        where = config.where("metric_list", position)
        try:
            metric = _MetricReader(config, where, imports=imports, quirks=quirks).read(entry)
            metrics[metric.name] = metric
        except InputError as error:
            problems.extend(error.problems)
        except MissingExtra:
            raise
        except Exception as error:  # noqa: BLE001 - re.error and whatever a plugin raises on wrong options
            problems.append(Problem(where, str(error)))
    if problems:
        raise InputError(problems)
    return metrics


def find_repeated_metrics(config: TaskConfig) -> list[Problem]:
    """Return a warning for each entry of `metric_list` that an entry of the same name replaces.

    The results file has one number for a name and a filter, so the harness also keeps only the last entry.
    """
    entries = config.values.get("metric_list") or []
    last: dict[str, int] = {}
    problems = []
    for position, entry in reversed(list(enumerate(entries))):
        if not isinstance(entry, dict):
            continue
        metric = entry.get("metric")
        name = metric.name.rpartition(".")[2] if isinstance(metric, FunctionRef) else str(metric)
        other = last.setdefault(name, position)
        if entries[other] != entry:
            message = (
                f"this metric is not computed: metric_list.{other} is named {name!r} too, and the last one counts, "
                "as in the harness. Give one of them another name, as a function (`metric: !function FILE.NAME`)"
            )
            problems.append(Problem(config.where("metric_list", position), message, "warning"))
    return problems[::-1]


class ReportedNames(NamedTuple):
    """The metrics and filters under which a task reports numbers, as far as its file says.

    With `has_more` the task's own Python may return further metrics, which are known only after a run.
    """

    metrics: frozenset[str]
    filters: frozenset[str]
    has_more: bool


def reported_names(config: TaskConfig) -> ReportedNames:
    """Return the names of a task's metrics and filters. Imports no Python."""
    entries = config.values.get("metric_list")
    if entries is None:
        entries = [{"metric": name} for name in DEFAULT_METRICS[config.output]]
    metrics = [entry.get("metric") for entry in entries if isinstance(entry, dict)]
    chains = config.values.get("filter_list") or [{"name": NO_FILTER}]
    return ReportedNames(
        frozenset(metric for metric in metrics if isinstance(metric, str)),
        frozenset(str(chain.get("name")) for chain in chains if isinstance(chain, dict)),
        config.values.get("process_results") is not None or any(isinstance(metric, FunctionRef) for metric in metrics),
    )


def find_missing_metrics(group_metrics: list[GroupMetric], tasks: list[ReportedNames]) -> list[Problem]:
    """Return a warning for each metric and filter of a group that none of its tasks has: the group gets no number."""
    metrics = sorted({name for task in tasks for name in task.metrics})
    filters = sorted({name for task in tasks for name in task.filters})
    problems = []
    for metric in group_metrics:
        messages = []
        if metric.metric.startswith("!function"):
            name = metric.metric.rpartition(".")[2]
            messages = [f"{no_group_value(metric.metric)}; write the metric's name, {name}"]
        elif metric.metric not in metrics and not any(task.has_more for task in tasks):
            hint = similar(metric.metric, metrics) or f"; they have {', '.join(metrics) or 'none'}"
            messages = [f"{no_group_value(metric.metric)}{hint}"]
        else:
            for name in metric.filters or ():
                if name not in filters:
                    hint = similar(name, filters) or f"; they have {', '.join(filters)}"
                    messages.append(f"{no_group_value(metric.metric, name)}{hint}")
        problems += [Problem(metric.where, message, "warning") for message in messages]
    return problems


def no_group_value(metric: str, part: str = "") -> str:
    """Return why a group has no number for a metric."""
    return f"no task of the group has the metric {metric!r}" + (f" with the filter {part!r}" if part else "")


def refuse_lists(config: TaskConfig, chains: list[FilterChain], metrics: dict[str, TaskMetric]) -> None:
    """Raise InputError if a chain returns a list but a metric compares one answer: every score would be 0."""
    name = None
    for metric in metrics.values():
        if metric.measure and metric.aggregation in statistics.OF_NUMBERS:
            name = metric.name
            break
    problems = []
    for position, chain in enumerate(chains):
        if chain.ends_in_list and name:
            message = f"the chain {chain.name!r} returns a list, but {name} takes one answer; end it with take_first"
            problems.append(Problem(config.where("filter_list", position), message))
    if problems:
        raise InputError(problems)


class _MetricReader:
    """Reads one entry of `metric_list`."""

    def __init__(self, config: TaskConfig, where: str, *, imports: bool, quirks: bool) -> None:
        self._output = config.output
        self._has_process_results = config.values.get("process_results") is not None
        self._where = where
        self._imports = imports
        self._quirks = quirks

    def read(self, entry: Any) -> TaskMetric:
        if not isinstance(entry, dict) or not isinstance(entry.get("metric"), (str, FunctionRef)):
            raise UsageError("expected a mapping with the key 'metric'")
        name = entry["metric"]
        if isinstance(name, FunctionRef):
            return self._read_function(name, entry)
        if not self._imports and ".py:" in name:
            higher, right_wrong = entry.get("higher_is_better"), _read_right_wrong(entry)
            return TaskMetric(name, None, "mean", statistics.mean, higher, right_wrong)
        options = {key: value for key, value in entry.items() if key not in _ENTRY_KEYS}
        plugin = self._find(name)
        aggregation, aggregate = self._read_aggregation(entry, plugin)
        higher = entry.get("higher_is_better", plugin.higher_is_better if plugin else None)
        right_wrong = _read_right_wrong(entry, default=plugin.right_wrong if plugin else False)
        measure = None
        if plugin and not self._has_process_results and self._output == GENERATE:
            measure = self._build_measure(plugin, aggregation, options)
        return TaskMetric(name, measure, aggregation, aggregate, higher, right_wrong)

    def _find(self, name: str) -> MetricPlugin | None:
        """Return the metric. With `process_results` there may be none: the metric may have any name."""
        if self._has_process_results:
            return BUILT_IN.get(name)
        if self._output != GENERATE and name not in LIKELIHOOD_METRICS[self._output]:
            names = list(LIKELIHOOD_METRICS[self._output])
            raise UsageError(unknown(f"metric for {self._output}", name, names))
        return find_metric(name)

    def _build_measure(self, plugin: MetricPlugin, aggregation: str, options: dict[str, Any]) -> Measure:
        build = plugin.builders.get(aggregation, plugin.build)
        parameters = parameters_of(build)
        ignored = _EXACT_MATCH_OPTIONS - parameters.keys()
        build_options = {key: value for key, value in options.items() if key not in ignored}
        if self._quirks and "quirks" in parameters:
            build_options["quirks"] = True
        measure: Measure = build_with_options(build, build_options, sorted(_ENTRY_KEYS))
        if "regexes_to_ignore" not in build_options:
            return measure

        def measure_with_patterns(target: Any, answer: Any) -> Any:
            try:
                return measure(target, answer)
            except PatternStopped as error:
                raise error.at(self._where) from None

        return measure_with_patterns

    def _read_function(self, ref: FunctionRef, entry: dict[str, Any]) -> TaskMetric:
        """Read `metric: !function`. The metric has the function's name; its options are passed with each call."""
        name = ref.name.rpartition(".")[2]
        if self._output != GENERATE and not self._has_process_results:
            raise UsageError(
                f"{name}: a metric function works with generate_until only; {self._output} needs process_results"
            )
        options = {key: value for key, value in entry.items() if key not in _ENTRY_KEYS}
        function = import_function(ref, self._where) if self._imports else None
        aggregation, aggregate = self._read_aggregation(entry, None)
        higher = entry.get("higher_is_better")
        right_wrong = _read_right_wrong(entry)
        return TaskMetric(name, None, aggregation, aggregate, higher, right_wrong, function, options)

    def _read_aggregation(self, entry: dict[str, Any], plugin: MetricPlugin | None) -> tuple[str, Callable[[Any], Any]]:
        default = plugin.aggregations[0] if plugin else "mean"
        name = entry.get("aggregation", default)
        if isinstance(name, FunctionRef):
            function = import_function(name, self._where) if self._imports else statistics.mean
            return f"!function {name.name}", function
        if name not in statistics.AGGREGATIONS:
            raise UsageError(unknown("aggregation", str(name), sorted(statistics.AGGREGATIONS)))
        if plugin and not self._has_process_results and name not in plugin.aggregations:
            raise UsageError(unknown(f"aggregation for {entry['metric']}", str(name), list(plugin.aggregations)))
        return str(name), statistics.AGGREGATIONS[name]


def _read_right_wrong(entry: dict[str, Any], *, default: bool = False) -> bool:
    right_wrong = entry.get("right_wrong", default)
    if not isinstance(right_wrong, bool):
        raise UsageError(f"right_wrong: expected true or false, found {right_wrong!r}")
    return right_wrong


# Metrics of likelihoods


class ChoiceLikelihoods:
    """The likelihoods of one document's choices.

    An answer is [logprob, greedy]; `greedy` is true if greedy decoding would produce this choice. With
    acc_mutual_info, the answers without the question come after those with it.
    """

    def __init__(self, gold: TaskGold, answers: list[Any]) -> None:
        self.label = gold.label
        self.texts = gold.choices or []
        self.greedy = [bool(greedy) for _, greedy in answers]
        count = len(self.texts)
        self.logprobs = [float(logprob) for logprob, _ in answers[:count]]
        self.unconditional = [float(logprob) for logprob, _ in answers[count:]]

    @property
    def labels(self) -> list[Any]:
        """The indices of all correct choices."""
        return self.label if isinstance(self.label, list) else [self.label]

    @property
    def best(self) -> int:
        """The index of the likeliest choice."""
        return max(range(len(self.logprobs)), key=self.logprobs.__getitem__)

    def is_right(self, values: Sequence[float]) -> float:
        """Return 1.0 if the choice with the largest value is correct, else 0.0. The first of equal values counts."""
        best = max(range(len(values)), key=values.__getitem__)
        return 1.0 if best in self.labels else 0.0

    def per_length(self, lengths: list[int]) -> list[float]:
        """Return each log-probability divided by the length of its choice. An empty choice never wins."""
        pairs = zip(self.logprobs, lengths, strict=True)
        return [logprob / length if length else -math.inf for logprob, length in pairs]


def _acc(choices: ChoiceLikelihoods) -> float:
    return choices.is_right(choices.logprobs)


def _label_and_best(choices: ChoiceLikelihoods) -> list[Any]:
    return [choices.label, choices.best]


def _acc_norm(choices: ChoiceLikelihoods) -> float:
    return choices.is_right(choices.per_length([len(choice) for choice in choices.texts]))


def _acc_bytes(choices: ChoiceLikelihoods) -> float:
    return choices.is_right(choices.per_length([len(choice.encode()) for choice in choices.texts]))


# An int where the other metrics return a float, because the harness writes 1 here and 1.0 there.
def _exact_match(choices: ChoiceLikelihoods) -> int:
    return int(any(choices.greedy[label] for label in choices.labels if label != NO_LABEL))


def _brier_score(choices: ChoiceLikelihoods) -> list[Any]:
    import numpy as np

    # The maximum is subtracted so that the exponential does not underflow to 0 for all choices.
    exponents = np.exp(np.array(choices.logprobs) - max(choices.logprobs))
    return [choices.label, (exponents / exponents.sum()).tolist()]


def _likelihood(choices: ChoiceLikelihoods) -> list[Any]:
    return [choices.label, choices.logprobs]


def _acc_mutual_info(choices: ChoiceLikelihoods) -> float:
    pairs = zip(choices.logprobs, choices.unconditional, strict=True)
    return choices.is_right([logprob - alone for logprob, alone in pairs])


# Rows of the samples file list the metrics in the order of these tables, whatever the order in the task file.
_OF_CHOICES: dict[str, Callable[[ChoiceLikelihoods], Any]] = {
    "acc": _acc,
    "f1": _label_and_best,
    "mcc": _label_and_best,
    "acc_norm": _acc_norm,
    "acc_bytes": _acc_bytes,
    "exact_match": _exact_match,
    "brier_score": _brier_score,
    "likelihood": _likelihood,
    "acc_mutual_info": _acc_mutual_info,
}
_OF_CONTINUATION: dict[str, Callable[[float, bool], Any]] = {
    "perplexity": lambda logprob, _greedy: logprob,
    "acc": lambda _logprob, greedy: int(greedy),
}
_OF_TEXT: dict[str, Callable[[str], int]] = {
    "word_perplexity": lambda text: len(re.split(r"\s+", text)),
    "byte_perplexity": lambda text: len(text.encode()),
    "bits_per_byte": lambda text: len(text.encode()),
}
LIKELIHOOD_METRICS = {
    CHOICE: (*_OF_CHOICES, "bypass"),
    LIKELIHOOD: (*_OF_CONTINUATION, "bypass"),
    ROLLING: (*_OF_TEXT, "bypass"),
}


def measure_likelihoods(output: str, names: set[str], gold: TaskGold, answers: list[Any]) -> dict[str, Any]:
    """Return the values of one document by metric.

    An answer is [logprob, greedy]; with `loglikelihood_rolling` it is the log-probability alone.
    """
    if output == CHOICE:
        choices = ChoiceLikelihoods(gold, answers)
        values = {name: metric(choices) for name, metric in _OF_CHOICES.items() if name in names}
    elif output == LIKELIHOOD:
        logprob, greedy = answers[0]
        values = {name: metric(logprob, greedy) for name, metric in _OF_CONTINUATION.items() if name in names}
    else:
        values = {name: [answers[0], size(gold.target)] for name, size in _OF_TEXT.items() if name in names}
    # `bypass` computes no value, but the samples file needs a row with the answers.
    if "bypass" in names:
        values["bypass"] = None
    return values
