"""Invented data and the parts that all kinds of tasks share: few-shot settings, delimiters, splits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import yaml
from hypothesis import strategies as st

from oracle.endpoint import WORDS
from oracle.harness import Settings

Draw = st.DrawFn
Document = dict[str, Any]


class Case(msgspec.Struct, frozen=True):
    """Some task files, their data, and how they are run."""

    tasks: dict[str, dict[str, Any]]
    data: dict[str, list[Document]]
    settings: Settings
    groups: dict[str, dict[str, Any]] = {}

    @property
    def names(self) -> list[str]:
        """What is named to both: the groups, else the tasks."""
        return list(self.groups or self.tasks)

    def write(self, folder: Path) -> None:
        """Task files and data files into a folder."""
        folder.mkdir(parents=True)
        files = {split: str(folder / f"{split}.jsonl") for split in self.data}
        for split, docs in self.data.items():
            lines = [json.dumps(doc, ensure_ascii=False) + "\n" for doc in docs]
            Path(files[split]).write_text("".join(lines), encoding="utf-8")
        for name, task in self.tasks.items():
            whole = {"task": name, "dataset_path": "json", "dataset_kwargs": {"data_files": files}, **task}
            _write(folder / f"{name}.yaml", whole)
        for name, group in self.groups.items():
            _write(folder / f"{name}.yaml", {"group": name, **group})


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(yaml.safe_dump(value, allow_unicode=True, sort_keys=False), encoding="utf-8")


# No control characters, which data set libraries and numpy treat each in their own way, and no letter
# that grows when it is made small: numpy cuts it (a known error of the harness).
LETTERS = st.characters(exclude_categories=("Cs", "Cc", "Cn", "Co"), exclude_characters="\u0130\ufeff")
TEXT = st.text(LETTERS, max_size=12)
ANSWER = st.one_of(st.sampled_from(WORDS), st.sampled_from(["", " ", "[x]", "0", "{{x}}"]), TEXT)
CHOICE = st.one_of(st.sampled_from(WORDS), st.text(LETTERS, min_size=1, max_size=12)).filter(
    lambda text: not text.isdigit()  # a target of digits is the number of a choice
)
NUMBER = st.one_of(st.integers(-5, 45), st.integers(-(2**53), 2**53))


@st.composite
def documents(draw: Draw, name: str, least: int, most: int) -> list[Document]:
    """Rows with text, unicode, numbers, lists, nested values and nulls; no two of them alike."""
    count = draw(st.integers(least, most))
    return [draw(document(f"{name}{number}")) for number in range(count)]


def document(label: str) -> st.SearchStrategy[Document]:
    """One row; its question begins with a label of its own, so that its prompt is asked nowhere else."""
    columns = {
        "id": st.just(label),
        "question": TEXT.map(lambda text: f"{label}: {text}"),
        "answer": ANSWER,
        "number": NUMBER,
        "several": st.lists(ANSWER, min_size=1, max_size=3),
        "choices": st.lists(CHOICE, min_size=2, max_size=4, unique=True),
        "label": st.integers(0, 1),
        "labels": st.lists(st.integers(0, 1), min_size=1, max_size=2, unique=True),
        # A column without any text in one split has another type there, which the harness refuses.
        "hint": st.just("hint") if label.endswith("0") else st.one_of(st.just("hint"), st.none()),
        # Of whole and other numbers in one column, data set libraries make floats of all; in all splits,
        # where the first split has such a column.
        "ratio": st.just(0.5) if label.endswith("0") else st.one_of(st.integers(-3, 3), st.floats(-1, 1, width=16)),
        "parts": st.lists(st.tuples(TEXT, st.one_of(st.none(), NUMBER)).map(_part), min_size=1, max_size=2),
        "more": st.tuples(st.booleans(), st.floats(0, 1, width=16)).map(_more),
    }
    # Not fixed_dictionaries, which mixes the order: the harness takes the columns' order from the first
    # split, whichever split it reads.
    return st.tuples(*columns.values()).map(lambda values: dict(zip(columns, values, strict=True)))


def _part(values: tuple[str, int | None]) -> Document:
    return {"name": values[0], "size": values[1]}


def _more(values: tuple[bool, float]) -> Document:
    return {"flag": values[0], "share": values[1]}


QUESTIONS = [
    "question",
    "{{question}}",
    "{{question}}\nA:",
    "Q: {{question}} ",
    "{{question}}{% if hint %} ({{hint}}){% endif %}\nAnswer:",
    "{% for one in several %}{{loop.index}}. {{one}}\n{% endfor %}{{question.strip()}}\n",
    "{{id}} {{number + 1}} {{more.flag}} {{more['share']}} {{question | upper}}?",
    "{{id}}: {{several | join(', ')}} — {{several|length}} {{question|replace('e', '3')}}",
    "{{question}} {{ratio}} {% for part in parts %}{{part.name}}={{part['size']}};{% endfor %}",
    "{{ question | regex_replace('[aeiou]', '*') }}{{ ' yes' if number > 3 else ' no' }}",
    "{%- set word = answer[:2] -%} {{question}} begins with {{word}}",
]
DESCRIPTIONS = [
    "",
    "hint",
    "Answer the question.",
    "Be brief.\n\n",
    "About {{id}}: ",
    "Tell more ",
    "{{hint}}\n",
]
DELIMITERS = st.sampled_from(["\n\n", "\n", " ", "", "###", " \n--\n"])
TARGET_DELIMITERS = st.sampled_from([" ", "", "\n", " => ", ": "])
PREFIXES = ["The answer is", "Say: ", " So", "{{answer[:1]}}", "hint", "{{hint or ''}}"]


def some(draw: Draw, key: str, values: Any) -> dict[str, Any]:
    """The key with one of the values, or nothing: half of all settings are left out."""
    if not draw(st.booleans()):
        return {}
    return {key: draw(values if isinstance(values, st.SearchStrategy) else st.sampled_from(values))}


@st.composite
def shots(draw: Draw, targets: list[Any], *, prefixes: bool) -> dict[str, Any]:
    """Few-shot settings: how many, from where, chosen how, written how."""
    found: dict[str, Any] = {"num_fewshot": draw(st.integers(0, 4))}
    config: dict[str, Any] = some(draw, "sampler", ["first_n", "default"])
    match draw(st.sampled_from(["split", "same", "config", "samples", "train"])):
        case "split":
            found["fewshot_split"] = "train"
        case "same":
            found["fewshot_split"] = "test"
        case "config":
            config["split"] = "validation"
        case "samples":
            config["samples"] = draw(documents("s", 5, 6))
        case "train":
            found["training_split"] = "train"
    config |= some(draw, "doc_to_text", QUESTIONS)
    config |= some(draw, "doc_to_target", targets)
    config |= some(draw, "fewshot_delimiter", DELIMITERS)
    config |= some(draw, "target_delimiter", TARGET_DELIMITERS)
    if prefixes:
        config |= some(draw, "gen_prefix", PREFIXES)
    return found | ({"fewshot_config": config} if config else {})


@st.composite
def case_of(
    draw: Draw,
    tasks: dict[str, dict[str, Any]],
    settings: Settings,
    groups: dict[str, dict[str, Any]] | None = None,
) -> Case:
    """The tasks with data: where the test split gives the examples too, it has one more than are shown."""
    most = max(settings.num_fewshot or 0, *(task.get("num_fewshot", 0) for task in tasks.values()))
    data = {
        "train": draw(documents("t", 5, 6)),
        "validation": draw(documents("v", 5, 6)),
        "test": draw(documents("d", most + 1, most + 3)),
    }
    return Case(tasks, data, settings, groups or {})
