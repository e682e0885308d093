"""The options of `assay task`, named as in lm-evaluation-harness."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import field

from assay.core.errors import UsageError
from assay.core.spec import Options, RunSpec, ask, build, how, score

_SECRETS = frozenset({"api_key", "key", "token", "auth_token"})
_PROVIDERS = {
    "local-chat-completions": "openai",
    "openai-chat-completions": "openai",
    "local-completions": "openai-completions",
}
_COMMON = {
    "base_url": "base_url",
    "num_concurrent": "concurrency",
    "max_retries": "max_retries",
    "timeout": "timeout",
}


class TaskOptions(Options, frozen=True, kw_only=True):
    """What a task run can be told besides the common options."""

    tasks: Annotated[list[str], ask("Task names or YAML files.", cli=False, content=True)] = field(
        default_factory=list
    )
    include_path: Annotated[list[str], how("Folder with task YAML files; may be given several times.")] = (
        field(default_factory=list)
    )
    model_args: Annotated[dict[str, Any], ask("Provider arguments: key=value,key=value.", content=True)] = (
        field(default_factory=dict)
    )
    num_fewshot: Annotated[
        Annotated[int, msgspec.Meta(ge=0)] | None,
        ask("Examples before each question, instead of the task's own."),
    ] = None
    gen_kwargs: Annotated[dict[str, Any], ask("Generation parameters over the task's: key=value,...")] = (
        field(default_factory=dict)
    )
    apply_chat_template: Annotated[
        bool, ask("Chat models: few-shot examples as user and assistant turns.")
    ] = False
    log_samples: Annotated[bool, score("Write samples_*.jsonl.")] = True
    lm_eval_quirks: Annotated[bool, score("Name files as lm-evaluation-harness itself does.")] = False


def normalise(spec: RunSpec) -> RunSpec:
    """The harness's way of naming a model, in ours: `--model local-completions --model_args model=...`."""
    options = spec.options
    assert isinstance(options, TaskOptions)
    if secret := sorted(_SECRETS & set(options.model_args)):
        raise UsageError(
            f"--model-args {secret[0]}: keys are read from the environment (OPENAI_API_KEY), never written"
        )
    changes: dict[str, Any] = {
        ours: options.model_args[theirs] for theirs, ours in _COMMON.items() if theirs in options.model_args
    }
    if spec.model in _PROVIDERS:
        name = options.model_args.get("model")
        if not name:
            raise UsageError(f"--model {spec.model} needs the model's name: --model_args model=NAME")
        changes["model"] = f"{_PROVIDERS[spec.model]}/{name}"
    values = {
        name: getattr(spec, name) for name in RunSpec.__struct_fields__ if name not in ("suite", "options")
    }
    checked = build(spec.suite, TaskOptions, values | changes, "--model-args")
    return msgspec.structs.replace(checked, options=options)


def own_arguments(options: TaskOptions) -> dict[str, Any]:
    """The provider's own arguments: those that are common options under another name say nothing more."""
    return {key: value for key, value in options.model_args.items() if key not in _COMMON}
