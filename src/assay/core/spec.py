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


def limited(limit: float | None, count: int) -> int:
    """How many of so many `--limit` leaves: below 1 it is a share, rounded up."""
    if limit is None:
        return count
    return min(count, ceil(count * limit) if limit < 1 else int(limit))


def listed(given: list[str]) -> list[str]:
    """A list of names as people write it: `a,b` stands for two, and each counts once."""
    return list(dict.fromkeys(name.strip() for text in given for name in text.split(",") if name.strip()))


class Field(NamedTuple):
    """One option as the command line, the YAML reader and the fingerprint see it."""

    name: str
    type: Any
    default: Any
    mark: Mark
    help: str
    extra: dict[str, Any]


def fields(struct: type[Struct]) -> Iterator[Field]:
    """The marked fields of a spec or an options struct, in order."""
    hints = get_type_hints(struct, include_extras=True)
    for item in msgspec.structs.fields(struct):
        metas = [meta for meta in get_args(hints[item.name])[1:] if isinstance(meta, Meta)]
        marked = next((meta for meta in metas if meta.extra and "mark" in meta.extra), None)
        if marked is None or marked.extra is None:
            raise TypeError(f"{struct.__name__}.{item.name} is not marked ask, score or how")
        default = item.default if item.default is not msgspec.NODEFAULT else UNSET
        if item.default_factory is not msgspec.NODEFAULT:
            default = item.default_factory()
        extra = {key: value for key, value in marked.extra.items() if key != "mark"}
        kind = get_args(hints[item.name])[0]
        yield Field(item.name, kind, default, marked.extra["mark"], marked.description or "", extra)


def marked(spec: RunSpec, mark: Mark) -> dict[str, Any]:
    """The values of all fields with this mark, the suite's options among them.

    Fields marked `content=True` are left out: what a file holds, or what a judge makes of its votes, counts,
    and the suite's plan knows it.
    """
    found: dict[str, Any] = {}
    for told in (spec, spec.options):
        counted = (f for f in fields(type(told)) if f.mark == mark and not f.extra.get("content"))
        found |= {f.name: getattr(told, f.name) for f in counted if f.name != "options"}
    return found


def build(suite: str, options: type[SuiteOptions], values: dict[str, Any], where: str = "") -> RunSpec:
    """A spec from flat values: common keys and the suite's own keys side by side."""
    common = {f.name for f in fields(RunSpec)} - {"suite", "options"}
    own = {f.name: f for f in fields(options)}
    values = {str(key): _pairs(own.get(key), value) for key, value in values.items()}
    if wrong := [key for key in values if key not in common | own.keys()]:
        raise UsageError(_at(where) + unknown("option", wrong[0], sorted(common | own.keys())))
    try:
        own_options = msgspec.convert({k: v for k, v in values.items() if k in own}, options, strict=False)
        rest = {k: v for k, v in values.items() if k in common}
        spec = msgspec.convert({**rest, "suite": suite, "options": {}}, RunSpec, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(_at(where) + _plain(error)) from None
    return msgspec.structs.replace(spec, options=own_options)


def _pairs(field: Field | None, value: Any) -> Any:
    """Mappings may be written as key=value,key=value."""
    if field is None or get_origin(field.type) is not dict or not isinstance(value, str):
        return value
    try:
        return parse_pairs(value)
    except UsageError as error:
        raise UsageError(f"option {field.name!r}: {error}") from None


def _at(where: str) -> str:
    return f"{where}: " if where else ""


def _plain(error: msgspec.ValidationError) -> str:
    message, _, path = str(error).partition(" - at `$.")
    return f"option {path.rstrip('`')!r}: {message}" if path else message


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
