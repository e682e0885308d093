"""The types for model providers: Connection (input of `connect`), About (a description), Role (use in a run).

A provider is a file in `assay/models/` with an `ABOUT` and a function `connect(connection)` that returns a Model:

    ABOUT = About(summary="…", needs="…", can=frozenset({CHAT}), example="echo/loud")

    def connect(connection: Connection) -> EchoModel:
        return EchoModel(connection.name)
"""

from __future__ import annotations

import os
import re
from typing import Any, Literal

from msgspec import Struct, field

from assay.core import registry
from assay.core.errors import UsageError

# Abilities of a model, for `About.can` and `Role.needs`.
CHAT = "chat"  # answers a list of messages
TEXT = "text"  # continues a prompt
LIKELIHOOD = (
    "loglikelihood"  # returns the log-likelihood of a continuation, and whether greedy decoding yields it
)
SCHEMA = "json_schema"  # restricts its reply to the JSON schema of `response_format`
EMBEDDINGS = "embeddings"  # returns vectors of texts, for --embedder
FORWARD = "forward"  # passes the requests of other SDKs to an endpoint unchanged


SEVERAL = "several endpoints"
"""The endpoint of a model with several base URLs. It stands in requests and in run.json instead of the addresses, so
that other addresses continue the same run."""


def split_urls(text: str | None) -> list[str]:
    """Return the base URLs of an option that may have several, separated by commas. Repeated ones are dropped."""
    urls = re.split(r"\s*,\s*(?=https?://)", (text or "").strip())
    return list(dict.fromkeys(url for url in urls if url))


class Network(Struct, frozen=True, kw_only=True):
    """How the endpoints of a run are reached. None of it changes a reply."""

    ca_file: str = ""
    """A PEM file with certificates to trust instead of the system's. Empty means $SSL_CERT_FILE, else the system's."""
    insecure: bool = False
    """Accept any certificate."""


class Connection(Struct, frozen=True, kw_only=True):
    """Everything that a provider may need to connect a model. It has no API key, because it may be logged."""

    name: str
    base_url: str | None = None
    timeout: float = 300.0
    network: Network = Network()
    concurrency: int = 16
    seed: int = 1234
    args: dict[str, Any] = field(default_factory=dict)
    key: str = ""
    """Name of the variable with the API key. If the name is empty or the variable unset, the provider's own variables
    are used, such as OPENAI_API_KEY."""
    env_file: str = ""
    """A .env file for keys that are not in the environment."""
    inherited: bool = False
    """Whether `base_url` was given for a model of another provider. A vendor's provider then uses its own address."""


class Role(Struct, frozen=True):
    """One model of a run and its purpose. Role names have no special meaning: a judge is a role marked `score`."""

    model: str
    base_url: str | None = None
    """None means the base URL of the run."""
    key: str = ""
    """Name of the variable with the API key, never the key itself. Looked up in the environment, then in `env_file`."""
    env_file: str = ""
    args: dict[str, Any] = field(default_factory=dict)
    """Arguments for the provider, such as those of --model-args."""
    params: dict[str, Any] = field(default_factory=dict)
    """Parameters of every request, such as those of --judge-kwargs. They override the request's own parameters; None
    removes one."""
    needs: frozenset[str] = frozenset()
    """Abilities that the model must have, such as CHAT. Checked before the first request."""
    mark: Literal["ask", "score"] = "ask"
    """What another model in this role means: another run (`ask`), or new scores of the same replies (`score`)."""


def role_of(model: str | Role) -> Role:
    """Return a Role. The text PROVIDER/NAME becomes a Role with the run's base URL and key.

    Raises UsageError if `key` looks like a key itself instead of the name of a variable.
    """
    role = Role(model) if isinstance(model, str) else model
    if role.key and role.key not in os.environ and not _VARIABLE.fullmatch(role.key):
        raise UsageError(
            f"the key of {role.model} is not the name of an environment variable. "
            "Put the key into a variable and write the variable's name"
        )
    return role


def with_provider(name: str, base_url: str | None = None) -> str:
    """Return a model's name as PROVIDER/NAME. A name without a known provider is one of `openai`.

    OpenRouter names models `qwen/qwen3-32b`. At its address that is no model of the provider `qwen`.
    """
    provider, slash, _ = name.partition("/")
    if "openrouter.ai" in (base_url or "") and provider in _OPENROUTER_VENDORS:
        return f"openai/{name}"
    return name if slash and provider in registry.names("model") else f"openai/{name}"


class About(Struct, frozen=True, kw_only=True):
    """Description of a provider: one row of `assay models`."""

    summary: str
    needs: str
    can: frozenset[str]
    example: str
    keys: tuple[str, ...] = ()
    """Names of the environment variables with the key, the first that is set counts. Empty if no key is needed."""
    args: frozenset[str] = frozenset()
    """Names of `--model-args` that the provider takes. Any other name is refused, with the nearest one."""
    any_args: bool = False
    """Whether further arguments are passed on, as to a server that assay starts."""
    takes_do_sample: bool = False
    """Whether requests may have the parameter `do_sample`, which transformers has and endpoints do not."""


def response_format(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the parameter that restricts replies to a JSON schema.

    Without `strict`, because OpenAI's strict mode rejects most schemas (all keys required, no extra keys).
    """
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}


_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# Vendors with a provider here whose name begins the names of models at OpenRouter.
_OPENROUTER_VENDORS = frozenset({"anthropic", "deepseek", "qwen"})
