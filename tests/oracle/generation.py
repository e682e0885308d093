"""Strategies for generate_until tasks: filters, targets, metrics, generation parameters."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from oracle.endpoint import WORDS
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

TEXT_TARGETS = [
    "answer",
    "{{answer}}",
    "{{answer}} ",
    "{{several[0]}}",
    "{{id}} {{answer}}",
    "{{number}}",
    "no",
]
LIST_TARGETS = ["several", "{{several}}", "{{[answer, several[0]]}}", "['Paris', '42']"]
ODD_TARGETS = ["number", 42, ["Paris", "x"]]
PATTERNS = [
    r"(\d+)",
    r"The answer is (.*)\.",
    r"#### (\-?[0-9\.\,]+)",
    r"(?i)(paris)|(\d)",
    r"([A-Z]\w*)",
    r".",
]
SIMPLE = [{"function": name} for name in ("lowercase", "uppercase", "remove_whitespace")]
CORPUS = ["bleu", "chrf", "ter"]
IGNORED = [[","], [r"\$", "(?s).*#### "], [r"\s+"], ["[.]$", "a"]]


def regex() -> st.SearchStrategy[dict[str, Any]]:
    """The regex filter with some of its options."""
    return st.fixed_dictionaries(
        {"function": st.just("regex")},
        optional={
            "regex_pattern": st.sampled_from(PATTERNS),
            "group_select": st.sampled_from([0, -1]),
            "fallback": st.sampled_from(["", "none", "[invalid]"]),
        },
    )


def mapping() -> st.SearchStrategy[dict[str, Any]]:
    """The map filter from answers to other answers."""
    words = st.sampled_from(WORDS)
    found = {"function": st.just("map"), "mapping_dict": st.dictionaries(words, words, max_size=4)}
    return st.fixed_dictionaries(found | {"default_value": words})  # without it the harness's metric fails


@st.composite
def chain(draw: Draw, name: str, repeats: int) -> dict[str, Any]:
    """A pipeline that ends in one answer."""
    each = st.one_of(st.sampled_from(SIMPLE), regex())
    steps = draw(st.lists(each, max_size=3))
    if draw(st.booleans()):
        steps.append({"function": "take_first_k", "k": draw(st.integers(1, repeats))})
    if draw(st.booleans()):
        steps.append({"function": "majority_vote"})
    if draw(st.integers(0, 3)) == 0:
        steps.append(draw(mapping()))
    return {"name": name, "filter": [*steps, {"function": "take_first"}]}


@st.composite
def filters(draw: Draw, repeats: int) -> dict[str, Any]:
    """No filters, or up to three pipelines."""
    count = draw(st.integers(0, 3))
    names = ["first", "vote@8", "Größe"][:count]
    return {"filter_list": [draw(chain(name, repeats)) for name in names]} if count else {}


@st.composite
def metrics(draw: Draw, *, single: bool) -> dict[str, Any]:
    """Exact match with its options, metrics of all answers together (for one target), or none named."""
    if draw(st.integers(0, 3)) == 0:
        return {}
    match: dict[str, Any] = {"metric": "exact_match"}
    match |= some(draw, "aggregation", ["mean"]) | some(draw, "higher_is_better", [True, False])
    for option in ("ignore_case", "ignore_punctuation", "ignore_numbers"):
        match |= some(draw, option, [True, False])
    match |= some(draw, "regexes_to_ignore", IGNORED)
    corpus = draw(st.lists(st.sampled_from(CORPUS), max_size=2, unique=True)) if single else []
    return {"metric_list": [match, *({"metric": name, **some(draw, "aggregation", [name])} for name in corpus)]}


@st.composite
def generation(draw: Draw) -> dict[str, Any]:
    """Generation parameters, or none at all."""
    if draw(st.integers(0, 3)) == 0:
        return {}
    values: dict[str, Any] = some(draw, "until", [["\n"], ["Q:", "\n\n"], [], "\n", [".", "a", "b", "c", "d"]])
    values |= some(draw, "temperature", [0, 0.0, 0.7, 1])
    values |= some(draw, "do_sample", [True, False])
    values |= some(draw, "max_gen_toks", [8, 64])
    values |= some(draw, "top_p", [0.9, 1])
    return {"generation_kwargs": values}


@st.composite
def evaluated(draw: Draw, few: dict[str, Any]) -> dict[str, Any]:
    """Which split is asked. Where it is the same that examples come from, only `test` keeps them apart."""
    same = few.get("fewshot_split") == "test" or few.get("fewshot_config", {}).get("split")
    if same or draw(st.integers(0, 3)):
        return {"test_split": "test"}
    return {"validation_split": "validation"}


@st.composite
def task(draw: Draw) -> dict[str, Any]:
    """A whole generate_until task, without its data."""
    repeats = draw(st.integers(1, 4))
    few: dict[str, Any] = draw(shots(TEXT_TARGETS, prefixes=True)) if draw(st.booleans()) else {}
    shown = few.get("num_fewshot", 0) > 0 and "doc_to_target" not in few.get("fewshot_config", {})
    targets = TEXT_TARGETS + LIST_TARGETS + ([] if shown else ODD_TARGETS)
    found: dict[str, Any] = some(draw, "output_type", ["generate_until"])
    found |= some(draw, "task_alias", ["Größe ± 1"])
    found |= {**few, **draw(evaluated(few))}
    found |= {
        "doc_to_text": draw(st.sampled_from(QUESTIONS)),
        "doc_to_target": draw(st.sampled_from(targets)),
    }
    found |= some(draw, "description", DESCRIPTIONS)
    found |= some(draw, "target_delimiter", TARGET_DELIMITERS) | some(draw, "fewshot_delimiter", DELIMITERS)
    if draw(st.integers(0, 3)) == 0:
        found["gen_prefix"] = draw(st.sampled_from(PREFIXES))
    found |= {"repeats": repeats} if repeats > 1 else {}
    found |= draw(generation()) | draw(filters(repeats))
    found |= draw(metrics(single=found["doc_to_target"] in TEXT_TARGETS))
    return found | some(draw, "metadata", [{"version": 1.0}, {"version": "2-β", "note": "x"}, {"n": 3}])


def settings(draw: Draw, tasks: list[dict[str, Any]], *, quirks: bool = False) -> Settings:
    """Text or chat, with or without options that stand over the tasks'."""
    chat = draw(st.booleans())
    # Over a task that says 0 the harness does not heed the option; without a split of their own, examples leak.
    shown = all(task.get("num_fewshot") for task in tasks)
    return Settings(
        chat=chat,
        multiturn=draw(st.booleans()) if chat else True,
        limit=draw(st.sampled_from([None, None, None, 2.0, 0.5])),
        num_fewshot=draw(st.sampled_from([None, None, 0, 2])) if shown or quirks else None,
        gen_kwargs=draw(st.sampled_from([{}, {}, {"temperature": 0.3}, {"max_gen_toks": 9, "top_k": 5}])),
        system_instruction=draw(st.sampled_from([None, None, "Ünderstand.", "Be kind\n"])),
        quirks=quirks,
    )


@st.composite
def generation_cases(draw: Draw) -> Case:
    """One or two tasks over the same data, sometimes as a group."""
    tasks = {name: draw(task()) for name in ("first_task", "a_second")[: draw(st.integers(1, 2))]}
    groups = {"both": draw(group(list(tasks)))} if draw(st.integers(0, 3)) == 0 else {}
    return draw(case_of(tasks, settings(draw, list(tasks.values())), groups))


@st.composite
def group(draw: Draw, names: list[str]) -> dict[str, Any]:
    """A group with a mean over its tasks, or none."""
    found: dict[str, Any] = {"task": names, **some(draw, "group_alias", ["Beide"])}
    found |= some(draw, "metadata", [{"version": 3}, {"version": "x"}])
    if draw(st.booleans()):
        mean = {"metric": "exact_match", **some(draw, "weight_by_size", [True, False])}
        found["aggregate_metric_list"] = [mean | some(draw, "aggregation", ["mean"])]
    return found
