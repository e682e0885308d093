"""`assay memory test`: feed memories and ask them."""

from __future__ import annotations

from typing import Any

import click

from assay import api
from assay.cli.memory_report import report_memory_test
from assay.cli.options import SETTINGS, file_values, run_options, spec_from_flags
from assay.cli.running import run_and_report

ROOT = ".sage/benchmarks/benchmark_memory"
_TEST = api.options_of("memory-test")
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
