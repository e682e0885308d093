"""Provider `llama-server/PATH.gguf`: a GGUF file in llama.cpp's own server, which assay starts and stops.

`llama-server/NAME` is a model that `assay models pull` fetched, such as smollm2. --model-args are flags of
`llama-server`: `ctx_size=4096,ngl=99` becomes `--ctx-size 4096 -ngl 99`. The names of `local/` are understood too:
n_ctx, n_threads, n_parallel.

Against `local/` this is for a llama.cpp that the user built: with a GPU, a newer model, or flags of its own.
"""

from __future__ import annotations

from assay.core.roles import About, Connection
from assay.models.likelihood.llama_server import LlamaServerLikelihood
from assay.models.servers.arguments import ServerArgs, identify_server, server_flags
from assay.models.servers.model import MANAGED, ManagedModel, managed
from assay.models.weights.pulled import find_gguf

ABOUT = About(
    summary="a GGUF file in llama.cpp's server, which assay starts and stops",
    needs="the program `llama-server` of llama.cpp",
    can=MANAGED,
    example="llama-server/model.gguf",
    args=frozenset(ServerArgs.__struct_fields__),
    any_args=True,
    calls_endpoint=False,
)
# Flags that assay sets.
_TAKEN = frozenset({"host", "port", "m", "model", "api_key", "api_key_file", "alias", "a"})
# The names of these settings in `local/` and in llama.cpp's own code.
_RENAMED = {"n_ctx": "ctx_size", "n_threads": "threads", "n_parallel": "parallel"}


def connect(connection: Connection) -> ManagedModel:
    """Return the model `llama-server/PATH.gguf`. Starts no server yet."""
    file, sha256 = find_gguf("llama-server", connection.name)
    path = file.resolve()
    return managed(
        connection,
        "llama-server",
        ["llama-server", "--model", str(path)],  # the key is in LLAMA_API_KEY
        server_flags(connection.args, title="llama-server", taken=_TAKEN, renamed=_RENAMED, short=True),
        model=path.name,
        identity=identify_server("", sha256, connection.args),
        install="Install llama.cpp, or use local/PATH.gguf, which needs no program: pip install 'assay[local]'",
        likelihood=LlamaServerLikelihood,
    )
