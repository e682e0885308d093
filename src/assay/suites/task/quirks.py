"""Where lm-evaluation-harness errs, and `--lm-eval-quirks` made us do the same: counted, to be named.

fewshot_leak      a document stood among its own examples
fewshot_indices   the setting was there and did not count
same_seed         all repeats were sent with one seed
until             a reply went on after one of the task's stops
max_new_tokens    the limit was sent under a name that endpoints do not know
lowercase         exact_match with ignore_case lost letters when it made them small
label             a label was outside the choices and counted as a wrong answer
"""

from __future__ import annotations

from typing import Any

from assay.core.types import Case, Record
from assay.solvers.prompt import cut
from assay.suites.task.outputs import NO_LABEL


def notice(task: Any, case: Case, records: list[Record]) -> None:
    """Count what made a difference to one case."""
    inputs = case.inputs
    if inputs.cut or not inputs.requests:
        return
    request = inputs.requests[0]
    if inputs.repeats > 1 and "seed" in request.params:
        task.quirks["same_seed"] += 1
    if "max_new_tokens" in request.params:
        task.quirks["max_new_tokens"] += 1
    stops = request.params.get("stop")
    if stops and records and any(cut(reply, stops) != reply for reply in records[0].data[0]):
        task.quirks["until"] += 1
    label = case.gold.label
    if label == NO_LABEL or (isinstance(label, list) and NO_LABEL in label):
        task.quirks["label"] += 1
