"""`assay judge calibrate`: hold a judge against labels before trusting its scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from assay import api
from assay.cli.calibration_report import calibration_in, report_calibration
from assay.cli.options import SETTINGS, file_values, run_options, spec_from_flags
from assay.cli.progress import observers
from assay.cli.screen import tell
from assay.core.errors import UsageError
from assay.core.judges import Calibration
from assay.store import calibrations
from assay.store.judges import too_weak

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
@click.option(
    "--save", type=click.Path(path_type=Path, dir_okay=False), help="Write the result there too, to share it."
)
@run_options(_OPTIONS)
def calibrate(save: Path | None, **flags: Any) -> int:
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
    found = calibration_in(run)
    if found is not None:
        _keep(found, save, before=not run.asked)
        floor = getattr(spec.options, "min_kappa", None)
        if floor is not None and (why := too_weak(found.judge, found, floor)):
            tell(why)
    return run.exit_code


def _keep(found: Calibration, save: Path | None, *, before: bool) -> None:
    """The newest word on a judge counts, also that of a run that was finished before."""
    if before and (why := calibrations.remember(found)):
        tell(why)
    if save is None:
        return
    try:
        calibrations.write(save, found)
    except OSError as error:
        raise UsageError(f"{save} cannot be written: {error.strerror}") from None
