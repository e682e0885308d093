"""ManagedModel: a model whose server assay starts. Requests go through the OpenAI-compatible clients.

    model = managed(connection, "vllm", ["vllm", "serve", path], flags, model=path, identity=sha256, install="…")
    response = await model.send(request, seed)    # the first request starts the server

The server's address is known only when it runs, and changes when it is started again. So the clients are made anew for
each start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from assay.core.protocols import Model
from assay.core.roles import CHAT, FORWARD, LIKELIHOOD, SCHEMA, TEXT, Connection
from assay.core.types import Request, Response
from assay.models.likelihood.endpoint import LikelihoodArgs
from assay.models.openai import OpenAIModel
from assay.models.openai_completions import CompletionsModel
from assay.models.servers.arguments import read_server_args
from assay.models.servers.process import LOOPBACK
from assay.models.servers.server import (
    KEY_VARIABLE,
    Launch,
    ManagedServer,
    Running,
    acquire,
    release,
    server_key,
)

ConnectClient = Callable[[Connection], Model]


MANAGED = frozenset({CHAT, TEXT, LIKELIHOOD, SCHEMA})
"""What the servers can do that assay knows how to start."""


class ServerApi(NamedTuple):
    """What a server answers, and the client for each kind of request. All three may be the same."""

    can: frozenset[str]
    chat: ConnectClient = OpenAIModel
    text: ConnectClient = CompletionsModel
    likelihood: ConnectClient = CompletionsModel


def managed(
    connection: Connection,
    title: str,
    program: Sequence[str],
    flags: Sequence[str],
    *,
    model: str,
    identity: str,
    install: str,
    likelihood: ConnectClient = CompletionsModel,
) -> ManagedModel:
    """Return a model whose server `program` starts. Starts no server yet.

    `program` are the words before the flags, `model` is the name that requests have, `identity` that of
    `identify_server`.
    """
    launch = Launch(
        title=title,
        endpoint=f"{title}:{identity}",
        command=lambda port: [*program, "--host", LOOPBACK, "--port", str(port), *flags],
        install=install,
        folder=Path.cwd(),
        start_seconds=read_server_args(connection.args).start_timeout,
    )
    api = ServerApi(MANAGED | {FORWARD}, likelihood=likelihood)
    return ManagedModel(replace(connection, name=model), launch, api)


class ManagedModel:
    """A model behind a server that assay starts at the first request and stops when the last such model closes."""

    def __init__(self, connection: Connection, launch: Launch, api: ServerApi) -> None:
        self.endpoint = launch.endpoint
        self.can = api.can
        self._launch = launch
        self._api = api
        server_key()  # must exist before the run collects its secrets
        self._connection = replace(connection, key=KEY_VARIABLE, env_file="")
        self._server: ManagedServer | None = None
        self._clients: _Clients | None = None

    async def send(self, request: Request, seed: int) -> Response:
        """Send a request. A server that has died is started again first; the caller repeats the requests it lost."""
        if self._server is None:
            self._server = acquire(self._launch)
        running = await self._server.ready()
        clients = self._clients
        if clients is None or clients.running is not running:
            # Nothing is awaited between the check and the assignment, so there is one set of clients per start.
            old, clients = clients, _Clients(self._connection, running, self._api)
            self._clients = clients
            if old is not None:
                await old.close()
        return replace(await clients.choose(request).send(request, seed), free=True)

    async def close(self) -> None:
        """Close the connections. Stops the server if no other model of the run uses it."""
        clients, self._clients = self._clients, None
        server, self._server = self._server, None
        try:
            if clients is not None:
                await clients.close()
        finally:
            if server is not None:
                await release(server)


class _Clients:
    """The clients of one running server."""

    def __init__(self, connection: Connection, running: Running, api: ServerApi) -> None:
        self.running = running
        args = _likelihood_args(connection.args, running.max_length)
        connection = replace(connection, base_url=running.url, args=args)
        made: dict[ConnectClient, Model] = {}
        for connect in (api.chat, api.text, api.likelihood):
            if connect not in made:
                made[connect] = connect(connection)
        self._all = list(made.values())
        self._chat, self._text, self._likelihood = made[api.chat], made[api.text], made[api.likelihood]

    def choose(self, request: Request) -> Model:
        """Return the client for a request."""
        if request.continuation is not None:
            return self._likelihood
        return self._chat if request.messages is not None or request.sdk is not None else self._text

    async def close(self) -> None:
        """Close all connections. Requests in flight fail."""
        for client in self._all:
            await client.close()


def _likelihood_args(args: dict[str, Any], max_length: int | None) -> dict[str, Any]:
    """Return the arguments for the clients. The context length is the user's, else that of the server."""
    own = {name: value for name, value in args.items() if name in LikelihoodArgs.__struct_fields__}
    length = args.get("max_model_len", max_length)
    return {"max_length": length, **own} if length else own
