"""What a provider is told when it is connected, and what it says about itself."""

from __future__ import annotations

import os
import re
from typing import Any, Literal

from msgspec import Struct, field

from assay.core.envfile import COMMON_KEY, keys_in
from assay.core.errors import UsageError

CHAT, TEXT = "chat", "text"
LIKELIHOOD = "loglikelihood"
"""It answers requests with a `continuation`: how likely that text is, and whether greedy decoding says it."""
SCHEMA = "json_schema"
"""It holds a reply to the JSON schema of `response_format`, whatever the model would say."""
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
    key: str = ""
    """The variable that holds the key; without one, or where it is not set, OPENAI_API_KEY does."""
    env_file: str = ""
    """Where keys may stand that the environment does not have."""


class Role(Struct, frozen=True):
    """One model of a run, and what it is for. No role name is special: a judge is a role marked `score`."""

    model: str
    base_url: str | None = None
    """Without one, the endpoint of the run."""
    key: str = ""
    """Name of the variable that holds the key, never the key. Looked up in the environment, then in `env_file`."""
    env_file: str = ""
    args: dict[str, Any] = field(default_factory=dict)
    """Arguments of the provider, as --model-args gives them."""
    needs: frozenset[str] = frozenset()
    """What the model must be able to do, such as CHAT; checked before the first request."""
    mark: Literal["ask", "score"] = "ask"
    """Whether another model makes another run (`ask`) or another grading of the same one (`score`)."""


def role_of(named: str | Role) -> Role:
    """A role as plans may write it: plain PROVIDER/NAME takes endpoint and key of the run."""
    role = Role(named) if isinstance(named, str) else named
    if role.key and role.key not in os.environ and not _VARIABLE.fullmatch(role.key):
        raise UsageError(f"the key of {role.model} is not the name of an environment variable; write no keys")
    return role


class About(Struct, frozen=True, kw_only=True):
    """One line of `assay models`."""

    summary: str
    needs: str
    can: frozenset[str]
    example: str


def response_format(schema: dict[str, Any]) -> dict[str, Any]:
    """The parameter as OpenAI-like endpoints take it; not strict, since that forbids most schemas."""
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}


_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_COMMON_KEY = "OPENAI_API_KEY"
OPENAI = "https://api.openai.com/v1"


def openai_key(connection: Connection) -> str | None:
    """The key of this connection's own variable, else OPENAI_API_KEY; the environment comes first."""
    file = keys_in(connection.env_file)
    names = [name for name in (connection.key, COMMON_KEY) if name]
    return next((key for name in names if (key := os.environ.get(name) or file.get(name))), None)


def openai_base_url(connection: Connection) -> str:
    """The flag, else the environment, else OpenAI itself, which needs a key."""
    url = connection.base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"an endpoint begins with http:// or https://, not {url!r}")
    if "@" in url.partition("//")[2].partition("/")[0]:
        raise UsageError("an endpoint with a password in it would be written down; use OPENAI_API_KEY")
    for tail in ("/chat/completions", "/completions"):
        url = url.rstrip("/").removesuffix(tail)
    if url == OPENAI and not openai_key(connection):
        raise UsageError(
            "no endpoint and no key: name one with --base-url or OPENAI_BASE_URL, "
            f"or set {connection.key or _COMMON_KEY} for {OPENAI}"
        )
    return url
