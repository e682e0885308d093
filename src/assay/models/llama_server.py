"""Provider `llama-server/PATH.gguf`: a GGUF file in llama.cpp's own server, which assay starts and stops.

`llama-server/smollm2` is the model that `assay models pull smollm2` fetches. --model-args are flags of `llama-server`:
`ctx_size=4096,ngl=99` becomes `--ctx-size 4096 -ngl 99`. The names of `local/` are understood too: n_ctx, n_threads,
n_parallel.

Against `local/` this is for a llama.cpp that the user built: with a GPU, a newer model, or flags of its own.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from assay.core.errors import UsageError
from assay.core.roles import CHAT, FORWARD, LIKELIHOOD, SCHEMA, TEXT, About, Connection
from assay.models.likelihood.llama_server import LlamaServerLikelihood
from assay.models.servers.arguments import (
    START_TIMEOUT,
    identify_server,
    read_start_seconds,
    server_flags,
)
from assay.models.servers.model import ManagedModel, ServerApi
from assay.models.servers.process import LOOPBACK
from assay.models.servers.server import Launch
from assay.models.weights.files import hash_model
from assay.models.weights.wheel import KNOWN, find_weights

ABOUT = About(
    summary="a GGUF file in llama.cpp's server, which assay starts and stops",
    needs="the program `llama-server` of llama.cpp",
    can=frozenset({CHAT, TEXT, LIKELIHOOD, SCHEMA}),
    example="llama-server/model.gguf",
    args=frozenset({START_TIMEOUT}),
    any_args=True,
    calls_endpoint=False,
)
# Flags that assay sets.
_TAKEN = frozenset({"host", "port", "m", "model", "api_key", "api_key_file", "alias", "a"})
# The names of these settings in `local/` and in llama.cpp's own code.
_RENAMED = {"n_ctx": "ctx_size", "n_threads": "threads", "n_parallel": "parallel"}


def connect(connection: Connection) -> ManagedModel:
    """Return the model `llama-server/PATH.gguf`. Starts no server yet."""
    path = _find_file(connection.name)
    flags = server_flags(connection.args, title="llama-server", taken=_TAKEN, renamed=_RENAMED, short=True)

    def command(port: int) -> list[str]:
        # The key is in LLAMA_API_KEY.
        return ["llama-server", "--model", str(path), "--host", LOOPBACK, "--port", str(port), *flags]

    launch = Launch(
        title="llama-server",
        endpoint=f"llama-server:{identify_server('', hash_model(path), connection.args)}",
        command=command,
        install="Install llama.cpp, or use local/PATH.gguf, which needs no program: pip install 'assay[local]'",
        folder=Path.cwd(),
        start_seconds=read_start_seconds(connection.args),
    )
    api = ServerApi(ABOUT.can | {FORWARD}, likelihood=LlamaServerLikelihood)
    return ManagedModel(replace(connection, name=path.name), launch, api)


def _find_file(name: str) -> Path:
    if name in KNOWN:
        cached = find_weights(name)
        if cached is None:
            raise UsageError(f"the weights of {name} are missing or damaged. Run: assay models pull {name}")
        return cached
    path = Path(name).expanduser().resolve()
    if not path.is_file():
        choice = f"{', '.join(sorted(KNOWN))} or the path of a GGUF file"
        raise UsageError(f"llama-server/{name}: there is no such file or model. llama-server/NAME takes {choice}")
    return path
