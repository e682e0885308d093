"""Writes the questions and task files, and reads the accuracy out of result files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ACCURACY = 0.8
_TASK = """\
task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
test_split: test
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs:
  max_gen_toks: 16
  temperature: 0
  until: ["\\n\\n"]
repeats: {repeats}
metric_list:
  - metric: exact_match
"""
_SHOTS = """\
num_fewshot: {shots}
fewshot_split: train
"""
_FILTERS = """\
filter_list:
  - name: first
    filter:
      - function: take_first
  - name: vote
    filter:
      - function: regex
        regex_pattern: "(\\\\d+)"
      - function: majority_vote
      - function: take_first
  - name: vote8
    filter:
      - function: take_first_k
        k: 8
      - function: majority_vote
      - function: take_first
"""


def right_answer(number: int) -> int:
    """What the data calls right."""
    return (number * 7919 + 13) % 1000


def given_answer(number: int) -> int:
    """What is answered: four of five are right."""
    return right_answer(number) if number % 5 else (right_answer(number) + 1) % 1000


def accuracy(docs: int) -> float:
    """What comes out for the first so many questions."""
    return sum(given_answer(number) == right_answer(number) for number in range(docs)) / docs


def questions(path: Path, numbers: Iterable[int]) -> Path:
    """One line for each number; written as a stream, whatever their count."""
    with path.open("w", encoding="utf-8") as file:
        for number in numbers:
            question = f"Q{number}: which number belongs to item {number}? Answer with the number only."
            answer = str(right_answer(number))
            file.write(f'{{"id": {number}, "question": "{question}", "answer": "{answer}"}}\n')
    return path


def task(path: Path, data: Path, *, repeats: int = 1, filters: bool = False) -> Path:
    """A task file over these questions."""
    text = _TASK.format(name=path.stem, data=json.dumps(str(data)), repeats=repeats)
    path.write_text(text + (_FILTERS if filters else ""), encoding="utf-8")
    return path


def few_shot_task(path: Path, docs: int, shots: int) -> Path:
    """A task whose every prompt shows other examples, drawn at random from a thousand."""
    test = questions(path.with_suffix(".jsonl"), range(docs))
    train = questions(path.with_suffix(".train.jsonl"), range(docs, docs + 1000))
    text = _TASK.format(name=path.stem, data=json.dumps(str(test)), repeats=1)
    text = text.replace("test_split:", f"    train: {json.dumps(str(train))}\ntest_split:", 1)
    path.write_text(text + _SHOTS.format(shots=shots), encoding="utf-8")
    return path


def accuracies(output: Path) -> list[float]:
    """Every filter's accuracy, from the one results file below an output folder."""
    (path,) = output.glob("*/results_*.json")
    (values,) = _read(path)["results"].values()
    return [value for key, value in values.items() if key.startswith("exact_match,")]


def _read(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return value
