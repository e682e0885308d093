"""RunSpec: the one carrier of options.

Flags, YAML and Python all build it. Every field is marked with what changing it does to a run that exists:
`ask` starts another run, `score` regrades the replies that are there, `how` just continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import ceil
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct

from assay.core.errors import UsageError
from assay.core.registry import unknown

Mark = Literal["ask", "score", "how"]
DEFAULT_SEED = 1234


def ask(text: str, **extra: Any) -> Meta:
    """The field affects replies."""
    return Meta(description=text, extra={"mark": "ask", **extra})


def score(text: str, **extra: Any) -> Meta:
    """The field affects what is made of replies."""
    return Meta(description=text, extra={"mark": "score", **extra})


def how(text: str, **extra: Any) -> Meta:
    """The field affects neither."""
    return Meta(description=text, extra={"mark": "how", **extra})


class SuiteOptions(Struct, frozen=True, kw_only=True):
    """The base of each suite's own options. The subclass describes the suite's command as well.

    The command line is made from it without importing the suite: the docstring is the help text, each field is a
    flag, or an argument where it is marked `positional="METAVAR"`.
    """

    command: ClassVar[str] = ""
    """The words of the command, such as `memory test`; the suite's name where it is empty."""
    examples: ClassVar[str] = ""
    """Example commands, one a line, shown below the help."""
    renamed: ClassVar[Mapping[str, str]] = {}
    """Flags of earlier spellings with the flag to use instead. The old spelling is refused with the new one."""

    default_output: ClassVar[str] = "results"
    """Where results go without --output-dir, as the help says it; `Suite.resolve` chooses the folder."""
    ignored: ClassVar[Mapping[str, str]] = {}
    """Flags of another tool that do nothing here, with the reason: `{"--device NAME": "models run …"}`.

    They are accepted, and the reason is told. A word after the flag says that it takes a value, a word in
    brackets that it may take one. In a configuration file they are keys.
    """

    @classmethod
    def translate(cls, words: list[str], tell: Callable[[str], None]) -> list[str]:
        """The words of a command line as this suite's flags, where another tool spells them otherwise.

        `tell` prints a sentence about words that mean something else here.
        """
        return words

    @classmethod
    def translate_values(cls, values: dict[str, Any], tell: Callable[[str], None]) -> dict[str, Any]:
        """The values of flags, or of a configuration file, where another tool writes them otherwise."""
        return values

    def shows_sections(self) -> bool:
        """Whether the sections of the overview are printed before the run starts, as `--write-out` asks."""
        return False

    def model_arguments(self) -> dict[str, Any]:
        """Arguments of the main model's provider."""
        return {}


class RunSpec(Struct, frozen=True, kw_only=True):
    """Everything a run was told. `options` is the suite's own struct."""

    suite: Annotated[str, ask("Which suite runs.", cli=False)]
    options: Annotated[SuiteOptions, ask("The suite's own options.", cli=False)]
    model: Annotated[str, ask("Model as PROVIDER/NAME, such as local/smollm2 or openai/gpt-4o-mini.")] = ""
    base_url: Annotated[
        str | None, ask("Base URL of the endpoint.  [default: $OPENAI_BASE_URL, else the provider's own]")
    ] = None
    judge: Annotated[
        str | None,
        score("Judge model as PROVIDER/NAME, or `offline` for the rule-based judge (no model calls)."),
    ] = None
    votes: Annotated[int, score("Judge calls per verdict; the majority wins.", content=True), Meta(ge=1)] = 1
    output_dir: Annotated[
        str,
        how("Folder of the results and of the run.", flags=["--output-dir", "--output-path"]),
    ] = ""
    concurrency: Annotated[int, how("Requests in flight at once."), Meta(ge=1)] = 16
    limit: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        ask("Only the first N cases of each set; below 1, a share of them."),
    ] = None
    seed: Annotated[
        int, ask("Base seed. Repeats of an identical request send seed, seed + 1, seed + 2, …", as_text=True)
    ] = DEFAULT_SEED
    timeout: Annotated[float, how("Time limit of a request, in seconds."), Meta(gt=0)] = 300.0
    max_retries: Annotated[int, how("Retries per failed request."), Meta(ge=0)] = 5
    max_calls: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        how("Stop after this many model calls; the same command continues."),
    ] = None
    fresh: Annotated[bool, how("Start a new run although this one exists.")] = False
    retry_failed: Annotated[
        bool, how("Ask cases again that failed by the fault of what is evaluated (subject_error).")
    ] = False
    reuse: Annotated[str | None, how("Reuse replies of RUN for the same case and the same request.")] = None
    quiet: Annotated[bool, how("Print nothing but errors.")] = False


def apply_limit(limit: float | None, count: int) -> int:
    """How many of `count` rows `--limit` leaves. Below 1 the limit is a share, rounded up."""
    if limit is None:
        return count
    return min(count, ceil(count * limit) if limit < 1 else int(limit))


def split_names(texts: list[str]) -> list[str]:
    """A list of names as people write it: `a,b` is two names, and each name counts once."""
    names: dict[str, None] = {}
    for text in texts:
        for name in text.split(","):
            if name.strip():
                names[name.strip()] = None
    return list(names)


class Field(NamedTuple):
    """One option as the command line, the YAML reader and the fingerprint see it."""

    name: str
    type: Any
    default: Any
    mark: Mark
    help: str
    extra: dict[str, Any]


def fields(struct: type[Struct]) -> Iterator[Field]:
    """The fields of a spec or an options struct, in order. Raises TypeError for one without a mark."""
    hints = get_type_hints(struct, include_extras=True)
    for item in msgspec.structs.fields(struct):
        kind, *metas = get_args(hints[item.name]) or [None]
        extra: dict[str, Any] = {}
        text = ""
        for meta in metas:
            if isinstance(meta, Meta) and meta.extra and "mark" in meta.extra:
                extra, text = dict(meta.extra), meta.description or ""
        if not extra:
            raise TypeError(f"{struct.__name__}.{item.name} is not marked ask, score or how")
        default = item.default if item.default is not msgspec.NODEFAULT else UNSET
        if item.default_factory is not msgspec.NODEFAULT:
            default = item.default_factory()
        yield Field(item.name, kind, default, extra.pop("mark"), text, extra)


def values_marked(spec: RunSpec, mark: Mark) -> dict[str, Any]:
    """The values of all fields with this mark, the suite's options among them; its name is not.

    Fields marked `content=True` are left out: they name a file or a number of votes, and the suite's identities
    hold what is in the file, or what the votes change.
    """
    values: dict[str, Any] = {}
    for struct in (spec, spec.options):
        for field in fields(type(struct)):
            if field.name in ("suite", "options") or field.extra.get("content"):
                continue
            if field.mark == mark:
                values[field.name] = getattr(struct, field.name)
    return values


def build(suite: str, options: type[SuiteOptions], values: dict[str, Any], where: str = "") -> RunSpec:
    """A spec from flat values: common keys and the suite's own keys side by side."""
    prefix = f"{where}: " if where else ""
    common = {field.name for field in fields(RunSpec)} - {"suite", "options"}
    own = {field.name: field for field in fields(options)}
    common_values: dict[str, Any] = {"suite": suite, "options": {}}
    own_values: dict[str, Any] = {}
    for key, value in values.items():
        if key in own:
            own_values[key] = _mapping_value(own[key], value)
        elif key in common:
            common_values[key] = value
        else:
            raise UsageError(prefix + unknown("option", str(key), sorted(common | own.keys())))
    try:
        own_options = msgspec.convert(own_values, options, strict=False)
        spec = msgspec.convert(common_values, RunSpec, strict=False)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$.")
        if path:
            message = f"option {path.rstrip('`')!r}: {message}"
        raise UsageError(prefix + message) from None
    return msgspec.structs.replace(spec, options=own_options)


def _mapping_value(field: Field, value: Any) -> Any:
    """The value of an option. A mapping may be written as key=value,key=value."""
    if get_origin(field.type) is not dict or not isinstance(value, str):
        return value
    try:
        return parse_pairs(value)
    except UsageError as error:
        raise UsageError(f"option {field.name!r}: {error}") from None


def parse_pairs(text: str) -> dict[str, Any]:
    """Read `a=1,b=x` into a dict, values as Python literals. A JSON object, or a JSON file, is taken as it is."""
    if text.endswith(".json") and "=" not in text:
        try:
            text = Path(text).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{text!r} cannot be read: {error}") from None
    if text.lstrip().startswith("{"):
        try:
            return msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise UsageError(f"not a JSON object: {error}: {text!r}") from None
    pairs = {}
    for item in filter(None, _split_pairs(text)):
        key, equals, value = item.partition("=")
        if not equals:
            raise UsageError(f"expected key=value, found {item!r} in {text!r}")
        pairs[key.strip()] = _literal(value.strip())
    return pairs


def _split_pairs(text: str) -> list[str]:
    """Split at commas outside of brackets and quotes: `stop=["a","b"]` is one pair."""
    parts, depth, quote = [""], 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'" and (depth or parts[-1].endswith("=")):
            # A quote counts only where a value begins: `it's` is a plain word.
            quote = char
        else:
            depth = max(0, depth + (char in "[({") - (char in "])}"))
        if char == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def _literal(value: str) -> Any:
    words = {"true": True, "false": False, "none": None, "null": None}
    if value.lower() in words:
        return words[value.lower()]
    import ast  # 5 ms that most commands do not need

    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value
