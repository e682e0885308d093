"""JSON Schemas of our files: examples are valid, and what a schema marks as wrong the reader refuses too."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from assay.cli.suite_command import read_config
from assay.core.errors import AssayError, InputError, Problem
from assay.core.file_check import PRICES
from assay.core.roles import Connection
from assay.core.spec import build
from assay.engine.prices import OWN_TABLE
from assay.files.json_objects import read_objects
from assay.files.json_schema import DIALECT
from assay.files.yaml_files import FunctionRef, load_yaml
from assay.models import script
from assay.runner import api
from assay.suites import BUILT_IN, find_options
from assay.suites.calibration.labels import read_labels
from assay.suites.hop.contract import read_contract
from assay.suites.hop.contract_markdown import markdown_contract
from assay.suites.hop.rows import read_rows
from assay.suites.hop.settings import settings_problems
from assay.suites.memory.eval.sample_files import check_samples
from assay.suites.memory.eval.sample_schema import CHECKPOINTS, MAIN, POINTS
from assay.suites.memory.test.loaders import find_loader
from assay.suites.pipeline.pipeline_file import read_flow
from assay.suites.pipeline.testset.scan import check_testset

from suites.memory.eval.files import HALUMEM_USER
from support.commands import typed
from support.hop_document import FLAT_SHORT, GENERAL, META, RESULT, VERIFY, VIEW
from support.suite_files import problems_in

ROOT = Path(__file__).parents[1]
EXAMPLES, GOLDEN, PROJECTS = ROOT / "examples", ROOT / "tests" / "golden", ROOT / "src/assay/cli/projects"
SUITES = [name for name, suite in BUILT_IN.items() if suite.command]  # `evaluate` has none
CONFIGS = [f"config-{name}" for name in SUITES]

SAMPLE = {
    "sample_id": "ada",
    "sessions": [
        {
            "_v2_session_id": "S01",
            "dialogue": [
                {"role": "user", "content": "I live in Bern.", "timestamp": "2024-03-01 10:00"},
                {"role": "user", "attachments": [{"image_id": "i1", "caption": "A tram."}]},
            ],
            "memory_points": [{"memory_id": 1, "memory_content": "Ada lives in Bern.", "is_update": "True"}],
        }
    ],
    "memory_points": [
        {"session_id": "S01", "memory_points": [{"memory_id": "m2", "memory_content": "Ada has a cat."}]}
    ],
    "qa_checkpoints": [
        {
            "checkpoint_id": "end",
            "covered_sessions": ["S01"],
            "questions": [{"question": "Where?", "answer": "Bern", "evidence": [{"memory_id": 1}]}],
        }
    ],
}
ENTRY = {
    "question_id": "q1",
    "question_type": "single",
    "question": "Where?",
    "answer": 3,
    "question_date": "2024",
    "haystack_session_ids": ["s1"],
    "haystack_dates": ["2024"],
    "haystack_sessions": [[{"role": "user", "content": "Bern.", "has_answer": True}]],
    "answer_session_ids": ["s1"],
}
TASK = {
    "task": "small",
    "tag": ["a"],
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"test": "rows.jsonl"}},
    "test_split": "test",
    "doc_to_text": "{{question}}",
    "doc_to_target": "answer",
    "generation_kwargs": {"until": ["x"], "temperature": 0},
    "fewshot_config": {"sampler": "first_n"},
    "filter_list": [{"name": "f", "filter": [{"function": "lowercase"}, {"function": "take_first"}]}],
    "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    "metadata": {"version": 1},
}
LABELS = [
    {"question": "q", "reference": "a", "response": "b", "label": "Wrong", "category": 1},
    {
        "question": "q",
        "gold_answer": "a",
        "answer": "b",
        "llm_judgments": {"x": True, "y": "correct", "z": 0},
    },
    {"rubric": "It is even.", "text": "2", "label": [1, 1, 0], "evidence_texts": ["a"]},
    {"question": "q", "answer": "a", "output": "b"},
    {"kind": "evidence", "evidence": ["e"], "memories": ["m"], "label": "covered"},
    {
        "kind": "recall",
        "points": ["a", "b"],
        "updates": [True, False],
        "memories": [],
        "labels": ["covered", None],
    },
    {
        "kind": "correctness",
        "points": [],
        "memories": ["m"],
        "labels": [["correct", "error"]],
        "category": "c",
    },
    {"kind": "update", "new": "n", "old": ["o"], "memories": ["m"], "label": {"ann": "Both"}},
    {"kind": "interference", "content": "c", "memories": [], "label": "rejected", "cluster": "x"},
]
CONFIG = {
    "config-task": {"tasks": "a,b", "model": "openai/x", "concurrency": 3, "gen_kwargs": "temperature=0"},
    "config-pipeline": {"pipeline": "p.yaml", "variants": ["a"], "limit": 0.5},
    "config-hop": {"target": "f.py:f", "data": "rows.jsonl", "workers": 4},
    "config-memory-test": {"memory": ["bm25"], "trigger": "segments", "memory_args": {"k": 3}},
    "config-calibration": {"labels": "l.jsonl", "judge": "offline", "votes": "3"},
    "config-memory-eval": {"dataset": "d", "quiet": True, "seed": 7},
}


def plain(value: Any) -> Any:
    """A YAML value as an editor sees it: `!function name` is a text."""
    if isinstance(value, FunctionRef):
        return value.name
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def yaml_values(*paths: Path) -> list[Any]:
    assert paths
    return [plain(load_yaml(path).value) for path in paths]


def record_values(*paths: Path) -> list[Any]:
    assert paths
    return [record.value for path in paths for record in read_objects(path, [])]


def json_values(*paths: Path) -> list[Any]:
    assert paths
    return [json.loads(path.read_text()) for path in paths]


def docs_blocks(page: str, language: str, key: str) -> list[str]:
    """The code blocks of a documentation page that have a key."""
    text = (ROOT / "docs" / page).read_text()
    blocks = [block for block in re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL) if key in block]
    assert blocks
    return blocks


@cache
def sound_values(name: str) -> list[Any]:
    """Every shipped example of a format, every example of its specification, and values with rarer keys."""
    if name in CONFIG:
        return [CONFIG[name], {}]
    metainfo = markdown_contract(EXAMPLES / "hop/FactCheck/Hoplet/metainfo.md")
    assert metainfo is not None
    values: dict[str, list[Any]] = {
        "task": [
            *yaml_values(
                *EXAMPLES.glob("task/*.yaml"),
                *GOLDEN.glob("lm_eval/tasks/*.yaml"),
                PROJECTS / "task/task.yaml",
            ),
            TASK,
        ],
        "pipeline": [
            *yaml_values(*EXAMPLES.glob("pipeline/*.yaml"), PROJECTS / "pipeline/pipeline.yaml"),
            *(yaml.safe_load(block) for block in docs_blocks("pipelines.md", "yaml", "\nsteps:")),
        ],
        "testset": record_values(
            *EXAMPLES.rglob("testsets/**/*.jsonl"),
            *GOLDEN.glob("pipeline/spec/*.jsonl"),
            PROJECTS / "pipeline/parcels_basic_v1.jsonl",
        ),
        "replies": [
            *record_values(*EXAMPLES.rglob("replies/*.jsonl")),
            {"prompt": "The sky is", "continuation": " blue", "logprob": -0.4, "greedy": True},
            {"messages": [{"role": "user", "content": "Hi"}], "text": "Hello"},
            {"prompt": "Fail", "error": "overloaded"},
        ],
        "prices": [
            *(json.loads(json.dumps(value, default=str)) for value in yaml_values(OWN_TABLE)),
            {
                "as_of": "2026-01-31",
                "models": {"openai/a*": {"input": 0, "output": 1.5, "cached_input": None}},
            },
        ],
        "flow": [{"user_template": "Hello {name}", "system_prompt": "s", "defaults": {"a": 1}}],
        "hop-settings": [
            *yaml_values(
                EXAMPLES / "hop/FactCheck/settings.yaml",
                GOLDEN / "hop/settings.yaml",
                PROJECTS / "hop/settings.yaml",
            ),
            *(yaml.safe_load(block) for block in docs_blocks("hop.md", "yaml", "llms:")),
        ],
        "hop-contract": [
            plain(metainfo.value),
            *yaml_values(PROJECTS / "hop/contract.yaml"),
            *(yaml.safe_load(block) for block in docs_blocks("hop.md", "yaml", "outputs:")),
            {"inputs": ["claim", {"name": "hint", "type": "Text?", "required": False}]},
        ],
        "hop-rows": [
            *record_values(EXAMPLES / "hop/FactCheck/TestCases/facts.jsonl", PROJECTS / "hop/rows.jsonl"),
            *map(json.loads, [GENERAL, *VERIFY, META, FLAT_SHORT, RESULT, *VIEW]),
        ],
        "conversations": [
            *json_values(EXAMPLES / "memory/plain.json", PROJECTS / "memory/conversations.json"),
            *(json.loads(block) for block in docs_blocks("memory-test.md", "json", '"evidence"')),
        ],
        "locomo": json_values(EXAMPLES / "memory/talks.json"),
        "longmemeval": [ENTRY, [ENTRY]],
        "memory-eval": [*json_values(*EXAMPLES.glob("memory-eval/*.json")), SAMPLE, [SAMPLE]],
        "halumem": [HALUMEM_USER, [HALUMEM_USER]],
        "memory-eval-points": [{"sample_id": "ada", "memory_sessions": SAMPLE["memory_points"]}],
        "memory-eval-checkpoints": [{"uuid": "ada", "checkpoints": SAMPLE["qa_checkpoints"]}],
        "labels": [
            *LABELS,
            LABELS[:2],
            {"conv-1": LABELS[:1], "about": "x", "more": {"conv-2": LABELS[1:2]}},
        ],
    }
    return values[name]


NAMES = list(api.file_schemas())


@cache
def validator(name: str) -> Any:
    return jsonschema.Draft202012Validator(api.json_schema(name))


def errors(name: str, value: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in validator(name).iter_errors(value)]


@pytest.mark.parametrize("name", NAMES)
def test_examples_are_valid(name: str) -> None:
    for value in sound_values(name):
        assert errors(name, value) == [], json.dumps(value)[:300]


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_sound_and_explained(name: str) -> None:
    """Its dialect is named, patterns have no flags of Python, and every key of the top level has a description."""
    schema = api.json_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == DIALECT
    assert schema["description"].endswith(".")
    for pattern in re.findall(r'"pattern": "(.*?)"', json.dumps(schema)):
        assert not pattern.startswith("(?")
    for struct, text in undescribed(schema):
        assert not text, f"{name}: {struct} has no description for {text}"


def undescribed(schema: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """The top-level mappings with the keys for which an editor would show nothing."""
    references = [schema, *schema.get("anyOf", [])]
    names = [part["$ref"].rpartition("/")[2] for part in references if "$ref" in part]
    if "$defs" in schema and "Label" in schema["$defs"]:
        top = schema["$defs"]["Answer"]["then"]
    else:
        top = schema["$defs"][names[0]] if names else schema
    described = top["properties"]
    # Keys of models that hear or see are refused, so nothing explains them.
    yield (
        top.get("title", "?"),
        [
            key
            for key, value in described.items()
            if "description" not in value and key not in UNEXPLAINED and "enum" not in str(value)
        ],
    )


UNEXPLAINED = {
    *("doc_to_image", "doc_to_audio", "use_prompt", "doc_to_decontamination_query"),
    *("question_type", "question", "haystack_session_ids", "haystack_dates", "question_date"),
}

BROKEN: dict[str, list[Any]] = {
    "task": [
        {"task": "a", "doc_to_txt": "x", "doc_to_text": "x"},
        {"task": "a"},
        {"task": "a", "doc_to_text": "x", "output_type": "generate"},
        {"task": "a", "doc_to_text": "x", "filter_list": [{"name": "f"}]},
        {"task": "a", "doc_to_text": "x", "num_fewshot": "five"},
    ],
    "pipeline": [
        {"id": "a"},
        {"steps": []},
        {"steps": [{"template": "x"}]},
        {"steps": [{"id": "a", "templat": "x"}]},
        {"steps": [{"id": "a", "type": "code", "template": "x", "code": "y"}]},
        {"steps": [{"id": "a", "template": "x", "timeout": 0}]},
        {"steps": [{"id": "a", "template": "x"}], "variants": {"b": {"overrides": {"a": {"retry": 1}}}}},
        {"steps": [{"id": "a", "template": "x"}], "outputs": [{"key": "a", "rules": [{"kind": "short"}]}]},
    ],
    "testset": [
        {"inputs": {}},
        {"id": 1.5},
        {"id": " "},
        {"id": "a", "tags": [1]},
        {"id": "a", "evaluation_config": {"tolerance": -1}},
        {"id": "a", "performance_baseline": {"seconds": 1}},
        {"id": "a", "parameters": {"x": []}},
    ],
    "replies": [{"prompt": "x"}, {"prompt": "x", "continuation": "y", "logprob": "z"}],
    "prices": [
        {"models": {"a/b": {"input": 1, "output": 2}}},
        {"as_of": "2026-01-31", "models": {}},
        {"as_of": "2026-01-31", "models": {"a/b": {"input": 1}}},
        {"as_of": "2026-01-31", "models": {"a/b": {"input": -1, "output": 2}}},
        {"as_of": "2026-01-31", "models": {"a/b": {"input": 1, "output": 2, "cache": 0.1}}},
    ],
    "flow": [{"system_prompt": "x"}],
    "hop-settings": [
        {"llms": {}, "profiles": {}},
        {"llms": {"a": {"model": ""}}, "profiles": {"p": {"run": "a"}}},
        {"llms": {"a": {"model": "m", "base_url": "127.0.0.1"}}, "profiles": {"p": {"run": "a"}}},
        {"llms": {"a": {"model": "m", "temperature": 0}}, "profiles": {"p": {"run": "a"}}},
        {"llms": {"a": {"model": "m"}}, "profiles": {"p": {"verify": "a"}}},
    ],
    "hop-contract": [
        {"outputs": {"a": {"type": "int", "compare": "equals"}}},
        {"inputs": {"a": {"type": "int", "needed": True}}},
        {"outputs": {"a": {"type": "float", "tolerance": -1}}},
    ],
    "hop-rows": [{"id": 1.5, "q": "x"}, {"id": 1, "q": "x", "difficulty": "extreme"}, {"tag": 5, "q": "x"}],
    "conversations": [
        {"sessions": []},
        {"sessions": [{"messages": [{"speaker": "A"}]}], "questions": []},
        {"sessions": [], "questions": [{"question": ""}]},
        {"sessions": [], "questions": [], "title": "x"},
    ],
    "locomo": [
        {"sample_id": "a", "conversation": {"session_1": [{"speaker": "A"}]}, "qa": []},
        {"sample_id": "a", "conversation": {}, "qa": [{"question": "q", "category": "1"}]},
    ],
    "longmemeval": [{**ENTRY, "question": " "}, {**ENTRY, "haystack_sessions": [{"role": "user"}]}],
    "memory-eval": [
        {**SAMPLE, "sample_id": None},
        {**SAMPLE, "sessions": []},
        {**SAMPLE, "memory_points": [{"session_id": "S01"}]},
        {**SAMPLE, "sessions": [{"session_id": "S01", "dialogue": [{"role": "user"}]}]},
        {**SAMPLE, "qa_checkpoints": [{"checkpoint_id": "c", "questions": [{"question": "q"}]}]},
    ],
    "halumem": [
        {**HALUMEM_USER, "uuid": None},
        {**HALUMEM_USER, "sessions": []},
        {**HALUMEM_USER, "sessions": [{"questions": []}]},
        {**HALUMEM_USER, "sessions": [{"dialogue": [], "memory_points": [{"memory_id": 1}]}]},
        {**HALUMEM_USER, "sessions": [{"dialogue": [], "questions": [{"question": "q"}]}]},
    ],
    "memory-eval-points": [{"memory_sessions": []}, {"sample_id": "ada", "memory_sessions": [{}]}],
    "memory-eval-checkpoints": [{"sample_id": "ada"}, {"uuid": "ada", "checkpoints": [{"questions": []}]}],
    "labels": [
        {"question": "q", "reference": "a", "response": "b", "label": "maybe"},
        [{"question": "q", "reference": "a", "response": "b", "label": []}],
        {"question": "q", "reference": ["a"], "response": "b", "label": 1},
        {"kind": "update", "new": "a", "old": "b", "memories": [], "label": "both"},
        {"kind": "interference", "content": "a", "memories": [], "label": "covered"},
        {"kind": "recall", "memories": [], "labels": ["covered"]},
    ],
    **{name: [{"modle": "x"}, {"votes": [1]}] for name in CONFIGS},
}


@pytest.mark.parametrize("name", NAMES)
def test_a_broken_file_is_invalid_and_its_reader_refuses_it(name: str, tmp_path: Path) -> None:
    for value in BROKEN[name]:
        assert errors(name, value), value
        assert reader_problems(name, tmp_path, value), value


# Empty values are not among them: readers take most of them for a missing key.
WRONG_VALUES: list[Any] = [None, True, -1, 1.5, "x", ["x"], {"x": 1}]
MOST_MUTANTS = 60


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_never_stricter_than_the_reader(name: str, tmp_path: Path) -> None:
    """Every key of an example is removed, replaced by values of other types, and joined by an unknown key."""
    count = rejected = 0
    # Some examples need files beside them.
    whole = [value for value in sound_values(name) if not reader_problems(name, tmp_path, value)]
    for value in sorted(whole, key=lambda value: len(json.dumps(value)))[:3]:
        for mutant in islice(mutants(value), MOST_MUTANTS):
            count += 1
            if problems := errors(name, mutant):
                rejected += 1
                assert reader_problems(name, tmp_path, mutant), f"{json.dumps(mutant)}\n{problems}"
    assert rejected >= 2, f"{rejected} of {count}"


def mutants(value: Any) -> Iterator[Any]:
    for path in paths_of(value):
        for wrong in WRONG_VALUES:
            mutant = deepcopy(value)
            holder = at(mutant, path[:-1])
            holder[path[-1]] = wrong
            yield mutant
        mutant = deepcopy(value)
        del at(mutant, path[:-1])[path[-1]]
        yield mutant
        holder = at(value, path)
        if isinstance(holder, dict):
            mutant = deepcopy(value)
            at(mutant, path)["strange_key"] = 1
            yield mutant


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        # The first items of a list say enough: the others have the same types.
        if not isinstance(key, int) or key < 2:
            yield from paths_of(item, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def reader_problems(name: str, folder: Path, value: Any) -> list[str]:
    """What the code that reads such a file says is wrong with it."""
    try:
        return [str(problem) for problem in READERS[name](folder, value) if problem.level == "error"]
    except InputError as error:
        return [str(problem) for problem in error.problems]
    except AssayError as error:
        return [str(error)]


def _yaml(folder: Path, value: Any, name: str = "file.yaml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=False))
    return path


def _json(folder: Path, value: Any, name: str = "file.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(value))
    return path


def _task(folder: Path, value: Any) -> list[Problem]:
    (folder / "rows.jsonl").write_text('{"question": "q", "answer": "a"}\n')
    return problems_in(_yaml(folder, value), suite="task")


def _flow(folder: Path, value: Any) -> list[Problem]:
    _yaml(folder, value, "agents/a/prompts/f.yaml")
    read_flow(folder / "pipeline.yaml", "a", "f")
    return []


def _replies(folder: Path, value: Any) -> list[Problem]:
    path = _json(folder, value, "replies.jsonl")
    script.connect(Connection(name=str(path)))
    return []


def _prices(folder: Path, value: Any) -> list[Problem]:
    return problems_in(_yaml(folder, value), suite=PRICES)


def _contract(folder: Path, value: Any) -> list[Problem]:
    read_contract(load_yaml(_yaml(folder, value)))
    return []


def _rows(folder: Path, value: Any) -> list[Problem]:
    read_rows(_json(folder, value, "rows.jsonl"))
    return []


def _labels(folder: Path, value: Any) -> list[Problem]:
    is_row = isinstance(value, dict) and ("question" in value or "rubric" in value)
    read_labels(_json(folder, value, "labels.jsonl" if is_row else "labels.json"), {})
    return []


def _conversations(dataset: str) -> Callable[[Path, Any], list[Problem]]:
    def read(folder: Path, value: Any) -> list[Problem]:
        list(find_loader(dataset).conversations(_json(folder, value)))
        return []

    return read


def _older(part: str) -> Callable[[Path, Any], list[Problem]]:
    def read(folder: Path, value: Any) -> list[Problem]:
        _json(folder, {"sample_id": "ada", "uuid": "ada", "sessions": SAMPLE["sessions"]}, MAIN)
        _json(folder, {"sample_id": "ada", "memory_sessions": []}, POINTS)
        _json(folder, {"sample_id": "ada", "checkpoints": []}, CHECKPOINTS)
        _json(folder, value, part)
        return check_samples(folder / MAIN)

    return read


def _config(suite: str) -> Callable[[Path, Any], list[Problem]]:
    def read(folder: Path, value: Any) -> list[Problem]:
        options = find_options(suite)
        build(suite, options, read_config(options, _yaml(folder, value)))
        return []

    return read


READERS: dict[str, Callable[[Path, Any], list[Problem]]] = {
    "task": _task,
    "pipeline": lambda folder, value: problems_in(_yaml(folder, value), suite="pipeline"),
    "testset": lambda folder, value: check_testset(_json(folder, value, "file.jsonl")),
    "replies": _replies,
    "prices": _prices,
    "flow": _flow,
    "hop-settings": lambda folder, value: settings_problems(_yaml(folder, value, "settings.yaml")),
    "hop-contract": _contract,
    "hop-rows": _rows,
    "conversations": _conversations("plain"),
    "locomo": _conversations("locomo"),
    "longmemeval": _conversations("longmemeval"),
    "memory-eval": lambda folder, value: check_samples(_json(folder, value)),
    "halumem": lambda folder, value: check_samples(_json(folder, value)),
    "memory-eval-points": _older(POINTS),
    "memory-eval-checkpoints": _older(CHECKPOINTS),
    "labels": _labels,
    **{f"config-{suite}": _config(suite) for suite in SUITES},
}


def test_the_command_lists_and_prints_schemas(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("schema") == 0
    listed = capsys.readouterr().out
    for name in NAMES:
        assert f"\n{name} " in listed
    assert typed("schema", "hop-settings") == 0
    assert json.loads(capsys.readouterr().out) == api.json_schema("hop-settings")


def test_an_unknown_name_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("schema", "pipline") == 2
    assert "did you mean 'pipeline'" in capsys.readouterr().err
