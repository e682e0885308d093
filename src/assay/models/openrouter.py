"""Provider `openrouter/NAME`: models of all vendors through OpenRouter, such as `openrouter/qwen/qwen3-32b`."""

from __future__ import annotations

from assay.core.roles import CHAT, EMBEDDINGS, About, Connection
from assay.models.http.vendor import Vendor
from assay.models.openai import OpenAIModel

VENDOR = Vendor("OpenRouter", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",))
ABOUT = About(
    summary="models of all vendors through OpenRouter",
    needs="OPENROUTER_API_KEY",
    can=frozenset({CHAT, EMBEDDINGS}),
    example="openrouter/qwen/qwen3-32b",
    keys=VENDOR.keys,
)


def connect(connection: Connection) -> OpenAIModel:
    """Return the model `openrouter/NAME`. Opens no connection yet."""
    return OpenAIModel(connection, VENDOR, ABOUT)
