"""Templates of prompts, in Jinja's language. They come from task files and data of others.

    Template("{{question}}\\nAnswer:").render({"question": "2 + 2?"})

Most templates have only text and `{{name}}`. They are rendered here; Jinja is not even imported for them. All others
run in a sandbox: see `template_sandbox.py`.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from assay.core.errors import AssayError, UsageError
from assay.files.bounds import MAX_TEXT_CHARS, TEXT_TOO_LARGE
from assay.language.patterns import PatternStopped

if TYPE_CHECKING:
    import jinja2

_NAME = re.compile(r"\{\{ *([A-Za-z_][A-Za-z0-9_]*) *\}\}")
# Names that have a meaning of their own in Jinja. Templates with them are left to Jinja.
_RESERVED = frozenset(keyword.kwlist) | {
    *("true", "false", "none", "range", "dict", "namespace", "__step__", "__join__"),
    *("self", "super", "loop", "caller", "varargs", "kwargs"),
}
# An address in memory. Six digits are enough to know it again in the data: after the last one, other text may follow.
_ADDRESS = re.compile("0x[0-9a-f]{6}", re.IGNORECASE)
# How Python prints an object that has no text of its own: `<function safe_range at 0x7f9d3c4f2840>`.
_OBJECT = re.compile(r"(?:<([^<>]*?))?(?: |%20)at(?: |%20)(0x[0-9a-f]{6})", re.IGNORECASE)


class TemplateProblem(AssayError):
    """A template cannot be compiled or rendered. The message has the reason.

    `undefined` is the name that the template uses and that has no value, if that is the reason.
    """

    def __init__(self, message: str, undefined: str = "") -> None:
        super().__init__(message)
        self.undefined = undefined


class Template:
    """A compiled template. The same values always give the same text.

    A template that has only text and `{{name}}`, as most do, is not compiled. Its parts are joined without Jinja, in a
    tenth of the time.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._parts = split_plain(source)
        self._template: jinja2.Template | None = None
        if self._parts is None:
            from jinja2 import TemplateError

            from assay.language import template_sandbox

            try:
                compiled = template_sandbox.compile_template(source)
            except TemplateError as error:
                raise TemplateProblem(f"the template does not compile: {error}") from None
            if isinstance(compiled, list):
                self._parts = compiled
            else:
                self._template = compiled
        # Of a template that is nothing but `{{name}}`.
        self._name = self._parts[0][0] if self._parts and len(self._parts) == 1 and self._parts[0][1] else ""

    def render(self, values: Mapping[str, Any]) -> str:
        """Return the text. Any error inside the template is raised as TemplateProblem."""
        try:
            if self._name:
                text = str(values[self._name])
            elif self._template is None:
                text = "".join([str(values[text]) if is_name else text for text, is_name in self._parts or ()])
            else:
                from assay.language import template_sandbox

                text = template_sandbox.render(self._template, values)
        except Exception as error:  # noqa: BLE001 - a template may fail in any way, as user code may
            raise self._problem(error) from None
        if len(text) > MAX_TEXT_CHARS:
            raise TemplateProblem(TEXT_TOO_LARGE)
        if "0x" in text or "0X" in text:
            self._check_addresses(text, values)
        return text

    def _problem(self, error: Exception) -> TemplateProblem:
        # Without Jinja, names are looked up in `values`. The text is that of Jinja's UndefinedError.
        if isinstance(error, KeyError):
            return TemplateProblem(f"the template is refused: {error.args[0]!r} is undefined", str(error.args[0]))
        if self._template is not None:
            from jinja2 import TemplateError

            from assay.language.template_sandbox import undefined_name

            # Jinja's sandbox limits range() and raises OverflowError("Range too big …").
            if isinstance(error, OverflowError) and "Range" in str(error):
                return TemplateProblem(f"the template loops too often: {error}")
            if isinstance(error, TemplateError):
                return TemplateProblem(f"the template is refused: {error}", undefined_name(error))
        if isinstance(error, (PatternStopped, UsageError)):
            return TemplateProblem(f"the template is refused: {error}")
        return TemplateProblem(f"the template raised {type(error).__name__}: {error}")

    def _check_addresses(self, text: str, values: Mapping[str, Any]) -> None:
        """Raise if the text has an address in memory, which comes from neither the template nor the values.

        `{{ range }}` and `{{ names | map("upper") }}` print one. It is another in every process, so a run that
        continues would not find the reply to its prompt.
        """
        if "0x" in self.source.lower():
            return
        printed = _OBJECT.findall(text)
        if not printed:
            return
        data = {address.lower() for each in _texts_in(values) for address in _ADDRESS.findall(each)}
        # `{{ '%#x' | format(n) }}` prints a number of the values.
        for name, address in printed:
            if address.lower() not in data:
                raise TemplateProblem(
                    f"the template is refused: it prints {name or 'an object of Python'}, which is no text; call a "
                    "method with (), and end filters such as map with | list"
                )


def _texts_in(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys and texts of a JSON value, and its whole numbers as `hex` prints them.

    Without recursion: the value may be nested deep.
    """
    rest: list[Any] = [values]
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, int):
            yield hex(value)
        elif isinstance(value, Mapping):
            rest.extend(value)
            rest.extend(value.values())
        elif isinstance(value, (list, tuple)):
            rest.extend(value)


def split_plain(source: str) -> list[tuple[str, bool]] | None:
    """Return (text, whether it is a name) pairs of a template that has only text and `{{name}}`, else None.

    None also for odd spellings, such as `{{- name }}`, which Jinja has to read.
    """
    if "{%" in source or "{#" in source or "\r" in source:
        return None
    parts: list[tuple[str, bool]] = []
    end = 0
    for match in _NAME.finditer(source):
        text, name = source[end : match.start()], match[1]
        # `{{{name}}}`: Jinja's expression begins at the first brace.
        if "{{" in text or text.endswith("{") or name in _RESERVED:
            return None
        parts += [(text, False), (name, True)] if text else [(name, True)]
        end = match.end()
    rest = source[end:]
    if "{{" in rest:
        return None
    return [*parts, (rest, False)] if rest else parts


def check_template(source: str) -> None:
    """Raise TemplateProblem if a template does not compile. Takes a third of the time of building a Template."""
    if split_plain(source) is not None:
        return
    from jinja2 import TemplateError

    from assay.language.template_sandbox import unknown_word

    try:
        unknown = unknown_word(source)
    except TemplateError as error:
        raise TemplateProblem(f"the template does not compile: {error}") from None
    if unknown:
        raise TemplateProblem(f"the template does not compile: No {unknown}.")


def names_in(source: str) -> set[str]:
    """The names that a template takes from its values."""
    parts = split_plain(source)
    if parts is not None:
        return {name for name, is_name in parts if is_name}
    from jinja2 import TemplateError

    from assay.language import template_sandbox

    try:
        return template_sandbox.names_in(source)
    except TemplateError as error:
        raise TemplateProblem(f"the template does not compile: {error}") from None
