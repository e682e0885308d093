"""WorkerPlan: everything that a worker needs to run cases of a run, and how it builds the suite from it.

The plan has no data, no gold and no key. A worker builds the suite from the spec, and compares what replies depend on
(`Suite.ask_identity`) with the driver's: other files on its machine would give other results without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

import assay
from assay.core.protocols import Model
from assay.core.roles import Role
from assay.core.spec import RunSpec, SuiteOptions
from assay.core.suite import Suite, WorkerSolver
from assay.engine.asker import ModelFacts, facts_of
from assay.engine.connect import Connections
from assay.files.redact import secret_variables
from assay.models.python import PythonModel
from assay.suites import find_suite
from assay.usercode.plugins import describe_provider


class WorkerPlan(Struct, frozen=True, kw_only=True):
    """What a worker gets once, before its first case."""

    folder: str
    """The working folder of the driver. A worker whose machine has it works there too."""
    output: str
    """The folder of the run's files, which are no inputs of the run."""
    version: str
    build: Callable[[], WorkerSolver]
    identity: Any
    roles: dict[str, ModelFacts]
    key_variables: list[str]
    """The names of variables with keys of models, which no text of a worker may contain a part of."""
    models: dict[str, Callable[[], Model]]
    """The models that compute in the worker's process, by role."""
    seed: int
    timeout: float
    """The time limit of a request and of the user's code, in seconds."""


def make_plan(suite: Suite[Any, Any], models: Mapping[str, Model], *, home: Path) -> WorkerPlan:
    """Return the plan for the workers of a run."""
    spec = suite.spec
    return WorkerPlan(
        folder=str(Path.cwd()),
        output=str(home.resolve()),
        version=assay.__version__,
        build=suite.recipe() or partial(build_from_spec, spec.suite, msgspec.to_builtins(spec)),
        identity=msgspec.to_builtins(suite.ask_identity(), str_keys=True),
        roles={name: facts_of(role, models[name]) for name, role in suite.roles.items()},
        key_variables=sorted(secret_variables(suite.roles.values(), spec.gen_kwargs)),
        models={name: _recipe_of(role, models[name], suite) for name, role in suite.roles.items() if computes(role)},
        seed=spec.seed,
        timeout=spec.timeout,
    )


def computes(role: Role) -> bool:
    """Return whether a model computes in the process that asks it, so that workers share its work."""
    return describe_provider(role.model.partition("/")[0]).computes


def build_from_spec(name: str, values: dict[str, Any]) -> WorkerSolver:
    """Build a suite from its name and the values of its spec, as run.json has them."""
    suite_class = find_suite(name)
    spec = msgspec.convert(values | {"options": {}}, RunSpec, strict=False)
    options = msgspec.convert(values["options"], suite_class.Options, strict=False)
    suite = suite_class(msgspec.structs.replace(spec, options=options))
    return WorkerSolver(suite.solver, suite.ask_identity())


def _recipe_of(role: Role, model: Model, suite: Suite[Any, Any]) -> Callable[[], Model]:
    if isinstance(model, PythonModel) and ".py:" not in role.model:
        # A function of a Python program has no file and name by which a worker could find it.
        return model.recipe()
    # The suite's own options may be of a class that only the driver can import, and models do not need them.
    spec = msgspec.structs.replace(suite.spec, options=SuiteOptions())
    return partial(connect_again, spec, role, list(suite.roles.values()))


def connect_again(spec: RunSpec, role: Role, roles: list[Role]) -> Model:
    """Connect a model of the run on a worker."""
    return Connections(spec).connect(role, roles)
