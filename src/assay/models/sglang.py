"""Provider `sglang/PATH`: a model in an SGLang server that assay starts and stops.

PATH is a folder with the model's files, or a name of the Hugging Face hub whose files are in its cache already.
--model-args are flags of the server: `tp=2,context_length=4096` becomes `--tp 2 --context-length 4096`.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from msgspec.structs import replace

from assay.core.roles import CHAT, FORWARD, LIKELIHOOD, SCHEMA, TEXT, About, Connection
from assay.models.servers.arguments import (
    OWN_ARGS,
    find_model,
    identify_server,
    read_start_seconds,
    server_flags,
)
from assay.models.servers.model import ManagedModel, ServerApi
from assay.models.servers.process import LOOPBACK
from assay.models.servers.server import Launch, find_program, server_key
from assay.usercode.child_process import python_command

ABOUT = About(
    summary="a model in an SGLang server that assay starts and stops",
    needs="the program `sglang` (pip install sglang)",
    can=frozenset({CHAT, TEXT, LIKELIHOOD, SCHEMA}),
    example="sglang/Qwen/Qwen2.5-0.5B-Instruct",
    args=OWN_ARGS,
    any_args=True,
    calls_endpoint=False,
)
# Flags that assay sets.
_TAKEN = frozenset({"host", "port", "model_path", "served_model_name", "api_key"})


def connect(connection: Connection) -> ManagedModel:
    """Return the model `sglang/PATH`. Starts no server yet."""
    model, weights = find_model(connection.name, connection.args)
    # SGLang's switches have no `--no-` form.
    flags = server_flags(connection.args, title="sglang", taken=_TAKEN, negates=False)

    def command(port: int) -> list[str]:
        # SGLang reads its key from no variable, so it is in the arguments, where other users of the machine can see it.
        place = ["--host", LOOPBACK, "--port", str(port), "--api-key", server_key()]
        return [*_program(), "--model-path", model, *place, *flags]

    launch = Launch(
        title="sglang",
        endpoint=f"sglang:{identify_server(model, weights, connection.args)}",
        command=command,
        install="Install SGLang: pip install sglang. A server that runs elsewhere is openai/NAME with --base-url",
        folder=Path.cwd(),
        start_seconds=read_start_seconds(connection.args),
    )
    return ManagedModel(replace(connection, name=model), launch, ServerApi(ABOUT.can | {FORWARD}))


def _program() -> list[str]:
    """Return the words that start SGLang. Versions before the command `sglang serve` have a module only."""
    if find_program("sglang") is None and find_spec("sglang") is not None:
        return python_command("sglang.launch_server")
    return ["sglang", "serve"]
