"""Strategies for tasks that ask how likely texts are: multiple_choice, loglikelihood, rolling."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from oracle.harness import Settings
from oracle.invented import (
    DELIMITERS,
    DESCRIPTIONS,
    PREFIXES,
    QUESTIONS,
    TARGET_DELIMITERS,
    Case,
    Draw,
    case_of,
    shots,
    some,
)

FIXED = [["no", "yes"], {"a": "Größe", "b": "x y"}]
COLUMN = ["choices", "{{choices}}", "{{choices|list}}", "{{[choices[0], choices[1]]}}"]
UNEVEN = COLUMN[:3]
"""Documents have different numbers of choices, which the harness's Brier score cannot take."""
NUMBERS: list[Any] = ["label", "{{label}}", 0, 1]
METRICS = ["acc", "acc_norm", "acc_bytes", "exact_match", "acc_mutual_info", "brier_score"]
SLOW = ["f1", "mcc"]
"""Their standard errors are drawn by bootstrap, one call of scikit-learn for each draw."""
TEXTS = ["{{answer}} ", "{{question}}", "{{id}}{{answer}}", "question", " {{choices[0]}}", "{{number}}"]
ROLLED = ["{{question}} {{answer}}", "question", "{{question}}\n\n{{several | join('\\n')}}"]


def measured(draw: Draw, names: list[str]) -> dict[str, Any]:
    """Some of the metrics, in any order, sometimes with what is theirs by default."""
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    entries = [{"metric": name, **some(draw, "higher_is_better", [True, False])} for name in chosen]
    return {"metric_list": entries}


@st.composite
def choice_task(draw: Draw) -> dict[str, Any]:
    """The choices after the question; the right one by number, by text, or several."""
    options = draw(st.sampled_from(FIXED + COLUMN))
    targets = NUMBERS if options in FIXED else [*NUMBERS, "{{choices[label]}}"]
    several = draw(st.integers(0, 3)) == 0
    few = draw(shots(targets, prefixes=True)) if draw(st.booleans()) else {}
    found = {**few, "output_type": "multiple_choice", "doc_to_text": draw(st.sampled_from(QUESTIONS))}
    found |= {"doc_to_choice": options, "doc_to_target": draw(st.sampled_from(targets))}
    names = [*METRICS, *SLOW] if options in FIXED and draw(st.integers(0, 3)) == 0 else METRICS
    if several and not few.get("num_fewshot"):
        found["doc_to_target"] = draw(st.sampled_from(["labels", "{{labels}}"]))
        names = [name for name in METRICS if name not in ("brier_score", "acc_mutual_info")]
    if options in UNEVEN:
        names = [name for name in names if name != "brier_score"]
    return found | measured(draw, names)


@st.composite
def blank_task(draw: Draw) -> dict[str, Any]:
    """The choices are the questions: each is put before the same text, as in Winogrande."""
    few = draw(shots(TEXTS, prefixes=False)) if draw(st.booleans()) else {}
    for key in ("doc_to_text", "doc_to_target"):
        few.get("fewshot_config", {}).pop(key, None)
    options = "{{[id + ' ' + choices[0], id + ' ' + choices[1]]}}"
    found = {**few, "output_type": "multiple_choice", "doc_to_choice": options}
    found |= {"doc_to_text": draw(st.sampled_from(["label", "{{label}}"]))}
    return {**found, "doc_to_target": draw(st.sampled_from(TEXTS[:2])), **measured(draw, METRICS[:3])}


@st.composite
def text_task(draw: Draw) -> dict[str, Any]:
    """The target after the question."""
    few = draw(shots(TEXTS, prefixes=True)) if draw(st.booleans()) else {}
    found = {**few, "output_type": "loglikelihood", "doc_to_text": draw(st.sampled_from(QUESTIONS))}
    return {
        **found,
        "doc_to_target": draw(st.sampled_from(TEXTS[:5])),
        **measured(draw, ["acc", "perplexity"]),
    }


@st.composite
def rolling_task(draw: Draw) -> dict[str, Any]:
    """The whole of a text."""
    found = {
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": draw(st.sampled_from(ROLLED)),
    }
    return found | measured(draw, ["word_perplexity", "byte_perplexity", "bits_per_byte"])


@st.composite
def task(draw: Draw) -> dict[str, Any]:
    """Any of the four, with what all tasks have."""
    kinds = [choice_task(), choice_task(), blank_task(), text_task(), rolling_task()]
    found = draw(kinds[draw(st.integers(0, 4))])
    if found["output_type"] != "loglikelihood_rolling":
        found |= some(draw, "description", DESCRIPTIONS)
        found |= some(draw, "target_delimiter", TARGET_DELIMITERS) | some(draw, "fewshot_delimiter", DELIMITERS)
        if draw(st.integers(0, 3)) == 0:
            found["gen_prefix"] = draw(st.sampled_from(PREFIXES))
    return found | some(draw, "task_alias", ["Größe ± 1"]) | some(draw, "metadata", [{"version": 1.0}])


@st.composite
def likelihood_cases(draw: Draw) -> Case:
    """One or two tasks over the same data."""
    tasks = {
        name: {"test_split": "test", **draw(task())} for name in ("first_task", "a_second")[: draw(st.integers(1, 2))]
    }
    slow = {metric["metric"] for one in tasks.values() for metric in one["metric_list"]} & {
        *SLOW,
        "perplexity",
    }
    settings = Settings(
        likelihoods=True,
        limit=draw(st.sampled_from([None, None, None, 2.0])),
        bootstrap_iters=draw(st.sampled_from([0, 20])) if slow else 100_000,
    )
    return draw(case_of(tasks, settings))
