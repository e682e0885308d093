"""Rules about one output: `max_chars`, `contains_any`, `regex_match` and others.

    rule = rule_of({"id": "short", "kind": "max_chars", "target": "summary", "max": 200})
    apply_rules([rule], {"summary": "…"})

The prefixes of expectations (`contains:`, `regex:` and others) and the rules of pipeline files use the same code. In
a file, the value of a rule is under `value` or under a name of its kind, such as `max` or `pattern`.

Patterns search the first 100,000 characters. A pattern such as `(a+)+$`, which takes very long on some texts, is
stopped: its check is neither passed nor failed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from assay.core.errors import UsageError, unknown
from assay.language.patterns import PatternStopped, compile_pattern
from assay.scoring.expectations.checks import MISSING, Check, as_text, lookup, name_list, short_text

# Number of characters of a text that a pattern searches.
SEARCHED = 100_000

# The target of a rule without a target. The caller decides which output has this name.
OUTPUT = "output"

_CJK = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f]",
)
_WORD = re.compile(r"[^\W\d_]+")


class Rule(Struct, frozen=True):
    """One rule. `value` depends on the kind: a number, a text, a pattern, or a tuple of texts.

    `trim` removes white space at both ends of the output first. It has no effect on lengths and patterns.
    """

    kind: str
    value: Any = None
    target: str = ""
    ignore_case: bool = False
    trim: bool = True
    id: str = ""


def apply_rules(rules: Iterable[Rule], outputs: dict[str, Any]) -> list[Check]:
    """Return one check for each rule. The target of a rule is a key of `outputs` or a path into them."""
    checks = []
    for rule in rules:
        target = rule.target or OUTPUT
        actual = lookup(outputs, target)
        if actual is MISSING:
            why = f"there is no output {target}; there are: {name_list(outputs) or 'none'}"
            check = Check(target, "missing", passed=False, expected=rule_value(rule), why=why, rule=rule.id)
        else:
            passed, why = rule_verdict(rule, actual, target)
            check = Check(target, rule.kind, passed, rule_value(rule), actual, why, rule.id)
        checks.append(check)
    return checks


def rule_value(rule: Rule) -> Any:
    """Return the value of a rule as JSON: a tuple becomes a list."""
    return list(rule.value) if isinstance(rule.value, tuple) else rule.value


def rule_verdict(rule: Rule, actual: Any, path: str) -> tuple[bool | None, str]:
    """Return whether the output at `path` follows the rule, and why not. Every output breaks an invalid rule.

    None means that the rule's pattern was stopped: nobody knows whether it matches.
    """
    try:
        why = rule_problem(rule) or _TESTS[rule.kind](rule, actual)
    except PatternStopped as error:
        return None, str(error.at(path))
    return not why, why


def rule_problem(rule: Rule) -> str:
    """Return what is wrong with the rule itself, or an empty text."""
    if rule.kind not in _TESTS:
        return unknown("rule", rule.kind, list(_TESTS))
    return _VALUES[rule.kind](rule.value)


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of a text: one per CJK character, per word, and per four other characters.

    No tokenizer is used, because the tokenizer of the evaluated model is unknown.
    """
    rest, characters = _CJK.subn("", text)
    words = _WORD.findall(rest)
    others = len(rest) - sum(map(len, words))
    return characters + len(words) + others // 4


def _max_chars(rule: Rule, actual: Any) -> str:
    length = len(as_text(actual))
    return "" if length <= rule.value else f"{length} characters, at most {rule.value} are allowed"


def _max_tokens(rule: Rule, actual: Any) -> str:
    tokens = estimated_tokens(as_text(actual))
    return "" if tokens <= rule.value else f"about {tokens} tokens, at most {rule.value} are allowed"


def _non_empty(rule: Rule, actual: Any) -> str:
    """Null, empty texts, lists and objects are empty. 0 and false are not."""
    if actual is None or (isinstance(actual, (list, tuple, dict)) and not actual):
        return f"it is empty: {short_text(actual)}"
    return "" if not isinstance(actual, str) or _trimmed(rule, actual) else f"it is empty: {short_text(actual)}"


def _allowed_values(rule: Rule, actual: Any) -> str:
    allowed = {_folded(rule, _trimmed(rule, as_text(value))) for value in rule.value}
    text = _folded(rule, _trimmed(rule, as_text(actual)))
    return "" if text in allowed else f"{short_text(actual)} is not one of {_alternatives(rule.value)}"


def _contains_any(rule: Rule, actual: Any) -> str:
    text = _folded(rule, as_text(actual))
    if any(_folded(rule, word) in text for word in rule.value):
        return ""
    none = f"{short_text(rule.value[0])} is not" if len(rule.value) == 1 else f"none of {_alternatives(rule.value)} is"
    return f"{none} in {short_text(actual)}"


def _regex_match(rule: Rule, actual: Any) -> str:
    text = as_text(actual)
    pattern = compile_pattern(rule.value, re.IGNORECASE if rule.ignore_case else 0)
    if pattern.search(text[:SEARCHED]):
        return ""
    where = short_text(actual) if len(text) <= SEARCHED else f"the first {SEARCHED:,} of {len(text):,} characters"
    return f"nothing in {where} matches {short_text(rule.value)}"


def _starts_with(rule: Rule, actual: Any) -> str:
    """Trims only the left side of the expected text: `Dear ` requires the space."""
    start = rule.value.lstrip() if rule.trim else rule.value
    text = _folded(rule, _trimmed(rule, as_text(actual)))
    return "" if text.startswith(_folded(rule, start)) else f"{short_text(actual)} does not start with {start!r}"


def _ends_with(rule: Rule, actual: Any) -> str:
    end = rule.value.rstrip() if rule.trim else rule.value
    text = _folded(rule, _trimmed(rule, as_text(actual)))
    return "" if text.endswith(_folded(rule, end)) else f"{short_text(actual)} does not end with {end!r}"


def _trimmed(rule: Rule, text: str) -> str:
    return text.strip() if rule.trim else text


def _folded(rule: Rule, text: str) -> str:
    return text.casefold() if rule.ignore_case else text


def _alternatives(values: Iterable[Any]) -> str:
    return name_list(short_text(value) for value in values)


def _limit_problem(value: Any) -> str:
    right = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return "" if right else f"expected a whole number of at least 0, found {value!r}"


def _nothing_problem(value: Any) -> str:
    return "" if value is None else f"expected no value, found {value!r}"


def _list_problem(value: Any) -> str:
    right = isinstance(value, (list, tuple)) and value and not any(_is_container(item) for item in value)
    return "" if right else f"expected a list of values, found {value!r}"


def _words_problem(value: Any) -> str:
    right = isinstance(value, (list, tuple)) and value and all(isinstance(w, str) and w for w in value)
    return "" if right else f"expected a list of non-empty texts, found {value!r}"


def _text_problem(value: Any) -> str:
    return "" if isinstance(value, str) and value.strip() else f"expected a text, found {value!r}"


def _pattern_problem(value: Any) -> str:
    if not isinstance(value, str) or not value:
        return f"expected a pattern, found {value!r}"
    try:
        compile_pattern(value)
    except UsageError as error:
        return str(error)
    return ""


def _is_container(value: Any) -> bool:
    return value is None or isinstance(value, (list, tuple, dict))


_TESTS: dict[str, Callable[[Rule, Any], str]] = {
    "max_chars": _max_chars,
    "max_tokens": _max_tokens,
    "non_empty": _non_empty,
    "allowed_values": _allowed_values,
    "contains_any": _contains_any,
    "regex_match": _regex_match,
    "starts_with": _starts_with,
    "ends_with": _ends_with,
}
_VALUES: dict[str, Callable[[Any], str]] = {
    "max_chars": _limit_problem,
    "max_tokens": _limit_problem,
    "non_empty": _nothing_problem,
    "allowed_values": _list_problem,
    "contains_any": _words_problem,
    "regex_match": _pattern_problem,
    "starts_with": _text_problem,
    "ends_with": _text_problem,
}


# Reading rules from files.

# Names under which a file may give the value of a rule, besides `value`.
_VALUE_FIELDS: dict[str, tuple[str, ...]] = {
    "max_chars": ("max_chars", "max"),
    "max_tokens": ("max_tokens", "max"),
    "non_empty": (),
    "allowed_values": ("values", "allowed_values"),
    "contains_any": ("keywords",),
    "regex_match": ("pattern",),
    "starts_with": ("prefix",),
    "ends_with": ("suffix",),
}
RULE_KINDS = tuple(_VALUE_FIELDS)
"""Every kind of rule."""
_ALWAYS = frozenset({"id", "kind", "target", "value", "ignore_case", "trim"})
# Fields that authors add as notes. They have no effect.
_REMARKS = frozenset({"action", "description", "name", "message", "note", "severity"})
_FLAGS = ("ignore_case", "trim")


def rule_of(data: dict[str, Any]) -> Rule:
    """Return the rule. Raises UsageError with all problems."""
    if problems := _rule_file_problems(data):
        raise UsageError("; ".join(f"{path}: {message}" if path else message for path, message in problems))
    return _build_rule(data)


def rule_problems(rules: Any) -> list[tuple[str, str]]:
    """Return (path, message) of all problems in a list of rules, including unknown kinds and fields."""
    if not isinstance(rules, list):
        return [("", f"expected a list of rules, found {rules!r}")]
    return [
        (f"[{index}].{path}" if path else f"[{index}]", message)
        for index, data in enumerate(rules)
        for path, message in _rule_file_problems(data)
    ]


def _rule_file_problems(data: Any) -> list[tuple[str, str]]:
    if not isinstance(data, dict):
        return [("", f"a rule is an object, not {data!r}")]
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _VALUE_FIELDS:
        return [("kind", unknown("rule", str(kind), list(_VALUE_FIELDS)))]
    problems = [*_unknown_fields(data, kind), *_value_problems(data, kind)]
    if not isinstance(data.get("target", ""), str):
        problems.append(("target", f"the name of an output, not {data['target']!r}"))
    problems += [
        (flag, f"true or false, not {data[flag]!r}") for flag in _FLAGS if not isinstance(data.get(flag, True), bool)
    ]
    return problems


def _unknown_fields(data: dict[str, Any], kind: str) -> list[tuple[str, str]]:
    allowed = {*_ALWAYS, *_REMARKS, *_VALUE_FIELDS[kind]}
    return [
        (str(name), f"{kind} has no such field; it takes {', '.join(sorted(allowed - _REMARKS))}")
        for name in data
        if name not in allowed
    ]


def _value_problems(data: dict[str, Any], kind: str) -> list[tuple[str, str]]:
    fields = _value_fields(data, kind)
    if len(fields) > 1:
        return [(fields[1], f"the value is already given as {fields[0]}")]
    where = fields[0] if fields else next(iter(_VALUE_FIELDS[kind]), "value")
    problem = rule_problem(_build_rule(data))
    return [(where, problem)] if problem else []


def _value_fields(data: dict[str, Any], kind: str) -> list[str]:
    return [name for name in ("value", *_VALUE_FIELDS[kind]) if data.get(name) is not None]


def _build_rule(data: dict[str, Any]) -> Rule:
    kind = data["kind"]
    fields = _value_fields(data, kind)
    value = data[fields[0]] if fields else None
    return Rule(
        kind,
        tuple(value) if isinstance(value, list) else value,
        data.get("target", ""),
        data.get("ignore_case", False),
        data.get("trim", True),
        str(data.get("id", "")),
    )
