"""Task files of every output type, with few-shot examples, stops, long texts and prompts that do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

WORDS = ["blue", "Paris", "four", "a small model", "Straße", "七", "green grass", "never"]
ACCURACY = [{"metric": "acc"}, {"metric": "acc_norm"}]
TASKS: dict[str, dict[str, Any]] = {
    "letters": {
        "output_type": "multiple_choice",
        "doc_to_text": "Question: {{question}}\nA: {{choices[0]}} B: {{choices[1]}}\nAnswer:",
        "doc_to_choice": ["A", "B", "C", "D"],
        "doc_to_target": "label",
        "num_fewshot": 2,
        "metric_list": ACCURACY,
    },
    "words": {
        "output_type": "multiple_choice",
        "doc_to_text": "{{question}} ",
        "doc_to_choice": "choices",
        "doc_to_target": "label",
        "metric_list": [*ACCURACY, {"metric": "acc_mutual_info"}],
    },
    "last_word": {
        "output_type": "loglikelihood",
        "doc_to_text": "{{long}}",
        "doc_to_target": " {{choices[1]}}",
        "metric_list": [{"metric": "acc"}, {"metric": "perplexity"}],
    },
    "whole_text": {
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{long}}",
        "metric_list": [{"metric": name} for name in ("word_perplexity", "byte_perplexity", "bits_per_byte")],
    },
    "short_replies": {
        "output_type": "generate_until",
        "doc_to_text": "Question: {{question}}\nAnswer:",
        "doc_to_target": "{{choices[0]}}",
        "num_fewshot": 1,
        "generation_kwargs": {"until": ["\n\n", "e", "Question:"], "max_gen_toks": 12},
        "metric_list": [{"metric": "exact_match"}],
    },
    "long_prompts": {
        "output_type": "generate_until",
        "doc_to_text": "{{long}}",
        "doc_to_target": "{{choices[0]}}",
        "generation_kwargs": {
            "until": ["七 七"],
            "max_gen_toks": 24,
            "do_sample": False,
            "temperature": 0.7,
            "repetition_penalty": 1.2,
        },
        "metric_list": [{"metric": "exact_match"}],
    },
}
GENERATION = ["short_replies", "long_prompts"]


def write_tasks(folder: Path, documents: int = 12) -> list[str]:
    """Write all tasks and their data. Returns the names of the tasks."""
    rows = []
    for number in range(documents + 4):
        picked = [WORDS[(number * 3 + step) % len(WORDS)] for step in range(2 + number % 3)]
        # No two texts share a window: for such windows the harness returns wrong numbers in batches.
        long = f"{number}: " + "".join(
            f"Two and {number} are {part}.\n\nThree and three are six. Once upon {number * part} there was Ωmega. "
            for part in range(number % 5 + 1)
        )
        long += picked[0]
        rows.append({"question": f"What is {picked[0]}?", "choices": picked, "label": number % 2, "long": long})
    # The few-shot examples have a split of their own: the harness would show a document its own answer.
    files = {}
    for split, split_rows in (("test", rows[:documents]), ("train", rows[documents:])):
        data = folder / f"{split}.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in split_rows), encoding="utf-8")
        files[split] = str(data)
    for name, values in TASKS.items():
        task = {
            "task": name,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": files},
            "test_split": "test",
            "fewshot_split": "train",
            **values,
        }
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(task, allow_unicode=True), encoding="utf-8")
    return list(TASKS)
