"""`assay pipeline`: run a pipeline over testsets."""

from __future__ import annotations

from typing import Any

import click

from assay import api
from assay.cli.options import SETTINGS, file_values, run_options, spec_from_flags
from assay.cli.pipeline_report import report_pipeline
from assay.cli.running import run_and_report

_OPTIONS = api.options_of("pipeline")
_EXAMPLES = """\b
Examples:
  assay pipeline examples/pipeline/quickstart.yaml --model local/smollm2
  assay pipeline flow.yaml --testset testsets/ --include-tags critical --model openai/NAME
  assay pipeline flow.yaml --variant baseline,shorter --model openai/NAME --judge openai/JUDGE
"""


@click.command("pipeline", epilog=_EXAMPLES, context_settings=SETTINGS)
@click.argument("pipeline", required=False, metavar="PIPELINE.yaml")
@run_options(_OPTIONS)
def command(pipeline: str | None, **flags: Any) -> int:
    """Run a pipeline over its testsets, and say which step went wrong first in each failed test.

    Exit code 1 when a check fails, 3 when a test got no answer, 4 when a judge's verdict is missing. The same
    command continues a run that was interrupted; an edited expectation only grades anew, an edited prompt
    asks anew.
    """
    told = file_values(_OPTIONS, flags["config"])
    spec = spec_from_flags("pipeline", _OPTIONS, {**flags, "pipeline": pipeline}, told)
    return run_and_report(spec, report_pipeline)
