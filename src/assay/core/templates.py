"""Jinja templates that cannot harm: sandboxed, bounded in time and in size, compiled once.

The sandbox of Jinja keeps attributes safe but bounds nothing: `'a' * 10**10` fills the memory and two
nested loops never end. So every operation that can blow up is checked before it happens, and loops and
calls are counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from jinja2 import StrictUndefined, TemplateError, nodes
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from assay.core.errors import AssayError

MAX_CHARS = 10_000_000
MAX_STEPS = 50_000
_WIDTHS = re.compile(r"\d{6,}|%[^%a-zA-Z]*\*|\{[^{}]*\{")
"""A width of a million and more, or one that comes from the values."""
_BOUNDED = ("center", "indent", "wordwrap", "format", "replace", "join", "batch", "slice", "tojson")
_PADDING = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs"})


class TemplateProblem(AssayError):
    """A template cannot be compiled or rendered; the message says why."""


class _TooBig(TemplateError):
    def __init__(self) -> None:
        super().__init__(f"the result would be larger than {MAX_CHARS:,} characters")


def _check(size: int) -> None:
    if size > MAX_CHARS:
        raise _TooBig


def _size(value: Any) -> int:
    return len(value) if isinstance(value, (str, bytes, list, tuple)) else 0


def _check_binop(operator: str, left: Any, right: Any) -> None:
    if operator == "*":
        for text, times in ((left, right), (right, left)):
            if isinstance(times, int):
                _check(_size(text) * times)
        if isinstance(left, int) and isinstance(right, int):
            _check((left.bit_length() + right.bit_length()) * 1000)
    elif operator == "**":
        if isinstance(left, int) and isinstance(right, int):
            _check(left.bit_length() * right)
    elif operator == "+":
        _check(_size(left) + _size(right))
    elif operator == "%" and isinstance(left, str) and _WIDTHS.search(left):
        raise _TooBig


def _check_method(name: str, owner: Any, args: tuple[Any, ...]) -> None:
    """String methods whose result is larger than all that went in."""
    if name in _PADDING:
        _check(max((arg for arg in args if isinstance(arg, int)), default=0))
    elif name == "join" and args:
        items = args[0] if isinstance(args[0], (list, tuple, range, str)) else ()
        _check(len(owner) * len(items) + sum(map(_size, items)))
    elif name == "replace" and len(args) > 1 and isinstance(args[1], str):
        _check((len(owner) + 1) * (len(args[1]) + 1))
    elif name in ("format", "format_map") and _WIDTHS.search(str(owner)):
        raise _TooBig


def _check_filter(name: str, value: Any, args: tuple[Any, ...]) -> None:
    """Filters whose result is larger than all that went in."""
    if name in ("batch", "slice", "tojson"):
        _check(max((arg for arg in args if isinstance(arg, int)), default=0) * 100)
    elif name in ("center", "indent", "wordwrap"):
        widest = max((arg for arg in args if isinstance(arg, int)), default=0)
        _check(widest * (str(value).count("\n") + 1))
    elif name == "format":
        _check_method("format", str(value), args)
    elif name == "replace":
        _check_method("replace", str(value), args)
    elif name == "join":
        _check_method("join", str(args[0]) if args else "", (value,))


def _bounded_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    skip = 1 if hasattr(function, "jinja_pass_arg") else 0

    @wraps(function)
    def bounded(*args: Any, **kwargs: Any) -> Any:
        _check_filter(name, args[skip], (*args[skip + 1 :], *kwargs.values()))
        return function(*args, **kwargs)

    return bounded


def _regex_replace(string: str, pattern: str, repl: str, count: int = 0) -> str:
    return re.sub(pattern, repl, string, count=count)


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "%", "+"})

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, keep_trailing_newline=True)
        self.steps = 0
        self.filters["regex_replace"] = _regex_replace
        for name in _BOUNDED:
            self.filters[name] = _bounded_filter(name, self.filters[name])
        for name in ("lipsum", "cycler", "joiner"):
            del self.globals[name]
        del self.filters["random"]  # the same values must give the same text
        self.globals["__step__"] = self._step
        self.globals["__join__"] = self._join

    def _step(self) -> str:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TemplateError(f"it takes more than {MAX_STEPS:,} steps")
        return ""

    def _join(self, *parts: Any) -> str:
        texts = [str(part) for part in parts]
        _check(sum(map(len, texts)))
        return "".join(texts)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        _check_binop(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        self._step()
        owner = getattr(getattr(obj, "__wrapped__", obj), "__self__", None)
        if isinstance(owner, str):
            _check_method(getattr(obj, "__name__", ""), owner, args)
        return super().call(context, obj, *args, **kwargs)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return _counted(super()._parse(source, name, filename))


def _counted(tree: nodes.Template) -> nodes.Template:
    """Puts a step into every loop, and turns `a ~ b` into a call that can be bounded."""
    for loop in tree.find_all(nodes.For):
        loop.body.insert(0, nodes.Output([_call("__step__", [])]))
    _replace_concat(tree)
    if tree.environment is not None:
        tree.set_environment(tree.environment)
    return tree


def _call(name: str, args: list[nodes.Expr]) -> nodes.Call:
    return nodes.Call(nodes.Name(name, "load"), args, [], None, None)


def _replace_concat(node: nodes.Node) -> None:
    for field, value in node.iter_fields():
        if isinstance(value, nodes.Concat):
            setattr(node, field, _call("__join__", list(value.nodes)))
        elif isinstance(value, list):
            value[:] = [
                _call("__join__", list(item.nodes)) if isinstance(item, nodes.Concat) else item
                for item in value
            ]
    for child in node.iter_child_nodes():
        _replace_concat(child)


_environment = _Environment()


def _plain_parts(tree: nodes.Template) -> list[tuple[str, bool]] | None:
    """(text, is a name) of a template that only puts values into text; None for any other."""
    parts: list[tuple[str, bool]] = []
    for output in tree.body:
        if not isinstance(output, nodes.Output):
            return None
        for node in output.nodes:
            if isinstance(node, nodes.TemplateData):
                parts.append((node.data, False))
            elif isinstance(node, nodes.Name) and node.name not in _environment.globals:
                parts.append((node.name, True))
            else:
                return None
    return parts


def check_template(source: str) -> None:
    """What compiling would refuse, in a third of the time: nothing is made that could be rendered."""
    try:
        tree = _environment.parse(source)
    except TemplateError as error:
        raise TemplateProblem(f"the template does not compile: {error}") from None
    for kind, known in ((nodes.Filter, _environment.filters), (nodes.Test, _environment.tests)):
        for node in tree.find_all(kind):
            if node.name not in known:
                word = "filter" if kind is nodes.Filter else "test"
                raise TemplateProblem(f"the template does not compile: No {word} named {node.name!r}.")


def names_in(source: str) -> set[str]:
    """The names that a template takes from its values."""
    from jinja2 import meta

    try:
        return meta.find_undeclared_variables(_environment.parse(source)) - _environment.globals.keys()
    except TemplateError as error:
        raise TemplateProblem(f"the template does not compile: {error}") from None


class Template:
    """One compiled template. Rendering it with the same values gives the same text.

    Most templates only put values into text: these are joined without Jinja, in a tenth of the time.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        try:
            self._parts = _plain_parts(_environment.parse(source))
            self._template = _environment.from_string(source)
        except TemplateError as error:
            raise TemplateProblem(f"the template does not compile: {error}") from None
        # Jinja copies this ChainMap on every render; a plain dict costs a quarter of the time.
        self._template.globals = dict(self._template.globals)

    def render(self, values: Mapping[str, Any]) -> str:
        """The text. Whatever goes wrong inside is a TemplateProblem."""
        try:
            if self._parts is not None:
                text = "".join([str(values[text]) if named else text for text, named in self._parts])
            else:
                _environment.steps = 0
                text = self._template.render(values)
        except Exception as error:  # noqa: BLE001 - templates call what documents hold
            raise TemplateProblem(_why(error)) from None
        if len(text) > MAX_CHARS:
            raise TemplateProblem(str(_TooBig()))
        return text


def _why(error: Exception) -> str:
    if isinstance(error, OverflowError) and "Range" in str(error):
        return "the template loops too often: " + str(error)
    if isinstance(error, KeyError):
        return f"the template is refused: {error.args[0]!r} is undefined"
    if isinstance(error, TemplateError):
        return f"the template is refused: {error}"
    return f"the template raised {type(error).__name__}: {error}"
