from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import date
from random import Random
from typing import Any

import pytest
from jinja2 import nodes

from assay.language import template_sandbox
from assay.language.templates import Template, TemplateProblem, split_plain, template_names

REFUSED = [
    "{{ ''.__class__ }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ 'a'*10**10 }}",
    "{{ 10**10 * 'a' }}",
    "{{ [0] * 10**10 }}",
    "{{ 9**(9**9) }}",
    "{% for i in range(10**9) %}x{% endfor %}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% set x = 1 %}{% endfor %}{% endfor %}",
    "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(40) }}",
    "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{{ 'a'|center(10**10) }}",
    "{{ 'a'.ljust(10**10) }}",
    "{{ '%1000000000d' % 3 }}",
    "{{ '{:1000000000d}'.format(3) }}",
    "{{ ('a'*99999)|join('b'*99999) }}",
    "{{ ('a'*99999).replace('a', 'b'*99999) }}",
    "{{ ['a'*99999]|map('replace', 'a', 'b'*99999)|list }}",
    "{{ '%*d' % (10**9, 1) }}",
    "{{ '{:{w}}'.format('a', w=10**9) }}",
    "{{ [1]|tojson(indent=10**9) }}",
    "{{ [1]|batch(10**8, 0)|list }}",
    "{{ 'a'|slice(10**9)|list }}",
    "{{ lipsum(n=10**5) }}",
    "{% set ns = namespace(x=9**999) %}{% for i in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "{{ nowhere }}",
    "{{ items.append(1) }}",
]
BIG = "{% set big = 'abcdefghi ' * 900000 %}"
MANY = ", ".join(f"{number}: big" for number in range(10, 900))
# Each of them made gigabytes, or took minutes, although each of its operators keeps the limits.
GROWING = [
    (
        "{% set ns = namespace(x='ab') %}{% for i in range(40) %}{% set x %}{{ ns.x }}{{ ns.x }}{% endset %}"
        "{% set ns.x = x %}{% endfor %}"
    ),
    BIG + "{% set ns = namespace(x=[]) %}{% for i in range(900) %}{% set t %}{{ big }}{% endset %}"
    "{% set ns.x = ns.x + [t] %}{% endfor %}",
    BIG + "{% macro m() %}{{ big }}{% endmacro %}{% set ns = namespace(x=[]) %}"
    "{% for i in range(900) %}{% set ns.x = ns.x + [m()] %}{% endfor %}",
    "{% macro m() %}" + "x" * 200_000 + "{% endmacro %}{% set ns = namespace(x=[]) %}"
    "{% for i in range(40000) %}{% set ns.x = ns.x + [m()] %}{% endfor %}",
    "{% for i in range(40000) %}" + "x" * 200_000 + "{% endfor %}",
    "{% for i in range(40000) %}{{ 'x'|center(200000) }}{% endfor %}",
    BIG + "{{ big.translate({97: big}) }}",
    BIG + "{{ ([big] * 900)|string|length }}",
    BIG + "{{ ([big] * 900)|tojson|length }}",
    BIG + "{{ ([big] * 900)|pprint|length }}",
    BIG + "{{ ([big] * 900)|upper|length }}",
    BIG + "{{ ('%r' % [[big] * 900])|length }}",
    BIG + "{{ ('%(a)s' * 900) % {'a': big} }}",
    BIG + "{{ ('{0}' * 900).format(big)|length }}",
    BIG + "{{ ([big] * 900) ~ '' }}",
    BIG + "{{ [big] * 900 }}",
    BIG + "{{ {'a': [big] * 900}.values() }}",
    BIG + "{{ namespace(x=[big] * 900) }}",
    BIG + "{{ range(900)|map('string')|join(big)|length }}",
    BIG + "{{ big|wordwrap(1, wrapstring='x' * 9000)|length }}",
    "{{ ('x' * 9000000)|wordwrap(1)|length }}",
    "{{ ('<a>' * 3000000)|striptags|length }}",
    "{{ ('\t' * 9000).expandtabs(9000000)|length }}",
    "{{ ([[1] * 9000] * 9000)|sum(start=[])|length }}",
    "{{ (range(90000)|list)|tojson(indent=90000)|length }}",
    BIG + "{{ big" + "|urlencode" * 30 + "|length }}",
    BIG + "{{ big" + "|map('upper')" * 30 + "|list|length }}",
    BIG + "{% set ns = namespace(x=[]) %}{% for i in range(900) %}{% set ns.x = ns.x + [big[i:]] %}{% endfor %}",
    BIG + "{% set ns = namespace(x=[]) %}{% for i in range(900) %}{% set ns.x = ns.x + [big|reverse] %}{% endfor %}",
    "{% set ns = namespace(x=['ab']) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    "{{ ('x' * 9000000)|regex_replace('', 'y' * 90)|length }}",
    BIG + "{% set pairs = {" + "1: '', 2: '', 3: '', 4: '', 5: '', " + MANY + "} %}{{ pairs.items()|string|length }}",
    BIG + "{{ ''.join({" + MANY + "}.values())|length }}",
    BIG + "{{ ''.join(([big] * 900)|select)|length }}",
    BIG + "{{ {" + MANY + "}.keys()|join(big)|length }}",
    BIG + "{{ (range(900)|list)|join(attribute='real', d=big)|length }}",
    "{% set big = [1] * 2000000 %}{{ {" + MANY + "}.values()|sum(start=[])|length }}",
    "{% set big = [1] * 2000000 %}{{ ([big] * 900)|select|sum(start=[])|length }}",
    "{% set big = [1] * 2000000 %}{{ ([{'a': big}] * 900)|sum('a', [])|length }}",
    "{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns }}",
]


@pytest.mark.parametrize("source", REFUSED)
def test_harmful_templates_are_refused(source: str) -> None:
    """A template neither reaches Python's insides nor takes time or memory without bound."""
    started = time.process_time()
    with pytest.raises(TemplateProblem):
        Template(source).render({"items": [1]})
    # Half a second at worst on a quiet machine; the bound only tells refusal from running until it fails.
    assert time.process_time() - started < 10


def test_a_template_keeps_the_limits_in_all_of_its_texts_together() -> None:
    """In a process of its own, whose memory is bounded."""
    code = """
import json, resource, sys, time
from assay.language.templates import Template, TemplateProblem
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
for source in json.load(sys.stdin):
    started = time.process_time()
    try:
        Template(source).render({})
        print("rendered:", source[:200])
    except TemplateProblem as problem:
        if "refused" not in str(problem):
            print(problem, source[-200:])
    if time.process_time() - started > 10:
        print("slow:", source[-200:])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(GROWING), capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_ordinary_templates_render_as_jinja_does() -> None:
    """The bounds leave what task files use as it is."""
    source = "{% for c in items %}{{ loop.index }}. {{ c|trim }} {{ 'x' * 2 ~ c }}\n{% endfor %}"
    assert Template(source).render({"items": ["a ", "b"]}) == "1. a xxa \n2. b xxb\n"
    assert Template("{{ a + 2 }} {{ 2 ** 3 }} {{ '%s!' % a }}").render({"a": 1}) == "3 8 1!"
    assert Template("{{ t|regex_replace('o+', '0') }}\n").render({"t": "foo"}) == "f0\n"
    assert Template("{{ t[1:] }}{{ t[:-1] }}{{ t[::2] }}{{ [1, 2, 3][1:] }}").render({"t": "abc"}) == "bcabac[2, 3]"
    assert Template("{{ 'a' ~ 1 ~ none ~ [2] }}").render({}) == "a1None[2]"
    assert (
        Template("{{ ', '.join(n|map('upper')) }} {{ d.items()|join('; ') }}").render(
            {"n": ["a", "b"], "d": {"c": 1, "d": 2}}
        )
        == "A, B ('c', 1); ('d', 2)"
    )
    assert Template("{{ rows|sum('n') }} {{ [[1], [2]]|sum(start=[]) }}").render({"rows": [{"n": 1}] * 9000}) == (
        "9000 [1, 2]"
    )


def test_a_template_that_does_not_compile_says_why() -> None:
    """Syntax errors are found before anything is rendered."""
    with pytest.raises(TemplateProblem, match="does not compile"):
        Template("{{ 'x' if")


class Thing:
    """An object that Python prints with its address."""


class Named:
    """An object that Python prints with its address only inside of a list."""

    def __str__(self) -> str:
        return "its name"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("{{ range }}", "function safe_range"),
        ("{{ self }}", "TemplateReference"),
        ("{{ row.items }}", "built-in method items of dict object"),
        ("{{ names | map('upper') }}", "generator object sync_do_map"),
        ("{{ names | reverse }}", "list_reverseiterator object"),
        ("{{ [range] }}", "function safe_range"),
        ("{{ 'a' ~ range }}", "function safe_range"),
        ("{{ '%s' % range }}", "function safe_range"),
        ("{{ range | upper }}", "function safe_range"),
        ("{{ range | urlencode }}", "function safe_range"),
        ("{{ range | safe }}", "function safe_range"),
        ("{{ {'a': {range: 1}} }}", "function safe_range"),
        ("{{ namespace(a=range) }}", "function safe_range"),
        ("{{ '{}'.format(range) }}", "function safe_range"),
        ("{{ '%s, %s' | format(1, range) }}", "function safe_range"),
        ("{{ names | join(range) }}", "function safe_range"),
        ("{{ 'a' | replace('a', range) }}", "function safe_range"),
        ("{{ 'http://a.example' | urlize(target=range) }}", "function safe_range"),
        ("{% set text %}{{ [range] }}{% endset %}{{ text | length }}", "function safe_range"),
        ("{{ [names | map('upper')] }}", "generator object sync_do_map"),
        ("{{ thing }}", r"\S*Thing object"),
        ("{{ [thing] }}", r"\S*Thing object"),
        ("{{ things }}", r"\S*Thing object"),
        ("{{ '%r' % named }}", r"\S*Named object"),
        ("{{ '{!r}'.format(named) }}", r"\S*Named object"),
        ("{{ named | pprint }}", r"\S*Named object"),
        ("{{ [named] }}", r"\S*Named object"),
        ("{{ address }} {{ range }}", "function safe_range"),
    ],
)
def test_a_template_does_not_print_an_address_in_memory(source: str, name: str) -> None:
    """It is another in every process: a continued run would ask again, because its prompt is another."""
    values: dict[str, Any] = {"row": {"items": 1}, "names": ["a", "b"], "address": "<A at 0x7f0000000000>"}
    values |= {"thing": Thing(), "things": [Thing()], "named": Named()}
    with pytest.raises(TemplateProblem, match=f"it prints {name}, which is no text") as problem:
        Template(source).render(values)
    assert "0x" not in str(problem.value).lower()


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ trace }}", "<Model object at 0x7F9D3C4F2840>"),
        ("{{ trace | lower }}!", "<model object at 0x7f9d3c4f2840>!"),
        ("{{ rows | map(attribute='a') | join }}", "0xdeadbeef"),
        ("<A at 0x{{ '%08x' % number }}>", "<A at 0x000000ff>"),
        ("at {{ rows[0].a }}{{ number }}", "at 0xdeadbeef255"),
        ("at {{ '%#x' | format(size) }}", "at 0x1000000"),
        ("{{ dict }}", "<class 'dict'>"),
        ("{{ range(3) }} {{ [range(3)] }}", "range(0, 3) [range(0, 3)]"),
        ("{% for row in rows %}{{ loop }}{% endfor %}", "<LoopContext 1/1>"),
        ("{{ named }}!{{ '%s' % named }}", "its name!its name"),
        ("{{ day }} {{ [day] }}", "2026-11-18 [datetime.date(2026, 11, 18)]"),
        ("{{ trace }}{{ 0x7f9d3c4f }}", "<Model object at 0x7F9D3C4F2840>2141011023"),
    ],
)
def test_addresses_in_data_and_in_the_template_itself_are_text(source: str, text: str) -> None:
    values = {
        "trace": "<Model object at 0x7F9D3C4F2840>",
        "rows": [{"a": "0xdeadbeef"}],
        "number": 255,
        "size": 1 << 24,
        "day": date(2026, 11, 18),
        "named": Named(),
    }
    assert Template(source).render(values) == text


PIECES = (
    *(
        "{{name}}",
        "{{ name }}",
        "{{  q1  }}",
        "{",
        "}",
        "{{",
        "}}",
        "{%",
        "%}",
        "{#",
        "#}",
        "text",
        "\n",
        "\r\n",
        " ",
    ),
    *("{{true}}", "{{None}}", "{{range}}", "{{if}}", "{{ not }}", "{{self}}", "{{loop}}", "{{-x}}", "{{x-}}"),
    *("{{x|upper}}", "{{'s'}}", "{{1}}", "#", "%", "{{\nx}}", "é", "{{é}}", "{{_}}", "{{class}}", "{{dict}}"),
)


def test_templates_that_need_no_jinja_are_what_jinja_would_read() -> None:
    """The parts, the names and the text are those of Jinja, and odd spellings are left to it."""
    random, plain = Random(1), 0
    for _ in range(3000):
        source = "".join(random.choice(PIECES) for _ in range(random.randint(0, 5)))
        parts = split_plain(source)
        if parts is None:
            continue
        plain += 1
        outputs = template_sandbox.environment.parse(source).body
        assert {type(node) for output in outputs for node in output.iter_child_nodes()} <= {
            nodes.TemplateData,
            nodes.Name,
        }, source
        assert template_names(source) == template_sandbox.undeclared_names(source), source
        values = {name: f"<{name}>" for name, is_name in parts if is_name}
        by_jinja = template_sandbox.environment.from_string(source).render(values)
        assert Template(source).render(values) == by_jinja, source
    assert plain > 500


def test_a_task_with_plain_templates_imports_no_jinja() -> None:
    """Importing it takes a tenth of the time to the first request."""
    code = (
        "import sys\nfrom assay.language.templates import Template, check_template, template_names\n"
        "assert Template('Q: {{ q }}?').render({'q': 1}) == 'Q: 1?'\ncheck_template('{{q}}')\ntemplate_names('{{q}}')\n"
        "import assay.suites.task.suite\nassert 'jinja2' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
