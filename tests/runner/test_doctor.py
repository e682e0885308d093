"""`assay doctor` against real endpoints on loopback: what it finds, what it advises, and how many calls it takes."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core import registry
from assay.core.errors import UsageError
from assay.core.roles import About
from assay.core.spec import SuiteOptions, build
from assay.runner.doctor import MAX_CALLS, Diagnosis, Finding, examine

from servers.endpoint import Endpoint
from servers.fake_openai import FakeOpenAI
from servers.picky import PickyEndpoint
from support.commands import run_here
from support.terminal import Terminal


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without proxies and keys, in an empty folder."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(("OPENAI_", "SSL_CERT_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def diagnose(server: PickyEndpoint | Endpoint, *, probe_limits: int = 0, **options: Any) -> Diagnosis:
    async def main() -> Diagnosis:
        async with server:
            values = {"model": "openai/good", "base_url": server.url, **options}
            return await examine(build("doctor", SuiteOptions, values), probe_limits)

    return asyncio.run(main())


def of_model(diagnosis: Diagnosis) -> dict[str, tuple[str, str]]:
    """Level and text of the findings about the model, by name."""
    return {finding.name: (finding.level, finding.text) for finding in diagnosis.findings if finding.group == "model"}


def find(diagnosis: Diagnosis, name: str) -> Finding:
    (finding,) = [finding for finding in diagnosis.findings if finding.name == name]
    return finding


def test_a_good_endpoint_has_no_warnings_but_the_missing_key() -> None:
    server = PickyEndpoint()
    diagnosis = diagnose(server)
    findings = of_model(diagnosis)
    assert diagnosis.usable
    assert {name: level for name, (level, _) in findings.items() if level != "ok"} == {"key": "warning"}
    assert findings["endpoint"][1] == f"{server.url} answers"
    assert findings["parameters"][1] == "takes temperature, max_tokens, seed, stop, system role"
    assert findings["JSON schema"][1] == "replies fit a given schema"
    assert findings["seed"][1] == "the same seed gave the same reply twice"
    assert findings["embeddings"][1] == "returns vectors of texts"
    assert diagnosis.calls == len(server.requests) == 5


@pytest.mark.parametrize(
    ("rejects", "adapted"),
    [
        (("temperature",), ["no temperature"]),
        (
            ("max_tokens", "temperature", "seed", "stop", "system"),
            [
                "max_completion_tokens instead of max_tokens",
                "no temperature",
                "no seed",
                "no stop",
                "developer instead of system role",
            ],
        ),
    ],
    ids=["one", "all"],
)
def test_rejected_parameters_are_named_and_calls_stay_within_eight(
    rejects: tuple[str, ...], adapted: list[str]
) -> None:
    """Each rejected request counts. Checks that do not fit in any more are named."""
    server = PickyEndpoint(*rejects)
    diagnosis = diagnose(server)
    finding = find(diagnosis, "parameters")
    assert finding.level == "warning"
    assert finding.text.endswith(f"Requests are sent with: {', '.join(adapted)}")
    assert "Replies vary" in finding.advice
    assert diagnosis.usable
    assert diagnosis.calls == len(server.requests) <= MAX_CALLS


def test_checks_beyond_the_eighth_call_are_left_out_by_name() -> None:
    """Four adaptations leave three calls: the schema, and the pair for the seed."""
    server = PickyEndpoint("max_tokens", "temperature", "stop", "system")
    diagnosis = diagnose(server)
    assert diagnosis.calls == len(server.requests) == MAX_CALLS
    assert of_model(diagnosis)["embeddings"] == ("warning", "not tried: the 8 calls of a diagnosis are spent")


@pytest.mark.parametrize("rejects_from", range(1, 8))
@pytest.mark.parametrize("model", ["openai/good", "openai-completions/good"])
@pytest.mark.parametrize("tokenizes", [True, False])
def test_no_endpoint_gets_more_than_eight_requests(rejects_from: int, model: str, tokenizes: bool) -> None:
    """Parameters may be rejected late, and likelihoods may need the server's tokenizer. The server counts."""
    server = PickyEndpoint("max_tokens", "temperature", "seed", "stop", "system")
    server.rejects_from = rejects_from
    server.tokenizes = tokenizes
    diagnosis = diagnose(server, model=model)
    assert diagnosis.usable
    assert diagnosis.calls == len(server.arrived) <= MAX_CALLS


def test_an_endpoint_with_a_tokenizer_is_measured_within_eight_requests() -> None:
    server = PickyEndpoint()
    server.tokenizes = True
    diagnosis = diagnose(server, model="openai-completions/good")
    findings = of_model(diagnosis)
    assert findings["likelihoods"] == ("ok", "measured: log p(' blue' | 'test') = -2.50")
    assert findings["seed"] == ("ok", "the same seed gave the same reply twice")
    assert findings["embeddings"] == ("warning", "not tried: the 8 calls of a diagnosis are spent")
    assert diagnosis.calls == len(server.arrived) == MAX_CALLS


def test_a_wrong_key_is_one_call_and_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-and-secret")
    server = PickyEndpoint(key="sk-right")
    diagnosis = diagnose(server)
    assert not diagnosis.usable
    assert len(server.requests) == diagnosis.calls == 1
    present, refused = [finding for finding in diagnosis.findings if finding.name == "key"]
    assert (present.level, present.text) == ("ok", "OPENAI_API_KEY is set")
    assert (refused.level, "answered 401: Incorrect API key provided" in refused.text) == ("problem", True)
    assert refused.advice == "Use another key, or ask for access to this model"
    assert "wrong-and-secret" not in repr(diagnosis)


def test_a_key_with_a_line_break_is_found_without_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret\n")
    diagnosis = diagnose(PickyEndpoint())
    assert find(diagnosis, "key").level == "problem"
    assert "secret" not in repr(diagnosis)


def test_an_unknown_model_is_named() -> None:
    finding = find(diagnose(PickyEndpoint(model="other")), "model name")
    assert (finding.level, "`good` does not exist" in finding.text) == ("problem", True)


def test_an_endpoint_that_nobody_listens_at_is_a_problem() -> None:
    spec = build("doctor", SuiteOptions, {"model": "openai/good", "base_url": "http://127.0.0.1:9/v1"})
    diagnosis = asyncio.run(examine(spec))
    finding = find(diagnosis, "endpoint")
    assert (finding.level, diagnosis.usable, diagnosis.calls) == ("problem", False, 1)
    assert "cannot be reached" in finding.text
    assert "whether the server runs" in finding.advice


def test_an_endpoint_that_never_answers_is_a_problem_after_the_timeout() -> None:
    server = Endpoint()
    server.open.clear()
    finding = find(diagnose(server, timeout=0.3), "endpoint")
    assert (finding.level, "longer --timeout" in finding.advice) == ("problem", True)


def _without_schema(server: PickyEndpoint) -> None:
    server.rejects = ("response_format",)


def _bad_schema(server: PickyEndpoint) -> None:
    server.fits_schema = False


def _random(server: PickyEndpoint) -> None:
    server.honours_seed = False


def _uncounted(server: PickyEndpoint) -> None:
    server.usage = None


def _thinking(server: PickyEndpoint) -> None:
    server.text, server.message = "", {"reasoning_content": "Let me think about that"}


@pytest.mark.parametrize(
    ("change", "name", "text"),
    [
        (_without_schema, "JSON schema", "is not taken: "),
        (_bad_schema, "JSON schema", "response_format is taken, but the reply does not fit: 'ready'"),
        (_random, "seed", "the same seed gave two different replies"),
        (_uncounted, "tokens", "the endpoint does not count tokens"),
        (_thinking, "first reply", "but the reply is empty (all 64 tokens went into its reasoning)"),
    ],
)
def test_missing_abilities_are_warnings_with_advice(
    change: Callable[[PickyEndpoint], None], name: str, text: str
) -> None:
    server = PickyEndpoint()
    change(server)
    diagnosis = diagnose(server)
    finding = find(diagnosis, name)
    assert (finding.level, diagnosis.usable) == ("warning", True)
    assert text in finding.text
    assert finding.advice


def test_a_schema_that_the_provider_leaves_out_is_not_said_to_be_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "schemaless.py").write_text(
        "from assay import CHAT, About, Response\n"
        "ABOUT = About(summary='any text', needs='nothing', can=frozenset({CHAT}), example='schemaless/x')\n"
        "class Model:\n"
        "    can, endpoint = ABOUT.can, 'schemaless:1'\n"
        "    async def send(self, request, seed):\n"
        "        left_out = ('no response_format',) if 'response_format' in request.params else ()\n"
        "        return Response('blue', adapted=left_out)\n"
        "    async def close(self): pass\n"
        "def connect(connection): return Model()\n"
    )
    (tmp_path / "schemaless-1.dist-info").mkdir()
    (tmp_path / "schemaless-1.dist-info" / "METADATA").write_text("Name: schemaless\nVersion: 1\n")
    (tmp_path / "schemaless-1.dist-info" / "entry_points.txt").write_text("[assay.models]\nschemaless = schemaless\n")
    monkeypatch.syspath_prepend(tmp_path)
    finding = find(diagnose(PickyEndpoint(), model="schemaless/x"), "JSON schema")
    assert (finding.level, finding.text) == ("warning", "the provider leaves response_format out")
    assert finding.advice


def test_a_chat_endpoint_without_embeddings_and_likelihoods_is_fine() -> None:
    server = PickyEndpoint()
    server.embeds = False
    diagnosis = diagnose(server)
    assert find(diagnosis, "embeddings").text == "none from this model"
    assert find(diagnosis, "likelihoods").text == "none from this model"
    assert find(diagnosis, "likelihoods").level == "ok"


def test_an_endpoint_without_logprobs_is_found_by_asking() -> None:
    """`openai-completions` could measure likelihoods, and this endpoint sends none."""
    server = PickyEndpoint()
    finding = find(diagnose(server, model="openai-completions/good"), "likelihoods")
    assert (finding.level, "cannot be measured" in finding.text) == ("warning", True)
    assert len(server.arrived) <= MAX_CALLS
    assert finding.advice == "Multiple-choice and perplexity tasks cannot run with this model"


def test_limits_are_probed_only_on_request_and_up_to_the_first_429() -> None:
    """Five calls of the diagnosis, then 1 + 2 + 4 that are answered; of the next eight, six are too many."""
    server = PickyEndpoint(limit=14)
    diagnosis = diagnose(server, probe_limits=32)
    limits = [finding for finding in diagnosis.findings if finding.group == "limits"]
    assert limits[-1].level in ("warning", "ok")
    if limits[-1].level == "warning":  # unless the server slowed down before
        assert "rate_limited" in limits[-1].text
    assert "--concurrency" in limits[-1].advice
    assert diagnosis.calls == len(server.requests) <= 5 + 2 * 32


def test_models_without_a_network_have_fewer_lines(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("def answer(prompt, params):\n    return 'ready'\n")
    (tmp_path / "one.jsonl").write_text('{"prompt": "only this", "text": "x"}\n')
    (tmp_path / "any.jsonl").write_text('{"text": "x"}\n')
    for name in ("python/model.py:answer", "script/any.jsonl"):
        diagnosis = asyncio.run(examine(build("doctor", SuiteOptions, {"model": name})))
        assert (diagnosis.usable, diagnosis.calls) == (True, 1)
        assert list(of_model(diagnosis)) == ["first reply", "likelihoods"]
        assert "network" not in {finding.group for finding in diagnosis.findings}
    diagnosis = asyncio.run(examine(build("doctor", SuiteOptions, {"model": "script/one.jsonl"})))
    assert (diagnosis.usable, list(of_model(diagnosis))) == (True, ["first reply"])


def test_a_local_model_is_examined_without_a_server(weights: Path) -> None:
    pytest.importorskip("xllamacpp", reason="the extra 'local' is not installed")
    diagnosis = asyncio.run(examine(build("doctor", SuiteOptions, {"model": "local/smollm2"})))
    assert (diagnosis.usable, diagnosis.calls) == (True, 5)
    findings = of_model(diagnosis)
    assert list(findings) == ["first reply", "parameters", "JSON schema", "seed", "likelihoods"]
    # The first reply is a warning on a machine that is so busy that it takes 20 seconds.
    assert {level for name, (level, _) in findings.items() if name != "first reply"} == {"ok"}


def test_what_cannot_be_connected_is_a_problem_and_a_wrong_name_is_wrong_use() -> None:
    diagnosis = asyncio.run(examine(build("doctor", SuiteOptions, {"model": "script/missing.jsonl"})))
    assert "there is no file 'missing.jsonl'" in find(diagnosis, "connection").text
    for name in ("opnai/x", "gpt"):
        with pytest.raises(UsageError):
            asyncio.run(examine(build("doctor", SuiteOptions, {"model": name})))


def machine(**options: Any) -> Diagnosis:
    return asyncio.run(examine(build("doctor", SuiteOptions, options)))


def test_proxies_are_shown_without_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://me:password@proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "localhost,.corp")
    text = find(machine(), "proxy").text
    assert text == "HTTPS_PROXY=http://…@proxy.example:3128, NO_PROXY=localhost,.corp"
    monkeypatch.setenv("HTTP_PROXY", "http://me:password@proxy.example:3128")
    assert find(diagnose(PickyEndpoint()), "proxy").text.endswith("; not used for 127.0.0.1")


def test_certificates_that_cannot_be_used_are_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ca.pem").write_text("not a certificate")
    for path in (tmp_path / "ca.pem", tmp_path / "missing.pem"):
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        finding = find(machine(), "certificates")
        assert (finding.level, f"SSL_CERT_FILE={path} cannot be used" in finding.text) == ("problem", True)


def test_an_output_folder_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    assert find(machine(output_dir=str(tmp_path / "new")), "output folder").level == "ok"
    assert not (tmp_path / "new").exists()
    finding = find(machine(output_dir="/proc/nowhere"), "output folder")
    assert (finding.level, "--output-dir" in finding.advice) == ("problem", True)


def test_the_command_prints_lines_or_json_and_exits_with_the_verdict(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        words = ["doctor", "--model", "openai/fake", "--base-url", server.url]
        done = run_here(words, tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"✓ endpoint       {server.url} answers" in done.stdout
        assert done.stdout.splitlines()[-1] == "0 problems · 2 warnings · 5 calls to openai/fake"
        assert len(server.stats().requests) <= MAX_CALLS
        document = json.loads(run_here([*words, "--json"], tmp_path).stdout)
        server.kill()
    assert document["usable"] is True
    assert {finding["level"] for finding in document["findings"]} == {"ok", "warning"}
    done = run_here(words, tmp_path)
    assert (done.returncode, "✗ endpoint" in done.stdout) == (1, True)
    assert run_here(["doctor", "--model", "opnai/x"], tmp_path).returncode == 2


def test_lines_are_wrapped_on_a_terminal(tmp_path: Path) -> None:
    with Terminal("doctor", "--model", "openai/x", "--base-url", "http://127.0.0.1:9/v1", cwd=tmp_path) as screen:
        assert screen.end() == 1
        assert all(len(line) <= 80 for line in screen.text.splitlines())
        assert "✗ endpoint" in screen.text


@pytest.mark.parametrize("name", registry.names("model"))
def test_providers_that_name_a_key_list_its_variable(name: str) -> None:
    """`About.needs` tells people, `About.keys` tells the doctor."""
    about: About = registry.find("model", name).ABOUT
    named = {word.strip(".,;()$") for word in about.needs.split() if word.strip(".,;()$").endswith("_API_KEY")}
    assert named <= set(about.keys)
