"""A Hoplet's contract: the inputs of its function, and how each output field is aggregated and compared.

It is in `metainfo.md` (see `contract_markdown.py`), or in a YAML file in the same folder:

    name: Verify
    inputs: {claim: string, context: string?}
    outputs:
      supported: bool
      score: {type: int, bands: {LOW: [1, 2], HIGH: [3, 5]}}
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from assay.core.errors import InputError, Problem, similar_names, unknown
from assay.files.read import refuse_special_file
from assay.files.schema import KeyPath, convert, refuse
from assay.files.yaml_files import YamlFile, load_yaml
from assay.language.conditions import same
from assay.suites.hop.contract_markdown import markdown_contract
from assay.suites.hop.field_types import TYPE_ALIASES, TYPES, fits

MARKDOWN = "metainfo.md"
YAML_NAMES = ("contract.yaml", "contract.yml", "metainfo.yaml", "metainfo.yml")
NUMBERS = ("int", "float")
AGGREGATES = ("mean", "rate", "distribution", "non_null_rate")
COMPARISONS = ("equal", "tolerance", "bands", "within")
_DEFAULT_AGGREGATES = {
    "int": "mean",
    "float": "mean",
    "bool": "rate",
    "string": "distribution",
    "array": "distribution",
}
CONTRACT_KEYS = (
    "name",
    "version",
    "inputs",
    "outputs",
    "audit_key",
    "audit_key_field",
    "function",
    "hop_func_name",
    "retry_quota",
    "max_feedback_rounds",
)
INPUT_KEYS = ("type", "required", "label", "description", "desc", "choices", "example")
OUTPUT_KEYS = ("type", "aggregate", "compare", "tolerance", "bands", "within", "label", "sub_field")
OUTPUT_ALIASES = {"field_type": "type", "agg_type": "aggregate", "display_label": "label"}
MAX_FEEDBACK_ROUNDS = 5
"""The default of HOP's View."""
_BOOLEANS = {"true": True, "false": False}


def parse_bool(value: Any) -> Any:
    """Return True or False for a text such as "true" or "False". Other values are returned with texts stripped."""
    text = strip_texts(value)
    return _BOOLEANS.get(text.lower(), text) if isinstance(text, str) else text


def strip_texts(value: Any) -> Any:
    """Strip the whitespace around texts, at any depth. Comparisons ignore it."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, dict):
        return {key: strip_texts(item) for key, item in value.items()}
    return [strip_texts(item) for item in value] if isinstance(value, list) else value


class OutputField(Struct, frozen=True, kw_only=True):
    """One output field of the function.

    `compare` decides when the field is right: equal, within `tolerance`, in the same of `bands`, or at most
    `within` away. `aggregate` is the statistic that the result store shows.
    """

    type: str = "any"
    aggregate: str = "non_null_rate"
    compare: str = "equal"
    tolerance: float | None = None
    bands: dict[str, list[Any]] = field(default_factory=dict)
    within: float | None = None
    label: str = ""
    sub_field: str | None = None

    def band_of(self, value: Any) -> str | None:
        """Return the band of a value, or None. A list of two numbers is a range that includes both ends.

        If the ranges of two bands touch, the shared end belongs to the first one.
        """
        for name, values in self.bands.items():
            if is_range(values):
                if fits(value, "float") and values[0] <= value <= values[1]:
                    return name
            elif any(same(value, item) for item in values):
                return name
        return None


class InputForm(Struct, frozen=True, kw_only=True):
    """How the View asks a person for an input. It changes nothing of a batch."""

    label: str = ""
    description: str = ""
    choices: list[Any] = field(default_factory=list)
    example: Any = None
    """The value that "Fill example" fills in. None without one."""


class Contract(Struct, frozen=True, kw_only=True):
    """The contract of a function. Without `inputs` the function gets every field of a row."""

    name: str = ""
    version: str = ""
    inputs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, OutputField] = field(default_factory=dict)
    audit_key: str | None = None
    optional: frozenset[str] = frozenset()
    function: str | None = None
    forms: dict[str, InputForm] = field(default_factory=dict)
    """How the View asks for inputs, by name. Inputs of which the contract says nothing more have none."""
    retry_quota: int | None = None
    """How often the View repeats a call that failed. None is without a limit."""
    max_feedback_rounds: int = MAX_FEEDBACK_ROUNDS


def is_range(values: list[Any]) -> bool:
    """Return True if the list of a band is `[lowest, highest]`."""
    return len(values) == 2 and all(fits(value, "float") for value in values)


def find_contract(folder: Path) -> Contract | None:
    """Return the contract of a folder, or None. Raises InputError if it is invalid or if there are two."""
    yaml = contract_file(folder)
    return read_contract(yaml) if yaml is not None else None


def contract_file(folder: Path) -> YamlFile | None:
    """Return the file of a folder's contract, or None. Raises InputError if there are two, or for a pipe."""
    for name in (MARKDOWN, *YAML_NAMES):
        refuse_special_file(folder / name)
    files = []
    if (folder / MARKDOWN).is_file() and (yaml := markdown_contract(folder / MARKDOWN)) is not None:
        files.append(yaml)
    files += [load_yaml(folder / name) for name in YAML_NAMES if (folder / name).is_file()]
    if len(files) > 1:
        names = " and ".join(yaml.path.name for yaml in files)
        raise InputError(Problem(str(folder), f"there is more than one contract, in {names}; keep one"))
    return files[0] if files else None


def read_contract(yaml: YamlFile) -> Contract:
    """Return the contract of a YAML mapping. Raises InputError with every problem in it."""
    return _ContractReader(yaml).contract()


class _ContractReader:
    """Reads a contract key by key.

    A schema is not enough: most keys have several spellings, and a value may be short for a mapping.
    """

    def __init__(self, yaml: YamlFile) -> None:
        self._yaml = yaml
        self._problems: list[Problem] = []

    def contract(self) -> Contract:
        value = self._yaml.value
        # The file may have keys for other purposes, so only a probable misspelling is a problem.
        for key in value:
            if key not in CONTRACT_KEYS and (near := _near_key(str(key))):
                self._add((str(key),), f"there is no such key; did you mean {near!r}?")
        entries = self._fields("inputs", INPUT_KEYS)
        inputs = {name: self._type(entry, ("inputs", name)) for name, entry in entries.items()}
        outputs = {name: self._output(name, entry) for name, entry in self._fields("outputs").items()}
        forms = {name: self._form(entry, inputs[name], ("inputs", name)) for name, entry in entries.items()}
        rounds = self._count("max_feedback_rounds")
        contract = Contract(
            name=self._typed(value, "name", str) or "",
            version=str(self._typed(value, "version", str | int | float) or ""),
            inputs=inputs,
            outputs=outputs,
            audit_key=self._audit_key(outputs),
            optional=frozenset(name for name, entry in entries.items() if self._is_optional(name, entry)),
            function=self._typed(value, "function", str) or self._typed(value, "hop_func_name", str),
            forms={name: form for name, form in forms.items() if form != InputForm()},
            retry_quota=self._count("retry_quota"),
            max_feedback_rounds=MAX_FEEDBACK_ROUNDS if rounds is None else rounds,
        )
        refuse(self._problems, self._yaml.path)
        return contract

    def _add(self, path: KeyPath, message: str) -> None:
        self._problems.append(self._yaml.problem(path, message))

    def _typed(self, value: dict[str, Any], key: str, schema: Any, path: KeyPath = ()) -> Any:
        """Return the value of a key, or None if it is absent. Adds a problem if it has another type."""
        if value.get(key) is None:
            return None
        return convert(value[key], schema, self._yaml, self._problems, (*path, key))

    def _check_keys(self, value: dict[str, Any], names: tuple[str, ...], path: KeyPath) -> None:
        for key in value:
            if key not in names:
                self._add((*path, str(key)), unknown("key", str(key), sorted(names)))

    def _fields(self, block: str, allowed: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
        """Return the fields of a block by name.

        A bare type is short for `{type: …}`. In a list, each entry has its name in it.
        """
        fields: dict[str, dict[str, Any]] = {}
        for name, entry, path in self._entries(block):
            if not isinstance(name, str) or not name:
                self._add(path, f"a field name must be a text; put {name!r} in quotes")
            elif name in fields:
                self._add(path, f"duplicate field {name!r}")
            elif entry is None or isinstance(entry, str):
                fields[name] = {"type": entry}
            elif isinstance(entry, dict):
                fields[name] = entry
                if allowed:
                    self._check_keys(entry, allowed, path)
            else:
                self._add(path, f"expected a type or a mapping, found {entry!r}")
        return fields

    def _entries(self, block: str) -> Iterator[tuple[Any, Any, KeyPath]]:
        value = self._typed(self._yaml.value, block, dict[Any, Any] | list[Any]) or {}
        if isinstance(value, dict):
            for name, entry in value.items():
                yield name, entry, (block, str(name))
            return
        for index, entry in enumerate(value):
            rest = dict(entry) if isinstance(entry, dict) else {"name": entry}
            name = rest.pop("name", rest.pop("field_name", None))
            yield name, rest, (block, index)

    def _type(self, entry: dict[str, Any], path: KeyPath) -> str:
        type_text = entry.get("type")
        if type_text is None:
            return "any"
        name = str(type_text).removesuffix("?").strip().lower()
        name = TYPE_ALIASES.get(name, name)
        if name not in TYPES:
            self._add(path, unknown("type", str(type_text), list(TYPES)))
            return "any"
        return name

    def _is_optional(self, name: str, entry: dict[str, Any]) -> bool:
        """Return True for `type: string?` and for `required: false`, which mean the same."""
        required = self._typed(entry, "required", bool, ("inputs", name))
        return required is False or str(entry.get("type")).endswith("?")

    def _form(self, entry: dict[str, Any], type_: str, path: KeyPath) -> InputForm:
        # YAML has dates, which are no JSON. A page shows them as texts.
        choices: list[Any] = msgspec.to_builtins(self._typed(entry, "choices", list[Any], path) or [])
        example = msgspec.to_builtins(entry.get("example"))
        for key, values in (("choices", choices), ("example", [example])):
            wrong = [value for value in values if value is not None and not fits(value, type_)]
            if wrong:
                self._add((*path, key), f"this input has the type {type_}, and {wrong[0]!r} has not")
        return InputForm(
            label=self._typed(entry, "label", str, path) or "",
            description=self._typed(entry, "description", str, path) or self._typed(entry, "desc", str, path) or "",
            choices=choices,
            example=example,
        )

    def _count(self, key: str) -> int | None:
        value: int | None = self._typed(self._yaml.value, key, int)
        if value is not None and value < 0:
            self._add((key,), f"expected a whole number of at least 0, found {value}")
        return value

    def _audit_key(self, outputs: dict[str, OutputField]) -> str | None:
        name = "audit_key" if "audit_key" in self._yaml.value else "audit_key_field"
        key: str | None = self._typed(self._yaml.value, name, str)
        if key is not None and outputs and key not in outputs:
            self._add((name,), unknown("output", key, list(outputs)))
        return key

    def _output(self, name: str, mapping: dict[str, Any]) -> OutputField:
        path = ("outputs", name)
        entry = {OUTPUT_ALIASES.get(key, key): value for key, value in mapping.items()}
        self._check_keys(entry, (*OUTPUT_KEYS, "description", "desc"), path)
        type_ = self._type(entry, path)
        bands = self._bands(entry, type_, path)
        output = OutputField(
            type=type_,
            aggregate=self._one_of(entry, "aggregate", AGGREGATES, path)
            or _DEFAULT_AGGREGATES.get(type_, "non_null_rate"),
            compare=self._compare(entry, path),
            tolerance=self._distance(entry, "tolerance", path),
            bands=bands,
            within=self._distance(entry, "within", path),
            label=self._typed(entry, "label", str, path) or "",
            sub_field=self._typed(entry, "sub_field", str, path),
        )
        if output.type in (*NUMBERS, "any"):
            return output
        if output.aggregate == "mean":
            self._add((*path, "aggregate"), f"a field of type {output.type} has no mean; only numbers have")
        for key, distance in (("tolerance", output.tolerance), ("within", output.within)):
            if distance is not None:
                self._add((*path, key), f"`{key}` is for numbers; this field has the type {output.type}")
        return output

    def _one_of(self, entry: dict[str, Any], key: str, allowed: tuple[str, ...], path: KeyPath) -> str | None:
        name: str | None = self._typed(entry, key, str, path)
        if name is not None and name not in allowed:
            self._add((*path, key), unknown(key, name, list(allowed)))
            return None
        return name

    def _compare(self, entry: dict[str, Any], path: KeyPath) -> str:
        """Return the comparison: `compare`, else the one of tolerance, bands and within that is set."""
        name = self._one_of(entry, "compare", COMPARISONS, path)
        implied = [key for key in COMPARISONS[1:] if entry.get(key) is not None]
        if name is not None:
            if name != "equal" and name not in implied:
                self._add((*path, "compare"), f"to compare by {name}, give `{name}` too")
            return name
        if len(implied) > 1:
            self._add(path, f"{', '.join(implied)} are set; choose the one that decides with `compare`")
        return implied[0] if implied else "equal"

    def _distance(self, entry: dict[str, Any], key: str, path: KeyPath) -> float | None:
        value: float | None = self._typed(entry, key, int | float, path)
        if value is not None and not (isfinite(value) and value >= 0):
            self._add((*path, key), f"expected a number of at least 0, found {value!r}")
        return value

    def _bands(self, entry: dict[str, Any], type_: str, path: KeyPath) -> dict[str, list[Any]]:
        bands: dict[str, list[Any]] = {}
        for name, value_or_list in (self._typed(entry, "bands", dict[Any, Any], path) or {}).items():
            values = value_or_list if isinstance(value_or_list, list) else [value_or_list]
            band_path = (*path, "bands", str(name))
            if not isinstance(name, str) or not name:
                self._add(band_path, f"a band name must be a text; put {name!r} in quotes")
            elif not values or not all(_is_scalar(value) and fits(value, type_) for value in values):
                self._add(band_path, f"expected [lowest, highest] or a list of values, found {value_or_list!r}")
            elif is_range(values) and values[0] > values[1]:
                self._add(band_path, f"{values[0]} is above {values[1]}")
            else:
                for other_name, other_values in bands.items():
                    if _overlap(values, other_values, touching=type_ != "float"):
                        self._add(band_path, f"the band overlaps with {other_name}")
                bands[name] = values
        return bands


def _near_key(key: str) -> str | None:
    """Return the key that a misspelled key resembles, or None."""
    return next(iter(similar_names(key, CONTRACT_KEYS)), None)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (str, bool, int)) or (isinstance(value, float) and isfinite(value))


def _overlap(first: list[Any], second: list[Any], *, touching: bool) -> bool:
    """Return True if a value is in both bands. `touching`: ranges that share only an end overlap too."""
    if is_range(first) and is_range(second):
        low = max(first[0], second[0])
        high = min(first[1], second[1])
        return bool(low <= high if touching else low < high or first == second)
    if is_range(second):
        first, second = second, first
    if is_range(first):
        return any(fits(value, "float") and first[0] <= value <= first[1] for value in second)
    return any(same(value, item) for value in first for item in second)
