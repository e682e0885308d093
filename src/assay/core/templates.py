"""Jinja templates in a sandbox with limits on time and size. They come from task files and data of others.

    Template("{{question}}\\nAnswer:").render({"question": "2 + 2?"})

Jinja's own sandbox protects attributes, but has no limits: `'a' * 10**10` fills the memory, and nested loops may
run for ever. So operations whose result can be much larger than their inputs are checked before they run, and
loop turns and calls are counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any

import jinja2
from jinja2 import StrictUndefined, TemplateError, UndefinedError, nodes
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from assay.core.errors import AssayError, UsageError
from assay.core.patterns import PatternStopped, compile_pattern

# Far beyond any context window. A larger text is a mistake or an attack.
MAX_CHARS = 10_000_000
# Loop turns and calls of one rendering.
MAX_STEPS = 50_000
_UNDEFINED = re.compile("'(.*)' is undefined")
# In a format string: a width of six or more digits, or a width that is taken from the values (`%*d`, `{:{}}`).
_WIDE_FORMAT = re.compile(r"\d{6,}|%[^%a-zA-Z]*\*|\{[^{}]*\{")
# An address in memory. Six digits are enough to know it again in the data: after the last one, other text may follow.
_ADDRESS = re.compile("0x[0-9a-f]{6}", re.IGNORECASE)
# How Python prints an object that has no text of its own: `<function safe_range at 0x7f9d3c4f2840>`.
_OBJECT = re.compile(r"(?:<([^<>]*?))?(?: |%20)at(?: |%20)(0x[0-9a-f]{6})", re.IGNORECASE)
# Filters whose result can be much larger than their inputs.
_LIMITED_FILTERS = ("center", "indent", "wordwrap", "format", "replace", "join", "batch", "slice", "tojson")
# String methods that pad their text to a width.
_PADDING_METHODS = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs"})


class TemplateProblem(AssayError):
    """A template cannot be compiled or rendered. The message has the reason.

    `undefined` is the name that the template uses and that has no value, if that is the reason.
    """

    def __init__(self, message: str, undefined: str = "") -> None:
        super().__init__(message)
        self.undefined = undefined


class _TooLarge(TemplateError):
    def __init__(self) -> None:
        super().__init__(f"the result would be larger than {MAX_CHARS:,} characters")


def _check_size(size: int) -> None:
    if size > MAX_CHARS:
        raise _TooLarge


def _size(value: Any) -> int:
    return len(value) if isinstance(value, (str, bytes, list, tuple)) else 0


def _check_binop(operator: str, left: Any, right: Any) -> None:
    """Raise if the result of an operator would be too large."""
    if operator == "*":
        for text, times in ((left, right), (right, left)):
            if isinstance(times, int):
                _check_size(_size(text) * times)
        if isinstance(left, int) and isinstance(right, int):
            # Products of large integers take long: 1000 per bit allows numbers of 10,000 bits.
            _check_size((left.bit_length() + right.bit_length()) * 1000)
    elif operator == "**":
        if isinstance(left, int) and isinstance(right, int):
            _check_size(left.bit_length() * right)
    elif operator == "+":
        _check_size(_size(left) + _size(right))
    elif operator == "%" and isinstance(left, str) and _WIDE_FORMAT.search(left):
        raise _TooLarge


def _check_method(name: str, owner: Any, args: tuple[Any, ...]) -> None:
    """Raise if the result of a string method would be too large."""
    if name in _PADDING_METHODS:
        _check_size(max((arg for arg in args if isinstance(arg, int)), default=0))
    elif name == "join" and args:
        items = args[0] if isinstance(args[0], (list, tuple, range, str)) else ()
        _check_size(len(owner) * len(items) + sum(map(_size, items)))
    elif name == "replace" and len(args) > 1 and isinstance(args[1], str):
        _check_size((len(owner) + 1) * (len(args[1]) + 1))
    elif name in ("format", "format_map") and _WIDE_FORMAT.search(str(owner)):
        raise _TooLarge


def _check_filter(name: str, value: Any, args: tuple[Any, ...]) -> None:
    """Raise if the result of a filter would be too large."""
    if name in ("batch", "slice", "tojson"):
        # The number counts items, or spaces per level. 100 characters are assumed for each of them.
        _check_size(max((arg for arg in args if isinstance(arg, int)), default=0) * 100)
    elif name in ("center", "indent", "wordwrap"):
        # Padding is added to every line.
        width = max((arg for arg in args if isinstance(arg, int)), default=0)
        _check_size(width * (str(value).count("\n") + 1))
    elif name == "format":
        _check_method("format", str(value), args)
    elif name == "replace":
        _check_method("replace", str(value), args)
    elif name == "join":
        _check_method("join", str(args[0]) if args else "", (value,))


def _limited_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    # Jinja passes its context or environment to some filters, before the value.
    skip = 1 if hasattr(function, "jinja_pass_arg") else 0

    @wraps(function)
    def limited(*args: Any, **kwargs: Any) -> Any:
        _check_filter(name, args[skip], (*args[skip + 1 :], *kwargs.values()))
        return function(*args, **kwargs)

    return limited


def _regex_replace(string: str, pattern: str, repl: str, count: int = 0) -> str:
    return compile_pattern(pattern).sub(repl, string, count)


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "%", "+"})

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, keep_trailing_newline=True)
        self.steps = 0
        # lm-evaluation-harness has this filter, and its task files use it.
        self.filters["regex_replace"] = _regex_replace
        for name in _LIMITED_FILTERS:
            self.filters[name] = _limited_filter(name, self.filters[name])
        for name in ("lipsum", "cycler", "joiner"):
            del self.globals[name]
        # The same values must always give the same text.
        del self.filters["random"]
        self.globals["__step__"] = self._count_step
        self.globals["__join__"] = self._join

    def _count_step(self) -> str:
        """Count a loop turn or a call. Returns an empty text, because templates print it."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TemplateError(f"it takes more than {MAX_STEPS:,} steps")
        return ""

    def _join(self, *parts: Any) -> str:
        """Do what the operator `~` does, with the limit on size."""
        texts = [str(part) for part in parts]
        _check_size(sum(map(len, texts)))
        return "".join(texts)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        _check_binop(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        self._count_step()
        # Jinja wraps str.format; the bound method is in __wrapped__.
        owner = getattr(getattr(obj, "__wrapped__", obj), "__self__", None)
        if isinstance(owner, str):
            _check_method(getattr(obj, "__name__", ""), owner, args)
        return super().call(context, obj, *args, **kwargs)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return _insert_limits(super()._parse(source, name, filename))


def _insert_limits(tree: nodes.Template) -> nodes.Template:
    """Insert a call of `__step__` into every loop, and replace `a ~ b` by a call of `__join__`.

    Jinja lets an environment intercept calls and most operators, but neither loops nor `~`.
    """
    for loop in tree.find_all(nodes.For):
        loop.body.insert(0, nodes.Output([_call("__step__", [])]))
    _replace_concat(tree)
    if tree.environment is not None:
        tree.set_environment(tree.environment)  # for the new nodes
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
    """Return (text, whether it is a name) pairs of a template that has only text and `{{name}}`, else None."""
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
    """Raise TemplateProblem if a template does not compile. Takes a third of the time of building a Template."""
    try:
        tree = _environment.parse(source)
    except TemplateError as error:
        raise TemplateProblem(f"the template does not compile: {error}") from None
    # Parsing does not look up filters and tests; compiling does.
    for kind, table in ((nodes.Filter, _environment.filters), (nodes.Test, _environment.tests)):
        for node in tree.find_all(kind):
            if node.name not in table:
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
    """A compiled template. The same values always give the same text.

    A template that has only text and `{{name}}`, as most do, is not compiled. Its parts are joined without Jinja, in a
    tenth of the time.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._parts: list[tuple[str, bool]] = []
        self._name = ""  # of a template that is nothing but `{{name}}`
        self._template: jinja2.Template | None = None
        try:
            tree = _environment.parse(source)
            parts = _plain_parts(tree)
            if parts is not None:
                self._parts = parts
                if len(parts) == 1 and parts[0][1]:
                    self._name = parts[0][0]
                return
            self._template = _environment.from_string(tree)
        except TemplateError as error:
            raise TemplateProblem(f"the template does not compile: {error}") from None
        # Jinja copies this ChainMap for every rendering. Copying a plain dict takes a quarter of the time.
        self._template.globals = dict(self._template.globals)

    def render(self, values: Mapping[str, Any]) -> str:
        """Return the text. Any error inside the template is raised as TemplateProblem."""
        try:
            if self._name:
                text = str(values[self._name])
            elif self._template is None:
                text = "".join([str(values[text]) if is_name else text for text, is_name in self._parts])
            else:
                _environment.steps = 0
                text = self._template.render(values)
        except Exception as error:  # noqa: BLE001 - a template may fail in any way, as user code may
            raise TemplateProblem(_error_message(error), _undefined_name(error)) from None
        if len(text) > MAX_CHARS:
            raise TemplateProblem(str(_TooLarge()))
        if "0x" in text or "0X" in text:
            self._check_addresses(text, values)
        return text

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


def _error_message(error: Exception) -> str:
    # Jinja's sandbox limits range() and raises OverflowError("Range too big …").
    if isinstance(error, OverflowError) and "Range" in str(error):
        return "the template loops too often: " + str(error)
    # The fast path without Jinja looks names up in `values`. The text is that of Jinja's UndefinedError.
    if isinstance(error, KeyError):
        return f"the template is refused: {error.args[0]!r} is undefined"
    if isinstance(error, (TemplateError, PatternStopped, UsageError)):
        return f"the template is refused: {error}"
    return f"the template raised {type(error).__name__}: {error}"


def _undefined_name(error: Exception) -> str:
    if isinstance(error, KeyError):
        return str(error.args[0])
    match = _UNDEFINED.fullmatch(str(error)) if isinstance(error, UndefinedError) else None
    return match[1] if match else ""
