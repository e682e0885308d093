"""The options of `assay task`, named as in lm-evaluation-harness."""

from __future__ import annotations

import ast
from typing import Annotated, Any

import msgspec

from assay.core.errors import UsageError
from assay.core.spec import Options, RunSpec, ask, how, score

_PROVIDERS = {
    "local-chat-completions": "openai",
    "openai-chat-completions": "openai",
    "local-completions": "openai-completions",
}
_COMMON = {"base_url": "base_url", "num_concurrent": "concurrency", "max_retries": "max_retries", "timeout": "timeout"}


class TaskOptions(Options, frozen=True, kw_only=True):
    """What a task run can be told besides the common options."""

    tasks: Annotated[list[str], ask("Task names or YAML files.", cli=False, content=True)]
    include_path: Annotated[list[str], how("Folder with task YAML files; may be given several times.")] = []
    model_args: Annotated[dict[str, Any], ask("Provider arguments: key=value,key=value.", parse="pairs")] = {}
    num_fewshot: Annotated[int | None, ask("Examples before each question, instead of the task's own.")] = None
    gen_kwargs: Annotated[dict[str, Any], ask("Generation parameters over the task's: key=value,...", parse="pairs")] = {}
    apply_chat_template: Annotated[bool, ask("Chat models: few-shot examples as user and assistant turns.")] = False
    log_samples: Annotated[bool, score("Write samples_*.jsonl.")] = True
    lm_eval_quirks: Annotated[bool, score("Name files as lm-evaluation-harness itself does.")] = False


def parse_pairs(text: str) -> dict[str, Any]:
    """`a=1,b=x` as a dict, values read as Python literals where they are; JSON is taken as it is."""
    if text.lstrip().startswith("{"):
        try:
            return msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise UsageError(f"not JSON: {error}: {text!r}") from None
    pairs = {}
    for item in filter(None, text.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise UsageError(f"expected key=value, found {item!r} in {text!r}")
        pairs[key.strip()] = _literal(value.strip())
    return pairs


def _literal(value: str) -> Any:
    words = {"true": True, "false": False, "none": None, "null": None}
    if value.lower() in words:
        return words[value.lower()]
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value


def normalise(spec: RunSpec) -> RunSpec:
    """The harness's way of naming a model, in ours: `--model local-completions --model_args model=...`."""
    options = spec.options
    assert isinstance(options, TaskOptions)
    changes: dict[str, Any] = {
        ours: options.model_args[theirs] for theirs, ours in _COMMON.items() if theirs in options.model_args
    }
    if spec.model in _PROVIDERS:
        name = options.model_args.get("model")
        if not name:
            raise UsageError(f"--model {spec.model} needs the model's name: --model_args model=NAME")
        changes["model"] = f"{_PROVIDERS[spec.model]}/{name}"
    return msgspec.structs.replace(spec, **changes)
