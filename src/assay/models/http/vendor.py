"""The address and the key of a vendor: which environment variables have them, and what is missing.

    VENDOR = Vendor("DeepSeek", "https://api.deepseek.com", ("DEEPSEEK_API_KEY",))

    url = vendor_url(connection, VENDOR)         # --base-url, else the address above
    headers = key_headers(connection, VENDOR)    # {"Authorization": "Bearer …"}

A key is sent to its vendor only, and no file has it. `usercode/addresses.py` decides which models a base URL is for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import Struct

from assay.core.envfile import COMMON_KEY, keys_in
from assay.core.errors import UsageError
from assay.core.roles import Connection, check_url
from assay.models.http.client import bearer


class Vendor(Struct, frozen=True):
    """One vendor of models. The variables are those that its own SDK reads; the first that is set counts."""

    name: str
    url: str
    """The vendor's address. Empty if every customer has another one."""
    keys: tuple[str, ...]
    """Variables with the API key. Empty for servers that take none."""
    urls: tuple[str, ...] = ()
    """Variables with another address."""
    tokens: tuple[str, ...] = ()
    """Variables with a token that takes the place of the key, always as a bearer."""

    @property
    def key_variables(self) -> str:
        """The variables of the key, for messages."""
        return " or ".join(self.keys)


OPENAI = Vendor("OpenAI", "https://api.openai.com/v1", (COMMON_KEY,), ("OPENAI_BASE_URL",))


def vendor_url(connection: Connection, vendor: Vendor) -> str:
    """Return the base URL: the connection's, else that of the vendor's variables, else the vendor's own.

    Raises UsageError for a URL that is not HTTP or has credentials, for the vendor's own without a key, and if there is
    no URL at all.
    """
    url = connection.base_url or next(filter(None, map(os.environ.get, vendor.urls)), None) or vendor.url
    if not url:
        raise UsageError(f"no endpoint of {vendor.name}: pass --base-url or set {' or '.join(vendor.urls)} to its URL")
    url = check_url(url)
    # In lm-evaluation-harness, base_url is the whole URL of a request. Accept its URLs too.
    for path in ("/chat/completions", "/completions", "/responses", "/messages"):
        url = url.rstrip("/").removesuffix(path)
    if vendor.keys and vendor.url in (url, "") and not key_headers(connection, vendor):
        if vendor is OPENAI:
            raise UsageError(
                "no endpoint and no key: name an endpoint with --base-url or OPENAI_BASE_URL, "
                f"or set {connection.key or COMMON_KEY} for {url}"
            )
        variables = " or ".join([*_key_names(connection, vendor), *vendor.tokens])
        raise UsageError(f"no key for {vendor.name}: set {variables} for {url}")
    return url


def key_headers(connection: Connection, vendor: Vendor, header: str = "Authorization") -> dict[str, str]:
    """Return the header that carries the key. Empty if no variable has one.

    Most vendors want the key as a bearer in `Authorization`; some have a header of their own.
    """
    key = _first_value(connection, _key_names(connection, vendor))
    if key and header != "Authorization":
        return {header: key}
    return bearer(key or _first_value(connection, vendor.tokens))


def _first_value(connection: Connection, variables: Sequence[str]) -> str | None:
    """Return the value of the first variable that has one, in the environment or in the connection's .env file."""
    env_file = keys_in(connection.env_file)
    return next(filter(None, (os.environ.get(name) or env_file.get(name) for name in variables)), None)


def _key_names(connection: Connection, vendor: Vendor) -> list[str]:
    """Return the variables of the key in the order in which they count.

    Suites name OPENAI_API_KEY or OPENAI_API_KEY_JUDGE for every model. No other vendor may see that key.
    """
    own = connection.key
    if own and (vendor is OPENAI or not own.startswith(COMMON_KEY)):
        return [own, *vendor.keys]
    return [*vendor.keys]
