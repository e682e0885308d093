from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.errors import InputError
from assay.files.yaml_files import FunctionRef, parse_yaml

HERE = Path("t.yaml")


def test_every_key_knows_its_line() -> None:
    """A message about a setting can name the line it stands on."""
    file = parse_yaml("a: 1\nb:\n  - x: 2\n    y: 3\n", HERE)
    assert file.where("b", 0, "y") == "t.yaml:4"
    assert file.where("b", 0, "missing") == "t.yaml:3"
    assert file.where("nothing") == "t.yaml:1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "t.yaml:3: key 'a' is written twice, first on line 1"),
        ("a:\n\tb: 1\n", "t.yaml:2: a tab stands at the start of the line"),
        ("a: [1\n", "t.yaml:2: not YAML"),
        ("- a\n", "t.yaml:1: expected a mapping"),
        ("", "t.yaml:1: expected a mapping"),
        ("a: !!python/object/apply:os.system ['true']\n", "t.yaml:1: not YAML"),
    ],
)
def test_structural_mistakes_have_a_line(text: str, message: str) -> None:
    """Nothing is guessed: a tab, a key written twice or a foreign tag is refused with its place."""
    with pytest.raises(InputError) as caught:
        parse_yaml(text, HERE)
    assert message in str(caught.value)


def test_of_repeated_keys_the_last_counts_if_a_reader_wants_it() -> None:
    """Its lines are those of messages too, and a warning names each key that is lost."""
    text = "a:\n- 1\n- {b: 2, c: 3}\nd: {e: 4, e: 5}\na:\n- 6\n- {b: 7}\n"
    file = parse_yaml(text, HERE, last_key_wins=True)
    assert file.value == {"a": [6, {"b": 7}], "d": {"e": 5}}
    assert [file.where("a", 0), file.where("a", 1, "b"), file.where("a", 1, "c")] == [
        f"{HERE}:6",
        f"{HERE}:7",
        f"{HERE}:7",
    ]
    lost = "is written twice, first on line"
    assert [(problem.level, problem.where) for problem in file.repeated] == [
        ("warning", f"{HERE}:4"),
        ("warning", f"{HERE}:5"),
    ]
    assert f"key 'e' {lost} 4" in file.repeated[0].message
    assert f"key 'a' {lost} 1; the last one counts" in file.repeated[1].message


def test_functions_are_named_not_imported() -> None:
    """Reading a file runs nothing of it."""
    assert parse_yaml("f: !function os.abort\n", HERE).value == {"f": FunctionRef("os.abort", HERE.parent)}
