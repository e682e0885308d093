"""A test case: the nine fields of the document, and the record they came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from assay.core.errors import InputError, Problem
from assay.suites.pipeline.testset.names import BESIDE, FIELDS, is_v2, unread
from assay.suites.pipeline.testset.reading import Record, custom_keys, id_list, parts
from assay.suites.pipeline.testset.validation import faults_of, json_path


@dataclass(slots=True)
class TestCase:
    """Pipeline test case. `id` keeps the type it was written with; two cases are one by `key`.

    `where` is `file:line` of the record, `origin` the id it had before its parameters were filled in.
    """

    __test__ = False  # pytest collects classes of this name

    id: str | int
    tags: list[str] = field(default_factory=list)
    inputs: dict[str, Any] = field(default_factory=dict)
    step_inputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    batch_items: list[dict[str, Any]] | None = None
    expected_outputs: dict[str, Any] = field(default_factory=dict)
    expected_aggregation: Any = None
    intermediate_expectations: dict[str, Any] = field(default_factory=dict)
    evaluation_config: dict[str, Any] = field(default_factory=dict)
    raw_data: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
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
        found: dict[str, list[Any]] | None = self._beside("parameters")
        return found

    @property
    def depends_on(self) -> list[str]:
        """Ids of the cases that must have passed before this one runs."""
        return id_list(self._beside("depends_on"))

    @property
    def conditions(self) -> str | None:
        """An expression; where it is false the case is skipped."""
        found: str | None = self._beside("conditions")
        return found

    @property
    def performance_baseline(self) -> dict[str, Any] | None:
        """Most seconds and tokens, of the case and of its steps."""
        found: dict[str, Any] | None = self._beside("performance_baseline")
        return found

    @property
    def reference(self) -> Any:
        """The bare `expected` of a record: a text for a judge, never compared."""
        return self.raw_data.get("expected")

    def _beside(self, name: str) -> Any:
        raw = self.raw_data
        if name not in raw or (name in self.inputs and not is_v2(raw)):  # then it is an input
            return None
        return raw[name]

    @classmethod
    def from_dict(cls, data: Record, declared: frozenset[str] = frozenset()) -> Self:
        """The case of a record, v1 or v2; raises InputError with every error in it."""
        faults = [fault for fault in faults_of(data, declared) if fault.level == "error"]
        if faults:
            raise InputError([Problem(json_path(fault.path), fault.message) for fault in faults])
        return cls.of(data, "", declared)

    @classmethod
    def of(cls, data: Record, where: str, declared: frozenset[str] = frozenset()) -> Self:
        """The case of a record that is known to be valid."""
        tags, inputs, outputs = parts(data, declared)
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

    def to_dict(self) -> Record:
        """The case as a v2 record that reads back equal; custom keys of a v2 record stay where they were."""
        return _v2_of(self) if is_v2(self.raw_data) else _v2_of_v1(self)

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


_KEPT = BESIDE | {"expected"}
"""What stays at the top of a record without being a field."""


def _fields(case: TestCase) -> Record:
    """The fields that say something."""
    found: Record = {"id": case.id}
    if case.tags or "tags" in case.raw_data:  # without them `tag` would be one
        found["tags"] = case.tags
    for name in FIELDS[2:]:
        value = getattr(case, name)
        if value is not None and (value or name in ("batch_items", "expected_aggregation")):
            found[name] = value
    return found


def _v2_of_v1(case: TestCase) -> Record:
    """Always with `inputs`, so that a reader takes no annotation for an input."""
    record = _fields(case)
    raw = case.raw_data.items()
    beside = {key: value for key, value in raw if (key in _KEPT and key not in case.inputs) or unread(key)}
    head = {key: record.pop(key) for key in ("id", "tags") if key in record}
    return head | beside | {"inputs": case.inputs} | record


def _v2_of(case: TestCase) -> Record:
    """In the order of the record. A custom key stays at the top while it still means what it says there."""
    raw, fields = case.raw_data, _fields(case)
    given = raw.get("inputs") or {}
    custom = set(custom_keys(raw))
    kept = {key for key in custom if key in case.inputs and (key in given or case.inputs[key] == raw[key])}
    fields["inputs"] = {key: value for key, value in case.inputs.items() if key in given or key not in kept}
    record: Record = {}
    for key, value in raw.items():
        if key in fields:
            record[key] = fields.pop(key)
        elif key in kept or key in _KEPT or unread(key):
            record[key] = value
    inputs = fields.pop("inputs", None)
    record |= fields
    if inputs or not is_v2(record):
        record["inputs"] = inputs
    return record


def carries_code(case: TestCase) -> list[str]:
    """Where the case brings code for a step, as JSON paths: data does not run unless allowed."""
    return [
        json_path(("step_inputs", step, key))
        for step, values in case.step_inputs.items()
        for key in values
        if key in ("code", "code_file", "aggregation_code")
    ]
