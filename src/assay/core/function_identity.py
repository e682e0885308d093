"""What a Python function computes, as far as its source and the values it uses tell.

`assay.evaluate` runs functions of the user. A run may continue only if the function is still the same, so a function
needs an identity that survives a new process:

    identity = identify(answer)
    identity.parts      # {"app.answer": "def answer(row): …", "app.clean": "def clean…", "app.LIMIT": 3}
    identity.unknown    # ("client (openai.OpenAI)",): values that nobody can compare between two processes

The parts are the source of the function, without comments, and of every function, class and constant of the user's
own files that it names, its defaults, and the values that it captured. Installed packages count by name: they are
taken to stay as they are. Bytecode counts only where the file was edited after its import, since it differs between
versions of Python.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import dis
import enum
import functools
import hashlib
import importlib.util
import inspect
import linecache
import math
import os
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePath
from typing import Any
from uuid import UUID

import msgspec

from assay.core.code import code_sha256
from assay.core.hashing import fingerprint

# A part that is longer is kept as its hash: run.json should stay readable.
_MAX_PART = 2_000

# Values whose repr says all about them, in every process.
_PLAIN = (Decimal, Fraction, UUID, date, time, timedelta, range, complex, PurePath)


# Members of a class that say nothing about what it does.
_CLASS_BOOKKEEPING = frozenset(
    {
        *("__module__", "__dict__", "__weakref__", "__firstlineno__", "__static_attributes__", "__doc__"),
        *(
            "__annotations__",
            "__annotate_func__",
            "__annotations_cache__",
            "__dataclass_fields__",
            "__match_args__",
        ),
        *("__dataclass_params__", "__abstractmethods__", "_abc_impl", "__parameters__", "__orig_bases__"),
    }
)
_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType)


# What is followed from a wrapper that an installed package made: the function that it wraps, and its settings.
_FOLLOWED_IN_LIBRARIES = (
    *(types.FunctionType, types.MethodType, functools.partial),
    *(str, int, float, bool, list, tuple, dict),
)


class FunctionIdentity(msgspec.Struct, frozen=True):
    """The parts that make a function what it is, by their full names.

    `unknown` names the values that two processes cannot compare, such as a client: only their types are in `parts`.
    `has_source` is False where some function that the user wrote has no readable source.
    """

    parts: dict[str, Any]
    unknown: tuple[str, ...] = ()
    has_source: bool = True

    @property
    def digest(self) -> str:
        """Sixteen hex digits over all parts."""
        return fingerprint(self.parts)


def identify(function: Callable[..., Any]) -> FunctionIdentity:
    """The identity of a function, lambda, method, partial or callable object."""
    collector = _Collector()
    collector.parts["function"] = collector.describe(function, "function")
    return FunctionIdentity(collector.parts, tuple(collector.unknown), collector.has_source)


class _Collector:
    """Walks from a function to everything that it names. Each part is described once."""

    def __init__(self) -> None:
        self.parts: dict[str, Any] = {}
        self.unknown: dict[str, None] = {}
        self.has_source = True
        # Objects by id, with the object itself: it must not be freed while its id is a key.
        self._described: dict[int, tuple[str, Any]] = {}

    def describe(self, value: Any, name: str) -> Any:
        """A value as JSON. `name` is what the user calls it. Functions and classes become parts of their own."""
        if value is None or (isinstance(value, (bool, int, str)) and type(value) in (bool, int, str)):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else repr(value)
        if isinstance(value, enum.Enum):
            return [self.describe(type(value), name), value.name]
        if isinstance(value, (types.FunctionType, type)):
            return self._definition(value, name)
        if isinstance(value, types.ModuleType):
            return self._module(value)
        if isinstance(
            value, (types.BuiltinFunctionType, types.MethodWrapperType, types.MethodDescriptorType)
        ):
            return self._builtin(value, name)
        if isinstance(value, (bytes, bytearray)):
            return {"bytes": hashlib.sha256(value).hexdigest()}
        if isinstance(value, re.Pattern):
            return (
                {"pattern": value.pattern, "flags": value.flags}
                if isinstance(value.pattern, str)
                else repr(value)
            )
        if isinstance(value, _PLAIN):
            return repr(value)
        return self._once(value, name)

    def _once(self, value: Any, name: str) -> Any:
        """Describe a container or an object. Within itself it is only named, since it may hold itself."""
        if id(value) in self._described:
            return {"same as": self._described[id(value)][0]}
        self._described[id(value)] = (name, value)
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            return [self.describe(item, f"{name}[{place}]") for place, item in enumerate(value)]
        if type(value) is dict:
            pairs = [
                [self.describe(key, name), self.describe(item, f"{name}[{key!r}]")]
                for key, item in value.items()
            ]
            return {"dict": pairs}
        if isinstance(value, (set, frozenset)):
            # The order of a set differs between processes.
            return {"set": sorted(fingerprint([self.describe(item, name)]) for item in value)}
        if isinstance(value, functools.partial):
            return {
                "partial": self.describe(value.func, name),
                "args": self.describe(value.args, name),
                "keywords": self.describe(value.keywords, name),
            }
        if isinstance(value, types.MethodType):
            return {"method": self.describe(value.__func__, name), "of": self.describe(value.__self__, name)}
        if isinstance(value, (staticmethod, classmethod)):
            return self.describe(value.__func__, name)
        if isinstance(value, property):
            return [self.describe(each, name) for each in (value.fget, value.fset, value.fdel)]
        return self._object(value, name)

    def _object(self, value: Any, name: str) -> Any:
        """An object of a class: by its class and its state, where both can be known."""
        wrapped = getattr(value, "__wrapped__", None)
        if isinstance(wrapped, types.FunctionType) and not isinstance(value, types.FunctionType):
            # functools.cache and its kin keep the function that they wrap.
            return {"wrapper": type(value).__qualname__, "of": self.describe(wrapped, name)}
        kind = self.describe(type(value), name)
        if isinstance(value, msgspec.Struct):
            return [kind, self.describe(msgspec.structs.asdict(value), name)]
        if dataclasses.is_dataclass(value):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return [kind, self.describe(fields, name)]
        if isinstance(value, tuple):
            return [kind, self.describe(tuple(value), name)]
        if isinstance(value, (types.SimpleNamespace, argparse.Namespace)):
            return [kind, self.describe(dict(vars(value)), name)]
        if type(value).__module__ == "numpy" and type(value).__name__ == "ndarray":
            content = hashlib.sha256(value.tobytes()).hexdigest()
            return {"array": content, "type": str(value.dtype), "shape": list(value.shape)}
        module = sys.modules.get(type(value).__module__)
        if module is not None and _is_users_module(module) and type(value).__base__ is object:
            return [kind, self.describe(dict(vars(value)), name)] if hasattr(value, "__dict__") else [kind]
        self.unknown[f"{name} ({type(value).__module__}.{type(value).__qualname__})"] = None
        return kind

    def _builtin(self, value: Any, name: str) -> Any:
        owner = getattr(value, "__self__", None)
        text = f"{getattr(value, '__module__', None) or 'builtins'}.{value.__qualname__}"
        if owner is None or isinstance(owner, types.ModuleType):
            return text
        return [text, self.describe(owner, name)]

    def _module(self, module: types.ModuleType) -> Any:
        """A module by its name, or by the content of its file if the user wrote it."""
        if not _is_users_module(module):
            return f"module {module.__name__}"
        file = getattr(module, "__file__", None)
        if not file or not Path(file).is_file():
            return f"module {module.__name__}"
        return {"module": module.__name__, "sha256": code_sha256(Path(file))}

    def _definition(self, value: types.FunctionType | type, name: str) -> Any:
        """A function or class. What the user wrote becomes a part; the rest counts by its name."""
        full_name = f"{value.__module__}.{value.__qualname__}"
        if id(value) in self._described:
            return self._described[id(value)][0]
        module = sys.modules.get(value.__module__)
        if isinstance(value, type):
            users = module is not None and _is_users_module(module)
        else:
            users = _is_users_file(value.__code__.co_filename)
        if not users:
            return self._of_library(value, full_name)
        # Two lambdas of one function have the same name.
        number = sum(1 for part in self.parts if part.partition("~")[0] == full_name) + 1
        part = full_name if number == 1 else f"{full_name}~{number}"
        self._described[id(value)] = (part, value)
        self.parts[part] = ""  # taken, so that a function with the same name gets a number
        content = self._class(value) if isinstance(value, type) else self._function(value)
        self.parts[part] = content if len(repr(content)) <= _MAX_PART else {"digest": fingerprint(content)}
        return part

    def _of_library(self, value: types.FunctionType | type, full_name: str) -> Any:
        """A function of an installed package, by its name. A decorator's wrapper is followed to what it wraps."""
        if isinstance(value, type) or not value.__closure__:
            return full_name
        # `functools.wraps` gives the wrapper the name of the user's function, so its own code tells where it is from.
        part = f"{Path(value.__code__.co_filename).stem}.{value.__code__.co_qualname}"
        self._described[id(value)] = (part, value)
        captured = {}
        for variable, cell in zip(value.__code__.co_freevars, value.__closure__, strict=True):
            try:
                content = cell.cell_contents
            except ValueError:
                continue
            # Other objects belong to the package, which is taken to stay as it is.
            if content is None or isinstance(content, _FOLLOWED_IN_LIBRARIES):
                captured[variable] = self.describe(content, variable)
        return {"function": part, "captured": captured}

    def _class(self, cls: type) -> Any:
        """Bases and members. Methods that Python generates, as for a dataclass, follow from the others."""
        members = {}
        for name, member in sorted(vars(cls).items()):
            function = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
            if isinstance(function, types.FunctionType):
                function = inspect.unwrap(function)
                if function.__code__.co_filename == "<string>":
                    continue
            if name in _CLASS_BOOKKEEPING or isinstance(member, _DESCRIPTORS):
                continue
            members[name] = self.describe(member, f"{cls.__qualname__}.{name}")
        bases = [self.describe(base, base.__qualname__) for base in cls.__bases__ if base is not object]
        return {"bases": bases, "members": members}

    def _function(self, function: types.FunctionType) -> Any:
        code = function.__code__
        source = _source_of(code, function.__globals__)
        if source is None:
            self.has_source = False
        content: dict[str, Any] = {"source": source}
        if function.__defaults__:
            content["defaults"] = self.describe(function.__defaults__, "default")
        if function.__kwdefaults__:
            content["keyword defaults"] = self.describe(function.__kwdefaults__, "default")
        captured = {}
        for variable, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                captured[variable] = self.describe(cell.cell_contents, variable)
            except ValueError:
                captured[variable] = "not assigned yet"
        if captured:
            content["captured"] = captured
        used = {}
        # A global that the function assigns is its state, such as a counter, and not part of what it computes.
        assigned = set(_names_assigned(code))
        for path in sorted(set(_names_used(code))):
            if path[0] in assigned:
                continue
            used.update(self._global(function.__globals__, path))
        if used:
            content["uses"] = used
        return content

    def _global(self, namespace: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        """The description of a global name. `module.attribute` of the user's own module is followed to its value."""
        name = path[0]
        if name == "import":
            # A relative import names the module without its package.
            package = namespace.get("__package__")
            return self._imported(path[1]) | (self._imported(f"{package}.{path[1]}") if package else {})
        if name not in namespace:
            # A builtin, or a name that is not defined yet: calling the function then raises.
            return {}
        value = namespace[name]
        rest = list(path[1:])
        while rest and isinstance(value, types.ModuleType) and rest[0] in vars(value):
            if not _is_users_module(value):
                return {}
            name = f"{name}.{rest[0]}"
            value = vars(value)[rest.pop(0)]
        if isinstance(value, types.ModuleType) and not _is_users_module(value):
            return {}
        return {name: self.describe(value, name)}

    def _imported(self, module_name: str) -> dict[str, Any]:
        """A module that the function imports while it runs."""
        module = sys.modules.get(module_name)
        if module is not None:
            return {f"import {module_name}": self._module(module)} if _is_users_module(module) else {}
        try:
            spec = importlib.util.find_spec(module_name)
        except (ImportError, ValueError, AttributeError):
            return {}
        if (
            spec is None
            or not spec.origin
            or not _is_users_file(spec.origin)
            or not Path(spec.origin).is_file()
        ):
            return {}
        return {f"import {module_name}": code_sha256(Path(spec.origin))}


def _names_used(code: types.CodeType) -> Iterator[tuple[str, ...]]:
    """Global names that code loads, each with the attributes read from it: ("helpers", "clean").

    Modules that the code imports while it runs come as ("import", name). Nested functions are part of the code.
    """
    chain: list[str] = []
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
            yield ("import", str(instruction.argval))
    if chain:
        yield tuple(chain)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_used(constant)


def _names_assigned(code: types.CodeType) -> Iterator[str]:
    """Global names that code assigns."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "STORE_GLOBAL":
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_assigned(constant)


# Which code is the user's

_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_INSTALLED = tuple(
    {
        path + os.sep
        for key in ("stdlib", "platstdlib", "purelib", "platlib")
        if (path := sysconfig.get_paths().get(key))
    }
    | {str(Path(os.__file__).parent) + os.sep, _PACKAGE}
)


def _is_users_file(file: str) -> bool:
    """Whether the user wrote a file: neither assay, nor the standard library, nor an installed package.

    Cells of a notebook and text given to `exec` have no file: the user wrote them.
    """
    if file.startswith("<frozen"):
        return False
    path = file if file.startswith("<") else str(Path(file).absolute())
    return not path.startswith(_INSTALLED) and f"{os.sep}site-packages{os.sep}" not in path


def _is_users_module(module: types.ModuleType) -> bool:
    if module.__name__ in sys.builtin_module_names:
        return False
    file = getattr(module, "__file__", None)
    if file is None:
        # `__main__` of a notebook, or a namespace package, which has no code of its own.
        return module.__name__ == "__main__"
    return _is_users_file(file)


# Source


def _source_of(code: types.CodeType, namespace: dict[str, Any]) -> Any:
    """The source of a function without comments and layout; None where there is none.

    If the file was edited after its import, the source is not what runs. Then the bytecode is part of the result.
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
    # Edited after the import, changed by an import hook such as pytest's, or several lambdas on one line.
    return {"source": sources, "bytecode": _code_digest(code)}


def definition_of(function: Callable[..., Any]) -> _Definition | None:
    """The syntax tree of a function or lambda; None where its source cannot be found."""
    if not isinstance(function, types.FunctionType):
        return None
    code = function.__code__
    linecache.checkcache(code.co_filename)
    nodes = _definitions("".join(linecache.getlines(code.co_filename, function.__globals__)), code)
    return nodes[0] if len(nodes) == 1 else None


@functools.lru_cache(256)
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def _definitions(text: str, code: types.CodeType) -> list[_Definition]:
    """The definitions that the code may come from: those of its name that begin in its line."""
    tree = _parsed(text)
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
    # Several lambdas in one line: the positions of the instructions tell them apart.
    exact: list[_Definition] = [
        node for node in nodes if isinstance(node, ast.Lambda) and _covers(node, code)
    ]
    return exact[-1:] or nodes


def _covers(node: ast.Lambda, code: types.CodeType) -> bool:
    """Whether every instruction stands inside the body of the lambda."""
    body = node.body
    start, end = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
    seen = False
    for line, end_line, column, end_column in code.co_positions():
        if line is None or end_line is None or column is None or end_column is None:
            continue
        if (line, column) == (code.co_firstlineno, 0) and end_column == 0:
            continue  # RESUME stands at the first line
        seen = True
        if not (start <= (line, column) and (end_line, end_column) <= end):
            return False
    return seen


@functools.lru_cache(256)
def _compiled_all(text: str) -> dict[str, list[types.CodeType]]:
    """Every code object of a file by its name, as it is on disk now."""
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
    """The instructions of a function with their constants and names, wherever its file is."""
    constants = [
        _code_digest(constant) if isinstance(constant, types.CodeType) else repr(constant)
        for constant in code.co_consts
        # A set constant has no fixed order.
        if not isinstance(constant, frozenset)
    ]
    sets = [sorted(map(repr, constant)) for constant in code.co_consts if isinstance(constant, frozenset)]
    names = [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, constants, sets]
    return hashlib.sha256(code.co_code + repr(names).encode(errors="backslashreplace")).hexdigest()[:32]


def describe_callable(function: Callable[..., Any]) -> str:
    """The name of a function for people: `answer`, or the type of a callable object."""
    if isinstance(function, functools.partial):
        return describe_callable(function.func)
    name = getattr(function, "__name__", "") or type(function).__name__
    return "lambda" if name == "<lambda>" else str(name)


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter] | None:
    """The parameters by name; None for a builtin that does not tell them."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None
