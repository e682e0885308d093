"""Provider `deepseek/NAME`: DeepSeek's own endpoint, which is OpenAI-compatible and has no embeddings."""

from __future__ import annotations

from assay.core.roles import CHAT, About, Connection
from assay.models.http.vendor import Vendor
from assay.models.openai import OpenAIModel

VENDOR = Vendor("DeepSeek", "https://api.deepseek.com", ("DEEPSEEK_API_KEY",))
ABOUT = About(
    summary="models of DeepSeek",
    needs="DEEPSEEK_API_KEY",
    can=frozenset({CHAT}),
    example="deepseek/deepseek-chat",
    keys=VENDOR.keys,
)


def connect(connection: Connection) -> OpenAIModel:
    """Return the model `deepseek/NAME`. Opens no connection yet."""
    return OpenAIModel(connection, VENDOR, ABOUT)
