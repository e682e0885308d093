"""The document's own examples, with its placeholders filled in, and its reading snippets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import assay

QUESTION = "Janet's ducks lay 16 eggs per day..."
ANSWER = "Janet sells 16 - 3 - 4 = 9 duck eggs..."
EXAMPLE: dict[str, Any] = {
    "doc_id": 0,
    "doc": {"question": QUESTION, "answer": ANSWER},
    "target": "18",
    "arguments": {
        "gen_args_0": {
            "arg_0": "Q: There are 15 trees...\nA: There are 15 trees...\n\nQ: Janet's ducks lay 16 eggs per day...\nA:",
            "arg_1": {
                "until": ["Q:", "\n\n"],
                "do_sample": True,
                "temperature": 0.7,
                "top_p": 0.95,
                "max_new_tokens": 1024,
            },
        }
    },
    "resps": [[f"response_{n}" for n in range(1, 65)]],
    "filtered_resps": ["11"],
    "filter": "score-first",
    "metrics": ["exact_match"],
    "doc_hash": "of the whole document",
    "prompt_hash": "of the whole prompt",
    "target_hash": "4ec9599fc203d176a301536c2e091a19bc852759b255bd6818810a42c5fed14a",
    "exact_match": 0.0,
}
TASK = r"""
task: gsm8k_cot_self_consistency_qwen3_4b
dataset_path: json
dataset_kwargs: {data_files: {test: janet.jsonl}}
test_split: test
doc_to_text: "Q: {{question}}\nA:"
doc_to_target: "18"
fewshot_config:
  sampler: first_n
  samples: [{question: "There are 15 trees...", target: "There are 15 trees..."}]
  doc_to_target: "{{target}}"
num_fewshot: 1
generation_kwargs: {until: ["Q:", "\n\n"], do_sample: true, temperature: 0.7, top_p: 0.95, max_new_tokens: 1024}
repeats: 64
filter_list:
  - name: score-first
    filter: [{function: regex, regex_pattern: "The answer is (\\-?[0-9\\.\\,]*[0-9]+)"}, {function: take_first}]
  - name: maj@64
    filter: [{function: regex, regex_pattern: "The answer is (\\-?[0-9\\.\\,]*[0-9]+)"}, {function: majority_vote}, {function: take_first}]
  - name: maj@8
    filter: [{function: take_first_k, k: 8}, {function: regex, regex_pattern: "The answer is (\\-?[0-9\\.\\,]*[0-9]+)"}, {function: majority_vote}, {function: take_first}]
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""


def replies() -> list[str]:
    """The first says 11, most others 18."""
    first = " Janet lays 16 eggs per day. She eats 3 eggs for breakfast... The answer is 11."
    return [first] + [f" Reply {n}. The answer is 18." for n in range(2, 65)]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> assay.Run:
    """The document's example as a run."""
    monkeypatch.chdir(tmp_path)
    Path("janet.yaml").write_text(TASK)
    Path("janet.jsonl").write_text(json.dumps({"question": QUESTION, "answer": ANSWER}) + "\n")
    Path("replies.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in replies()))
    spec = assay.spec("task", tasks=["janet.yaml"], model="script/replies.jsonl", output_dir="results")
    return assay.run(spec)


def test_the_example_line_has_the_documented_keys_and_values(run: assay.Run) -> None:
    """Key for key and in order: the example's line, its placeholders filled in."""
    first = json.loads(run.files[1].read_text().splitlines()[0])
    assert list(first) == list(EXAMPLE)
    for key in ("doc_id", "doc", "target", "arguments", "filtered_resps", "filter", "metrics", "target_hash"):
        assert first[key] == EXAMPLE[key], key
    assert first["resps"] == [replies()]
    assert first["exact_match"] == 0.0
    assert [len(first[name]) for name in ("doc_hash", "prompt_hash")] == [64, 64]


def test_each_filter_has_the_documented_answer(run: assay.Run) -> None:
    """score-first takes the first reply, maj@64 and maj@8 vote; one row for each filter, in filter order."""
    rows = [json.loads(line) for line in run.files[1].read_text().splitlines()]
    assert [(row["filter"], row["filtered_resps"]) for row in rows] == [
        ("score-first", ["11"]),
        ("maj@64", ["18"]),
        ("maj@8", ["18"]),
    ]


def test_files_are_named_as_in_the_document(run: assay.Run) -> None:
    """`<output>/<model sanitised>/results_<task>_<T>.json` and `samples_<task>_<T>.jsonl`."""
    results, samples = run.files
    assert results.parent == samples.parent == Path("results") / "replies.jsonl"
    task = "gsm8k_cot_self_consistency_qwen3_4b"
    assert results.match(f"results_{task}_20??-??-??T??-??-??.json")
    assert samples.match(f"samples_{task}_20??-??-??T??-??-??.jsonl")
    assert results.stem[8:] == samples.stem[8:]


def test_the_documents_reading_snippet_works(run: assay.Run, capsys: pytest.CaptureFixture[str]) -> None:
    """The snippet for Python readers, as it stands there."""
    samples = []
    with open(run.files[1], "r", encoding="utf-8") as f:  # noqa: PTH123, UP015
        for line in f:
            sample = json.loads(line.strip())
            samples.append(sample)
    print(f"Doc ID: {samples[0]['doc_id']}")  # noqa: T201
    print(f"Question: {samples[0]['doc']['question']}")  # noqa: T201
    print(f"Target: {samples[0]['target']}")  # noqa: T201
    print(f"Filtered Response: {samples[0]['filtered_resps']}")  # noqa: T201
    print(f"Exact Match: {samples[0]['exact_match']}")  # noqa: T201
    assert capsys.readouterr().out == (
        f"Doc ID: 0\nQuestion: {QUESTION}\nTarget: 18\nFiltered Response: ['11']\nExact Match: 0.0\n"
    )


def test_results_hold_the_documented_parts(run: assay.Run) -> None:
    """`results`, `configs`, `versions` and `n-shot` by task; metrics as `name,filter`."""
    value = json.loads(run.files[0].read_text())
    task = "gsm8k_cot_self_consistency_qwen3_4b"
    assert value["results"][task]["alias"] == task
    assert value["results"][task]["exact_match,score-first"] == 0.0
    assert value["results"][task]["exact_match,maj@64"] == 1.0
    assert value["results"][task]["exact_match_stderr,maj@64"] == "N/A"
    assert value["configs"][task]["generation_kwargs"] == EXAMPLE["arguments"]["gen_args_0"]["arg_1"]
    assert (value["versions"][task], value["n-shot"][task]) == ("Yaml", 1)
