"""What a provider is told when it is connected, and what it says about itself."""

from __future__ import annotations

import os
from typing import Any

from msgspec import Struct, field

from assay.core.errors import UsageError

CHAT, TEXT = "chat", "text"
LIKELIHOOD = "loglikelihood"
"""It answers requests with a `continuation`: how likely that text is, and whether greedy decoding says it."""
FORWARD = "forward"
"""It has an endpoint that answers the requests of foreign SDKs as they are."""


class Connection(Struct, frozen=True, kw_only=True):
    """Everything a provider may need. The key is read from the environment and never written."""

    name: str
    base_url: str | None = None
    timeout: float = 300.0
    concurrency: int = 16
    seed: int = 1234
    args: dict[str, Any] = field(default_factory=dict)


class About(Struct, frozen=True, kw_only=True):
    """One line of `assay models`."""

    summary: str
    needs: str
    can: frozenset[str]
    example: str


OPENAI = "https://api.openai.com/v1"


def openai_base_url(connection: Connection) -> str:
    """The flag, else the environment, else OpenAI itself, which needs a key."""
    url = connection.base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"an endpoint begins with http:// or https://, not {url!r}")
    if "@" in url.partition("//")[2].partition("/")[0]:
        raise UsageError("an endpoint with a password in it would be written down; use OPENAI_API_KEY")
    for tail in ("/chat/completions", "/completions"):
        url = url.rstrip("/").removesuffix(tail)
    if url == OPENAI and not os.environ.get("OPENAI_API_KEY"):
        raise UsageError(
            "no endpoint and no key: name one with --base-url or OPENAI_BASE_URL, "
            f"or set OPENAI_API_KEY for {OPENAI}"
        )
    return url
