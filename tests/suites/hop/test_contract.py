"""Contracts: the three places they stand in, what they say, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.errors import InputError
from assay.suites.hop.contract import Contract, InputForm, OutputField, find_contract
from assay.suites.hop.field_types import fits

FIELDS = """\
name: VerifyFast
version: 1.2.0
inputs:
  context_window: string
  model_output: {type: str, description: what is checked}
  hint: string?
outputs:
  score:
    type: int
    compare: bands
    bands: {BAD: [1, 2], MID: 3, GOOD: [4, 5]}
    within: 1
    label: Score
  hallucination_detected: bool
  confidence: {type: float, tolerance: 0.05}
  errors: {type: array, sub_field: severity}
  extra: {}
audit_key: score
"""
CONTRACT = Contract(
    name="VerifyFast",
    version="1.2.0",
    inputs={"context_window": "string", "model_output": "string", "hint": "string"},
    outputs={
        "score": OutputField(
            type="int",
            aggregate="mean",
            compare="bands",
            bands={"BAD": [1, 2], "MID": [3], "GOOD": [4, 5]},
            within=1,
            label="Score",
        ),
        "hallucination_detected": OutputField(type="bool", aggregate="rate"),
        "confidence": OutputField(type="float", aggregate="mean", compare="tolerance", tolerance=0.05),
        "errors": OutputField(type="array", aggregate="distribution", sub_field="severity"),
        "extra": OutputField(),
    },
    audit_key="score",
    optional=frozenset({"hint"}),
    forms={"model_output": InputForm(description="what is checked")},
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("metainfo.md", f"---\n{FIELDS}---\n# VerifyFast\nProse.\n"),
        ("metainfo.md", f"\ufeff---\n{FIELDS}---\n"),
        (
            "metainfo.md",
            f"# VerifyFast\n```python\ninputs: 1\n```\n```yaml\na: 1\n```\n\n```yaml\n{FIELDS}```\n",
        ),
        ("metainfo.md", f"---\ntitle: only a title\n---\n~~~yml\n{FIELDS}~~~\n"),
        ("contract.yaml", FIELDS),
        ("metainfo.yaml", FIELDS),
    ],
)
def test_a_contract_stands_in_one_of_these_places(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert find_contract(tmp_path) == CONTRACT


@pytest.mark.parametrize("text", [None, "", "# Only prose\n```yaml\na: 1\n```\n", "Text\n---\ninputs: x\n---\n"])
def test_no_contract_is_fine(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "metainfo.md").write_text(text)
    assert find_contract(tmp_path) is None


def test_front_matter_without_fields_still_names_the_hoplet(tmp_path: Path) -> None:
    (tmp_path / "metainfo.md").write_text("---\nname: N\nversion: 1.0\nrun_mode: batch\n---\n")
    assert find_contract(tmp_path) == Contract(name="N", version="1.0")


def test_two_contracts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "metainfo.md").write_text(f"---\n{FIELDS}---\n")
    (tmp_path / "contract.yaml").write_text(FIELDS)
    with pytest.raises(InputError, match="metainfo.md and contract.yaml; keep one"):
        find_contract(tmp_path)


def test_fields_may_stand_in_a_list_and_under_the_views_names(tmp_path: Path) -> None:
    """The names of FieldAggregation and ViewConfig are understood."""
    (tmp_path / "contract.yaml").write_text(
        "hop_func_name: run\naudit_key_field: s\ninputs: [a, {name: b, type: number, required: false}]\n"
        "outputs: [{field_name: s, field_type: Integer, agg_type: distribution, display_label: S}]\n"
    )
    assert find_contract(tmp_path) == Contract(
        inputs={"a": "any", "b": "float"},
        outputs={"s": OutputField(type="int", aggregate="distribution", label="S")},
        audit_key="s",
        optional=frozenset({"b"}),
        function="run",
    )


def test_a_contract_says_how_the_view_asks_for_inputs(tmp_path: Path) -> None:
    (tmp_path / "contract.yaml").write_text(
        "retry_quota: 2\nmax_feedback_rounds: 0\n"
        "inputs:\n  style: {type: string, label: Style, choices: [short, long], example: long}\n  when: {example: 2026-01-02}\n"
    )
    contract = find_contract(tmp_path)
    assert contract is not None
    assert contract.forms == {
        "style": InputForm(label="Style", choices=["short", "long"], example="long"),
        "when": InputForm(example="2026-01-02"),
    }
    assert (contract.retry_quota, contract.max_feedback_rounds) == (2, 0)


def test_choices_and_examples_of_another_type_and_negative_counts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "contract.yaml").write_text(
        "retry_quota: -1\ninputs:\n  n: {type: int, choices: [1, two]}\n  s: {type: string, example: 3}\n"
    )
    with pytest.raises(InputError) as caught:
        find_contract(tmp_path)
    assert [problem.message for problem in caught.value.problems] == [
        "inputs.n.choices: this input has the type int, and 'two' has not",
        "inputs.s.example: this input has the type string, and 3 has not",
        "retry_quota: expected a whole number of at least 0, found -1",
    ]


WRONG = """\
---
name: [x]
ouputs: {}
inputs:
  a: strng
  b: 3
  yes: string
  c: {type: int, requird: true}
outputs:
  a: {type: int, aggregate: average}
  b: {type: int, compare: roughly}
  c: {type: int, compare: tolerance}
  d: {type: int, tolerance: -1}
  e: {type: string, within: 1}
  f: {type: bool, aggregate: mean}
  g: {type: int, tolerance: 1, within: 1}
  h: {type: int, bands: {A: [3, 1]}}
  i: {type: int, bands: {A: [1, 3], B: [3, 5]}}
  j: {type: int, bands: {A: [], B: [x]}}
  k: {type: int, bands: {NO: [1], 7: [2]}}
  l: {type: float, tolerance: .nan}
  m: {type: int, bands: [1]}
audit_key: scroe
---
"""


def test_everything_wrong_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    """In front matter the lines are those of the file; a name that is no text is told at the block it is in."""
    (tmp_path / "metainfo.md").write_text(WRONG)
    with pytest.raises(InputError) as actual:
        find_contract(tmp_path)
    lines = [str(problem).removeprefix(f"{tmp_path / 'metainfo.md'}:") for problem in actual.value.problems]
    assert {int(line.partition(":")[0]) for line in lines} == {*range(2, 7), 8, *range(10, 24)}
    text = "\n".join(lines)
    for part in (
        "2: name: expected a text",
        "3: ouputs: there is no such key; did you mean 'outputs'?",
        "5: inputs.a: there is no type named 'strng'; did you mean 'string'?",
        "6: inputs.b: expected a type or a mapping, found 3",
        "put True in quotes",
        "8: inputs.c.requird: ",
        "10: outputs.a.aggregate: there is no aggregate named 'average'",
        "11: outputs.b.compare: there is no compare named 'roughly'",
        "12: outputs.c.compare: to compare by tolerance, give `tolerance` too",
        "13: outputs.d.tolerance: expected a number of at least 0, found -1",
        "14: outputs.e.within: `within` is for numbers; this field has the type string",
        "15: outputs.f.aggregate: a field of type bool has no mean",
        "16: outputs.g: tolerance, within are set; choose the one that decides with `compare`",
        "17: outputs.h.bands.A: 3 is above 1",
        "18: outputs.i.bands.B: the band overlaps with A",
        "19: outputs.j.bands.B: expected [lowest, highest] or a list of values, found ['x']",
        "put False in quotes",
        "21: outputs.l.tolerance: ",
        "23: audit_key: there is no output named 'scroe'",
    ):
        assert part in text, part


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("---\ninputs: {a: string}\n", "1: the front matter that starts here has no closing ---"),
        ("---\nname: x\n\tinputs: 3\n---\n", "3: "),
        (
            "# x\n\n```yaml\ninputs:\n  a: int\n  a: int\n```\n",
            "6: key 'a' is written twice, first on line 5",
        ),
        ("---\ninputs: 3\n---\n", "2: inputs: expected a mapping or a list, found 3"),
    ],
)
def test_broken_yaml_has_the_lines_of_the_markdown_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "metainfo.md").write_text(text)
    with pytest.raises(InputError) as actual:
        find_contract(tmp_path)
    assert message in str(actual.value)


def test_bands_hold_ranges_or_values() -> None:
    """Two numbers are a range with both ends; a boolean lies in no range of numbers; texts are values."""
    score = OutputField(type="int", bands={"BAD": [1, 2], "MID": [3], "GOOD": [4, 5]})
    assert [score.band_of(value) for value in (1, 2, 3, 4, 5, 6, 2.5, "3", None, True)] == [
        *("BAD", "BAD", "MID", "GOOD", "GOOD"),
        *(None, None, None, None, None),
    ]
    touching = OutputField(type="float", bands={"LOW": [0, 0.5], "HIGH": [0.5, 1]})
    assert [touching.band_of(value) for value in (0.5, 0.51)] == ["LOW", "HIGH"]
    words = OutputField(type="string", bands={"FINE": ["ok", "good"], "BAD": ["no"]})
    assert [words.band_of(value) for value in ("good", "no", "other")] == ["FINE", "BAD", None]
    truth = OutputField(type="bool", bands={"T": [True], "F": [False]})
    assert [truth.band_of(value) for value in (True, False, 1, 0)] == ["T", "F", None, None]


def test_bands_of_a_float_may_touch(tmp_path: Path) -> None:
    (tmp_path / "contract.yaml").write_text("outputs: {s: {type: float, bands: {L: [0, 0.5], H: [0.5, 1]}}}\n")
    actual = find_contract(tmp_path)
    assert actual is not None
    assert actual.outputs["s"].compare == "bands"


@pytest.mark.parametrize(
    ("type_", "fine", "wrong"),
    [
        ("int", [1, -2], [True, 1.0, "1", None]),
        ("float", [1, 1.5], [True, "1", None]),
        ("bool", [True], [1, "true", None]),
        ("string", ["", "x"], [1, None]),
        ("array", [[]], [{}, "x"]),
        ("object", [{}], [[], "x"]),
        ("any", [None, 1, {}], []),
    ],
)
def test_types_of_json_values(type_: str, fine: list[object], wrong: list[object]) -> None:
    assert all(fits(value, type_) for value in fine)
    assert not any(fits(value, type_) for value in wrong)
