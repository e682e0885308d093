"""Options of the network as people type them: --ca-file, --insecure, --max-wait, and what progress says about waits."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import UsageError
from assay.core.events import Event, Retrying
from assay.core.types import Failure
from assay.runner.progress import Progress

from servers.loopback import LoopbackServer, chat
from servers.tls import CA_FILE, server_context
from support.commands import run_here
from support.tasks import write_task


def say(body: dict[str, Any]) -> tuple[int, Any]:
    return 200, chat("the answer is 1")


def words(task: Path, url: str, *flags: str) -> list[str]:
    return ["task", str(task), "--model", "openai/fake", "--base-url", url, "--output-dir", "out", *flags]


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    return write_task(tmp_path / "task", 3)


@pytest.mark.parametrize("certificate", ["signed", "cert"])
def test_insecure_accepts_any_certificate_and_says_so_once(tmp_path: Path, task: Path, certificate: str) -> None:
    with LoopbackServer(say, tls=server_context(certificate)) as server:
        done = run_here(words(task, server.url, "--insecure"), tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("--insecure: certificates are not checked") == 1
        assert len(server.bodies) == 3


def test_a_certificate_that_is_not_trusted_stops_the_run_at_once_and_says_what_to_do(
    tmp_path: Path, task: Path
) -> None:
    """Retries would take half a minute here."""
    with LoopbackServer(say, tls=server_context()) as server:
        done = run_here(words(task, server.url, "--max-retries", "1000"), tmp_path)
        assert done.returncode == 3
        for part in ("certificate verify failed", "--ca-file", "SSL_CERT_FILE", "--insecure"):
            assert part in done.stderr
        # How the endpoint is reached is no part of the run: the same run goes on.
        done = run_here(words(task, server.url, "--ca-file", str(CA_FILE)), tmp_path)
        assert done.returncode == 0, done.stderr
        assert "certificates are not checked" not in done.stderr
        assert len(list(tmp_path.glob("out/assay/*/run.json"))) == 1


def test_a_certificate_file_of_the_environment_that_is_missing_is_named(
    tmp_path: Path, task: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gone.pem"))
    with LoopbackServer(say, tls=server_context()) as server:
        done = run_here(words(task, server.url), tmp_path)
    assert f"(SSL_CERT_FILE names {tmp_path / 'gone.pem'}, which is no file)" in done.stderr


@pytest.mark.parametrize("value", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_certificates_of_the_environment_are_trusted(
    tmp_path: Path, task: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    folder = tmp_path / "certificates"
    folder.mkdir()
    # OpenSSL finds a certificate in a folder by the hash of its subject.
    (folder / "cdcdaf03.0").write_bytes(CA_FILE.read_bytes())
    monkeypatch.setenv(value, str(CA_FILE if value == "SSL_CERT_FILE" else folder))
    with LoopbackServer(say, tls=server_context()) as server:
        done = run_here(words(task, server.url), tmp_path)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("content", "flags", "message"),
    [
        (None, (), "cannot be used: No such file or directory"),
        ("hello", (), "cannot be used: it has no certificate in PEM format"),
        (CA_FILE.read_text(), ("--insecure",), "--ca-file and --insecure exclude each other"),
    ],
)
def test_a_ca_file_that_cannot_be_used_is_refused_before_the_first_request(
    tmp_path: Path, task: Path, content: str | None, flags: tuple[str, ...], message: str
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    done = run_here(words(task, "https://localhost:9/v1", "--ca-file", str(path), *flags), tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


class Overloaded(LoopbackServer):
    """Answers 429 with a Retry-After to the first attempt of each prompt."""

    def __init__(self, retry_after: str) -> None:
        self._seen: set[str] = set()
        self._lock = threading.Lock()
        super().__init__(self._answer)
        self.headers["Retry-After"] = retry_after

    def _answer(self, body: dict[str, Any]) -> tuple[int, Any]:
        prompt = body["messages"][-1]["content"]
        with self._lock:
            is_first = prompt not in self._seen
            self._seen.add(prompt)
        return (429, {"error": {"message": "slow down"}}) if is_first else say(body)


@pytest.mark.parametrize(
    "retry_after",
    [
        "inf",
        "1e400",
        "86400",
        "nan",
        "-5",
        "soon",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "Fri, 31 Dec 99999 1:1:1 GMT",
    ],
)
def test_nobody_waits_longer_than_max_wait(tmp_path: Path, task: Path, retry_after: str) -> None:
    waits: list[float] = []

    def watch(event: Event) -> None:
        if isinstance(event, Retrying):
            waits.append(event.wait)

    with Overloaded(retry_after) as server:
        spec = assay.spec(
            "task",
            tasks=[str(task)],
            model="openai/fake",
            base_url=server.url,
            output_dir=str(tmp_path / "out"),
            max_wait=0.02,
        )
        run = assay.run(spec, [watch])
    assert run.summary.ok == 3
    assert len(waits) == 3
    assert all(0 <= wait <= 0.02 for wait in waits)


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "soon"])
def test_a_longest_wait_that_is_none_is_refused(tmp_path: Path, task: Path, value: str) -> None:
    done = run_here(words(task, "http://localhost:9/v1", "--max-wait", value), tmp_path)
    assert done.returncode == 2
    assert "max-wait" in done.stderr.replace("_", "-")


def test_progress_says_for_whom_and_how_long_calls_wait_and_says_it_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = Progress()
    for host, wait in itertools.product(("http://a/v1", "http://b/v1"), (60.0, 61.0, 4.9)):
        progress(Retrying(Failure("rate_limited", f"{host} answered 429: slow down"), wait))
    progress(Retrying(Failure("rate_limited", "http://c/v1 answered 429: slow down"), 4.9))
    assert capsys.readouterr().err.splitlines() == [
        "waiting 1 m 00 s: http://a/v1 answered 429: slow down",
        "waiting 1 m 00 s: http://b/v1 answered 429: slow down",
    ]
    assert progress.retries == 7


def test_python_takes_the_same_options(tmp_path: Path) -> None:
    with LoopbackServer(say, tls=server_context()) as server:
        run = assay.evaluate(
            [{"q": "x", "answer": "the answer is 1"}],
            model="openai/fake",
            prompt="{{ q }}",
            score=["exact_match"],
            target="answer",
            output_dir=tmp_path,
            base_url=server.url,
            ca_file=CA_FILE,
            max_wait=1,
            quiet=True,
        )
    assert run["exact_match"].value == 1.0
    with pytest.raises(UsageError, match="cannot be used: No such file"):
        assay.evaluate([{"q": "x"}], model="openai/fake", prompt="{{ q }}", base_url="https://a/v1", ca_file="gone.pem")
