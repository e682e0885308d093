"""Jinja in a sandbox with limits on time and size, for templates that come from task files and data of others.

Jinja's own sandbox protects attributes, but has no limits: `'a' * 10**10` fills the memory, and nested loops may
run for ever. So operations whose result can be much larger than their inputs are checked before they run, and
loop turns and calls are counted.

`templates.py` imports this file only for templates that need it: importing Jinja takes as long as forty renderings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import jinja2
from jinja2 import StrictUndefined, TemplateError, UndefinedError, meta, nodes
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from assay.core.bounds import MAX_TEXT_CHARS, TEXT_TOO_LARGE
from assay.core.patterns import compile_pattern

# Loop turns and calls of one rendering.
MAX_STEPS = 50_000
_UNDEFINED = re.compile("'(.*)' is undefined")
# In a format string: a width of six or more digits, or a width that is taken from the values (`%*d`, `{:{}}`).
_WIDE_FORMAT = re.compile(r"\d{6,}|%[^%a-zA-Z]*\*|\{[^{}]*\{")
# Filters whose result can be much larger than their inputs.
_LIMITED_FILTERS = ("center", "indent", "wordwrap", "format", "replace", "join", "batch", "slice", "tojson")
# String methods that pad their text to a width.
_PADDING_METHODS = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs"})


class _TooLarge(TemplateError):
    def __init__(self) -> None:
        super().__init__(TEXT_TOO_LARGE)


def _check_size(size: int) -> None:
    if size > MAX_TEXT_CHARS:
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


environment = _Environment()


def plain_parts(tree: nodes.Template) -> list[tuple[str, bool]] | None:
    """Return (text, whether it is a name) pairs of a template that has only text and `{{name}}`, else None."""
    parts: list[tuple[str, bool]] = []
    for output in tree.body:
        if not isinstance(output, nodes.Output):
            return None
        for node in output.nodes:
            if isinstance(node, nodes.TemplateData):
                parts.append((node.data, False))
            elif isinstance(node, nodes.Name) and node.name not in environment.globals:
                parts.append((node.name, True))
            else:
                return None
    return parts


def compile_template(source: str) -> list[tuple[str, bool]] | jinja2.Template:
    """Return the parts of a template that has only text and `{{name}}`, else the compiled template.

    Raises TemplateError if it does not compile.
    """
    tree = environment.parse(source)
    parts = plain_parts(tree)
    if parts is not None:
        return parts
    template = environment.from_string(tree)
    # Jinja copies this ChainMap for every rendering. Copying a plain dict takes a quarter of the time.
    template.globals = dict(template.globals)
    return template


def render(template: jinja2.Template, values: Mapping[str, Any]) -> str:
    """Return the text of a template. It may raise anything, as user code may."""
    environment.steps = 0
    return template.render(values)


def unknown_word(source: str) -> str:
    """Return the filter or test that a template uses and that does not exist, as `filter named 'x'`; else nothing.

    Raises TemplateError if the template cannot be parsed. Parsing does not look up filters and tests; compiling does,
    and takes three times as long.
    """
    tree = environment.parse(source)
    for kind, table in ((nodes.Filter, environment.filters), (nodes.Test, environment.tests)):
        for node in tree.find_all(kind):
            if node.name not in table:
                return f"{'filter' if kind is nodes.Filter else 'test'} named {node.name!r}"
    return ""


def names_in(source: str) -> set[str]:
    """Return the names that a template takes from its values. Raises TemplateError."""
    return meta.find_undeclared_variables(environment.parse(source)) - environment.globals.keys()


def undefined_name(error: Exception) -> str:
    """Return the name that a template uses and that has no value, if that is the error; else an empty text."""
    match = _UNDEFINED.fullmatch(str(error)) if isinstance(error, UndefinedError) else None
    return match[1] if match else ""
