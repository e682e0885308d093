"""The types for model providers: Connection (input of `connect`), About (a description), Role (use in a run).

A provider is a file in `assay/models/` with an `ABOUT` and a function `connect(connection)` that returns a Model:

    ABOUT = About(summary="…", needs="…", can=frozenset({CHAT}), example="echo/loud")

    def connect(connection: Connection) -> EchoModel:
        return EchoModel(connection.name)
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from typing import Any, Literal

from msgspec import Struct, field

from assay.core import registry
from assay.core.errors import UsageError

# Abilities of a model, for `About.can` and `Role.needs`.
CHAT = "chat"  # answers a list of messages
TEXT = "text"  # continues a prompt
LIKELIHOOD = "loglikelihood"  # returns the log-likelihood of a continuation, and whether greedy decoding yields it
SCHEMA = "json_schema"  # restricts its reply to the JSON schema of `response_format`
EMBEDDINGS = "embeddings"  # returns vectors of texts, for --embedder
FORWARD = "forward"  # passes the requests of other SDKs to an endpoint in their own form


SEVERAL = "several endpoints"
"""The endpoint of a model with several base URLs. It stands in requests and in run.json instead of the addresses, so
that other addresses continue the same run."""

MAX_PORT = 65_535
EMPTY_URL = (
    "{option} is empty, perhaps because a variable of the shell is not set. Pass the URL of the endpoint, or leave the "
    "option out"
)


def split_urls(text: str | None) -> list[str]:
    """Return the base URLs of an option that may have several, separated by commas. Repeated ones are dropped.

    Raises UsageError if one of them is no base URL. An empty text is none either: it is mostly a variable of the shell
    that is not set, and the provider's own address would get the requests and the key.
    """
    if text is None:
        return []
    return list(dict.fromkeys(check_url(url.strip()) for url in text.split(",")))


def check_url(url: str) -> str:
    """Return a base URL with its scheme in small letters. Raises UsageError if no request can be sent there.

    Credentials and a query are refused, because the base URL is saved in the run folder.
    """
    if not url:
        raise UsageError(EMPTY_URL.format(option="--base-url"))
    scheme, separator, rest = url.partition("://")
    address = rest.partition("/")[0]
    # Messages show the URL without its query, which may be a key.
    shown = re.split("[?#]", url)[0]
    if "@" in (address if separator else shown):
        raise UsageError(
            "Remove the credentials from the base URL: it is saved in the run folder. Put the key into the variable of "
            "its provider instead, such as OPENAI_API_KEY"
        )
    if not separator or scheme.lower() not in ("http", "https"):
        raise UsageError(f"a base URL begins with http:// or https://, not {shown!r}")
    query = rest.partition("?")[2]
    # Azure's portal shows addresses with a version, which its provider understands.
    if "#" in rest or ("?" in rest and not re.fullmatch(r"api-version=[\w.-]+", query)):
        raise UsageError(
            f"the base URL {shown!r} has a query or a fragment behind it. Remove it: paths are "
            "appended to the base URL, which is saved in the run folder. Keys belong into variables, other values into "
            "--gen-kwargs or --model-args"
        )
    if not url.isprintable() or " " in url:
        raise UsageError(f"the base URL {shown!r} has a space or a control character in it")
    bracketed = re.fullmatch(r"(\[[0-9A-Fa-f:.]+(?:%\w+)?\])(?::(.*))?", address)
    host, port = bracketed.groups() if bracketed else (address.partition(":")[0], address.partition(":")[2])
    if not bracketed and address.count(":") > 1:
        # Whether the last number is a port cannot be known. Most base URLs of a machine's own servers have one.
        ipv6, _, last = address.strip("[]").rpartition(":")
        raise UsageError(
            f"the base URL {shown!r} has several colons in its host. IPv6 addresses stand in brackets: "
            f"{scheme}://[{ipv6}]:{last}{rest.removeprefix(address)}"
        )
    if not host or (not bracketed and re.search(r"[\[\]]", host)):
        raise UsageError(f"the base URL {shown!r} has no host; write it like http://127.0.0.1:8000/v1")
    if port and not (re.fullmatch(r"[0-9]{1,5}", port) and 0 < int(port) <= MAX_PORT):
        raise UsageError(f"the base URL {shown!r} has the port {port!r}; ports are numbers from 1 to {MAX_PORT}")
    return f"{scheme.lower()}://{rest}"


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


class Role(Struct, frozen=True):
    """One model of a run and its purpose. Role names have no special meaning: a judge is a role marked `score`."""

    model: str
    base_url: str | None = None
    """None means the base URL of the run, if that was given for the model's vendor: see `addresses.py`."""
    key: str = ""
    """Name of the variable with the API key, never the key itself. Looked up in the environment, then in `env_file`."""
    env_file: str = ""
    args: dict[str, Any] = field(default_factory=dict)
    """Arguments for the provider, such as those of --model-args."""
    params: dict[str, Any] = field(default_factory=dict)
    """Parameters of every request, such as those of --judge-kwargs. They override the request's own parameters; None
    removes one."""
    sdk_params: dict[str, Any] | None = field(default_factory=dict)
    """For code with its own SDK: parameters that its requests get unless they set them. Its requests are for this
    model, whatever model they name. With None they pass as they are: the code may use other models of the endpoint."""
    needs: frozenset[str] = frozenset()
    """Abilities that the model must have, such as CHAT. Checked before the first request."""
    mark: Literal["ask", "score"] = "ask"
    """What another model in this role means: another run (`ask`), or new scores of the same replies (`score`)."""
    where: str = ""
    """File and line that name the model, for messages. Empty if a flag names it."""
    folder: str = ""
    """The folder of the file that names the model. `script/FILE` and `python/FILE.py:NAME` are looked for there, then
    in the working folder. Empty if a flag names it."""


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
    return name if slash and registry.is_known("model", provider) else f"openai/{name}"


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
    calls_endpoint: bool = True
    """Whether --base-url is the address of its models. If not, a run's base URL is for the run's other models."""
    computes: bool = False
    """Whether its models compute in assay's own process. With `--executor ray` they are asked on the workers."""
    takes_do_sample: bool = False
    """Whether requests may have the parameter `do_sample`, which transformers has and endpoints do not."""


def lacks(model: str, missing: Collection[str]) -> str:
    """Return the message for a model that cannot do what a run needs, with a provider that can."""
    provider, _, name = model.partition("/")
    # The name of a function or of a file of replies is no name of a model elsewhere.
    name = "NAME" if provider in ("python", "script") else name
    instead = "".join(_INSTEAD.get(ability, "").format(name=name) for ability in sorted(missing))
    return f"{model} cannot do {', '.join(sorted(missing))}, which this run needs{instead}"


def response_format(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the parameter that restricts replies to a JSON schema.

    Without `strict`, because OpenAI's strict mode rejects most schemas (all keys required, no extra keys).
    """
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}


# What to use instead of a model that lacks an ability.
_INSTEAD = {
    CHAT: ". Use a chat model, such as openai/{name} at an endpoint with /chat/completions",
    LIKELIHOOD: (
        ". Chat endpoints return no likelihoods. Use openai-completions/{name} if the endpoint has /completions with "
        "the log probabilities of prompts, or let assay run the model: vllm/{name}, hf/{name} or local/{name}"
    ),
    EMBEDDINGS: ". Use a provider with embeddings, such as openai/NAME or ollama/NAME; `assay models` lists them",
}
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# Vendors with a provider here whose name begins the names of models at OpenRouter.
_OPENROUTER_VENDORS = frozenset({"anthropic", "deepseek", "qwen"})
