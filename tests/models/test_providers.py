"""Each provider against a server of its dialect: keys and addresses, parameters, refusals, reasoning, embeddings."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core import registry
from assay.core.errors import ModelError, UsageError
from assay.core.protocols import Context
from assay.core.roles import Connection, Role, with_provider
from assay.core.spec import RunSpec
from assay.core.types import Request, Response, SdkRequest, Usage
from assay.engine.connect import connect
from assay.engine.prices import read_prices
from assay.models import gemini, openai_responses
from assay.models.http.sdk_requests import build_reply

from servers.dialects import (
    BROKEN,
    FILTERED,
    KEY,
    LIMITED,
    OVERFLOW,
    REFUSED,
    Dialect,
    DialectServer,
    Messages,
    Reply,
    Result,
    Seen,
)
from servers.dialects.anthropic import Anthropic
from servers.dialects.every import DIALECTS, OPEN_SERVERS, VENDORS, WITHOUT_DIALECT
from servers.dialects.gemini import Gemini
from servers.dialects.openai import Azure, OpenAIChat, Responses
from suites import shared
from support.gateway_run import GatewayRun, post

KEYS = {
    "openai": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
    "azure": "AZURE_OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
}
URLS = {
    "openai": "OPENAI_BASE_URL",
    "openai-responses": "OPENAI_BASE_URL",
    "azure": "AZURE_OPENAI_ENDPOINT",
    "anthropic": "ANTHROPIC_BASE_URL",
    "gemini": "GOOGLE_GEMINI_BASE_URL",
}
AZURE_PATH = "/openai/deployments/d?api-version="
THOUGHT = Reply("Rex", "A dog. Rex is one.")
every_dialect = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
every_vendor = pytest.mark.parametrize("dialect", VENDORS.values(), ids=VENDORS)
every_open_server = pytest.mark.parametrize("dialect", OPEN_SERVERS.values(), ids=OPEN_SERVERS)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's keys and addresses."""
    for name in [*os.environ]:
        if name.endswith(("_API_KEY", "_BASE_URL", "_ENDPOINT", "_API_VERSION", "_TOKEN")):
            monkeypatch.delenv(name)


def said(_: Messages) -> Reply:
    return THOUGHT


def ask(
    provider: str,
    name: str,
    base_url: str | None = None,
    count: int = 1,
    sdk: SdkRequest | None = None,
    **params: Any,
) -> list[Response]:
    """The replies to `count` equal questions, one after the other."""

    async def main() -> list[Response]:
        connection = Connection(name=name, base_url=base_url, timeout=20)
        model = registry.find("model", provider).connect(connection)
        messages = [{"role": "system", "content": "Be terse."}, {"role": "user", "content": "Name a dog."}]
        request = Request(model="m", endpoint=model.endpoint, messages=messages, params=params, sdk=sdk)
        try:
            return [await model.send(request, seed) for seed in range(count)]
        finally:
            await model.close()

    return asyncio.run(main())


def test_every_provider_with_an_api_of_its_own_has_a_dialect() -> None:
    """A new provider fails here until it has a dialect, or a reason why it needs none."""
    with_dialect = {dialect.provider for dialect in DIALECTS.values()}
    assert with_dialect | WITHOUT_DIALECT.keys() == registry.built_in("model")
    assert not with_dialect & WITHOUT_DIALECT.keys()


@every_dialect
def test_a_provider_reads_its_own_variables_and_keeps_reasoning_apart(
    dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key and the address come from the variables of the vendor's SDK."""
    with DialectServer(dialect, said) as server:
        monkeypatch.setenv(KEYS[dialect.provider], KEY)
        monkeypatch.setenv(URLS[dialect.provider], server.url)
        (reply,) = ask(dialect.provider, dialect.name, temperature=0, max_tokens=50, stop=["\n\n"])
        assert server.rejected == []
    assert reply.usage is not None
    assert reply.usage.input > 0
    assert reply.address.startswith(server.root)
    if reply.text.startswith("<think>"):
        return  # SGLang without a parser: the caller separates it, for every suite
    assert reply.text == "Rex"
    assert reply.usage.reasoning == 6
    assert reply.usage.output == 2 + 6
    assert reply.reasoning == ("" if type(dialect) in (OpenAIChat, Azure) else THOUGHT.reasoning)


FAULTS = [
    (FILTERED, "refusal"),
    (REFUSED, "refusal"),
    (OVERFLOW, "context_overflow"),
    (LIMITED, "rate_limited"),
    (BROKEN, "rejected"),
]


@every_vendor
def test_the_faults_of_a_vendor_are_told_apart(dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the words that the vendor documents. Only an overload is tried again."""
    kinds = []
    monkeypatch.setenv(KEYS[dialect.provider], KEY)
    for fault, _ in FAULTS:
        with DialectServer(dialect, lambda _, fault=fault: Reply(fault=fault)) as server:  # type: ignore[misc]
            with pytest.raises(ModelError) as told:
                ask(dialect.provider, dialect.name, server.url)
            kinds.append((fault, told.value.failure.kind))
            assert told.value.retry is (fault == LIMITED)
    assert kinds == FAULTS


@every_open_server
def test_servers_of_open_models_overflow(dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with DialectServer(dialect, lambda _: Reply(fault=OVERFLOW)) as server, pytest.raises(ModelError) as told:
        ask(dialect.provider, dialect.name, server.url)
    assert told.value.failure.kind == "context_overflow"


ADAPTED = {
    "openai": ("max_completion_tokens instead of max_tokens", "no temperature", "no stop"),
    "openai-responses": ("no seed", "no stop", "no temperature"),
    "azure": ("max_completion_tokens instead of max_tokens", "no temperature", "no stop"),
    "anthropic": ("no seed", "no temperature", "no top_p"),
    "gemini": (),
}


@every_vendor
def test_requests_adapt_to_a_reasoning_model_once(dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the model rejects is left out, told with every reply, and not tried again with the next request."""
    monkeypatch.setenv(KEYS[dialect.provider], KEY)
    params: dict[str, Any] = {"temperature": 0, "max_tokens": 50, "stop": ["END"]}
    if dialect.provider == "anthropic":
        params["top_p"] = 0.9
    with DialectServer(dialect, said) as server:
        replies = ask(dialect.provider, dialect.reasoner, server.url, count=2, **params)
        rejected = len(server.rejected)
        assert len(server.seen) == 2 + rejected
    assert {reply.adapted for reply in replies} == {ADAPTED[dialect.provider]}
    assert all(reply.text == "Rex" for reply in replies)


def test_an_effort_becomes_a_budget_where_a_model_takes_no_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claude Haiku 4.5 and Gemini 2.5 take a number of tokens, on top of those of the answer."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    with DialectServer(Anthropic(), said) as server:
        (reply,) = ask("anthropic", Anthropic.budgeted, server.url, max_tokens=50, reasoning_effort="medium")
        sent = server.seen[-1].body
    assert sent["thinking"] == {"type": "enabled", "budget_tokens": 8192}
    assert sent["max_tokens"] == 50 + 8192
    assert "output_config" not in sent
    assert reply.adapted == ("no seed", "a budget of reasoning tokens instead of an effort")
    with DialectServer(Gemini(), said) as server:
        (reply,) = ask("gemini", Gemini.name, server.url, reasoning_effort="xhigh")
        sent = server.seen[-1].body
    assert sent["generationConfig"]["thinkingConfig"] == {"includeThoughts": True, "thinkingBudget": 24576}
    assert reply.adapted == (
        "reasoning_effort high instead of xhigh",
        "a budget of reasoning tokens instead of a level",
    )


@pytest.mark.parametrize(
    ("provider", "variables"),
    [
        ("openai", "OPENAI_API_KEY"),
        ("openai-responses", "OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"),
        ("gemini", "GEMINI_API_KEY or GOOGLE_API_KEY"),
        ("azure", "AZURE_OPENAI_API_KEY or AZURE_OPENAI_AD_TOKEN"),
        ("openrouter", "OPENROUTER_API_KEY"),
        ("deepseek", "DEEPSEEK_API_KEY"),
        ("qwen", "DASHSCOPE_API_KEY"),
    ],
)
def test_a_missing_key_is_named_before_the_first_request(
    provider: str, variables: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com")
    with pytest.raises(UsageError, match=f"set {variables} for https://"):
        registry.find("model", provider).connect(Connection(name="m"))


def test_azure_needs_an_endpoint() -> None:
    with pytest.raises(UsageError, match="no endpoint of Azure OpenAI.*AZURE_OPENAI_ENDPOINT"):
        registry.find("model", "azure").connect(Connection(name="m"))


@every_dialect
def test_a_wrong_key_is_told_with_the_name_of_its_variable(dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gemini answers 400 to a wrong key, the others 401."""
    monkeypatch.setenv(KEYS[dialect.provider], "key-of-someone-else")
    with DialectServer(dialect, said) as server, pytest.raises(ModelError) as told:
        ask(dialect.provider, dialect.name, server.url)
    assert told.value.failure.kind == "auth"
    assert f"Check the key in {KEYS[dialect.provider]}" in told.value.failure.message


def test_no_vendor_sees_the_key_of_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    """Suites name OPENAI_API_KEY for every model. Another vendor gets its own key, or none."""
    monkeypatch.setenv("OPENAI_API_KEY", "key-for-openai-only")
    connection = Connection(name="m", key="OPENAI_API_KEY")
    with pytest.raises(UsageError, match="no key for Anthropic: set ANTHROPIC_API_KEY"):
        registry.find("model", "anthropic").connect(connection)


def test_a_key_may_be_in_the_env_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"ANTHROPIC_API_KEY={KEY}\n")
    with DialectServer(Anthropic(), said) as server:

        async def main() -> Response:
            connection = Connection(name=Anthropic.name, base_url=server.url, env_file=str(tmp_path / ".env"))
            model = registry.find("model", "anthropic").connect(connection)
            response: Response = await model.send(Request(model="m", prompt="Name a dog."), 1)
            await model.close()
            return response

        assert asyncio.run(main()).text == "Rex"


@pytest.mark.parametrize(
    ("model", "base_url", "endpoint"),
    [
        ("ollama/llama3.2", None, "http://127.0.0.1:11434/v1"),
        ("openrouter/qwen/qwen3-32b", None, "https://openrouter.ai/api/v1"),
        ("deepseek/deepseek-chat", None, "https://api.deepseek.com"),
        ("qwen/qwen-plus", None, "https://dashscope.aliyuncs.com/compatible-mode/v1"),
        ("anthropic/c", None, "https://api.anthropic.com"),
        ("anthropic/c", "http://h/v1/messages", "http://h"),
        ("gemini/g", None, "https://generativelanguage.googleapis.com/v1"),
        ("gemini/g", "http://h/v1beta", "http://h/v1beta"),
        ("azure/d", "https://r.openai.azure.com/", f"https://r.openai.azure.com{AZURE_PATH}2024-10-21"),
        (
            "azure/d",
            "https://openai-p.openai.azure.com",
            f"https://openai-p.openai.azure.com{AZURE_PATH}2024-10-21",
        ),
        ("azure/d", "https://h/openai-proxy", f"https://h/openai-proxy{AZURE_PATH}2024-10-21"),
        (
            "azure/d",
            "https://r.openai.azure.com/openai/deployments/other/chat/completions?api-version=2025-01-01-preview",
            f"https://r.openai.azure.com{AZURE_PATH}2025-01-01-preview",
        ),
        ("azure/d", "https://r.openai.azure.com/openai/v1/", "https://r.openai.azure.com/openai/v1"),
        ("openai/m", "http://h/v1/chat/completions", "http://h/v1"),
        ("openai-responses/m", "http://h/v1/responses", "http://h/v1"),
    ],
)
def test_where_requests_go(model: str, base_url: str | None, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*KEYS.values(), "OPENROUTER_API_KEY", "DEEPSEEK_API_KEY", "DASHSCOPE_API_KEY"):
        monkeypatch.setenv(name, KEY)
    provider, _, name = model.partition("/")
    assert registry.find("model", provider).connect(Connection(name=name, base_url=base_url)).endpoint == endpoint


def test_the_base_url_of_a_run_is_not_for_the_judge_of_another_vendor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its key would be sent there. A judge of the same provider shares the endpoint of the run."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    spec: RunSpec = shared.spec(base_url="http://127.0.0.1:9/v1")
    assert connect(spec, "openai/judge").endpoint == "http://127.0.0.1:9/v1"
    assert connect(spec, "anthropic/judge").endpoint == "https://api.anthropic.com"
    own = Role("anthropic/judge", "http://127.0.0.1:9")
    assert connect(spec, own).endpoint == "http://127.0.0.1:9"


def test_another_version_of_azure_is_another_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version can change replies, so it is part of a run's identity. The endpoint is accepted as a base URL."""
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    azure = registry.find("model", "azure")

    def endpoint(base_url: str = "http://h", **args: str) -> str:
        return str(azure.connect(Connection(name="d", base_url=base_url, args=args)).endpoint)

    assert endpoint(api_version="2025-01-01-preview") == f"http://h{AZURE_PATH}2025-01-01-preview"
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-06-01")
    assert endpoint() == f"http://h{AZURE_PATH}2024-06-01"
    assert endpoint(f"http://h{AZURE_PATH}2023-05-15") == f"http://h{AZURE_PATH}2023-05-15"


def test_embeddings_come_in_the_order_of_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """From every provider that has them, whatever its dialect and however many texts it takes at once."""
    texts = [f"{'a' * number} {'e' * (20 - number)}" for number in range(23)]
    expected = [[float(text.count(letter)) for letter in "aeiou"] for text in texts]
    for name in (*KEYS.values(), "DASHSCOPE_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.setenv(name, KEY)

    async def embed(provider: str, base_url: str) -> list[Any]:
        model = registry.find("model", provider).connect(Connection(name="embedder", base_url=base_url))
        sdk = SdkRequest("/embeddings", {"input": texts})
        response: Response = await model.send(Request(model="m", sdk=sdk), 1)
        await model.close()
        return sorted(json.loads(build_reply(response).body)["data"], key=lambda item: item["index"])

    for provider, dialect, requests in (
        ("openai", OpenAIChat(), 1),
        ("openrouter", OpenAIChat(), 1),
        ("azure", Azure(), 1),
        ("gemini", Gemini(), 1),
        ("qwen", OpenAIChat(), 3),
    ):
        with DialectServer(dialect, said) as server:
            items = asyncio.run(embed(provider, server.url))
            assert len(server.seen) == requests
        assert [item["embedding"] for item in items] == expected, provider


def test_parameters_of_embeddings_reach_every_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """In its dialect, also if the texts become several requests."""
    for name in (*KEYS.values(), "DASHSCOPE_API_KEY"):
        monkeypatch.setenv(name, KEY)
    body = {"input": [f"text {number}" for number in range(23)], "dimensions": 5, "task": "find"}
    sdk = SdkRequest("/embeddings", body, {"X-Tenant": "lab"})

    async def embed(provider: str, base_url: str) -> None:
        model = registry.find("model", provider).connect(Connection(name="embedder", base_url=base_url))
        await model.send(Request(model="m", sdk=sdk), 1)
        await model.close()

    for provider, dialect, size in (
        ("openai", OpenAIChat(), "dimensions"),
        ("qwen", OpenAIChat(), "dimensions"),
        ("gemini", Gemini(), "outputDimensionality"),
    ):
        with DialectServer(dialect, said) as server:
            asyncio.run(embed(provider, server.url))
        for request in server.seen:
            assert request.headers["x-tenant"] == "lab", provider
            for part in request.body.get("requests", [request.body]):
                assert (part[size], part["task"]) == (5, "find"), provider


def test_a_vendor_without_embeddings_is_refused_as_an_embedder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    talks = Path(__file__).parents[2] / "examples" / "memory" / "plain.json"
    options: dict[str, Any] = {"data": str(talks), "memory": ["dense"], "no_answer": True}
    spec = assay.spec("memory-test", model="", embedder="anthropic/c", output_dir=str(tmp_path), **options)
    with pytest.raises(UsageError, match="anthropic/c cannot do embeddings"):
        assay.run(spec)


PICTURE = "data:image/png;base64,aGk="
PARTS: dict[str, Any] = {
    "anthropic": [
        {"type": "text", "text": "What is it?"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {"type": "image", "source": {"type": "url", "url": "https://h/x.png"}},
    ],
    "gemini": [
        {"text": "What is it?"},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"fileData": {"fileUri": "https://h/x.png"}},
    ],
    "openai-responses": [
        {"type": "input_text", "text": "What is it?"},
        {"type": "input_image", "image_url": PICTURE},
        {"type": "input_image", "image_url": "https://h/x.png"},
    ],
}


@pytest.mark.parametrize("dialect", [Anthropic(), Gemini(), Responses()], ids=list(PARTS))
def test_pictures_are_translated_and_other_parts_refused(dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEYS[dialect.provider], KEY)
    parts: list[dict[str, Any]] = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": PICTURE}},
        {"type": "image_url", "image_url": {"url": "https://h/x.png"}},
    ]
    sound = {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}

    async def main(base_url: str) -> None:
        model = registry.find("model", dialect.provider).connect(Connection(name=dialect.name, base_url=base_url))
        try:
            await model.send(Request(model="m", messages=[{"role": "user", "content": parts}]), 1)
            with pytest.raises(ModelError, match="'input_audio' cannot be sent"):
                await model.send(Request(model="m", messages=[{"role": "user", "content": [sound]}]), 1)
            with pytest.raises(ModelError, match="role 'tool' cannot be sent"):
                await model.send(Request(model="m", messages=[{"role": "tool", "content": "x"}]), 1)
        finally:
            await model.close()

    with DialectServer(dialect, said) as server:
        asyncio.run(main(server.url))
        (seen,) = server.seen
    (message,) = seen.body.get("messages") or seen.body.get("contents") or seen.body["input"]
    assert (message.get("content") or message["parts"]) == PARTS[dialect.provider]


class FailingResponses(Responses):
    """Every reply says that it failed."""

    def __init__(self, code: str) -> None:
        self._code = code

    def reply(self, reply: Reply, body: dict[str, Any]) -> Any:
        error = {"code": self._code, "message": "in its own words"}
        return {"id": "r", "object": "response", "status": "failed", "error": error, "output": []}


def test_a_response_that_failed_is_a_failure_with_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Responses API sends some errors with status 200."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for code, kind in (("server_error", "server_error"), ("invalid_prompt", "refusal"), ("x", "rejected")):
        dialect = FailingResponses(code)
        with DialectServer(dialect, said) as server, pytest.raises(ModelError) as told:
            ask(dialect.provider, dialect.name, server.url)
        assert told.value.failure.kind == kind
        assert told.value.failure.message.endswith(f"{code}: in its own words")
        assert told.value.retry is (kind == "server_error")


def test_an_sdk_reaches_a_model_of_another_dialect_through_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chat requests are translated, and so are requests for embeddings where the vendor has them."""
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    told: list[Any] = []

    async def solve(_: Any, ctx: Context) -> None:
        url = await ctx.base_url()
        messages = [{"role": "user", "content": "Name a dog."}]
        told.append(await post(f"{url}/chat/completions", {"model": "m", "messages": messages}))
        told.append(await post(f"{url}/embeddings", {"model": "m", "input": ["a dog", "an owl"]}))

    with DialectServer(Gemini(), said) as server:
        asyncio.run(GatewayRun(tmp_path, server.model, server.url).start(solve))
        assert server.rejected == []
    chat, vectors = [json.loads(each.body) for each in told]
    assert chat["choices"][0]["message"]["content"] == "Rex"
    assert chat["usage"]["completion_tokens_details"] == {"reasoning_tokens": 6}
    assert [len(item["embedding"]) for item in vectors["data"]] == [5, 5]


@pytest.mark.parametrize(
    ("name", "base_url", "full"),
    [
        ("gpt-4o", None, "openai/gpt-4o"),
        ("meta-llama/Llama-3", None, "openai/meta-llama/Llama-3"),
        ("qwen/qwen-plus", None, "qwen/qwen-plus"),
        ("qwen/qwen3-32b", "https://openrouter.ai/api/v1", "openai/qwen/qwen3-32b"),
        ("local/smollm2", "https://openrouter.ai/api/v1", "local/smollm2"),
    ],
)
def test_a_name_of_openrouter_is_not_a_provider(name: str, base_url: str | None, full: str) -> None:
    """Files and variables of other programs name models without a provider."""
    assert with_provider(name, base_url) == full


def test_the_page_names_every_variable_and_argument() -> None:
    page = (Path(__file__).parents[2] / "docs" / "providers.md").read_text()
    for name in ("anthropic", "azure", "deepseek", "gemini", "ollama", "openrouter", "qwen"):
        module = registry.find("model", name)
        for variable in (*module.VENDOR.keys, *module.VENDOR.urls, *module.VENDOR.tokens):
            assert f"`{variable}`" in page
            assert variable in module.ABOUT.needs
        assert all(f"--model-args {argument}=" in page for argument in module.ABOUT.args)
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert row.endswith("| yes |" if "embeddings" in module.ABOUT.can else "| no |")


def test_fields_of_gemini_that_a_model_rejects_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Google names them in another spelling, or both penalties by one word."""
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    with DialectServer(StrictGemini(), said) as server:
        (reply,) = ask("gemini", Gemini.name, server.url, presence_penalty=1, frequency_penalty=1, top_k=4)
        sent = server.seen[-1].body["generationConfig"]
    assert reply.adapted == ("no presence_penalty", "no frequency_penalty", "no top_k")
    assert set(sent) == {"seed"}


class StrictGemini(Gemini):
    """A model that takes no penalties and no top_k."""

    def problem(self, seen: Seen) -> Result | None:
        config = seen.body["generationConfig"]
        if {"presencePenalty", "frequencyPenalty"} & config.keys():
            return 400, {"error": {"code": 400, "message": "Penalty is not enabled for models/gemini-2.5-flash"}}
        if "topK" in config:
            return 400, {"error": {"code": 400, "message": "top_k is not supported by this model."}}
        return super().problem(seen)


class Fixed(OpenAIChat):
    """Every request gets this reply."""

    def __init__(self, body: Any) -> None:
        self._body = body

    def reply(self, reply: Reply, body: dict[str, Any]) -> Any:
        return self._body


class FixedGemini(Fixed, Gemini):
    """The same at Gemini."""

    provider, name = "gemini", Gemini.name
    problem, messages = Gemini.problem, Gemini.messages


def failed(choice_error: Any = None, **outer: Any) -> dict[str, Any]:
    """A completion that ended with an error, as OpenRouter has it."""
    choice = {"index": 0, "message": {"role": "assistant", "content": None}, "finish_reason": "error"}
    return {"choices": [choice | ({"error": choice_error} if choice_error else {})], **outer}


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (failed({"code": 502, "message": "Provider disconnected"}), "server_error", "Provider disconnected"),
        (failed(error={"code": 429, "message": "Slow down"}), "rate_limited", "Slow down"),
        (failed(), "server_error", "no reason"),
        (
            {"error": {"code": 429, "message": "Rate limited upstream"}},
            "rate_limited",
            "Rate limited upstream",
        ),
        ({"error": {"code": "503", "message": "No provider"}}, "server_error", "error 503: No provider"),
        ({"error": {"code": 403, "message": "Your input was flagged"}}, "refusal", "Your input was flagged"),
        ({"error": {"code": 400, "message": "maximum context length is 8"}}, "context_overflow", "maximum"),
        ({"error": {"code": 400, "message": "No such thing"}}, "rejected", "No such thing"),
        ({"error": {"message": "Out of luck", "type": None}}, "server_error", "Out of luck"),
        ({"error": "Out of memory"}, "server_error", "Out of memory"),
        ({"choices": []}, "bad_reply", "it has no choices"),
    ],
)
def test_an_error_with_status_200_is_read_as_its_code_says(
    body: Any, kind: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no empty answer, and the endpoint's own words are told. Requests of SDKs fail in the same way."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with DialectServer(Fixed(body), said) as server:
        with pytest.raises(ModelError, match=words) as told:
            ask("openai", OpenAIChat.name, server.url)
        assert told.value.failure.kind == kind
        assert told.value.retry is (kind in ("server_error", "rate_limited", "bad_reply"))
        if kind == "bad_reply":
            return
        with pytest.raises(ModelError, match=words) as told:
            ask("openai", OpenAIChat.name, server.url, sdk=SdkRequest("/chat/completions", {}))
        assert told.value.failure.kind == kind


@pytest.mark.parametrize(
    ("finish", "kind"),
    [
        ("LANGUAGE", "refusal"),
        ("IMAGE_PROHIBITED_CONTENT", "refusal"),
        ("OTHER", "bad_reply"),
        ("MALFORMED_FUNCTION_CALL", "bad_reply"),
        ("MALFORMED_RESPONSE", "bad_reply"),
        ("UNEXPECTED_TOOL_CALL", "bad_reply"),
    ],
)
def test_gemini_without_text_is_a_refusal_or_tried_again(
    finish: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Google flagged is a refusal. What it could not finish is tried again."""
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    candidate = {"content": {"role": "model"}, "finishReason": finish, "finishMessage": "in its own words"}
    with (
        DialectServer(FixedGemini({"candidates": [candidate]}), said) as server,
        pytest.raises(ModelError, match=f"{finish}.*in its own words") as told,
    ):
        ask("gemini", Gemini.name, server.url)
    assert told.value.failure.kind == kind
    assert told.value.retry is (kind == "bad_reply")


@pytest.mark.parametrize("finish", ["STOP", "MAX_TOKENS"])
def test_gemini_may_say_nothing(finish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    with DialectServer(FixedGemini({"candidates": [{"finishReason": finish}]}), said) as server:
        (reply,) = ask("gemini", Gemini.name, server.url)
    assert (reply.text, reply.finish) == ("", {"STOP": "stop", "MAX_TOKENS": "length"}[finish])


def test_tokens_from_the_cache_are_counted_and_cost_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anthropic counts them apart from the input, Gemini as a part of it. Tokens written to a cache are input."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    (tmp_path / "prices.yaml").write_text(
        "as_of: 2026-01-31\nmodels:\n"
        "  anthropic/*: {input: 3, output: 15, cached_input: 0.3}\n"
        "  gemini/*: {input: 0.3, output: 2.5, cached_input: 0.03}\n"
    )
    table = read_prices(str(tmp_path / "prices.yaml"))
    with DialectServer(Anthropic(), said) as server:
        (reply,) = ask("anthropic", Anthropic.name, server.url)
    # 5 new, 20 written, 300 read; 8 output.
    assert reply.usage == Usage(325, 8, cached=300, reasoning=6)
    pricer = table.pricer("anthropic/c")
    assert pricer is not None
    # 25 * 3 + 300 * 0.3 + 8 * 15 = 285 dollars for a million calls.
    assert pricer.apply(reply).cost == 0.000285
    usage = {"promptTokenCount": 1000, "cachedContentTokenCount": 900, "candidatesTokenCount": 4}
    content = {"role": "model", "parts": [{"text": "Rex"}]}
    body = {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": usage}
    with DialectServer(FixedGemini(body), said) as server:
        (reply,) = ask("gemini", Gemini.name, server.url)
    assert reply.usage == Usage(1000, 4, cached=900)
    pricer = table.pricer("gemini/g")
    assert pricer is not None
    # 100 * 0.3 + 900 * 0.03 + 4 * 2.5 = 67 dollars for a million calls.
    assert pricer.apply(reply).cost == 0.000067


def test_a_limit_of_no_tokens_is_sent_to_anthropic_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with DialectServer(Anthropic(), said) as server:
        (reply,) = ask("anthropic", Anthropic.name, server.url, max_tokens=0)
        assert server.seen[-1].body["max_tokens"] == 0
    assert reply.adapted == ("no seed",)


OTHERS = pytest.mark.parametrize(
    "dialect", [Anthropic(), Gemini(), Responses()], ids=["anthropic", "gemini", "responses"]
)


def send(dialect: Dialect, base_url: str, request: Request) -> Response:
    async def main() -> Response:
        connection = Connection(name=dialect.name, base_url=base_url)
        model = registry.find("model", dialect.provider).connect(connection)
        try:
            response: Response = await model.send(request, 1)
            return response
        finally:
            await model.close()

    return asyncio.run(main())


@OTHERS
def test_system_messages_alone_become_a_message_of_the_user(dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    """No vendor takes a conversation without one. The reply tells."""
    monkeypatch.setenv(KEYS[dialect.provider], KEY)
    heard: list[Messages] = []

    def hear(messages: Messages) -> Reply:
        heard.append(messages)
        return THOUGHT

    request = Request(model="m", messages=[{"role": "system", "content": "Name a dog."}])
    with DialectServer(dialect, hear) as server:
        reply = send(dialect, server.url, request)
    assert heard == [[{"role": "user", "content": "Name a dog."}]]
    assert "user instead of system role" in reply.adapted


@OTHERS
def test_tools_in_the_form_of_openai_are_refused(dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    """The vendor's own tools are sent: they have another form."""
    monkeypatch.setenv(KEYS[dialect.provider], KEY)
    tool = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}
    with DialectServer(dialect, said) as server:
        for params in ({"tools": [tool]}, {"functions": [tool["function"]]}):
            with pytest.raises(ModelError, match="tools in OpenAI's form cannot be sent to") as told:
                ask(dialect.provider, dialect.name, server.url, **params)
            assert told.value.failure.kind == "rejected"
        assert server.seen == []
        own = [{"type": "web_search"}]
        ask(dialect.provider, dialect.name, server.url, tools=own)
        assert server.seen[-1].body["tools"] == own


def test_verbosity_is_a_field_of_text_in_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with DialectServer(Responses(), said) as server:
        wanted = {"type": "json_object"}
        ask("openai-responses", Responses.name, server.url, verbosity="low", response_format=wanted)
        assert server.rejected == []
        assert server.seen[-1].body["text"] == {"format": wanted, "verbosity": "low"}


@pytest.mark.parametrize(
    "reply",
    [
        {"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": ["STOP"]}]},
        {"candidates": {"0": {}}},
        {"candidates": [{"content": "hi"}]},
        {"candidates": [{"content": {"parts": 5}}]},
        {"promptFeedback": "blocked"},
    ],
    ids=["finish", "candidates", "content", "parts", "feedback"],
)
def test_a_reply_of_gemini_with_values_of_other_types_is_read_or_fails_the_call(
    reply: dict[str, Any],
) -> None:
    try:
        response = gemini._read(reply, "here", ())
    except ModelError as error:
        message = error.failure.message
        assert message.startswith("here sent a reply that cannot be used")
    else:
        assert (response.text, response.finish) in (("hi", None), ("", None))


@pytest.mark.parametrize(
    ("reply", "finish"),
    [
        ({"output": [{"type": "message", "content": 1.5}]}, "stop"),
        ({"output": [{"type": "reasoning", "summary": "hm", "content": 1}]}, "stop"),
        ({"output": [], "status": "incomplete", "incomplete_details": "cut"}, "stop"),
        ({"output": [], "status": "incomplete", "incomplete_details": {"reason": ["cut"]}}, "['cut']"),
    ],
    ids=["content", "reasoning", "details", "reason"],
)
def test_a_reply_of_the_responses_api_with_values_of_other_types_is_read(reply: dict[str, Any], finish: str) -> None:
    response = openai_responses._read(reply, "here", ())
    assert (response.text, response.finish) == ("", finish)
