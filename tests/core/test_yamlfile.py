from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.errors import InputError
from assay.core.yamlfile import FunctionRef, parse_yaml

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


def test_functions_are_named_not_imported() -> None:
    """Reading a file runs nothing of it."""
    assert parse_yaml("f: !function os.abort\n", HERE).value == {"f": FunctionRef("os.abort", HERE.parent)}
