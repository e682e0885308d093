"""Jinja in a sandbox with limits on time and size, for templates that come from task files and data of others.

Jinja's own sandbox protects attributes, but has no limits: `'a' * 10**10` fills the memory, and nested loops may
run for ever. So operations whose result can be much larger than their inputs are checked before they run, all texts
that a rendering makes are counted, and so are loop turns and calls.

`templates.py` imports this file only for templates that need it: importing Jinja takes as long as forty renderings.
"""

from __future__ import annotations

import re
import time
from collections.abc import (
    Callable,
    Collection,
    Generator,
    ItemsView,
    Iterator,
    KeysView,
    Mapping,
    Sized,
    ValuesView,
)
from functools import wraps
from types import GeneratorType
from typing import Any

import jinja2
from jinja2 import StrictUndefined, TemplateError, UndefinedError, meta, nodes, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from assay.core.errors import UsageError
from assay.language.patterns import compile_pattern
from assay.language.text_bounds import MAX_TEXT_CHARS, TEXT_TOO_LARGE

# Loop turns and calls of one rendering.
MAX_STEPS = 50_000
# Characters of all texts that one rendering makes. A text may be kept, so they are the memory that it takes.
_MAX_MADE = 5 * MAX_TEXT_CHARS
# Characters that stand for an item of a list: a reference has eight bytes.
_ITEM_CHARS = 4
# The same for an item that goes through `map` or `select`, which takes half a microsecond.
_PASSED_ITEM_CHARS = 20
# Seconds of one rendering. The limits on size keep a rendering of few steps far below it.
_MAX_SECONDS = 10.0
# Steps between two looks at the clock, and characters of an operation after which it is looked at.
_CLOCK_STEPS, _CLOCK_CHARS = 64, 1_000_000
# Bytes that an operation may copy, for those that copy their text again for each word or tag.
_MAX_COPIED = 10**9
_UNDEFINED = re.compile("'(.*)' is undefined")
# How Python prints an object that has no text of its own: `<function safe_range at 0x7f9d3c4f2840>`. The second form is
# Jinja's `self`, which hides a column of that name.
_OBJECT = re.compile(r"<(?:([^<>]*) at 0x[0-9a-f]{6}|(TemplateReference))", re.IGNORECASE)
# In a format string: a width of six or more digits, or a width that is taken from the values (`%*d`, `{:{}}`).
_WIDE_FORMAT = re.compile(r"\d{6,}|%[^%a-zA-Z]*\*|\{[^{}]*\{")
# In a format string: a value is printed as it is printed inside a list (`%r`, `{!r}`).
_REPR_FORMAT = re.compile(r"%[^%a-zA-Z]*[ar]|![ar]")
# Filters that make a text of their value.
_TEXT_FILTERS = (
    *("capitalize", "center", "e", "escape", "forceescape", "format", "indent", "join", "lower", "pprint"),
    *("regex_replace", "replace", "reverse", "safe", "string", "striptags", "title", "tojson", "trim", "truncate"),
    *("upper", "urlencode", "urlize", "wordcount", "wordwrap", "xmlattr"),
)
# Filters that go through the items of their value.
_ITEM_FILTERS = (
    *("batch", "dictsort", "groupby", "items", "list", "map", "max", "min", "reject", "rejectattr", "select"),
    *("selectattr", "slice", "sort", "sum", "unique"),
)
# String methods that pad their text to a width.
_PADDING_METHODS = frozenset({"center", "ljust", "rjust", "zfill"})


class _TooLarge(TemplateError):
    def __init__(self) -> None:
        super().__init__(TEXT_TOO_LARGE)


def _check_size(size: int) -> None:
    if size > MAX_TEXT_CHARS:
        raise _TooLarge


def _size(value: Any) -> int:
    return len(value) if isinstance(value, (str, bytes, list, tuple)) else 0


def printed_size(value: Any, known: dict[int, tuple[Any, int | None]] | None = None) -> int:
    """Return about how many characters a value has as a text. Called for every value that becomes a part of a text.

    Raises TemplateError for a value that contains itself, and UsageError for an object that Python prints with its
    address in memory, as in `{{ range }}` and `{{ [names | map("upper")] }}`. The address is another in every process,
    so a run that continues would not find the reply to its prompt.

    An object that is in a list twice is printed twice. `known` has the sizes of lists that were counted before, so that
    lists of lists that share their items are counted in no time. The size is None while the items are counted.
    """
    if isinstance(value, (str, bytes)):
        return len(value)
    if value is None or isinstance(value, (int, float)):
        return 0  # asked for often, and the questions below take longer
    if isinstance(value, Namespace):
        value = value._Namespace__attrs  # noqa: SLF001 - it prints them
    if isinstance(value, dict):
        items: Any = (*value, *value.values())
    elif isinstance(value, (list, tuple, set, frozenset, KeysView, ValuesView, ItemsView)):
        items = value
    else:
        text = str(value) if known is None else repr(value)
        if (printed := _OBJECT.search(text)) is not None:
            what = printed[1] or printed[2]
            raise UsageError(
                f"it prints {what}, which is no text; call a method with (), and end filters such as map with | list"
            )
        return len(text)
    known = {} if known is None else known
    if id(value) not in known:
        # With the value: the pairs of `dict.items()` are made one by one, and one that is gone would pass on its id.
        known[id(value)] = value, None
        known[id(value)] = value, sum([printed_size(item, known) + len(", ") for item in items])
    size = known[id(value)][1]
    if size is None:
        # Python prints values that contain each other once for every way through them, which may be very many.
        raise TemplateError("it prints a value that contains itself")
    return size


def _largest(args: tuple[Any, ...]) -> int:
    return max((arg for arg in args if isinstance(arg, int)), default=0)


def _longest(args: tuple[Any, ...]) -> int:
    return max((len(arg) for arg in args if isinstance(arg, str)), default=0)


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
    elif operator == "%" and isinstance(left, str):
        _check_format(left, "%", right)


def _check_format(text: str, sign: str, values: Any) -> None:
    """Raise if a format string would be too large with these values. Each sign may print all of them."""
    if _WIDE_FORMAT.search(text):
        raise _TooLarge
    if _REPR_FORMAT.search(text):
        values = [values]
    _check_size(len(text) + text.count(sign) * printed_size(values))


def _check_method(name: str, owner: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise if the result of a string method would be too large."""
    if name in _PADDING_METHODS:
        _check_size(_largest(args))
    elif name == "expandtabs":
        _check_size(owner.count("\t") * _largest((*args, *kwargs.values())))
    elif name == "join" and args:
        _check_join(len(owner), args[0])
    elif name == "replace" and len(args) > 1:
        _check_replace(owner, args)
    elif name in ("format", "format_map"):
        _check_format(owner, "{", (args, kwargs))
    elif name == "translate" and args and isinstance(args[0], Mapping):
        _check_size(len(owner) * _longest(tuple(args[0].values())))


def _check_join(separator: int, items: Any) -> None:
    if isinstance(items, Sized):
        _check_size(separator * len(items) + printed_size(items))


def _check_replace(text: str, args: tuple[Any, ...]) -> None:
    old, new = args[0], args[1]
    if isinstance(old, str) and isinstance(new, str):
        _check_size(len(text) + text.count(old) * len(new))


def _check_items(value: Any, args: tuple[Any, ...]) -> None:
    # The number counts items. 100 characters are assumed for each of them.
    _check_size(_largest(args) * 100)


def _check_json(value: Any, args: tuple[Any, ...]) -> None:
    if args:
        # The number counts spaces per level, of which every item has some.
        _check_size((printed_size(value) + 100) * (_largest(args) + 1))


def _check_padding(value: Any, args: tuple[Any, ...]) -> None:
    # Padding is added to every line.
    _check_size((_largest(args) + _longest(args)) * (str(value).count("\n") + 1))


def _check_wrapping(value: Any, args: tuple[Any, ...]) -> None:
    text, width = str(value), max(1, _largest(args[:1]) if args else 79)
    _check_size(len(text) // width * _longest(args) + _largest(args))
    # A word that is longer than a line is copied for each of its lines.
    _check_copies(max(map(len, text.split()), default=0) ** 2 // width)


def _check_tags(value: Any, args: tuple[Any, ...]) -> None:
    text = str(value)
    _check_copies(text.count("<") * len(text))  # the text is copied for each tag


def _check_slow(value: Any, args: tuple[Any, ...]) -> None:
    _check_size(printed_size(value) * 10)  # it takes a microsecond per character


def _check_replacing(value: Any, args: tuple[Any, ...]) -> None:
    if len(args) > 1:
        _check_replace(str(value), args)


def _check_regex(value: Any, args: tuple[Any, ...]) -> None:
    if len(args) > 1:
        # Few of the characters match. The result is counted like every other.
        _check_size(len(str(value)) * len(str(args[1])) // 10)


def _check_sum(value: Any, args: tuple[Any, ...]) -> None:
    if isinstance(value, Collection) and any(isinstance(arg, (list, tuple)) for arg in args):
        # A sum of lists copies all items again for each list. They may be an attribute of the values.
        _check_size(printed_size(value) // len(", ") * len(value) // 2)


# What is checked before a filter runs: its value and its arguments.
_FILTER_CHECKS: dict[str, Callable[[Any, tuple[Any, ...]], None]] = {
    "batch": _check_items,
    "center": _check_padding,
    "format": lambda value, args: _check_format(str(value), "%", args),
    "indent": _check_padding,
    # Its separator and its attribute may have any order.
    "join": lambda value, args: _check_join(max(map(printed_size, args), default=0), value),
    "pprint": lambda value, args: _check_slow([value], args),
    "regex_replace": _check_regex,
    "replace": _check_replacing,
    "slice": _check_items,
    "striptags": _check_tags,
    "sum": _check_sum,
    "tojson": _check_json,
    "urlize": _check_slow,
    "wordwrap": _check_wrapping,
}


def _check_copies(size: int) -> None:
    if size > _MAX_COPIED:
        raise _TooLarge


def _regex_replace(string: str, pattern: str, repl: str, count: int = 0) -> str:
    return compile_pattern(pattern).sub(repl, string, count)


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "%", "+"})

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, keep_trailing_newline=True, finalize=self._count_output)
        self.reset_counts()
        # lm-evaluation-harness has this filter, and its task files use it.
        self.filters["regex_replace"] = _regex_replace
        for name in (*_TEXT_FILTERS, *_ITEM_FILTERS):
            self.filters[name] = self._limited_filter(name, self.filters[name])
        for name in ("lipsum", "cycler", "joiner"):
            del self.globals[name]
        # The same values must always give the same text.
        del self.filters["random"]
        self.filters["__step__"] = self._step
        self.filters["__text__"] = self._text
        self.filters["__slice__"] = self._slice
        self.filters["__join__"] = self._join

    def reset_counts(self) -> None:
        """Start to count from 0: steps, and characters of texts."""
        self.steps = self.made = 0
        self.deadline = 0.0  # set by the first look at the clock, which most renderings do not need

    def count_step(self) -> None:
        """Count a loop turn or a call."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TemplateError(f"it takes more than {MAX_STEPS:,} steps")
        if self.steps % _CLOCK_STEPS == 0:
            self._check_clock()

    def count_text(self, size: int) -> None:
        """Count the characters of a text."""
        self.made += size
        if self.made > _MAX_MADE:
            raise TemplateError(f"it makes texts of more than {_MAX_MADE:,} characters")
        if size > _CLOCK_CHARS:
            _check_size(size)
            self._check_clock()

    def _check_clock(self) -> None:
        now = time.monotonic()
        self.deadline = self.deadline or now + _MAX_SECONDS
        if now > self.deadline:
            raise TemplateError(f"it takes more than {_MAX_SECONDS:g} s")

    def _counted(self, value: Any) -> Any:
        """Count a value that an operation has made, and return it."""
        if isinstance(value, str):
            self.made += len(value)
            if self.made > _CLOCK_CHARS:
                self.made -= len(value)
                self.count_text(len(value))
        elif isinstance(value, (list, tuple)):
            self.count_text(len(value) * _ITEM_CHARS)
        elif isinstance(value, GeneratorType):
            return self._counted_items(value)
        return value

    def _counted_items(self, items: GeneratorType[Any, None, None]) -> Iterator[Any]:
        def count() -> Generator[Any, None, None]:
            for item in items:
                self.count_text(_PASSED_ITEM_CHARS)
                yield item

        counted = count()
        assert isinstance(counted, GeneratorType)
        counted.__qualname__ = items.__qualname__  # for the message about a generator that is printed
        return counted

    # With a context, Jinja does not compute these calls while it compiles the template.

    @pass_context
    def _count_output(self, _: Context, value: Any) -> Any:
        """Count a value that the template prints."""
        if type(value) is str:
            self.made += len(value)
            if self.made > _MAX_MADE:
                self.count_text(0)
        else:
            self.count_text(printed_size(value))
        return value

    @pass_context
    def _step(self, _: Context, text: int) -> None:
        """Count a turn of a loop, with the characters of the template in it."""
        self.count_step()
        self.count_text(text)

    @pass_context
    def _text(self, _: Context, text: int) -> None:
        """Count the characters of the template in a macro."""
        self.count_text(text)

    @pass_context
    def _slice(self, _: Context, value: Any, start: Any, stop: Any, step: Any) -> Any:
        """Return `value[start:stop:step]`."""
        return self._counted(value[start:stop:step])

    @pass_context
    def _join(self, _: Context, *parts: Any) -> str:
        """Do what the operator `~` does, with the limit on size."""
        _check_size(sum(map(printed_size, parts)))
        text = "".join(map(str, parts))
        self.count_text(len(text))
        return text

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        _check_binop(operator, left, right)
        return self._counted(super().call_binop(context, operator, left, right))

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        self.count_step()
        # Jinja wraps str.format; the bound method is in __wrapped__.
        owner = getattr(getattr(obj, "__wrapped__", obj), "__self__", None)
        if isinstance(owner, str):
            name = getattr(obj, "__name__", "")
            if name == "join" and args and isinstance(args[0], GeneratorType):
                args = (list(args[0]), *args[1:])
            _check_method(name, owner, args, kwargs)
            result = super().call(context, obj, *args, **kwargs)
            return self._counted(result)
        return super().call(context, obj, *args, **kwargs)

    def _limited_filter(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        # Jinja passes its context or environment to some filters, before the value.
        skip = 1 if hasattr(function, "jinja_pass_arg") else 0
        makes_text = name in _TEXT_FILTERS
        check = _FILTER_CHECKS.get(name)

        @wraps(function)
        def limited(*args: Any, **kwargs: Any) -> Any:
            value = args[skip]
            if isinstance(value, GeneratorType) and (makes_text or check is not None):
                value = list(value)
                args = (*args[:skip], value, *args[skip + 1 :])
            others = (*args[skip + 1 :], *kwargs.values())
            if makes_text:
                for each in (value, *others):
                    if type(each) is not str:
                        _check_size(printed_size(each))
            if check is not None:
                check(value, others)
            return self._counted(function(*args, **kwargs))

        return limited

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return _insert_limits(super()._parse(source, name, filename))


def _insert_limits(tree: nodes.Template) -> nodes.Template:
    """Count every turn of a loop and every call of a macro, `a ~ b` and `text[1:]`.

    Jinja lets an environment intercept calls and most operators, but none of these.
    """
    for loop in tree.find_all(nodes.For):
        loop.body.insert(0, _statement("__step__", _text_length(loop.body), loop.lineno))
    macros: list[nodes.Macro | nodes.CallBlock] = [
        *tree.find_all(nodes.Macro),
        *tree.find_all(nodes.CallBlock),
    ]
    for macro in macros:
        macro.body.insert(0, _statement("__text__", _text_length(macro.body), macro.lineno))
    _replace_operators(tree)
    if tree.environment is not None:
        tree.set_environment(tree.environment)  # for the new nodes
    return tree


def _text_length(body: list[nodes.Node]) -> int:
    """Return the characters of the template in a loop or macro, without those in loops and macros inside."""
    length = 0
    for node in body:
        if isinstance(node, nodes.TemplateData):
            length += len(node.data)
        elif not isinstance(node, (nodes.For, nodes.Macro, nodes.CallBlock)):
            length += _text_length(list(node.iter_child_nodes()))
    return length


def _statement(name: str, number: int, lineno: int) -> nodes.ExprStmt:
    return nodes.ExprStmt(_filter(nodes.Const(number), name, []), lineno=lineno)


def _filter(value: nodes.Expr, name: str, args: list[nodes.Expr]) -> nodes.Filter:
    return nodes.Filter(value, name, args, [], None, None)


def _replace_operators(node: nodes.Node) -> None:
    for field, value in node.iter_fields():
        if isinstance(value, nodes.Node):
            setattr(node, field, _replacement(value))
        elif isinstance(value, list):
            value[:] = [_replacement(item) if isinstance(item, nodes.Node) else item for item in value]
    for child in node.iter_child_nodes():
        _replace_operators(child)


def _replacement(node: nodes.Node) -> nodes.Node:
    if isinstance(node, nodes.Concat):
        return _filter(node.nodes[0], "__join__", node.nodes[1:])
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):
        limits = [node.arg.start, node.arg.stop, node.arg.step]
        return _filter(node.node, "__slice__", [limit or nodes.Const(None) for limit in limits])
    return node


environment = _Environment()


def compile_template(source: str) -> jinja2.Template:
    """Return the compiled template. Raises TemplateError if it does not compile."""
    environment.reset_counts()  # Jinja computes constant parts of a template now
    template = environment.from_string(source)
    # Jinja copies this ChainMap for every rendering. Copying a plain dict takes a quarter of the time.
    template.globals = dict(template.globals)
    return template


def render(template: jinja2.Template, values: Mapping[str, Any]) -> str:
    """Return the text of a template. It may raise anything, as user code may."""
    environment.reset_counts()
    # As `template.render` does, which makes the context in two more steps.
    context = Context(environment, {**template.globals, **values}, template.name, template.blocks)
    return "".join(template.root_render_func(context))


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


def undeclared_names(source: str) -> set[str]:
    """Return the names that a template takes from its values. Raises TemplateError."""
    return meta.find_undeclared_variables(environment.parse(source)) - environment.globals.keys()


def undefined_name(error: Exception) -> str:
    """Return the name that a template uses and that has no value, if that is the error; else an empty text."""
    match = _UNDEFINED.fullmatch(str(error)) if isinstance(error, UndefinedError) else None
    return match[1] if match else ""
