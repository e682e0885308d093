"""Base URLs that no request can be sent to, and names of models that lead nowhere: refused before the first request."""

from __future__ import annotations

from pathlib import Path

import pytest

import assay
from assay.core.errors import UsageError
from assay.core.roles import Role, check_url, lacks, split_urls
from assay.engine.connect import connect as connect_role

from servers.loopback import LoopbackServer, chat
from support.commands import run_here
from support.tasks import write_task

EMPTY = "--base-url is empty, perhaps because a variable of the shell is not set"
GOOD = "http://127.0.0.1:9/v1"


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("OPENAI_BASE_URL", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)
    return write_task(tmp_path / "task", 3)


@pytest.mark.parametrize(
    "flags",
    [
        ("--model", "openai/m", "--base-url", ""),
        ("--model", "openai/m", "--base-url", " "),
        ("--model", "openai/m", "--base-url", GOOD, "--base-url", ""),
        ("--model", "openai/m", "--model-args", "base_url="),
        ("--model", "local-completions", "--model_args", "model=m,base_url="),
        ("--model", "openai/m", "--config", "config.yaml"),
    ],
)
def test_an_empty_base_url_is_not_the_address_of_openai(tmp_path: Path, task: Path, flags: tuple[str, ...]) -> None:
    (tmp_path / "config.yaml").write_text('base_url: ""\n')
    done = run_here(["task", str(task), *flags, "--output-dir", "out"], tmp_path)
    assert done.returncode == 2, done.stderr
    assert EMPTY in done.stderr or "needs the address of its server" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("base_url", ["", [], [GOOD, ""]])
def test_an_empty_base_url_is_refused_in_python(base_url: str | list[str]) -> None:
    with pytest.raises(UsageError, match="--base-url is empty"):
        assay.evaluate([{"q": "x"}], model="openai/m", prompt="{{ q }}", base_url=base_url)


@pytest.mark.parametrize("option", [{"base_url": ""}, {"judge_base_url": ""}])
def test_the_empty_option_is_named(option: dict[str, str]) -> None:
    (name,) = option
    with pytest.raises(UsageError, match=f"^--{name.replace('_', '-')} is empty"):
        assay.spec("memory-eval", **option)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("127.0.0.1:8901/v1", "a base URL begins with http:// or https://, not '127.0.0.1:8901/v1'"),
        ("file:///etc/passwd", "begins with http:// or https://"),
        ("http://", "has no host"),
        ("http:///v1", "has no host"),
        ("http://:80/v1", "has no host"),
        ("http://::1:8903/v1", "IPv6 addresses stand in brackets: http://[::1]:8903/v1"),
        ("http://a:99999/v1", "has the port '99999'; ports are numbers from 1 to 65535"),
        ("http://a:abc/v1", "has the port 'abc'"),
        ("http://a b/v1", "has a space or a control character in it"),
        ("http://a/v1?key=sk-1", "the base URL 'http://a/v1' has a query or a fragment behind it. Remove it"),
        ("http://a/v1?api-version=1&api_key=sk-1", "has a query or a fragment behind it"),
        ("http://a/v1#x", "has a query or a fragment behind it"),
        ("http://user:secret@a/v1", "Remove the credentials from the base URL"),
    ],
)
def test_a_malformed_base_url_ends_the_command_at_once(tmp_path: Path, task: Path, url: str, message: str) -> None:
    words = ["task", str(task), "--model", "openai/m", "--output-dir", "out"]
    for urls in ([url], [GOOD, url], [url, GOOD]):
        flags = [word for each in urls for word in ("--base-url", each)]
        done = run_here([*words, *flags], tmp_path)
        assert done.returncode == 2, done.stderr
        assert message in done.stderr
        assert "sk-1" not in done.stderr
        assert "secret" not in done.stderr
        assert not (tmp_path / "out").exists()


def test_a_malformed_url_of_the_environment_is_refused_too(
    tmp_path: Path, task: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://a:abc/v1")
    with pytest.raises(UsageError, match="has the port 'abc'"):
        assay.run(assay.spec("task", tasks=[str(task)], model="openai/m", output_dir=str(tmp_path / "out")))


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("HTTP://A.example/v1", "http://A.example/v1"),
        ("https://[::1]:8903/v1", "https://[::1]:8903/v1"),
        ("http://bücher.example:65535", "http://bücher.example:65535"),
    ],
)
def test_a_base_url_that_can_be_used_is_taken(url: str, same: str) -> None:
    assert check_url(url) == same
    assert split_urls(f"{url}, {url},http://b") == [same, "http://b"]


def test_the_scheme_may_have_capital_letters(tmp_path: Path, task: Path) -> None:
    with LoopbackServer(lambda _: (200, chat("the answer is 1"))) as server:
        url = server.url.replace("http", "HTTP")
        words = ["task", str(task), "--model", "openai/m", "--base-url", url, "--output-dir", "out"]
        assert run_here(words, tmp_path).returncode == 0
        assert len(server.bodies) == 3


@pytest.mark.parametrize("model", ["local-chat-completions", "local-completions"])
def test_a_local_model_of_the_harness_needs_an_address(
    tmp_path: Path, task: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    words = ["task", str(task), "--model", model, "--model_args", "model=m", "--output-dir", "out"]
    done = run_here(words, tmp_path)
    assert done.returncode == 2
    assert f"--model {model} needs the address of its server: --model_args base_url=http://" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("OpenAI/gpt-4o", "there is no provider named 'OpenAI'; did you mean 'openai'?"),
        ("gpt-4o", "write PROVIDER/NAME, such as openai/gpt-4o."),
        ("claude-opus-4", "write PROVIDER/NAME, such as anthropic/claude-opus-4."),
        ("smollm2", "write PROVIDER/NAME, such as local/smollm2."),
    ],
)
def test_a_name_without_a_known_provider_gets_advice(tmp_path: Path, task: Path, model: str, message: str) -> None:
    done = run_here(["task", str(task), "--model", model, "--output-dir", "out"], tmp_path)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("model", "ability", "instead"),
    [
        ("openai/m", "loglikelihood", "openai-completions/m"),
        ("openai/m", "loglikelihood", "vllm/m, hf/m or local/m"),
        ("python/f.py:g", "loglikelihood", "vllm/NAME, hf/NAME or local/NAME"),
        ("openai-completions/m", "chat", "openai/m"),
        ("anthropic/m", "embeddings", "openai/NAME"),
    ],
)
def test_a_model_that_lacks_an_ability_is_answered_with_one_that_has_it(model: str, ability: str, instead: str) -> None:
    message = lacks(model, {ability})
    assert message.startswith(f"{model} cannot do {ability}, which this run needs. ")
    assert instead in message


@pytest.mark.parametrize(
    ("host", "endpoint"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("box", "http://box:11434/v1"),
        ("box:1234", "http://box:1234/v1"),
        ("0.0.0.0:1234", "http://127.0.0.1:1234/v1"),
        (":1234", "http://127.0.0.1:1234/v1"),
        ("[::1]:1234", "http://[::1]:1234/v1"),
        ("https://box/ollama/", "https://box/ollama/v1"),
    ],
)
def test_ollama_is_where_its_own_variable_says(monkeypatch: pytest.MonkeyPatch, host: str, endpoint: str) -> None:
    from assay.core.roles import Connection
    from assay.models.ollama import connect

    monkeypatch.setenv("OLLAMA_HOST", host)
    assert connect(Connection(name="m")).endpoint == endpoint
    assert connect(Connection(name="m", base_url="http://a/v1")).endpoint == "http://a/v1"


@pytest.mark.parametrize("url", ["127.0.0.1:8901/v1", "file:///etc/passwd", f"{GOOD},127.0.0.1:8901/v1"])
def test_the_base_url_of_a_role_is_checked_too(url: str) -> None:
    with pytest.raises(UsageError, match="a base URL begins with http:// or https://"):
        connect_role(assay.spec("task", tasks=["t"], model="openai/m"), Role("openai/m", base_url=url))


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:9/v1?api_key=0f8fad5b", "me:0f8fad5b@127.0.0.1:9/v1", "http://:80/v1?api-version=0f8fad5b"],
)
def test_a_refused_base_url_is_shown_without_its_secrets(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_url(url)
    assert "0f8fad5b" not in str(refused.value)
