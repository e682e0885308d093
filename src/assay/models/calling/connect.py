"""Connects the models of a run by name, or replaces them where only logged replies may be used.

model = connect(spec, "openai/gpt-4o-mini")      # nothing is sent yet
model = ReplayOnlyModel(endpoint="http://…/v1")  # raises for every request that the log does not answer
"""

from __future__ import annotations

from assay.core import registry
from assay.core.connect import (
    CHAT,
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
from assay.core.protocols import Model
from assay.core.spec import RunSpec
from assay.core.types import Request, Response
from assay.models.calling.http_dialer import tls_context
from assay.models.calling.permits import Permits
from assay.models.calling.several import SeveralEndpoints, SharedPermits


def connect(spec: RunSpec, named: str | Role) -> Model:
    """Return a model of the run, without sending anything. Raises UsageError for an unknown provider.

    With several base URLs it is one model that has an endpoint at each of them.
    """
    role = role_of(named)
    provider, _, name = role.model.partition("/")
    if not name:
        problem = f"{role.model!r} is not a model; write" if role.model else "no model is named; pass --model"
        example = f"python/{role.model}" if ".py:" in role.model else "local/smollm2"
        raise UsageError(f"{problem} PROVIDER/NAME, such as {example}. `assay models` lists providers")
    # A suite takes the endpoint of the connected main model for its roles. That one has no address if it is several.
    base_url = spec.base_url if role.base_url in (None, "", SEVERAL) else role.base_url
    network = network_of(spec)
    models: dict[str, Model] = {}
    for url in split_urls(base_url) or [""]:
        connection = Connection(
            name=name,
            base_url=url or None,
            timeout=spec.timeout,
            network=network,
            concurrency=spec.concurrency,
            seed=spec.seed,
            args=role.args,
            key=role.key,
            env_file=role.env_file,
        )
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


class ReplayOnlyModel:
    """Takes the place of a run's models when its logged replies are scored or judged again.

    It has the endpoint of the original run, because the endpoint is part of every request's hash.
    """

    can = frozenset({CHAT, TEXT, LIKELIHOOD, FORWARD})

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    async def send(self, request: Request, seed: int) -> Response:
        """Raise StopRun. The caller answers logged requests itself; only requests without a logged reply get here."""
        raise StopRun(
            "A reply is missing, and this command sends no requests. Repeat the run's original command to get it."
        )

    async def close(self) -> None:
        """Nothing to close."""
