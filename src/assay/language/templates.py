"""Templates of prompts, in Jinja's language. They come from task files and data of others.

    Template("{{question}}\\nAnswer:").render({"question": "2 + 2?"})

Most templates have only text and `{{name}}`. They are rendered here; Jinja is not even imported for them. All others
run in a sandbox: see `template_sandbox.py`.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from assay.core.errors import AssayError, UsageError
from assay.language.patterns import PatternStopped
from assay.language.text_bounds import MAX_TEXT_CHARS, TEXT_TOO_LARGE

if TYPE_CHECKING:
    import jinja2

_NAME = re.compile(r"\{\{ *([A-Za-z_][A-Za-z0-9_]*) *\}\}")
# Names that have a meaning of their own in Jinja. Templates with them are left to Jinja.
_RESERVED = frozenset(keyword.kwlist) | {
    *("true", "false", "none", "range", "dict", "namespace", "__step__", "__join__"),
    *("self", "super", "loop", "caller", "varargs", "kwargs"),
}


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
                self._template = template_sandbox.compile_template(source)
            except TemplateError as error:
                raise TemplateProblem(f"the template does not compile: {error}") from None
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
            if self._template is None and "0x" in text:
                from assay.language.template_sandbox import printed_size

                for name, is_name in self._parts or ():
                    if is_name:
                        printed_size(values[name])  # refuses an object that is printed with its address in memory
        except Exception as error:  # noqa: BLE001 - a template may fail in any way, as user code may
            raise self._problem(error) from None
        if len(text) > MAX_TEXT_CHARS:
            raise TemplateProblem(TEXT_TOO_LARGE)
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


def template_names(source: str) -> set[str]:
    """Return the names that a template takes from its values."""
    parts = split_plain(source)
    if parts is not None:
        return {name for name, is_name in parts if is_name}
    from jinja2 import TemplateError

    from assay.language import template_sandbox

    try:
        return template_sandbox.undeclared_names(source)
    except TemplateError as error:
        raise TemplateProblem(f"the template does not compile: {error}") from None
