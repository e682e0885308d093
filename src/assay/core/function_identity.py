"""Identity of a user's function: detects whether the function has changed since an earlier process.

`assay.evaluate` runs functions of the user. A run may continue only if the functions are unchanged:

    identity = identify(answer)
    identity.parts      # {"app.answer": "def answer(row): …", "app.clean": "def clean…", "app.LIMIT": 3}
    identity.unknown    # ("client (openai.OpenAI)",): values that cannot be compared between two processes

The parts are the source of the function without comments, its defaults, the values of its closure, and every function,
class and constant in the user's own files that it uses. Functions of installed packages are identified only by name,
because assay assumes that packages do not change. Bytecode differs between versions of Python. It is a part only if the
file was edited after its import.

These changes are not detected; the user passes another `version=` for them:

- the content of files and environment variables that the function reads (a plain call that reads a file is listed in
  `unknown`);
- remote services;
- a new version of an installed package, or a patch of its classes;
- an attribute that the program sets on a module, if the function reaches the module only through a local variable.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import builtins
import collections
import dataclasses
import dis
import enum
import functools
import hashlib
import importlib
import importlib.util
import inspect
import linecache
import logging
import marshal
import math
import operator
import os
import re
import string
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePath
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from assay.core.hashing import file_sha256, fingerprint

# Longer parts are stored as a hash, so that run.json stays readable.
_MAX_PART = 2_000

# Larger containers of plain data are hashed in one call: 100,000 rows then take 0.1 s instead of 5 s.
_MANY_ITEMS = 200

# Types whose repr describes the value completely and is the same in every process.
_PLAIN = (
    *(Decimal, Fraction, UUID, date, time, timedelta, range, complex, PurePath),
    *(operator.itemgetter, operator.attrgetter, operator.methodcaller),
    *(types.GenericAlias, types.UnionType, TypeVar, tzinfo),
)
# Containers of the standard library, described by their class and their items.
_CONTAINERS = (dict, list, collections.deque, collections.ChainMap, types.MappingProxyType)

# Members of a class that do not affect its behaviour, or that `_class` describes in another way.
_CLASS_BOOKKEEPING = frozenset(
    {
        *("__module__", "__dict__", "__weakref__", "__firstlineno__", "__static_attributes__", "__doc__"),
        *("__annotations__", "__annotate_func__", "__annotations_cache__", "__dataclass_fields__"),
        *("__dataclass_params__", "__abstractmethods__", "_abc_impl", "__parameters__", "__orig_bases__"),
        *("__signature__", "__private_attributes__", "__class_vars__"),
    }
)
# Members that attrs and pydantic derive from the fields of a class. The source of the class has the fields.
_DERIVED_MEMBERS = ("__attrs_", "__pydantic_")
_DESCRIPTORS = (
    *(types.MemberDescriptorType, types.GetSetDescriptorType),
    type(vars(collections.namedtuple("_", "field"))["field"]),  # noqa: PYI024 - there is no name for this type
)
# Methods that dataclasses and named tuples generate. They have no source file.
_GENERATED = frozenset(
    {
        *("__init__", "__new__", "__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__"),
        *("__setattr__", "__delattr__", "__replace__", "_make", "_replace", "_asdict", "__getnewargs__"),
    }
)
# Bases of a user's class whose objects have no state besides `__dict__`, `__slots__` and the items of a container.
_STATELESS_BASES = frozenset(
    {
        *(
            "builtins.object",
            "builtins.dict",
            "builtins.list",
            "builtins.tuple",
            "builtins.str",
            "builtins.int",
        ),
        *("builtins.float", "abc.ABC", "typing.Generic", "typing.Protocol", "pydantic.main.BaseModel"),
    }
)
# The state of a lock does not affect what a function computes.
_LOCKS = (
    *(type(threading.Lock()), type(threading.RLock()), threading.Semaphore, threading.BoundedSemaphore),
    *(asyncio.Lock, asyncio.Semaphore, asyncio.BoundedSemaphore),
)
# Builtins that can use any name at run time, so the names cannot be found in the source.
_DYNAMIC_BUILTINS = frozenset({"eval", "exec", "globals", "__import__"})
# Methods that read a file.
_READERS = frozenset({"read_text", "read_bytes", "read_csv", "read_json", "read_parquet", "read_excel"})


# If an installed package wraps a user's function (a decorator), values of these types in the wrapper are described:
# the wrapped function, and the settings of the decorator.
_FOLLOWED_IN_LIBRARIES = (
    *(types.FunctionType, types.MethodType, functools.partial),
    *(str, int, float, bool, list, tuple, dict, set, frozenset, re.Pattern),
)


class FunctionIdentity(msgspec.Struct, frozen=True):
    """The parts of a function's identity, by their full names.

    `unknown` lists the values that cannot be compared between two processes, such as a client. `parts` has only their
    types. `has_source` is False if the source of one of the user's functions cannot be read.
    """

    parts: dict[str, Any]
    unknown: tuple[str, ...] = ()
    has_source: bool = True

    @property
    def digest(self) -> str:
        """A hash of all parts, as 16 hex digits."""
        return fingerprint(self.parts)


def identify(function: Callable[..., Any]) -> FunctionIdentity:
    """Return the identity of a function, lambda, method, partial or callable object."""
    collector = _Collector()
    try:
        collector.parts["function"] = collector.describe(function, "function")
    except RecursionError:
        collector.parts["function"] = describe_callable(function)
        collector.unknown["a value that is nested too deeply"] = None
    return FunctionIdentity(collector.parts, tuple(collector.unknown), collector.has_source)


class _Collector:
    """Collects the parts of an identity: the function, and everything that it uses, directly or indirectly."""

    def __init__(self) -> None:
        self.parts: dict[str, Any] = {}
        self.unknown: dict[str, None] = {}
        self.has_source = True
        # Name and object by the id of the object. Holding the object ensures that its id is not used again.
        self._described: dict[int, tuple[str, Any]] = {}

    def describe(self, value: Any, name: str) -> Any:
        """Return a value as JSON. `name` is its name in the user's code. Functions and classes become parts."""
        if value is None or type(value) is bool:
            return value
        if type(value) is str:
            return _json_text(value)
        if type(value) is int:
            # msgspec cannot encode larger integers.
            return value if value.bit_length() < 64 else {"repr": hex(value)}
        if type(value) is float:
            return value if math.isfinite(value) else {"repr": repr(value)}
        if isinstance(value, enum.Enum):
            return [self.describe(type(value), name), value.name, self.describe(value.value, name)]
        if isinstance(value, (types.FunctionType, type)):
            return self._definition(value, name)
        if isinstance(value, types.ModuleType):
            return self._module(value)
        if isinstance(
            value,
            (
                *(types.BuiltinFunctionType, types.MethodWrapperType, types.MethodDescriptorType),
                *(types.WrapperDescriptorType, types.ClassMethodDescriptorType),
            ),
        ):
            return self._builtin(value, name)
        if isinstance(value, (bytes, bytearray)):
            return {"bytes": hashlib.sha256(value).hexdigest()}
        if isinstance(value, re.Pattern):
            return (
                {"pattern": value.pattern, "flags": value.flags}
                if isinstance(value.pattern, str)
                else {"repr": repr(value)}
            )
        if isinstance(value, _PLAIN) and not _is_users_class(type(value)):
            return {"repr": repr(value)}
        return self._once(value, name)

    def _once(self, value: Any, name: str) -> Any:
        """Describe a container or an object once. Later uses refer to it by name, because it may contain itself."""
        if id(value) in self._described:
            return {"same as": self._described[id(value)][0]}
        self._described[id(value)] = (name, value)
        if type(value) in (list, tuple, dict) and len(value) > _MANY_ITEMS:
            with suppress(ValueError):  # it contains objects that marshal cannot write
                # Version 2 of the format has no references to shared objects, so equal data gives equal bytes.
                return {"plain": hashlib.sha256(marshal.dumps(value, 2)).hexdigest()}
        if type(value) in (list, tuple):
            items = [self.describe(item, f"{name}[{place}]") for place, item in enumerate(value)]
            # Lists and tuples are distinguished, because a prompt such as f"{OPTIONS}" shows the difference.
            return items if type(value) is list else {"tuple": items}
        if type(value) is dict:
            pairs = [
                [self.describe(key, name), self.describe(item, f"{name}[{key!r}]")]
                for key, item in value.items()
            ]
            return {"dict": pairs}
        if type(value) in (set, frozenset):
            # The order of a set differs between processes.
            return {"set": sorted(fingerprint([self.describe(item, name)]) for item in value)}
        if isinstance(value, (functools.partial, functools.partialmethod)):
            return {
                "partial": self.describe(value.func, name),
                "type": self.describe(type(value), name),
                "args": self.describe(value.args, name),
                "keywords": self.describe(value.keywords, name),
                "state": self.describe(dict(vars(value)), name) if _is_users_class(type(value)) else {},
            }
        if isinstance(value, types.MethodType):
            return {"method": self.describe(value.__func__, name), "of": self.describe(value.__self__, name)}
        if isinstance(value, (staticmethod, classmethod)):
            return self.describe(value.__func__, name)
        if isinstance(value, property):
            return [self.describe(each, name) for each in (value.fget, value.fset, value.fdel)]
        if isinstance(value, functools.cached_property):
            return {"cached": self.describe(value.func, name)}
        if isinstance(value, functools.singledispatchmethod):
            return {"dispatch": self.describe(value.dispatcher, name)}
        try:
            return self._object(value, name)
        except Exception:  # noqa: BLE001 - attributes of an object are code of the user, which may raise anything
            return self._unknown(value, name)

    def _unknown(self, value: Any, name: str) -> Any:
        self.unknown[f"{name} ({type(value).__module__}.{type(value).__qualname__})"] = None
        return self.describe(type(value), name)

    def _object(self, value: Any, name: str) -> Any:
        """Describe an object by its class and its state. It is unknown if its state cannot be read completely."""
        users = _is_users_class(type(value))
        # getattr would run code of the object: it may compute attributes, and a proxy without a target raises.
        wrapped = inspect.getattr_static(value, "__wrapped__", None)
        if isinstance(wrapped, types.FunctionType) and not users:
            # functools.cache and similar decorators store the wrapped function here.
            return {"wrapper": type(value).__qualname__, "of": self.describe(wrapped, name)}
        kind = self.describe(type(value), name)
        if isinstance(value, (logging.Logger, ContextVar)):
            return [kind, value.name]
        if type(value).__module__ == "typing":
            return {"repr": _ADDRESS.sub("", repr(value))}
        if type(value) in _LOCKS:
            return kind
        if isinstance(value, msgspec.Struct):
            return [kind, self.describe(msgspec.structs.asdict(value), name)]
        if dataclasses.is_dataclass(value):
            fields = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
            return [kind, self.describe(fields | _state_of(value), name)]
        if isinstance(value, (types.SimpleNamespace, argparse.Namespace, string.Template)):
            return [kind, self.describe(dict(vars(value)), name)]
        if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
            if value.dtype.hasobject:
                # The bytes of an array of objects are memory addresses, which differ between processes.
                return {"array": self.describe(value.tolist(), name), "type": str(value.dtype)}
            content = hashlib.sha256(value.tobytes()).hexdigest()
            return {"array": content, "type": str(value.dtype), "shape": list(value.shape)}
        bases = [base for base in type(value).__mro__ if not _is_users_class(base)]
        if users and all(f"{base.__module__}.{base.__qualname__}" in _STATELESS_BASES for base in bases):
            return [kind, self.describe(_state_of(value), name), self._items(value, name)]
        if not users and isinstance(value, (*_CONTAINERS, tuple, set, frozenset)):
            return [
                kind,
                self._items(value, name),
                self.describe(getattr(value, "default_factory", None), name),
            ]
        return self._unknown(value, name)

    def _items(self, value: Any, name: str) -> Any:
        """Describe the content of an object that is also a container, a text or a number."""
        plain: Any
        for plain in (str, int, float, tuple, list, set, frozenset):
            if isinstance(value, plain):
                return self.describe(plain(value), name)
        if isinstance(value, (dict, types.MappingProxyType)):
            return self.describe(dict(value), name)
        if isinstance(value, collections.ChainMap):
            return self.describe(value.maps, name)
        return self.describe(list(value), name) if isinstance(value, collections.deque) else None

    def _builtin(self, value: Any, name: str) -> Any:
        owner = getattr(value, "__self__", None)
        text = f"{getattr(value, '__module__', None) or 'builtins'}.{value.__qualname__}"
        if owner is None or isinstance(owner, types.ModuleType):
            return text
        return [text, self.describe(owner, name)]

    def _module(self, module: types.ModuleType) -> Any:
        """Describe a module by its name; if the user wrote it, also by the content of its files."""
        if not _is_users_module(module):
            return f"module {module.__name__}"
        return {"module": module.__name__, "files": _files_of(module.__name__)}

    def _definition(self, value: types.FunctionType | type, name: str) -> Any:
        """Describe a function or class. If the user wrote it, it becomes a part; otherwise only its name counts."""
        full_name = f"{value.__module__}.{value.__qualname__}"
        if id(value) in self._described:
            return self._described[id(value)][0]
        if isinstance(value, type):
            users = _is_users_class(value)
        else:
            users = _is_users_file(value.__code__.co_filename)
        if not users:
            return self._of_library(value, full_name)
        # Two lambdas in one function have the same full name.
        number = sum(1 for part in self.parts if part.partition("~")[0] == full_name) + 1
        part = full_name if number == 1 else f"{full_name}~{number}"
        self._described[id(value)] = (part, value)
        self.parts[part] = ""  # reserves the name: another function with this name gets a number
        content = self._class(value) if isinstance(value, type) else self._function(value)
        self.parts[part] = content if len(repr(content)) <= _MAX_PART else {"digest": fingerprint(content)}
        return part

    def _of_library(self, value: types.FunctionType | type, full_name: str) -> Any:
        """Describe a function of an installed package by its name; a decorator also by the function that it wraps."""
        if isinstance(value, type):
            return full_name
        wrapped = vars(value).get("__wrapped__")
        if not value.__closure__ and wrapped is None:
            return full_name
        # `functools.wraps` copies the name of the user's function to the wrapper. Only the code has the real name.
        part = f"{Path(value.__code__.co_filename).stem}.{value.__code__.co_qualname}"
        self._described[id(value)] = (part, value)
        contents = {"__wrapped__": wrapped} | _captured(value)
        captured = {
            variable: self.describe(content, variable)
            for variable, content in contents.items()
            if self._is_followed(content)
        }
        return {"function": part, "captured": captured}

    @staticmethod
    def _is_followed(content: Any) -> bool:
        """Return whether a value in a wrapper of an installed package comes from the user. Others do not count."""
        return content is None or isinstance(content, _FOLLOWED_IN_LIBRARIES) or _is_users_value(content)

    def _class(self, cls: type) -> Any:
        """Describe a class by its source, bases and members. Generated methods, as of a dataclass, are left out."""
        content: dict[str, Any] = {}
        members = {}
        is_generated = dataclasses.is_dataclass(cls) or issubclass(cls, tuple)
        for name, member in sorted(vars(cls).items()):
            function = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
            if isinstance(function, types.FunctionType):
                function = inspect.unwrap(function)
                file = function.__code__.co_filename
                if (file == "<string>" and is_generated and name in _GENERATED) or file.startswith("<attrs"):
                    continue
            if name in _CLASS_BOOKKEEPING or isinstance(member, _DESCRIPTORS):
                continue
            if not name.startswith(_DERIVED_MEMBERS):
                members[name] = self.describe(member, f"{cls.__qualname__}.{name}")
        if dataclasses.is_dataclass(cls):
            content["settings"] = repr(vars(cls).get("__dataclass_params__"))
            content["fields"] = [
                [
                    *(field.name, field.init, field.compare, field.repr, field.kw_only, field.hash),
                    self.describe(field.default_factory, f"{cls.__qualname__}.{field.name}"),
                ]
                for field in dataclasses.fields(cls)
                if field.default_factory is not dataclasses.MISSING
            ] + [field.name for field in dataclasses.fields(cls)]
        for name in ("__struct_fields__", "__struct_defaults__"):  # of msgspec
            if hasattr(cls, name):
                content[name] = self.describe(getattr(cls, name), f"{cls.__qualname__}.{name}")
        if fields := _library_fields(cls):
            content["fields"] = [
                [
                    name,
                    _ADDRESS.sub("", repr(field)),
                    [self.describe(part, f"{cls.__qualname__}.{name}") for part in _parts_of(field)],
                ]
                for name, field in fields
            ]
        if not dataclasses.is_dataclass(cls) and isinstance(cls.__doc__, str):
            # A library may make a prompt of it. A dataclass without one gets its signature, with addresses in it.
            content["doc"] = _json_text(cls.__doc__)
        if type(cls) is not type:
            content["metaclass"] = self.describe(type(cls), "metaclass")
        content["bases"] = [
            self.describe(base, base.__qualname__) for base in cls.__bases__ if base is not object
        ]
        content["annotations"] = {
            name: _ADDRESS.sub("", repr(annotation))
            for name, annotation in inspect.get_annotations(cls).items()
        }
        namespace = vars(sys.modules.get(cls.__module__) or types.ModuleType(""))
        nodes = _class_definitions(cls)
        content["source"] = sorted(ast.unparse(node) for node in nodes)
        # The body of a class may use functions outside of it, for example as `default_factory` of a field.
        content["uses"] = self._globals(namespace, {path for node in nodes for path in _names_in(node)})
        return content | {"members": members}

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
        captured = {
            variable: self.describe(value, variable) for variable, value in _captured(function).items()
        }
        if captured:
            content["captured"] = captured
        attributes = {
            name: self.describe(value, f"{function.__name__}.{name}")
            for name, value in vars(function).items()
            # An attribute that the function itself assigns changes while it runs, so its value does not count.
            if name not in set(_names_stored(code, "STORE_ATTR")) and self._is_followed(value)
        }
        if attributes:
            content["attributes"] = attributes
        # A global that the function itself assigns, such as a counter, changes while it runs. Its value does not count;
        # the statements that give it its first value do.
        assigned = set(_names_stored(code, "STORE_GLOBAL"))
        used = self._globals(
            function.__globals__, {path for path in _names_used(code) if path[0] not in assigned}
        )
        for name in sorted(assigned):
            nodes = _assignments(code, function.__globals__, name)
            used[name] = [ast.unparse(node) for node in nodes]
            if not nodes:  # another module assigns the global, so only its value is known
                used |= self._global(function.__globals__, (name,))
            used |= self._globals(
                function.__globals__,
                {path for node in nodes for path in _names_in(node) if path[0] not in assigned},
            )
        if used:
            content["uses"] = used
        for reader in _files_read(function):
            self.unknown[f"{reader} in {function.__name__} (a file)"] = None
        return content

    def _globals(self, namespace: dict[str, Any], paths: set[tuple[str, ...]]) -> dict[str, Any]:
        used: dict[str, Any] = {}
        for path in sorted(paths):
            used.update(self._global(namespace, path))
        return used

    def _global(self, namespace: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        """Describe a global name. For `module.attribute` of a user's module, describe the value of the attribute."""
        name = path[0]
        if name == "import":
            return self._imported(namespace, path[1], int(path[2]), path[3:])
        if name not in namespace:
            # A builtin, or an undefined name, which raises NameError when the function runs.
            if name in _DYNAMIC_BUILTINS:
                self.unknown[f"{name}()"] = None
            return {}
        value, owner = namespace[name], None
        rest = list(path[1:])
        while rest and isinstance(value, types.ModuleType) and rest[0] in vars(value):
            name = f"{name}.{rest[0]}"
            owner, value = value, vars(value)[rest.pop(0)]
            if value is sys.modules or value is importlib.import_module:
                self.unknown[name] = None
                return {}
        if isinstance(value, types.ModuleType) and not _is_users_module(value):
            return {}
        if owner is not None and not _is_users_module(owner) and not _is_users_value(value):
            return {}
        return {name: self.describe(value, name)}

    def _imported(
        self, namespace: dict[str, Any], module_name: str, level: int, names: tuple[str, ...]
    ) -> dict[str, Any]:
        """Describe the modules that the function imports while it runs, by the hashes of their files.

        They may not be loaded yet, so their content cannot be inspected.
        """
        package = str(namespace.get("__package__") or "").split(".")
        if level:
            module_name = ".".join([*package[: len(package) - level + 1], *filter(None, [module_name])])
        files: dict[str, str] = {}
        for each in (module_name, *(f"{module_name}.{name}" for name in names)):
            files |= _files_of(each)
        return {f"import {module_name}": files} if files else {}


def _captured(function: types.FunctionType) -> dict[str, Any]:
    """Return the values of the function's closure, by the names of the variables."""
    captured = {}
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            captured[variable] = cell.cell_contents
        except ValueError:
            captured[variable] = "not assigned yet"
    return captured


def _library_fields(cls: type) -> list[tuple[str, Any]]:
    """Return the fields of a pydantic or attrs class, by name."""
    fields = vars(cls).get("__pydantic_fields__") or {}
    return [*fields.items(), *((field.name, field) for field in vars(cls).get("__attrs_attrs__") or ())]


def _parts_of(field: Any) -> list[Any]:
    """Return the user's functions and objects in a field that its repr does not show, such as a validator."""
    default = getattr(field, "default", None)
    parts = [getattr(default, "factory", default)]
    parts += [getattr(field, name, None) for name in ("default_factory", "validator", "converter")]
    parts += getattr(field, "metadata", ())
    return [part for part in parts if _is_users_value(part) or dataclasses.is_dataclass(part)]


def _state_of(value: object) -> dict[str, Any]:
    """Return the attributes of an object, from `__dict__` and from slots."""
    state = dict(getattr(value, "__dict__", {}))
    for cls in type(value).__mro__:
        for name, member in vars(cls).items():
            if isinstance(member, types.MemberDescriptorType):
                with suppress(AttributeError):  # not assigned yet
                    state[name] = member.__get__(value)
    return state


def _json_text(text: str) -> Any:
    """Return the text, or its repr if it contains surrogates, which JSON cannot represent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"repr": ascii(text)}
    return text


# Memory addresses in a repr differ between processes.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def _names_used(code: types.CodeType) -> Iterator[tuple[str, ...]]:
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
            yield from _names_used(constant)


def _names_stored(code: types.CodeType, operation: str) -> Iterator[str]:
    """Yield the names that code assigns: globals (STORE_GLOBAL) or attributes (STORE_ATTR)."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == operation:
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_stored(constant, operation)


def _names_in(node: ast.AST) -> Iterator[tuple[str, ...]]:
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
        yield from _names_in(child)


def _files_read(function: types.FunctionType) -> Iterator[str]:
    """Yield the calls in a function that read a file. The content of the file is not part of the identity."""
    definition = definition_of(function)
    for node in ast.walk(definition) if definition else ():
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute) and node.func.attr in _READERS:
            yield f"{node.func.attr}()"
        if isinstance(node.func, ast.Name) and node.func.id == "open":
            mode = next((word.value for word in node.keywords if word.arg == "mode"), None)
            mode = node.args[1] if len(node.args) > 1 else mode
            if mode is None or (isinstance(mode, ast.Constant) and "r" in str(mode.value)):
                yield "open()"


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
    """Return False for files of assay, of the standard library and of installed packages, True for all others.

    Notebook cells and code passed to `exec` have no file; they count as written by the user.
    """
    if file.startswith("<frozen"):
        return False
    path = file if file.startswith("<") else str(Path(file).absolute())
    return not path.startswith(_INSTALLED) and f"{os.sep}site-packages{os.sep}" not in path


def _is_users_module(module: types.ModuleType) -> bool:
    if module.__name__ in sys.builtin_module_names:
        return False
    file = getattr(module, "__file__", None)
    if file is not None:
        return _is_users_file(file)
    # `__main__` of a notebook, a folder without __init__.py, or a module that the user made without a file.
    folders = list(getattr(module, "__path__", ()))
    return any(map(_is_users_file, folders)) if folders else getattr(module, "__spec__", None) is None


def _is_users_class(cls: type) -> bool:
    module = sys.modules.get(cls.__module__)
    if module is None:
        return True  # its file was loaded without an entry in sys.modules
    if module is builtins:
        # A class that `exec` defines in a namespace without `__name__` gets the module name `builtins`.
        return not hasattr(builtins, cls.__name__) and any(
            isinstance(member, types.FunctionType) for member in vars(cls).values()
        )
    return _is_users_module(module)


def _is_users_value(value: Any) -> bool:
    """Return whether a value is a function or class that the user wrote, or an object of such a class."""
    if isinstance(value, types.FunctionType):
        return _is_users_file(value.__code__.co_filename)
    return _is_users_class(value if isinstance(value, type) else type(value))


def _files_of(module_name: str) -> dict[str, str]:
    """Return the hashes of the user's files that are read when a module is imported, by the name of their module."""
    hashes: dict[str, str] = {}
    names = [module_name]
    while names:
        name = names.pop()
        if name in hashes or (path := _file_of(name)) is None:
            continue
        hashes[name] = file_sha256(path)
        tree = _parsed(path.read_bytes())
        parents = name.split(".")
        names += [".".join(parents[:length]) for length in range(1, len(parents))]
        # A relative import starts at the package of the module. For __init__.py the module is the package.
        package = parents if path.stem == "__init__" else parents[:-1]
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = [*package[: len(package) - node.level + 1]] if node.level else []
                source = ".".join([*base, *filter(None, [node.module])])
                names += [source, *(f"{source}.{alias.name}" for alias in node.names)]
    return hashes


def _file_of(module_name: str) -> Path | None:
    """Return the file of a user's module, loaded or not. Returns None for any other module."""
    module = sys.modules.get(module_name)
    if module is not None:
        file = getattr(module, "__file__", None)
    elif module_name.partition(".")[0] in sys.stdlib_module_names:
        return None
    else:
        try:
            spec = importlib.util.find_spec(module_name)
        except Exception:  # noqa: BLE001 - finding a.b imports a, which may raise anything
            return None
        file = spec.origin if spec is not None else None
    if not file or not _is_users_file(file):
        return None
    path = Path(file)
    return path if path.suffix == ".py" and path.is_file() else None


# Source


def _source_of(code: types.CodeType, namespace: dict[str, Any]) -> Any:
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


def _class_definitions(cls: type) -> list[ast.ClassDef]:
    """Return the definitions of a class in its file: several if the name is defined twice, none if not found."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    members = (getattr(member, "__func__", member) for member in vars(cls).values())
    codes = [member.__code__ for member in members if isinstance(member, types.FunctionType)]
    # The module of a notebook has no file. The methods of the class then have the name of the cell.
    files = [file] if file else [code.co_filename for code in codes]
    for name in files:
        tree = _parsed("".join(linecache.getlines(name)))
        if tree is not None:
            return [
                node
                for node in ast.walk(tree)
                if isinstance(node, ast.ClassDef) and node.name == cls.__name__
            ]
    return []


def _assignments(code: types.CodeType, namespace: dict[str, Any], name: str) -> list[ast.stmt]:
    """Return the statements outside of functions that assign a global.

    They are in the function's file, or in the latest notebook cell that assigns the global.
    """
    texts = ["".join(linecache.getlines(code.co_filename, namespace))]
    cells = namespace.get("In")  # IPython's list of the cells that ran
    texts += reversed(cells) if isinstance(cells, list) else []
    for text in texts:
        tree = _parsed(text) if isinstance(text, str) else None
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
def _parsed(text: str | bytes) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def _definitions(text: str, code: types.CodeType) -> list[_Definition]:
    """Return the definitions that may have produced the code: those with its name that begin on its line."""
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
    # If several lambdas are on one line, the column positions of the instructions identify the right one.
    exact: list[_Definition] = [
        node for node in nodes if isinstance(node, ast.Lambda) and _covers(node, code)
    ]
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


def describe_callable(function: Callable[..., Any]) -> str:
    """Return the name of a function for messages: `answer`, or the type of a callable object."""
    if isinstance(function, functools.partial):
        return describe_callable(function.func)
    name = getattr(function, "__name__", "") or type(function).__name__
    return "lambda" if name == "<lambda>" else str(name)


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter] | None:
    """Return the parameters by name, or None for a builtin without a readable signature."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None
