"""Random templates, conditions and patterns: an answer or a refusal, no escape, in bounded time and memory."""

from __future__ import annotations

import re
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from assay.core.errors import AssayError
from assay.language.conditions import Expression
from assay.language.patterns import compile_pattern
from assay.language.templates import Template, check_template, template_names

from support.fuzz import bounded, fuzzed, pick
from support.mutation import mutated_text

VALUES: dict[str, Any] = {
    "x": "ab" * 50,
    "text": "a\nb " * 20,
    "rows": [{"a": 1, "b": [1, 2]}, {"a": "z", "b": []}, {"a": None, "b": [3.5]}],
    "n": 7,
    "o": {"a": {"a": {"a": "v"}}, "items": 1},
}
NAMES = [
    *VALUES,
    *VALUES,
    "loop",
    "range",
    "dict",
    "namespace",
    "self",
    "caller",
    "varargs",
    "__step__",
    "__join__",
]
LIKELY_NAMES = [*VALUES, "range(3)", "rows[0]", "o.a"]
FIELDS = [
    *(
        "__class__",
        "__init__",
        "__globals__",
        "__subclasses__()",
        "mro()",
        "__wrapped__",
        "__self__",
        "gi_frame",
    ),
    *(
        "format",
        "format_map",
        "join",
        "replace",
        "center",
        "zfill",
        "ljust",
        "expandtabs",
        "translate",
        "encode",
    ),
    *(
        "update",
        "append",
        "pop",
        "clear",
        "to_bytes",
        "func_code",
        "__dict__",
        "__builtins__",
        "_environment",
    ),
]
LIKELY_FIELDS = ["a", "b", "upper()", "split()", "items()", "strip()", "title()", "keys()"]
FILTERS = [
    *(
        "abs",
        "attr",
        "batch",
        "center",
        "default",
        "dictsort",
        "escape",
        "first",
        "float",
        "format",
        "groupby",
    ),
    *(
        "indent",
        "int",
        "items",
        "join",
        "last",
        "length",
        "list",
        "lower",
        "map",
        "max",
        "min",
        "pprint",
        "reject",
    ),
    *(
        "replace",
        "reverse",
        "round",
        "safe",
        "select",
        "selectattr",
        "slice",
        "sort",
        "string",
        "striptags",
        "sum",
    ),
    *(
        "title",
        "tojson",
        "trim",
        "truncate",
        "unique",
        "upper",
        "urlencode",
        "urlize",
        "wordcount",
        "wordwrap",
    ),
    *("xmlattr", "regex_replace", "filesizeformat", "random", "nothing"),
]
LIKELY_FILTERS = [
    "length",
    "upper",
    "join",
    "first",
    "tojson",
    "string",
    "list",
    "trim",
    "default('x')",
    "int",
]
LITERALS = [
    *(
        "10**9",
        "999999999999",
        "1e308",
        "10**5000",
        "'a' * 10**9",
        "[0] * 10**9",
        "'%999999999s'",
        "'{:>999999999}'",
    ),
    *(
        "'{0.__class__}'",
        "'%s' % x",
        "none",
        "''",
        "()",
        "{}",
        "'\\ud800'",
        "'(a+)+$'",
        "range(10**8)",
        "-1",
        "1/0",
    ),
]
LIKELY_LITERALS = ["0", "1", "2.5", "'a'", "'a b'", "[1, 2]", "{'a': 1}", "true"]
OPERATORS = [
    "+",
    "-",
    "*",
    "**",
    "//",
    "/",
    "%",
    "~",
    "==",
    "<",
    ">=",
    "and",
    "or",
    "in",
    "not in",
    "is",
    "if",
]
STATEMENTS = [
    "{% include 'x' %}",
    "{% import '/etc/passwd' as p %}{{ p }}",
    "{% extends x %}",
    "{% block b %}{{ self.b() }}{% endblock %}",
    "{% macro m(a) %}{{ m(a) }}{% endmacro %}{{ m(1) }}",
    "{% for i in rows recursive %}{{ loop(rows) }}{% endfor %}",
    "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
    "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
    "{% raw %}{{",
    "{% filter upper %}x{% endfilter %}",
]


def expression(random: Random, depth: int = 0) -> str:
    """An expression of Jinja, which may be one of Python too."""
    kind = random.randrange(9 if depth < 3 else 3)
    if kind == 0:
        return str(pick(random, LITERALS, LIKELY_LITERALS))
    if kind < 3:
        return str(pick(random, NAMES, LIKELY_NAMES))
    inner = expression(random, depth + 1)
    if kind == 3:
        return f"{inner}.{pick(random, FIELDS, LIKELY_FIELDS)}"
    if kind == 4:
        return f"{inner}[{expression(random, depth + 1)}]"
    if kind == 5:
        return f"{inner}({expression(random, depth + 1)})"
    if kind < 8:
        arguments = random.choice(["", "", f"({expression(random, depth + 1)})", "(attribute='a')", "(width=10**9)"])
        return f"({inner} | {pick(random, FILTERS, LIKELY_FILTERS)}{arguments})"
    return f"({inner} {random.choice(OPERATORS)} {expression(random, depth + 1)})"


def block(random: Random, depth: int = 0) -> str:
    """A piece of a template."""
    kind = random.randrange(6 if depth < 3 else 2)
    if kind < 2:
        return f"{{{{ {expression(random)} }}}}"
    if kind == 2:
        return f"{{% for i in {expression(random)} %}}{block(random, depth + 1)}{{% endfor %}}"
    if kind == 3:
        return f"{{% set x = {expression(random)} %}}{block(random, depth + 1)}"
    if kind == 4:
        return f"{{% if {expression(random)} %}}{block(random, depth + 1)}{{% endif %}}"
    return random.choice(STATEMENTS) + block(random, depth + 1)


# What Python prints of objects that a template must not reach.
_ESCAPED = re.compile("<module|<frame|<code object|<slot wrapper|<class '(?!jinja2.utils.Namespace|dict)|root:x:0")


@fuzzed(250)
def test_a_template_renders_or_is_refused_and_reaches_no_object(random: Random) -> None:
    source = "".join(block(random) for _ in range(random.choice([1, 1, 2])))
    if random.random() < 0.2:
        source = mutated_text(random, source)
    with bounded():
        for use in (check_template, template_names):
            with suppress(AssayError):
                use(source)
        try:
            text = Template(source).render(VALUES)
        except AssayError as error:
            # The sizes are checked before anything is made of them.
            assert "MemoryError" not in str(error), source  # noqa: PT017 - any problem may be raised
            return
    assert not _ESCAPED.search(text), source


CONDITIONS = [
    "item.score > 0.7 and item.verified",
    "category in ['a', 'b'] or not rows[0].a",
    "o.a.a['a'] == 'v' and n % 2 * 3 < 4 - -1",
    "rows[-1].b is not null",
]


@fuzzed(800)
def test_a_condition_holds_or_not_or_is_refused(random: Random) -> None:
    """Never an exception of Python, and never a value that is no JSON."""
    source = expression(random) if random.random() < 0.5 else mutated_text(random, random.choice(CONDITIONS))
    with bounded():
        try:
            condition = Expression(source)
        except AssayError:
            return
        value = condition.value(VALUES)
    assert isinstance(value, (str, int, float, list, dict, bool, type(None)))


PIECES = [
    *(
        "a",
        "b",
        ".",
        "\\w",
        "[a-z]",
        "(a|b)",
        "(?:x)",
        "\\d",
        "(a+)+",
        "(.*)",
        "(?=a)",
        "(?<=a)",
        "\\1",
        "(?P<n>a)",
    ),
    *(
        "(?P=n)",
        "{2,3}",
        "{1000000}",
        "*",
        "+",
        "?",
        "$",
        "^",
        "\\b",
        "(?i)",
        "(?x)",
        "[^",
        "\\",
        "|",
        "(?(1)a|b)",
    ),
    *("\\N{DIGIT ONE}", "\ud800", "\x00", "{99999999999}", "(", ")", "[a-", "\\u12", "字", "(?s:.)", "\\Z"),
]
TEXTS = ["a" * 30 + "!", "ab " * 1000, "x\ny", "\ud800a", "", "字" * 50]


@fuzzed(400)
def test_a_pattern_matches_or_is_stopped_or_refused(random: Random, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_PATTERN_SECONDS", "0.01")
    source = "".join(random.choice(PIECES) for _ in range(random.randrange(1, 7)))
    text = random.choice(TEXTS)
    with bounded():
        try:
            pattern = compile_pattern(source)
            assert pattern.findall(text) == re.compile(source).findall(text)
            pattern.search(text)
            pattern.sub("-", text)
        except AssayError:
            return
