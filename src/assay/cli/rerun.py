"""`assay rerun`: runs a run's own command again, for all cases or only for those that failed."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import click

from assay.cli.completion import complete_runs
from assay.cli.footer import print_errors
from assay.cli.printer import print_run
from assay.cli.suite_command import suite_command
from assay.core.errors import UsageError
from assay.runner.continue_command import continue_command
from assay.runner.progress import observers
from assay.store.runs import find_run


@click.command("rerun", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", metavar="RUN", shell_complete=complete_runs)
@click.option(
    "--failed",
    is_flag=True,
    help="Ask only the cases that failed: refusals, exceptions in your code, endpoints that did not answer.",
)
@click.option("--quiet", is_flag=True, help="Print only errors.")
def command(run: str, failed: bool, quiet: bool) -> int:
    """Run the command of RUN again, in the folder in which it was typed.

    RUN is a run folder, an output folder with one run, or the beginning of a run's name. Without --failed all cases are
    asked again, in a new run beside RUN.

    With --failed the cases that have no answer are asked again in RUN itself. Answers that are wrong, and tests whose
    checks failed, are not: asking only them again would raise the score. If a prompt, function or data file of RUN was
    edited since, the command starts another run, which takes the replies to equal requests from RUN.

    \b
    Examples:
      assay rerun results --failed
      assay rerun 2026-11-17T10-20-30
    """
    from assay.runner.rerun import rerun
    from assay.runner.results import load

    folder = find_run(run).resolve()
    own = continue_command(folder)
    if isinstance(own, str):
        raise UsageError(own)
    words, place = own
    if place != Path.cwd() and not quiet:
        click.echo(f"in {place}")
    with chdir(place):
        line = suite_command(load(folder).info.suite)
        spec = line.spec_of_words(words[len(line.words.split()) :])
        say = (lambda _: None) if quiet else click.echo
        result = rerun(folder, spec, failed=failed, observers=observers(quiet=quiet), say=say)
        if quiet:
            print_errors(result)
        else:
            print_run(result)
    return result.exit_code
