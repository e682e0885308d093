"""A step that calls a model: it renders a template as the prompt and parses the reply.

`output_parser` selects the parser: text, json, regex, number (the last number) or list (split at commas).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from assay.core.errors import ModelError, UsageError, similar
from assay.core.params import merge
from assay.core.types import Request
from assay.files.excerpt import cut_end
from assay.language.patterns import PatternStopped, call_without_blocking, compile_pattern
from assay.language.templates import Template, TemplateProblem
from assay.suites.pipeline.steps.runner import StepContext, StepError, StepRunner
from assay.suites.toolkit.json_reply import NoJsonError, find_json

Parser = Callable[[str], Any]
PARSERS = ("text", "json", "regex", "number", "list")

_ALIASES = {"none": "text", "str": "text", "string": "text"}
# A sign counts only at the start or after a space or another symbol: in "3-5" the last number is 5.
_NUMBER = re.compile(r"(?:(?<![\w.])[-+])?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?")
_MAX_QUOTE = 200  # characters of a reply in an error message


_SECONDS = "seconds, more than 0"
_NOT_NEGATIVE = "a number from 0 on"
_WHOLE = "a whole number from 1 on"
# Below infinity: YAML's `.inf` is not accepted as a number.
_LARGEST = 1.7e308
Seconds = (
    Annotated[int, Meta(gt=0, description=_SECONDS)] | Annotated[float, Meta(gt=0, le=_LARGEST, description=_SECONDS)]
)
"""A time limit in a pipeline file or a test."""
_NotNegative = (
    Annotated[int, Meta(ge=0, description=_NOT_NEGATIVE)]
    | Annotated[float, Meta(ge=0, le=_LARGEST, description=_NOT_NEGATIVE)]
)
_Count = Annotated[int, Meta(ge=1, description=_WHOLE)]
_ModelName = Annotated[str, Meta(min_length=1, description="the name of a model")]


class PromptSettings(Struct, kw_only=True):
    """What a test's `step_inputs` may change of a prompt step. All but the first four are parameters of the request.

    A parameter of null is not sent, even if the step has it.
    """

    model: _ModelName | None = None
    model_override: _ModelName | None = None
    timeout: Seconds | None = None
    params: dict[str, Any] = {}
    temperature: _NotNegative | None = None
    max_tokens: _Count | None = None
    max_completion_tokens: _Count | None = None
    top_p: _NotNegative | None = None
    top_k: int | None = None
    min_p: _NotNegative | None = None
    stop: str | list[str] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    reasoning_effort: str | None = None


_SETTINGS = frozenset(PromptSettings.__struct_fields__)
_NO_PARAMETERS = ("model", "model_override", "timeout", "params")


class PromptStep(Struct, frozen=True, kw_only=True):
    """Sends one prompt. `role` names the model of the run. `defaults` fills variables that have no value.

    `variables` are names that the prompt or the pipeline reads. A test's value of such a name is a value for the
    template, even if it is the name of a setting. `find_role` returns the role of another model.
    """

    role: str
    template: Template
    parse: Parser
    system: Template | None = None
    params: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    timeout: float | None = None
    variables: frozenset[str] = frozenset()
    find_role: Callable[[str], str] = str

    async def run(self, values: dict[str, Any], ctx: StepContext) -> Any:
        """Call the model once and parse the reply.

        A refusal and a timeout raise StepError. Any other failed call raises ModelError, which fails the case.
        """
        # asyncio.timeout(None) is valid, but costs time on every call, and most steps have no timeout.
        if self.timeout is None:
            return await self._ask(values, ctx)
        try:
            async with asyncio.timeout(self.timeout):
                return await self._ask(values, ctx)
        except TimeoutError:
            raise StepError(f"it took longer than its timeout of {self.timeout:g} s", "timeout") from None

    async def _ask(self, values: dict[str, Any], ctx: StepContext) -> Any:
        asker = ctx.case.model(self.role)
        request = Request(
            model=asker.name,
            endpoint=asker.endpoint,
            messages=await call_without_blocking(self._messages, values),
            params=self.params,
        )
        try:
            call = await ctx.meter.call(asker, request)
        except ModelError as error:
            # The model answered, for example with a refusal. Other items and steps continue.
            if error.failure.status == "subject_error":
                raise StepError(error.failure.message, error.failure.kind, error.failure.traceback) from None
            raise
        assert call.response is not None
        try:
            return await call_without_blocking(self.parse, call.response.text)
        except PatternStopped as error:
            raise StepError(str(error.at("output_parser")), "bad_output") from None

    def _messages(self, values: dict[str, Any]) -> list[dict[str, Any]]:
        variables = {**self.defaults, **values} if self.defaults else values
        try:
            user = {"role": "user", "content": self.template.render(variables)}
            if self.system is None:
                return [user]
            return [{"role": "system", "content": self.system.render(variables)}, user]
        except TemplateProblem as problem:
            if not problem.undefined:
                raise StepError(str(problem), "template") from None
            near = similar(problem.undefined, variables)
            message = f"{problem}; no input of the test and no step has this name{near}"
            raise StepError(message, "template") from None

    @property
    def enforces_timeout(self) -> bool:
        """True: a test may have another timeout than the step."""
        return True

    def settings_in(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of a test's `step_inputs` that are settings. The others are values for the template."""
        return {key: values[key] for key in values if key in _SETTINGS and key not in self.variables}

    def with_settings(self, settings: dict[str, Any]) -> StepRunner:
        """Return the step with the model, timeout and parameters of a test, or `self` if the test has none of them.

        Their types are checked before the run starts, as PromptSettings.
        """
        chosen = self.settings_in(settings)
        if not chosen:
            return self
        model = chosen.get("model") or chosen.get("model_override")
        params = {key: value for key, value in chosen.items() if key not in _NO_PARAMETERS}
        if isinstance(params.get("stop"), str):
            params["stop"] = [params["stop"]]
        return replace(
            self,
            role=self.find_role(model) if model else self.role,
            timeout=float(chosen["timeout"]) if chosen.get("timeout") else self.timeout,
            params=merge(self.params, {**(chosen.get("params") or {}), **params}),
        )


def parser(setting: Any) -> Parser:
    """Build a parser from `output_parser`: a name such as `json`, or `{type: regex, pattern: ..., group: 1}`.

    Raises ValueError for an unknown parser or an invalid pattern.
    """
    settings: Mapping[str, Any] = setting if isinstance(setting, dict) else {"type": setting or "text"}
    name = str(settings.get("type", "text"))
    name = _ALIASES.get(name, name)
    if name == "regex":
        return _regex_parser(settings)
    parsers: dict[str, Parser] = {
        "text": str.strip,
        "json": _parse_json,
        "number": _parse_number,
        "list": lambda text: [piece.strip() for piece in text.split(",") if piece.strip()],
    }
    if name not in parsers:
        raise ValueError(f"there is no parser {name!r}; known: {', '.join(PARSERS)}")
    return parsers[name]


def _parse_json(text: str) -> Any:
    try:
        return find_json(text)
    except NoJsonError:
        raise StepError(f"the reply contains no JSON: {_quote(text)}", "bad_output") from None


def _parse_number(text: str) -> float | int:
    """Return the last number in the text. Commas are thousands separators; "85%" is 85."""
    numbers = _NUMBER.findall(text)
    if not numbers:
        raise StepError(f"the reply contains no number: {_quote(text)}", "bad_output")
    digits = numbers[-1].replace(",", "")
    value = float(digits)
    if not isfinite(value):
        raise StepError(f"the number {_quote(digits)} is too large", "bad_output")
    return value if set(".eE") & set(digits) else int(digits)


def _regex_parser(settings: Mapping[str, Any]) -> Parser:
    """Build a regex parser. Without `group` it returns the named groups as an object.

    A pattern without named groups gives its first group, or the whole match if it has no group.
    """
    pattern, group = settings.get("pattern"), settings.get("group")
    if not isinstance(pattern, str):
        raise ValueError("a regex parser needs a `pattern`")  # noqa: TRY004 - a file is wrong, not a program
    try:
        compiled = compile_pattern(pattern, re.DOTALL)
    except UsageError as error:
        raise ValueError(str(error)) from None
    groups, names = compiled.regex.groups, compiled.regex.groupindex
    as_object = group is None and bool(names)
    if group is None:
        group = 1 if groups else 0
    if type(group) is int:
        exists = 0 <= group <= groups
    else:
        exists = isinstance(group, str) and group in names
    if not exists:
        raise ValueError(f"the pattern has no group {group!r}")

    def find(text: str) -> Any:
        match = compiled.search(text)
        if match is None:
            raise StepError(f"the pattern {pattern!r} does not match: {_quote(text)}", "bad_output")
        return match.groupdict() if as_object else match.group(group)

    return find


def _quote(text: str) -> str:
    return repr(cut_end(text, _MAX_QUOTE))
