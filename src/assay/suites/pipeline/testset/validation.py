"""Checks one record of a testset. `scan.py` checks ids and dependencies across records.

The structs below define types, bounds and lengths; `files/schema.py` compares a record with them. `check_record`
adds rules that types cannot express, warnings and advice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isinf, prod
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct, field

from assay.core.errors import Problem, similar
from assay.files.schema import JSON_WORDING, KeyPath, ValueSource, Wording, convert, json_path, kind_of
from assay.language.conditions import Expression, ExpressionProblem

FIELDS = (
    "id",
    "tags",
    "inputs",
    "step_inputs",
    "batch_items",
    "expected_outputs",
    "expected_aggregation",
    "intermediate_expectations",
    "evaluation_config",
)
V2_KEYS = frozenset(FIELDS) - {"id", "tags"}
"""A record with at least one of these keys is v2. Any other record is v1."""
ANNOTATIONS = frozenset({"description", "metadata"})
RESERVED = frozenset({"parameters", "depends_on", "conditions", "performance_baseline"})
BESIDE = ANNOTATIONS | RESERVED
"""Keys that are not inputs, except in a v1 record whose pipeline declares inputs of these names."""

# More batch items than this get a piece of advice. The format's guide recommends 5 to 20.
MOST_ITEMS = 20
# More combinations of `parameters` than this are an error. A few lists multiply to millions of tests by mistake.
MOST_COMBINATIONS = 10_000

_ID = re.compile(r"[\w-]+")
_NOT_NEGATIVE = Meta(ge=0)
_Object = dict[str, Any]
_Limit = Annotated[int, _NOT_NEGATIVE] | Annotated[float, _NOT_NEGATIVE]


class EvaluationConfig(Struct):
    """How the outputs of a test are compared."""

    evaluate_intermediate: bool = False
    evaluate_final: bool = True
    evaluate_aggregation: bool = True
    strict_mode: bool = False
    tolerance: _Limit = 0
    ignore_fields: Annotated[list[str], Meta(description="a list of texts")] = []
    rules: Any = None  # checked by scoring/expectations


class StepLimits(Struct, forbid_unknown_fields=True):
    """Limits of one step."""

    max_seconds: _Limit = 0
    max_tokens: _Limit = 0


class PerformanceBaseline(Struct, forbid_unknown_fields=True):
    """Limits of a test and of its steps."""

    max_seconds: _Limit = 0
    max_tokens: _Limit = 0
    steps: Annotated[dict[str, StepLimits], Meta(description="an object of limits, by step id")] = {}


_Values = Annotated[
    list[Any],
    Meta(
        min_length=1,
        description="a list of values",
        extra={"problem": "the list is empty, so the case has no combinations"},
    ),
]
_Ids = list[Annotated[str | int, Meta(description="an id")]]
_StepInputs = dict[str, Annotated[_Object, Meta(description="an object of inputs")]]


class RecordShape(Struct):
    """The types of a record's keys. `_check_id` checks `id`; `expected_aggregation` may have any type."""

    tags: Annotated[list[str] | str, Meta(description="a list of texts")] = []
    inputs: _Object = {}
    step_inputs: Annotated[_StepInputs, Meta(description="an object of objects, one for each step")] = {}
    batch_items: Annotated[list[_Object] | None, Meta(description="a list of objects")] = None
    expected_outputs: _Object = {}
    intermediate_expectations: _Object = {}
    evaluation_config: EvaluationConfig = field(default_factory=EvaluationConfig)
    parameters: Annotated[dict[str, _Values] | None, Meta(description="an object of lists")] = None
    depends_on: Annotated[_Ids | str | int | None, Meta(description="a list of ids")] = None
    conditions: Annotated[str | None, Meta(description="an expression as text")] = None
    performance_baseline: PerformanceBaseline | None = None


_SETTINGS = EvaluationConfig.__struct_fields__


class MemoryRecord(NamedTuple):
    """The source of a record that does not come from a file. `name` identifies it in messages."""

    name: str = ""

    @property
    def wording(self) -> Wording:
        """The terms of JSON, as for records from files."""
        return JSON_WORDING

    def problem(self, path: KeyPath, message: str, level: str = "error") -> Problem:
        """Return a problem of the value at `path`."""
        return Problem(f"{self.name} {json_path(path)}".lstrip(), message, level)


def check_record(record: _Object, declared: frozenset[str], source: ValueSource, problems: list[Problem]) -> None:
    """Append all problems of a record that can be found without the other records."""

    def add(path: KeyPath, message: str, level: str = "error") -> None:
        problems.append(source.problem(path, message, level))

    plain_inputs = inputs_beside(record, declared)
    checked = record
    if plain_inputs:
        checked = {key: value for key, value in record.items() if key not in plain_inputs}
    convert(checked, RecordShape, source, problems)
    if "id" in record:
        _check_id(record["id"], source, problems)
    else:
        add((), "the id is missing; every case needs a unique id")
    tags = record.get("tags")
    if isinstance(tags, str):
        add(("tags",), f"write a single tag as a list: [{tags!r}]".replace("'", '"'), "warning")
    if checked.keys() & _WITH_RULES:
        _check_rules(checked, source, problems)
    if not record.keys() <= _PLAIN:
        _check_expected_keys(record, source, problems)


def is_v2(record: Mapping[str, Any]) -> bool:
    """Return whether the record has at least one key of the v2 format."""
    return not V2_KEYS.isdisjoint(record)


def expectation(key: str) -> str | None:
    """Return `sentiment` for `expected_sentiment`; None for fields such as `expected_outputs` and other keys."""
    if key.startswith("expected_") and key not in V2_KEYS and key != "expected_":
        return key.removeprefix("expected_")
    return None


def is_gold(key: str) -> bool:
    """Return whether the pipeline must not see a key: it starts with `expected` in any case (`expectedOutput`)."""
    return key[:1] in "eE" and key[:8].casefold() == "expected"


def is_unread(key: str) -> bool:
    """Return whether a key is an expectation in a form that is not supported, such as `expectedOutput`."""
    return is_gold(key) and key != "expected" and key not in V2_KEYS and expectation(key) is None


def has_hop_tag(record: Mapping[str, Any], declared: frozenset[str]) -> bool:
    """Return whether the key `tag` is the record's tag, as in HOP files.

    It must be text, the record must not have `tags`, and the pipeline must not declare an input `tag`.
    """
    return "tags" not in record and "tag" not in declared and isinstance(record.get("tag"), str)


def inputs_beside(record: Mapping[str, Any], declared: frozenset[str]) -> frozenset[str]:
    """Return the keys of BESIDE that are inputs of this record: those that the pipeline declares (v1 only)."""
    if not declared or is_v2(record):
        return frozenset()
    return BESIDE & declared & record.keys()


def check_steps(record: _Object, steps: frozenset[str], source: ValueSource, problems: list[Problem]) -> None:
    """Append a warning for each unknown step id. It is no error: a testset may be used by several pipelines."""
    paths: list[KeyPath] = []
    for key in ("step_inputs", "intermediate_expectations"):
        values = record.get(key)
        if isinstance(values, dict):
            paths += [(key, step) for step in values]
    baseline = record.get("performance_baseline")
    if isinstance(baseline, dict) and isinstance(baseline.get("steps"), dict):
        paths += [("performance_baseline", "steps", step) for step in baseline["steps"]]
    for path in paths:
        if path[-1] not in steps:
            message = f"the pipeline has no step {path[-1]!r}; it has {', '.join(sorted(steps))}"
            problems.append(source.problem(path, message, "warning"))


_PLAIN = frozenset(FIELDS) | BESIDE
_WITH_RULES = {"batch_items", "evaluation_config", "parameters", "conditions"}


def _check_id(value: Any, source: ValueSource, problems: list[Problem]) -> None:
    level = "error"
    if isinstance(value, str) and _ID.fullmatch(value):
        return
    if isinstance(value, int) and not isinstance(value, bool):
        return
    if value is None:
        message = "the id is null; every case needs a unique id"
    elif isinstance(value, str) and not value.strip():
        message = "the id is empty; every case needs a unique id"
    elif isinstance(value, str):
        message = f"the id {value!r} should have only letters, digits, _ and -"
        level = "warning"
    else:
        text = str(value) if isinstance(value, float) else kind_of(value)
        message = f"must be a text or a whole number, not {text}"
    problems.append(source.problem(("id",), message, level))


def _check_rules(record: _Object, source: ValueSource, problems: list[Problem]) -> None:
    """Check rules that types cannot express. Values of a wrong type are ignored: they are already reported."""

    def add(path: KeyPath, message: str, level: str = "error") -> None:
        problems.append(source.problem(path, message, level))

    items = record.get("batch_items")
    if isinstance(items, list) and len(items) > MOST_ITEMS:
        message = f"{len(items)} items; 5 to {MOST_ITEMS} are enough for most tests"
        add(("batch_items",), message, "advice")
    if items is not None and record.get("expected_aggregation") is None:
        message = "batch_items without expected_aggregation: the result of the batch is not checked"
        add(("batch_items",), message, "advice")

    config = record.get("evaluation_config", {})
    if isinstance(config, dict):
        for key in config:
            if key not in _SETTINGS:
                hint = similar(str(key), _SETTINGS) or f"; the settings are {', '.join(_SETTINGS)}"
                message = f"unknown setting, ignored{hint}"
                add(("evaluation_config", key), message, "warning")
        tolerance = config.get("tolerance")
        # JSON has no infinity, but a case that is built in Python can have one.
        if isinstance(tolerance, float) and isinf(tolerance) and tolerance > 0:
            add(("evaluation_config", "tolerance"), f"must be 0 or more, not {tolerance}")

    parameters = record.get("parameters")
    if isinstance(parameters, dict) and all(isinstance(values, list) for values in parameters.values()):
        count = prod(map(len, parameters.values()))
        if count > MOST_COMBINATIONS:
            message = f"{count:,} combinations; at most {MOST_COMBINATIONS:,} are allowed"
            add(("parameters",), message)

    conditions = record.get("conditions")
    if isinstance(conditions, str):
        if not conditions.strip():
            add(("conditions",), "the condition is empty; remove the key to run the case always")
        else:
            try:
                Expression(conditions)
            except ExpressionProblem as problem:
                add(("conditions",), str(problem))


def _check_expected_keys(record: _Object, source: ValueSource, problems: list[Problem]) -> None:
    outputs = record.get("expected_outputs")
    for key, value in record.items():
        name = expectation(key)
        if name is not None and isinstance(outputs, dict) and outputs.get(name, value) != value:
            message = f"differs from expected_outputs.{name}, which is used"
            problems.append(source.problem((key,), message, "warning"))
        elif is_unread(key):
            message = "this key is ignored and hidden from the pipeline; write expected_NAME for an output"
            problems.append(source.problem((key,), message, "warning"))
