"""Every suite's smallest run by every way to an endpoint: proxies, TLS with a CA of its own, IPv6.

The name models.example is known to the proxy only. A request that did not go through the proxy would get no answer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

import assay

from servers.judging import JudgingServer
from servers.proxies import ProxyServer
from servers.tls import CA_FILE, server_context
from support.damaged_runs import SMALL_RUNS, SmallRun

HOST = "models.example"


def _first_hit(text: str) -> str:
    hits = [line for line in text.splitlines() if line.startswith("- ")]
    return hits[0].rpartition(": ")[2] if hits else "Not mentioned."


REPLIES: dict[str, Callable[[str], str]] = {
    "task": lambda text: text.rsplit("\n", 1)[-1],
    "pipeline": lambda text: text.partition(" ")[2],
    "hop": lambda _: '{"result": "hello"}',
    "memory-test": _first_hit,
    "memory-eval": lambda _: json.dumps({"answer": "Not mentioned in memory.", "citations": []}),
    "evaluate": lambda text: str(int(text) * 2),
    "calibration": lambda _: "This is no question of a judge.",
}
RUNS = {small.suite: small for small in SMALL_RUNS}


@pytest.fixture(scope="module")
def open_proxy() -> Iterator[ProxyServer]:
    with ProxyServer() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def closed_proxy() -> Iterator[ProxyServer]:
    with ProxyServer("ann", "open:sesame@once") as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(("OPENAI_", "SSL_CERT_")):
            monkeypatch.delenv(name)


class Route(NamedTuple):
    """A way to a server. `has_proxy` and `has_password` choose the proxy."""

    tls: bool = False
    host: str = "127.0.0.1"
    name: str = ""
    has_proxy: bool = False
    has_password: bool = False
    options: Mapping[str, Any] = MappingProxyType({})


ROUTES = {
    "proxy": Route(name=HOST, has_proxy=True),
    "proxy with password": Route(name=HOST, has_proxy=True, has_password=True),
    "TLS through proxy": Route(tls=True, name=HOST, has_proxy=True, options={"ca_file": str(CA_FILE)}),
    "TLS through proxy with password": Route(
        tls=True, name=HOST, has_proxy=True, has_password=True, options={"ca_file": str(CA_FILE)}
    ),
    "TLS with its own CA": Route(tls=True, options={"ca_file": str(CA_FILE)}),
    "IPv6": Route(host="::1", name="[::1]"),
}


def start(small: SmallRun, folder: Path, url: str, **options: Any) -> assay.Run:
    """Start a small run in a folder with an endpoint as its model and its judge."""
    for name, text in small.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if small.suite == "evaluate":
        rows = [{"n": n, "answer": n * 2} for n in range(4)]
        return assay.evaluate(
            rows,
            model="openai/fake",
            prompt="{{ n }}",
            score=["exact_match"],
            target="answer",
            output_dir="out",
            base_url=url,
            quiet=True,
            **options,
        )
    judge = {"judge": "openai/fake"} if small.suite in ("memory-eval", "calibration") else {}
    model = {} if small.suite == "calibration" else {"model": "openai/fake"}
    return small.start(base_url=url, **model, **judge, **options)


@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
@pytest.mark.parametrize("suite", RUNS)
def test_every_suite_reaches_its_endpoint(
    suite: str,
    route: Route,
    open_proxy: ProxyServer,
    closed_proxy: ProxyServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    proxy = closed_proxy if route.has_password else open_proxy
    proxy.forget()
    if route.has_proxy:
        login = "ann:open%3Asesame%40once@" if route.has_password else ""
        monkeypatch.setenv("HTTPS_PROXY" if route.tls else "http_proxy", f"http://{login}127.0.0.1:{proxy.port}")

    def reply(body: dict[str, Any]) -> str:
        return REPLIES[suite](body["messages"][-1]["content"])

    tls = server_context() if route.tls else None
    with JudgingServer(other=reply, host=route.host, tls=tls) as server:
        url = server.url_of(route.name or route.host)
        run = start(RUNS[suite], tmp_path, url, **route.options)
    assert run.summary.state == "finished", run.summary.first_failures
    assert run.summary.infra_error == 0
    asked = len(server.bodies)
    assert asked == run.summary.spent.calls > 0
    address = url.partition("//")[2].removesuffix("/v1")
    if not route.has_proxy:
        assert proxy.requests() == []
    elif route.tls:
        # The proxy sees connections only. No other way leads to models.example.
        assert 0 < len(proxy.requests()) <= asked
        assert set(proxy.requests()) == {f"CONNECT {address}"}
    else:
        assert proxy.requests() == [f"POST {address}"] * asked
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"sesame" in content for content in files)
