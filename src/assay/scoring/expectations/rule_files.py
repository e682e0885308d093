"""Rules as files have them: `{id, kind, target, ...}`, the value under `value` or its kind's own name."""

from __future__ import annotations

from typing import Any

from assay.core.errors import UsageError
from assay.scoring.expectations.rules import Rule, rule_problem

# Where the value of each kind may stand besides `value`.
_NAMES: dict[str, tuple[str, ...]] = {
    "max_chars": ("max_chars", "max"),
    "max_tokens": ("max_tokens", "max"),
    "non_empty": (),
    "allowed_values": ("values", "allowed_values"),
    "contains_any": ("keywords",),
    "regex_match": ("pattern",),
    "starts_with": ("prefix",),
    "ends_with": ("suffix",),
}
_ALWAYS = frozenset({"id", "kind", "target", "value", "ignore_case", "trim"})
# What people write down beside a rule and what changes nothing here.
_REMARKS = frozenset({"action", "description", "name", "message", "note", "severity"})
_FLAGS = ("ignore_case", "trim")


def rule_of(data: dict[str, Any]) -> Rule:
    """The rule; raises with everything that is wrong with it."""
    if problems := _problems(data):
        raise UsageError("; ".join(f"{path}: {message}" if path else message for path, message in problems))
    return _built(data)


def rule_problems(rules: Any) -> list[tuple[str, str]]:
    """(path, message) of everything wrong in a list of rules; an unknown kind or field is wrong too."""
    if not isinstance(rules, list):
        return [("", f"a list of rules is needed, not {rules!r}")]
    return [
        (f"[{at}].{path}" if path else f"[{at}]", message)
        for at, data in enumerate(rules)
        for path, message in _problems(data)
    ]


def _problems(data: Any) -> list[tuple[str, str]]:
    if not isinstance(data, dict):
        return [("", f"a rule is an object, not {data!r}")]
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _NAMES:
        return [("kind", f"there is no rule {kind!r}; known: {', '.join(_NAMES)}")]
    problems = [*_field_problems(data, kind), *_value_problems(data, kind)]
    if not isinstance(data.get("target", ""), str):
        problems.append(("target", f"the name of an output, not {data['target']!r}"))
    problems += [
        (flag, f"true or false, not {data[flag]!r}")
        for flag in _FLAGS
        if not isinstance(data.get(flag, True), bool)
    ]
    return problems


def _field_problems(data: dict[str, Any], kind: str) -> list[tuple[str, str]]:
    known = {*_ALWAYS, *_REMARKS, *_NAMES[kind]}
    return [
        (str(name), f"{kind} has no such field; it takes {', '.join(sorted(known - _REMARKS))}")
        for name in data
        if name not in known
    ]


def _value_problems(data: dict[str, Any], kind: str) -> list[tuple[str, str]]:
    given = _given(data, kind)
    if len(given) > 1:
        return [(given[1], f"the value stands under {given[0]} already")]
    where = given[0] if given else next(iter(_NAMES[kind]), "value")
    problem = rule_problem(_built(data))
    return [(where, problem)] if problem else []


def _given(data: dict[str, Any], kind: str) -> list[str]:
    return [name for name in ("value", *_NAMES[kind]) if data.get(name) is not None]


def _built(data: dict[str, Any]) -> Rule:
    kind = data["kind"]
    given = _given(data, kind)
    value = data[given[0]] if given else None
    return Rule(
        kind,
        tuple(value) if isinstance(value, list) else value,
        data.get("target", ""),
        data.get("ignore_case", False),
        data.get("trim", True),
        str(data.get("id", "")),
    )
