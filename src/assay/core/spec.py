"""RunSpec: all options of a run in one immutable struct. Flags, YAML files and Python code all build it.

Every field has a mark. The mark says what a changed value does to an existing run:

- `ask`: the option can change a reply, so a changed value starts another run.
- `score`: the option can change a score, so the saved replies are scored again.
- `how`: the option changes neither, so the run continues.

The fields' texts are the help of the command line:

    class QuizOptions(SuiteOptions, frozen=True, kw_only=True):
        shout: Annotated[bool, ask("Ask in capital letters.")] = False

This module and most options of suites leave out `from __future__ import annotations`. With it the types are texts, and
each command would compile all of these texts several times, for 4 ms.
"""

import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from math import ceil, isinf
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, Struct, field

from assay.core.errors import UsageError, unknown
from assay.core.roles import EMPTY_URL

Mark = Literal["ask", "score", "how"]
# How msgspec says that a number is out of its bounds, and how people say it.
_BOUND = re.compile("Expected `(int|float)` (>=|>|<=|<) (.*)")
_BOUNDS = {">=": "of at least", ">": "above", "<=": "of at most", "<": "below"}
# The seed that lm-evaluation-harness uses by default, so that its tasks draw the same few-shot examples here.
DEFAULT_SEED = 1234


def ask(text: str, **extra: Any) -> Meta:
    """Mark an option that can change replies. `text` is its help."""
    return Meta(description=text, extra={"mark": "ask", **extra})


def score(text: str, **extra: Any) -> Meta:
    """Mark an option that can change scores but no reply. `text` is its help."""
    return Meta(description=text, extra={"mark": "score", **extra})


def how(text: str, **extra: Any) -> Meta:
    """Mark an option that can change neither replies nor scores. `text` is its help."""
    return Meta(description=text, extra={"mark": "how", **extra})


JUDGE_PROMPT = score(
    "Prompt file for the judge of answers, instead of the built-in prompt. It needs {question}, {reference} and "
    "{response}.",
    content=True,  # the judge's fingerprint covers the text
)
"""The mark of --judge-prompt, for the suites that judge answers."""


class SuiteOptions(Struct, frozen=True, kw_only=True):
    """The base class of each suite's own options. It also describes the suite's command.

    The command line is generated from it without importing the suite: the docstring is the help text, and each
    field is a flag, or an argument if it is marked `positional="METAVAR"`.
    """

    command: ClassVar[str] = ""
    """The words of the command, such as `memory test`. Empty means the suite's name."""
    examples: ClassVar[str] = ""
    """Example commands, one per line, printed below the help."""
    renamed: ClassVar[Mapping[str, str]] = {}
    """Old flags, and flags of similar commands, with the flags of this one. The message of the error names these."""

    default_output: ClassVar[str] = "results"
    """Default of --output-dir as the help prints it. A suite whose default is not a fixed folder sets it in
    `Suite.resolve` and describes it here."""
    default_params: ClassVar[Mapping[str, str]] = {}
    """Parameters that the suite sends by default, as the help of an option prints them:
    `{"judge_kwargs": "temperature=0,max_tokens=2048"}`."""
    watchable: ClassVar[bool] = False
    """Whether the command has `--watch`: it runs again when a file that it read is saved."""
    limit_name: ClassVar[str] = "max_tokens"
    """The parameter of --gen-kwargs that limits the length of replies, for messages."""
    ignored: ClassVar[Mapping[str, str]] = {}
    """Flags of another tool that do nothing here, with the reason: `{"--device NAME": "models run …"}`.

    assay accepts them and prints the reason. `--flag WORD` takes a value, `--flag [WORD]` may take one, `--flag`
    takes none. A configuration file may have them as keys.
    """

    @classmethod
    def translate(cls, words: list[str], tell: Callable[[str], None]) -> list[str]:
        """Return the command line with another tool's flags replaced by this suite's flags.

        `tell` prints a sentence, for example about a flag that has another meaning here.
        """
        return words

    @classmethod
    def translate_values(cls, values: dict[str, Any], tell: Callable[[str], None]) -> dict[str, Any]:
        """Return the values of flags or of a configuration file, with another tool's notation converted."""
        return values

    def shows_sections(self) -> bool:
        """Return whether to print the sections of the overview before the run starts, as for `--write-out`."""
        return False

    def model_arguments(self) -> dict[str, Any]:
        """Return arguments for the provider of the main model that have their own flags, such as `--device`."""
        return {}

    def argument_defaults(self, model_args: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments that the suite sets for a provider that lists them. Those of --model-args win."""
        return {}


class RunSpec(Struct, frozen=True, kw_only=True):
    """All options of a run: those that every suite has, and in `options` the suite's own."""

    suite: Annotated[str, ask("Suite to run.", cli=False)]
    options: Annotated[SuiteOptions, ask("The suite's own options.", cli=False)]
    model: Annotated[str, ask("Model as PROVIDER/NAME, such as local/smollm2 or openai/gpt-4o-mini.")] = ""
    base_url: Annotated[
        str | None,
        ask(
            "Base URL of the endpoint. Repeat it for several endpoints of the same model.  [default: $OPENAI_BASE_URL, "
            "else the provider's own; for openai/ https://api.openai.com/v1]",
            repeat=True,
        ),
    ] = None
    gen_kwargs: Annotated[
        dict[str, Any],
        ask(
            "Parameters of requests to the model, as key=value,key=value or JSON: temperature, max_tokens, top_p, "
            "stop, reasoning_effort, extra_body, headers, … They override those of files; null removes one.",
            params=True,
        ),
    ] = field(default_factory=dict)
    model_args: Annotated[
        dict[str, Any],
        ask("Arguments for the model's provider, as key=value,key=value.", content=True),
    ] = field(default_factory=dict)
    serve: Annotated[
        str,
        ask(
            "Command that starts the model's server, with {port} and {model} in it; assay stops it at the end. "
            "For --model openai/NAME or openai-completions/NAME.",
            content=True,  # the endpoint of the model is a fingerprint of the command
        ),
    ] = ""
    judge: Annotated[
        str | None,
        score("Judge model as PROVIDER/NAME, or `offline` for the rule-based judge (no model calls)."),
    ] = None
    judge_kwargs: Annotated[
        dict[str, Any], score("Parameters of requests to the judge, like --gen-kwargs.", params=True)
    ] = field(default_factory=dict)
    votes: Annotated[int, score("Judge calls per verdict; the majority wins.", content=True), Meta(ge=1)] = 1
    output_dir: Annotated[
        str,
        how("Output folder.", flags=["--output-dir", "--output-path"]),
    ] = ""
    concurrency: Annotated[int, how("Maximum number of requests in flight at each endpoint."), Meta(ge=1)] = 16
    limit: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        ask("Run only the first N rows of each data set. A number below 1 is a fraction: 0.1 runs 10 %."),
    ] = None
    seed: Annotated[
        int, ask("Base seed. Repeats of an identical request send seed, seed + 1, seed + 2, …", as_text=True)
    ] = DEFAULT_SEED
    timeout: Annotated[float, how("Time limit per request, in seconds."), Meta(gt=0)] = 300.0
    max_retries: Annotated[int, how("Retries per failed request."), Meta(ge=0)] = 5
    max_wait: Annotated[
        float,
        how("Longest wait before a retry, in seconds, whatever Retry-After says."),
        Meta(ge=0, le=86_400),
    ] = 120.0
    ca_file: Annotated[
        str,
        how(
            "PEM file with the certificates to trust, such as a company's CA.  [default: $SSL_CERT_FILE, else the "
            "system's certificates]"
        ),
    ] = ""
    insecure: Annotated[bool, how("Accept every TLS certificate. Others may read and change what is sent.")] = False
    max_calls: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        how("Stop after this many model calls. The same command continues the run."),
    ] = None
    max_cost: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        how(
            "Stop when the calls of this start have cost so many US dollars. Calls in flight still finish. The same "
            "command continues the run."
        ),
    ] = None
    prices: Annotated[
        str | None,
        how("YAML file with the prices of models.  [default: $ASSAY_PRICES, else the table of assay]"),
    ] = None
    fresh: Annotated[bool, how("Start a new run even if a run with the same options exists.")] = False
    retry_failed: Annotated[
        bool,
        how(
            "Run cases with status subject_error again: refusals, context overflows, exceptions in your code. "
            "Cases with status infra_error run again without this flag."
        ),
    ] = False
    shard: Annotated[
        str,
        how(
            "Run only every N-th row, beginning with the I-th, as one of N jobs: 3/16. Each shard needs its own "
            "--output-dir; `assay merge` makes one run of them."
        ),
    ] = ""
    reuse: Annotated[str | None, how("Reuse replies of RUN for the same case and the same request.")] = None
    executor: Annotated[
        Literal["local", "ray"],
        how("Where cases run: `local` in this process, `ray` in workers on one or many machines."),
    ] = "local"
    address: Annotated[
        str | None,
        how(
            "Address of a Ray cluster, such as auto or HOST:6379.  [default: $RAY_ADDRESS, else a cluster of this "
            "machine that ends with the run]"
        ),
    ] = None
    workers: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        how("Number of Ray workers.  [default: as many as the cluster holds, at most one per open case]"),
    ] = None
    worker_cpus: Annotated[float, how("CPUs of a Ray worker."), Meta(gt=0)] = 1.0
    worker_gpus: Annotated[float, how("GPUs of a Ray worker."), Meta(ge=0)] = 0.0
    quiet: Annotated[bool, how("Print only errors.")] = False


def apply_limit(limit: float | None, count: int) -> int:
    """Return how many of `count` rows `--limit` selects. A limit below 1 is a fraction, rounded up."""
    if limit is None:
        return count
    return min(count, ceil(count * limit) if limit < 1 else int(limit))


def split_names(texts: list[str]) -> list[str]:
    """Split names at commas: `["a,b", "a"]` becomes `["a", "b"]`. Repeated names are dropped."""
    names: dict[str, None] = {}
    for text in texts:
        for name in text.split(","):
            if name.strip():
                names[name.strip()] = None
    return list(names)


class Field(NamedTuple):
    """One option: what the command line, the YAML reader and the fingerprint need to know about it."""

    name: str
    type: Any
    default: Any
    mark: Mark
    help: str
    extra: dict[str, Any]

    @property
    def flags(self) -> list[str]:
        """The flags of the option. The first one is its name."""
        flags: list[str] = self.extra.get("flags") or [f"--{self.name.replace('_', '-')}"]
        return flags

    @property
    def plain_type(self) -> Any:
        """The type without None and bounds: `int` for `int | None` and for an int with a minimum."""
        kind = self.type
        if get_origin(kind) in (Union, types.UnionType):
            kind = next(arg for arg in get_args(kind) if arg is not type(None))
        return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def fields(struct: type[Struct]) -> Iterator[Field]:
    """Yield the fields of a spec or options struct in order.

    Raises TypeError for a field that is not marked `ask`, `score` or `how`.
    """
    for item, kind, mark, text, extra in _described_fields(struct):
        default = item.default if item.default is not msgspec.NODEFAULT else UNSET
        if item.default_factory is not msgspec.NODEFAULT:
            default = item.default_factory()
        yield Field(item.name, kind, default, mark, text, dict(extra))


@lru_cache(16)
def _described_fields(
    struct: type[Struct],
) -> list[tuple[msgspec.structs.FieldInfo, Any, Mark, str, dict[str, Any]]]:
    """Return the fields with type, mark, help and further properties.

    Cached, because this evaluates all type hints, and a start asks for the fields several times.
    """
    # A struct's own options come before those that it shares with others: `--help` begins with its data.
    own = inspect.get_annotations(struct)
    described = []
    for item in sorted(msgspec.structs.fields(struct), key=lambda each: each.name not in own):
        kind, *metas = get_args(item.type) or [None]
        extra: dict[str, Any] = {}
        text = ""
        for meta in metas:
            if isinstance(meta, Meta) and meta.extra and "mark" in meta.extra:
                extra, text = dict(meta.extra), meta.description or ""
        if not extra:
            raise TypeError(f"{struct.__name__}.{item.name} is not marked ask, score or how")
        described.append((item, kind, extra.pop("mark"), text, extra))
    return described


def outputs_named_by(options: type[SuiteOptions], values: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that name a file to write (`writes=True`) and have a value: field name and path.

    A command that takes its settings from a run folder leaves them out: the folder may be somebody else's, and a file
    outside of it is written only because the user's own command names it.
    """
    return {
        each.name: str(values[each.name])
        for each in fields(options)
        if each.extra.get("writes") and values.get(each.name)
    }


def values_marked(spec: RunSpec, mark: Mark) -> dict[str, Any]:
    """Return the values of all fields with this mark, including the suite's own options.

    Fields with `content=True` are left out, because the suite's identities describe them better: the content of a
    file instead of its path, for example.
    """
    values: dict[str, Any] = {}
    for struct in (spec, spec.options):
        for each in fields(type(struct)):
            if each.name in ("suite", "options") or each.extra.get("content"):
                continue
            if each.mark == mark:
                values[each.name] = getattr(struct, each.name)
    return values


def build(suite: str, options: type[SuiteOptions], values: dict[str, Any], where: str = "") -> RunSpec:
    """Build a spec from one dict that has common options and the suite's own options.

    Raises UsageError for an unknown option or a wrong value. `where` is put before the message.
    """
    prefix = f"{where}: " if where else ""
    common = {each.name: each for each in fields(RunSpec) if each.name not in ("suite", "options")}
    own = {each.name: each for each in fields(options)}
    common_values: dict[str, Any] = {"suite": suite, "options": {}}
    own_values: dict[str, Any] = {}
    for key, value in values.items():
        if key.endswith("base_url") and (value in ([], ()) or (isinstance(value, str) and not value.strip())):
            # The provider's own address would get the requests, and the key.
            raise UsageError(prefix + EMPTY_URL.format(option=f"--{key.replace('_', '-')}"))
        if key in own:
            own_values[key] = _mapping_value(own[key], value)
        elif key in common:
            # An option that may be repeated is a text with commas, as it is written in a configuration file.
            several = common[key].extra.get("repeat") and isinstance(value, (list, tuple))
            common_values[key] = ",".join(map(str, value)) if several else _mapping_value(common[key], value)
        else:
            raise UsageError(prefix + unknown("option", str(key), sorted(common.keys() | own.keys())))
    try:
        own_options = msgspec.convert(own_values, options, strict=False)
        spec = msgspec.convert(common_values, RunSpec, strict=False)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$.")
        missing = message.removeprefix("Object missing required field `").rstrip("`")
        if missing in own and missing != message:
            message = f"{own[missing].extra.get('positional', '--' + missing.replace('_', '-'))} is missing"
        elif path:
            name = path.rstrip("`")
            choices = _choices((own | common).get(name))
            if choices and message.startswith("Invalid enum value"):
                value = (own_values | common_values)[name]
                message = unknown(f"--{name.replace('_', '-')} value", str(value), choices)
                message += f" Choose one of: {', '.join(choices)}" if "did you mean" in message else ""
            elif bound := _BOUND.fullmatch(message):
                value = (own_values | common_values)[name]
                shown = f"{value:g}" if isinstance(value, float) else value
                flag = f"--{name.replace('_', '-')} {shown}"
                kind = "a whole number" if bound[1] == "int" else "a number"
                message = f"{flag}: expected {kind} {_BOUNDS[bound[2]]} {bound[3].removesuffix('.0')}"
            else:
                message = f"option {name!r}: {message}"
        raise UsageError(prefix + message) from None
    if spec.limit is not None and isinf(spec.limit):
        raise UsageError(f"{prefix}--limit inf: expected a number of rows. Leave it out to run all of them")
    return msgspec.structs.replace(spec, options=own_options)


def _choices(option: Field | None) -> list[str]:
    """Return the values of an option that takes one of several names; empty for any other option."""
    if option is None or get_origin(option.plain_type) is not Literal:
        return []
    return [str(choice) for choice in get_args(option.plain_type)]


def _mapping_value(option: Field, value: Any) -> Any:
    """Return the value of an option. A mapping may be written as `key=value,key=value`."""
    if get_origin(option.type) is dict and isinstance(value, str):
        try:
            value = parse_pairs(value)
        except UsageError as error:
            raise UsageError(f"{option.flags[0]}: {error}") from None
    if option.extra.get("params") and isinstance(value, dict):
        from assay.core.params import check_params  # imports the request's type, which `--help` does not need

        return check_params(value, option.flags[0])
    return value


def parse_pairs(text: str) -> dict[str, Any]:
    """Parse `a=1,b=x` into a dict. Values are Python literals, else text.

    `text` may also be a JSON object or the path of a .json file.
    """
    if text.endswith(".json") and "=" not in text:
        try:
            text = Path(text).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{text!r} cannot be read: {error}") from None
    if text.lstrip().startswith("{"):
        try:
            return msgspec.json.decode(text, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            reason = str(error).removeprefix("JSON is malformed: ")
            raise UsageError(f"not a JSON object: {reason}: {text!r}") from None
    pairs = {}
    for item in filter(None, split_pairs(text)):
        key, equals, value = item.partition("=")
        if not equals:
            found = repr(item) if item == text else f"{item!r} in {text!r}"
            raise UsageError(f"expected key=value, found {found}")
        pairs[key.strip()] = _literal(value.strip())
    return pairs


def split_pairs(text: str) -> list[str]:
    """Split at commas outside of brackets and quotes: `stop=["a","b"]` is one pair."""
    parts: list[str] = []
    start, depth, quote = 0, 0, ""
    for place, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'" and (depth or text[max(start, place - 1) : place] == "="):
            # A quote inside a word is an apostrophe, as in `note=it's`.
            quote = char
        else:
            depth = max(0, depth + (char in "[({") - (char in "])}"))
        if char == "," and not depth and not quote:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def _literal(value: str) -> Any:
    words = {"true": True, "false": False, "none": None, "null": None}
    if value.lower() in words:
        return words[value.lower()]
    if value.startswith(("{", "[")):
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            pass  # perhaps a Python literal, such as ['a', 'b']
    import ast  # takes 5 ms, and most commands do not need it

    try:
        return ast.literal_eval(value)
    # TypeError: `{[]: 1}`. The last two: too many brackets or signs.
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return value
