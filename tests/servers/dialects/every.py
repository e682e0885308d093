"""All dialects, by the name that tests print, and the providers that need none."""

from __future__ import annotations

from servers.dialects import Dialect
from servers.dialects.anthropic import Anthropic
from servers.dialects.gemini import Gemini
from servers.dialects.openai import Azure, OpenAIChat, Responses, Vllm

VENDORS: dict[str, Dialect] = {
    "openai": OpenAIChat(),
    "responses": Responses(),
    "azure": Azure(),
    "anthropic": Anthropic(),
    "gemini": Gemini(),
}
"""APIs of vendors, which filter prompts and have reasoning models of their own."""
OPEN_SERVERS: dict[str, Dialect] = {"vllm": Vllm(), "sglang": Vllm(sglang=True)}
"""Servers of open models, which speak OpenAI's API with errors of their own."""
DIALECTS = VENDORS | OPEN_SERVERS

_LIKE_OPENAI = "OpenAI's API at another address"
_STARTS_SERVER = "starts a server that speaks OpenAI's API"
_NO_ENDPOINT = "runs in this process"
WITHOUT_DIALECT = {
    **dict.fromkeys(("deepseek", "ollama", "openrouter", "qwen"), _LIKE_OPENAI),
    "openai-completions": "asks for texts and likelihoods only: tests/models/test_likelihood_endpoint.py",
    **dict.fromkeys(("vllm", "sglang", "llama-server"), _STARTS_SERVER),
    **dict.fromkeys(("hf", "local", "python", "script"), _NO_ENDPOINT),
}
"""Providers without an API of their own, and why."""
