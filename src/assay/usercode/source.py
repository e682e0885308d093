"""The source of functions and classes, and the names that they use.

Source is found in files and in the cells of a notebook, and compared with the code that really runs: a file may have
been edited after its import.
"""

from __future__ import annotations

import ast
import dis
import functools
import hashlib
import inspect
import linecache
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

# Methods that read a file, often in compiled code. Files that Python opens are noted while the function runs.
_READERS = frozenset({"read_csv", "read_json", "read_parquet", "read_excel"})


def source_of(code: types.CodeType, namespace: dict[str, Any]) -> Any:
    """Return the source of a function without comments and layout, or None if it cannot be found.

    If the file was edited after its import, its source differs from the running code. Then the result also has a hash
    of the bytecode.
    """
    linecache.checkcache(code.co_filename)
    text = "".join(linecache.getlines(code.co_filename, namespace))
    if not text:
        return None
    nodes = _definitions(text, code)
    if not nodes:
        return None
    sources = sorted({ast.unparse(node) for node in nodes})
    if len(sources) == 1 and any(_same_code(code, other) for other in _compiled(text, code.co_name)):
        return sources[0]
    # The file was edited after its import, an import hook such as pytest's changed the code, or several lambdas are on
    # one line.
    return {"source": sources, "bytecode": _code_digest(code)}


def definition_of(function: Callable[..., Any]) -> _Definition | None:
    """Return the syntax tree of a function or lambda, or None if its source cannot be found."""
    if not isinstance(function, types.FunctionType):
        return None
    code = function.__code__
    linecache.checkcache(code.co_filename)
    nodes = _definitions("".join(linecache.getlines(code.co_filename, function.__globals__)), code)
    return nodes[0] if len(nodes) == 1 else None


def class_definitions(cls: type) -> list[ast.ClassDef]:
    """Return the definitions of a class in its file: several if the name is defined twice, none if not found."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    members = (getattr(member, "__func__", member) for member in vars(cls).values())
    codes = [member.__code__ for member in members if isinstance(member, types.FunctionType)]
    # The module of a notebook has no file. The methods of the class then have the name of the cell.
    files = [file] if file else [code.co_filename for code in codes]
    for name in files:
        tree = parse_source("".join(linecache.getlines(name)))
        if tree is not None:
            return [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == cls.__name__]
    return []


def assignments(code: types.CodeType, namespace: dict[str, Any], name: str) -> list[ast.stmt]:
    """Return the statements outside of functions that assign a global.

    They are in the function's file, or in the latest notebook cell that assigns the global.
    """
    texts = ["".join(linecache.getlines(code.co_filename, namespace))]
    cells = namespace.get("In")  # IPython's list of the cells that ran
    texts += reversed(cells) if isinstance(cells, list) else []
    for text in texts:
        tree = parse_source(text) if isinstance(text, str) else None
        if tree is not None and (matches := _assignments_in(tree, name)):
            return matches
    return []


def _assignments_in(tree: ast.Module, name: str) -> list[ast.stmt]:
    nodes: list[ast.AST] = list(tree.body)
    matches: list[ast.stmt] = []
    for node in nodes:  # grows by the statements inside of `if`, `for`, `with` and `try`
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
            continue
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                matches.append(node)
    return matches


@functools.lru_cache(256)
def parse_source(text: str | bytes) -> ast.Module | None:
    """Return the syntax tree of a text; None if it is not Python."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def syntax_of(text: str) -> str:
    """Return the syntax of a Python text without comments, docstrings and layout, equal in every version of Python.

    `ast.dump` and `ast.unparse` write the same tree differently from version to version. Empty fields are left out,
    because new versions add fields that are empty in older code.
    """
    parts: list[str] = []
    _describe(ast.parse(text), parts)
    return " ".join(parts)


def _describe(value: Any, parts: list[str]) -> None:
    """Append the parts of a node, a list of nodes or a plain value. Written for speed: the judge's code has 50,000."""
    if isinstance(value, ast.AST):
        parts.append(f"{type(value).__name__}(")
        for name in value._fields:
            content = getattr(value, name, None)
            if content is not None and content != []:
                parts.append(f"{name}=")
                _describe(content, parts)
        parts.append(")")
    elif isinstance(value, list):
        parts.append("[")
        for item in value:
            # A statement that consists of a text is a docstring.
            is_text = isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)
            if not (is_text and isinstance(item.value.value, str)):
                _describe(item, parts)
        parts.append("]")
    else:
        parts.append(repr(value))


_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def _definitions(text: str, code: types.CodeType) -> list[_Definition]:
    """Return the definitions that may have produced the code: those with its name that begin on its line."""
    tree = parse_source(text)
    nodes: list[_Definition] = []
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Lambda):
            if code.co_name == "<lambda>" and node.lineno <= code.co_firstlineno <= (node.end_lineno or 0):
                nodes.append(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first == code.co_firstlineno:
                nodes.append(node)
    if len(nodes) <= 1:
        return nodes
    # If several lambdas are on one line, the column positions of the instructions identify the right one.
    exact: list[_Definition] = [node for node in nodes if isinstance(node, ast.Lambda) and _covers(node, code)]
    return exact[-1:] or nodes


def _covers(node: ast.Lambda, code: types.CodeType) -> bool:
    """Return whether all instructions of the code lie inside the body of the lambda."""
    body = node.body
    start, end = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
    seen = False
    for line, end_line, column, end_column in code.co_positions():
        if line is None or end_line is None or column is None or end_column is None:
            continue
        if (line, column) == (code.co_firstlineno, 0) and end_column == 0:
            continue  # the instruction RESUME has the position of the first line
        seen = True
        if not (start <= (line, column) and (end_line, end_column) <= end):
            return False
    return seen


@functools.lru_cache(256)
def _compiled_all(text: str) -> dict[str, list[types.CodeType]]:
    """Compile a source text and return all its code objects, by name."""
    by_name: dict[str, list[types.CodeType]] = {}
    try:
        waiting = [compile(text, "<source>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)]
    except (SyntaxError, ValueError):
        return {}
    while waiting:
        code = waiting.pop()
        by_name.setdefault(code.co_name, []).append(code)
        waiting += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return by_name


def _compiled(text: str, name: str) -> list[types.CodeType]:
    return _compiled_all(text).get(name, [])


def _same_code(left: types.CodeType, right: types.CodeType) -> bool:
    return left.co_firstlineno == right.co_firstlineno and _code_digest(left) == _code_digest(right)


def _code_digest(code: types.CodeType) -> str:
    """Return a hash of a function's instructions, constants and names. The path of its file does not count."""
    constants = [
        _code_digest(constant) if isinstance(constant, types.CodeType) else repr(constant)
        for constant in code.co_consts
        # Set constants are sorted below, because the order of a set differs between processes.
        if not isinstance(constant, frozenset)
    ]
    sets = [sorted(map(repr, constant)) for constant in code.co_consts if isinstance(constant, frozenset)]
    names = [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, constants, sets]
    return hashlib.sha256(code.co_code + repr(names).encode(errors="backslashreplace")).hexdigest()[:32]


def names_used(code: types.CodeType) -> Iterator[tuple[str, ...]]:
    """Yield the global names that code loads, each with the attributes read from it: ("helpers", "clean").

    A module that the code imports while it runs is ("import", name, level, *names). Nested functions are included.
    """
    chain: list[str] = []
    constants: list[Any] = []
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and chain:
            chain.append(str(instruction.argval))
            continue
        if instruction.opname in ("PRECALL", "CACHE"):
            continue
        if chain:
            yield tuple(chain)
            chain = []
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            chain = [str(instruction.argval)]
        elif instruction.opname == "IMPORT_NAME":
            # The two constants loaded before are the level of a relative import and the imported names.
            level, names = constants[-2:]
            yield ("import", str(instruction.argval), str(level), *(names or ()))
        elif "LOAD_CONST" in instruction.opname or instruction.opname == "LOAD_SMALL_INT":
            constants.append(instruction.argval)
    if chain:
        yield tuple(chain)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_used(constant)


def names_stored(code: types.CodeType, operation: str) -> Iterator[str]:
    """Yield the names that code assigns: globals (STORE_GLOBAL) or attributes (STORE_ATTR)."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == operation:
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_stored(constant, operation)


def names_in(node: ast.AST) -> Iterator[tuple[str, ...]]:
    """Yield the names that a piece of source loads, each with its attributes.

    Functions inside are left out, because they are described as members of their class.
    """
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return
    chain, inner = [], node
    while isinstance(inner, ast.Attribute):
        chain.append(inner.attr)
        inner = inner.value
    if isinstance(inner, ast.Name):
        yield (inner.id, *reversed(chain))
        return
    for child in ast.iter_child_nodes(node):
        yield from names_in(child)


def files_read(function: types.FunctionType) -> Iterator[str]:
    """Yield the calls in a function that read a file without Python's `open`. Nothing compares their content."""
    definition = definition_of(function)
    for node in ast.walk(definition) if definition else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _READERS:
            yield f"{node.func.attr}()"


def describe_callable(function: Callable[..., Any]) -> str:
    """Return the name of a function for messages: `answer`, or the type of a callable object."""
    if isinstance(function, functools.partial):
        return describe_callable(function.func)
    name = getattr(function, "__name__", "") or type(function).__name__
    return "lambda" if name == "<lambda>" else str(name)


def place_of(function: Callable[..., Any]) -> str:
    """Return `file.py:12`, the first line of a function; empty for a callable that is no function of Python."""
    if isinstance(function, functools.partial):
        return place_of(function.func)
    if not isinstance(function, types.FunctionType):
        return ""
    code = function.__code__
    return f"{code.co_filename.replace(chr(92), '/').rpartition('/')[2]}:{code.co_firstlineno}"


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter] | None:
    """Return the parameters by name, or None for a builtin without a readable signature."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None
