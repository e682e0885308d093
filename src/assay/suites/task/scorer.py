"""Scores one document with the filters and metrics of its task. Its judge is in `judge.py`."""

from __future__ import annotations

from collections.abc import Callable
from sys import float_info
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from assay.core.protocols import Context, Scorer, ScorerInput
from assay.core.types import Case, Score, ScoreStatus
from assay.language.patterns import PatternStopped, call_if_quick, call_without_blocking
from assay.scoring.statistics import OF_NUMBERS, first_votes
from assay.suites.task.config import GENERATE, ROLLING
from assay.suites.task.filters import NO_FILTER, FilterChain, FilterResult
from assay.suites.task.metrics import TaskMetric, measure_likelihoods
from assay.suites.task.requests import TaskGold
from assay.usercode.errors import is_failure, message_of, place_note, raised_as, traceback_of

NO_ANSWER = "no answer"
JUDGE_METRIC = TaskMetric("judge", higher_is_better=True, right_wrong=True)
"""What a judge adds to the metrics of a task."""
_JSON_SCALARS = frozenset({str, bool, int, float, type(None)})
# Comparing with this bound excludes NaN, infinities and integers that no float can hold.
_LARGEST = float_info.max


class TaskScoring(Struct, frozen=True):
    """How one task is scored. If `process` (the user's `process_results`) is set, it computes all values."""

    output: str
    chains: list[FilterChain]
    metrics: dict[str, TaskMetric]
    process: Callable[[dict[str, Any], list[Any]], dict[str, Any]] | None = None

    def metric(self, name: str, of: str = "") -> TaskMetric:
        """Return a metric by name.

        A function of the user may return values under further names. These are aggregated like the metric
        `of`, which returned them; without `of` by the mean.
        """
        if name in self.metrics:
            return self.metrics[name]
        return replace(self.metrics[of], name=name, user_function=None) if of else TaskMetric(name)


class ScoredValue(Struct, frozen=True):
    """The value of one document for one filter and metric."""

    status: ScoreStatus
    value: float | None = None
    data: dict[str, Any] | None = None
    reason: str = ""


class TaskScorer(Scorer):
    """Scores one case with every filter and metric of its task."""

    def __init__(self, scorer_id: str, tasks: dict[str, TaskScoring]) -> None:
        self.id = scorer_id
        self._tasks = tasks

    def score_at_once(self, given: ScorerInput) -> list[Score] | None:
        """Return the scores, unless a filter has a slow pattern."""
        return call_if_quick(self._scores, given)

    async def score(self, given: ScorerInput, ctx: Context) -> list[Score]:
        """Return a score for each filter and metric, ordered by filter."""
        return await call_without_blocking(self._scores, given)

    def _scores(self, given: ScorerInput) -> list[Score]:
        scoring = self._tasks[given.case.set]
        scores: list[Score] = []
        for chain in scoring.chains:
            if given.end.status == "subject_error":
                expected = _expected(scoring, given.case.gold)
                for metric in scoring.metrics.values():
                    scores.append(self._score_without_answer(given.case, chain, metric, expected))
                    expected = None
            else:
                scores += self._score_chain(given.case, chain, scoring, given.records[0].data)
        return scores

    def _score_chain(
        self, case: Case, chain: FilterChain, scoring: TaskScoring, replies: list[list[Any]]
    ) -> list[Score]:
        gold: TaskGold = case.gold
        data: dict[str, Any] = {}
        try:
            filtered = [chain.run(repeats, gold.doc) for repeats in replies]
            try:
                values = measure(scoring, gold, [result.value for result in filtered])
            finally:
                # After the metrics, whose code may change the answers. They stay in the row if a metric raises.
                data["filtered"] = [plain(result.value) for result in filtered]
            data |= _score_data(filtered, scoring, chain, gold, replies)
        except BaseException as error:
            # The task's own code failed on this document. Its scores are invalid; the run continues.
            if not isinstance(error, Exception) and not is_failure(error):
                raise
            why = message_of(error) if isinstance(error, PatternStopped) else raised_as(error)
            reason = why if chain.name == NO_FILTER else f"filter {chain.name}: {why}"
            traceback = traceback_of(error)
            scores = []
            for metric in scoring.metrics.values():
                failed = data | ({"traceback": traceback} if traceback else {})
                scores.append(self._score(case, chain, metric, ScoredValue("invalid", None, failed, reason)))
                data = {}
            return scores
        expected = _expected(scoring, gold)
        scores = []
        for name, (value, of) in values.items():
            metric = scoring.metric(name, of)
            metric_data = {**data, "of": of} if of else data
            scored = scored_value(metric, plain(value), metric_data)
            scores.append(self._score(case, chain, metric, scored, expected))
            # Only the first score of a filter stores the filtered answers and the target, to keep them once.
            data, expected = {}, None
        return scores

    def _score_without_answer(self, case: Case, chain: FilterChain, metric: TaskMetric, expected: Any) -> Score:
        """Return 0 for metrics of right and wrong answers. Other metrics leave the document out."""
        if metric.right_wrong:
            scored = ScoredValue("scored", 0.0, reason=NO_ANSWER)
        else:
            scored = ScoredValue("not_applicable", reason=NO_ANSWER)
        return self._score(case, chain, metric, scored, expected)

    def _score(
        self, case: Case, chain: FilterChain, metric: TaskMetric, scored: ScoredValue, expected: Any = None
    ) -> Score:
        # Without names of fields, which take longer than the rest.
        return Score(
            case.index,
            case.key,
            case.set,
            case.subject,
            self.id,
            metric.name,
            chain.name,
            0,
            scored.status,
            scored.value,
            scored.reason,
            scored.data or None,
            expected,
        )


def _expected(scoring: TaskScoring, gold: TaskGold) -> Any:
    """Return the target as a score stores it. That of `loglikelihood_rolling`, which may be a book, is not stored."""
    return None if scoring.output == ROLLING else plain(gold.target)


def _score_data(
    filtered: list[FilterResult],
    scoring: TaskScoring,
    chain: FilterChain,
    gold: TaskGold,
    replies: list[list[Any]],
) -> dict[str, Any]:
    """Return the data that the journal keeps for a filter beside its answers: votes, and correct repeats."""
    data: dict[str, Any] = {}
    if filtered[0].votes:
        data["votes"] = filtered[0].votes
    if len(replies[0]) > 1:
        curve = _repeat_curve(scoring, chain, gold, replies[0])
        if curve:
            data["repeats"] = curve
    return data


def _repeat_curve(
    scoring: TaskScoring, chain: FilterChain, gold: TaskGold, replies: list[Any]
) -> dict[str, Any] | None:
    """Return the data for pass@k and maj@k of one document, or None if no metric tells right from wrong.

    `right` is the number of correct repeats. `votes` is a string with one digit for each k from 1: the digit is 1 if
    the majority answer of the first k repeats is correct, else 0.
    """
    if scoring.output != GENERATE or scoring.process is not None:
        return None
    for metric in scoring.metrics.values():
        if metric.right_wrong and metric.measure:
            break
    else:
        return None
    answers = []
    for answer in chain.extract(replies, gold.doc):
        hashable = isinstance(answer, (str, int, float, bool, type(None)))
        answers.append(answer if hashable else str(answer))
    is_right = {}
    for answer in dict.fromkeys(answers):
        is_right[answer] = bool(measure_answer(metric, gold.label, answer))
    votes = "".join("1" if vote else "0" for vote in first_votes(answers, is_right))
    right = sum(is_right[answer] for answer in answers)
    return {"metric": metric.name, "n": len(answers), "right": right, "votes": votes}


def measure(scoring: TaskScoring, gold: TaskGold, answers: list[Any]) -> dict[str, tuple[Any, str]]:
    """Return (value, metric) of one document by name. `answers` are the filtered answers, one per request.

    The second item is the metric whose function returned the value under another name, else "".
    """
    if scoring.process is not None:
        results = scoring.process(gold.doc, [_as_harness(answer) for answer in answers])
        return {name: (value, "") for name, value in dict(results).items()}
    if scoring.output != GENERATE:
        results = measure_likelihoods(scoring.output, set(scoring.metrics), gold, answers)
        return {name: (value, "") for name, value in results.items()}
    values: dict[str, tuple[Any, str]] = {}
    for metric in scoring.metrics.values():
        if metric.user_function is not None:
            values |= _measure_with_user_function(metric, gold.label, answers[0])
        else:
            values[metric.name] = measure_answer(metric, gold.label, answers[0]), ""
    return values


def _as_harness(answer: Any) -> Any:
    """Convert a [logprob, greedy] list of the journal to the tuple that the harness passes to user code."""
    if isinstance(answer, list) and [type(item) for item in answer] == [float, bool]:
        return tuple(answer)
    return answer


def measure_answer(metric: TaskMetric, target: Any, answer: Any) -> Any:
    """Return the value of one answer. With several targets, the best match counts."""
    if metric.measure is None:
        return None
    if isinstance(target, list):
        if metric.aggregation in OF_NUMBERS:
            # A metric of right or wrong is true for any of them, as in the harness, whatever `higher_is_better` says.
            best = min if metric.higher_is_better is False and not metric.right_wrong else max
            return best([float(metric.measure(reference, answer)) for reference in target], default=0.0)
        # Metrics of the whole corpus (such as bleu) need one pair, so the target that the answer equals is used.
        if answer in target:
            return metric.measure(answer, answer)
        return metric.measure(target[0] if target else "", answer)
    return metric.measure(_cast_target(target, answer), answer)


def _cast_target(target: Any, answer: Any) -> Any:
    """Convert the target to the answer's type, as the harness does, so that 7 and "7" are equal."""
    if type(target) is type(answer) or isinstance(answer, list) or answer is None:
        return target
    return type(answer)(target)


def _measure_with_user_function(metric: TaskMetric, target: Any, answer: Any) -> dict[str, tuple[Any, str]]:
    """Call the user's metric. If it returns a mapping, each item is a metric."""
    if isinstance(target, list):
        # As in the harness: with several targets the value is 1.0 if the metric is true for any of them.
        results = [_call_metric(metric, reference, answer) for reference in target]
        right = any(result[metric.name] if isinstance(result, dict) else result for result in results)
        return {metric.name: (1.0 if right else 0.0, "")}
    value = _call_metric(metric, _cast_target(target, answer), answer)
    if not isinstance(value, dict):
        return {metric.name: (value, "")}
    return {name: (item, "" if name == metric.name else metric.name) for name, item in value.items()}


def _call_metric(metric: TaskMetric, target: Any, answer: Any) -> Any:
    assert metric.user_function is not None
    try:
        return metric.user_function(references=[target], predictions=[answer], **metric.options)
    except TypeError as keyword_error:
        # Functions of older task files take one argument, the list [target, answer].
        try:
            return metric.user_function([target, answer])
        except TypeError:
            raise keyword_error from None


def scored_value(metric: TaskMetric, value: Any, data: dict[str, Any]) -> ScoredValue:
    """Store a metric's return value. A number is the score's value; any other object goes to `data["value"]`.

    An int is stored in both places, because files show 1 and not 1.0. A scored value of None is NaN, which
    JSON cannot express.
    """
    if isinstance(value, (int, float)) and -_LARGEST <= value <= _LARGEST:
        number_data = data if type(value) is float else {**data, "value": value}
        return ScoredValue("scored", float(value), number_data)
    if metric.aggregation == "nanmean" and value != value:  # noqa: PLR0124 - NaN, which nanmean leaves out
        return ScoredValue("scored", None, data)
    if metric.aggregation in OF_NUMBERS and metric.aggregate is not None:
        place = place_note(metric.user_function) if metric.user_function else ""
        reason = f"the metric{place} returned {value!r}, expected a number"
        return ScoredValue("invalid", None, data, reason)
    return ScoredValue("scored", None, {**data, "value": value})


def plain(value: Any) -> Any:
    """Convert a value to JSON types. User code may return tuples, sets, or scalars and arrays of numpy."""
    if type(value) in _JSON_SCALARS:
        return value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return plain(value.tolist()) if hasattr(value, "tolist") else str(value)
