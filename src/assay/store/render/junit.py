"""JUnit XML of a gate, which CI systems show as tests: one test case for each requirement.

    <testsuites name="assay gate" tests="1" failures="1" errors="0">
      <testsuite name="RUN" tests="1" failures="1" errors="0" skipped="0">
        <testcase classname="assay.gate.task" name="exact_match >= 0.8">
          <failure type="fail" message="no value of the interval is >= 0.8">...</failure>

A requirement that failed is a `failure`. An inconclusive one is an `error`, so that no CI system takes it for passed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from assay.store.render.tables import gate_table

if TYPE_CHECKING:
    from assay.store.gate import GateResult

# Characters that XML 1.0 cannot contain, not even as a reference. A reader would refuse the whole file.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENTS = {"fail": "failure", "inconclusive": "error"}


def gate_junit(result: GateResult) -> bytes:
    """Return the JUnit XML document of a gate."""
    counts = {
        "tests": str(len(result.decisions)),
        "failures": str(sum(each.verdict == "fail" for each in result.decisions)),
        "errors": str(sum(each.verdict == "inconclusive" for each in result.decisions)),
    }
    run = _clean(result.run)
    root = ET.Element("testsuites", {"name": "assay gate", **counts})
    suite = ET.SubElement(root, "testsuite", {"name": run, **counts, "skipped": "0"})
    properties = ET.SubElement(suite, "properties")
    about = {
        "folder": result.folder,
        "suite": result.suite,
        "model": result.model,
        "state": result.state,
        "cases": str(result.cases),
        "against": result.against,
        "decided by": "the value alone (--point)" if result.point else "the 95% interval",
    }
    for name, value in about.items():
        if value:
            ET.SubElement(properties, "property", {"name": name, "value": _clean(value)})
    # CI systems follow a test over builds by these two names, so they have no name of a single run.
    class_name = _clean(f"assay.gate.{result.suite}")
    table = gate_table(result.decisions)
    for decision, cells in zip(result.decisions, table.rows, strict=True):
        name = _clean(decision.requirement)
        case = ET.SubElement(suite, "testcase", {"classname": class_name, "name": name, "time": "0"})
        facts = zip(table.header, cells, strict=True)
        text = _clean("\n".join(f"{column}: {cell}" for column, cell in facts if cell))
        if decision.verdict in _ELEMENTS:
            attributes = {"type": decision.verdict, "message": _clean(decision.reason)}
            ET.SubElement(case, _ELEMENTS[decision.verdict], attributes).text = text
        else:
            ET.SubElement(case, "system-out").text = text
    if result.notes:
        ET.SubElement(suite, "system-out").text = _clean("\n".join(result.notes))
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)
