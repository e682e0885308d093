"""`assay judge calibrate`: hold a judge against labels before trusting its scores."""

from __future__ import annotations

from typing import Any

import click

from assay import api
from assay.cli.calibration_report import report_calibration
from assay.cli.options import SETTINGS, file_values, run_options, spec_from_flags
from assay.cli.progress import observers
from assay.cli.screen import tell

_OPTIONS = api.options_of("calibration")
_EXAMPLES = """\b
Examples:
  assay judge calibrate --labels answers_with_votes.json
  assay judge calibrate --judge openai/NAME --labels labelled.jsonl --votes 3 --min-kappa 0.7
  assay judge calibrate --judge openai/NAME --labels rows.json --label-field human.word
"""


@click.group("judge", context_settings=SETTINGS)
def command() -> None:
    """Say how far judges can be trusted."""


@command.command("calibrate", epilog=_EXAMPLES, context_settings=SETTINGS)
@run_options(_OPTIONS)
def calibrate(**flags: Any) -> int:
    """Let a judge look at answers that people have labelled, and say how well both agree.

    The result is remembered, and shown wherever this judge's scores are shown. It is of the judge's model,
    prompt and parameters: when one of them changes, the judge is not calibrated. Without --judge it is the
    judge `offline`, unless OPENAI_MODEL_JUDGE, JUDGE_MODEL or OPENAI_MODEL name one.
    """
    told = file_values(_OPTIONS, flags["config"])
    spec = spec_from_flags("calibration", _OPTIONS, flags, told)
    run = api.run(spec, observers(quiet=spec.quiet))
    if not spec.quiet:
        report_calibration(run)
    elif run.reason:
        tell(run.reason)
    return run.exit_code
