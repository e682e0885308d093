"""Finds the cases in which `--lm-eval-quirks` reproduced a bug of lm-evaluation-harness.

The results file counts them under these names. The first three are found in `suite` and `task`.

fewshot_leak      a document was among its own few-shot examples
fewshot_indices   the setting was ignored
num_fewshot       `num_fewshot: 0` in the task file won over --num-fewshot
same_seed         all repeats were sent with the same seed
until             the reply continues after a stop of `until`, because the harness does not cut replies
max_new_tokens    the token limit was sent as `max_new_tokens`, which endpoints ignore
lowercase         exact_match with ignore_case lost letters in lower case
label             a label outside the choices counted as a wrong answer
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from assay.core.types import Record, Score
from assay.suites.task.requests import NO_LABEL, TaskGold
from assay.suites.toolkit.prompt import PromptInputs, cut


def find_quirks(
    inputs: PromptInputs, gold: TaskGold, records: list[Record], scores: list[Score], metric_list: list[Any]
) -> Iterator[str]:
    """Yield the names of the bugs that affected one case."""
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
        # The harness uses np.char.lower, which cuts the result to the width of the input. A letter that is
        # two characters in lower case (such as "İ") pushes the last character out.
        if any(isinstance(text, str) and len(text.lower()) != len(text) for text in texts):
            yield "lowercase"
