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

Not seen, so pass `version=` for it: files and environment variables that the function reads (reading a file is named in
`unknown` where the call is plain), services, an installed package that changes or whose classes are patched, and an
attribute that the program sets on a module that the function reaches only through a local variable.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import collections
import dataclasses
import enum
import functools
import hashlib
import importlib
import importlib.util
import inspect
import logging
import marshal
import math
import operator
import re
import string
import sys
import threading
import types
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePath
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from assay.core.function_source import (
    assignments,
    class_definitions,
    describe_callable,
    files_read,
    names_in,
    names_stored,
    names_used,
    source_of,
)
from assay.core.hashing import fingerprint
from assay.core.user_ownership import files_of, is_users_class, is_users_file, is_users_module, is_users_value

# A part that is longer is kept as its hash: run.json should stay readable.
_MAX_PART = 2_000

# Larger containers are hashed at the speed of C if they hold plain data only: 100,000 rows take 0.1 s instead of 5 s.
_MANY_ITEMS = 200

# Values whose repr says all about them, in every process.
_PLAIN = (
    *(Decimal, Fraction, UUID, date, time, timedelta, range, complex, PurePath),
    *(operator.itemgetter, operator.attrgetter, operator.methodcaller),
    *(types.GenericAlias, types.UnionType, TypeVar, tzinfo),
)
# Containers of the standard library, described by their class and their items.
_CONTAINERS = (dict, list, collections.deque, collections.ChainMap, types.MappingProxyType)

# Members of a class that say nothing about what it does, or that `_class` describes by other means.
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
# Methods that dataclasses and named tuples generate, from a text without a file.
_GENERATED = frozenset(
    {
        *("__init__", "__new__", "__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__"),
        *("__setattr__", "__delattr__", "__replace__", "_make", "_replace", "_asdict", "__getnewargs__"),
    }
)
# Bases of a user's class that keep no state beyond `__dict__`, `__slots__` and the items of a container.
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
# Locks order calls in time; what a call computes does not depend on them.
_LOCKS = (
    *(type(threading.Lock()), type(threading.RLock()), threading.Semaphore, threading.BoundedSemaphore),
    *(asyncio.Lock, asyncio.Semaphore, asyncio.BoundedSemaphore),
)
# Builtins that look names up while the function runs.
_DYNAMIC_BUILTINS = frozenset({"eval", "exec", "globals", "__import__"})


# What is followed from a wrapper that an installed package made: the function that it wraps, and its settings.
_FOLLOWED_IN_LIBRARIES = (
    *(types.FunctionType, types.MethodType, functools.partial),
    *(str, int, float, bool, list, tuple, dict, set, frozenset, re.Pattern),
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
    try:
        collector.parts["function"] = collector.describe(function, "function")
    except RecursionError:
        collector.parts["function"] = describe_callable(function)
        collector.unknown["a value that is nested too deeply"] = None
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
        if value is None or type(value) is bool:
            return value
        if type(value) is str:
            return _json_text(value)
        if type(value) is int:
            # JSON of msgspec has no larger numbers.
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
        if isinstance(value, _PLAIN) and not is_users_class(type(value)):
            return {"repr": repr(value)}
        return self._once(value, name)

    def _once(self, value: Any, name: str) -> Any:
        """Describe a container or an object. Within itself it is only named, since it may hold itself."""
        if id(value) in self._described:
            return {"same as": self._described[id(value)][0]}
        self._described[id(value)] = (name, value)
        if type(value) in (list, tuple, dict) and len(value) > _MANY_ITEMS:
            with suppress(ValueError):  # it holds something else than plain data
                # Version 2 writes equal data as equal bytes, whatever objects share their parts.
                return {"plain": hashlib.sha256(marshal.dumps(value, 2)).hexdigest()}
        if type(value) in (list, tuple):
            items = [self.describe(item, f"{name}[{place}]") for place, item in enumerate(value)]
            # A prompt shows which one it is: f"{OPTIONS}".
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
                "state": self.describe(dict(vars(value)), name) if is_users_class(type(value)) else {},
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
        """An object of a class: by its class and its state, where both can be known."""
        users = is_users_class(type(value))
        # Without getattr: an object may compute attributes, and a proxy raises where nothing is behind it.
        wrapped = inspect.getattr_static(value, "__wrapped__", None)
        if isinstance(wrapped, types.FunctionType) and not users:
            # functools.cache and its kin keep the function that they wrap.
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
                # The bytes of such an array are addresses.
                return {"array": self.describe(value.tolist(), name), "type": str(value.dtype)}
            content = hashlib.sha256(value.tobytes()).hexdigest()
            return {"array": content, "type": str(value.dtype), "shape": list(value.shape)}
        bases = [base for base in type(value).__mro__ if not is_users_class(base)]
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
        """What an object holds as a container, a text or a number."""
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
        """A module by its name, or by the content of its files if the user wrote it."""
        if not is_users_module(module):
            return f"module {module.__name__}"
        return {"module": module.__name__, "files": files_of(module.__name__)}

    def _definition(self, value: types.FunctionType | type, name: str) -> Any:
        """A function or class. What the user wrote becomes a part; the rest counts by its name."""
        full_name = f"{value.__module__}.{value.__qualname__}"
        if id(value) in self._described:
            return self._described[id(value)][0]
        if isinstance(value, type):
            users = is_users_class(value)
        else:
            users = is_users_file(value.__code__.co_filename)
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
        if isinstance(value, type):
            return full_name
        wrapped = vars(value).get("__wrapped__")
        if not value.__closure__ and wrapped is None:
            return full_name
        # `functools.wraps` gives the wrapper the name of the user's function, so its own code tells where it is from.
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
        """Whether a value in an installed package is the user's. Other objects are taken to stay as they are."""
        return content is None or isinstance(content, _FOLLOWED_IN_LIBRARIES) or is_users_value(content)

    def _class(self, cls: type) -> Any:
        """Source, bases and members. Methods that Python generates, as for a dataclass, follow from the others."""
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
        nodes = class_definitions(cls)
        content["source"] = sorted(ast.unparse(node) for node in nodes)
        # Fields of a class may name functions that are no members of it, such as the factory of a default.
        content["uses"] = self._globals(namespace, {path for node in nodes for path in names_in(node)})
        return content | {"members": members}

    def _function(self, function: types.FunctionType) -> Any:
        code = function.__code__
        source = source_of(code, function.__globals__)
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
            # An attribute that the function assigns is its state, as a global is.
            if name not in set(names_stored(code, "STORE_ATTR")) and self._is_followed(value)
        }
        if attributes:
            content["attributes"] = attributes
        # A global that the function assigns is its state, such as a counter: where it begins is in the source.
        assigned = set(names_stored(code, "STORE_GLOBAL"))
        used = self._globals(
            function.__globals__, {path for path in names_used(code) if path[0] not in assigned}
        )
        for name in sorted(assigned):
            nodes = assignments(code, function.__globals__, name)
            used[name] = [ast.unparse(node) for node in nodes]
            if not nodes:  # another module assigns it
                used |= self._global(function.__globals__, (name,))
            used |= self._globals(
                function.__globals__,
                {path for node in nodes for path in names_in(node) if path[0] not in assigned},
            )
        if used:
            content["uses"] = used
        for reader in files_read(function):
            self.unknown[f"{reader} in {function.__name__} (a file)"] = None
        return content

    def _globals(self, namespace: dict[str, Any], paths: set[tuple[str, ...]]) -> dict[str, Any]:
        used: dict[str, Any] = {}
        for path in sorted(paths):
            used.update(self._global(namespace, path))
        return used

    def _global(self, namespace: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        """The description of a global name. `module.attribute` of the user's own module is followed to its value."""
        name = path[0]
        if name == "import":
            return self._imported(namespace, path[1], int(path[2]), path[3:])
        if name not in namespace:
            # A builtin, or a name that is not defined yet: calling the function then raises.
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
        if isinstance(value, types.ModuleType) and not is_users_module(value):
            return {}
        if owner is not None and not is_users_module(owner) and not is_users_value(value):
            return {}
        return {name: self.describe(value, name)}

    def _imported(
        self, namespace: dict[str, Any], module_name: str, level: int, names: tuple[str, ...]
    ) -> dict[str, Any]:
        """Modules that the function imports while it runs, by their files: they may not be loaded yet."""
        package = str(namespace.get("__package__") or "").split(".")
        if level:
            module_name = ".".join([*package[: len(package) - level + 1], *filter(None, [module_name])])
        files: dict[str, str] = {}
        for each in (module_name, *(f"{module_name}.{name}" for name in names)):
            files |= files_of(each)
        return {f"import {module_name}": files} if files else {}


def _captured(function: types.FunctionType) -> dict[str, Any]:
    """The variables of the functions around it."""
    captured = {}
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            captured[variable] = cell.cell_contents
        except ValueError:
            captured[variable] = "not assigned yet"
    return captured


def _library_fields(cls: type) -> list[tuple[str, Any]]:
    """The fields of a class of pydantic or attrs, by name."""
    fields = vars(cls).get("__pydantic_fields__") or {}
    return [*fields.items(), *((field.name, field) for field in vars(cls).get("__attrs_attrs__") or ())]


def _parts_of(field: Any) -> list[Any]:
    """What the user passed to a field and its repr does not show: functions that make, check or convert values."""
    default = getattr(field, "default", None)
    parts = [getattr(default, "factory", default)]
    parts += [getattr(field, name, None) for name in ("default_factory", "validator", "converter")]
    parts += getattr(field, "metadata", ())
    return [part for part in parts if is_users_value(part) or dataclasses.is_dataclass(part)]


def _state_of(value: object) -> dict[str, Any]:
    """The attributes of an object, in `__dict__` and in slots."""
    state = dict(getattr(value, "__dict__", {}))
    for cls in type(value).__mro__:
        for name, member in vars(cls).items():
            if isinstance(member, types.MemberDescriptorType):
                with suppress(AttributeError):  # not assigned yet
                    state[name] = member.__get__(value)
    return state


def _json_text(text: str) -> Any:
    """The text, or its repr if it has surrogates, which JSON cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"repr": ascii(text)}
    return text


# Memory addresses in a repr differ between processes.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
