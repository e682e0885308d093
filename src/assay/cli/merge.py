"""`assay merge`: makes one run of the shards of a run."""

from __future__ import annotations

import click

from assay.cli.code_option import code_option
from assay.cli.completion import complete_runs
from assay.cli.footer import print_errors
from assay.cli.printer import print_run
from assay.runner.progress import observers
from assay.store.render.screen import tell


@click.command("merge", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("shards", nargs=-1, required=True, metavar="DIR...", shell_complete=complete_runs)
@click.option("--output-dir", required=True, metavar="OUT", help="Output folder of the merged run.")
@code_option
@click.option("--quiet", is_flag=True, help="Print only errors.")
def command(shards: tuple[str, ...], output_dir: str, quiet: bool) -> int:
    """Make one run of all shards of a run, with report and result files as the whole run has them. Sends no requests.

    DIR is the output folder of a shard, its run folder, or a folder with all of them. All shards must be there and
    complete; the message names the ones that are not, and what to run. After an interruption, the same command
    continues. Cases without an answer are asked again by the command of the run, without --shard, in OUT.

    \b
    Examples:
      #SBATCH --array=1-16
      assay task t.yaml --model local/smollm2 --shard $SLURM_ARRAY_TASK_ID/16 --output-dir shards/$SLURM_ARRAY_TASK_ID
      assay merge shards/* --output-dir results
    """
    from assay.runner.merge import merge

    done = merge(shards, output_dir, observers(quiet=quiet), click.echo if not quiet else lambda _: None)
    if done.report is None and done.summary.state == "unfinished":
        tell(f"{done.folder} has all cases, but no report: {done.reason}")
    elif not quiet:
        print_run(done)
    else:
        print_errors(done)
    return done.exit_code
