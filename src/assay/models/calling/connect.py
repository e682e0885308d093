"""Connects the models of a run by name, or replaces them where only logged replies may be used.

model = connect(spec, "openai/gpt-4o-mini")      # nothing is sent yet
model = ReplayOnlyModel(endpoint="http://…/v1")  # raises for every request that the log does not answer
"""

from __future__ import annotations

from assay.core import registry
from assay.core.arguments import arguments_for, check_arguments
from assay.core.connect import CHAT, EMBEDDINGS, FORWARD, LIKELIHOOD, TEXT, Connection, Role, role_of
from assay.core.errors import StopRun, UsageError
from assay.core.hashing import fingerprint
from assay.core.protocols import Model
from assay.core.spec import RunSpec
from assay.core.types import Request, Response


def connect(spec: RunSpec, named: str | Role) -> Model:
    """Return a model of the run, without sending anything.

    Raises UsageError for an unknown provider, and for an argument that it does not take.
    """
    role = role_of(named)
    provider, _, name = role.model.partition("/")
    if not name:
        problem = f"{role.model!r} is not a model; write" if role.model else "no model is named; pass --model"
        example = f"python/{role.model}" if ".py:" in role.model else "local/smollm2"
        raise UsageError(f"{problem} PROVIDER/NAME, such as {example}. `assay models` lists providers")
    check_arguments(spec, role)
    is_main = role.model == spec.model and not role.base_url
    connection = Connection(
        name=name,
        base_url=role.base_url or spec.base_url,
        inherited=bool(spec.model) and not role.base_url and spec.model.partition("/")[0] != provider,
        timeout=spec.timeout,
        concurrency=spec.concurrency,
        seed=spec.seed,
        args=arguments_for(spec, role),
        key=role.key,
        env_file=role.env_file,
    )
    if spec.serve and is_main:
        if spec.base_url:
            raise UsageError(
                "--serve starts the model's server, --base-url names another one; pass one of them"
            )
        from assay.models.servers.command import connect_served

        return connect_served(provider, connection, spec.serve)
    model: Model = registry.find("model", provider).connect(connection)
    return model


class Connections:
    """The models of one run. Roles with the same model, address, key and arguments share one connection."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._models: dict[str, Model] = {}

    def connect(self, named: str | Role) -> Model:
        """Return the model of a role."""
        role = role_of(named)
        address = role.base_url or self._spec.base_url
        arguments = arguments_for(self._spec, role) if "/" in role.model else {}
        key = fingerprint([role.model, address, role.key, role.env_file, arguments])
        if key not in self._models:
            self._models[key] = connect(self._spec, role)
        return self._models[key]


class ReplayOnlyModel:
    """Takes the place of a run's models when its logged replies are scored or judged again.

    It has the endpoint of the original run, because the endpoint is part of every request's hash.
    """

    can = frozenset({CHAT, TEXT, LIKELIHOOD, EMBEDDINGS, FORWARD})

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    async def send(self, request: Request, seed: int) -> Response:
        """Raise StopRun. The caller answers logged requests itself; only requests without a logged reply get here."""
        raise StopRun(
            "A reply is missing, and this command sends no requests. Repeat the run's original command to get it."
        )

    async def close(self) -> None:
        """Nothing to close."""
