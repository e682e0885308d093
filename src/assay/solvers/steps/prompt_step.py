"""A step that calls a model: it renders a template as the prompt and parses the reply.

`output_parser` selects the parser: text, json, regex, number (the last number) or list (split at commas).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from msgspec import Struct

from assay.core.errors import ModelError
from assay.core.templates import Template, TemplateProblem
from assay.core.types import Request
from assay.solvers.json_reply import NoJsonError, find_json
from assay.solvers.steps.runner import StepContext, StepError, StepRunner

Parser = Callable[[str], Any]
PARSERS = ("text", "json", "regex", "number", "list")

_ALIASES = {"none": "text", "str": "text", "string": "text"}
# A sign counts only at the start or after a space or another symbol: in "3-5" the last number is 5.
_NUMBER = re.compile(r"(?:(?<![\w.])[-+])?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?")
_MAX_QUOTE = 200  # characters of a reply in an error message


class PromptStep(Struct, frozen=True, kw_only=True):
    """Sends one prompt. `role` names the model of the run. `defaults` fills variables that have no value."""

    role: str
    template: Template
    parse: Parser
    system: Template | None = None
    params: dict[str, Any] = {}
    defaults: dict[str, Any] = {}

    async def run(self, values: dict[str, Any], ctx: StepContext) -> Any:
        """Call the model once and parse the reply.

        A refusal raises StepError. Any other failed call raises ModelError, which fails the case.
        """
        asker = ctx.case.model(self.role)
        request = Request(
            model=asker.name, endpoint=asker.endpoint, messages=self._messages(values), params=self.params
        )
        started = time.perf_counter()
        try:
            call = await asker.call(request)
        except ModelError as error:
            # The model answered, for example with a refusal. Other items and steps continue.
            if error.failure.status == "subject_error":
                raise StepError(error.failure.message, error.failure.kind) from None
            raise
        ctx.meter.add(call, time.perf_counter() - started)
        assert call.response is not None
        return self.parse(call.response.text)

    def _messages(self, values: dict[str, Any]) -> list[dict[str, Any]]:
        variables = {**self.defaults, **values} if self.defaults else values
        try:
            user = {"role": "user", "content": self.template.render(variables)}
            if self.system is None:
                return [user]
            return [{"role": "system", "content": self.system.render(variables)}, user]
        except TemplateProblem as problem:
            raise StepError(str(problem), "template") from None

    @property
    def enforces_timeout(self) -> bool:
        """False, so that the solver applies the timeout: it can cancel a model call at any time."""
        return False

    def with_settings(self, settings: dict[str, Any]) -> StepRunner:
        """Return `self`: a prompt step has no settings. The test's `step_inputs` are values for the template."""
        return self


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
        compiled = re.compile(pattern, re.DOTALL)
    except re.error as error:
        raise ValueError(f"the pattern does not compile: {error}") from None
    as_object = group is None and bool(compiled.groupindex)
    if group is None:
        group = 1 if compiled.groups else 0
    if type(group) is int:
        exists = 0 <= group <= compiled.groups
    else:
        exists = isinstance(group, str) and group in compiled.groupindex
    if not exists:
        raise ValueError(f"the pattern has no group {group!r}")

    def find(text: str) -> Any:
        match = compiled.search(text)
        if match is None:
            raise StepError(f"the pattern {pattern!r} does not match: {_quote(text)}", "bad_output")
        return match.groupdict() if as_object else match[group]

    return find


def _quote(text: str) -> str:
    return repr(text if len(text) <= _MAX_QUOTE else text[:_MAX_QUOTE] + "…")
