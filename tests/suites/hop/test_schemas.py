"""Replies that an endpoint holds to a schema: which schema, when it is sent, and that llama.cpp takes it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Literal

import msgspec
import pydantic
import pytest

from assay.core.protocols import Context
from assay.core.registry import find
from assay.core.roles import CHAT, SCHEMA, Connection
from assay.suites.hop import reply_formats as formats
from assay.suites.hop.reply_formats import tools_by_name
from assay.suites.hop.session import ModelSide, Session

from support.hop_case import VERIFY, HopCase, Telling, result


class Held(Telling):
    """A model whose endpoint takes schemas."""

    can = frozenset({CHAT, SCHEMA})


class Event(msgspec.Struct):
    year: int
    indoors: bool


class Person(msgspec.Struct):
    name: str
    friends: list[Person] = []


def price(item: str, pieces: int = 1) -> float:
    """What it costs."""
    return len(item) * pieces


def anything(**given: Any) -> dict[str, Any]:
    return given


def schemas_of(model: Telling) -> list[Any]:
    """The schema of each request that had one."""
    formats = [request.params.get("response_format") for request in model.asked]
    return [each and each["json_schema"]["schema"] for each in formats]


def test_every_operator_and_verifier_sends_the_schema_of_its_reply(tmp_path: Path) -> None:
    """Each side by what its own endpoint can; a plain call is free."""
    run, verify = Held(result("True")), Held('{"verdict": "OK", "agrees": true}')

    async def work(session: Session) -> None:
        await session.hop_get("a", return_format=Literal["True"])
        await session.hop_judge("b", verifier="cross")
        await session.model.chat("c")

    HopCase(tmp_path / "both", run, verify).session(work)
    assert schemas_of(run) == [formats.result_schema(Literal["True"]), formats.judgement_schema(), None]
    assert schemas_of(verify) == [formats.VERDICT_SCHEMA, *[formats.vote_schema("True")] * 3]
    run, plain = Held(result("True")), Telling('{"verdict": "OK", "agrees": true}')
    HopCase(tmp_path / "one", run, plain).session(work)
    assert schemas_of(plain) == [None] * 4


@pytest.mark.parametrize("schema", [True, False])
def test_what_the_settings_say_of_an_endpoint_wins(tmp_path: Path, schema: bool) -> None:
    """A provider cannot know what is behind an address."""
    run = (Telling if schema else Held)(result("x"))

    async def solve(ctx: Context) -> Any:
        return await Session(ctx, ModelSide("run", {}, schema), VERIFY).hop_get("x", verifier=None)

    asyncio.run(HopCase(tmp_path, run).start(solve))
    assert [bool(each) for each in schemas_of(run)] == [schema]


@pytest.mark.parametrize("own", [{"response_format": {"type": "text"}}, {"grammar": "root ::= [a-z]+"}])
def test_a_form_of_the_users_own_wins(tmp_path: Path, own: dict[str, Any]) -> None:
    """Two at once are refused by endpoints."""
    run = Held(result("x"))
    HopCase(tmp_path, run).session(lambda session: session.hop_get("x", verifier=None, **own))
    assert run.asked[0].params == {"temperature": 0.1, **own}


def test_a_result_or_what_is_missing() -> None:
    """Types, fields and lists as they were asked for; references stand where they are looked up."""
    kept, missing = formats.result_schema({"year": int, "names": [str]})["anyOf"]
    assert kept["properties"]["result"]["properties"] == {
        "year": {"type": "integer"},
        "names": {"type": "array", "items": {"type": "string"}},
    }
    assert kept["properties"]["result"]["required"] == ["year", "names"]
    assert list(missing["properties"]) == ["missing_info"]
    named = formats.result_schema(Person)
    assert named["anyOf"][0]["properties"]["result"] == {"$ref": "#/$defs/Person"}
    assert "Person" in named["$defs"]
    assert "object" in formats.result_schema("in words")["anyOf"][0]["properties"]["result"]["type"]


class Year(pydantic.BaseModel):
    year: int
    names: list[str] = []


class Unknown:
    """A class that neither msgspec nor pydantic can check."""


FORMS = [
    (Year, {"year": 1900}, {"year": "1900"}, "result.year: Input should be a valid integer"),
    (Year, {"year": 1900, "names": ["a"]}, {}, "result.year: Field required"),
    (list[Year], [{"year": 1}], [{"year": None}], "result.0.year: Input should be a valid integer"),
    (Year | None, None, 1, "result: Input should be"),
    ({"when": Year}, {"when": {"year": 1}}, {"when": 1}, "result.when: Input should be"),
    ((int, str), [1, "a"], ["a", 1], "result[0]: Expected `int`, got `str`"),
    ((int, str), [1, "a"], [1], "result is not a JSON list of 2 items"),
    ((int, Year), [1, {"year": 1}], {"a": 1}, "result is not a JSON list of 2 items"),
    ({"city": (str, ...)}, {"city": "Oslo"}, {"city": 1}, "result.city: Expected `str`, got `int`"),
]


@pytest.mark.parametrize(("form", "good", "bad", "problem"), FORMS)
def test_a_return_format_of_hop_is_checked(form: Any, good: Any, bad: Any, problem: str) -> None:
    """Models of pydantic, tuples, and fields as HOP writes them."""
    assert formats.form_problem(good, form) is None
    assert (formats.form_problem(bad, form) or "").startswith(problem)


def test_a_class_that_nothing_can_check_accepts_every_value() -> None:
    assert formats.form_problem({"a": 1}, Unknown) is None


def test_models_of_pydantic_and_tuples_have_a_description_and_a_schema() -> None:
    assert '"year":{"title":"Year","type":"integer"}' in formats.describe_form(Year)
    assert formats.describe_form((int, str)) == ("a JSON list of exactly 2 items: a whole number, a text")
    schema = formats.result_schema({"all": list[Year], "pair": (int, str), "city": (str, ...)})
    assert schema["$defs"]["Year"]["required"] == ["year"]
    fields = schema["anyOf"][0]["properties"]["result"]["properties"]
    assert fields["all"] == {"type": "array", "items": {"$ref": "#/$defs/Year"}}
    assert fields["pair"] == {
        "type": "array",
        "prefixItems": [{"type": "integer"}, {"type": "string"}],
        "minItems": 2,
        "maxItems": 2,
    }
    assert fields["city"] == {"type": "string"}


def test_a_choice_has_one_of_the_tools_and_its_arguments() -> None:
    """One without default is required; a tool that takes any name takes any object."""
    one, other, _ = formats.choice_schema(tools_by_name([price, anything]))["anyOf"]
    choice = one["properties"]["result"]["properties"]
    assert choice["tool"] == {"const": "price"}
    assert choice["arguments"]["properties"] == {"item": {"type": "string"}, "pieces": {"type": "integer"}}
    assert choice["arguments"]["required"] == ["item"]
    assert other["properties"]["result"]["properties"]["arguments"] == {"type": "object"}


def test_the_embedded_model_is_held_to_every_schema(tmp_path: Path, weights: Path) -> None:
    """Whatever it says, it is in the form that was asked for."""
    model = find("model", "local").connect(Connection(name="smollm2", seed=1))

    async def work(session: Session) -> list[Any]:
        short: dict[str, Any] = {"hop_retry": 1, "temperature": 0, "max_tokens": 90}
        context = "Ada opened the museum in 1998."
        return [
            await session.hop_get("Who opened it?", context, {"name": str, "year": int}, **short),
            await session.hop_judge("It opened in 1998.", context, verifier="cross", **short),
            await session.hop_tool_use("What does a lamp cost?", [price], "", verifier=None, **short),
            await session.hop_get("When and where?", context, Event, verifier=None, **short),
            await session.hop_get("When and where?", context, (Year, str), verifier=None, **short),
        ]

    lab = HopCase(tmp_path, model, model)
    lab.session(work)
    for call in lab.calls():
        assert isinstance(json.loads(call["response"]["text"]), dict), call
