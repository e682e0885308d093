"""The real `proxy.py` as a process of its own, for a `with` statement.

    with ProxyServer(user="ann", password="secret") as proxy:
        proxy.url         # http://127.0.0.1:40123
        proxy.requests()  # ["POST models.example:8000", "CONNECT models.example:8443"]

The proxy resolves every name below `.example` to 127.0.0.1. No one else does, so an answer from such a name came through
the proxy. By hand: `python tests/servers/proxies.py LOG`, which prints the port.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from proxy import Proxy
from proxy.http.proxy import HttpProxyBasePlugin

# Where the proxy's own processes find the log.
LOG = "ASSAY_TEST_PROXY_LOG"


class CountRequests(HttpProxyBasePlugin):
    """A plugin of proxy.py: writes a line for each request, and knows names below `.example`."""

    def resolve_dns(self, host: str, port: int) -> tuple[str | None, Any]:
        return ("127.0.0.1", None) if host.endswith(".example") else (None, None)

    def handle_client_request(self, request: Any) -> Any:
        # One write below 4 KB with O_APPEND is one line, whichever process writes it.
        line = b"%b %b:%d\n" % (request.method, request.host, request.port)
        descriptor = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, line)
        os.close(descriptor)
        return request


class ProxyServer:
    """The proxy in a process of its own. With a user it answers 407 to whoever does not say who they are."""

    def __init__(self, user: str = "", password: str = "") -> None:
        self._login = [f"{user}:{password}"] if user else []
        self.port = 0

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory()
        self._log = Path(self._folder.name) / "requests"
        self._log.touch()
        command = [sys.executable, str(Path(__file__)), str(self._log), *self._login]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate("")  # the end of its input ends the proxy and its processes
        self._folder.cleanup()

    @property
    def url(self) -> str:
        """The address without user and password."""
        return f"http://127.0.0.1:{self.port}"

    def requests(self) -> list[str]:
        """What arrived since the last `forget`: method and host of each request."""
        return self._log.read_text().splitlines()

    def forget(self) -> None:
        """Forget what arrived."""
        self._log.write_text("")


def main() -> None:
    """Serve until the input ends."""
    log, *login = sys.argv[1:]
    os.environ[LOG] = log
    flags = ["--hostname", "127.0.0.1", "--port", "0", "--num-acceptors", "1", "--num-workers", "1"]
    flags += ["--timeout", "600", "--log-level", "ERROR"]
    if login:
        flags += ["--basic-auth", login[0]]
    with Proxy(flags, plugins=[CountRequests]) as proxy:
        while not proxy.flags.port:
            time.sleep(0.01)
        print(proxy.flags.port, flush=True)  # noqa: T201 - whoever started us reads it
        sys.stdin.read()


if __name__ == "__main__":
    main()
