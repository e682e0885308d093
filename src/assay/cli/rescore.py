"""`assay rescore`: score a finished run again from the replies it has."""

from __future__ import annotations

import click

from assay.cli.completion import complete_files, complete_runs
from assay.cli.printer import print_run
from assay.progress import observers


@click.command("rescore", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", metavar="RUN", shell_complete=complete_runs)
@click.option(
    "--task",
    "tasks",
    multiple=True,
    metavar="FILE",
    shell_complete=complete_files,
    help="Task file in place of the run's own.",
)
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def command(run: str, tasks: tuple[str, ...], quiet: bool) -> int:
    """Apply changed filters and metrics to the replies of a finished run. Nothing is asked.

    RUN is a run folder, an output folder with one run, or the beginning of a run's name. Its task files are
    read again; --task names another file for the task of the same name. Refused where the change would ask
    something else.

    \b
    Examples:
      assay rescore results
      assay rescore results --task tasks/gsm8k_strict.yaml
    """
    from assay import api  # imported here because completion and --help do not need it

    done = api.rescore(run, tasks, observers(quiet=quiet), click.echo if not quiet else lambda _: None)
    if not quiet:
        print_run(done)
    return done.exit_code
