"""The options of `assay task`: flags named as in lm-evaluation-harness, and how its command lines are read.

This module is imported for `--help`. It imports nothing that reads tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import field

from assay.core.errors import UsageError
from assay.core.spec import DEFAULT_SEED, RunSpec, SuiteOptions, ask, build, how, score


class TaskOptions(SuiteOptions, frozen=True, kw_only=True):
    """Run tasks on a model. TASK is a YAML file, or the name of a task, group or tag.

    Names are looked up below --include-path, then in the task folder of an installed lm_eval package. The
    same command continues a run that was interrupted; a finished run is shown, and nothing is asked.
    """

    command: ClassVar[str] = "task"
    examples: ClassVar[str] = """
  assay task examples/task/quickstart.yaml --model local/smollm2
  assay task gsm8k,arc --include-path tasks --model openai/NAME --base-url http://127.0.0.1:8000/v1 --limit 9
  assay task gsm8k --include-path tasks --model openai/NAME --judge openai/JUDGE --votes 3
  assay task --list --include-path tasks
  assay task --model local-completions --tasks gsm8k --include_path tasks \\
      --model_args model=NAME,base_url=http://127.0.0.1:8000/v1/completions,num_concurrent=64
"""
    ignored: ClassVar[Mapping[str, str]] = {
        "--batch-size N": "requests are never batched; --concurrency says how many run at once",
        "--max-batch-size N": "requests are never batched",
        "--device NAME": "models run behind their endpoints, or on the CPU",
        "--use-cache PATH": "every run keeps its replies; the same command continues it",
        "--cache-requests [true]": "prompts are built as they are asked",
        "--verbosity LEVEL": "--quiet prints nothing but errors",
        "--wandb-args ARGS": "nothing is sent to anyone",
        "--wandb-config-args ARGS": "nothing is sent to anyone",
        "--trackio-args ARGS": "nothing is sent to anyone",
        "--hf-hub-log-args ARGS": "nothing is sent to anyone",
        "--check-integrity": "`assay check` looks at task files",
        "--show-config": "results_*.json has the configuration",
        "--trust-remote-code": "data sets that run code are not loaded, unless the task's own file says so",
    }

    tasks: Annotated[
        list[str],
        ask("Task names or YAML files.", content=True, positional="TASK[,TASK...]", flags=["--tasks"]),
    ] = field(default_factory=list)
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
        bool, ask("Reproduce known bugs of lm-evaluation-harness, listed in docs/tasks.md.")
    ] = False
    write_out: Annotated[bool, how("Show the first prompt of each task before it is asked.")] = False
    listing: Annotated[bool, how("List tasks, groups and tags of --include-path.", flags=["--list"])] = False

    @property
    def multiturn(self) -> bool:
        """Whether few-shot examples are turns of their own; they are unless it was refused."""
        return self.fewshot_as_multiturn is not False

    def shows_sections(self) -> bool:
        """Whether the first prompts are shown before the run."""
        return self.write_out

    def model_arguments(self) -> dict[str, Any]:
        """All of --model-args: providers ignore what is an option of ours."""
        return self.model_args

    @classmethod
    def translate(cls, words: list[str], tell: Callable[[str], None]) -> list[str]:
        """Read a command line of the harness: short flags, several words after a flag, flags given twice.

        `--model_args a=1 b=2 --tasks x y` becomes `--model-args a=1,b=2 --tasks x,y`.
        """
        rest = [piece for word in words for piece in _split_word(word)]
        names_tasks = "--tasks" in rest  # then there are no tasks as arguments
        translated: list[str] = []
        values: dict[str, list[str]] = {}
        while rest:
            flag = rest.pop(0)
            if flag in _SEVERAL_WORDS:
                own = _words_of(flag, rest)
                values.setdefault(flag, []).extend(own)
                del rest[: len(own)]
            elif flag == _TEMPLATE and names_tasks and _is_word(rest[:1]):
                if _wants_template(rest.pop(0), tell):
                    translated.append(_TEMPLATE)
            else:
                translated.append(flag)
        for flag, own in values.items():
            translated.append(flag)
            if own:
                translated.append(",".join(own))
        return translated

    @classmethod
    def translate_values(cls, values: dict[str, Any], tell: Callable[[str], None]) -> dict[str, Any]:
        """Read values as the harness writes them: `a,b` for two tasks, null for nothing, four seeds."""
        values = {key: value for key, value in values.items() if value is not None}
        if "tasks" in values:
            values["tasks"] = [name for text in values["tasks"] for name in str(text).split(",") if name]
        template = values.get("apply_chat_template")
        if isinstance(template, str):
            values["apply_chat_template"] = _wants_template(template, tell)
        if "seed" in values:
            values |= _read_seeds(values["seed"], tell)
        return values


# Command lines of the harness

_SHORT_FLAGS = {
    "-t": "--tasks",
    "-M": "--model",
    "-a": "--model-args",
    "-L": "--limit",
    "-f": "--num-fewshot",
    "-b": "--batch-size",
    "-c": "--use-cache",
    "-o": "--output-path",
    "-s": "--log-samples",
    "-E": "--samples",
    "-C": "--config",
    "-v": "--verbosity",
    "-w": "--write-out",
    "-x": "--predict-only",
}
_SWITCHES = frozenset({"-s", "-w", "-x"})
_TEMPLATE = "--apply-chat-template"
_PAIRS = {"--model-args", "--gen-kwargs", "--metadata"}
_SENT_NOWHERE = {"--wandb-args", "--wandb-config-args", "--trackio-args", "--hf-hub-log-args"}
# Flags that take several words, and may be given several times.
_SEVERAL_WORDS = _PAIRS | _SENT_NOWHERE | {"--tasks"}


def _split_word(word: str) -> list[str]:
    """Spell out a short flag, and split `--flag=value` of the flags that may take several words."""
    short = word[:2]
    if short in _SHORT_FLAGS and (len(word) == 2 or short not in _SWITCHES):
        value = word[2:].removeprefix("=")
        return [_SHORT_FLAGS[short], value] if value else [_SHORT_FLAGS[short]]
    flag, equals, value = word.partition("=")
    flag = flag.replace("_", "-")
    if not word.startswith("--") or flag not in _SEVERAL_WORDS | {_TEMPLATE}:
        return [word]
    return [flag, value] if equals else [flag]


def _words_of(flag: str, rest: list[str]) -> list[str]:
    """The words that belong to a flag: all tasks; of pairs the first, and what looks like a pair."""
    if flag == "--tasks":
        return list(takewhile(lambda word: not word.startswith("-"), rest))
    if not _is_word(rest[:1]):
        return []
    pairs = takewhile(lambda word: "=" in word and not word.startswith(("-", "{")), rest[1:])
    return [rest[0], *pairs]


def _is_word(words: list[str]) -> bool:
    return bool(words) and not words[0].startswith("-")


def _wants_template(name: str, tell: Callable[[str], None]) -> bool:
    """The harness takes a template's name. Endpoints have one template: their own."""
    if name.lower() in ("false", "0", "no"):
        return False
    if name.lower() not in ("true", "1", "yes"):
        tell(f"the chat template {name!r} is ignored: the endpoint applies its own")
    return True


def _read_seeds(value: Any, tell: Callable[[str], None]) -> dict[str, Any]:
    """`--seed a,b,c,d`, the harness's four seeds: the last is for few-shot examples, and the run's own."""
    if str(value).lstrip("-").isdecimal():
        return {"seeds": []}
    texts = value if isinstance(value, list) else str(value).split(",")
    try:
        seeds = [None if str(text).strip().lower() == "none" else int(text) for text in texts]
    except ValueError:
        raise UsageError(f"--seed takes one number or four, found {value!r}") from None
    if len(seeds) == 1:
        seeds = seeds * 4
    elif len(seeds) == 3:
        seeds = [*seeds, DEFAULT_SEED]
    if seeds[-1] is None:
        tell(f"--seed: examples are drawn by {DEFAULT_SEED}: a run that can continue needs a seed")
        seeds[-1] = DEFAULT_SEED
    return {"seeds": seeds, "seed": seeds[-1]}


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


# Models of the harness

_SECRETS = frozenset({"api_key", "key", "token", "auth_token"})
_PROVIDERS = {
    "local-chat-completions": "openai",
    "openai-chat-completions": "openai",
    "local-completions": "openai-completions",
    "openai-completions": "openai-completions",
}
# Keys of --model-args that are options of ours under another name.
_COMMON_OPTIONS = {
    "base_url": "base_url",
    "num_concurrent": "concurrency",
    "max_retries": "max_retries",
    "timeout": "timeout",
    "seed": "seed",
}


def resolve_model(spec: RunSpec) -> RunSpec:
    """The harness's way of naming a model in ours: `--model local-completions --model_args model=...`."""
    options = spec.options
    assert isinstance(options, TaskOptions)
    if secret := sorted(_SECRETS & set(options.model_args)):
        raise UsageError(
            f"--model-args {secret[0]}: keys are read from the environment (OPENAI_API_KEY), never written"
        )
    if options.samples and spec.limit is not None:
        raise UsageError("--samples and --limit both choose documents; give one of them")
    if options.fewshot_as_multiturn and not options.apply_chat_template:
        raise UsageError("--fewshot-as-multiturn needs --apply-chat-template")
    if options.seeds and len(options.seeds) != 4:
        raise UsageError(f"--seed takes one number or four, not {len(options.seeds)}")
    changes: dict[str, Any] = {}
    for theirs, ours in _COMMON_OPTIONS.items():
        if theirs in options.model_args:
            changes[ours] = options.model_args[theirs]
    if spec.model in _PROVIDERS:
        name = options.model_args.get("model")
        if not name:
            raise UsageError(f"--model {spec.model} needs the model's name: --model_args model=NAME")
        changes["model"] = f"{_PROVIDERS[spec.model]}/{name}"
    values = msgspec.structs.asdict(spec)
    del values["suite"], values["options"]
    checked = build(spec.suite, TaskOptions, values | changes, "--model-args")
    return msgspec.structs.replace(checked, options=options)


def own_arguments(options: TaskOptions) -> dict[str, Any]:
    """The provider's own arguments, without those that are common options under another name."""
    return {key: value for key, value in options.model_args.items() if key not in _COMMON_OPTIONS}
