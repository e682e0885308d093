"""Provider `sglang/PATH`: a model in an SGLang server that assay starts and stops.

PATH is a folder with the model's files, or a name of the Hugging Face hub whose files are in its cache already.
--model-args are flags of the server: `tp=2,context_length=4096` becomes `--tp 2 --context-length 4096`.
"""

from __future__ import annotations

from importlib.util import find_spec

from assay.core.roles import About, Connection
from assay.models.servers.arguments import ServerArgs, find_model, identify_server, server_flags
from assay.models.servers.model import MANAGED, ManagedModel, managed
from assay.models.servers.server import find_program, server_key
from assay.usercode.child_process import python_command

ABOUT = About(
    summary="a model in an SGLang server that assay starts and stops",
    needs="the program `sglang` (pip install sglang)",
    can=MANAGED,
    example="sglang/Qwen/Qwen2.5-0.5B-Instruct",
    args=frozenset(ServerArgs.__struct_fields__),
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
    return managed(
        connection,
        "sglang",
        [*_program(), "--model-path", model],
        # SGLang reads its key from no variable, so it is in the arguments, where other users of the machine can see it.
        ["--api-key", server_key(), *flags],
        model=model,
        identity=identify_server(model, weights, connection.args),
        install="Install SGLang: pip install sglang. A server that runs elsewhere is openai/NAME with --base-url",
    )


def _program() -> list[str]:
    """Return the words that start SGLang. Versions before the command `sglang serve` have a module only."""
    if find_program("sglang") is None and find_spec("sglang") is not None:
        return python_command("sglang.launch_server")
    return ["sglang", "serve"]
