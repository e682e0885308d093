"""A URL as a request needs it: whom to call, and what to ask for."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, urlsplit

_PORTS = {"http": 80, "https": 443}
_PATH = "/%:@!$&'()*+,;=~"
_QUERY = f"{_PATH}?"


class Target(NamedTuple):
    """`authority` is the Host header: the port is named where it is not the usual one."""

    host: str
    port: int
    tls: bool
    authority: str
    path: str


def target(url: str) -> Target:
    """Raises ValueError where the URL names no host, no usable port, or neither http nor https."""
    parts = urlsplit(url)
    usual = _PORTS.get(parts.scheme)
    if usual is None or not parts.hostname:
        raise ValueError(url)
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
    port = usual if parts.port is None else parts.port
    name = f"[{host}]" if ":" in host else host
    path = quote(parts.path or "/", _PATH) + (f"?{quote(parts.query, _QUERY)}" if parts.query else "")
    return Target(host, port, parts.scheme == "https", name if port == usual else f"{name}:{port}", path)
