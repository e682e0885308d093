"""Provider `ollama/NAME`: models of an Ollama server, through its OpenAI-compatible endpoint."""

from __future__ import annotations

from assay.core.connect import CHAT, EMBEDDINGS, About, Connection
from assay.models.calling.vendor import Vendor
from assay.models.openai import OpenAIModel

ABOUT = About(
    summary="models of an Ollama server",
    needs="a running `ollama serve`; --base-url if it is not at http://127.0.0.1:11434/v1",
    can=frozenset({CHAT, EMBEDDINGS}),
    example="ollama/llama3.2",
)
VENDOR = Vendor("Ollama", "http://127.0.0.1:11434/v1", ())


def connect(connection: Connection) -> OpenAIModel:
    """Return the model `ollama/NAME`. Opens no connection yet."""
    return OpenAIModel(connection, VENDOR, ABOUT)
