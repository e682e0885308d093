"""A test case of the testset format: its nine fields, and the mapping from the keys of a record to them.

    case = TestCase.from_dict({"id": "a", "text": "good film", "expected_sentiment": "positive"})
    case.inputs              # {"text": "good film"}
    case.expected_outputs    # {"sentiment": "positive"}

A record is v2 if it has one of the keys `inputs`, `step_inputs`, and so on (`V2_KEYS`). Any other record is v1:
every key without another meaning is an input. Keys that start with `expected` are never inputs, because they
would show the model the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple, Self

import msgspec

from assay.core.errors import InvalidTestset, Problem
from assay.files.schema import json_path
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
"""If a record has only these keys, each field is under its own key. This is the fast path of reading."""
_COPIED_KEYS = BESIDE | {"expected"}
"""Keys without a field in TestCase. `to_dict` copies them from the original record."""


@dataclass(slots=True)
class TestCase:
    """A test case of a pipeline.

    `id` keeps its type in the file, text or integer; `key` is its text. `raw_data` is the record. `where` is
    `file:line` of the record. `origin` is the id of the case that `expand` created this one from.
    """

    __test__ = False  # pytest would collect a class whose name starts with Test

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
        """The id as text. The ids 1 and "1" are the same case."""
        return str(self.id)

    @property
    def line(self) -> int:
        """The first line of the record; 0 for a case that does not come from a file."""
        number = self.where.rpartition(":")[2]
        return int(number) if number.isdigit() else 0

    @property
    def parameters(self) -> dict[str, list[Any]] | None:
        """Lists of values by input name. The case is run with every combination of them."""
        parameters: dict[str, list[Any]] | None = self._beside("parameters")
        return parameters

    @property
    def depends_on(self) -> list[str]:
        """The ids of the cases that must pass before this one runs."""
        return id_list(self._beside("depends_on"))

    @property
    def conditions(self) -> str | None:
        """An expression. The case is skipped if it is false."""
        conditions: str | None = self._beside("conditions")
        return conditions

    @property
    def performance_baseline(self) -> JsonObject | None:
        """Maximum seconds and tokens of the case and of its steps."""
        baseline: JsonObject | None = self._beside("performance_baseline")
        return baseline

    @property
    def reference(self) -> Any:
        """The key `expected` of a record: a reference for a judge. It is not compared as text."""
        return self.raw_data.get("expected")

    def _beside(self, name: str) -> Any:
        raw = self.raw_data
        # If the pipeline declares an input of this name, the key of a v1 record is that input.
        if name not in raw or (name in self.inputs and not is_v2(raw)):
            return None
        return raw[name]

    @classmethod
    def from_dict(cls, data: JsonObject, declared: frozenset[str] = frozenset()) -> Self:
        """Build the case of a record, v1 or v2. Raises InvalidTestset, a ValueError, with every error in the record.

        `declared` are the names of the pipeline's inputs. In a v1 record, even `description` is an input if the
        pipeline declares one of this name.
        """
        problems: list[Problem] = []
        check_record(data, declared, MemoryRecord(), problems)
        errors = [problem for problem in problems if problem.level == "error"]
        if errors:
            raise InvalidTestset(errors)
        return cls.of(data, "", declared)

    @classmethod
    def of(cls, data: JsonObject, where: str, declared: frozenset[str] = frozenset()) -> Self:
        """Build the case of a record that is already checked."""
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
        """Return a v2 record. Reading it gives an equal case. Custom keys of a v2 record stay at the top level."""
        return _v2_of_v2(self) if is_v2(self.raw_data) else _v2_of_v1(self)

    def expectations(self) -> list[Any]:
        """Return all expectations of the case, for a fingerprint. None of them affects a request."""
        return [
            self.expected_outputs,
            self.expected_aggregation,
            self.intermediate_expectations,
            self.evaluation_config,
            self.performance_baseline,
            self.reference,
        ]

    def get_input(self, key: str, default: Any = None) -> Any:
        """Return an input, else the value of this key in the record, else the default."""
        return self.inputs[key] if key in self.inputs else self.raw_data.get(key, default)

    def get_step_input(self, step_id: str, key: str, default: Any = None) -> Any:
        """Return a value of `step_inputs` for one step, else the default."""
        return self.step_inputs.get(step_id, {}).get(key, default)

    def get_intermediate_expectation(self, step_id: str) -> Any:
        """Return the expected output of a step; None if there is none."""
        return self.intermediate_expectations.get(step_id)

    def get_all_step_ids(self) -> list[str]:
        """Return the steps in `step_inputs` and `intermediate_expectations`, sorted."""
        return sorted({*self.step_inputs, *self.intermediate_expectations})

    def get_batch_size(self) -> int:
        """Return the number of batch items; 0 without any."""
        return len(self.batch_items or ())

    def get_tolerance(self) -> float:
        """Return the allowed difference of numbers. Default: 0."""
        return float(self.evaluation_config.get("tolerance", 0.0))

    def get_ignore_fields(self) -> list[str]:
        """Return the names of the fields that are not compared."""
        return list(self.evaluation_config.get("ignore_fields", ()))

    def is_strict_mode(self) -> bool:
        """Return whether outputs must have exactly the expected keys. By default they may have more."""
        return bool(self.evaluation_config.get("strict_mode", False))

    def has_step_inputs(self) -> bool:
        """Return whether the case has values for single steps."""
        return bool(self.step_inputs)

    def has_expected_aggregation(self) -> bool:
        """Return whether the case expects an aggregation."""
        return self.expected_aggregation is not None

    def has_intermediate_expectations(self) -> bool:
        """Return whether the case expects outputs of single steps."""
        return bool(self.intermediate_expectations)

    def has_batch_data(self) -> bool:
        """Return whether the case has batch items. An empty list counts, as a batch without items."""
        return self.batch_items is not None

    def should_evaluate_intermediate(self) -> bool:
        """Return whether intermediate expectations are checked. By default they are not."""
        return bool(self.evaluation_config.get("evaluate_intermediate", False))

    def should_evaluate_final(self) -> bool:
        """Return whether the final output is checked. By default it is."""
        return bool(self.evaluation_config.get("evaluate_final", True))

    def should_evaluate_aggregation(self) -> bool:
        """Return whether the aggregation is checked. By default it is, if the case expects one."""
        is_on = bool(self.evaluation_config.get("evaluate_aggregation", True))
        return is_on and self.expected_aggregation is not None

    def expand(self) -> Iterator[TestCase]:
        """Yield one case for each combination of `parameters`, with the id `id[name=value]`.

        The last parameter changes fastest. Values replace inputs of the same name. A case without parameters
        yields itself.
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
        """Return the ids of the cases that `expand` yields, without building the cases."""
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
        """Return the JSON paths of code for steps in this case. Code in data runs only with --allow-code."""
        return [
            json_path(("step_inputs", step, key))
            for step, values in self.step_inputs.items()
            for key in values
            if key in ("code", "code_file", "aggregation_code")
        ]


def id_list(value: Any) -> list[str]:
    """Return the value of `depends_on` as a list of ids. A single id need not be in a list."""
    if value is None:
        return []
    items = value if isinstance(value, list) else [value]
    return [str(item) for item in items]


class _Parts(NamedTuple):
    """The fields that a record may write under other keys."""

    tags: list[str]
    inputs: JsonObject
    expected_outputs: JsonObject


def _read_parts(record: JsonObject, declared: frozenset[str]) -> _Parts:
    """Read tags, inputs and expected outputs. Values under `inputs` win over top-level keys."""
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
    """Return the top-level keys that are inputs, in the order of the record."""
    format_keys = (_PLAIN - inputs_beside(record, declared)) | frozenset(FIELDS)
    if has_hop_tag(record, declared):
        format_keys |= {"tag"}
    return [key for key in record if key not in format_keys and not is_gold(key)]


def _set_fields(case: TestCase) -> JsonObject:
    """Return the fields of a case that are not empty."""
    fields: JsonObject = {"id": case.id}
    # Without the key `tags`, a reader would take a key `tag` for a tag.
    if case.tags or "tags" in case.raw_data:
        fields["tags"] = case.tags
    # An empty list of batch items and an expected aggregation of 0 or "" do have a meaning.
    for name in FIELDS[2:]:
        value = getattr(case, name)
        if value is not None and (value or name in ("batch_items", "expected_aggregation")):
            fields[name] = value
    return fields


def _v2_of_v1(case: TestCase) -> JsonObject:
    """Return the v2 record of a v1 case.

    It always has `inputs`: this key makes the record v2, so that a reader does not take `description` for an
    input.
    """
    fields = _set_fields(case)
    beside: JsonObject = {}
    for key, value in case.raw_data.items():
        if (key in _COPIED_KEYS and key not in case.inputs) or is_unread(key):
            beside[key] = value
    head = {key: fields.pop(key) for key in ("id", "tags") if key in fields}
    return head | beside | {"inputs": case.inputs} | fields


def _v2_of_v2(case: TestCase) -> JsonObject:
    """Return the v2 record of a v2 case, with the keys in the original order.

    An input that was a top-level key stays there, unless its value has changed.
    """
    raw, fields = case.raw_data, _set_fields(case)
    explicit = raw.get("inputs") or {}
    top_level = {
        key for key in _custom_keys(raw) if key in case.inputs and (key in explicit or case.inputs[key] == raw[key])
    }
    inputs = {key: value for key, value in case.inputs.items() if key in explicit or key not in top_level}
    fields["inputs"] = inputs
    record: JsonObject = {}
    for key, value in raw.items():
        if key in fields:
            record[key] = fields.pop(key)
        elif key in top_level or key in _COPIED_KEYS or is_unread(key):
            record[key] = value
    fields.pop("inputs", None)
    record |= fields
    if "inputs" not in record and (inputs or not is_v2(record)):
        record["inputs"] = inputs
    return record
