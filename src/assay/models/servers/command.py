"""--serve: any command that starts a server with an OpenAI-compatible API.

    assay task sums --model openai/NAME --serve "my-server --model {model} --port {port}"

The command is split into words as a shell does, but no shell runs it. `{model}` is NAME, `{port}` a free port of
127.0.0.1, and `{key}` the key that assay sends with every request, for a server that takes one.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from assay.core.errors import UsageError
from assay.core.hashing import fingerprint
from assay.core.roles import CHAT, FORWARD, LIKELIHOOD, TEXT, Connection
from assay.models.openai import OpenAIModel
from assay.models.openai_completions import CompletionsModel
from assay.models.servers.arguments import identify_server, read_server_args
from assay.models.servers.model import ManagedModel, ServerApi
from assay.models.servers.server import Launch, server_key
from assay.models.weights.files import hash_model

_PLACE = re.compile(r"\{(model|port|key)\}")
_APIS = {
    "openai": ServerApi(frozenset({CHAT, FORWARD}), OpenAIModel, OpenAIModel, OpenAIModel),
    "openai-completions": ServerApi(
        frozenset({TEXT, LIKELIHOOD, FORWARD}), CompletionsModel, CompletionsModel, CompletionsModel
    ),
}


def connect_served(provider: str, connection: Connection, template: str) -> ManagedModel:
    """Return the model behind the server that a command starts. Starts it at the first request."""
    if provider not in _APIS:
        raise UsageError(
            f"--serve is for --model openai/NAME and openai-completions/NAME, not {provider}/{connection.name}"
        )
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise UsageError(f"--serve: {error} in {template!r}") from None
    if not any("{port}" in word for word in words):
        raise UsageError(f"--serve needs {{port}} where the server's port belongs: {template!r}")
    model = connection.name

    def command(port: int) -> list[str]:
        values = {"model": model, "port": str(port), "key": server_key()}
        return [_PLACE.sub(lambda match: values[match[1]], word) for word in words]

    path = Path(model).expanduser()
    weights = hash_model(path) if path.exists() else ""
    # The command counts by its text. Files that it names may be logs, which change with every run.
    identity = [provider, template, identify_server(model, weights, connection.args)]
    launch = Launch(
        title="the server of --serve",
        endpoint=f"serve:{fingerprint(identity)}",
        command=command,
        install="Install it, or name its path in --serve",
        folder=Path.cwd(),
        start_seconds=read_server_args(connection.args).start_timeout,
    )
    return ManagedModel(connection, launch, _APIS[provider])
