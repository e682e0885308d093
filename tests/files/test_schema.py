"""The validator: all problems at once, each at its place."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct, field

from assay.core.errors import InputError, Problem
from assay.files.json_objects import FileObject
from assay.files.schema import Filled, Name, Scalar, convert, json_path, refuse, shorten
from assay.files.yaml_files import parse_yaml

FINE: dict[str, Any] = {"id": 1, "question": "q"}


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Turn(Struct, forbid_unknown_fields=True):
    text: Filled
    speaker: str = ""


class Limits(Struct):
    seconds: Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)] | None = None
    steps: dict[str, Annotated[int, Meta(ge=1, description="a count from 1 on")]] = {}


class Sample(Struct, forbid_unknown_fields=True):
    id: Name
    question: Filled
    answer: Scalar | None = None
    turns: list[Turn] = []
    kind: Literal["easy", "hard"] = "easy"
    colour: Colour = Colour.RED
    tags: Annotated[list[str], Meta(description="a list of tags")] | str = []
    limits: Limits = field(default_factory=Limits)
    values: Annotated[list[int], Meta(min_length=1, extra={"problem": "the list has no value"})] | None = None
    first_id: Name | None = field(name="_id", default=None)


def check(value: Any, schema: Any = Sample) -> tuple[Any, list[str]]:
    """The converted value, and `path: message` of every problem."""
    problems: list[Problem] = []
    result = convert(value, schema, FileObject(Path("f.jsonl"), 3, b"{}", value), problems)
    return result, [str(problem).removeprefix("f.jsonl:3").lstrip(" :") for problem in problems]


def test_a_right_value_is_converted() -> None:
    result, problems = check(FINE | {"_id": "x", "turns": [{"text": "a"}], "kind": "hard", "colour": "blue"})
    assert problems == []
    assert (result.first_id, result.turns, result.colour) == ("x", [Turn("a")], Colour.BLUE)


def test_everything_wrong_is_reported_at_once() -> None:
    """None of the problems hides another, however deep they are."""
    value = {
        "id": 1.5,
        "turns": [{"text": " "}, 7, {"speaker": None, "text": "x", "txt": 1}],
        "tags": {"a": 1},
        "limits": {"seconds": -1, "steps": {"one": 0, "two": "x"}},
        "answr": "a",
    }
    assert check(value) == (
        None,
        [
            "$.id: must be a text or a whole number, not a number",
            "$.turns[0].text: is empty",
            "$.turns[1]: must be an object, not a number",
            "$.turns[2].speaker: must be a text, not null",
            "$.turns[2].txt: there is no key named 'txt'; did you mean 'text'?",
            "$.tags: must be a list of tags or a text, not an object",
            "$.limits.seconds: must be 0 or more, not -1",
            "$.limits.steps.one: must be a count from 1 on, not 0",
            "$.limits.steps.two: must be a count from 1 on, not a text",
            "$.answr: there is no key named 'answr'; did you mean 'answer'?",
            "$.question: is missing",
        ],
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "hrd"}, "$.kind: there is no kind named 'hrd'; did you mean 'hard'?"),
        ({"kind": 1}, "$.kind: must be one of easy, hard, not a number"),
        ({"colour": "rd"}, "$.colour: there is no colour named 'rd'; did you mean 'red'?"),
        ({"values": []}, "$.values: the list has no value"),
        ({"values": [1, True]}, "$.values[1]: must be a whole number, not a boolean"),
        ({"answer": ["a"]}, "$.answer: must be a text or a number, not a list"),
        ({"_id": ""}, "$._id: is empty"),
        ({"limits": []}, "$.limits: must be an object, not a list"),
        ({"limits": {"seconds": float("nan")}}, "$.limits.seconds: must be 0 or more, not nan"),
    ],
)
def test_a_problem_says_what_is_wrong(wrong: dict[str, Any], message: str) -> None:
    """Names with the nearest one, bounds with the value, types with the kind that was found."""
    assert check(FINE | wrong)[1] == [message]


def test_valid_parts_are_returned_despite_problems() -> None:
    """Wrong parts are replaced by their defaults. What has no default makes what it is in wrong."""
    result, problems = check(FINE | {"kind": 5, "turns": [{"text": "a"}, {}], "limits": {"steps": {"a": 0, "b": 2}}})
    assert len(problems) == 3
    assert (result.kind, result.turns, result.limits.steps) == ("easy", [], {"b": 2})
    assert check({"question": "q"})[0] is None


def test_types_only_msgspec_checks_are_reported_with_its_message() -> None:
    assert check(10**400, Annotated[float, Meta(description="a number")])[1] == ["Number out of range"]


class _Dog(Struct, tag="dog"):
    age: int


class _Cat(Struct, tag="cat"):
    lives: int


def test_a_tag_chooses_among_structs() -> None:
    assert check({"type": "cat", "lives": "9"}, _Dog | _Cat)[1] == ["$.lives: must be a whole number, not a text"]


def test_yaml_problems_have_the_line_of_the_key_and_show_the_value() -> None:
    """A key that is no text is told to be put in quotes."""
    yaml = parse_yaml("id: 1\nquestion: 5\nlimits:\n  seconds: x\n  steps:\n    7: 1\ntags: 3\n", Path("s.yaml"))
    problems: list[Problem] = []
    convert(yaml.value, Sample, yaml, problems)
    assert [str(problem) for problem in problems] == [
        "s.yaml:2: question: expected a text, found 5",
        "s.yaml:4: limits.seconds: expected a number, found 'x'",
        "s.yaml:6: limits.steps.7: a name is a text; put 7 in quotes",
        "s.yaml:7: tags: expected a list of tags or a text, found 3",
    ]


def test_a_part_of_a_value_is_checked_at_its_path() -> None:
    problems: list[Problem] = []
    record = FileObject(Path("f.json"), 0, b"", {}, "$[2]")
    convert({"text": 1}, Turn, record, problems, ("turns", 4))
    assert problems == [Problem("f.json $[2].turns[4].text", "must be a text, not a number")]


def test_only_errors_are_refused() -> None:
    """Each is told once, though several readers may find it."""
    refuse([Problem("x", "odd", "warning")], Path("f"))
    with pytest.raises(InputError) as caught:
        refuse([Problem("x", "a"), Problem("x", "odd", "warning"), Problem("x", "a")], Path("f"))
    assert caught.value.problems == [Problem("x", "a")]


def test_problems_beyond_the_first_are_counted() -> None:
    problems = [Problem("x", str(number)) for number in range(2100)]
    advice = [Problem("x", str(number), "advice") for number in range(50)]
    assert shorten(problems + advice, Path("f"))[-2:] == [advice[-1], Problem("f", "and 1,100 more errors")]
    assert shorten(problems[:1000], Path("f")) == problems[:1000]


def test_keys_that_are_no_plain_names_stand_in_brackets() -> None:
    assert json_path(("a", 0, "b c", "d")) == '$.a[0]["b c"].d'
