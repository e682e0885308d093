"""A test case of the testset format: nine fields, and how the keys of a record map to them.

    case = TestCase.from_dict({"id": "a", "text": "good film", "expected_sentiment": "positive"})
    case.inputs              # {"text": "good film"}
    case.expected_outputs    # {"sentiment": "positive"}

A record is v2 if it has one of the format's own keys (`inputs`, `step_inputs`, ...), else v1: then every key
that means nothing else is an input. Keys that begin with `expected` never are inputs: they would show the
model the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple, Self

import msgspec

from assay.core.errors import InputError, Problem
from assay.core.schema import json_path
from assay.suites.pipeline.testset.validation import (
    BESIDE,
    FIELDS,
    MemoryRecord,
    check_record,
    expectation,
    has_hop_tag,
    inputs_beside,
    is_gold,
    is_unread,
    is_v2,
)

JsonObject = dict[str, Any]

_PLAIN = frozenset(FIELDS) | BESIDE
"""A record with these keys only needs no sorting of its keys."""
_KEPT = BESIDE | {"expected"}
"""Keys that stay at the top of a written record without being fields."""


@dataclass(slots=True)
class TestCase:
    """Pipeline test case. `id` keeps the type it was written with; two cases are the same by `key`.

    `where` is `file:line` of the record, `origin` the id it had before its parameters were filled in.
    """

    __test__ = False  # pytest collects classes of this name

    id: str | int
    tags: list[str] = field(default_factory=list)
    inputs: JsonObject = field(default_factory=dict)
    step_inputs: dict[str, JsonObject] = field(default_factory=dict)
    batch_items: list[JsonObject] | None = None
    expected_outputs: JsonObject = field(default_factory=dict)
    expected_aggregation: Any = None
    intermediate_expectations: JsonObject = field(default_factory=dict)
    evaluation_config: JsonObject = field(default_factory=dict)
    raw_data: JsonObject = field(default_factory=dict, compare=False, repr=False)
    where: str = field(default="", compare=False, repr=False)
    origin: str = field(default="", compare=False, repr=False)

    @property
    def key(self) -> str:
        """The identity: 1 and "1" are the same case."""
        return str(self.id)

    @property
    def line(self) -> int:
        """The line its record begins at; 0 for a case that comes from no file."""
        number = self.where.rpartition(":")[2]
        return int(number) if number.isdigit() else 0

    @property
    def parameters(self) -> dict[str, list[Any]] | None:
        """Lists of values; the case stands for every combination of them."""
        parameters: dict[str, list[Any]] | None = self._beside("parameters")
        return parameters

    @property
    def depends_on(self) -> list[str]:
        """Ids of the cases that must have passed before this one runs."""
        return id_list(self._beside("depends_on"))

    @property
    def conditions(self) -> str | None:
        """An expression; where it is false the case is skipped."""
        conditions: str | None = self._beside("conditions")
        return conditions

    @property
    def performance_baseline(self) -> JsonObject | None:
        """Most seconds and tokens, of the case and of its steps."""
        baseline: JsonObject | None = self._beside("performance_baseline")
        return baseline

    @property
    def reference(self) -> Any:
        """The bare `expected` of a record: a text for a judge, never compared."""
        return self.raw_data.get("expected")

    def _beside(self, name: str) -> Any:
        raw = self.raw_data
        # In a v1 record of a pipeline that declares an input of this name, the key is that input.
        if name not in raw or (name in self.inputs and not is_v2(raw)):
            return None
        return raw[name]

    @classmethod
    def from_dict(cls, data: JsonObject, declared: frozenset[str] = frozenset()) -> Self:
        """Build the case of a record, v1 or v2. Raises InputError with every error in it.

        `declared` are the pipeline's input names: in a v1 record even `description` may be one.
        """
        problems: list[Problem] = []
        check_record(data, declared, MemoryRecord(), problems)
        errors = [problem for problem in problems if problem.level == "error"]
        if errors:
            raise InputError(errors)
        return cls.of(data, "", declared)

    @classmethod
    def of(cls, data: JsonObject, where: str, declared: frozenset[str] = frozenset()) -> Self:
        """Build the case of a record that was checked before."""
        tags, inputs, outputs = _read_parts(data, declared)
        get = data.get
        return cls(
            data["id"],
            tags,
            inputs,
            get("step_inputs", {}),
            get("batch_items"),
            outputs,
            get("expected_aggregation"),
            get("intermediate_expectations", {}),
            get("evaluation_config", {}),
            data,
            where,
        )

    def to_dict(self) -> JsonObject:
        """Return a v2 record that reads back as an equal case. Custom keys of a v2 record stay at the top."""
        return _v2_of_v2(self) if is_v2(self.raw_data) else _v2_of_v1(self)

    def expectations(self) -> list[Any]:
        """Return everything that the case expects, for fingerprints: nothing of it is asked."""
        return [
            self.expected_outputs,
            self.expected_aggregation,
            self.intermediate_expectations,
            self.evaluation_config,
            self.performance_baseline,
            self.reference,
        ]

    def has_batch_data(self) -> bool:
        """An empty list counts: it is a batch of no items."""
        return self.batch_items is not None

    def should_evaluate_intermediate(self) -> bool:
        """Off unless asked for, even where expectations are defined."""
        return bool(self.evaluation_config.get("evaluate_intermediate", False))

    def should_evaluate_final(self) -> bool:
        """On unless switched off."""
        return bool(self.evaluation_config.get("evaluate_final", True))

    def should_evaluate_aggregation(self) -> bool:
        """On unless switched off, where there is something to compare with."""
        wanted = bool(self.evaluation_config.get("evaluate_aggregation", True))
        return wanted and self.expected_aggregation is not None

    def expand(self) -> Iterator[TestCase]:
        """Yield the cases this one stands for: itself, or one for each combination, named `id[k=v]`.

        The last list turns fastest. Values replace inputs of the same name.
        """
        if not self.parameters:
            yield self
            return
        for key, values in self._combinations():
            raw = {name: value for name, value in self.raw_data.items() if name != "parameters"}
            raw |= {"id": key, "inputs": {**(raw.get("inputs") or {}), **values}}
            origin = self.origin or self.key
            yield replace(self, id=key, inputs={**self.inputs, **values}, raw_data=raw, origin=origin)

    def expanded_keys(self) -> list[str]:
        """Return the ids that `expand` gives, without building the cases."""
        if not self.parameters:
            return [self.key]
        return [key for key, _ in self._combinations()]

    def _combinations(self) -> Iterator[tuple[str, JsonObject]]:
        parameters = self.parameters or {}
        for choice in product(*parameters.values()):
            values = dict(zip(parameters, choice, strict=True))
            texts = []
            for name, value in values.items():
                text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
                texts.append(f"{name}={text}")
            yield f"{self.key}[{','.join(texts)}]", values

    def code_paths(self) -> list[str]:
        """Return where the case brings code for a step, as JSON paths: data does not run unless allowed."""
        return [
            json_path(("step_inputs", step, key))
            for step, values in self.step_inputs.items()
            for key in values
            if key in ("code", "code_file", "aggregation_code")
        ]


def id_list(value: Any) -> list[str]:
    """Return `depends_on` as id strings; a single id may stand without a list."""
    if value is None:
        return []
    items = value if isinstance(value, list) else [value]
    return [str(item) for item in items]


class _Parts(NamedTuple):
    """The fields that may stand in other places than their own."""

    tags: list[str]
    inputs: JsonObject
    expected_outputs: JsonObject


def _read_parts(record: JsonObject, declared: frozenset[str]) -> _Parts:
    """Keys that mean nothing else are inputs; explicit `inputs` win over them."""
    tags, inputs = record.get("tags", []), record.get("inputs", {})
    outputs = record.get("expected_outputs") or {}
    if isinstance(tags, str):
        tags = [tags]
    if record.keys() <= _PLAIN and not inputs_beside(record, declared):
        return _Parts(tags, inputs, outputs)
    if has_hop_tag(record, declared):
        tags = [record["tag"]]
    loose = {key: record[key] for key in _custom_keys(record, declared)}
    expected: JsonObject = {}
    for key, value in record.items():
        name = expectation(key)
        if name is not None:
            expected[name] = value
    return _Parts(tags, loose | inputs, expected | outputs)


def _custom_keys(record: JsonObject, declared: frozenset[str] = frozenset()) -> list[str]:
    """Return the top-level keys that are inputs, in the order they are written."""
    ours = (_PLAIN - inputs_beside(record, declared)) | frozenset(FIELDS)
    if has_hop_tag(record, declared):
        ours |= {"tag"}
    return [key for key in record if key not in ours and not is_gold(key)]


def _set_fields(case: TestCase) -> JsonObject:
    """Return the fields that say something."""
    fields: JsonObject = {"id": case.id}
    if case.tags or "tags" in case.raw_data:  # without them a key `tag` would be read as one
        fields["tags"] = case.tags
    for name in FIELDS[2:]:
        value = getattr(case, name)
        if value is not None and (value or name in ("batch_items", "expected_aggregation")):
            fields[name] = value
    return fields


def _v2_of_v1(case: TestCase) -> JsonObject:
    """Always with `inputs`, so that a reader takes no annotation for an input."""
    fields = _set_fields(case)
    beside: JsonObject = {}
    for key, value in case.raw_data.items():
        if (key in _KEPT and key not in case.inputs) or is_unread(key):
            beside[key] = value
    head = {key: fields.pop(key) for key in ("id", "tags") if key in fields}
    return head | beside | {"inputs": case.inputs} | fields


def _v2_of_v2(case: TestCase) -> JsonObject:
    """In the order of the record. A custom key stays at the top while it still means what it says there."""
    raw, fields = case.raw_data, _set_fields(case)
    explicit = raw.get("inputs") or {}
    kept = {
        key
        for key in _custom_keys(raw)
        if key in case.inputs and (key in explicit or case.inputs[key] == raw[key])
    }
    inputs = {key: value for key, value in case.inputs.items() if key in explicit or key not in kept}
    fields["inputs"] = inputs
    record: JsonObject = {}
    for key, value in raw.items():
        if key in fields:
            record[key] = fields.pop(key)
        elif key in kept or key in _KEPT or is_unread(key):
            record[key] = value
    fields.pop("inputs", None)
    record |= fields
    if "inputs" not in record and (inputs or not is_v2(record)):
        record["inputs"] = inputs
    return record
