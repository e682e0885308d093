"""Scores the answers of tasks with a judge, in addition to their metrics: `assay task --judge NAME`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from assay.core.errors import UsageError
from assay.core.judges import JudgeInfo
from assay.core.protocols import Context, Scorer, ScorerInput
from assay.core.spec import RunSpec
from assay.core.types import Case, Score
from assay.language.patterns import call_without_blocking
from assay.scoring.judge import (
    Judge,
    answer_data,
    answer_scorer_id,
    answer_value,
    judge_answer,
    judge_from_spec,
)
from assay.store.judges import judge_info, with_calibration
from assay.suites.task.config import GENERATE
from assay.suites.task.filters import FilterChain
from assay.suites.task.options import TaskOptions
from assay.suites.task.scorer import JUDGE_METRIC, NO_ANSWER, plain
from assay.suites.task.task import Task
from assay.usercode.errors import is_failure

# Part of the scorer's identity. Increase it when the judge gets other input, so that stored verdicts of
# earlier versions are not reused.
_JUDGE_VERSION = 1
# The result of the regex filters if the pattern matches nothing, unless the task file sets `fallback`.
_NO_MATCH = "[invalid]"


def make_judge(spec: RunSpec, options: TaskOptions, tasks: Sequence[Task]) -> TaskJudge | None:
    """Return the judge that the options name, or None. Raises UsageError if it can judge no task."""
    judge = judge_from_spec(spec, options.judge_prompt)
    if judge is None:
        return None
    if options.predict_only:
        raise UsageError("--predict-only computes no scores, --judge does; remove one of them")
    judged = _judged_tasks(tasks)
    chains = {task.name: task.scoring.chains[0] for task in judged}
    identities = {task.name: task.judge_identity() for task in judged}
    return TaskJudge(judge, chains, identities, with_calibration(judge_info(judge, [JUDGE_METRIC.name])))


class TaskJudge(Scorer):
    """Scores generated answers with a judge, in addition to the task's metrics.

    There is one score per document, under the name of the task's first filter. Tasks without generated
    answers or targets have no judge's score.
    """

    def __init__(
        self, judge: Judge, chains: dict[str, FilterChain], identities: dict[str, Any], info: JudgeInfo
    ) -> None:
        """`chains` has the first filter chain of every judged task, `identities` the settings of its input."""
        self._judge = judge
        self._chains = chains
        self.roles = judge.roles
        self.id = answer_scorer_id(judge, [identities, _JUDGE_VERSION])
        self.info = info

    def chain(self, task: str) -> FilterChain | None:
        """Return the filter chain whose answer is judged; None if the task is not judged."""
        return self._chains.get(task)

    def notices(self, tasks: Sequence[Task]) -> Iterator[str]:
        """Yield a sentence for each option without effect, and for each task that is not judged, with the reason."""
        yield from self._judge.notices
        for task in tasks:
            if reason := _why_not_judged(task):
                yield f"{task.name} is not judged: it {reason}"

    async def score(self, given: ScorerInput, ctx: Context) -> list[Score]:
        """Return the judge's score. A document without a target is not applicable."""
        case, chain = given.case, self.chain(given.case.set)
        if chain is None:
            return []
        if given.end.status == "subject_error":
            return [self._score(case, chain, value=0.0, reason=NO_ANSWER)]
        references = reference_texts(case.gold.label)
        if not references:
            return [self._score(case, chain, status="not_applicable", reason="the document has no target")]
        answer = await call_without_blocking(answer_to_judge, chain, given.records[0].data[0], case.gold.doc)
        verdict = await judge_answer(self._judge, case.gold.question, references, answer, ctx)
        status, value = answer_value(verdict)
        reason = verdict.reason if verdict.valid else f"judge: {verdict.reason}"
        data = {**answer_data(verdict), "answer": answer}
        expected = plain(case.gold.target)
        return [self._score(case, chain, status=status, value=value, reason=reason, data=data, expected=expected)]

    def _score(self, case: Case, chain: FilterChain, **fields: Any) -> Score:
        return Score(*case.head, scorer=self.id, metric=JUDGE_METRIC.name, part=chain.name, **fields)


def answer_to_judge(chain: FilterChain, replies: list[Any], document: Mapping[str, Any]) -> str:
    """Return the filtered answer; of a list the first item.

    If the filters fail or find no answer, the judge reads the first reply unchanged.
    """
    try:
        value = chain.run(replies, dict(document)).value
    except BaseException as error:
        # A failing filter invalidates the scores of its own metrics. The judge can still read the reply.
        if not isinstance(error, Exception) and not is_failure(error):
            raise
        value = None
    if isinstance(value, (list, tuple)):
        value = value[0] if value else None
    text = "" if value is None else str(value)
    return text if text.strip() and text != _NO_MATCH else str(replies[0])


def reference_texts(label: Any) -> list[str]:
    """Return the accepted answers as distinct, non-empty texts."""
    labels = label if isinstance(label, (list, tuple)) else [label]
    texts = [str(item) for item in labels if item is not None]
    return list(dict.fromkeys(text for text in texts if text.strip()))


def _judged_tasks(tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks that a judge can score.

    Raises UsageError if there is none, or if a task has a metric named `judge`.
    """
    for task in tasks:
        if JUDGE_METRIC.name in task.scoring.metrics:
            raise UsageError(
                f"the task {task.name} has a metric of its own named {JUDGE_METRIC.name!r}; "
                "rename the metric, or remove --judge"
            )
    judged = [task for task in tasks if not _why_not_judged(task)]
    if not judged:
        raise UsageError(f"--judge: {tasks[0].name} {_why_not_judged(tasks[0])}; remove --judge")
    return judged


def _why_not_judged(task: Task) -> str:
    """Return why a task cannot be judged; "" if it can."""
    if task.config.output != GENERATE:
        return f"has output_type {task.config.output}, which generates no text to judge"
    if task.values.get("doc_to_target") is None:
        return "has no doc_to_target to compare answers with"
    return ""
