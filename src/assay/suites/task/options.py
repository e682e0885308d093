"""The options of `assay task`. Flags have the names of lm-evaluation-harness, and its command lines work here.

`--help` imports this module and no other of the suite, so it must not import modules that read tasks.
"""

from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import field

from assay.core.errors import UsageError
from assay.core.spec import DEFAULT_SEED, JUDGE_PROMPT, RunSpec, SuiteOptions, ask, how, score


class TaskOptions(SuiteOptions, frozen=True, kw_only=True):
    """Run tasks on a model. TASK is a YAML file, or the name of a task, group or tag.

    Names are looked up below --include-path, then in the task folder of an installed lm_eval package. The
    same command continues an interrupted run. For a finished run it prints the results and sends no requests.
    """

    command: ClassVar[str] = "task"
    limit_name: ClassVar[str] = "max_gen_toks"
    default_params: ClassVar[Mapping[str, str]] = {
        "gen_kwargs": "those of the task file, else temperature=0,max_gen_toks=256",
        "judge_kwargs": "temperature=0,max_tokens=2048",
    }
    examples: ClassVar[str] = """
  assay task examples/task/quickstart.yaml --model local/smollm2
  assay task gsm8k,arc --include-path tasks --model openai/NAME --base-url http://127.0.0.1:8000/v1 --limit 9
  assay task gsm8k --include-path tasks --model openai/NAME --judge openai/JUDGE --votes 3
  assay task --list --include-path tasks
  assay task --model local-completions --tasks gsm8k --include_path tasks \\
      --model_args model=NAME,base_url=http://127.0.0.1:8000/v1/completions,num_concurrent=64
  assay task --model hf --model_args pretrained=PATH,dtype=float --tasks gsm8k --include_path tasks --batch_size 8
"""
    ignored: ClassVar[Mapping[str, str]] = {
        "--use-cache PATH": "every run saves its replies; the same command continues it",
        "--cache-requests [true]": "prompts are built while the run goes on and need no cache",
        "--verbosity LEVEL": "use --quiet to print only errors",
        "--wandb-args ARGS": "assay uploads results to no service",
        "--wandb-config-args ARGS": "assay uploads results to no service",
        "--trackio-args ARGS": "assay uploads results to no service",
        "--hf-hub-log-args ARGS": "assay uploads results to no service",
        "--check-integrity": "use `assay check` for task files",
        "--show-config": "results_*.json contains the configuration",
    }

    tasks: Annotated[
        list[str],
        ask("Task names or YAML files.", content=True, positional="TASK[,TASK...]", flags=["--tasks"]),
    ] = field(default_factory=list)
    include_path: Annotated[list[str], how("Folder with task files. Repeat the flag for several folders.")] = field(
        default_factory=list
    )
    num_fewshot: Annotated[
        Annotated[int, msgspec.Meta(ge=0)] | None,
        ask("Number of few-shot examples. Overrides the task file."),
    ] = None
    apply_chat_template: Annotated[
        bool, ask("Send chat messages instead of one text prompt. Few-shot examples become turns.")
    ] = False
    fewshot_as_multiturn: Annotated[
        bool | None,
        ask(
            "With --apply-chat-template: true sends few-shot examples as user and assistant turns (default), "
            "false sends one user message."
        ),
    ] = None
    system_instruction: Annotated[
        str | None, ask("System message; without --apply-chat-template, the text at the start of the prompt.")
    ] = None
    samples: Annotated[
        dict[str, list[int]],
        ask('Run only these documents: JSON such as {"TASK": [0, 7]}, or a JSON file.', flags=["--samples"]),
    ] = field(default_factory=dict)
    seeds: Annotated[
        list[int | None],
        ask("The harness's four seeds: random, numpy, torch, few-shot; --seed a,b,c,d.", cli=False),
    ] = field(default_factory=list)
    metadata: Annotated[
        dict[str, Any], ask("JSON object, merged into the task's metadata and passed to `custom_dataset`.")
    ] = field(default_factory=dict)
    judge_prompt: Annotated[str, JUDGE_PROMPT] = ""
    predict_only: Annotated[bool, score("Save the replies, compute no metrics.")] = False
    bootstrap_iters: Annotated[
        int, score("Bootstrap draws for standard errors; 0 turns standard errors off."), msgspec.Meta(ge=0)
    ] = 100_000
    log_samples: Annotated[bool, score("Write samples_*.jsonl: one row per document and filter.")] = True
    confirm_run_unsafe_code: Annotated[
        bool, how("Allow tasks with `unsafe_code: true`. Their metrics execute code that the model wrote.")
    ] = False
    lm_eval_quirks: Annotated[bool, ask("Reproduce known bugs of lm-evaluation-harness, listed in docs/tasks.md.")] = (
        False
    )
    device: Annotated[str | None, how("Device of an hf model, such as cuda:0, mps or cpu.")] = None
    batch_size: Annotated[
        str | int | None,
        how("Batch size of an hf model: a number, auto, or auto:N. Other models get no batches."),
    ] = None
    max_batch_size: Annotated[str | int | None, how("Largest batch that --batch-size auto tries.")] = None
    trust_remote_code: Annotated[bool, ask("Run the Python code that comes with an hf model.", content=True)] = False
    results_name: Annotated[
        str,
        score("Name of the results file, without time and .json: that of --output-path FILE.json.", cli=False),
    ] = ""
    harness_model: Annotated[
        str,
        score("The harness's name of the model's class, such as local-completions, for results.", cli=False),
    ] = ""
    write_out: Annotated[bool, how("Print the first prompt of each task before the run.")] = False
    listing: Annotated[
        bool,
        how(
            "List the tasks, groups and tags in --include-path, else those of lm_eval, and exit.",
            flags=["--list"],
        ),
    ] = False

    @property
    def multiturn(self) -> bool:
        """Whether each few-shot example is sent as turns of its own. This is the harness's default for chat."""
        return self.fewshot_as_multiturn is not False

    def shows_sections(self) -> bool:
        """Return whether the first prompts are printed before the run."""
        return self.write_out

    def model_arguments(self) -> dict[str, Any]:
        """Return the arguments of an hf model that are flags in the harness."""
        arguments = {
            "device": self.device,
            "batch_size": self.batch_size,
            "max_batch_size": self.max_batch_size,
            "trust_remote_code": self.trust_remote_code,
        }
        return {name: value for name, value in arguments.items() if value}

    def argument_defaults(self, model_args: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the harness does with requests: it cuts prompts at max_length; with its quirks more."""
        if not self.lm_eval_quirks:
            return {"cut_prompts": True}
        # Of requests that are sent at the same time, the harness forgets the EOS.
        one_at_a_time = str(model_args.get("num_concurrent", 1)) in ("0", "1")
        return {"cut_prompts": True, "lm_eval_requests": True, "stop_at_eos": one_at_a_time}

    @classmethod
    def translate(cls, words: list[str], tell: Callable[[str], None]) -> list[str]:
        """Rewrite a command line of the harness: short flags, several words after a flag, repeated flags.

        `--model_args a=1 b=2 --tasks x y` becomes `--model-args a=1,b=2 --tasks x,y`.
        """
        rest = [piece for word in words for piece in _split_word(word)]
        # With --tasks there is no positional TASK, so a word after --apply-chat-template is a template's name.
        names_tasks = "--tasks" in rest
        translated: list[str] = []
        values: dict[str, list[str]] = {}
        while rest:
            flag = rest.pop(0)
            if flag in _SEVERAL_WORDS:
                flag_words = _words_of(flag, rest)
                values.setdefault(flag, []).extend(flag_words)
                del rest[: len(flag_words)]
            elif flag == _TEMPLATE and names_tasks and _is_word(rest[:1]):
                if _wants_template(rest.pop(0), tell):
                    translated.append(_TEMPLATE)
            else:
                translated.append(flag)
        for flag, flag_words in values.items():
            translated.append(flag)
            if flag_words:
                translated.append(",".join(flag_words))
        return translated

    @classmethod
    def translate_values(cls, values: dict[str, Any], tell: Callable[[str], None]) -> dict[str, Any]:
        """Convert values in the harness's spelling: `a,b` for two tasks, null for an unset option, four seeds."""
        values = {key: value for key, value in values.items() if value is not None}
        if isinstance(values.get("tasks"), (list, tuple)):  # the check of types names any other value
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
# Short flags without a value. `-sX` is not `-s X` then.
_SWITCHES = frozenset({"-s", "-w", "-x"})
_TEMPLATE = "--apply-chat-template"
_PAIRS = {"--model-args", "--gen-kwargs", "--metadata"}
_UPLOAD_FLAGS = {"--wandb-args", "--wandb-config-args", "--trackio-args", "--hf-hub-log-args"}
# Flags that take several words and may be repeated.
_SEVERAL_WORDS = _PAIRS | _UPLOAD_FLAGS | {"--tasks"}


def _split_word(word: str) -> list[str]:
    """Replace a short flag by the long one, and split `--flag=value` of a flag that may take several words."""
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
    """Return the words that belong to a flag.

    For --tasks these are all words up to the next flag. Other flags take the first word and the `key=value`
    words after it: any other word may be a positional TASK.
    """
    if flag == "--tasks":
        return list(takewhile(lambda word: not word.startswith("-"), rest))
    if not _is_word(rest[:1]):
        return []
    pairs = takewhile(lambda word: "=" in word and not word.startswith(("-", "{")), rest[1:])
    return [rest[0], *pairs]


def _is_word(words: list[str]) -> bool:
    return bool(words) and not words[0].startswith("-")


def _wants_template(name: str, tell: Callable[[str], None]) -> bool:
    """Return whether a chat template is wanted.

    The harness accepts true, false or the name of a template. A name is reported as ignored, because an
    endpoint applies its own template.
    """
    if name.lower() in ("false", "0", "no"):
        return False
    if name.lower() not in ("true", "1", "yes"):
        tell(f"the chat template {name!r} is ignored: the endpoint applies its own")
    return True


def _read_seeds(value: Any, tell: Callable[[str], None]) -> dict[str, Any]:
    """Read the harness's `--seed a,b,c,d` (random, numpy, torch, few-shot). The last one also seeds requests."""
    if str(value).lstrip("-").isdecimal():
        return {"seeds": []}
    texts = value if isinstance(value, list) and value else str(value).split(",")
    try:
        seeds = [None if str(text).strip().lower() == "none" else int(text) for text in texts]
    except (ValueError, TypeError, OverflowError):
        raise UsageError(f"--seed takes one number or four, found {value!r}") from None
    if len(seeds) == 1:
        seeds = seeds * 4
    elif len(seeds) == 3:
        seeds = [*seeds, DEFAULT_SEED]
    if seeds[-1] is None:
        tell(f"--seed: few-shot examples use {DEFAULT_SEED} instead of None, so that the run can be continued")
        seeds[-1] = DEFAULT_SEED
    return {"seeds": seeds, "seed": seeds[-1]}


class Seeds(msgspec.Struct, frozen=True):
    """The seeds of a task's random numbers. The harness seeds `random` with 0 and the others with 1234."""

    random: int | None
    numpy: int | None
    torch: int | None
    fewshot: int | None


def seeds_of(spec: RunSpec) -> Seeds:
    """Return the four seeds of a run. A single number of `--seed` is used for all four."""
    options = spec.options
    assert isinstance(options, TaskOptions)
    if options.seeds:
        return Seeds(*options.seeds)
    # The harness's default for `random` is 0, unlike the other three.
    return Seeds(0 if spec.seed == DEFAULT_SEED else spec.seed, spec.seed, spec.seed, spec.seed)
