"""The options of `assay task`, named as in lm-evaluation-harness."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import field

from assay.core.errors import UsageError
from assay.core.spec import DEFAULT_SEED, Options, RunSpec, ask, build, how, score

_SECRETS = frozenset({"api_key", "key", "token", "auth_token"})
_PROVIDERS = {
    "local-chat-completions": "openai",
    "openai-chat-completions": "openai",
    "local-completions": "openai-completions",
    "openai-completions": "openai-completions",
}
_COMMON = {
    "base_url": "base_url",
    "num_concurrent": "concurrency",
    "max_retries": "max_retries",
    "timeout": "timeout",
    "seed": "seed",
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
    fewshot_as_multiturn: Annotated[
        bool | None, ask("With the chat template: a turn for each example (the default), or false.")
    ] = None
    system_instruction: Annotated[str | None, ask("Text before everything else, as the system message.")] = (
        None
    )
    samples: Annotated[
        dict[str, list[int]],
        ask('Only these documents: JSON such as {"TASK": [0, 7]}, or a file with it.', flags=["--samples"]),
    ] = field(default_factory=dict)
    seeds: Annotated[
        list[int | None],
        ask("The harness's four seeds: random, numpy, torch, few-shot; --seed a,b,c,d.", cli=False),
    ] = field(default_factory=list)
    metadata: Annotated[dict[str, Any], ask("Passed to tasks that build their own data: JSON.")] = field(
        default_factory=dict
    )
    predict_only: Annotated[bool, score("Ask and write the replies; compute no metric.")] = False
    bootstrap_iters: Annotated[
        int, score("Draws for standard errors by bootstrap; 0 for no standard errors."), msgspec.Meta(ge=0)
    ] = 100_000
    log_samples: Annotated[bool, score("Write samples_*.jsonl.")] = True
    confirm_run_unsafe_code: Annotated[
        bool, how("Run tasks that are marked unsafe: their metrics run code that the model wrote.")
    ] = False
    lm_eval_quirks: Annotated[
        bool, ask("Do as lm-evaluation-harness does where it errs; see docs/tasks.md.")
    ] = False

    @property
    def multiturn(self) -> bool:
        """Whether few-shot examples are turns of their own; they are unless it was refused."""
        return self.fewshot_as_multiturn is not False

    def model_arguments(self) -> dict[str, Any]:
        """What --model-args gives the provider."""
        return self.model_args


class Seeds(msgspec.Struct, frozen=True):
    """Where a task's random numbers come from. The harness seeds `random` with 0 and the others with 1234."""

    random: int | None
    numpy: int | None
    torch: int | None
    fewshot: int | None


def seeds_of(spec: RunSpec) -> Seeds:
    """The four seeds of a run: as given, or all the one that `--seed` gives."""
    options = spec.options
    assert isinstance(options, TaskOptions)
    if options.seeds:
        return Seeds(*options.seeds)
    return Seeds(0 if spec.seed == DEFAULT_SEED else spec.seed, spec.seed, spec.seed, spec.seed)


def normalise(spec: RunSpec) -> RunSpec:
    """The harness's way of naming a model, in ours: `--model local-completions --model_args model=...`."""
    options = spec.options
    assert isinstance(options, TaskOptions)
    if secret := sorted(_SECRETS & set(options.model_args)):
        raise UsageError(
            f"--model-args {secret[0]}: keys are read from the environment (OPENAI_API_KEY), never written"
        )
    _refuse_together(spec, options)
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


def _refuse_together(spec: RunSpec, options: TaskOptions) -> None:
    if options.samples and spec.limit is not None:
        raise UsageError("--samples and --limit both choose documents; give one of them")
    if options.fewshot_as_multiturn and not options.apply_chat_template:
        raise UsageError("--fewshot-as-multiturn needs --apply-chat-template")
    if options.seeds and len(options.seeds) != 4:
        raise UsageError(f"--seed takes one number or four, not {len(options.seeds)}")


def own_arguments(options: TaskOptions) -> dict[str, Any]:
    """The provider's own arguments: those that are common options under another name say nothing more."""
    return {key: value for key, value in options.model_args.items() if key not in _COMMON}
