"""Scores one document: by the filters and metrics of its task, and by a judge who reads the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from sys import float_info
from typing import Any, NamedTuple

from msgspec import Struct

from assay.core import user_code
from assay.core.judges import JudgeInfo
from assay.core.protocols import Context, Scorer, View
from assay.core.types import Case, Score, ScoreStatus
from assay.scoring.panel import Panel, answer_data, answer_scorer_id, answer_value, judge_answer
from assay.scoring.statistics import OF_NUMBERS, first_votes
from assay.suites.task.config import GENERATE, ROLLING
from assay.suites.task.filters import FilterChain, FilterResult
from assay.suites.task.metrics import TaskMetric, measure_likelihoods
from assay.suites.task.outputs import TaskGold

NO_ANSWER = "no answer"
_LARGEST = float_info.max


class TaskScoring(NamedTuple):
    """How one task is scored. `process` is the user's `process_results`, which then computes everything."""

    output: str
    chains: list[FilterChain]
    metrics: dict[str, TaskMetric]
    process: Callable[[dict[str, Any], list[Any]], dict[str, Any]] | None = None

    def metric(self, name: str, of: str = "") -> TaskMetric:
        """A metric by name. A further name that the metric `of` returned is aggregated as that one is."""
        if name in self.metrics:
            return self.metrics[name]
        return self.metrics[of]._replace(name=name, own=None) if of else TaskMetric(name)


class ScoredValue(Struct, frozen=True):
    """What one filter and metric make of one document."""

    status: ScoreStatus
    value: float | None = None
    data: dict[str, Any] | None = None
    reason: str = ""


class TaskScorer(Scorer):
    """Scores one case by every filter and metric of its task."""

    def __init__(self, scorer_id: str, tasks: dict[str, TaskScoring]) -> None:
        self.id = scorer_id
        self._tasks = tasks

    async def score(self, view: View, ctx: Context) -> list[Score]:
        """A score for each filter and metric, filter by filter."""
        scoring = self._tasks[view.case.set]
        scores: list[Score] = []
        for chain in scoring.chains:
            if view.end.status == "subject_error":
                metrics = scoring.metrics.values()
                scores += [self._score_without_answer(view.case, chain, metric) for metric in metrics]
            else:
                scores += self._score_chain(view.case, chain, scoring, view.records[0].data)
        return scores

    def _score_chain(
        self, case: Case, chain: FilterChain, scoring: TaskScoring, replies: list[list[Any]]
    ) -> Iterator[Score]:
        gold: TaskGold = case.gold
        try:
            filtered = [chain.run(repeats, gold.doc) for repeats in replies]
            values = measure(scoring, gold, [result.value for result in filtered])
        except BaseException as error:
            # Code of the task that fails on one document costs the scores of that document.
            if not isinstance(error, Exception) and not user_code.is_failure(error):
                raise
            reason = f"{chain.name}: {type(error).__name__}: {user_code.message_of(error)}"
            traceback = user_code.traceback_of(error)
            invalid = ScoredValue("invalid", None, {"traceback": traceback} if traceback else None, reason)
            for metric in scoring.metrics.values():
                yield self._score(case, chain, metric, invalid)
            return
        data = _score_data(filtered, scoring, chain, gold, replies)
        # The text of `loglikelihood_rolling` is only measured, and may be a whole book.
        expected = None if scoring.output == ROLLING else plain(gold.target)
        for name, (value, of) in values.items():
            metric = scoring.metric(name, of)
            own_data = {**data, "of": of} if of else data
            yield self._score(case, chain, metric, _scored_value(metric, plain(value), own_data), expected)
            # The first metric of a filter carries what the filter gave and what was expected.
            data, expected = {}, None

    def _score_without_answer(self, case: Case, chain: FilterChain, metric: TaskMetric) -> Score:
        """No answer is a wrong answer where there is right and wrong. Elsewhere it is left out."""
        if metric.right_wrong:
            return self._score(case, chain, metric, ScoredValue("scored", 0.0, reason=NO_ANSWER))
        return self._score(case, chain, metric, ScoredValue("not_applicable", reason=NO_ANSWER))

    def _score(
        self, case: Case, chain: FilterChain, metric: TaskMetric, scored: ScoredValue, expected: Any = None
    ) -> Score:
        return Score(
            *case.head,
            scorer=self.id,
            metric=metric.name,
            part=chain.name,
            status=scored.status,
            value=scored.value,
            reason=scored.reason,
            data=scored.data or None,
            expected=expected,
        )


def _score_data(
    filtered: list[FilterResult],
    scoring: TaskScoring,
    chain: FilterChain,
    gold: TaskGold,
    replies: list[list[Any]],
) -> dict[str, Any]:
    """What the journal keeps of a filter's work: its values, the votes, and right answers by repeats."""
    data: dict[str, Any] = {"filtered": [plain(result.value) for result in filtered]}
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
    """How many repeats were right, and a digit for every k: whether the vote over the first k was.

    Only for metrics that know right and wrong.
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
    """The values of one document by metric, from what the filters left of each request.

    Beside each value stands the metric that returned it, if that has another name.
    """
    if scoring.process is not None:
        results = scoring.process(gold.doc, [_as_harness(answer) for answer in answers])
        return {name: (value, "") for name, value in dict(results).items()}
    if scoring.output != GENERATE:
        results = measure_likelihoods(scoring.output, set(scoring.metrics), gold, answers)
        return {name: (value, "") for name, value in results.items()}
    values: dict[str, tuple[Any, str]] = {}
    for metric in scoring.metrics.values():
        if metric.own is not None:
            values |= _measure_with_own(metric, gold.label, answers[0])
        else:
            values[metric.name] = measure_answer(metric, gold.label, answers[0]), ""
    return values


def _as_harness(answer: Any) -> Any:
    """User code unpacks (logprob, greedy) and may compare it with tuples. The journal has lists."""
    if isinstance(answer, list) and [type(item) for item in answer] == [float, bool]:
        return tuple(answer)
    return answer


def measure_answer(metric: TaskMetric, target: Any, answer: Any) -> Any:
    """One metric of one answer. Of several targets the one that is met best counts."""
    if metric.measure is None:
        return None
    if isinstance(target, list):
        if metric.aggregation in OF_NUMBERS:
            return max([float(metric.measure(reference, answer)) for reference in target], default=0.0)
        if answer in target:
            return metric.measure(answer, answer)
        return metric.measure(target[0] if target else "", answer)
    return metric.measure(_cast_target(target, answer), answer)


def _cast_target(target: Any, answer: Any) -> Any:
    """The target in the answer's type, so that 7 and "7" can be equal."""
    if type(target) is type(answer) or isinstance(answer, list) or answer is None:
        return target
    return type(answer)(target)


def _measure_with_own(metric: TaskMetric, target: Any, answer: Any) -> dict[str, tuple[Any, str]]:
    """The user's metric. A mapping that it returns is several metrics."""
    if isinstance(target, list):
        results = [_call_metric(metric, reference, answer) for reference in target]
        right = any(result[metric.name] if isinstance(result, dict) else result for result in results)
        return {metric.name: (1.0 if right else 0.0, "")}
    value = _call_metric(metric, _cast_target(target, answer), answer)
    if not isinstance(value, dict):
        return {metric.name: (value, "")}
    return {name: (item, "" if name == metric.name else metric.name) for name, item in value.items()}


def _call_metric(metric: TaskMetric, target: Any, answer: Any) -> Any:
    assert metric.own is not None
    try:
        return metric.own(references=[target], predictions=[answer], **metric.options)
    except TypeError as first:
        # Metrics of older task files take one list of target and answer.
        try:
            return metric.own([target, answer])
        except TypeError:
            raise first from None


def _scored_value(metric: TaskMetric, value: Any, data: dict[str, Any]) -> ScoredValue:
    """A number is the score's value, with its own type kept beside it. Other values wait for the aggregation.

    A scored case that has neither is NaN, which JSON has no word for.
    """
    if isinstance(value, (int, float)) and -_LARGEST <= value <= _LARGEST:
        kept = data if type(value) is float else {**data, "value": value}
        return ScoredValue("scored", float(value), kept)
    if metric.aggregation == "nanmean" and value != value:  # noqa: PLR0124 - NaN, which nanmean leaves out
        return ScoredValue("scored", None, data)
    if metric.aggregation in OF_NUMBERS and metric.aggregate is not None:
        return ScoredValue("invalid", None, data, f"the metric gave {value!r}, which is no number")
    return ScoredValue("scored", None, {**data, "value": value})


def plain(value: Any) -> Any:
    """A value as JSON has it. User code may return tuples, sets, or scalars and arrays of numpy."""
    if value is None or (isinstance(value, (str, bool, int, float)) and type(value).__module__ == "builtins"):
        return value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return plain(value.tolist()) if hasattr(value, "tolist") else str(value)


# The judge

# Raise it when what the judge is shown changes: it is part of the scorer's identity.
_JUDGE_VERSION = 1
JUDGE_METRIC = TaskMetric("judge", higher_is_better=True, right_wrong=True)
# What filters leave where their pattern matches nothing, unless a task file says otherwise.
_NO_MATCH = "[invalid]"


class TaskJudge(Scorer):
    """Has generated answers judged, beside the task's own metrics.

    There is one score a document, under the task's first filter. Tasks that cannot be judged have none.
    """

    def __init__(
        self, panel: Panel, chains: dict[str, FilterChain], identities: dict[str, Any], info: JudgeInfo
    ) -> None:
        """`chains` has the first filter chain of every judged task, `identities` what the judge is shown."""
        self._panel = panel
        self._chains = chains
        self.id = answer_scorer_id(panel, [identities, _JUDGE_VERSION])
        self.info = info

    def chain(self, task: str) -> FilterChain | None:
        """The filters of this task whose answer is judged; None if nothing is judged."""
        return self._chains.get(task)

    async def score(self, view: View, ctx: Context) -> list[Score]:
        """The judge's verdict. A document without a target has nothing to be judged by."""
        case, chain = view.case, self.chain(view.case.set)
        if chain is None:
            return []
        if view.end.status == "subject_error":
            return [self._score(case, chain, value=0.0, reason=NO_ANSWER)]
        references = reference_texts(case.gold.label)
        if not references:
            return [self._score(case, chain, status="not_applicable", reason="the document has no target")]
        answer = answer_to_judge(chain, view.records[0].data[0], case.gold.doc)
        verdict = await judge_answer(self._panel, case.gold.question, references, answer, ctx)
        status, value = answer_value(verdict)
        reason = verdict.reason if verdict.valid else f"judge: {verdict.reason}"
        data = {**answer_data(verdict), "answer": answer}
        expected = plain(case.gold.target)
        return [
            self._score(case, chain, status=status, value=value, reason=reason, data=data, expected=expected)
        ]

    def _score(self, case: Case, chain: FilterChain, **fields: Any) -> Score:
        return Score(*case.head, scorer=self.id, metric=JUDGE_METRIC.name, part=chain.name, **fields)


def answer_to_judge(chain: FilterChain, replies: list[Any], document: Mapping[str, Any]) -> str:
    """What the filters left, of several the first. If they found nothing, the first reply as it is."""
    try:
        value = chain.run(replies, dict(document)).value
    except BaseException as error:
        # A filter that fails on one document costs its own scores, not the judge's.
        if not isinstance(error, Exception) and not user_code.is_failure(error):
            raise
        value = None
    if isinstance(value, (list, tuple)):
        value = value[0] if value else None
    text = "" if value is None else str(value)
    return text if text.strip() and text != _NO_MATCH else str(replies[0])


def reference_texts(label: Any) -> list[str]:
    """The right answers as texts, each once, without empty ones."""
    labels = label if isinstance(label, (list, tuple)) else [label]
    texts = [str(item) for item in labels if item is not None]
    return list(dict.fromkeys(text for text in texts if text.strip()))
