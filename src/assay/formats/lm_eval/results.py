"""Reads results of lm-evaluation-harness: `results_*.json` with its `samples_*.jsonl`, for `assay import`.

A samples file has a row for every document and filter: all documents of the first filter, then all of the second. One
case is one document, so its rows are in several places of the file. A first pass notes where each row begins (sixteen
bytes a row), a second one reads the rows of each document.

Values and standard errors come from the results file, counts and intervals from the samples. Without a results file,
all numbers come from the samples.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from math import isclose, isfinite, sqrt
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from assay.core.errors import InputError, Problem
from assay.core.imported import UNPLACED, ImportedCase, ImportedRun, ImportPlan, imported_scorer
from assay.core.report import Entry, Report
from assay.core.row_keys import RepeatedKeys, UniqueKeys
from assay.core.types import ASK, Call, Failure, Record, Request, Response, Score, ScoreStatus
from assay.files.read import BY_PROGRAMS, convert_json, decode_json, json_lines, line_at, read_json
from assay.scoring import statistics
from assay.scoring.intervals import statistic_interval, wilson
from assay.scoring.metrics import BUILT_IN
from assay.scoring.statistics import BOOTSTRAP_DRAWS
from assay.suites.task.catalog import task_file_part
from assay.suites.task.dataset.documents import document_key
from assay.suites.task.filters import NO_FILTER, FilterChain
from assay.suites.task.metrics import TaskMetric
from assay.suites.task.scorer import TaskScoring, scored_value
from assay.suites.task.tally import MetricResult, TaskTally, report_metric, share_names

FORMAT = "lm-eval"
DOCUMENT = "document"
"""The kind of the record that has a document with its target. Native runs read both from the data."""
_RESULTS_NAME = re.compile(r"results_?(?P<task>.*?)_?(?P<when>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(\.\d+)?)?\.json")
_SAMPLES_NAME = re.compile(r"samples_(?P<task>.+?)(_(?P<when>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(\.\d+)?))?\.jsonl")
# The name that `--output_path FILE.json` gives to a results file.
_OTHER_RESULTS_NAME = re.compile(r".+_(?P<when>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(\.\d+)?)\.json")
# Levels below a named folder that are searched: the harness writes to OUTPUT/MODEL/.
_PATTERNS = ("{}", "*/{}")
# Keys of a row that are not values of metrics. Versions before 0.4.4 had no `metrics`, so its other keys are metrics.
_ROW_KEYS = frozenset(
    {
        *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "error"),
        *("doc_hash", "prompt_hash", "target_hash", "schema_version", "task_name", "repeats"),
    }
)
# Relative difference between a results file and its samples that is more than rounding.
_TOLERANCE = 1e-6
_MAX_LISTED = 5


class HarnessResults(Struct, kw_only=True):
    """The part of a results file that is read. Keys are those of the harness."""

    results: dict[str, dict[str, Any]]
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    group_subtasks: dict[str, list[str]] = field(default_factory=dict)
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    higher_is_better: dict[str, dict[str, bool | None]] = field(default_factory=dict)
    samples: dict[str, dict[str, Any]] = field(default_factory=dict, name="n-samples")
    date: float | None = None
    lm_eval_version: str | None = None
    model_source: str | None = None
    model_name: str | None = None
    seconds: str | float | None = field(default=None, name="total_evaluation_time_seconds")

    @property
    def model(self) -> str:
        """The model as assay names it: `PROVIDER/NAME`."""
        return "/".join(filter(None, (self.model_source, self.model_name)))


class _RowPlace(Struct, gc=False):
    """The fields of a row that the first pass needs."""

    doc_id: int
    doc: Any = None
    filter: str = NO_FILTER


def find_results(path: Path) -> ImportedRun | None:
    """Return the results at a path: a results file, a samples file, or a folder with one results file.

    A results file brings its samples files along, and a samples file the results file of the same run: their names
    have the same time. Returns None if the path has no such file.
    """
    if path.is_dir():
        return _results_in_folder(path)
    if path.suffix == ".jsonl":
        if not _SAMPLES_NAME.fullmatch(path.name) and not _looks_like_samples(path):
            return None
        results = _sibling_results(path)
        return LmEvalRun(results, None if results else [path])
    if path.suffix == ".json" and (_RESULTS_NAME.fullmatch(path.name) or _looks_like_results(path)):
        return LmEvalRun(path)
    return None


class LmEvalRun(ImportedRun):
    """The results of one run of the harness: a results file with its samples files, or samples files alone."""

    def __init__(self, results: Path | None, samples: list[Path] | None = None) -> None:
        self._file = _read_results_file(results) if results else HarnessResults(results={})
        if results:
            tasks = _task_names(self._file)
            paths = {task: _samples_path(results, task) for task in tasks}
        else:
            paths = {_task_of(path): path for path in samples or ()}
        self._tasks = [_TaskSamples(name, path, self._file.configs.get(name, {})) for name, path in paths.items()]
        with_samples = [task for task in self._tasks if task.path is not None]
        first = results or with_samples[0].path
        assert first is not None
        self._subject = self._file.model or _model_of_folder(first)
        self._notices: list[str] = []
        missing = ["times", "tokens", "failed requests"]
        if len(with_samples) < len(self._tasks):
            names = [task.name for task in self._tasks if task.path is None]
            missing.append(f"the documents of {_listed(names)}: there is no samples file")
        if not results:
            missing.append("the results file: every number is computed from the samples")
        files = [results] if results else []
        super().__init__(
            ImportPlan(
                format=FORMAT,
                suite="task",
                files=files + [task.path for task in with_samples if task.path],
                total=sum(task.count for task in with_samples),
                model=self._subject,
                subjects=[self._subject],
                scorers=[imported_scorer("task")],
                score_parts="filters",
                started=self._file.date,
                seconds=_number(self._file.seconds) or 0.0,
                producer=_producer(self._file.lm_eval_version),
                missing=missing,
                # `assay export` writes the tasks' settings back.
                facts={"configs": self._file.configs},
            )
        )

    def cases(self) -> Iterator[ImportedCase]:
        """Yield the documents of all tasks, task after task."""
        for task in self._tasks:
            yield from task.cases(self._subject, self.plan.scorers[0])

    def report(self) -> Report:
        """Return an entry for each task, then one for each group with numbers."""
        entries = []
        results: list[MetricResult] = []
        for task in self._tasks:
            numbers = self._file.results.get(task.name, {})
            directions = self._file.higher_is_better.get(task.name, {})
            metrics = task.metrics(numbers, directions, self._notices)
            size = self._file.samples.get(task.name, {}).get("effective")
            metrics += _metrics_in_file(numbers, directions, metrics, size)
            results += metrics
            entries.append(
                Entry(
                    name=task.name,
                    subject=self._subject,
                    set=task.name,
                    alias=_alias(numbers, task.name),
                    metrics=[report_metric(metric) for metric in metrics],
                    counts=task.counts,
                )
            )
        for name, numbers in self._file.groups.items():
            size = numbers.get("sample_len")
            metrics = _metrics_in_file(numbers, {}, [], size, share_names(results))
            if metrics:
                entries.append(
                    Entry(
                        name=name,
                        subject=self._subject,
                        alias=_alias(numbers, name),
                        members=self._file.group_subtasks.get(name, []),
                        metrics=[report_metric(replace(metric, aggregation="mean of tasks")) for metric in metrics],
                    )
                )
        return Report(entries=entries, entry_word="task", notices=self._notices)


class _FilterRows(NamedTuple):
    """The rows of one filter in the order of the file: the number of each document, and where its row begins."""

    documents: array[int]
    offsets: array[int]


class _TaskSamples:
    """The samples of one task. `path` is None if the task has no samples file."""

    def __init__(self, name: str, path: Path | None, config: Mapping[str, Any]) -> None:
        self.name = name
        self.path = path
        self._config = config
        self._filters: dict[str, _FilterRows] = {}
        self._unique_keys = UniqueKeys()
        if path is not None:
            self._index(path)
            self._match_filters(path)
        chains = [FilterChain(filter_name, [], ends_in_list=False) for filter_name in self._filters]
        # No output type is passed: the tally would list the metrics of generated text before any score has them.
        self._scoring = TaskScoring("", chains, _declared_metrics(config))
        self._tally = TaskTally(self._scoring)
        self.counts: dict[str, int] = {}

    @property
    def count(self) -> int:
        """The number of documents."""
        return max((len(rows.documents) for rows in self._filters.values()), default=0)

    def _index(self, path: Path) -> None:
        """Note the place of every row, and find equal documents. Raises InputError at the first bad row."""
        repeats = RepeatedKeys()
        first = ""
        for line in json_lines(path, BY_PROGRAMS):
            where = f"{path}:{line.number}"
            row = convert_json(decode_json(line.raw, where), _RowPlace, where)
            rows = self._filters.get(row.filter)
            if rows is None:
                rows = self._filters[row.filter] = _FilterRows(array("q"), array("q"))
                first = first or row.filter
            if not -(1 << 63) <= row.doc_id < 1 << 63:
                raise InputError(Problem(where, f"doc_id {row.doc_id} is too large"))
            rows.documents.append(row.doc_id)
            rows.offsets.append(line.offset)
            if row.filter == first:
                repeats.add(document_key(row.doc))
        if not self._filters:
            raise InputError(Problem(str(path), "has no samples"))
        self._unique_keys = UniqueKeys(repeats.keys())

    def _match_filters(self, path: Path) -> None:
        """Bring the rows of every filter into the order of the first one."""
        (first_name, first), *others = self._filters.items()
        if len(set(first.documents)) < len(first.documents):
            number = Counter(first.documents).most_common(1)[0][0]
            raise InputError(Problem(str(path), f"has two rows of doc_id {number} for the filter {first_name!r}"))
        for name, rows in others:
            if rows.documents == first.documents:
                continue
            places = dict(zip(rows.documents, rows.offsets, strict=True))
            odd = places.keys() ^ set(first.documents)
            if odd or len(places) < len(rows.documents):
                raise InputError(
                    Problem(
                        str(path),
                        f"every filter needs one row for each document; {first_name!r} and {name!r} differ"
                        + (f" in doc_id {min(odd)}" if odd else ""),
                    )
                )
            offsets = array("q", (places[number] for number in first.documents))
            self._filters[name] = _FilterRows(first.documents, offsets)

    def cases(self, subject: str, scorer: str) -> Iterator[ImportedCase]:
        """Yield a case for each document and add it to the numbers."""
        if self.path is None:
            return
        names = list(self._filters)
        # A file object for each filter: their rows are far apart, and each is read forward.
        files = [self.path.open("rb") for _ in names]
        try:
            for offsets in zip(*(rows.offsets for rows in self._filters.values()), strict=True):
                rows: dict[str, dict[str, Any]] = {}
                for name, file, offset in zip(names, files, offsets, strict=True):
                    rows[name] = decode_json(line_at(file, offset, BY_PROGRAMS), f"{self.path} byte {offset}")
                yield self._case(rows, subject, scorer)
        finally:
            for file in files:
                file.close()

    def _case(self, rows: dict[str, dict[str, Any]], subject: str, scorer: str) -> ImportedCase:
        first = next(iter(rows.values()))
        requests = _requests(first.get("arguments"), subject)
        replies = _replies(first.get("resps"), requests)
        failure = _failure(first, replies)
        scores: list[Score] = []
        for part, row in rows.items():
            scores += self._scores(part, row, failure, scorer, requests)
        document = {"doc": first.get("doc"), "target": first.get("target")}
        records = [Record(*UNPLACED, try_=1, kind=DOCUMENT, data=document)]
        if replies:
            records.append(Record(*UNPLACED, try_=1, kind="answer", data=replies))
        case = ImportedCase(
            key=self._unique_keys.of(document_key(first.get("doc"))),
            set=self.name,
            subject=subject,
            label=str(first["doc_id"]),
            failure=failure,
            records=records,
            scores=scores,
            calls=list(_calls(requests, replies)),
        )
        self._count(case)
        return case

    def _scores(
        self, part: str, row: dict[str, Any], failure: Failure | None, scorer: str, requests: list[Request]
    ) -> Iterator[Score]:
        names = row.get("metrics")
        if not isinstance(names, list):
            names = [name for name in row if name not in _ROW_KEYS]
        # As in a native run, the first score of a filter carries the filtered answers and the target.
        data: dict[str, Any] = {"filtered": _parsed(row.get("filtered_resps"), requests)}
        expected = row.get("target")
        for name in map(str, names):
            if name not in row:
                continue
            if name not in self._scoring.metrics:
                # Samples without settings: a corpus metric such as bleu has a pair of texts here.
                is_number = isinstance(row[name], (int, float))
                self._scoring.metrics[name] = (
                    TaskMetric(name, right_wrong=_is_right_wrong(name)) if is_number else _declared_metric(name, {})
                )
            scored = scored_value(self._scoring.metric(name), row[name], data)
            yield Score(
                *UNPLACED,
                scorer=scorer,
                metric=name,
                part=part,
                status=scored.status,
                value=scored.value,
                reason=scored.reason,
                data=scored.data or None,
                expected=expected,
            )
            data, expected = {}, None
        if "error" not in row or (failure and failure.status == "infra_error"):
            return
        for name in self._scoring.metrics:
            if name not in names:
                status: ScoreStatus = "not_applicable" if failure else "invalid"
                yield Score(*UNPLACED, scorer=scorer, metric=name, part=part, status=status, reason=str(row["error"]))

    def _count(self, case: ImportedCase) -> None:
        self._tally.add_case(case.failure.status if case.failure else "ok", case.scores)

    def metrics(
        self, numbers: Mapping[str, Any], directions: Mapping[str, bool | None], notices: list[str]
    ) -> list[MetricResult]:
        """Return the task's numbers. Where the results file has a number, that is the value."""
        # The file has the standard errors already, and a bootstrap takes seconds.
        results = self._tally.numbers(0 if numbers else BOOTSTRAP_DRAWS)
        self.counts = {status: count for status, count in results.counts.items() if count}
        for result in results.metrics:
            result.warning = ""  # it says what to declare in a task, and the task has already run elsewhere
            key, error_key = _keys_in_file(numbers, result.metric, result.filter)
            if key not in numbers:
                continue
            value, error = _number(numbers[key]), _number(numbers.get(error_key))
            computed = result.value if isinstance(result.value, (int, float)) else None
            known = result.aggregation in statistics.AGGREGATIONS
            if known and None not in (value, computed) and not isclose(value, computed, rel_tol=_TOLERANCE):  # type: ignore[arg-type]
                notices.append(
                    f"{self.name}: the results file has {key} {value:g}, its samples give {computed:g}; "
                    "the report has the value of the results file"
                )
                result.numerator, result.interval = None, None
            result.value, result.stderr, result.reason = numbers[key], error, ""
            result.higher_is_better = directions.get(result.metric, result.higher_is_better)
            if result.numerator is None and value is not None:
                bounds = statistic_interval(value, error, result.count, is_share=result.is_share)
                result.interval, result.interval_method = bounds
        return results.metrics


# The results file


def _read_results_file(path: Path) -> HarnessResults:
    results = convert_json(read_json(path), HarnessResults, str(path))
    if not results.results:
        raise InputError(Problem(str(path), "has no results: `results` is empty"))
    if not _task_names(results):
        raise InputError(Problem(str(path), "has groups only, and no task"))
    return results


def _task_names(file: HarnessResults) -> list[str]:
    """Return the tasks among the names of `results`, which also has the groups."""
    groups = {name for name, members in file.group_subtasks.items() if members} | file.groups.keys()
    return [name for name in file.results if name in file.configs or name not in groups]


def _metrics_in_file(
    numbers: Mapping[str, Any],
    directions: Mapping[str, bool | None],
    known: list[MetricResult],
    size: Any,
    shares: Collection[tuple[str, str]] = (),
) -> list[MetricResult]:
    """Return the numbers of a task or group in the results file that are not among the known ones.

    `shares` names the metrics, each with its filter, that are shares of right answers.
    """
    names = {(result.metric, result.filter) for result in known}
    counts = numbers.get("sample_count")
    results = []
    for key, value in numbers.items():
        metric, _, part = key.partition(",")
        is_error = metric.endswith("_stderr") and _keys_in_file(numbers, metric[:-7], part)[0] in numbers
        if is_error or (metric, part) in names or not ("," in key or isinstance(value, (int, float))):
            continue
        if "," not in key and f"{key}_stderr" not in numbers:
            continue  # `sample_len` and the like
        count = counts.get(key) if isinstance(counts, dict) else size
        error, number = _number(numbers.get(_keys_in_file(numbers, metric, part)[1])), _number(value)
        result = MetricResult(
            filter=part,
            metric=metric,
            aggregation="mean",
            count=count if isinstance(count, int) else 0,
            left_out={},
            value=value,
            stderr=error,
            higher_is_better=directions.get(metric),
        )
        if number is not None and _is_right_wrong(metric) and _is_proportion(number, error, result.count):
            result.is_share = True
            result.interval = wilson(round(number * result.count), result.count)
            result.interval_method = "wilson"
        elif number is not None:
            result.is_share = (metric, part) in shares
            bounds = statistic_interval(number, error, result.count, is_share=result.is_share)
            result.interval, result.interval_method = bounds
        results.append(result)
    return results


def _is_proportion(value: float, error: float | None, count: int) -> bool:
    """Return True if the standard error is that of values that are all 0 or 1. The file does not have the values."""
    if error is None or count < 2 or not 0 <= value <= 1:
        return False
    return isclose(error, sqrt(value * (1 - value) / (count - 1)), rel_tol=1e-6, abs_tol=1e-12)


def _keys_in_file(numbers: Mapping[str, Any], metric: str, part: str) -> tuple[str, str]:
    """Return the keys of a value and of its standard error. Versions before 0.4 had no filters in their keys."""
    if part and f"{metric},{part}" not in numbers and part == NO_FILTER and metric in numbers:
        return metric, f"{metric}_stderr"
    return (f"{metric},{part}", f"{metric}_stderr,{part}") if part else (metric, f"{metric}_stderr")


def _declared_metrics(config: Mapping[str, Any]) -> dict[str, TaskMetric]:
    """Return the metrics of a task's settings. Functions are source texts here, so their values stand as they are."""
    metrics = {}
    entries = config.get("metric_list")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("metric"), str) and entry["metric"].isidentifier():
            # Any other text is the source of a function.
            metrics[entry["metric"]] = _declared_metric(entry["metric"], entry)
    return metrics


def _declared_metric(name: str, entry: Mapping[str, Any]) -> TaskMetric:
    """Return a metric. Where its entry does not say how it is aggregated, the harness takes the metric's default."""
    default, higher = "mean", entry.get("higher_is_better")
    plugin = BUILT_IN.get(name)
    if plugin is not None:
        default, higher = plugin.aggregations[0], entry.get("higher_is_better", plugin.higher_is_better)
    aggregation = entry.get("aggregation", default)
    known = isinstance(aggregation, str) and aggregation in statistics.AGGREGATIONS
    return TaskMetric(
        name,
        aggregation=aggregation if known else "!function",
        aggregate=statistics.AGGREGATIONS[aggregation] if known else _no_number,
        higher_is_better=higher if isinstance(higher, bool) else None,
        right_wrong=entry.get("right_wrong", _is_right_wrong(name)) is True,
    )


def _is_right_wrong(name: str) -> bool:
    """Return True for a metric of the harness whose value is 1 for right and 0 for wrong."""
    return name in BUILT_IN and BUILT_IN[name].right_wrong


def _no_number(values: Any) -> None:
    """Stand in for an aggregation that the file only names. The results file has its value."""


def _alias(numbers: Mapping[str, Any], name: str) -> str:
    # Tasks of a group are indented with dashes.
    alias = str(numbers.get("alias") or name).strip(" -")
    return alias if alias != name else ""


def _producer(version: str | None) -> str:
    if not version:
        return ""
    # assay writes its own name into this field.
    return version if version.startswith("assay") else f"lm-eval {version}"


# Files and their names


def _results_in_folder(folder: Path) -> ImportedRun | None:
    names = [path for pattern in _PATTERNS for path in sorted(folder.glob(pattern.format("results_*.json")))]
    results = [path for path in names if _RESULTS_NAME.fullmatch(path.name)]
    if len(results) > 1:
        raise InputError(
            Problem(
                str(folder),
                f"has {len(results)} results files. Import each one: {_listed([str(path) for path in results])}",
            )
        )
    if results:
        return LmEvalRun(results[0])
    samples = [path for pattern in _PATTERNS for path in sorted(folder.glob(pattern.format("samples_*.jsonl")))]
    return LmEvalRun(None, samples) if samples else None


def _samples_path(results: Path, task: str) -> Path | None:
    match = _RESULTS_NAME.fullmatch(results.name) or _OTHER_RESULTS_NAME.fullmatch(results.name)
    when = match["when"] if match else None
    path = results.with_name(
        f"samples_{task_file_part(task)}_{when}.jsonl" if when else f"samples_{task_file_part(task)}.jsonl"
    )
    return path if path.is_file() else None


def _sibling_results(samples: Path) -> Path | None:
    """Return the results file of the run that a samples file belongs to; None if there is none beside it."""
    match = _SAMPLES_NAME.fullmatch(samples.name)
    if not match or not match["when"]:
        return None
    for path in sorted(samples.parent.glob(f"results_*{match['when']}.json")):
        if _samples_path(path, match["task"]) == samples:
            return path
    return None


def _task_of(samples: Path) -> str:
    match = _SAMPLES_NAME.fullmatch(samples.name)
    return match["task"] if match else samples.stem


def _model_of_folder(path: Path) -> str:
    """Return the name of the file's folder: the harness names it after the model."""
    return path.absolute().parent.name or "model"


def _looks_like_results(path: Path) -> bool:
    """Return whether a file is a results file of any name: `--output_path res.json` writes `res_<time>.json`."""
    if not _OTHER_RESULTS_NAME.fullmatch(path.name):
        return False
    try:
        value = read_json(path)
    except InputError:
        return False
    return isinstance(value, dict) and {"results", "configs", "n-shot"} <= value.keys()


def _looks_like_samples(path: Path) -> bool:
    for line in json_lines(path, BY_PROGRAMS):
        try:
            row = decode_json(line.raw, str(path))
        except InputError:
            return False
        return isinstance(row, dict) and {"doc_id", "doc", "resps"} <= row.keys()
    return False


def _listed(names: list[str]) -> str:
    text = ", ".join(names[:_MAX_LISTED])
    return f"{text} and {len(names) - _MAX_LISTED:,} more" if len(names) > _MAX_LISTED else text


# Rows


def _requests(arguments: Any, model: str) -> list[Request]:
    """Return the requests of a document. Versions before 0.4.3 wrote a list of lists."""
    if isinstance(arguments, dict):
        groups = [list(group.values()) if isinstance(group, dict) else [group] for group in arguments.values()]
    elif isinstance(arguments, list):
        groups = [group if isinstance(group, list) else [group] for group in arguments]
    else:
        groups = []
    return [_request(group, model) for group in groups if group]


def _request(group: list[Any], model: str) -> Request:
    first, second = group[0], group[1] if len(group) > 1 else None
    if isinstance(second, str):
        return Request(model=model, prompt=_text(first), continuation=second)
    if second is None and len(group) == 1:
        return Request(model=model, continuation=_text(first))
    params = second if isinstance(second, dict) else {}
    messages = _messages(first)
    if messages is not None:
        return Request(model=model, messages=messages, params=params)
    return Request(model=model, prompt=_text(first), params=params)


def _messages(value: Any) -> list[dict[str, Any]] | None:
    """Return the messages of a chat request: a list with one text, which is JSON."""
    if not isinstance(value, list) or len(value) != 1 or not isinstance(value[0], str):
        return None
    try:
        messages = json.loads(value[0])
    except (ValueError, RecursionError):
        return None
    is_chat = isinstance(messages, list) and all(isinstance(message, dict) for message in messages)
    return messages if is_chat else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _replies(resps: Any, requests: list[Request]) -> list[list[Any]]:
    """Return the replies of each request, or [] if the document has none."""
    if not isinstance(resps, list):
        return []
    replies = [reply if isinstance(reply, list) else [reply] for reply in resps]
    if not any(replies):
        return []
    parsed: list[list[Any]] = _parsed(replies, requests)
    return parsed


def _parsed(value: Any, requests: list[Request]) -> Any:
    """Return replies with likelihoods as numbers. The harness writes every leaf as text: `["-7.75", "False"]`."""
    likelihoods = bool(requests) and requests[0].continuation is not None
    return _likelihoods(value) if likelihoods else value


def _likelihoods(value: Any) -> Any:
    if isinstance(value, list):
        return [_likelihoods(item) for item in value]
    if value in ("True", "False"):
        return value == "True"
    number = _number(value)
    return value if number is None else number


def _number(value: Any) -> float | None:
    """Return a finite number, also from its text; None for anything else, such as "N/A"."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None


def _failure(row: dict[str, Any], replies: list[list[Any]]) -> Failure | None:
    """Return why a document has no reply. Only assay writes `error`: `kind: message`."""
    if "error" not in row or replies:
        return None
    kind, _, message = str(row["error"]).partition(": ")
    return Failure(kind, message)


def _calls(requests: list[Request], replies: list[list[Any]]) -> Iterator[Call]:
    for request, repeats in zip(requests, replies, strict=False):
        for reply in repeats:
            yield Call(
                *UNPLACED,
                stage=ASK,
                try_=1,
                hash="",
                n=0,
                request=request,
                response=_response(request, reply),
            )


def _response(request: Request, reply: Any) -> Response:
    if request.continuation is None:
        return Response(_text(reply))
    logprob, greedy = reply if isinstance(reply, list) and len(reply) == 2 else (reply, None)
    return Response("", data={"logprob": logprob, "greedy": greedy})
