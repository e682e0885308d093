"""Conditions over JSON values, in Python's syntax. They are parsed, but never executed as Python.

    Expression('item.score > 0.7 and item.verified').holds({"item": {"score": 0.9, "verified": True}})

Further examples: `category in ["a", "b"]`, `item.tags[0] is not None`.

The text is parsed with `ast`. A condition with a node that `_evaluate` does not know is refused when it is read. There
are no calls, and a dot looks up a key of a JSON object, never an attribute of a Python object. The rules:

- A missing key or list item is null.
- Equality is that of JSON: `1 == 1.0` is true, `true == 1` is false.
- `<` and `>` between different types, or with null, are false.
- `in` and `not in` are false if the right side is not a list, text or object.
"""

from __future__ import annotations

import ast
import keyword
import math
import operator
import re
import unicodedata
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from assay.core.errors import AssayError
from assay.files.excerpt import cut_end

# Conditions come from data files of others. These limits keep Python's parser and our recursion safe.
MAX_SOURCE = 2_000
MAX_DEPTH = 50
# Integers have at most 64 bits, because products of very large ones take long to compute.
_MAX_NUMBER = 2**64
_NUMBERS = (int, float)

ALLOWED = (
    'allowed are names, item.field, item["field"], item.list[0], numbers, strings, true, false, null, '
    "lists of these, and or not, == != < <= > >= in, not in, is null, is not null, + - * / % and parentheses"
)

NamedValues = Mapping[str, Any]
"""The values that a condition may use, by name."""
_Comparison = Callable[[Any, Any], bool]

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
        self._tree = _parse(source)
        self._names: set[str] = set()
        self._fields: set[tuple[str, str]] = set()
        self._check(self._tree, 1)
        self.names, self.fields = frozenset(self._names), frozenset(self._fields)

    def value(self, names: NamedValues) -> Any:
        """Return the value of the expression, a JSON value. It is None if a part of the data is missing."""
        try:
            return _evaluate(self._tree, names)
        except (RecursionError, OverflowError):  # data with a thousand levels, numbers with a thousand digits
            return None

    def holds(self, names: NamedValues) -> bool:
        """Return whether the value is true in Python's sense: null, 0 and empty values are false."""
        return bool(self.value(names))

    def _check(self, node: ast.expr, depth: int) -> None:
        """Raise ExpressionProblem for a node that `_evaluate` does not know. Note the names and fields that it uses."""
        if depth > MAX_DEPTH:
            raise self._problem(node, f"nested deeper than {MAX_DEPTH}")
        match node:
            case ast.Constant() | ast.List():
                self._check_literal(node, depth + 1)
            case ast.Name(name) if name not in _JSON_WORDS:
                self._check_name(node, name)
                self._names.add(name)
            case ast.Name():
                pass
            case ast.Attribute(owner, name):
                self._check_name(node, name)
                self._check_field(owner, name, depth + 1)
            case ast.Subscript():
                self._check_subscript(node, depth + 1)
            case ast.BoolOp(_, parts):
                for part in parts:
                    self._check(part, depth + 1)
            case ast.UnaryOp(ast.Not() | ast.USub(), operand):
                self._check(operand, depth + 1)
            case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
                self._check(left, depth + 1)
                self._check(right, depth + 1)
            case ast.Compare(left, ops, others):
                for comparison, right in zip(ops, others, strict=True):
                    if isinstance(comparison, (ast.Is, ast.IsNot)) and not _is_null(right):
                        raise self._problem(right, "`is` compares with null only, write == instead")
                for part in (left, *others):
                    self._check(part, depth + 1)
            case _:
                raise self._not_allowed(node)

    def _check_literal(self, node: ast.expr, depth: int) -> None:
        """Check a number, a string, true, false, null, or a list of these."""
        if depth > MAX_DEPTH:
            raise self._problem(node, f"nested deeper than {MAX_DEPTH}")
        match node:
            case ast.Constant(value):
                self._check_constant(node, value)
            case ast.Name(name) if name in _JSON_WORDS:
                pass
            case ast.List(items):
                for item in items:
                    self._check_literal(item, depth + 1)
            case ast.UnaryOp(ast.USub(), operand):
                self._check_literal(operand, depth + 1)
                if not _is_number(_evaluate(operand, {})):
                    raise self._problem(node, "a minus needs a number")
            case _:
                what = "a list may contain only numbers, strings, true, false, null and lists of these"
                raise self._problem(node, what)

    def _check_subscript(self, node: ast.Subscript, depth: int) -> None:
        index = None
        if isinstance(node.slice, ast.Constant) or _is_minus(node.slice):
            self._check_literal(node.slice, depth)
            index = _evaluate(node.slice, {})
        if isinstance(index, str):
            if _starts_with_two_underscores(index) and index.endswith("__"):
                raise self._problem(node, "names with two underscores on both sides are not allowed")
            self._check_field(node.value, index, depth)
        elif type(index) is int:
            self._check(node.value, depth)
        else:
            raise self._problem(node.slice, 'only ["field"] and [0] may follow a value')

    def _check_field(self, owner: ast.expr, name: str, depth: int) -> None:
        if isinstance(owner, ast.Name):
            self._fields.add((owner.id, name))
        self._check(owner, depth)

    def _check_constant(self, node: ast.expr, value: Any) -> None:
        if isinstance(value, (bytes, complex, type(...))):
            raise self._not_allowed(node)
        if type(value) in _NUMBERS and _bounded(value) is None:
            raise self._problem(node, "a number of more than 64 bits")
        if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise self._problem(node, "half a character (a lone surrogate)")

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
        text = self.source.strip()
        lines = text.split("\n")
        line = lines[node.lineno - 1] if node.lineno <= len(lines) else ""
        # ast counts columns in bytes of UTF-8, from 0.
        column = len(line.encode()[: node.col_offset].decode(errors="replace")) + 1
        if node.lineno == 1:
            column += _indent(self.source)
        where = f"column {column}" if node.lineno == 1 else f"line {node.lineno} column {column}"
        piece = ast.get_source_segment(text, node) or text
        return ExpressionProblem(f"{where}: {what} in {_short(piece)}; {ALLOWED}")


def _evaluate(node: ast.expr, names: NamedValues) -> Any:
    """Return the value of a node that was checked."""
    match node:
        case ast.Constant(value):
            return value
        case ast.Name(name):
            return _JSON_WORDS[name] if name in _JSON_WORDS else names.get(name)
        case ast.Attribute(owner, key) | ast.Subscript(owner, ast.Constant(str() as key)):
            value = _evaluate(owner, names)
            return value.get(key) if isinstance(value, dict) else None
        case ast.Subscript(owner, key):
            value, index = _evaluate(owner, names), _evaluate(key, names)
            return value[index] if isinstance(value, list) and -len(value) <= index < len(value) else None
        case ast.Compare(first, ops, others):
            left = _evaluate(first, names)
            for op, other in zip(ops, others, strict=True):
                right = _evaluate(other, names)
                if not _COMPARISONS[type(op)](left, right):
                    return False
                left = right
            return True
        case ast.List(items):
            return [_evaluate(item, names) for item in items]
        case ast.BoolOp(op, parts):
            value = None
            for part in parts:
                value = _evaluate(part, names)
                if bool(value) is isinstance(op, ast.Or):
                    break
            return value
        case ast.UnaryOp(ast.Not(), operand):
            return not _evaluate(operand, names)
        case ast.UnaryOp(_, operand):
            value = _evaluate(operand, names)
            return -value if _is_number(value) else None
        case ast.BinOp(left, op, right):
            a, b = _evaluate(left, names), _evaluate(right, names)
            try:
                return _bounded(_OPERATORS[type(op)](a, b)) if _is_number(a) and _is_number(b) else None
            except (ZeroDivisionError, OverflowError):
                return None
    raise AssertionError(f"an unchecked node: {ast.dump(node)}")


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


def _starts_with_two_underscores(name: str) -> bool:
    # Python normalises names too, so a full-width underscore is the same as `_`.
    return unicodedata.normalize("NFKC", name).startswith("__")


def _is_minus(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)


def _is_null(node: ast.expr) -> bool:
    return (isinstance(node, ast.Constant) and node.value is None) or (isinstance(node, ast.Name) and node.id == "null")


# Comparisons and arithmetic of JSON values. Nothing raises: a senseless operation is False or None.


def _is_number(value: Any) -> bool:
    """Return whether a value is a number to compute with: not a boolean, not an integer of more than 64 bits."""
    kind = type(value)
    return kind is float or (kind is int and -_MAX_NUMBER < value < _MAX_NUMBER)


def _bounded(value: float) -> float | None:
    """Return the number, or None for infinity, NaN and integers of more than 64 bits."""
    if type(value) is int:
        return value if -_MAX_NUMBER < value < _MAX_NUMBER else None
    return value if math.isfinite(value) else None


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal as JSON. Unlike in Python, `True` and `1` differ, at any depth."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return bool(left == right)


def _ordered(compare: Callable[[Any, Any], bool]) -> _Comparison:
    def test(left: Any, right: Any) -> bool:
        numbers = type(left) in _NUMBERS and type(right) in _NUMBERS
        texts = type(left) is str and type(right) is str
        return (numbers or texts) and compare(left, right)

    return test


def _contains(item: Any, container: Any) -> bool | None:
    """Return whether the item is in the container; None if the container cannot contain it.

    `in` and `not in` are both false for None.
    """
    if isinstance(container, list):
        return any(same(item, other) for other in container)
    if isinstance(container, (str, dict)) and isinstance(item, str):
        return item in container
    return None


_COMPARISONS: dict[type[ast.cmpop], _Comparison] = {
    ast.Eq: same,
    ast.NotEq: lambda left, right: not same(left, right),
    ast.Lt: _ordered(operator.lt),
    ast.LtE: _ordered(operator.le),
    ast.Gt: _ordered(operator.gt),
    ast.GtE: _ordered(operator.ge),
    ast.In: lambda item, container: _contains(item, container) is True,
    ast.NotIn: lambda item, container: _contains(item, container) is False,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
