"""Makes a Runner from a spec: resolves the options, connects the models and builds the suite.

runner = open_run(spec, observers)
run = await runner.start_or_show()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from assay.core.errors import DamagedRun, Problem, UsageError
from assay.core.events import Notify, observed
from assay.core.protocols import Model
from assay.core.roles import SEVERAL
from assay.core.spec import RunSpec, fields
from assay.core.suite import MAIN, Suite
from assay.engine.connect import Connections, ReplayOnlyModel
from assay.journal.run_files import RunInfo, read_info
from assay.runner.runner import Runner
from assay.suites import find_suite
from assay.usercode.model_args import argument_notices, with_options_of_arguments


def open_run(
    spec: RunSpec,
    observers: Sequence[Notify] = (),
    *,
    asks: bool = True,
    command: Sequence[str] | None = None,
) -> Runner:
    """Connect the models and build the suite of a spec. Raises UsageError or InputError for bad options.

    Writes no file. With `asks=False`, as for `--dry-run`, it connects no model, not even a judge.
    `command` is the command line for run.json; the default is that of this process.
    """
    with observed(observers):
        return _open_run(spec, observers, asks=asks, command=command)


def _open_run(spec: RunSpec, observers: Sequence[Notify], *, asks: bool, command: Sequence[str] | None) -> Runner:
    suite_class = find_suite(spec.suite)
    spec = with_options_of_arguments(suite_class.resolve(spec))
    if not spec.output_dir:
        spec = replace(spec, output_dir=spec.options.default_output)
    adopted = suite_class.adopt(spec)
    if adopted is not None:
        return _open_adopted(spec, adopted, observers, asks=asks)
    if asks:
        suite, models = open_suite(spec, suite_class)
    else:
        suite, models = open_suite(spec, suite_class, connect="none", endpoint=spec.base_url or "")
        argument_notices(spec, suite.roles.values())  # with models, the runner checks them
    return Runner(suite, models, observers, asks=asks, command=command)


def _open_adopted(spec: RunSpec, folder: Path, observers: Sequence[Notify], *, asks: bool) -> Runner:
    """Open an existing run to score it again. At most its judges are connected; other models send no requests."""
    info = read_info(folder)
    if info.imported is not None:
        raise UsageError(f"{folder} was imported; only runs that assay made can be scored again")
    refuse_incomplete(folder, info)
    spec = _with_ask_options_of(info, spec)
    endpoints = {
        role: asked[1]
        for role, asked in info.parts["ask"]["models"].items()
        if isinstance(asked, list) and len(asked) > 1
    }
    suite, models = open_suite(
        spec,
        find_suite(spec.suite),
        connect="judges" if asks else "none",
        endpoint=info.spec["base_url"] or "",
        endpoints=endpoints,
    )
    return Runner(suite, models, observers, asks=False, folder=folder)


def refuse_incomplete(folder: Path, info: RunInfo) -> None:
    """Raise DamagedRun if `run.json` lacks settings that every run of assay has. Its checksum can be forged."""
    asked = info.parts.get("ask")
    if not (
        info.spec.keys() >= {"options", "output_dir", "base_url"}
        and isinstance(info.spec["options"], dict)
        and isinstance(asked, dict)
        and isinstance(asked.get("models"), dict)
    ):
        message = "lacks settings that every run of assay has, so the run cannot be scored"
        raise DamagedRun(Problem(str(folder / "run.json"), message))


class OpenedSuite(NamedTuple):
    """A suite and the models of its roles."""

    suite: Suite[Any, Any]
    models: dict[str, Model]


def open_suite(
    spec: RunSpec,
    make: Callable[[RunSpec], Suite[Any, Any]],
    *,
    connect: Literal["all", "judges", "none"] = "all",
    endpoint: str = "",
    endpoints: Mapping[str, str] = MappingProxyType({}),
    functions: Mapping[str, Model] = MappingProxyType({}),
) -> OpenedSuite:
    """Connect the models of a spec and build its suite with `make`. Only the models that `connect` names send requests.

    The other models stand for those of an existing run: `endpoint` is that of its main model, `endpoints` has those of
    further roles. `functions` has the models that have no name, by role: functions of the calling program.
    """
    connections = Connections(spec)
    models = dict(functions)
    if connect == "all":
        if spec.model:
            models[MAIN] = connections.connect(spec.model)
        endpoint = models[MAIN].endpoint if MAIN in models else spec.base_url or ""
    # Requests contain the endpoint. The provider chooses it, so the suite is built after the model is connected.
    suite = make(replace(spec, base_url=endpoint or None))
    for name, role in suite.roles.items():
        is_asked = connect == "all" or (connect == "judges" and role.mark == "score")
        if not is_asked:
            models[name] = ReplayOnlyModel(endpoints.get(name, endpoint))
        # A role with its own endpoint or key needs its own connection, even if its name is `main`.
        elif name not in models or role.base_url or role.key:
            models[name] = connections.connect(role, suite.roles.values())
    return OpenedSuite(suite, models)


def _with_ask_options_of(info: RunInfo, spec: RunSpec) -> RunSpec:
    """Return the spec with the `ask` options of an existing run. `score` and `how` options stay those of the spec."""
    common = {field.name for field in fields(RunSpec) if field.mark == "ask"} - {"suite", "options"}
    own = {field.name for field in fields(type(spec.options)) if field.mark == "ask"}
    before = info.spec["options"]
    options = msgspec.to_builtins(spec.options) | {name: before[name] for name in own & before.keys()}
    values = {name: info.spec[name] for name in common & info.spec.keys()}
    # The endpoint of a Python function or of embedded weights is no URL, and a judge cannot use it as a base URL.
    address = info.spec["base_url"]
    if address == SEVERAL:
        values["base_url"] = spec.base_url
    else:
        values["base_url"] = address if address and address.startswith(("http://", "https://")) else None
    return replace(spec, **values, options=msgspec.convert(options, type(spec.options)))
