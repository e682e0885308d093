"""The syntax of a text, by which code is identified where its comments do not matter."""

from __future__ import annotations

import pytest

from assay.usercode.source import syntax_of

CODE = """
def area(width, *, height=2.5):
    return f"{width * height:.1f} m"
"""
# Written out, because the same text must come out of every version of Python.
SYNTAX = (
    "Module( body= [ FunctionDef( name= 'area' "
    "args= arguments( args= [ arg( arg= 'width' ) ] kwonlyargs= [ arg( arg= 'height' ) ] "
    "kw_defaults= [ Constant( value= 2.5 ) ] ) "
    "body= [ Return( value= JoinedStr( values= [ FormattedValue( value= BinOp( "
    "left= Name( id= 'width' ctx= Load( ) ) op= Mult( ) right= Name( id= 'height' ctx= Load( ) ) ) "
    "conversion= -1 format_spec= JoinedStr( values= [ Constant( value= '.1f' ) ] ) ) "
    "Constant( value= ' m' ) ] ) ) ] ) ] )"
)


def test_syntax_is_the_same_in_every_version_of_python() -> None:
    assert syntax_of(CODE) == SYNTAX


@pytest.mark.parametrize(
    "same",
    [
        CODE.replace("return", "# in metres\n    return"),
        CODE.replace("    return", '    """Return the area."""\n    return'),
        f'"""Areas."""\n{CODE}"""A text below it."""\n',
        CODE.replace("width, *, height=2.5", "\n    width,\n    *,\n    height=2.5,\n"),
        CODE.replace('"', "'"),
    ],
)
def test_comments_docstrings_and_layout_are_not_part_of_the_syntax(same: str) -> None:
    assert syntax_of(same) == SYNTAX


@pytest.mark.parametrize("change", ["2.6", "2.5 # \n ,depth=1", "'2.5'", "None", "-2.5"])
def test_another_value_is_another_syntax(change: str) -> None:
    assert syntax_of(CODE.replace("2.5", change)) != SYNTAX
