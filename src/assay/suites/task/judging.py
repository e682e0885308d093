"""Has the generated answers of tasks judged, beside their own metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from assay.core.errors import UsageError
from assay.core.protocols import Context, Scorer, View
from assay.core.types import Case, Score
from assay.scoring.panel import Panel, answer_data, answer_scorer_id, answer_value, judge_answer
from assay.scoring.questions import Verdict
from assay.store.judges import about_judge
from assay.suites.task.chains import Chain, run_chain
from assay.suites.task.config import GENERATE
from assay.suites.task.metrics import Metric
from assay.suites.task.scorer import NO_ANSWER
from assay.suites.task.task import Task

VERSION = 1
"""Of what is shown to the judge."""
METRIC = Metric("judge", higher_is_better=True, right_wrong=True)
_NOTHING_FOUND = "[invalid]"
"""What filters leave where their pattern finds nothing, unless a task file says otherwise."""


class TaskJudge(Scorer):
    """One score a document, under the task's first filter. Tasks that cannot be judged have none."""

    def __init__(self, panel: Panel, tasks: Sequence[Task]) -> None:
        self._panel = panel
        self._chains = {task.name: task.scoring.chains[0] for task in tasks}
        shown = {task.name: task.judged_part() for task in tasks}
        self.id = answer_scorer_id(panel, [shown, VERSION])
        self.about = about_judge(panel, [METRIC.name])["judge"]
        self.roles = panel.role

    def chain(self, task: str) -> Chain | None:
        """The filters of this task whose answer is judged; None where nothing is."""
        return self._chains.get(task)

    async def score(self, view: View, ctx: Context) -> list[Score]:
        """What the judge says; a document without a target has nothing to be judged by."""
        case, chain = view.case, self.chain(view.case.set)
        if chain is None:
            return []
        if view.end.status == "subject_error":
            return [self._score(case, chain, value=0.0, reason=NO_ANSWER)]
        references = references_of(case.gold.label)
        if not references:
            return [self._score(case, chain, status="not_applicable", reason="the document has no target")]
        answer = answer_of(chain, view.records[0].data[0], case.gold.doc)
        verdict = await judge_answer(self._panel, case.gold.question, references, answer, ctx)
        return [self._judged(case, chain, answer, verdict)]

    def _judged(self, case: Case, chain: Chain, answer: str, verdict: Verdict) -> Score:
        status, value = answer_value(verdict)
        reason = verdict.reason if verdict.valid else f"judge: {verdict.reason}"
        data = {**answer_data(verdict), "answer": answer}
        return self._score(case, chain, status=status, value=value, reason=reason, data=data)

    def _score(self, case: Case, chain: Chain, **told: Any) -> Score:
        return Score(*case.head, scorer=self.id, metric=METRIC.name, part=chain.name, **told)


def answer_of(chain: Chain, replies: list[Any], doc: Mapping[str, Any]) -> str:
    """What the filters left, of several the first; the first reply as it is where they found nothing."""
    try:
        value = run_chain(chain, replies, dict(doc)).value
    except Exception:  # noqa: BLE001 - a filter that fails on one document costs its own scores, not this one
        value = None
    if isinstance(value, (list, tuple)):
        value = value[0] if value else None
    text = "" if value is None else str(value)
    return text if text.strip() and text != _NOTHING_FOUND else str(replies[0])


def references_of(label: Any) -> list[str]:
    """The right answers as texts, each once; empty ones are none."""
    listed = label if isinstance(label, (list, tuple)) else [label]
    found = [str(one) for one in listed if one is not None]
    return list(dict.fromkeys(text for text in found if text.strip()))


def judged_tasks(tasks: Sequence[Task]) -> list[Task]:
    """Those with answers that a judge can read. Raises where there is none, or a name is taken."""
    for task in tasks:
        if METRIC.name in task.scoring.metrics:
            raise UsageError(
                f"the task {task.name} has a metric of its own named {METRIC.name!r}; "
                "rename it, or leave out --judge"
            )
    found = [task for task in tasks if not _why_not(task)]
    if not found:
        raise UsageError(f"--judge: {tasks[0].name} {_why_not(tasks[0])}; leave it out")
    return found


def notices(tasks: Sequence[Task]) -> Iterator[str]:
    """Which tasks of a judged run are not judged, and why."""
    for task in tasks:
        if why := _why_not(task):
            yield f"{task.name} is not judged: it {why}"


def _why_not(task: Task) -> str:
    if task.config.output != GENERATE:
        return f"is of the type {task.config.output}, which gives no answer to judge"
    return "" if task.values.get("doc_to_target") is not None else "has no doc_to_target to judge by"
