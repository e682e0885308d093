"""`assay memory test` and `assay memory eval`: feed memories, ask them, judge them."""

from __future__ import annotations

from typing import Any

import click

from assay import api
from assay.cli.memory_eval_report import report_memory_eval, show_plan
from assay.cli.memory_report import report_memory_test
from assay.cli.options import SETTINGS, file_values, run_options, spec_from_flags
from assay.cli.running import run_and_report

ROOT = ".sage/benchmarks/benchmark_memory"
_TEST, _EVAL = api.options_of("memory-test"), api.options_of("memory-eval")
_EXAMPLES = """\b
Examples:
  assay memory test --data examples/memory/talks.json --memory bm25 --no-answer
  assay memory test --data locomo10.json --memory bm25,hybrid --references --model openai/NAME
  assay memory test --data locomo10.json --memory my_memory.py:make --task-id conv-26 --model local/smollm2
  assay memory test --data locomo10.json --memory bm25 --model openai/NAME --judge openai/JUDGE --votes 3
"""


@click.group("memory", context_settings=SETTINGS)
def command() -> None:
    """Evaluate memories of agents."""


@command.command("test", epilog=_EXAMPLES, context_settings=SETTINGS)
@run_options(_TEST)
def test(**flags: Any) -> int:
    """Feed each conversation to each memory, message by message, and ask what it can answer by then.

    Results stand below .sage/benchmarks/benchmark_memory: one file for each conversation, with summary.json
    and curve.svg beside them. The same command continues a run that was interrupted.
    """
    told = file_values(_TEST, flags["config"])
    if flags["output_dir"] is None and "output_dir" not in told:
        flags["output_dir"] = ROOT
    spec = spec_from_flags("memory-test", _TEST, flags, told)
    return run_and_report(spec, report_memory_test)


_EVAL_EXAMPLES = """\b
Examples:
  assay memory eval --dataset examples/memory-eval --baseline bm25 --output-dir results/bm25 \\
      --model local/smollm2
  assay memory eval --dataset DATA --baseline FUMemory,bm25 --output-dir results --model openai/NAME \\
      --judge openai/OTHER --votes 3
  assay memory eval --output-dir results/FU --eval-only --judge openai/OTHER
"""


@command.command("eval", epilog=_EVAL_EXAMPLES, context_settings=SETTINGS)
@run_options(_EVAL)
@click.option("--dry-run", is_flag=True, help="Show what would be asked; ask and write nothing.")
def evaluate(dry_run: bool, **flags: Any) -> int:
    """Feed samples to memories session by session, ask at checkpoints, and judge six dimensions.

    Stage one writes pipeline_sessions.jsonl and pipeline_qa.jsonl; stage two judges them and writes
    session_records.jsonl, qa_records.jsonl and aggregate_metrics.json. Without --judge, JUDGE_MODEL or
    OPENAI_MODEL the judge is `offline`, which asks nobody. The same command continues an interrupted run.
    """
    spec = spec_from_flags("memory-eval", _EVAL, flags, file_values(_EVAL, flags["config"]))
    if dry_run:
        show_plan(api.planned(spec))
        return 0
    return run_and_report(spec, report_memory_eval)
