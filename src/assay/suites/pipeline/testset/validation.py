"""What is wrong in one record: faults with their place in it. Ids and ties across records come elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from math import inf, prod
from typing import Any, NamedTuple

from assay.core.expressions import Expression, ExpressionProblem
from assay.suites.pipeline.testset.names import PLAIN, expectation, inputs_beside, unread

Path = tuple[str | int, ...]
_ID = re.compile(r"[\w-]+")
_NAME = re.compile(r"[A-Za-z_]\w*")
_MOST_ITEMS, _MOST_COMBINATIONS = 20, 10_000
_SWITCHES = ("evaluate_intermediate", "evaluate_final", "evaluate_aggregation", "strict_mode")
_CONFIG = (*_SWITCHES, "tolerance", "ignore_fields", "rules")
_LIMITS = ("max_seconds", "max_tokens")


class Fault(NamedTuple):
    """One thing wrong in a record, by its JSON path."""

    path: Path
    message: str
    level: str = "error"


Faults = Sequence[Fault]


def json_path(path: Path) -> str:
    """`$.batch_items[2]`; a key that is no plain name stands in brackets and quotes."""
    text = "$"
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if _NAME.fullmatch(step) else f'["{step}"]'
    return text


def faults_of(record: dict[str, Any], declared: frozenset[str] = frozenset()) -> list[Fault]:
    """Everything wrong with a record that can be seen in it alone."""
    found: list[Fault] = []
    plain = inputs_beside(record, declared) if declared else ()
    for key, value in record.items():
        check = _CHECKS.get(key)
        if check is not None and key not in plain and (faults := check(value)):
            found += faults
    if "id" not in record:
        found.append(Fault((), "the id is missing; every case needs one of its own"))
    if (
        "batch_items" in record
        and record["batch_items"] is not None
        and record.get("expected_aggregation") is None
    ):
        message = "batch_items without expected_aggregation: nothing says what the batch should come to"
        found.append(Fault(("batch_items",), message, "advice"))
    if not record.keys() <= PLAIN:
        found += _conflicts(record)
        found += _unread(record)
    return found


def simple_faults(record: dict[str, Any]) -> list[Fault]:
    """`faults_of` a record of which only the id and the tags can be wrong."""
    return [*_id(record["id"]), *(_tags(record["tags"]) if "tags" in record else ())]


def unknown_steps(record: dict[str, Any], steps: frozenset[str]) -> list[Fault]:
    """Step ids that the pipeline does not have: warnings, since a testset may serve several pipelines."""
    named: list[Path] = []
    for field in ("step_inputs", "intermediate_expectations"):
        values = record.get(field)
        named += [(field, step) for step in values] if isinstance(values, dict) else []
    baseline = record.get("performance_baseline")
    limits = baseline.get("steps") if isinstance(baseline, dict) else None
    named += [("performance_baseline", "steps", step) for step in limits] if isinstance(limits, dict) else []
    known = ", ".join(sorted(steps))
    return [
        Fault(path, f"the pipeline has no step {path[-1]!r}; it has {known}", "warning")
        for path in named
        if path[-1] not in steps
    ]


def kind_of(value: Any) -> str:
    """A JSON type as a message names it."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _wrong(path: Path, wanted: str, value: Any) -> Fault:
    return Fault(path, f"must be {wanted}, not {kind_of(value)}")


def _id(value: Any) -> Faults:
    if type(value) is str:
        if _ID.fullmatch(value):
            return ()
        if not value.strip():
            return (Fault(("id",), "the id is empty; every case needs one of its own"),)
        message = f"the id {value!r} has other characters than letters, digits, _ and -"
        return (Fault(("id",), message, "warning"),)
    if type(value) is int:
        return ()
    if value is None:
        return (Fault(("id",), "the id is null; every case needs one of its own"),)
    told = str(value) if isinstance(value, float) else kind_of(value)
    return (Fault(("id",), f"must be a text or a whole number, not {told}"),)


def _tags(value: Any) -> Faults:
    if type(value) is list:
        return [_wrong(("tags", at), "a text", tag) for at, tag in enumerate(value) if type(tag) is not str]
    if type(value) is str:
        message = f"one tag should stand in a list: [{value!r}]".replace("'", '"')
        return (Fault(("tags",), message, "warning"),)
    return (_wrong(("tags",), "a list of texts", value),)


def _mapping(name: str) -> Callable[[Any], Faults]:
    def check(value: Any) -> Faults:
        return () if type(value) is dict else (_wrong((name,), "an object", value),)

    return check


def _step_inputs(value: Any) -> Faults:
    if type(value) is not dict:
        return (_wrong(("step_inputs",), "an object of objects, one for each step", value),)
    return [
        _wrong(("step_inputs", step), "an object of inputs", inputs)
        for step, inputs in value.items()
        if type(inputs) is not dict
    ]


def _batch_items(value: Any) -> Faults:
    if value is None:
        return ()
    if type(value) is not list:
        return (_wrong(("batch_items",), "a list of objects", value),)
    found = [
        _wrong(("batch_items", at), "an object", item)
        for at, item in enumerate(value)
        if type(item) is not dict
    ]
    if len(value) > _MOST_ITEMS:
        message = f"{len(value)} items; 5 to {_MOST_ITEMS} are enough for most tests"
        found.append(Fault(("batch_items",), message, "advice"))
    return found


def _evaluation_config(value: Any) -> Faults:
    if type(value) is not dict:
        return (_wrong(("evaluation_config",), "an object", value),)
    found: list[Fault] = []
    for key, item in value.items():
        path = ("evaluation_config", key)
        if key in _SWITCHES:
            found += [] if type(item) is bool else [_wrong(path, "true or false", item)]
        elif key == "tolerance":
            found += _number(path, item)
        elif key == "ignore_fields":
            found += _texts(path, item)
        elif key not in _CONFIG:
            found.append(Fault(path, f"nobody reads this setting; there are {', '.join(_CONFIG)}", "warning"))
    return found


def _number(path: Path, value: Any) -> Faults:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return (_wrong(path, "a number", value),)
    if not 0 <= value < inf:
        return (Fault(path, f"must be 0 or more, not {value}"),)
    return ()


def _texts(path: Path, value: Any) -> Faults:
    if not isinstance(value, list):
        return (_wrong(path, "a list of texts", value),)
    return [_wrong((*path, at), "a text", item) for at, item in enumerate(value) if not isinstance(item, str)]


def _parameters(value: Any) -> Faults:
    if value is None:
        return ()
    if type(value) is not dict:
        return (_wrong(("parameters",), "an object of lists", value),)
    found: list[Fault] = []
    for name, values in value.items():
        if type(values) is not list:
            found.append(_wrong(("parameters", name), "a list of values", values))
        elif not values:
            found.append(Fault(("parameters", name), "the list is empty, so no case would be left"))
    if not found and (count := prod(map(len, value.values()))) > _MOST_COMBINATIONS:
        message = f"{count:,} combinations; at most {_MOST_COMBINATIONS:,} are allowed"
        found.append(Fault(("parameters",), message))
    return found


def _depends_on(value: Any) -> Faults:
    if value is None or type(value) in (str, int):
        return ()
    if type(value) is not list:
        return (_wrong(("depends_on",), "a list of ids", value),)
    return [
        _wrong(("depends_on", at), "an id", item)
        for at, item in enumerate(value)
        if type(item) not in (str, int)
    ]


def _conditions(value: Any) -> Faults:
    if value is None:
        return ()
    if type(value) is not str:
        return (_wrong(("conditions",), "an expression as text", value),)
    problem = _condition_problem(value)
    return (Fault(("conditions",), problem),) if problem else ()


def _condition_problem(source: str) -> str:
    """Why this is no expression; empty if it is one."""
    if not source.strip():
        return "the condition is empty; leave the key out to run the case always"
    try:
        Expression(source)
    except ExpressionProblem as problem:
        return str(problem)
    return ""


def _performance_baseline(value: Any) -> Faults:
    if value is None:
        return ()
    path = ("performance_baseline",)
    if type(value) is not dict:
        return (_wrong(path, "an object", value),)
    found = _limits(path, value, (*_LIMITS, "steps"))
    steps = value.get("steps", {})
    if type(steps) is not dict:
        return [*found, _wrong((*path, "steps"), "an object of limits, by step id", steps)]
    for step, limits in steps.items():
        place = (*path, "steps", step)
        found += (
            _limits(place, limits, _LIMITS) if type(limits) is dict else [_wrong(place, "an object", limits)]
        )
    return found


def _limits(path: Path, values: dict[str, Any], known: Iterable[str]) -> list[Fault]:
    found: list[Fault] = []
    for key, value in values.items():
        if key in _LIMITS:
            found += _number((*path, key), value)
        elif key not in known:
            found.append(Fault((*path, key), f"there is no such limit; there are {', '.join(known)}"))
    return found


def _conflicts(record: dict[str, Any]) -> list[Fault]:
    outputs = record.get("expected_outputs")
    if not isinstance(outputs, dict):
        return []
    return [
        Fault((key,), f"says something else than expected_outputs.{name}, which counts", "warning")
        for key, value in record.items()
        if (name := expectation(key)) is not None and name in outputs and outputs[name] != value
    ]


def _unread(record: dict[str, Any]) -> list[Fault]:
    message = "nobody reads this key, and the pipeline does not see it; write expected_NAME for an output"
    return [Fault((key,), message, "warning") for key in record if unread(key)]


_CHECKS: dict[str, Callable[[Any], Faults]] = {
    "id": _id,
    "tags": _tags,
    "inputs": _mapping("inputs"),
    "step_inputs": _step_inputs,
    "batch_items": _batch_items,
    "expected_outputs": _mapping("expected_outputs"),
    "intermediate_expectations": _mapping("intermediate_expectations"),
    "evaluation_config": _evaluation_config,
    "parameters": _parameters,
    "depends_on": _depends_on,
    "conditions": _conditions,
    "performance_baseline": _performance_baseline,
}
