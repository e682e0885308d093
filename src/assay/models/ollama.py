"""Provider `ollama/NAME`: models of an Ollama server, through its OpenAI-compatible endpoint."""

from __future__ import annotations

import os
import re

from msgspec.structs import replace

from assay.core.roles import CHAT, EMBEDDINGS, About, Connection
from assay.models.http.vendor import Vendor
from assay.models.openai import OpenAIModel

ABOUT = About(
    summary="models of an Ollama server",
    needs="a running `ollama serve`; --base-url or OLLAMA_HOST if it is not at http://127.0.0.1:11434/v1",
    can=frozenset({CHAT, EMBEDDINGS}),
    example="ollama/llama3.2",
)
VENDOR = Vendor("Ollama", "http://127.0.0.1:11434/v1", ())


def connect(connection: Connection) -> OpenAIModel:
    """Return the model `ollama/NAME`. Opens no connection yet."""
    host = os.environ.get("OLLAMA_HOST", "").strip()
    if host and connection.base_url is None:
        connection = replace(connection, base_url=base_url_of(host))
    return OpenAIModel(connection, VENDOR, ABOUT)


def base_url_of(host: str) -> str:
    """Return the base URL for a value of OLLAMA_HOST: HOST, HOST:PORT, :PORT or a URL.

    `ollama serve` reads the same variable, so it may be the address at which the server listens, such as 0.0.0.0.
    """
    scheme, separator, rest = host.rpartition("://")
    address, _, path = rest.partition("/")
    # Ollama's own port, unless a scheme is written, which then has its usual port.
    if not separator and not re.search(r":[0-9]+$", address):
        address = f"{address.rstrip(':')}:11434"
    for anywhere in ("0.0.0.0", "[::]", ""):  # noqa: S104 - replaced, not bound
        if address.partition(":")[0] == anywhere or address.startswith(f"{anywhere}:"):
            address = f"127.0.0.1{address.removeprefix(anywhere)}"
            break
    path = f"/{path.strip('/')}" if path.strip("/") else ""
    return f"{scheme or 'http'}://{address}{path.removesuffix('/v1')}/v1"
