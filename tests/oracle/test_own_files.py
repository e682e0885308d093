"""Task files of lm-evaluation-harness itself, YAML and Python: assay sends and writes what the harness does.

The files are read where the package is installed. Their rows are invented here, so that nothing is downloaded.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from oracle import bundled
from oracle.comparing import differences
from oracle.endpoint import Endpoint
from oracle.harness import Harness, Settings, run_ours

Row = dict[str, Any]


class OwnTask(NamedTuple):
    """A task file of the package, and invented rows for each of its splits."""

    path: str
    rows: list[Row]

    @property
    def name(self) -> str:
        """The name of the local task that includes the file."""
        return "own_" + self.path.removesuffix(".yaml").replace("/", "_").replace("-", "_")

    def write(self, folder: Path) -> None:
        """Write a task that includes the file and reads the rows."""
        path = bundled.folder() / self.path
        values = bundled.read(path)
        splits = {str(values[key]) for key in bundled.SPLITS if values.get(key)}
        data = folder / f"{self.name}.jsonl"
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows]
        data.write_text("".join(lines), encoding="utf-8")
        local = {
            "include": str(path),
            "task": self.name,
            "dataset_path": "json",
            "dataset_name": None,
            "dataset_kwargs": {"data_files": dict.fromkeys(sorted(splits), str(data))},
        }
        (folder / f"{self.name}.yaml").write_text(yaml.safe_dump(local), encoding="utf-8")


class OwnGroup(NamedTuple):
    """A group file of the package over some of its tasks."""

    path: str
    tasks: list[OwnTask]

    @property
    def name(self) -> str:
        """The name of the local group that includes the file."""
        return "own_" + self.path.removesuffix(".yaml").replace("/", "_").replace("-", "_")

    def write(self, folder: Path) -> None:
        """Write a group that includes the file and has the local tasks as members."""
        for task in self.tasks:
            task.write(folder)
        names = [task.name for task in self.tasks]
        local = {"include": str(bundled.folder() / self.path), "group": self.name, "task": names}
        (folder / f"{self.name}.yaml").write_text(yaml.safe_dump(local), encoding="utf-8")


LONG = " ".join(f"In year {year} the {word} grew." for year in range(1900, 1960) for word in ("mill", "été"))
QUESTIONS = [
    {"question": f"What is {number} plus 7?", "answer": f"It is {number + 7}.\n#### {number + 7}"}
    for number in (35, 993, 12)
]
ASDIV = [
    {"body": f"{name} has {count} pears.", "question": "How many?", "answer": f"{count} (pears)"}
    for name, count in (("Ana", 42), ("Björn", 1000), ("Olu", 7))
]
LETTERS = [
    {"question": f"문제 {n}", "A": "x", "B": "Paris", "C": "42", "D": "no", "E": "été", "answer": 1 + n % 4}
    for n in range(7)
]
SENTENCES = [{"sentence_good": f"Bu cümle {n} iyi.", "sentence_bad": f"Bu {n} cümle kötü iyi."} for n in range(4)]
MATHS = [{"question": f" {n} + {n} = ?", "choices": ["x", str(2 * n), "42", "no"], "answer": 1} for n in (4, 21, 500)]
CODE = [
    {"code_tokens": ["func", name, "(", ")"], "docstring_tokens": ["Paris", "is", "a", word, "."]}
    for name, word in (("f", "town"), ("g", "42"), ("h", "x"))
]
BOOLEANS = [{"input": f"not ( {value} ) and {LONG[:600]} is", "target": value} for value in ("True", "False", "True")]
GRADES = [{"question": f"Ìbéèrè {n}", "answer": f"Step-by-Step Answer: {n}", "answer_number": n} for n in (42, 1000, 5)]
BIOLOGY = [
    {
        "question": f"Which cell {n}?",
        "options": ["x", "Paris ", "42"],
        "answer": "B",
        "cot_content": f"A: Let's think step by step. It is {n}. The answer is (B).",
        "category": "biology" if n != 3 else "law",
    }
    for n in range(8)
]
PASSAGES = [
    {
        "query_id": str(n),
        "passage": LONG,
        "question": f"How many mills in {n}?",
        "answer": {"number": number, "date": {"day": "", "month": "", "year": ""}, "spans": spans},
        "validated_answers": {
            "number": [number],
            "date": [{"day": "", "month": "", "year": ""}],
            "spans": [spans],
        },
    }
    for n, (number, spans) in enumerate([("42", []), ("", ["Paris", "New York"]), ("1000", [])])
]
PLANS = [
    {
        "context": f"Room {n}.",
        "question": "Which actions?",
        "group": "applicable_actions_gen",
        "answer": answer,
    }
    for n, answer in enumerate([["(move a b)"], ["(move a b)", "(drop b)"], ["(lift c)"]])
]
UNREACHABLE = [{**row, "group": "reachable_action_gen", "answer": []} for row in PLANS]

ACP_ACTIONS = OwnTask("acpbench/gen_2shot/app.yaml", PLANS)
ACP_REACH = OwnTask("acpbench/gen_2shot/act_reach.yaml", UNREACHABLE)
GSM8K = OwnTask("gsm8k/gsm8k-cot-llama.yaml", QUESTIONS)
DENTIST = OwnTask("kormedmcqa/dentist.yaml", LETTERS)
BBH = OwnTask("bbh/cot_fewshot/boolean_expressions.yaml", BOOLEANS)
DROP = OwnTask("drop/default.yaml", PASSAGES)
KMMLU = OwnTask("kmmlu/cot_hard/kmmlu_cot_hard_accounting.yaml", LETTERS)
TOKSUITE = OwnTask("toksuite/toksuite_math/toksuite_math_canonical.yaml", MATHS)
MMLU_PRO = OwnTask("mmlu_pro/mmlu_pro_biology.yaml", BIOLOGY)
TURBLIMP = OwnTask("turblimp/anaphor_agreement.yaml", SENTENCES)
TURBLIMP_GROUP = OwnGroup("turblimp/turblimp_group.yaml", [TURBLIMP, OwnTask("turblimp/binding.yaml", SENTENCES[1:])])
AFRIMGSM_GROUP = OwnGroup(
    "afrimgsm/direct/afrimgsm.yaml",
    [OwnTask(f"afrimgsm/direct/prompt_1/afrimgsm_{name}.yaml", GRADES) for name in ("eng", "yor")],
)
CODE_GROUP = OwnGroup(
    "code_x_glue/code-text/_codexglue.yaml",
    [OwnTask(f"code_x_glue/code-text/{name}.yaml", CODE) for name in ("go", "ruby")],
)
TOKENIZER = Settings(likelihoods=True)
"""Text completions at an endpoint with a tokenizer."""


class OwnCase(NamedTuple):
    """What is run, how, and whether only --lm-eval-quirks can be equal: the harness sends lost or empty prompts."""

    own: OwnTask | OwnGroup
    settings: Settings = TOKENIZER
    only_quirks: bool = False


CASES = {
    "five stops, a registered filter": OwnCase(ACP_ACTIONS),
    "five stops, a registered filter with other options": OwnCase(ACP_REACH),
    "five stops": OwnCase(GSM8K),
    "five stops of another family": OwnCase(OwnTask("asdiv/asdiv-cot-llama.yaml", ASDIV)),
    "five stops, a filter that is a class": OwnCase(DENTIST),
    "five stops, sent as chat": OwnCase(GSM8K, Settings(chat=True)),
    "five stops, text without a tokenizer": OwnCase(GSM8K, Settings()),
    "prompts cut at the default max_length": OwnCase(BBH),
    "prompts cut at a given max_length": OwnCase(DROP, Settings(likelihoods=True, max_length=900)),
    "a given max_length without a tokenizer": OwnCase(DROP, Settings(max_length=900)),
    "a key twice, and a reply longer than max_length": OwnCase(KMMLU, only_quirks=True),
    "a key twice, and room for long replies": OwnCase(KMMLU, Settings(likelihoods=True, max_length=9000)),
    "a key twice in metadata": OwnCase(TOKSUITE),
    "functools.partial, and a reply longer than max_length": OwnCase(MMLU_PRO, only_quirks=True),
    "a group with a key twice": OwnCase(TURBLIMP_GROUP),
    "a group with a metric that no task has": OwnCase(AFRIMGSM_GROUP),
    "a group with a function as metric": OwnCase(CODE_GROUP),
    "predictions alone": OwnCase(DROP, Settings(likelihoods=True, predict_only=True)),
}


@pytest.mark.filterwarnings("ignore")  # those of the packages that the files import
@pytest.mark.parametrize("quirks", [False, True], ids=["plain", "quirks"])
@pytest.mark.parametrize("name", CASES)
def test_own_files_of_the_harness_come_out_the_same(
    name: str, quirks: bool, tmp_path: Path, endpoint: Endpoint, harness: Harness
) -> None:
    """With its quirks the requests are the same too."""
    case = CASES[name]
    if case.only_quirks and not quirks:
        pytest.skip("the harness sends a prompt that has lost its beginning")
    folder = tmp_path / "own"
    folder.mkdir()
    case.own.write(folder)
    endpoint.reset()
    theirs = harness.evaluate(folder, [case.own.name], case.settings, endpoint.url)
    asked_by_harness = endpoint.asked()
    endpoint.reset()
    settings = Settings(
        chat=case.settings.chat,
        likelihoods=case.settings.likelihoods,
        max_length=case.settings.max_length,
        predict_only=case.settings.predict_only,
        quirks=quirks,
    )
    ours = run_ours(folder, [case.own.name], settings, endpoint.url)
    tasks = [case.own.name] if isinstance(case.own, OwnTask) else [task.name for task in case.own.tasks]
    found = differences(ours, theirs, tasks)
    assert not found, "\n".join(f"{place}\n  ours   {one!r}\n  theirs {other!r}" for place, one, other in found)
    if quirks:
        assert _bodies(endpoint.asked()) == _bodies(asked_by_harness)
    shutil.rmtree(folder)


def _bodies(asked: list[Any]) -> list[str]:
    """Requests in an order of their own. The harness writes 0 where assay writes 0.0."""
    return sorted(json.dumps(json.loads(json.dumps(body), parse_int=float), sort_keys=True) for body in asked)


def test_at_least_twelve_files_are_compared() -> None:
    paths = {case.own.path for case in CASES.values()}
    paths |= {task.path for case in CASES.values() if isinstance(case.own, OwnGroup) for task in case.own.tasks}
    print(f"{len(paths)} files of lm_eval: {', '.join(sorted(paths))}")  # noqa: T201
    assert len(paths) >= 12
