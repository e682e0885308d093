"""Provider `vllm/PATH`: a model in a vLLM server that assay starts and stops.

PATH is a folder with the model's files, or a name of the Hugging Face hub whose files are in its cache already.
--model-args are flags of `vllm serve`: `tensor_parallel_size=2,dtype=bfloat16` becomes
`--tensor-parallel-size 2 --dtype bfloat16`.
"""

from __future__ import annotations

from assay.core.roles import About, Connection
from assay.models.servers.arguments import ServerArgs, find_model, identify_server, server_flags
from assay.models.servers.model import MANAGED, ManagedModel, managed

ABOUT = About(
    summary="a model in a vLLM server that assay starts and stops",
    needs="the program `vllm` (pip install vllm)",
    can=MANAGED,
    example="vllm/Qwen/Qwen2.5-0.5B-Instruct",
    args=frozenset(ServerArgs.__struct_fields__),
    any_args=True,
    calls_endpoint=False,
)
# Flags that assay sets.
_TAKEN = frozenset({"host", "port", "model", "served_model_name", "api_key", "uds"})


def connect(connection: Connection) -> ManagedModel:
    """Return the model `vllm/PATH`. Starts no server yet."""
    model, weights = find_model(connection.name, connection.args)
    return managed(
        connection,
        "vllm",
        ["vllm", "serve", model],  # the key is in VLLM_API_KEY
        server_flags(connection.args, title="vllm", taken=_TAKEN),
        model=model,
        identity=identify_server(model, weights, connection.args),
        install="Install vLLM: pip install vllm. A server that runs elsewhere is openai/NAME with --base-url",
    )
