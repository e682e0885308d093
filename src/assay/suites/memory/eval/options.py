"""The options of `assay memory eval`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta, field

from assay.core.spec import JUDGE_PROMPT, ask, how, score
from assay.suites.memory.options import MemoryOptions


class MemoryEvalOptions(MemoryOptions, frozen=True, kw_only=True):
    """Evaluate memories on multi-session conversations in six dimensions, such as recall, updates and answers.

    Stage one inserts the sessions of each sample into each memory, asks the questions of its checkpoints, and writes
    pipeline_sessions.jsonl and pipeline_qa.jsonl. Stage two lets a judge label these files, and writes
    session_records.jsonl, qa_records.jsonl and aggregate_metrics.json. The judge is --judge, else
    $OPENAI_MODEL_JUDGE, $JUDGE_MODEL or $OPENAI_MODEL, else `offline` (rules, no model calls). The same command
    continues an interrupted run.
    """

    command: ClassVar[str] = "memory eval"
    default_params: ClassVar[Mapping[str, str]] = {
        "answer_kwargs": "temperature=0,max_tokens=256",
        "build_kwargs": "temperature=0",
        "judge_kwargs": "temperature=0,max_tokens=2048",
    }
    examples: ClassVar[str] = """\
assay memory eval --dataset examples/memory-eval --baseline bm25 --output-dir results/bm25 \\
    --model local/smollm2
assay memory eval --dataset DATA --baseline FUMemory,bm25 --output-dir results --model openai/NAME \\
    --judge openai/OTHER --votes 3
assay memory eval --output-dir results/FU --eval-only --judge openai/OTHER
"""
    # `--samples` chooses documents in `assay task`. The same flag must not mean something else here. The others are
    # flags of `assay memory test`.
    renamed: ClassVar[Mapping[str, str]] = {
        "--sample": "--sample-id",
        "--samples": "--open-cases",
        "--memory": "--baseline",
        "--data": "--dataset",
        "--task-id": "--sample-id",
    }

    dataset: Annotated[
        str,
        ask(
            "Sample file (.json, .jsonl), a folder that is searched recursively, or FILE.py:load for your own loader.",
            content=True,
        ),
    ] = ""
    baseline: Annotated[
        list[str], ask("Memories to evaluate, such as FUMemory,bm25, or FILE.py:make for your own.")
    ] = field(default_factory=list)
    top_k: Annotated[int, ask("Number of items to retrieve per question."), Meta(ge=1)] = 5
    max_sessions: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        ask("Insert only the first N sessions of each sample. Skips checkpoints that need later sessions."),
    ] = None
    sample_id: Annotated[list[str], ask("Run only the samples with these ids.")] = field(default_factory=list)
    smoke: Annotated[bool, ask("Run only the first sample.")] = False
    answer_prompt: Annotated[
        str,
        ask(
            "Prompt file for the answers, instead of the built-in prompt. It needs {memories} and {question}; {date} "
            "is the date of the question. With the word `citations` it asks for JSON with citations.",
            content=True,
        ),
    ] = ""
    eval_only: Annotated[bool, how("Judge the pipeline files in --output-dir. Calls only the judge.")] = False
    judge_prompt: Annotated[str, JUDGE_PROMPT] = ""
    judge_base_url: Annotated[
        str | None,
        how("Base URL of the judge's endpoint.  [default: $OPENAI_BASE_URL_JUDGE, else that of the model]"),
    ] = None
    min_kappa: Annotated[
        Annotated[float, Meta(ge=-1, le=1)] | None,
        how(
            "Stop before the run if the judge's kappa is lower than this, or not measured, for a kind of question "
            "that it is asked."
        ),
    ] = None
    no_judge: Annotated[bool, score("Skip the judge; report only token F1 and BLEU-1.")] = False
    open_cases: Annotated[int, how("Samples in progress at once, counted per memory."), Meta(ge=1)] = 16
