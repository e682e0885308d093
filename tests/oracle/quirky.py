"""Strategies for what the harness does otherwise than it says, and assay only with --lm-eval-quirks."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from oracle.generation import ODD_TARGETS, settings, task
from oracle.invented import Case, Draw, case_of

SPLITS = ("training_split", "validation_split", "test_split", "fewshot_split", "fewshot_config")
ORDERED = {"sampler": "first_n"}


def leaked(draw: Draw, found: dict[str, Any]) -> dict[str, Any]:
    """Without a split of their own, examples come from the evaluated one and may be the question itself."""
    kept = {key: value for key, value in found.items() if key not in SPLITS}
    split = draw(st.sampled_from([{"test_split": "test"}, VALIDATION]))
    return {**kept, **split, **_shown(draw, st.sampled_from([{}, ORDERED]))}


VALIDATION = {"validation_split": "validation", "fewshot_split": "validation"}


def _shown(draw: Draw, config: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    return {"num_fewshot": draw(st.integers(1, 3)), "fewshot_config": draw(config)}


def indexed(draw: Draw, found: dict[str, Any]) -> dict[str, Any]:
    """The harness does not heed `fewshot_indices`."""
    config = st.sampled_from([{}, ORDERED]).map(lambda value: {**value, "fewshot_indices": [3, 1, 4, 0]})
    return {**found, **_shown(draw, config), "fewshot_split": "train"}


def stopped(_draw: Draw, found: dict[str, Any]) -> dict[str, Any]:
    """Of more than four stops, chat endpoints get four, and text endpoints all."""
    return {**found, "generation_kwargs": {"until": [".", "\n", "#", "!", "e", "o"]}}


def limited(_draw: Draw, found: dict[str, Any]) -> dict[str, Any]:
    """`max_new_tokens` is sent under a name that endpoints do not know."""
    return {**found, "generation_kwargs": {"max_new_tokens": 5}}


def zero(_draw: Draw, found: dict[str, Any]) -> dict[str, Any]:
    """Over a task's own 0 the option `--num_fewshot` does not count."""
    return {**found, "num_fewshot": 0, "fewshot_split": "train"}


@st.composite
def quirky_cases(draw: Draw) -> Case:
    """One task that does one of these."""
    change = draw(st.sampled_from([leaked, indexed, stopped, limited, zero]))
    found = change(draw, draw(task()))
    if found["doc_to_target"] in ODD_TARGETS:
        found["doc_to_target"] = "answer"  # the harness shows examples with text only
    return draw(case_of({"first_task": found}, settings(draw, [found], quirks=True)))
