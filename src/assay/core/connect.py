"""The types that a model provider sees: what it is given to connect, and what it says about itself.

A provider is a file in `assay/models/` with an `ABOUT` and a `connect(connection)` that returns a Model:

    ABOUT = About(summary="…", needs="…", can=frozenset({CHAT}), example="echo/loud")

    def connect(connection: Connection) -> EchoModel:
        return EchoModel(connection.name)
"""

from __future__ import annotations

import os
import re
from typing import Any, Literal

from msgspec import Struct, field

from assay.core.errors import UsageError

# What a model can do: answer messages, or continue a text,
CHAT, TEXT = "chat", "text"
# say how likely a `continuation` is after a prompt, and whether greedy decoding would say it,
LIKELIHOOD = "loglikelihood"
# restrict its reply to the JSON schema of `response_format`,
SCHEMA = "json_schema"
# pass the requests of foreign SDKs to an endpoint as they are.
FORWARD = "forward"


class Connection(Struct, frozen=True, kw_only=True):
    """Everything a provider may need to connect a model. It holds no key, since it may be logged."""

    name: str
    base_url: str | None = None
    timeout: float = 300.0
    concurrency: int = 16
    seed: int = 1234
    args: dict[str, Any] = field(default_factory=dict)
    key: str = ""
    """Name of the variable that holds the key. If it is empty or not set, OPENAI_API_KEY holds it."""
    env_file: str = ""
    """A .env file for keys that are not in the environment."""


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
    """Return the Role of a model that may be written as PROVIDER/NAME: endpoint and key are the run's.

    Raises UsageError if a key itself stands where the name of its variable belongs.
    """
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
    """Return the parameter that restricts replies to a schema. It is not strict: that forbids most schemas."""
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}


_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
