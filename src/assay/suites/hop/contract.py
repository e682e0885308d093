"""A Hoplet's contract: the fields its function gets, and how each field it gives is counted and compared."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from assay.core.errors import InputError, Problem
from assay.core.findings import Findings, Key
from assay.core.json_compare import same
from assay.core.registry import unknown
from assay.core.yamlfile import YamlFile
from assay.suites.hop.metainfo import contract_files, near_key

NUMBERS = ("int", "float")
AGGREGATES = ("mean", "rate", "distribution", "non_null_rate")
COMPARISONS = ("equal", "tolerance", "bands", "within")
TYPES = ("int", "float", "bool", "string", "array", "object", "any")
_ALIASES = {
    "integer": "int",
    "number": "float",
    "double": "float",
    "boolean": "bool",
    "str": "string",
    "text": "string",
    "list": "array",
    "dict": "object",
    "mapping": "object",
    "json": "any",
}
_USUAL = {"int": "mean", "float": "mean", "bool": "rate", "string": "distribution", "array": "distribution"}
_KEYS = ("name", "version", "inputs", "outputs", "audit_key", "audit_key_field", "function", "hop_func_name")
_OUTPUT_KEYS = ("type", "aggregate", "compare", "tolerance", "bands", "within", "label", "sub_field")
_OUTPUT_ALIASES = {"field_type": "type", "agg_type": "aggregate", "display_label": "label"}

_FITS: dict[str, Callable[[Any], bool]] = {
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "float": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "bool": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "any": lambda _: True,
}


def fits(value: Any, type_: str) -> bool:
    """Whether a JSON value is of a contract's type. A whole number is a float too, a boolean is no number."""
    return _FITS[type_](value)


class OutputField(Struct, frozen=True, kw_only=True):
    """One field of what the function gives. `compare` says what makes it right, the rest may be counted."""

    type: str = "any"
    aggregate: str = "non_null_rate"
    compare: str = "equal"
    tolerance: float | None = None
    bands: dict[str, list[Any]] = field(default_factory=dict)
    within: float | None = None
    label: str = ""
    sub_field: str | None = None

    def band_of(self, value: Any) -> str | None:
        """The band a value lies in: two numbers are a range with both its ends, else a list of values.

        Where two ranges of a float touch, the first one has the end that they share.
        """
        for name, given in self.bands.items():
            if is_range(given):
                if _FITS["float"](value) and given[0] <= value <= given[1]:
                    return name
            elif any(same(value, one) for one in given):
                return name
        return None


class Contract(Struct, frozen=True, kw_only=True):
    """What `metainfo.md` promises. Without `inputs` the function gets every field of a row."""

    name: str = ""
    version: str = ""
    inputs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, OutputField] = field(default_factory=dict)
    audit_key: str | None = None
    optional: frozenset[str] = frozenset()
    function: str | None = None


def is_range(given: list[Any]) -> bool:
    """Whether a band's list is `[lowest, highest]`."""
    return len(given) == 2 and all(map(_FITS["float"], given))


def find_contract(folder: Path) -> Contract | None:
    """The contract that stands in a folder, if there is one; InputError if there are two or it is wrong."""
    found = contract_files(folder)
    if len(found) > 1:
        both = " and ".join(yaml.path.name for yaml in found)
        raise InputError(Problem(str(folder), f"there is more than one contract, in {both}; keep one"))
    return read_contract(found[0]) if found else None


def read_contract(yaml: YamlFile) -> Contract:
    """The contract in a mapping; raises InputError with every problem in it."""
    return _Reader(yaml).contract()


class _Reader:
    def __init__(self, yaml: YamlFile) -> None:
        self._value: dict[str, Any] = yaml.value
        self._found = Findings(yaml)

    def contract(self) -> Contract:
        found, value = self._found, self._value
        for key in value:  # other things may be told of a Hoplet there
            if key not in _KEYS and (near := near_key(str(key), _KEYS)):
                found.add((str(key),), f"there is no key of this name; did you mean {near!r}?")
        given = self._fields("inputs", ("type", "required", "label", "description", "desc"))
        inputs = {name: self._type(entry, ("inputs", name)) for name, entry in given.items()}
        outputs = {name: self._output(name, entry) for name, entry in self._fields("outputs", None).items()}
        contract = Contract(
            name=found.typed(value, "name", str) or "",
            version=str(found.typed(value, "version", (str, int, float)) or ""),
            inputs=inputs,
            outputs=outputs,
            audit_key=self._audit_key(outputs),
            optional=frozenset(name for name, entry in given.items() if self._is_optional(name, entry)),
            function=found.typed(value, "function", str) or found.typed(value, "hop_func_name", str),
        )
        found.refuse()
        return contract

    def _fields(self, block: str, allowed: tuple[str, ...] | None) -> dict[str, dict[str, Any]]:
        """The fields of a block by name. A bare type is short for `{type: …}`, a list has names in it."""
        fields: dict[str, dict[str, Any]] = {}
        for name, entry, at in self._entries(block):
            if not isinstance(name, str) or not name:
                self._found.add(at, f"a field's name is a text; put {name!r} in quotes")
            elif name in fields:
                self._found.add(at, f"the field {name!r} stands there twice")
            elif entry is None or isinstance(entry, str):
                fields[name] = {"type": entry}
            elif isinstance(entry, dict):
                fields[name] = entry
                if allowed:
                    self._found.known(entry, allowed, at)
            else:
                self._found.add(at, f"expected a type or a mapping, found {entry!r}")
        return fields

    def _entries(self, block: str) -> list[tuple[Any, Any, Key]]:
        given = self._found.typed(self._value, block, (dict, list)) or {}
        if isinstance(given, dict):
            return [(name, entry, (block, str(name))) for name, entry in given.items()]
        entries: list[tuple[Any, Any, Key]] = []
        for place, entry in enumerate(given):
            rest = dict(entry) if isinstance(entry, dict) else {"name": entry}
            name = rest.pop("name", rest.pop("field_name", None))
            entries.append((name, rest, (block, place)))
        return entries

    def _type(self, entry: dict[str, Any], at: Key) -> str:
        told = entry.get("type")
        if told is None:
            return "any"
        name = str(told).removesuffix("?").strip().lower()
        name = _ALIASES.get(name, name)
        if name not in TYPES:
            self._found.add(at, unknown("type", str(told), list(TYPES)))
            return "any"
        return name

    def _is_optional(self, name: str, entry: dict[str, Any]) -> bool:
        """`type: string?` and `required: false` say the same."""
        required = self._found.typed(entry, "required", bool, ("inputs", name))
        return required is False or str(entry.get("type")).endswith("?")

    def _audit_key(self, outputs: dict[str, OutputField]) -> str | None:
        name = "audit_key" if "audit_key" in self._value else "audit_key_field"
        key: str | None = self._found.typed(self._value, name, str)
        if key is not None and outputs and key not in outputs:
            self._found.add((name,), unknown("output", key, list(outputs)))
        return key

    def _output(self, name: str, given: dict[str, Any]) -> OutputField:
        found, at = self._found, ("outputs", name)
        entry = {_OUTPUT_ALIASES.get(key, key): value for key, value in given.items()}
        found.known(entry, (*_OUTPUT_KEYS, "description", "desc"), at)
        type_ = self._type(entry, at)
        bands = self._bands(entry, type_, at)
        output = OutputField(
            type=type_,
            aggregate=self._one_of(entry, "aggregate", AGGREGATES, at) or _USUAL.get(type_, "non_null_rate"),
            compare=self._compare(entry, at),
            tolerance=self._distance(entry, "tolerance", at),
            bands=bands,
            within=self._distance(entry, "within", at),
            label=found.typed(entry, "label", str, at) or "",
            sub_field=found.typed(entry, "sub_field", str, at),
        )
        self._check_numbers(output, at)
        return output

    def _check_numbers(self, output: OutputField, at: Key) -> None:
        """Only numbers have a mean and a distance."""
        if output.type in (*NUMBERS, "any"):
            return
        if output.aggregate == "mean":
            self._found.add((*at, "aggregate"), f"a field of type {output.type} has no mean")
        for name in ("tolerance", "within"):
            if getattr(output, name) is not None:
                self._found.add((*at, name), f"a field of type {output.type} has no distance")

    def _one_of(self, entry: dict[str, Any], key: str, allowed: tuple[str, ...], at: Key) -> str | None:
        told: str | None = self._found.typed(entry, key, str, at)
        if told is not None and told not in allowed:
            self._found.add((*at, key), unknown(key, told, list(allowed)))
            return None
        return told

    def _compare(self, entry: dict[str, Any], at: Key) -> str:
        """As told, or what the one other key asks for."""
        told = self._one_of(entry, "compare", COMPARISONS, at)
        implied = [key for key in COMPARISONS[1:] if entry.get(key) is not None]
        if told is not None:
            if told != "equal" and told not in implied:
                self._found.add((*at, "compare"), f"to compare by {told}, give `{told}` too")
            return told
        if len(implied) > 1:
            self._found.add(at, f"which of {', '.join(implied)} makes it right? say so with `compare`")
        return implied[0] if implied else "equal"

    def _distance(self, entry: dict[str, Any], key: str, at: Key) -> float | None:
        given: float | None = self._found.typed(entry, key, (int, float), at)
        if given is not None and not (isfinite(given) and given >= 0):
            self._found.add((*at, key), f"expected a number from 0 on, found {given!r}")
        return given

    def _bands(self, entry: dict[str, Any], type_: str, at: Key) -> dict[str, list[Any]]:
        bands: dict[str, list[Any]] = {}
        for name, given in (self._found.typed(entry, "bands", dict, at) or {}).items():
            values = given if isinstance(given, list) else [given]
            place = (*at, "bands", str(name))
            if not isinstance(name, str) or not name:
                self._found.add(place, f"a band's name is a text; put {name!r} in quotes")
            elif not values or not all(_is_plain(value) and fits(value, type_) for value in values):
                self._found.add(place, f"expected [lowest, highest] or a list of values, found {given!r}")
            elif is_range(values) and values[0] > values[1]:
                self._found.add(place, f"{values[0]} is above {values[1]}")
            else:
                self._check_overlap(bands, values, type_, place)
                bands[name] = values
        return bands

    def _check_overlap(self, bands: dict[str, list[Any]], values: list[Any], type_: str, at: Key) -> None:
        for name, others in bands.items():
            if _overlap(values, others, touching=type_ != "float"):
                self._found.add(at, f"it has values in common with {name}")


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, bool, int)) or (isinstance(value, float) and isfinite(value))


def _overlap(one: list[Any], other: list[Any], *, touching: bool) -> bool:
    """Whether a value lies in both; ranges that only touch do so if `touching` says it."""
    if is_range(one) and is_range(other):
        low, high = max(one[0], other[0]), min(one[1], other[1])
        return bool(low <= high if touching else low < high or one == other)
    if is_range(other):
        one, other = other, one
    if is_range(one):
        return any(_FITS["float"](value) and one[0] <= value <= one[1] for value in other)
    return any(same(value, item) for value in one for item in other)
