"""The model names of lm-evaluation-harness 0.4.13: each is a provider of assay, or a sentence that says what to use.

    named_model("hf", {"pretrained": "gpt2"})            # ("hf/gpt2", {"pretrained": "gpt2"})
    named_model("watsonx_llm", {})                       # UsageError: what to use instead

The harness has the model's own name among its `--model_args`. assay has it in `--model PROVIDER/NAME`. The arguments
stay as they are, because results files show them.
"""

from __future__ import annotations

import os
from typing import Any

from assay.core.errors import UsageError
from assay.core.spec import RunSpec

# The harness's model if a command has no --model.
DEFAULT_MODEL = "hf"
# The provider of a model, and the arguments that may have its name.
_PROVIDERS = {
    "hf": ("hf", ("pretrained",)),
    "hf-auto": ("hf", ("pretrained",)),
    "huggingface": ("hf", ("pretrained",)),
    "vllm": ("vllm", ("pretrained",)),
    "sglang": ("sglang", ("pretrained",)),
    "local-chat-completions": ("openai", ("model", "pretrained")),
    "openai-chat-completions": ("openai", ("model", "pretrained")),
    "local-completions": ("openai-completions", ("model", "pretrained")),
    "openai-completions": ("openai-completions", ("model", "pretrained")),
    "anthropic": ("anthropic", ("model", "pretrained")),
    "anthropic-chat": ("anthropic", ("model", "pretrained")),
    "anthropic-chat-completions": ("anthropic", ("model", "pretrained")),
    "azure-openai-chat-completions": ("azure", ("model", "pretrained")),
}
_SERVE = "start it as a server with OpenAI routes, and use --model local-completions"
REFUSED = {
    "anthropic-completions": "Anthropic's text completions ended; use --model anthropic-chat",
    "dummy": "it answers at random; use --model python/FILE.py:FUNCTION with such a function",
    "habana": f"Gaudi devices are not supported; {_SERVE}",
    "hf-audiolm-qwen": "audio input is not supported",
    "hf-mistral3": "this model class is not supported; use --model vllm with the same pretrained=",
    "hf-multimodal": "image input is not supported",
    "ipex": f"IPEX is not supported; use --model hf, or {_SERVE}",
    "mamba_ssm": "the package mamba_ssm is not supported; use --model hf with a checkpoint for transformers",
    "megatron_lm": f"Megatron checkpoints are not supported; convert it for --model hf or vllm, or {_SERVE}",
    "nemo_lm": f"NeMo checkpoints are not supported; convert it for --model hf or vllm, or {_SERVE}",
    "neuronx": f"Inferentia devices are not supported; {_SERVE}",
    "onnxruntime": f"ONNX models are not supported; {_SERVE}",
    "onnxruntime-genai": f"ONNX models are not supported; {_SERVE}",
    "openai": "write openai-chat-completions or openai-completions, with --model_args model=NAME",
    "openvino": f"OpenVINO models are not supported; {_SERVE}",
    "sglang-generate": (
        "use --model local-completions with base_url=http://HOST:PORT/v1/completions, which SGLang's server has too"
    ),
    "sparseml": f"SparseML models are not supported; {_SERVE}",
    "steered": "steering vectors are not supported; --model hf runs the model without them",
    "textsynth": "TextSynth's own API is not supported; use an endpoint with OpenAI routes",
    "trtllm": "TensorRT-LLM is not loaded by assay; start trtllm-serve, and use --model local-completions",
    "vllm-vlm": "image input is not supported",
    "watsonx_llm": "watsonx's own API is not supported; use a gateway with OpenAI routes and --model local-completions",
    "winml": f"Windows ML is not supported; {_SERVE}",
}
_LITELLM = frozenset({"litellm", "litellm-chat", "litellm-chat-completions"})
_LLAMA_CPP = frozenset({"gguf", "ggml"})
# Every name of `--model` that is not PROVIDER/NAME.
NAMES = frozenset(_PROVIDERS) | frozenset(REFUSED) | _LITELLM | _LLAMA_CPP


def named_model(model: str, args: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return `PROVIDER/NAME` and the arguments for the harness's `--model` and `--model_args`.

    Another text is returned unchanged. Raises UsageError if the model's name is missing, or if assay cannot run it.
    """
    if not model and "pretrained" in args:
        model = DEFAULT_MODEL
    if model in REFUSED:
        raise UsageError(f"--model {model}: {REFUSED[model]}")
    if model in _LITELLM:
        # LiteLLM writes its models as PROVIDER/NAME too. Without a provider it asks OpenAI.
        name = _name_in(model, args, ("model", "pretrained"))
        return name if "/" in name else f"openai/{name}", args
    if model in _LLAMA_CPP:
        return _llama_cpp(model, args)
    if model in _PROVIDERS:
        provider, names = _PROVIDERS[model]
        name = _name_in(model, args, names)
        if provider == "anthropic" and "base_url" in args:
            # The harness has the whole address of a request here.
            args = {**args, "base_url": str(args["base_url"]).removesuffix("/v1/messages")}
        return f"{provider}/{name}", args
    return model, args


def check_address(model: str, spec: RunSpec) -> None:
    """Raise UsageError for a model of the harness that is local by its name, if no option says where it is.

    Without an address, its requests would go to OpenAI.
    """
    if not model.startswith("local-") or model not in _PROVIDERS:
        return
    if not (spec.base_url or spec.model_args.get("base_url") or spec.serve or os.environ.get("OPENAI_BASE_URL")):
        path = "chat/completions" if "chat" in model else "completions"
        raise UsageError(
            f"--model {model} needs the address of its server: --model_args base_url=http://HOST:PORT/v1/{path}. "
            f"For OpenAI's own models, write --model {model.replace('local', 'openai')}"
        )


def refuse_launcher() -> None:
    """Raise UsageError in a process that torchrun or `accelerate launch` started together with others.

    Each of them would do the whole run, and they would wait for one another's run folder.
    """
    if "LOCAL_RANK" in os.environ and os.environ.get("WORLD_SIZE", "1") not in ("", "0", "1"):
        raise UsageError(
            f"this is one of {os.environ['WORLD_SIZE']} processes of torchrun or accelerate; start assay once. "
            "--model vllm uses several GPUs: tensor_parallel_size=N splits the model, data_parallel_size=N copies it"
        )


def _name_in(model: str, args: dict[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        if args.get(name):
            return str(args[name])
    raise UsageError(f"--model {model} needs the model's name: --model_args {names[0]}=NAME")


def _llama_cpp(model: str, args: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the model of a running llama.cpp server, or of a GGUF file.

    The harness appends `/v1/completions` to the server's address and sends no name.
    """
    name = str(args.get("model") or args.get("pretrained") or "")
    if name.endswith(".gguf"):
        return f"local/{name}", args
    if not args.get("base_url"):
        raise UsageError(
            f"--model {model} needs the address of a llama.cpp server, --model_args base_url=http://HOST:PORT, "
            "or a file, --model_args pretrained=PATH.gguf"
        )
    url = str(args["base_url"]).rstrip("/")
    for end in ("/completions", "/v1"):
        url = url.removesuffix(end)
    return f"openai-completions/{name or model}", {**args, "base_url": f"{url}/v1"}
