"""`assay import`: makes runs of results that other programs wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.core.errors import AssayError
from assay.store.render.screen import counted, tell

if TYPE_CHECKING:
    from assay.runner.results import Run


@click.command("import", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--output-dir", default="results", show_default=True, help="Folder for the runs.")
@click.option(
    "--as",
    "format_name",
    metavar="FORMAT",
    help="Format of the files: lm-eval, pipeline, hop, memory-test, memory-eval, inspect or promptfoo. "
    "Default: recognised from their content.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="The data file of a memory test or memory evaluation, or the testset of Prompt Lab's results. The result "
    "files do not repeat the inputs, so without it `assay compare` does not pair the run with one of assay's own.",
)
def command(files: tuple[Path, ...], output_dir: str, format_name: str | None, data: Path | None) -> int:
    """Make a run of each result FILE that another program wrote.

    Afterwards `assay runs`, `show`, `compare` and the other commands read the run like one of assay's own. Only
    `rescore` does not, because the other program's scorers are not known.

    FILE is a results file of lm-evaluation-harness (its samples files are found beside it), or a folder with one; a
    `.eval` or `.json` log of Inspect, or a folder with logs, each of which becomes a run; an output file of promptfoo.
    It may also be a folder with the files of a memory test (0000.json and so on) or of a memory evaluation
    (qa_records.jsonl and its neighbours), for one memory or several. Result files of HOP and of its View,
    `results.jsonl` of a pipeline, and snapshots and CSV files of Prompt Lab are read too.
    Importing the same file again finds the run that exists.

    \b
    Examples:
      assay import out/org__model/results_2026-11-15T18-25-44.744220.json
      assay import out/org__model --output-dir results
      assay import logs/2026-11-15T18-25-44_gsm8k.eval promptfoo-output.json
      assay import logs
      assay import .sage/benchmarks/benchmark_memory/locomo/251120_1430 --data locomo10.json
      assay import results/FUMemory --data samples/
      assay import Tasks/Verify/TestCases/verify_20260219_103000.jsonl
      assay compare results/assay/2026-11-15T18-25-44-task.imported-0f3c my-run
    """
    from assay.runner.imports import import_results, result_files

    code = 0
    for path in (each for file in files for each in result_files(file, format_name or "")):
        try:
            run = import_results(path, output_dir, format_name or "", data)
        except AssayError as error:
            # The files after a broken one are imported all the same.
            tell(str(error))
            code = error.exit_code
        else:
            _print(path, run)
    return code


def _print(path: Path, run: Run) -> None:
    origin = run.info.imported
    assert origin is not None
    if not run.asked:
        click.echo(f"{path} was imported before: {run.folder}")
        return
    producer = f" of {origin.producer}" if origin.producer else ""
    click.echo(f"{counted(run.info.total, 'case')} from {origin.format} results{producer}: {run.folder}")
    if origin.missing:
        tell(f"not in the file: {', '.join(origin.missing)}")
    for notice in run.report.notices if run.report else ():
        tell(notice)
