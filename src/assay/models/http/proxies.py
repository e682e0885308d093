"""Finds the proxy of a URL in the environment: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY.

    proxy = proxy_for("https://api.openai.com/v1", os.environ)    # Proxy("http://proxy.example:3128", …) or None

The rules are curl's, with one difference: a loopback address never has a proxy. A proxy on another machine cannot reach
it, and many people have a proxy in their environment and a vLLM server on 127.0.0.1. Go has the same exception.
"""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from assay.core.errors import ModelError, UsageError
from assay.core.types import Failure
from assay.models.http.wire import HttpUrl, parse_url


class Proxy(NamedTuple):
    """An HTTP proxy. `url` has no credentials, so it can be printed; `variable` is where it was found."""

    url: str
    variable: str
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"Proxy({self.url!r}, {self.variable!r})"

    @property
    def login(self) -> str:
        """The header line with user and password. Empty without them."""
        if not (self.user or self.password):
            return ""
        login = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return f"Proxy-Authorization: Basic {login}\r\n"

    def refused(self) -> ModelError:
        """Return the error for a proxy that answers 407. It halts the run."""
        problem = "does not accept the user and password" if self.login else "requires a user and password"
        message = f"the proxy {self.url} {problem} (407). Write {self.variable}=http://USER:PASSWORD@HOST:PORT"
        return ModelError(Failure("auth", message, http=407))


def proxy_for(url: str, environ: Mapping[str, str]) -> Proxy | None:
    """Return the proxy for requests to this URL, or None. Raises UsageError for a proxy that is not HTTP.

    The variable of the URL's scheme goes before ALL_PROXY, and lower case before upper case. As in curl, an empty
    variable counts as unset.
    """
    try:
        target = parse_url(url)
    except ValueError:
        return None
    scheme = "https" if target.tls else "http"
    for variable in (f"{scheme}_proxy", f"{scheme}_PROXY".upper(), "all_proxy", "ALL_PROXY"):
        value = environ.get(variable, "").strip()
        if value:
            break
    else:
        return None
    if _is_loopback(target.host) or is_excluded(target, environ.get("no_proxy") or environ.get("NO_PROXY", "")):
        return None
    return _parse_proxy(value, variable)


def is_excluded(target: HttpUrl, no_proxy: str) -> bool:
    """Return whether NO_PROXY names the host of a URL.

    Its items are separated by commas or spaces: `*`, a host, a domain (with or without a leading dot, its subdomains
    included), an IP address or a network such as 10.0.0.0/8, all but the last also with a port.
    """
    host = target.host.lower().rstrip(".")
    address = _ip_address(host)
    for item in filter(None, re.split(r"[\s,]+", no_proxy.lower())):
        if item == "*":
            return True
        name, port = _split_port(item)
        if port is not None and port != target.port:
            continue
        if address is not None:
            if _holds(name, address):
                return True
            continue
        name = name.removeprefix("*").strip(".")
        if name and (host == name or host.endswith(f".{name}")):
            return True
    return False


def _parse_proxy(value: str, variable: str) -> Proxy:
    text = value if "://" in value else f"http://{value}"
    try:
        parts = urlsplit(text)
        port = parts.port or 80
    except ValueError:
        # The message has no value: it may contain a password.
        raise UsageError(f"{variable} is no URL; write http://HOST:PORT") from None
    if parts.scheme.startswith("socks") or parts.scheme == "https":
        kind = "a proxy that is itself reached by https://" if parts.scheme == "https" else "a SOCKS proxy"
        raise UsageError(
            f"{variable} names {kind}, which assay does not support. Name an HTTP proxy in {variable}, such as "
            "http://HOST:PORT, or the endpoint's host in NO_PROXY"
        )
    if parts.scheme != "http" or not parts.hostname:
        raise UsageError(f"{variable} is no URL of an HTTP proxy; write http://HOST:PORT")
    return Proxy(
        f"http://{_host(parts)}:{port}",
        variable,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
    )


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    return f"[{host}]" if ":" in host else host


def _is_loopback(host: str) -> bool:
    name = host.lower().rstrip(".")
    address = _ip_address(name)
    if address is not None:
        return address.is_loopback
    return name == "localhost" or name.endswith(".localhost")


def _ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _holds(name: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    try:
        return address in ipaddress.ip_network(name, strict=False)
    except ValueError:
        return False


def _split_port(item: str) -> tuple[str, int | None]:
    """Split `host:8080` and `[::1]:8080`. A bare IPv6 address such as `::1` has no port."""
    if item.startswith("["):
        host, _, rest = item[1:].partition("]")
        port = rest.removeprefix(":")
    elif item.count(":") == 1:
        host, _, port = item.partition(":")
    else:
        return item, None
    return (host, int(port)) if port.isdecimal() else (host, None)
