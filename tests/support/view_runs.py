"""Real runs of every suite that the pages show, made in a second without a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

import assay

from support.memory_samples import Samples
from support.memory_talks import Talks

TASK_MODEL = """
def answer(prompt, params):
    text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    number = text.rpartition("Q")[2].partition(":")[0]
    seed = params["seed"] - 1234
    return {"text": f"the answer is {int(number) % 4 + (seed == 1)}", "usage": {"input": 3, "output": 2}}
"""
PIPELINE_MODEL = """
def answer(prompt, params):
    return {"text": "It weighs " + prompt[-1]["content"].split()[2] + " kg", "usage": {"input": 3, "output": 2}}
"""


def task_run(folder: Path, *, shift: int = 0, repeats: int = 3) -> assay.Run:
    """Run eight documents with few-shot examples and repeats. `shift` moves the right answers of every other one."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.py").write_text(TASK_MODEL.replace("% 4 +", f"% 4 + {shift} * (int(number) % 2) +"))
    rows = [json.dumps({"question": f"Q{number}: which number?", "number": str(number % 4)}) for number in range(8)]
    (folder / "docs.jsonl").write_text("\n".join(rows) + "\n")
    find = {"function": "regex", "regex_pattern": "the answer is ([0-9])"}
    task = {
        "task": "numbers",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": "docs.jsonl"}},
        "test_split": "test",
        "fewshot_split": "test",
        "num_fewshot": 1,
        "repeats": repeats,
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{number}}",
        "filter_list": [
            {"name": "first", "filter": [find, {"function": "take_first"}]},
            {"name": "vote", "filter": [find, {"function": "majority_vote"}, {"function": "take_first"}]},
        ],
        "metric_list": [{"metric": "exact_match"}],
    }
    path = folder / "numbers.yaml"
    path.write_text(yaml.safe_dump(task))
    model = f"python/{folder}/model.py:answer"
    return assay.run(assay.spec("task", tasks=[str(path)], model=model, output_dir=f"{folder}/out"))


def pipeline_run(folder: Path) -> assay.Run:
    """Run two variants of a pipeline of a prompt and a code step. The test `lima` goes wrong at the first step."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.py").write_text(PIPELINE_MODEL)
    pipeline: dict[str, Any] = {
        "id": "parcels",
        "inputs": [{"name": "text", "required": True}],
        "steps": [
            {"id": "weigh", "type": "prompt", "template": "{{ text }}"},
            {
                "id": "shout",
                "type": "prompt",
                "template": "Say again {{ weigh }}",
                "input_mapping": {"weigh": "weigh"},
            },
        ],
        "outputs": [{"key": "weight", "from": "weigh"}],
        "variants": {"terse": {"overrides": {"weigh": {"template": "{{ text }} Briefly."}}}},
    }
    (folder / "p.yaml").write_text(yaml.safe_dump(pipeline))
    tests = [
        {
            "id": name,
            "inputs": {"text": f"Parcel weighs {said} kg"},
            "expected_outputs": {"weight": f"It weighs {right} kg"},
        }
        for name, said, right in (("oslo", 12, 12), ("lima", 172, 25))
    ]
    (folder / "tests.jsonl").write_text("\n".join(map(json.dumps, tests)) + "\n")
    return assay.run(
        assay.spec(
            "pipeline",
            pipeline=f"{folder}/p.yaml",
            testset=[f"{folder}/tests.jsonl"],
            variant=["all"],
            model=f"python/{folder}/model.py:answer",
            output_dir=f"{folder}/out",
        )
    )


def memory_test_run(folder: Path) -> assay.Run:
    """Run a conversation with two memories, judged offline. A question is asked again in every later test."""
    folder.mkdir(parents=True, exist_ok=True)
    return Talks(folder).run(memory=["bm25", "STMemory"], judge="offline", top_k=1)


def memory_eval_run(folder: Path) -> assay.Run:
    """Run a sample of three sessions with two memories."""
    folder.mkdir(parents=True, exist_ok=True)
    return Samples(folder).run(baseline=["bm25", "STMemory"])
