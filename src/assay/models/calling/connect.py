"""Connects the models of a run by name, or replaces them where only logged replies may be used.

model = connect(spec, "openai/gpt-4o-mini")      # nothing is sent yet
model = ReplayOnlyModel(endpoint="http://…/v1")  # raises for every request that the log does not answer
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.core import registry
from assay.core.arguments import arguments_for, check_arguments
from assay.core.connect import (
    CHAT,
    EMBEDDINGS,
    FORWARD,
    LIKELIHOOD,
    SEVERAL,
    TEXT,
    Connection,
    Network,
    Role,
    role_of,
    split_urls,
)
from assay.core.errors import StopRun, UsageError
from assay.core.events import Notify, observed_by
from assay.core.hashing import fingerprint
from assay.core.protocols import Model
from assay.core.spec import RunSpec
from assay.core.types import Request, Response
from assay.models.calling.http_dialer import tls_context
from assay.models.calling.permits import Permits
from assay.models.calling.several import SeveralEndpoints, SharedPermits


def connect(spec: RunSpec, named: str | Role) -> Model:
    """Return a model of the run, without sending anything.

    With several base URLs it is one model that has an endpoint at each of them. Raises UsageError for an unknown
    provider, and for an argument that it does not take.
    """
    role = role_of(named)
    provider, _, name = role.model.partition("/")
    if not name:
        problem = f"{role.model!r} is not a model; write" if role.model else "no model is named; pass --model"
        example = f"python/{role.model}" if ".py:" in role.model else "local/smollm2"
        raise UsageError(f"{problem} PROVIDER/NAME, such as {example}. `assay models` lists providers")
    check_arguments(spec, role)
    # A suite takes the endpoint of the connected main model for its roles. That one has no address if it is several.
    base_url = spec.base_url if role.base_url in (None, "", SEVERAL) else role.base_url
    is_main = role.model == spec.model and base_url == spec.base_url
    network = network_of(spec)
    models: dict[str, Model] = {}
    for url in split_urls(base_url) or [""]:
        connection = Connection(
            name=name,
            base_url=url or None,
            inherited=bool(spec.model) and not role.base_url and spec.model.partition("/")[0] != provider,
            timeout=spec.timeout,
            network=network,
            concurrency=spec.concurrency,
            seed=spec.seed,
            args=arguments_for(spec, role),
            key=role.key,
            env_file=role.env_file,
        )
        if spec.serve and is_main:
            if url:
                raise UsageError(
                    "--serve starts the model's server, --base-url names another one; pass one of them"
                )
            from assay.models.servers.command import connect_served

            return connect_served(provider, connection, spec.serve)
        model: Model = registry.find("model", provider).connect(connection)
        models[model.endpoint] = model
        # A model without a network ignores the base URLs, which are for the run's other models.
        if not model.endpoint.startswith(("http://", "https://")):
            break
    return model if len(models) == 1 else SeveralEndpoints(list(models.values()))


def network_of(spec: RunSpec) -> Network:
    """Return how the endpoints of a run are reached. Raises UsageError if the file of --ca-file cannot be used."""
    network = Network(ca_file=spec.ca_file, insecure=spec.insecure)
    if network.ca_file:
        if network.insecure:
            raise UsageError(
                "--ca-file and --insecure exclude each other: --insecure trusts every certificate"
            )
        tls_context(network)
    return network


def permits_of(model: Model, concurrency: int) -> Permits:
    """Return the permits for the calls of a model: `concurrency` for each of its endpoints."""
    if isinstance(model, SeveralEndpoints):
        return SharedPermits(model.addresses, concurrency)
    return Permits(concurrency)


def addresses_of(model: Model) -> tuple[str, ...]:
    """Return the endpoints of a model. Models with the same endpoints share permits."""
    return model.addresses if isinstance(model, SeveralEndpoints) else (model.endpoint,)


class Connections:
    """The models of one run. Roles with the same model, address, key and arguments share one connection."""

    def __init__(self, spec: RunSpec, observers: Sequence[Notify] = ()) -> None:
        """`observers` get the notices of providers, for example that a large file is hashed."""
        self._spec = spec
        self._observers = observers
        self._models: dict[str, Model] = {}

    def connect(self, named: str | Role) -> Model:
        """Return the model of a role."""
        role = role_of(named)
        address = role.base_url or self._spec.base_url
        arguments = arguments_for(self._spec, role) if "/" in role.model else {}
        key = fingerprint([role.model, address, role.key, role.env_file, arguments])
        if key not in self._models:
            with observed_by(self._observers):
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
