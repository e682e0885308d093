"""`assay doctor`: examines the installation and a model, and says what to do about each problem."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import Any

import click

from assay.cli.suite_command import SETTINGS, option_of
from assay.core.spec import RunSpec, SuiteOptions, build, fields
from assay.store.render.screen import counted, heading, safe

# Common options that matter for reaching a model.
_FIELDS = ("model", "base_url", "model_args", "output_dir", "timeout", "ca_file", "insecure")
_TIMEOUT = 60.0
_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "red")}


def _examine(as_json: bool, probe_limits: int, **flags: Any) -> int:
    """Examine the installation, and a model if one is named. Each line is ok (✓), a warning (!) or a problem (✗).

    Without --model: version, extras, output folder, proxies, certificates. With --model also: key, endpoint, the
    parameters that the model takes, JSON schema, seed, likelihoods, embeddings. That takes at most eight calls. Keys
    are never shown. Exit code 1 if a check found a problem.

    \b
    Examples:
      assay doctor
      assay doctor --model local/smollm2
      assay doctor --model openai/NAME --base-url http://127.0.0.1:8000/v1
      assay doctor --model openai/NAME --probe-limits 32
    """
    import asyncio

    from assay.runner.doctor import examine

    values = {name: value for name, value in flags.items() if value not in (None, ())}
    spec = build("doctor", SuiteOptions, {"timeout": _TIMEOUT, **values})
    diagnosis = asyncio.run(examine(spec, probe_limits))
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(diagnosis), indent=2))
        return 0 if diagnosis.usable else 1
    width = max(len(finding.name) for finding in diagnosis.findings)
    group = ""
    for finding in diagnosis.findings:
        if finding.group != group:
            click.echo() if group else None
            group = finding.group
            heading(group)
        mark, colour = _MARKS[finding.level]
        if sys.stdout.isatty():
            mark = click.style(mark, fg=colour)
        first, *rest = _lines(finding.text, width + 4)
        click.echo(f"{mark} {finding.name:{width}}  {first}")
        for line in [*rest, *(_lines(f"→ {finding.advice}", width + 4) if finding.advice else [])]:
            click.echo(" " * (width + 4) + line)
    click.echo()
    problems = sum(finding.level == "problem" for finding in diagnosis.findings)
    warnings = sum(finding.level == "warning" for finding in diagnosis.findings)
    summary = [counted(problems, "problem"), counted(warnings, "warning")]
    if diagnosis.model:
        summary.append(f"{counted(diagnosis.calls, 'call')} to {diagnosis.model}")
    click.echo(" · ".join(summary))
    return 0 if diagnosis.usable else 1


def _lines(text: str, indent: int) -> list[str]:
    """Return the lines of a text on a terminal of this width. Elsewhere a text is one line."""
    if not sys.stdout.isatty():
        return [safe(text)]
    room = max(40, shutil.get_terminal_size().columns - indent)
    return textwrap.wrap(safe(text), room, break_long_words=False, break_on_hyphens=False) or [""]


command = click.Command(
    "doctor",
    params=[
        *(option_of(field) for field in fields(RunSpec) if field.name in _FIELDS and field.name != "timeout"),
        click.Option(
            ["--timeout"],
            type=click.FloatRange(min=0, min_open=True),
            help=f"Time limit per request, in seconds.  [default: {_TIMEOUT:g}]",
        ),
        click.Option(
            ["--probe-limits"],
            type=click.IntRange(min=0),
            default=0,
            metavar="N",
            help="Also send up to N requests at once, growing, and tell where they fail or slow down: up to 2 N calls.",
        ),
        click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON document instead of lines."),
    ],
    callback=_examine,
    help=_examine.__doc__,
    context_settings=SETTINGS,
)
