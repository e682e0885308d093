"""Counts the cases in which `--lm-eval-quirks` repeated a mistake of lm-evaluation-harness.

fewshot_leak      a document stood among its own examples
fewshot_indices   the setting was there and did not count
num_fewshot       a 0 in the task file counted, and the number that was given did not
same_seed         all repeats were sent with one seed
until             a reply went on after one of the task's stops
max_new_tokens    the limit was sent under a name that endpoints do not know
lowercase         exact_match with ignore_case lost letters when it lowered them
label             a label was outside the choices and counted as a wrong answer
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from assay.core.types import Record, Score
from assay.solvers.prompt import PromptInputs, cut
from assay.suites.task.outputs import NO_LABEL, TaskGold


def find_quirks(
    inputs: PromptInputs, gold: TaskGold, records: list[Record], scores: list[Score], metric_list: list[Any]
) -> Iterator[str]:
    """The mistakes that made a difference to one case, by the names above."""
    if not inputs.requests:
        return
    params = inputs.requests[0].params
    if inputs.repeats > 1 and "seed" in params:
        yield "same_seed"
    if "max_new_tokens" in params:
        yield "max_new_tokens"
    label = gold.label
    if label == NO_LABEL or (isinstance(label, list) and NO_LABEL in label):
        yield "label"
    stops = params.get("stop")
    if stops and records and any(cut(reply, stops) != reply for reply in records[0].data[0]):
        yield "until"
    if any(isinstance(entry, dict) and entry.get("ignore_case") for entry in metric_list):
        texts = [answer for score in scores for answer in (score.data or {}).get("filtered", ())]
        texts.append(label)
        # numpy lowers text within its own width, so a letter that becomes two loses the last one.
        if any(isinstance(text, str) and len(text.lower()) != len(text) for text in texts):
            yield "lowercase"
