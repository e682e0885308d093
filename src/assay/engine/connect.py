"""Connects the models of a run by name, or replaces them where only logged replies may be used.

model = connect(spec, "openai/gpt-4o-mini")      # nothing is sent yet
model = ReplayOnlyModel(endpoint="http://…/v1")  # raises for every request that the log does not answer
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from assay.core.errors import StopRun, UsageError
from assay.core.hashing import fingerprint
from assay.core.protocols import Model
from assay.core.roles import (
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
from assay.core.spec import RunSpec
from assay.core.types import Request, Response
from assay.engine.permits import Permits
from assay.engine.several import SeveralEndpoints
from assay.models.http.dialer import tls_context
from assay.usercode import plugins
from assay.usercode.addresses import base_url_of
from assay.usercode.definitions import model_path
from assay.usercode.model_args import arguments_for, check_arguments

# How the names of a vendor's models begin, for the advice about a name without a provider.
_VENDORS = {
    **dict.fromkeys(("gpt-", "chatgpt-", "o1", "o3", "o4"), "openai"),
    "claude": "anthropic",
    "gemini": "gemini",
    "deepseek": "deepseek",
    "qwen": "qwen",
}


def connect(spec: RunSpec, named: str | Role, roles: Iterable[Role] = ()) -> Model:
    """Return a model of the run, without sending anything. `roles` are all models of the run.

    With several base URLs it is one model that has an endpoint at each of them. Raises UsageError for an unknown
    provider, and for an argument that it does not take.
    """
    role = role_of(named)
    provider, _, name = role.model.partition("/")
    if not name:
        problem = f"{role.model!r} is not a model; write" if role.model else "no model is named; pass --model"
        example = "local/smollm2"
        if role.model:
            own = next((vendor for start, vendor in _VENDORS.items() if role.model.lower().startswith(start)), "")
            own = own or ("openai" if spec.base_url else "")
            example = f"{own}/{role.model}" if own else example
        if provider and role.model.endswith("/"):
            example = f"{provider}/NAME"
        if ".py:" in role.model:
            example = f"python/{role.model}"
        raise UsageError(f"{problem} PROVIDER/NAME, such as {example}. `assay models` lists providers")
    check_arguments(spec, role)
    base_url = base_url_of(role, spec.model, spec.base_url, roles)
    is_main = role.model == spec.model and role.base_url in (None, "", SEVERAL, spec.base_url)
    network = network_of(spec)
    models: dict[str, Model] = {}
    # A main model without a network has an endpoint that is no URL. Only providers with a network look at it.
    is_own = bool(role.base_url) and not (base_url or "").lower().startswith(("http://", "https://"))
    for url in [base_url or ""] if is_own and base_url != spec.base_url else split_urls(base_url) or [""]:
        connection = Connection(
            name=model_path(role.model, role.folder),
            base_url=url or None,
            timeout=spec.timeout,
            network=network,
            concurrency=spec.concurrency,
            seed=spec.seed,
            args=arguments_for(spec, role),
            key=role.key,
            env_file=role.env_file,
        )
        if spec.serve and is_main:
            if spec.base_url:
                raise UsageError("--serve starts the model's server, --base-url names another one; pass one of them")
            from assay.models.servers.command import connect_served

            return connect_served(provider, connection, spec.serve)
        model: Model = plugins.find("model", provider).connect(connection)
        models[model.endpoint] = model
        # A model without a network ignores the base URLs.
        if not model.endpoint.startswith(("http://", "https://")):
            break
    return model if len(models) == 1 else SeveralEndpoints(list(models.values()))


def network_of(spec: RunSpec) -> Network:
    """Return how the endpoints of a run are reached. Raises UsageError if the file of --ca-file cannot be used."""
    network = Network(ca_file=spec.ca_file, insecure=spec.insecure)
    if network.ca_file:
        if network.insecure:
            raise UsageError("--ca-file and --insecure exclude each other: --insecure trusts every certificate")
        tls_context(network)
    return network


def permits_of(model: Model, concurrency: int) -> Permits:
    """Return the permits for the calls of a model: `concurrency` for each of its endpoints."""
    return Permits(concurrency, addresses_of(model))


def addresses_of(model: Model) -> tuple[str, ...]:
    """Return the endpoints of a model. Models with the same endpoints share permits."""
    return model.addresses if isinstance(model, SeveralEndpoints) else (model.endpoint,)


class Connections:
    """The models of one run. Roles with the same model, address, key and arguments share one connection."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._models: dict[str, Model] = {}
        self._own_endpoints: set[str | None] = set()

    def connect(self, named: str | Role, roles: Iterable[Role] = ()) -> Model:
        """Return the model of a role. `roles` are all models of the run, to know which of them its base URL is for."""
        role = role_of(named)
        # A suite may take the endpoint of the connected main model for its roles. That of a server that assay starts,
        # or of a model in this process, is no address, so the role means the model itself.
        if role.base_url in self._own_endpoints:
            role = replace(role, base_url=None)
        address = base_url_of(role, self._spec.model, self._spec.base_url, roles)
        arguments = arguments_for(self._spec, role) if "/" in role.model else {}
        key = fingerprint([role.model, address, role.key, role.env_file, role.folder, arguments])
        if key not in self._models:
            try:
                model = self._models[key] = connect(self._spec, role, roles)
            except UsageError as error:
                if not role.where:
                    raise
                raise UsageError(f"{role.where}: {error}") from None
            if not model.endpoint.startswith(("http://", "https://")):
                self._own_endpoints.add(model.endpoint)
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
