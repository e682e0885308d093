"""Provider `qwen/NAME`: models of Alibaba Cloud (DashScope), through its OpenAI-compatible endpoint."""

from __future__ import annotations

from assay.core.roles import CHAT, EMBEDDINGS, About, Connection
from assay.models.http.vendor import Vendor
from assay.models.openai import OpenAIModel

VENDOR = Vendor(
    "DashScope",
    "https://dashscope.aliyuncs.com/compatible-mode/v1",
    ("DASHSCOPE_API_KEY",),
    ("DASHSCOPE_BASE_URL",),
)
ABOUT = About(
    summary="Qwen models of Alibaba Cloud (DashScope)",
    needs="DASHSCOPE_API_KEY; DASHSCOPE_BASE_URL or --base-url outside China, such as "
    "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    can=frozenset({CHAT, EMBEDDINGS}),
    example="qwen/qwen-plus",
    keys=VENDOR.keys,
)
# The endpoint embeds at most ten texts in one request.
EMBEDDING_BATCH = 10


def connect(connection: Connection) -> OpenAIModel:
    """Return the model `qwen/NAME`. Opens no connection yet."""
    return OpenAIModel(connection, VENDOR, ABOUT, embedding_batch=EMBEDDING_BATCH)
