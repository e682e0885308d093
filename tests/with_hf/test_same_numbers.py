"""The same tasks by assay (`hf/PATH`) and by lm-evaluation-harness (`--model hf`) with the same tiny models.

Samples files are equal in every field, likelihoods and results to 1e-6. Where only one row is computed at a time they
are usually equal to the last bit. The figures are printed with `-s`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from with_hf.harness import Comparison, Harness, run_assay
from with_hf.task_files import GENERATION, TASKS


def compare(
    harness: Harness,
    folder: Path,
    output: Path,
    model: Path,
    *,
    names: list[str],
    batch: int,
    args: dict[str, Any] | None = None,
    without: frozenset[str] = frozenset(),
    **options: Any,
) -> Comparison:
    """Run both and return what differs."""
    args = args or {}
    theirs = harness.run(
        folder=str(folder),
        tasks=names,
        model=str(model),
        model_args=args,
        batch_size=batch,
        output=str(output / "theirs"),
        options={"bootstrap_iters": 100, **options},
    )
    ours = run_assay(
        output / "ours",
        model,
        tasks=names,
        include_path=[str(folder)],
        model_args={"batch_size": batch, "device": "cpu", **args},
        bootstrap_iters=100,
        **options,
    )
    found = Comparison(ours, theirs, names, without)
    sys.stdout.write(
        f"\n{model.name} {args} batch {batch}: {found.texts} texts and {found.numbers} numbers compared, "
        f"{found.inexact} not equal to the last bit, largest difference {found.largest:.1e}\n"
    )
    return found


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_all_output_types_come_out_the_same(
    name: str, batch: int, models: dict[str, Path], tasks: Path, harness: Harness, tmp_path: Path
) -> None:
    """Multiple choice, likelihoods, rolling perplexity and generation, with few-shot examples and cut prompts."""
    found = compare(harness, tasks, tmp_path, models[name], names=list(TASKS), batch=batch)
    assert found.differences == []
    assert found.numbers > 300


@pytest.mark.parametrize(
    "args",
    [
        {"add_bos_token": False, "max_length": 48, "dtype": "bfloat16", "softmax_dtype": "float32"},
        {"add_bos_token": True, "prefix_token_id": 7, "revision": "main", "use_fast_tokenizer": True},
        {"peft": "adapter"},
    ],
)
def test_arguments_have_the_same_effect(
    args: dict[str, Any], models: dict[str, Path], tasks: Path, harness: Harness, tmp_path: Path
) -> None:
    args = {**args, "peft": str(models["adapter"])} if "peft" in args else args
    found = compare(harness, tasks, tmp_path, models["llama"], names=list(TASKS), batch=1, args=args)
    assert found.differences == []


@pytest.mark.parametrize("multiturn", [True, False])
def test_chat_replies_are_the_same(
    *, multiturn: bool, models: dict[str, Path], tasks: Path, harness: Harness, tmp_path: Path
) -> None:
    """Messages go through the tokenizer's template. Samples files show them as messages instead of one text."""
    found = compare(
        harness,
        tasks,
        tmp_path,
        models["llama"],
        names=GENERATION,
        batch=4,
        without=frozenset({"arguments", "prompt_hash"}),
        apply_chat_template=True,
        fewshot_as_multiturn=multiturn,
        system_instruction="You are small.",
    )
    assert found.differences == []
