"""Documents of gates, comparisons and reports: complete, and proof against hostile names and texts."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from assay.core.report import Interval
from assay.store.gate import Decision, GateResult, Verdict
from assay.store.render.junit import gate_junit
from assay.store.render.markdown import escape, gate_markdown

HOSTILE = "<script>alert(1)</script> | [a](javascript:x) `b` @team #12 $x$ \x00\x1b[2J\ud800 _c_ & \\ ]]>"


def decision(requirement: str, verdict: Verdict, reason: str = "because") -> Decision:
    return Decision(
        requirement=requirement,
        verdict=verdict,
        reason=reason,
        value=0.8125,
        interval=Interval(0.74, 0.88),
        interval_method="wilson",
        numerator=13,
        denominator=16,
        unit="case",
        left_out={"infra_error": 2},
    )


def gated(*decisions: Decision) -> GateResult:
    return GateResult(
        verdict="fail",
        run="run",
        folder="results/assay/run",
        suite="task",
        model=HOSTILE,
        state="finished",
        cases=18,
        point=False,
        decisions=list(decisions),
        notes=[HOSTILE],
    )


def test_junit_has_a_test_case_for_each_requirement() -> None:
    """Counts agree; fail is a failure, inconclusive an error; children stand in the order of the schema."""
    result = gated(
        decision("acc >= 0.8", "pass"), decision("acc >= 0.9", "fail"), decision("f1 >= 0.8", "inconclusive")
    )
    root = ET.fromstring(gate_junit(result))
    (suite,) = root
    assert (root.tag, suite.tag) == ("testsuites", "testsuite")
    assert {name: suite.attrib[name] for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "errors": "1",
        "skipped": "0",
    }
    assert [child.tag for child in suite] == ["properties", *["testcase"] * 3, "system-out"]
    cases = suite.findall("testcase")
    assert [case.attrib["classname"] for case in cases] == ["assay.gate.task"] * 3
    assert [[child.tag for child in case] for case in cases] == [["system-out"], ["failure"], ["error"]]
    failure = cases[1][0]
    assert failure.attrib == {"type": "fail", "message": "because"}
    assert failure.text is not None
    for fact in ("acc >= 0.9", "0.8125", "0.7400 – 0.8800", "13/16, left out: 2 infra error", "because"):
        assert fact in failure.text


def test_junit_can_be_parsed_whatever_the_names_are() -> None:
    """XML has no form for some control characters; they become a replacement character."""
    root = ET.fromstring(gate_junit(gated(decision(HOSTILE, "fail", HOSTILE))))
    case = root.find("testsuite/testcase")
    assert case is not None
    assert case.attrib["name"] == re.sub("[\x00\x1b\ud800]", "�", HOSTILE)


def test_markdown_shows_texts_as_they_are() -> None:
    """No HTML, link, code, mention, issue, formula or further cell comes of them."""
    text = escape(HOSTILE)
    assert not set("<>@#") & set(re.sub(r"&#?\w+;", "", text))
    for special in "|`[]$_()":
        assert not re.search(rf"(?<!\\){re.escape(special)}", text), special
    assert "\x00" not in text
    assert "\x1b" not in text
    table = gate_markdown(gated(decision(HOSTILE, "fail", HOSTILE)))
    (row,) = [line for line in table.splitlines() if line.startswith("| &lt;")]
    assert len(re.findall(r"(?<!\\)\|", row)) == 7


def test_the_markdown_of_a_gate_has_every_fact() -> None:
    text = gate_markdown(gated(decision("acc >= 0.8", "fail", "no value of the interval is >= 0.8")))
    assert text.startswith("### assay gate: fail\n")
    assert (
        "| acc &gt;= 0.8 | fail | 0.8125 | 0.7400 – 0.8800 | 13/16, left out: 2 infra error | "
        "no value of the interval is &gt;= 0.8 |" in text
    )
