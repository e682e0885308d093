"""The model calls that a step of a pipeline would make, for `--dry-run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from assay.core.suite import PlannedCalls
from assay.suites.pipeline.steps.batch import BATCH_ITEMS
from assay.suites.pipeline.steps.hop_step import HopStep
from assay.suites.pipeline.steps.pipeline import Step
from assay.suites.pipeline.steps.prompt_step import PromptStep
from assay.suites.pipeline.testset.case import TestCase

# English text has about four characters per token.
_CHARACTERS_A_TOKEN = 4


def planned_calls(step: Step, what: str, tests: Sequence[TestCase], models: Mapping[str, str]) -> list[PlannedCalls]:
    """Return the calls of one step for each model that answers it: tests may name other models.

    `what` names the step in the overview. `models` has the model of each role.
    """
    if isinstance(step.runner, HopStep):
        # The number of calls is unknown: a function may call a model any number of times.
        return [PlannedCalls(what=what, model=models.get(step.runner.role, ""))]
    if not isinstance(step.runner, PromptStep):
        return []
    fixed = len(step.runner.template.source) + len(step.runner.system.source if step.runner.system else "")
    mapped_elsewhere = any(path.root != BATCH_ITEMS for path in step.sources.values())
    by_role: dict[str, _CallCount] = {}
    for test in tests:
        runner = step.runner.with_settings(step.inputs_in(test.step_inputs))
        assert isinstance(runner, PromptStep)
        count = by_role.setdefault(runner.role, _CallCount())
        items = 1
        if step.batch is not None:
            # With other sources the batch is the output of an earlier step, and its length is unknown.
            count.is_known &= test.batch_items is not None and not mapped_elsewhere
            items = len(test.batch_items or ())
        count.calls += items
        count.characters += items * fixed + len(msgspec.json.encode([test.inputs, test.batch_items]))
        limit = runner.params.get("max_tokens") or runner.params.get("max_completion_tokens")
        if count.output_tokens is not None:
            count.output_tokens = count.output_tokens + items * limit if isinstance(limit, int) else None
    return [
        PlannedCalls(
            what=what,
            model=models[role],
            calls=count.calls,
            input_tokens=count.characters // _CHARACTERS_A_TOKEN,
            output_tokens=count.output_tokens,
        )
        if count.is_known
        else PlannedCalls(what=what, model=models[role])
        for role, count in by_role.items()
    ]


class _CallCount(msgspec.Struct):
    """The calls of one step to one model. `output_tokens` is None if a call has no limit."""

    calls: int = 0
    characters: int = 0
    output_tokens: int | None = 0
    is_known: bool = True
