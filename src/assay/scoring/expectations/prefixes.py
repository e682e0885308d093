"""Expected texts that say how to compare: `contains:`, `regex:`, `equals:`, `judge:` and the names of rules.

`equals:` takes what follows literally, for texts that begin with one of these words.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from assay.scoring.expectations.checks import Check
from assay.scoring.expectations.paths import below
from assay.scoring.expectations.rules import Rule, broken, rule_problem, rule_value
from assay.scoring.expectations.texts import unequal

EQUALS, JUDGE = "equals", "judge"
RULES = frozenset(
    {
        "contains",
        "regex",
        "max_chars",
        "non_empty",
        "allowed_values",
        "contains_any",
        "starts_with",
        "ends_with",
    }
)
PREFIXES = RULES | {EQUALS, JUDGE}


def prefixed(expected: str, actual: Any, path: str) -> Check | None:
    """The check that the prefix asks for; None where the text has none and is itself what is expected."""
    word, colon, rest = expected.partition(":")
    if not colon or word not in PREFIXES:
        return None
    if word == EQUALS:
        passed = isinstance(actual, str) and actual == rest
        return Check(path, "equal", passed, rest, actual, "" if passed else unequal(rest, actual))
    if why := _problem(word, rest):
        return Check(path, word, passed=False, expected=rest, actual=actual, why=why)
    if word == JUDGE:
        return Check(path, JUDGE, None, rest.strip(), actual)
    rule = _rule(word, rest)
    why = broken(rule, actual)
    return Check(path, word, not why, rest if word == "contains" else rule_value(rule), actual, why)


def expectation_problems(expected: Any, path: str = "") -> list[tuple[str, str]]:
    """(path, message) of every prefix that cannot be used, such as a bad pattern or a limit in words."""
    return list(_problems(expected, path))


def _problems(expected: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(expected, str):
        word, colon, rest = expected.partition(":")
        if colon and word in PREFIXES and (message := _problem(word, rest)):
            yield path, f"{message}; a text that begins like this is written `{EQUALS}:{word}:…`"
    elif isinstance(expected, dict):
        for key, value in expected.items():
            yield from _problems(value, below(path, key))
    elif isinstance(expected, list):
        for at, value in enumerate(expected):
            yield from _problems(value, f"{path}[{at}]")


def _problem(word: str, rest: str) -> str:
    if word == EQUALS or (word == JUDGE and rest.strip()):
        return ""
    if not rest.strip() and word != "non_empty":
        return f"{word}: something is needed after the colon"
    problem = rule_problem(_rule(word, rest))
    return f"{word}: {problem}" if problem else ""


@lru_cache(maxsize=4096)
def _rule(word: str, rest: str) -> Rule:
    """What cannot be read as a value is left as it is: `rule_problem` names it."""
    if word == "contains":
        return Rule("contains_any", (rest,))
    if word == "regex":
        return Rule("regex_match", rest)
    if word in ("allowed_values", "contains_any"):
        return Rule(word, tuple(value.strip() for value in rest.split("|")))
    if word == "non_empty":
        return Rule(word, rest.strip() or None)
    return Rule(word, _number(rest.strip()) if word == "max_chars" else rest)


def _number(text: str) -> int | str:
    return int(text) if text.isdecimal() and len(text) < 19 else text
