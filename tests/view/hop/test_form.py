"""What a person typed into the form of the Run tab."""

from __future__ import annotations

import pytest

from assay.suites.hop.contract import Contract, InputForm
from assay.view.hop.form import read_widgets

CONTRACT = Contract(
    inputs={"claim": "string", "level": "int", "mode": "string", "hint": "string", "quick": "bool"},
    optional=frozenset({"hint"}),
    forms={"mode": InputForm(choices=["a", "b"])},
)


@pytest.mark.parametrize("nothing", ["", "  \r\n"])
def test_every_required_input_needs_a_value(nothing: str) -> None:
    """Also a text. A check box always has one."""
    fields, problems = read_widgets(CONTRACT, {f"in-{number}": nothing for number in range(4)})
    assert fields == {"quick": False}
    assert problems == dict.fromkeys(("claim", "level", "mode"), "This field needs a value.")


def test_values_are_read_by_their_types() -> None:
    typed = {"in-0": "it rained", "in-1": "3", "in-2": '"b"', "in-3": "", "in-4": "true"}
    assert read_widgets(CONTRACT, typed) == (
        {"claim": "it rained", "level": 3, "mode": "b", "quick": True},
        {},
    )
