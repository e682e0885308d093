"""Conditions over JSON values, in Python's syntax. They are parsed, but never executed as Python.

    Expression('item.score > 0.7 and item.verified').holds({"item": {"score": 0.9, "verified": True}})

Further examples: `category in ["a", "b"]`, `item.tags[0] is not None`.

The text is parsed with `ast`. Each node must be of an allowed kind and becomes a closure. There are no calls, and a
dot looks up a key of a JSON object, never an attribute of a Python object. The rules:

- A missing key or list item is null.
- Equality is that of JSON: `1 == 1.0` is true, `true == 1` is false.
- `<` and `>` between different types, or with null, are false.
- `in` and `not in` are false if the right side is not a list, text or object.
"""

from __future__ import annotations

import ast
import keyword
import operator
import re
import unicodedata
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from assay.core.errors import AssayError
from assay.files.excerpt import cut_end
from assay.language.json_compare import NUMBERS, TESTS, Test, bounded, is_number, negative

# Conditions come from data files of others. These limits keep Python's parser and our recursion safe.
MAX_SOURCE = 2_000
MAX_DEPTH = 50

ALLOWED = (
    'allowed are names, item.field, item["field"], item.list[0], numbers, strings, true, false, null, '
    "lists of these, and or not, == != < <= > >= in, not in, is null, is not null, + - * / % and parentheses"
)

Names = Mapping[str, Any]
"""The values that a condition may use, by name."""
_Reader = Callable[[Names], Any]

# JSON's constants. Python's True, False and None work too.
_JSON_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
# What messages call syntax that is not allowed.
_FORBIDDEN: dict[type[ast.AST], str] = {
    ast.Call: "a call",
    ast.Lambda: "a lambda",
    ast.IfExp: "`x if c else y`",
    ast.JoinedStr: "an f-string",
    ast.NamedExpr: "an assignment",
    ast.Slice: "a slice",
    ast.Starred: "a star",
    ast.Await: "await",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
    ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.Dict: "an object",
    ast.Set: "a set",
    ast.Tuple: "a tuple (write a list with [ ])",
}
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}


class ExpressionProblem(AssayError):
    """A condition is invalid. The message has the column, the part, and what is allowed instead."""


class Expression:
    """A parsed condition. Evaluating it never raises, whatever the values are.

    `names` are the names that it uses. `fields` are names with a field, such as `("inputs", "language")`.
    Raises ExpressionProblem if the source is invalid.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        builder = _Builder(source)
        self._read = builder.reader(_parse(source), 1)
        self.names = frozenset(builder.names)
        self.fields = frozenset(builder.fields)

    def value(self, names: Names) -> Any:
        """Return the value of the expression, a JSON value. It is None if a part of the data is missing."""
        try:
            return self._read(names)
        except (RecursionError, OverflowError):  # data with a thousand levels, numbers with a thousand digits
            return None

    def holds(self, names: Names) -> bool:
        """Return whether the value is true in Python's sense: null, 0 and empty values are false."""
        return bool(self.value(names))


def _parse(source: str) -> ast.expr:
    if len(source) > MAX_SOURCE:
        raise ExpressionProblem(f"the condition has {len(source):,} characters, at most {MAX_SOURCE:,} are read")
    text = source.strip()
    if not text:
        raise ExpressionProblem("the condition is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns about escapes such as "\d" in strings
            return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        column = (error.offset or 1) + _indent(source)
        what = _keyword_hint(text) or error.msg
        raise ExpressionProblem(f"column {column}: {what} in {_short(text)}; {ALLOWED}") from None
    except (ValueError, MemoryError, RecursionError, OverflowError) as error:
        raise ExpressionProblem(f"the condition cannot be read: {error or 'nested too deep'}; {ALLOWED}") from None


def _keyword_hint(text: str) -> str | None:
    """Return a hint for a field that is named like a keyword: `item.class` is a syntax error in Python."""
    for word in re.findall(r"\.\s*([a-zA-Z]+)\b", text):
        if keyword.iskeyword(word):
            return f'a field named {word} is written ["{word}"], without the dot'
    return None


def _indent(source: str) -> int:
    return len(source) - len(source.lstrip())


def _short(text: str) -> str:
    return repr(cut_end(text, 60))


class _Builder:
    """Checks each node of a syntax tree and turns it into a closure, called a reader."""

    def __init__(self, source: str) -> None:
        self.names: set[str] = set()
        self.fields: set[tuple[str, str]] = set()
        self._source = source
        self._lines = source.strip().split("\n")

    def reader(self, node: ast.expr, depth: int) -> _Reader:
        """Return the closure that computes the value of a node."""
        if depth > MAX_DEPTH:
            raise self._problem(node, f"nested deeper than {MAX_DEPTH}")
        build = self._builders.get(type(node))
        if build is None:
            raise self._not_allowed(node)
        return build(self, node, depth + 1)

    def _constant(self, node: ast.Constant, depth: int) -> _Reader:
        return _always(self._literal(node, depth))

    def _list(self, node: ast.List, depth: int) -> _Reader:
        return _always(self._literal(node, depth))

    def _literal(self, node: ast.expr, depth: int) -> Any:
        """Return the value of a literal: a number, a string, true, false, null, or a list of literals."""
        if depth > MAX_DEPTH:
            raise self._problem(node, f"nested deeper than {MAX_DEPTH}")
        if isinstance(node, ast.List):
            return [self._literal(item, depth + 1) for item in node.elts]
        if isinstance(node, ast.Name) and node.id in _JSON_WORDS:
            return _JSON_WORDS[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            number = self._literal(node.operand, depth + 1)
            if not is_number(number):
                raise self._problem(node, "a minus needs a number")
            return -number
        if not isinstance(node, ast.Constant):
            what = "a list may contain only numbers, strings, true, false, null and lists of these"
            raise self._problem(node, what)
        self._check_constant(node, node.value)
        return node.value

    def _check_constant(self, node: ast.Constant, value: Any) -> None:
        if isinstance(value, (bytes, complex, type(...))):
            raise self._not_allowed(node)
        if type(value) in NUMBERS and bounded(value) is None:
            raise self._problem(node, "a number of more than 64 bits")
        if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise self._problem(node, "half a character (a lone surrogate)")

    def _name(self, node: ast.Name, _depth: int) -> _Reader:
        name = node.id
        if name in _JSON_WORDS:
            return _always(_JSON_WORDS[name])
        self._check_name(node, name)
        self.names.add(name)
        return lambda names: names.get(name)

    def _attribute(self, node: ast.Attribute, depth: int) -> _Reader:
        self._check_name(node, node.attr)
        self._add_field(node.value, node.attr)
        return _field(self.reader(node.value, depth), node.attr)

    def _subscript(self, node: ast.Subscript, depth: int) -> _Reader:
        key = node.slice
        plain = isinstance(key, ast.Constant) or (isinstance(key, ast.UnaryOp) and isinstance(key.op, ast.USub))
        index = self._literal(key, depth) if plain else None
        if isinstance(index, str):
            if _starts_with_two_underscores(index) and index.endswith("__"):
                raise self._problem(node, "names with two underscores on both sides are not allowed")
            self._add_field(node.value, index)
            return _field(self.reader(node.value, depth), index)
        if type(index) is int:
            return _element(self.reader(node.value, depth), index)
        raise self._problem(key, 'only ["field"] and [0] may follow a value')

    def _add_field(self, owner: ast.expr, name: str) -> None:
        if isinstance(owner, ast.Name):
            self.fields.add((owner.id, name))

    def _boolean(self, node: ast.BoolOp, depth: int) -> _Reader:
        readers = [self.reader(value, depth) for value in node.values]
        return _all(readers) if isinstance(node.op, ast.And) else _any(readers)

    def _unary(self, node: ast.UnaryOp, depth: int) -> _Reader:
        if isinstance(node.op, ast.Not):
            inner = self.reader(node.operand, depth)
            return lambda names: not inner(names)
        if isinstance(node.op, ast.USub):
            inner = self.reader(node.operand, depth)
            return lambda names: negative(inner(names))
        raise self._not_allowed(node)

    def _binary(self, node: ast.BinOp, depth: int) -> _Reader:
        compute = _OPERATORS.get(type(node.op))
        if compute is None:
            raise self._not_allowed(node)
        return _computed(compute, self.reader(node.left, depth), self.reader(node.right, depth))

    def _compare(self, node: ast.Compare, depth: int) -> _Reader:
        tests = [self._test(op, right) for op, right in zip(node.ops, node.comparators, strict=True)]
        readers = [self.reader(operand, depth) for operand in (node.left, *node.comparators)]
        if len(tests) == 1:
            (test,), (left, right) = tests, readers
            return lambda names: test(left(names), right(names))
        return _chained(readers, tests)

    def _test(self, op: ast.cmpop, right: ast.expr) -> Test:
        test = TESTS.get(type(op))
        if test is not None:
            return test
        is_null = (isinstance(right, ast.Constant) and right.value is None) or (
            isinstance(right, ast.Name) and right.id == "null"
        )
        if not is_null:
            raise self._problem(right, "`is` compares with null only, write == instead")
        return operator.is_ if isinstance(op, ast.Is) else operator.is_not

    def _check_name(self, node: ast.expr, name: str) -> None:
        # Names such as __class__ reach into Python. JSON has no use for them.
        if _starts_with_two_underscores(name):
            raise self._problem(node, "names that begin with two underscores are not allowed")

    def _not_allowed(self, node: ast.expr) -> ExpressionProblem:
        kind = _FORBIDDEN.get(type(node), "this")
        if isinstance(node, (ast.BinOp, ast.UnaryOp)):
            kind = f"the operator {type(node.op).__name__}"
        return self._problem(node, f"{kind} is not allowed")

    def _problem(self, node: ast.expr, what: str) -> ExpressionProblem:
        line = self._lines[node.lineno - 1] if node.lineno <= len(self._lines) else ""
        # ast counts columns in bytes of UTF-8, from 0.
        column = len(line.encode()[: node.col_offset].decode(errors="replace")) + 1
        if node.lineno == 1:
            column += _indent(self._source)
        where = f"column {column}" if node.lineno == 1 else f"line {node.lineno} column {column}"
        piece = ast.get_source_segment(self._source.strip(), node) or self._source.strip()
        return ExpressionProblem(f"{where}: {what} in {_short(piece)}; {ALLOWED}")

    _builders: Mapping[type[ast.expr], Callable[[_Builder, Any, int], _Reader]] = {
        ast.Constant: _constant,
        ast.List: _list,
        ast.Name: _name,
        ast.Attribute: _attribute,
        ast.Subscript: _subscript,
        ast.BoolOp: _boolean,
        ast.UnaryOp: _unary,
        ast.BinOp: _binary,
        ast.Compare: _compare,
    }


def _starts_with_two_underscores(name: str) -> bool:
    # Python normalises names too, so a full-width underscore is the same as `_`.
    return unicodedata.normalize("NFKC", name).startswith("__")


def _always(value: Any) -> _Reader:
    return lambda _names: value


def _field(inner: _Reader, key: str) -> _Reader:
    def read(names: Names) -> Any:
        value = inner(names)
        return value.get(key) if isinstance(value, dict) else None

    return read


def _element(inner: _Reader, index: int) -> _Reader:
    def read(names: Names) -> Any:
        value = inner(names)
        return value[index] if isinstance(value, list) and -len(value) <= index < len(value) else None

    return read


def _all(readers: list[_Reader]) -> _Reader:
    def read(names: Names) -> Any:
        value = None
        for reader in readers:
            value = reader(names)
            if not value:
                break
        return value

    return read


def _any(readers: list[_Reader]) -> _Reader:
    def read(names: Names) -> Any:
        value = None
        for reader in readers:
            value = reader(names)
            if value:
                break
        return value

    return read


def _chained(readers: list[_Reader], tests: list[Test]) -> _Reader:
    def read(names: Names) -> bool:
        left = readers[0](names)
        for test, reader in zip(tests, readers[1:], strict=True):
            right = reader(names)
            if not test(left, right):
                return False
            left = right
        return True

    return read


def _computed(compute: Callable[[Any, Any], Any], left: _Reader, right: _Reader) -> _Reader:
    def read(names: Names) -> Any:
        a, b = left(names), right(names)
        if not (is_number(a) and is_number(b)):
            return None
        try:
            return bounded(compute(a, b))
        except (ZeroDivisionError, OverflowError):
            return None

    return read
