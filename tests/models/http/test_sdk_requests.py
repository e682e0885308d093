"""The vendors' own SDKs and assay have the same conversation with a server; their requests are compared.

Bodies must be equal field by field, and so must path, query, key and version. The server is strict: a field that the
vendor's types do not have is an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from assay.core import registry
from assay.core.roles import Connection, response_format
from assay.core.types import Request, Response, SdkRequest

from servers.dialects import (
    KEY,
    Dialect,
    DialectServer,
    Messages,
    Reply,
    Seen,
    anthropic as anthropic_server,
    gemini as gemini_server,
    openai as openai_server,
)

# Python warns when it compiles a file of google-genai for the first time, as in a new environment.
pytestmark = pytest.mark.filterwarnings("ignore:invalid escape sequence")

SYSTEM = "You are terse."
TURNS: list[Any] = [
    {"role": "user", "content": "Name a dog. \N{DOG}"},
    {"role": "assistant", "content": "Rex"},
    {"role": "user", "content": "Another."},
]
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ANSWER = Reply('{"name": "Bo"}', "They want a dog. Bo is one.")
SEED = 7


def answer(messages: Messages) -> Reply:
    """The same reply to the whole conversation; the system prompt must have arrived."""
    assert messages == [{"role": "system", "content": SYSTEM}, *TURNS]
    return ANSWER


def same_conversation(
    dialect: Dialect,
    sdk: Callable[[DialectServer], Any],
    params: dict[str, Any],
    headers: tuple[str, ...],
    *,
    model: str = "",
    path: str = "",
    normal: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    **args: Any,
) -> tuple[Response, Any, Seen]:
    """Both talk to the server. Returns our reply, the SDK's reply, and our request; the requests are equal.

    `normal` spells the SDK's body as the vendor's documentation does.
    """
    with DialectServer(dialect, answer) as server:
        theirs = sdk(server)
        connection = Connection(
            name=model or dialect.name,
            base_url=server.url + path,
            key="SDK_TEST_LOGIN",
            args=args,
            timeout=20,
        )
        ours = asyncio.run(_send(dialect.provider, connection, params))
        assert server.rejected == []
        their_request, our_request = server.seen
        assert our_request.body == (normal(their_request.body) if normal else their_request.body)
        assert (our_request.path, our_request.query) == (their_request.path, their_request.query)
        for name in headers:
            assert our_request.headers[name] == their_request.headers[name], name
        return ours, theirs, our_request


async def _send(provider: str, connection: Connection, params: dict[str, Any]) -> Response:
    model = registry.find("model", provider).connect(connection)
    try:
        messages = [{"role": "system", "content": SYSTEM}, *TURNS]
        response: Response = await model.send(
            Request(model="m", endpoint=model.endpoint, messages=messages, params=params), SEED
        )
        return response
    finally:
        await model.close()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is in a variable of its own, so that no other one decides."""
    monkeypatch.setenv("SDK_TEST_LOGIN", KEY)


def test_openai_sdk_sends_the_same_chat_completion() -> None:
    import openai

    params: dict[str, Any] = {
        "temperature": 0.5,
        "max_tokens": 64,
        "top_p": 0.9,
        "stop": ["\n\n", "END"],
        "response_format": response_format(SCHEMA),
        "extra_body": {"user": "u1"},
    }

    def sdk(server: DialectServer) -> Any:
        with openai.OpenAI(api_key=KEY, base_url=server.url) as client:
            return client.chat.completions.create(
                model=server.dialect.name,
                messages=[{"role": "system", "content": SYSTEM}, *TURNS],
                seed=SEED,
                **params,
            )

    ours, theirs, _ = same_conversation(openai_server.OpenAIChat(), sdk, params, ("authorization",))
    assert ours.text == theirs.choices[0].message.content == ANSWER.text
    assert ours.usage is not None
    assert ours.usage.input == theirs.usage.prompt_tokens
    assert ours.usage.output == theirs.usage.completion_tokens
    assert ours.usage.reasoning == theirs.usage.completion_tokens_details.reasoning_tokens > 0


def test_openai_sdk_sends_the_same_response_request() -> None:
    import openai

    def sdk(server: DialectServer) -> Any:
        with openai.OpenAI(api_key=KEY, base_url=server.url) as client:
            return client.responses.create(
                model=server.dialect.reasoner,
                instructions=SYSTEM,
                input=TURNS,
                store=False,
                max_output_tokens=64,
                top_p=0.9,
                reasoning={"effort": "low"},
                text={"format": {"type": "json_schema", "name": "reply", "schema": SCHEMA}},
                metadata={"a": "b"},
            )

    params = {
        "max_tokens": 64,
        "top_p": 0.9,
        "stop": ["x"],
        "reasoning_effort": "low",
        "response_format": response_format(SCHEMA),
        "extra_body": {"metadata": {"a": "b"}},
    }
    dialect = openai_server.Responses()
    ours, theirs, _ = same_conversation(dialect, sdk, params, ("authorization",), model=dialect.reasoner)
    assert ours.text == theirs.output_text == ANSWER.text
    assert ours.reasoning == theirs.output[0].summary[0].text == ANSWER.reasoning
    assert ours.adapted == ("no seed", "no stop")
    assert ours.usage is not None
    assert ours.usage.output == theirs.usage.output_tokens
    assert ours.usage.reasoning == theirs.usage.output_tokens_details.reasoning_tokens > 0


@pytest.mark.parametrize("newer", [False, True])
def test_azure_client_sends_the_same_chat_completion(newer: bool) -> None:
    """The deployment is in the path and the version in the query. With `/openai/v1` neither is."""
    import openai

    def sdk(server: DialectServer) -> Any:
        client: openai.OpenAI
        if newer:
            client = openai.OpenAI(
                base_url=f"{server.url}/openai/v1", api_key="unused", default_headers={"api-key": KEY}
            )
        else:
            client = openai.AzureOpenAI(azure_endpoint=server.url, api_key=KEY, api_version="2025-01-01-preview")
        with client:
            return client.chat.completions.create(
                model=server.dialect.name,
                messages=[{"role": "system", "content": SYSTEM}, *TURNS],
                seed=SEED,
                temperature=0,
                max_tokens=64,
            )

    params = {"temperature": 0, "max_tokens": 64}
    args: dict[str, Any] = {} if newer else {"api_version": "2025-01-01-preview"}
    path = "/openai/v1" if newer else ""
    ours, theirs, seen = same_conversation(openai_server.Azure(), sdk, params, ("api-key",), path=path, **args)
    assert ours.text == theirs.choices[0].message.content == ANSWER.text
    assert seen.query == ({} if newer else {"api-version": "2025-01-01-preview"})


@pytest.mark.parametrize("version", ["2023-06-01", "2026-10-21"])
def test_anthropic_sdk_sends_the_same_message(version: str) -> None:
    """The older version takes a temperature, which the SDK sends as a further field. The newer one takes none.

    The SDK sends the key as a bearer, we send it in `x-api-key`: the API takes both, and its documentation shows this.
    """
    import anthropic

    older = version == "2023-06-01"

    def sdk(server: DialectServer) -> Any:
        headers = {"anthropic-version": version}
        with anthropic.Anthropic(api_key=KEY, base_url=server.url, default_headers=headers) as client:
            closed = {**SCHEMA, "additionalProperties": False}
            return client.messages.create(
                model=server.dialect.name,
                system=SYSTEM,
                messages=TURNS,
                max_tokens=2000,
                stop_sequences=["END"],
                thinking={"type": "adaptive"},
                output_config={"effort": "high", "format": {"type": "json_schema", "schema": closed}},
                extra_body={"temperature": 1, "top_k": 40} if older else None,
            )

    params = {
        "temperature": 1,
        "top_k": 40,
        "max_tokens": 2000,
        "stop": ["\n\n", "END"],
        "reasoning_effort": "high",
        "response_format": response_format(SCHEMA),
    }
    ours, theirs, seen = same_conversation(
        anthropic_server.Anthropic(), sdk, params, ("anthropic-version",), anthropic_version=version
    )
    assert (seen.headers["x-api-key"], "authorization" in seen.headers) == (KEY, False)
    assert ours.text == theirs.content[1].text == ANSWER.text
    assert ours.reasoning == theirs.content[0].thinking == ANSWER.reasoning
    lacks = ("no stop of whitespace alone", "no seed")
    assert ours.adapted == (lacks if older else (*lacks, "no temperature", "no top_k"))
    assert ours.finish == "stop"
    assert ours.usage is not None
    cached = theirs.usage.cache_creation_input_tokens + theirs.usage.cache_read_input_tokens
    assert ours.usage.input == theirs.usage.input_tokens + cached
    assert ours.usage.output == theirs.usage.output_tokens
    assert ours.usage.reasoning == theirs.usage.output_tokens_details.thinking_tokens > 0


def test_google_sdk_sends_the_same_content(monkeypatch: pytest.MonkeyPatch) -> None:
    from google import genai
    from google.genai import types

    monkeypatch.delenv("GOOGLE_GENAI_API_VERSION", raising=False)
    roles = {"user": "user", "assistant": "model"}

    def sdk(server: DialectServer) -> Any:
        with genai.Client(api_key=KEY, http_options={"base_url": server.url}) as client:
            return client.models.generate_content(
                model=server.dialect.reasoner,
                contents=[{"role": roles[each["role"]], "parts": [{"text": each["content"]}]} for each in TURNS],
                config=types.GenerateContentConfig(
                    system_instruction=types.Content(parts=[types.Part(text=SYSTEM)]),
                    temperature=0.5,
                    top_p=0.9,
                    max_output_tokens=64,
                    stop_sequences=["\n\n"],
                    seed=SEED,
                    response_mime_type="application/json",
                    response_json_schema=SCHEMA,
                    thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_level=types.ThinkingLevel.LOW),
                ),
            )

    params = {
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 64,
        "stop": ["\n\n"],
        "reasoning_effort": "low",
        "response_format": response_format(SCHEMA),
    }

    def documented(body: dict[str, Any]) -> dict[str, Any]:
        config = body["generationConfig"]
        return {
            **body,
            "generationConfig": {**config, "thinkingConfig": gemini_server.camel(config["thinkingConfig"])},
        }

    dialect = gemini_server.Gemini()
    ours, theirs, _ = same_conversation(
        dialect, sdk, params, ("x-goog-api-key",), model=dialect.reasoner, normal=documented
    )
    assert ours.text == theirs.text == ANSWER.text
    assert ours.reasoning == ANSWER.reasoning
    assert ours.adapted == ()
    assert ours.usage is not None
    counts = theirs.usage_metadata
    assert ours.usage.output == counts.candidates_token_count + counts.thoughts_token_count
    assert ours.usage.reasoning == counts.thoughts_token_count > 0


def test_google_sdk_asks_for_the_same_embeddings() -> None:
    from google import genai

    texts = ["a dog", "an owl"]
    with DialectServer(gemini_server.Gemini(), answer) as server:
        with genai.Client(api_key=KEY, http_options={"base_url": server.url}) as client:
            theirs = client.models.embed_content(model="gemini-embedding-001", contents=texts)

        async def ask() -> Response:
            connection = Connection(name="gemini-embedding-001", base_url=server.url, key="SDK_TEST_LOGIN")
            model = registry.find("model", "gemini").connect(connection)
            sdk = SdkRequest("/embeddings", {"input": texts})
            response: Response = await model.send(Request(model="m", sdk=sdk), SEED)
            await model.close()
            return response

        ours = asyncio.run(ask())
        their_request, our_request = server.seen
    assert our_request.path == their_request.path
    for mine, other in zip(our_request.body["requests"], their_request.body["requests"], strict=True):
        assert mine["model"] == other["model"]
        assert mine["content"]["parts"] == other["content"]["parts"]
    assert len(ours.data["vectors"]["data"]) == len(theirs.embeddings or ()) == len(texts)


def test_the_servers_know_the_fields_that_the_sdks_have() -> None:
    """A field that a server accepts is one of the vendor's, so a mistyped field cannot pass."""
    from anthropic.types import message_create_params
    from google.genai import types
    from openai.types.chat import completion_create_params
    from openai.types.responses import response_create_params

    def names(*structs: Any) -> set[str]:
        return {name for struct in structs for each in struct.__mro__ for name in vars(each).get("__annotations__", ())}

    def typed(module: Any) -> set[str]:
        return {name for struct in vars(module).values() if isinstance(struct, type)
                for name in getattr(struct, "__annotations__", ())}  # fmt: skip

    def camel(fields: set[str]) -> set[str]:
        return {"".join([first, *map(str.title, rest)]) for first, *rest in (name.split("_") for name in fields)}

    assert typed(completion_create_params) >= openai_server.CHAT_FIELDS
    assert typed(response_create_params) >= openai_server.RESPONSES_FIELDS
    assert typed(message_create_params) >= anthropic_server.FIELDS
    config = camel(names(types.GenerationConfig, types.GenerateContentConfig))
    assert config >= gemini_server.CONFIG_FIELDS
    assert camel(names(types.ThinkingConfig)) == gemini_server.THINKING_FIELDS
    assert config | {"contents", "generationConfig"} >= gemini_server.FIELDS
