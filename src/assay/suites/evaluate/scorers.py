"""Scorers of `assay.evaluate`: the user's functions, metrics and judges.

    score=[
        "exact_match",                               # a metric by name, against the target column
        assay.exact_match("answer", ignore_case=True),
        assay.metric("bleu", "translation"),
        lambda answer, target: target in answer,     # any of answer, target, row, ctx, records
        assay.scorer(distance, higher_is_better=False),
        "judge",                                     # the model of judge=, against the target column
        assay.rubric("The answer is polite."),
    ]

A function returns a bool, a number, None (this score does not apply to the case) or a dict of these. If it raises, the
score is invalid and has the traceback. A case without an answer gets 0 from a scorer that returns bools. Other scorers
leave it out.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import os
import types
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from assay.core.errors import UsageError, unknown
from assay.core.hashing import fingerprint
from assay.core.judges import JudgeInfo
from assay.core.protocols import Context, Scorer, ScorerInput
from assay.core.types import Record, Score, ScoreStatus
from assay.files.excerpt import cut_end
from assay.language.patterns import PatternStopped, call_without_blocking
from assay.scoring.judge import OFFLINE, ROLE, Judge, answer_data, answer_value, judge_answer
from assay.scoring.judges.rubric import RubricJudge
from assay.scoring.metrics import MetricPlugin, find_metric
from assay.store.judges import judge_info, rubric_judge_info, with_calibration
from assay.suites.evaluate.arguments import Arguments, scorer_arguments
from assay.suites.evaluate.rows import EvaluateRows
from assay.suites.evaluate.subjects import make_function_context
from assay.usercode import user_function
from assay.usercode.errors import UserCodeError
from assay.usercode.identity import FunctionIdentity, identify
from assay.usercode.source import definition_of

NO_ANSWER = "no answer"
PAIRS = "pairs"
"""Key in the data of a score of a corpus metric such as BLEU: the (target, answer) pairs of all repeats."""
RIGHT_WRONG = "right_wrong"
"""Key in the data of a score whose value was True or False, not a number that happens to be 1 or 0."""


# The items of `score=`


class NamedMetric(Struct, frozen=True):
    """A built-in metric by name. Without a column it compares the answer with `target` of the evaluation."""

    metric: str
    column: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    label: str = ""

    @property
    def name(self) -> str:
        """The name of the metric in the results: `run[name]`."""
        return self.label or self.metric


class AnswerJudge(Struct, frozen=True):
    """A judge that decides whether the answer means the same as the reference."""

    column: str = ""
    question: str = ""
    name: str = "judge"


class Rubric(Struct, frozen=True):
    """A judge that decides whether the answer meets a rubric, a requirement in plain words."""

    text: str
    column: str = ""
    name: str = "rubric"


class OwnScorer(Struct, frozen=True):
    """A user's function with settings that assay cannot read from its source."""

    function: Callable[..., Any]
    name: str = ""
    higher_is_better: bool | None = True
    version: str = ""
    right_wrong: bool | None = None
    """Whether 1 means right and 0 wrong. None: only if the function returns True and False."""


ScorerLike = str | Callable[..., Any] | NamedMetric | AnswerJudge | Rubric | OwnScorer
"""The types that `score=` accepts."""


def metric(metric: str, column: str = "", *, name: str = "", **options: Any) -> NamedMetric:
    """Score with a text metric that docs/tasks.md lists, such as `metric("bleu", "translation")`.

    The metric compares the answer with a column, or without one with `target`. The column becomes gold. `options`
    are passed to the metric. `name` is the name of the score, by default the metric's name. If an evaluation uses
    the same metric twice, one of them needs another name.
    """
    return NamedMetric(metric, column, options, name)


def exact_match(
    column: str = "",
    *,
    name: str = "",
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
    regexes_to_ignore: Sequence[str] = (),
) -> NamedMetric:
    """Score 1 if the answer equals the column, or without a column `target`, else 0. The column becomes gold.

    `name` is the name of the score. An evaluation with several exact matches needs it.
    """
    options: dict[str, Any] = {
        "ignore_case": ignore_case,
        "ignore_punctuation": ignore_punctuation,
        "ignore_numbers": ignore_numbers,
        "regexes_to_ignore": list(regexes_to_ignore),
    }
    chosen = {option: value for option, value in options.items() if value}
    return NamedMetric("exact_match", column, chosen, name)


def judge(column: str = "", *, question: str = "", name: str = "judge") -> AnswerJudge:
    """Let the judge model decide whether the answer means the same as the reference answer in the column.

    `judge=` of `assay.evaluate` names the model. The column becomes gold; without a column the reference is `target`.
    `question` names the column that the judge gets as the question. The default is the column `prompt`, `question`
    or `input`, else the only input column, else all input columns as JSON.
    """
    return AnswerJudge(column, question, name)


def rubric(text: str, *, column: str = "", name: str = "rubric") -> Rubric:
    """Let the judge model decide whether the answer meets the rubric `text`, a requirement in plain words.

    `judge=` of `assay.evaluate` names the model. `column` names a column with a reference answer that the judge also
    gets. It becomes gold.
    """
    return Rubric(text, column, name)


def scorer(
    function: Callable[..., Any],
    *,
    name: str = "",
    higher_is_better: bool | None = True,
    version: str = "",
    right_wrong: bool | None = None,
) -> OwnScorer:
    """Score with your function and set its name, its direction, its version or its scale.

    The function takes any of `answer, target, row, ctx, records`. Set `version` if the function depends on something
    that assay cannot compare between runs, such as a model that it loads. Another version scores the answers again.
    `right_wrong=True` declares that the function's 1 means right and its 0 wrong: the number then has the interval of
    a proportion, and a case without an answer counts as 0. A function that returns True and False needs no declaration.
    """
    return OwnScorer(function, name, higher_is_better, version, right_wrong)


def gold_columns(scorers: Sequence[ScorerLike]) -> list[str]:
    """Return the columns that scorers compare with. They become gold."""
    with_column = (NamedMetric, AnswerJudge, Rubric)
    return [each.column for each in scorers if isinstance(each, with_column) and each.column]


# The scorers built from these items


class Scored(Struct, frozen=True):
    """The score of one answer under one metric name."""

    value: float | None = None
    status: ScoreStatus = "scored"
    reason: str = ""
    data: Any = None


class MetricAbout(Struct, frozen=True):
    """How the report combines the scores of all cases into one number."""

    aggregation: str = "mean"
    higher_is_better: bool | None = True
    right_wrong: bool | None = None
    """Whether 1 means right and 0 wrong. None: only if every value was True or False."""


class EvaluateScorer(Scorer):
    """Scores each answer of a case; the value of the case is the mean over its repeats."""

    about = MetricAbout()
    needs_target = False
    """Whether a row without a target has no score."""
    info: JudgeInfo | None = None
    """The judge behind the scores, if there is one."""

    def __init__(self, name: str, identity: Any, rows: EvaluateRows, target: Callable[[int], Any]) -> None:
        self.name = name
        self._rows = rows
        self._target = target
        # Changed gold or another target column changes the id, so that every case is scored again. Equal judge calls
        # are not sent again: logged replies are looked up by `call_stage`, which does not contain the id.
        self._identity = fingerprint([identity, rows.target_columns])
        self.id = f"{name}@{fingerprint([identity, rows.all_gold(), rows.target_columns])}"

    @property
    def call_stage(self) -> str:
        """The stage under which calls are logged. It has no version, so that a changed scorer reuses logged replies."""
        return f"score:{self.name}"

    @abstractmethod
    async def measure(self, answer: Any, number: int, records: Sequence[Record], ctx: Context) -> Mapping[str, Scored]:
        """Return the scores of one answer by metric name. `number` is the number of the row."""

    def without_answer(self) -> Mapping[str, Scored]:
        """Return the scores of a case that failed. By default the case is left out of the metric."""
        return {self.name: Scored(None, "not_applicable", NO_ANSWER)}

    async def score(self, given: ScorerInput, ctx: Context) -> list[Score]:
        """Return one score per metric. With repeats, it is the mean over the answers."""
        number: int = given.case.gold
        expected = self._target(number)
        answers = [record.data for record in given.records if record.kind == "answer"]
        repeats: list[Mapping[str, Scored]]
        if self.needs_target and expected is None:
            repeats = [{self.name: Scored(None, "not_applicable", "the row has no target")}]
        elif given.end.status == "subject_error" or not answers:
            repeats = [self.without_answer()]
        else:
            repeats = [await self.measure(answer, number, given.records, ctx) for answer in answers]
        # Runs with different rows have different scorer ids. `assay compare` pairs their scores if these are equal.
        gold = fingerprint([self._identity, self._rows.gold(number)])
        scores = []
        for name in dict.fromkeys(name for repeat in repeats for name in repeat):
            scored = _mean([repeat[name] for repeat in repeats if name in repeat])
            scores.append(
                Score(
                    *given.case.head,
                    scorer=self.id,
                    metric=name,
                    status=scored.status,
                    value=scored.value,
                    reason=scored.reason,
                    data={**(scored.data or {}), "gold": gold},
                    expected=expected,
                )
            )
        return scores


def _mean(repeats: list[Scored]) -> Scored:
    """Return the score of a case with several answers: the mean of the scores that have a value."""
    if len(repeats) == 1:
        return repeats[0]
    pairs = [pair for repeat in repeats if isinstance(repeat.data, dict) for pair in repeat.data.get(PAIRS, [])]
    if pairs:
        return Scored(data={PAIRS: pairs})
    values = [repeat.value for repeat in repeats if repeat.value is not None]
    reason = next((repeat.reason for repeat in repeats if repeat.reason), "")
    data: dict[str, Any] = {"repeats": [repeat.value for repeat in repeats]}
    if all(isinstance(repeat.data, dict) and RIGHT_WRONG in repeat.data for repeat in repeats):
        data[RIGHT_WRONG] = True
    if values:
        return Scored(sum(values) / len(values), "scored", reason, data)
    status = next((repeat.status for repeat in repeats if repeat.status == "invalid"), repeats[0].status)
    return Scored(None, status, reason, data)


def find_text_metric(name: str) -> MetricPlugin:
    """Return a metric that compares texts. Raises UsageError for any other name."""
    plugin = find_metric(name)
    if "generate_until" not in plugin.output_types:
        raise UsageError(f"the metric {name!r} is computed from log-likelihoods; only `assay task` has it")
    return plugin


class MetricScorer(EvaluateScorer):
    """A metric of assay, compared with a gold column."""

    needs_target = True

    def __init__(self, spec: NamedMetric, rows: EvaluateRows, target: Callable[[int], Any]) -> None:
        plugin = find_text_metric(spec.metric)
        parameters = inspect.signature(plugin.build).parameters
        for option in spec.options:
            if option not in parameters:
                raise UsageError(unknown(f"option of {spec.metric}", option, sorted(parameters)))
        self._measure = plugin.build(**spec.options)
        self.about = MetricAbout(plugin.aggregations[0], plugin.higher_is_better, plugin.right_wrong)
        super().__init__(spec.name, [spec.metric, spec.column, spec.options], rows, target)

    async def measure(self, answer: Any, number: int, records: Sequence[Record], ctx: Context) -> Mapping[str, Scored]:
        """Compare the answer with the target. If the target is a list of right answers, the best score counts."""
        target = self._target(number)
        targets = target if isinstance(target, list) and target else [target]
        try:
            values = await call_without_blocking(self._measure_all, targets, answer)
        except UserCodeError as error:
            if isinstance(error.error, PatternStopped):
                return {self.name: Scored(None, "invalid", error.text)}
            raise
        numbers = [value for value in values if isinstance(value, (int, float))]
        if len(numbers) == len(values):
            best = max(numbers) if self.about.higher_is_better is not False else min(numbers)
            return {self.name: Scored(float(best))}
        # A corpus metric such as BLEU returns a pair of target and answer. Its aggregation computes the number
        # from the pairs of all cases.
        return {self.name: Scored(data={PAIRS: [values[0]]})}

    def _measure_all(self, targets: list[Any], answer: Any) -> list[Any]:
        return [user_function.call_here(self._measure, (each, _like(each, answer))) for each in targets]

    def without_answer(self) -> Mapping[str, Scored]:
        """Score 0 if the metric tells right from wrong. Other metrics leave the case out."""
        if self.about.right_wrong:
            return {self.name: Scored(0.0, reason=NO_ANSWER)}
        return super().without_answer()


def _like(target: Any, answer: Any) -> Any:
    """Return the answer as a string if the target is a string: a function may return 4 for the target "4"."""
    if isinstance(target, str) and not isinstance(answer, str):
        return str(answer) if isinstance(answer, (int, float)) else msgspec.json.encode(answer).decode()
    return answer


class FunctionScorer(EvaluateScorer):
    """Scores with a user's function."""

    def __init__(
        self,
        spec: OwnScorer,
        name: str,
        rows: EvaluateRows,
        target: Callable[[int], Any],
        *,
        timeout: float,
        owners: dict[str, str],
    ) -> None:
        """`owners` is shared by all scorers of a run: the name of each number, and the scorer that returns it."""
        self._owners = owners
        self._function = spec.function
        self._timeout = timeout
        self._arguments: Arguments = scorer_arguments(spec.function, has_target=bool(rows.gold_columns))
        right_wrong = spec.right_wrong
        if right_wrong is None and returns_truth(spec.function):
            right_wrong = True
        self.about = MetricAbout(higher_is_better=spec.higher_is_better, right_wrong=right_wrong)
        self.identity: FunctionIdentity = identify(spec.function)
        stable = spec.version or (self.identity.has_source and not self.identity.unknown)
        # assay cannot tell whether an unknown value changed. A random salt makes such a scorer run again in every
        # start, because computing a score twice is better than reporting a stale one.
        salt = spec.version if stable else os.urandom(8).hex()
        settings = [self.identity.parts, salt, name, spec.higher_is_better, spec.right_wrong]
        super().__init__(name, settings, rows, target)

    async def measure(self, answer: Any, number: int, records: Sequence[Record], ctx: Context) -> Mapping[str, Scored]:
        """Call the function. If it raises, the score is invalid."""
        context = make_function_context(self._function, ctx, ROLE)
        # Copies of what can be changed: the next scorer must see the answer as it was.
        if self._arguments.takes("records"):
            records = [msgspec.structs.replace(record, data=_copy(record.data)) for record in records]
        values = {
            "answer": _copy(answer),
            "target": self._target(number),
            "row": self._rows.whole(number),
            "ctx": context,
            "records": list(records),
        }
        args, kwargs = self._arguments.choose(values, {})
        try:
            result = await user_function.call(self._function, args, kwargs, timeout=self._timeout, close=context.close)
        except UserCodeError as error:
            data = {"traceback": error.traceback} if error.traceback else None
            return {self.name: Scored(None, "invalid", str(error), data)}
        if not isinstance(result, Mapping):
            return {self.name: _scored(result)}
        for key in map(str, result):
            # Two scorers of one name would give one number, of whichever comes last.
            if (owner := self._owners.setdefault(key, self.name)) != self.name:
                reason = f"the scorer returned the name {key!r}, which is a number of the scorer {owner!r}"
                return {self.name: Scored(None, "invalid", reason)}
        return {str(key): _scored(value) for key, value in result.items()}

    def without_answer(self) -> Mapping[str, Scored]:
        """Score 0 if the function tells right from wrong. Otherwise leave the case out."""
        if self.about.right_wrong:
            return {self.name: Scored(0.0, reason=NO_ANSWER)}
        return super().without_answer()


def _copy(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value)) if isinstance(value, (list, dict)) else value


def _scored(value: Any) -> Scored:
    """Convert the return value of a user's scorer. A value of another type is an invalid score."""
    if value is None:
        return Scored(None, "not_applicable", "the scorer returned None")
    if type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "item"):
        value = value.item()
    try:
        if isinstance(value, (bool, int, float)) and math.isfinite(value):
            return Scored(float(value), data={RIGHT_WRONG: True} if isinstance(value, bool) else None)
        text = cut_end(repr(value), 80)
    except Exception:  # noqa: BLE001 - an int beyond every float, or a repr of the user that raises
        text = f"a value of type {type(value).__name__} that cannot be used"
    reason = f"the scorer returned {text}; return a truth, a number, None, or a dict of them"
    return Scored(None, "invalid", reason)


class JudgeScorer(EvaluateScorer):
    """Asks the judge whether an answer means the same as its reference."""

    about = MetricAbout(right_wrong=True)
    needs_target = True

    def __init__(
        self,
        spec: AnswerJudge,
        judge: Judge,
        rows: EvaluateRows,
        target: Callable[[int], Any],
        question: Callable[[int], str],
    ) -> None:
        self._judge = judge
        self._question = question
        self.info = with_calibration(judge_info(judge, [spec.name]))
        identity = [judge.fingerprint("answer"), judge.endpoint, spec.column, spec.question]
        super().__init__(spec.name, identity, rows, target)

    @property
    def call_stage(self) -> str:
        """The stage under which calls are logged. All scorers with the same judge model share it.

        With a changed judge prompt, only the requests that changed are sent again.
        """
        return f"judge:{self._judge.reply_identity}"

    async def measure(self, answer: Any, number: int, records: Sequence[Record], ctx: Context) -> Mapping[str, Scored]:
        """Ask the judge. Raises ModelError if the judge does not answer."""
        target = self._target(number)
        references = [str(each) for each in (target if isinstance(target, list) else [target]) if each is not None]
        if not references:
            return {self.name: Scored(None, "not_applicable", "the row has no target")}
        text = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
        verdict = await judge_answer(self._judge, self._question(number), references, text, ctx)
        status, value = answer_value(verdict)
        return {self.name: Scored(value, status, verdict.reason, answer_data(verdict) or None)}

    def without_answer(self) -> Mapping[str, Scored]:
        """Score 0 without a judge call."""
        return {self.name: Scored(0.0, reason=NO_ANSWER)}


class RubricScorer(EvaluateScorer):
    """Asks the judge whether an answer meets a rubric."""

    about = MetricAbout(right_wrong=True)

    def __init__(self, spec: Rubric, judge: Judge, rows: EvaluateRows, target: Callable[[int], Any]) -> None:
        if judge.name == OFFLINE:
            raise UsageError("a rubric needs a model as its judge: judge='openai/NAME', not 'offline'")
        self._rubric = RubricJudge(judge.params)
        self._text = spec.text
        self._has_reference = bool(spec.column)
        self._judge = judge
        self.info = with_calibration(rubric_judge_info(judge.name, self._rubric.fingerprint, [spec.name]))
        identity = [self._rubric.fingerprint, judge.name, judge.endpoint, spec.text, spec.column]
        super().__init__(spec.name, identity, rows, target)

    @property
    def call_stage(self) -> str:
        """The stage under which calls are logged. All scorers with the same judge model share it."""
        return f"judge:{self._judge.reply_identity}"

    async def measure(self, answer: Any, number: int, records: Sequence[Record], ctx: Context) -> Mapping[str, Scored]:
        """Ask the judge. Raises ModelError if the judge does not answer."""
        text = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
        reference = str(self._target(number)) if self._has_reference else None
        verdict = await self._rubric.judge(ctx.model(ROLE), self._text, text, reference)
        value = None if verdict.passed is None else float(verdict.passed)
        return {self.name: Scored(value, verdict.status, verdict.reason, {"rubric": self._text})}

    def without_answer(self) -> Mapping[str, Scored]:
        """Score 0 without a judge call."""
        return {self.name: Scored(0.0, reason=NO_ANSWER)}


# Does a function return True or False?

_TRUTH_CALLS = frozenset({"all", "any", "bool", "isinstance", "callable", "hasattr"})
_TRUTH_METHODS = frozenset(
    {
        "startswith",
        "endswith",
        "isdigit",
        "isalpha",
        "isupper",
        "islower",
        "issubset",
        "issuperset",
        "isdisjoint",
    }
)


def returns_truth(function: Callable[..., Any]) -> bool:
    """Return True if a function returns bools, by its annotation or else by its return statements.

    A case without an answer then gets 0 instead of being left out. The source decides, not the values returned so
    far, so that the result does not depend on the order of cases.
    For a partial, a method, a callable object or a wrapped function, the function behind it decides.
    """
    while isinstance(function, functools.partial):
        function = function.func
    if not isinstance(function, (types.FunctionType, types.MethodType, type)):
        function = getattr(type(function), "__call__", function)  # noqa: B004 - the method is read, not tested for
    function = inspect.unwrap(getattr(function, "__func__", function))
    annotation = getattr(function, "__annotations__", {}).get("return")
    if annotation is not None:
        return annotation in (bool, "bool")
    definition = definition_of(function)
    if isinstance(definition, ast.Lambda):
        return _is_truth(definition.body)
    returns = [node.value for node in ast.walk(definition) if isinstance(node, ast.Return)] if definition else []
    return bool(returns) and all(value is not None and _is_truth(value) for value in returns)


def _is_truth(node: ast.expr) -> bool:
    if isinstance(node, ast.Compare):
        return True
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    if isinstance(node, ast.BoolOp):
        return all(map(_is_truth, node.values))
    if isinstance(node, ast.Constant):
        return isinstance(node.value, bool)
    if isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Name):
            return function.id in _TRUTH_CALLS
        return isinstance(function, ast.Attribute) and function.attr in _TRUTH_METHODS
    return False
