"""Functions that `import assay`, the command line and the pages share, such as run, compare and gate.

    spec = assay.spec("task", tasks=["t.yaml"], model="local/smollm2")
    run = assay.run(spec)           # the second time, it continues or returns the finished run

Other commands have a module of their own with their function: rescore, rerun, merge, imports, exports, check, doctor.
Slow imports stand inside the functions that need them, because most commands import this module.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.core import registry
from assay.core.errors import AssayError, UsageError, unknown
from assay.core.events import Notify
from assay.core.roles import About
from assay.core.spec import RunSpec, build
from assay.core.suite import Overview, files_of, pages_of
from assay.core.suite_pages import SuitePages
from assay.engine.cases import Cases
from assay.engine.prices import PriceTable, price_plan, prices_schema, read_prices
from assay.files.json_schema import FileSchema, JsonSchema, config_schema
from assay.runner.loops import run_blocking
from assay.runner.opening import open_run
from assay.runner.results import Run, name_of
from assay.suites import BUILT_IN, command_table, find_options, find_suite, is_path, suite_names
from assay.usercode.named_code import CodeNotNamed, only_named_code
from assay.usercode.plugins import describe_provider

if TYPE_CHECKING:
    from assay.models.weights.pulled import LocalWeights
    from assay.store.comparison import ComparisonResult
    from assay.store.gate import GateResult
    from assay.store.sql import SqlProcess

__all__ = [
    "arun",
    "compare",
    "convert",
    "file_schemas",
    "gate",
    "has_model",
    "json_schema",
    "local_models",
    "open_sql",
    "overview",
    "price_table",
    "providers",
    "pull_model",
    "run",
    "spec",
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


def spec(suite: str, **values: Any) -> RunSpec:
    """Build a spec from plain values: `spec("task", tasks=["t.yaml"], model="local/smollm2")`.

    `suite` is a name such as "memory-test", the words of a command such as "memory test", or `file.py:Name`. `values`
    are the options of the suite's command, with `_` for `-`. Raises UsageError for an unknown suite or option.
    """
    if not is_path(suite):
        commands = {about.command: name for name, about in BUILT_IN.items()}
        suite = commands.get(suite, suite.replace(" ", "-").replace("_", "-") if "-" not in suite else suite)
    return build(suite, find_options(suite), values)


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
        names += map(name_of, some)
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
        drop = Drop(name_of(against), max_drop, metrics)
    requirements = [require] if isinstance(require, str) else require
    return decide(name_of(run), requirements, drop, point=point, allow_missing=allow_missing, min_kappa=min_kappa)


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


def open_sql(
    places: Sequence[str | Path], *, warn: Callable[[str], object] = lambda _: None, timeout: float = 300.0
) -> SqlProcess:
    """Open a database over runs, for SQL. A place is a run, a folder with runs, or a result file of another program.

    Without places, it has the runs below the current folder. Close it after use: it is a context manager.
    """
    from assay.runner.imports import import_results
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
        schemas[name] = FileSchema(name, summary, partial(config_schema, find_options(command.name)))
    return schemas


def json_schema(name: str) -> JsonSchema:
    """Return the JSON Schema of a file format. Raises UsageError for an unknown name."""
    schemas = file_schemas()
    if name not in schemas:
        raise UsageError(unknown("schema", name, list(schemas)))
    return schemas[name].build()


# The command line and the pages may not import models, the engine or a suite. They see them by these functions.


def providers() -> dict[str, About]:
    """Return the description of every model provider, by name."""
    return {name: describe_provider(name) for name in registry.names("model")}


def price_table(file: str | None = None) -> PriceTable:
    """Return the price table of a file, else of $ASSAY_PRICES, else assay's own."""
    return read_prices(file)


def local_models() -> list[LocalWeights]:
    """Return the weights that `local/NAME` finds by name: the known ones and those that were pulled."""
    from assay.models.weights.pulled import list_local

    return list_local()


def has_model(name: str) -> bool:
    """Return whether the weights of an embedded model are on disk, as `assay models pull` leaves them."""
    from assay.models.weights.pulled import find_pulled

    model = find_pulled(name)
    return model is not None and not model.problem()


def pull_model(source: str, say: Callable[[str], None], *, name: str = "", sha256: str = "") -> Path:
    """Put the weights of an embedded model into the cache, unless they are there. Returns their path.

    `source` is a known name such as `smollm2`, or the URL or path of a GGUF file, which gets a `name`. With `sha256`
    other content is refused.
    """
    from assay.models.weights.pulled import pull_model

    return pull_model(source, say, name=name, sha256=sha256).path


def convert(path: Path, to: str = "v2", output: Path | None = None) -> bytes:
    """Convert a testset to the v2 format and return its bytes. Writes them to `output` if it is given."""
    if to != "v2":
        raise UsageError(f"a testset can be converted to 'v2' only, not to {to!r}")
    from assay.suites.pipeline.testset.loader import convert_testset

    return convert_testset(path, output)
