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

- environment variables that the function reads, and files that it does not open with Python's `open`: those that it
  opens are noted while it runs (usercode/opened_files.py), and a call such as `read_csv` is listed in `unknown`;
- remote services;
- a new version of an installed package, or a patch of its classes;
- an attribute that the program sets on a module, if the function reaches the module only through a local variable.
"""

from __future__ import annotations

import ast
import asyncio
import collections
import copyreg
import dataclasses
import enum
import functools
import hashlib
import importlib
import inspect
import logging
import marshal
import math
import re
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
from typing import Any
from uuid import UUID

import msgspec

from assay.core.hashing import fingerprint
from assay.usercode.code_hash import module_hashes
from assay.usercode.ownership import is_users_class, is_users_file, is_users_module, is_users_value
from assay.usercode.source import (
    assignments,
    class_definitions,
    describe_callable,
    files_read,
    names_in,
    names_stored,
    names_used,
    source_of,
)

# Longer parts are stored as a hash, so that run.json stays readable.
_MAX_PART = 2_000

# Larger containers of plain data are hashed in one call: 100,000 rows then take 0.1 s instead of 5 s.
_MANY_ITEMS = 200

# Objects of these packages are data, and so are objects of a user's class whose bases are all the user's or theirs.
# Objects of other packages may be clients, whose state differs in each process.
_DATA_PACKAGES = frozenset(
    {
        *("abc", "argparse", "array", "builtins", "_collections", "collections", "dataclasses", "datetime", "decimal"),
        *("enum", "fractions", "functools", "ipaddress", "numbers", "operator", "pathlib", "re", "string", "types"),
        *("typing", "uuid", "zoneinfo", "msgspec", "numpy", "pydantic.main"),
    }
)
# Objects of these types are data, whichever package their class comes from.
_DATA_TYPES = (
    *(dict, list, tuple, set, frozenset, collections.deque, collections.ChainMap, enum.Enum, msgspec.Struct),
    *(date, time, timedelta, tzinfo, Decimal, Fraction, UUID, PurePath),
)
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
_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType)
# Methods that dataclasses and named tuples generate. They have no source file.
_GENERATED = frozenset(
    {
        *("__init__", "__new__", "__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__"),
        *("__setattr__", "__delattr__", "__replace__", "_make", "_replace", "_asdict", "__getnewargs__"),
    }
)
# The state of a lock does not affect what a function computes.
_LOCKS = (
    *(type(threading.Lock()), type(threading.RLock()), threading.Semaphore, threading.BoundedSemaphore),
    *(asyncio.Lock, asyncio.Semaphore, asyncio.BoundedSemaphore),
)
# Builtins that can use any name at run time, so the names cannot be found in the source.
_DYNAMIC_BUILTINS = frozenset({"eval", "exec", "globals", "__import__"})


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
            # Not by `_once`: whether two equal patterns are one object depends on the cache of `re`.
            return {"pattern": self.describe(value.pattern, name), "flags": value.flags}
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
            pairs = [[self.describe(key, name), self.describe(item, f"{name}[{key!r}]")] for key, item in value.items()]
            return {"dict": pairs}
        if type(value) in (set, frozenset):
            # The order of a set differs between processes.
            return {"set": sorted(fingerprint([self.describe(item, name)]) for item in value)}
        if type(value) is types.MappingProxyType:
            return {"read only": self.describe(dict(value), name)}
        if isinstance(value, types.MethodType):
            return {"method": self.describe(value.__func__, name), "of": self.describe(value.__self__, name)}
        if isinstance(value, (staticmethod, classmethod)):
            return self.describe(value.__func__, name)
        if isinstance(value, property):
            return [self.describe(each, name) for each in (value.fget, value.fset, value.fdel)]
        try:
            return self._object(value, name)
        except Exception:  # noqa: BLE001 - attributes of an object are code of the user, which may raise anything
            return self._unknown(value, name)

    def _unknown(self, value: Any, name: str) -> Any:
        self.unknown[f"{name} ({type(value).__module__}.{type(value).__qualname__})"] = None
        return self.describe(type(value), name)

    def _object(self, value: Any, name: str) -> Any:
        """Describe an object by its class and by what pickle would store.

        Raises if the object may be a client, or cannot be pickled. The caller then lists it as unknown.
        """
        users = is_users_class(type(value))
        # getattr would run code of the object: it may compute attributes, and a proxy without a target raises.
        wrapped = inspect.getattr_static(value, "__wrapped__", None)
        if isinstance(wrapped, types.FunctionType) and not users:
            # functools.cache and similar decorators store the wrapped function here.
            return {"wrapper": type(value).__qualname__, "of": self.describe(wrapped, name)}
        kind = self.describe(type(value), name)
        if type(value) in _LOCKS:
            return kind
        if isinstance(value, (logging.Logger, ContextVar)):
            return [kind, value.name]
        if isinstance(value, functools.partial):
            parts = (value.func, value.args, value.keywords, vars(value))
            return [kind, *(self.describe(part, name) for part in parts)]
        if not _is_data(value):
            raise TypeError(f"{type(value)} is not known to be data")
        reduce = copyreg.dispatch_table.get(type(value))
        reduced = reduce(value) if reduce else value.__reduce_ex__(4)
        if isinstance(reduced, str):  # the name of a constant of its module
            return [kind, reduced]
        make, args, state, items, pairs = (*reduced, None, None, None)[:5]
        if isinstance(value, (set, frozenset)):
            args = set(value)  # pickle stores a list, whose order differs between processes
        if state is None and users:
            # Some classes of the standard library, such as defaultdict, leave out the attributes of a subclass.
            state = object.__getstate__(value)
        match state:
            case (None | dict() as attributes, dict() as slots):
                state = (attributes or {}) | slots
        return [
            *(kind, self.describe(make, name), self.describe(args, name), self.describe(state, name)),
            *(self.describe(list(items or ()), name), self.describe(dict(pairs or ()), name)),
        ]

    def _builtin(self, value: Any, name: str) -> Any:
        owner = getattr(value, "__self__", None)
        text = f"{getattr(value, '__module__', None) or 'builtins'}.{value.__qualname__}"
        if owner is None or isinstance(owner, types.ModuleType):
            return text
        return [text, self.describe(owner, name)]

    def _module(self, module: types.ModuleType) -> Any:
        """Describe a module by its name; if the user wrote it, also by the content of its files."""
        if not is_users_module(module):
            return f"module {module.__name__}"
        return {"module": module.__name__, "files": module_hashes(module.__name__)}

    def _definition(self, value: types.FunctionType | type, name: str) -> Any:
        """Describe a function or class. If the user wrote it, it becomes a part; otherwise only its name counts."""
        full_name = f"{value.__module__}.{value.__qualname__}"
        if id(value) in self._described:
            return self._described[id(value)][0]
        if isinstance(value, type):
            users = is_users_class(value)
        else:
            users = is_users_file(value.__code__.co_filename)
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
        return content is None or isinstance(content, _FOLLOWED_IN_LIBRARIES) or is_users_value(content)

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
            ]
        if issubclass(cls, msgspec.Struct):
            defaults = [getattr(default, "factory", default) for default in cls.__struct_defaults__]
            content["fields"] = self.describe([cls.__struct_fields__, defaults], f"{cls.__qualname__}.fields")
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
        content["bases"] = [self.describe(base, base.__qualname__) for base in cls.__bases__ if base is not object]
        content["annotations"] = {
            name: _ADDRESS.sub("", repr(annotation)) for name, annotation in inspect.get_annotations(cls).items()
        }
        namespace = vars(sys.modules.get(cls.__module__) or types.ModuleType(""))
        nodes = class_definitions(cls)
        content["source"] = sorted(ast.unparse(node) for node in nodes)
        # The body of a class may use functions outside of it, for example as `default_factory` of a field.
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
        captured = {variable: self.describe(value, variable) for variable, value in _captured(function).items()}
        if captured:
            content["captured"] = captured
        attributes = {
            name: self.describe(value, f"{function.__name__}.{name}")
            for name, value in vars(function).items()
            # An attribute that the function itself assigns changes while it runs, so its value does not count.
            if name not in set(names_stored(code, "STORE_ATTR")) and self._is_followed(value)
        }
        if attributes:
            content["attributes"] = attributes
        # A global that the function itself assigns, such as a counter, changes while it runs. Its value does not count;
        # the statements that give it its first value do.
        assigned = set(names_stored(code, "STORE_GLOBAL"))
        used = self._globals(function.__globals__, {path for path in names_used(code) if path[0] not in assigned})
        for name in sorted(assigned):
            nodes = assignments(code, function.__globals__, name)
            used[name] = [ast.unparse(node) for node in nodes]
            if not nodes:  # another module assigns the global, so only its value is known
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
        if isinstance(value, types.ModuleType) and not is_users_module(value):
            return {}
        if owner is not None and not is_users_module(owner) and not is_users_value(value):
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
            files |= module_hashes(each)
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
    return [part for part in parts if is_users_value(part) or dataclasses.is_dataclass(part)]


def _is_data(value: Any) -> bool:
    """Return whether pickle stores an object completely, and the same in every process."""
    if isinstance(value, _DATA_TYPES) or dataclasses.is_dataclass(value):
        return True
    bases = [base.__module__ for base in type(value).__mro__ if not is_users_class(base)]
    return all(
        not _DATA_PACKAGES.isdisjoint((module, module.partition(".")[0])) and not module.startswith("numpy.random")
        for module in bases
    )


def _json_text(text: str) -> Any:
    """Return the text, or its repr if it contains surrogates, which JSON cannot represent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"repr": ascii(text)}
    return text


# Memory addresses in a repr differ between processes.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
