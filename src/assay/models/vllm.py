"""Provider `vllm/PATH`: a model in a vLLM server that assay starts and stops.

PATH is a folder with the model's files, or a name of the Hugging Face hub whose files are in its cache already.
--model-args are flags of `vllm serve`: `tensor_parallel_size=2,dtype=bfloat16` becomes
`--tensor-parallel-size 2 --dtype bfloat16`.
"""

from __future__ import annotations

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
from assay.models.servers.server import Launch

ABOUT = About(
    summary="a model in a vLLM server that assay starts and stops",
    needs="the program `vllm` (pip install vllm)",
    can=frozenset({CHAT, TEXT, LIKELIHOOD, SCHEMA}),
    example="vllm/Qwen/Qwen2.5-0.5B-Instruct",
    args=OWN_ARGS,
    any_args=True,
    calls_endpoint=False,
)
# Flags that assay sets.
_TAKEN = frozenset({"host", "port", "model", "served_model_name", "api_key", "uds"})


def connect(connection: Connection) -> ManagedModel:
    """Return the model `vllm/PATH`. Starts no server yet."""
    model, weights = find_model(connection.name, connection.args)
    flags = server_flags(connection.args, title="vllm", taken=_TAKEN)

    def command(port: int) -> list[str]:
        # The key is in VLLM_API_KEY.
        return ["vllm", "serve", model, "--host", LOOPBACK, "--port", str(port), *flags]

    launch = Launch(
        title="vllm",
        endpoint=f"vllm:{identify_server(model, weights, connection.args)}",
        command=command,
        install="Install vLLM: pip install vllm. A server that runs elsewhere is openai/NAME with --base-url",
        folder=Path.cwd(),
        start_seconds=read_start_seconds(connection.args),
    )
    return ManagedModel(replace(connection, name=model), launch, ServerApi(ABOUT.can | {FORWARD}))
