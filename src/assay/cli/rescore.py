"""`assay rescore`: scores a finished run again from its saved replies."""

from __future__ import annotations

import click

from assay.cli.code_option import code_option
from assay.cli.completion import complete_files, complete_runs
from assay.cli.footer import print_errors
from assay.cli.printer import print_run
from assay.runner.progress import observers


@click.command("rescore", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", metavar="RUN", shell_complete=complete_runs)
@click.option(
    "--task",
    "tasks",
    multiple=True,
    metavar="FILE",
    shell_complete=complete_files,
    help="Task file to use instead of the run's file for the task of the same name. Can be repeated.",
)
@code_option
@click.option("--quiet", is_flag=True, help="Print only errors.")
def command(run: str, tasks: tuple[str, ...], quiet: bool) -> int:
    """Apply changed filters and metrics to the saved replies of a finished run. Sends no requests.

    RUN is a run folder, an output folder with one run, or the beginning of a run's name. Edit the task files
    of the run, or pass others with --task, then run this command. It refuses changes that would change a
    request, such as another prompt.

    \b
    Examples:
      assay rescore results
      assay rescore results --task tasks/gsm8k_strict.yaml
    """
    from assay.runner.rescore import rescore

    done = rescore(run, tasks, observers(quiet=quiet), click.echo if not quiet else lambda _: None)
    if not quiet:
        print_run(done)
    else:
        print_errors(done)
    return done.exit_code
