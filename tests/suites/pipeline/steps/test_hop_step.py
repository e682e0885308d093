"""A hop as a step: the function gets the step's values and its model, and what it says decides the step."""

from __future__ import annotations

from typing import Any

import pytest

import assay
from assay.core.errors import InputError

from support.pipeline_project import PipelineProject, case, computes, says

HOPS = '''
import json
import time


async def shout(session, fields):
    """The whole input in one argument."""
    said = await session.model.chat("say " + fields["text"])
    return {"said": said.upper(), "got": sorted(fields)}


def by_name(text, session, first="none"):
    """Only what it has parameters for; not async, so in a thread."""
    return "OK", {"said": session.model.chat("say " + text), "first": first}


def any_name(**fields):
    return {"got": sorted(fields)}


def texts(text):
    return json.dumps([text, text])


async def judged(session, fields):
    return await session.hop_judge("say " + fields["text"], verifier=None, hop_retry=1)


def whole(row):
    return {"got": sorted(row)}


def unsure(text):
    return "LACK_OF_INFO", "the year is missing"


def raises(text):
    raise ValueError("no " + text)


def half(text):
    return "{"


def hangs(text):
    time.sleep(60)


async def refused(session, fields):
    return {"said": await session.model.chat("refuse")}


async def dead(session, fields):
    try:
        return {"said": await session.model.chat("down")}
    except Exception as error:
        return "FAIL", str(error)


def swallowed(text, session):
    try:
        session.model.chat("down")
    finally:
        raise ValueError("so what")
'''
FIRST = says("first", "1")


@pytest.fixture
def hops(lab: PipelineProject) -> PipelineProject:
    """A folder with functions in it."""
    lab.write("hops.py", HOPS)
    return lab


def hop(function: str, **more: Any) -> dict[str, Any]:
    """A step that calls one of them."""
    return {"id": "hop", "type": "hop", "target": f"hops.py:{function}", **more}


def test_a_function_gets_the_values_and_asks_the_model_of_the_run(hops: PipelineProject) -> None:
    """Its calls are counted like those of a prompt; `hoplet` is another word for it."""
    ran = hops.of(FIRST, hop("shout", type="hoplet"))
    assert ran.output("hop") == {"said": "HELLO", "got": ["first", "text"]}
    step = ran.row["steps"]["hop"]
    assert (step["calls"], step["tokens"]) == (1, [3, 2])
    assert ran.prompts() == ["say 1", "say hello"]


def test_a_function_with_names_gets_those_it_has_parameters_for(hops: PipelineProject) -> None:
    """What else the test holds is kept from it, and one that takes any name gets all."""
    more = {"inputs": {"text": "hello", "other": 1}}
    assert hops.of(FIRST, hop("by_name"), **more).output("hop") == {"said": "hello", "first": "1"}
    assert hops.of(FIRST, hop("any_name"), **more).output("hop") == {"got": ["first", "other", "text"]}
    assert hops.of(FIRST, hop("whole"), **more).output("hop") == {"got": ["first", "other", "text"]}


def test_a_contract_beside_the_function_says_what_it_gets(hops: PipelineProject) -> None:
    """Its inputs and nothing else."""
    hops.write("contract.yaml", "inputs: {text: string}\n")
    assert hops.of(FIRST, hop("any_name")).output("hop") == {"got": ["text"]}


def test_json_text_is_what_it_means(hops: PipelineProject) -> None:
    """A later step sees values, not their text."""
    after = computes("after", "inputs['hop'][1]")
    assert hops.of(hop("texts"), after).output("after") == "hello"


def test_a_batch_calls_it_once_for_each_item(hops: PipelineProject) -> None:
    """Each item with its own session."""
    items = [{"text": "a"}, {"text": "b"}]
    ran = hops.of(hop("by_name", batch_mode=True), batch_items=items)
    assert [one["said"] for one in ran.output("hop")] == ["a", "b"]


@pytest.mark.parametrize(
    ("function", "kind", "error"),
    [
        ("unsure", "lack_of_info", 'the function returned LACK_OF_INFO: "the year is missing"'),
        ("judged", "fail", "the function returned FAIL: "),
        ("raises", "exception", "[ValueError] no hello (hops.py:"),
        ("half", "bad_result", "the result is text that is not JSON"),
        ("refused", "refusal", "I will not"),
    ],
)
def test_what_is_no_result_fails_the_step(hops: PipelineProject, function: str, kind: str, error: str) -> None:
    """With the reason; the rest of the test goes on."""
    ran = hops.of(hop(function), says("fine"))
    step = ran.row["steps"]["hop"]
    assert (step["status"], step["kind"]) == ("failed", kind)
    assert error in step["error"]
    assert ran.output("fine") == "hello"


def test_a_function_that_hangs_fails_by_its_timeout(hops: PipelineProject) -> None:
    """The thread is left behind."""
    step = hops.of(hop("hangs", timeout=0.05)).row["steps"]["hop"]
    assert (step["kind"], step["error"]) == ("timeout", "it took longer than 0.05 s")


@pytest.mark.parametrize("function", ["dead", "swallowed"])
def test_an_endpoint_that_fails_is_not_the_functions_fault(hops: PipelineProject, function: str) -> None:
    """The case is asked again next time."""
    ran = hops.of(hop(function))
    assert ran.row["result"] == "no_answer"
    assert ran.code == 3


def test_the_step_may_name_a_model(hops: PipelineProject) -> None:
    """Both sides of its session are that model."""
    model = hops.script({"text": "recorded"}, name="other.jsonl")
    assert hops.of(hop("shout", model=model)).output("hop")["said"] == "RECORDED"


def test_without_a_model_a_function_that_asks_nobody_runs(hops: PipelineProject) -> None:
    """Nothing has to be named for it."""
    hops.pipeline(hop("texts"))
    assert hops.run(model="").output("hop") == ["hello", "hello"]


def test_other_code_is_another_run(hops: PipelineProject) -> None:
    """Its own, or that of a file beside it which it imports; the same code continues."""
    hops.write("hops.py", "from words import word\n\n\ndef say(text):\n    return {'said': word}\n")
    hops.write("words.py", "word = 'one'\n")
    first = hops.of(hop("say"))
    assert hops.run().run.folder == first.run.folder
    hops.write("words.py", "word = 'another'\n")
    second = hops.run()
    assert second.run.folder != first.run.folder
    assert second.output("hop") == {"said": "another"}


def test_a_variant_may_call_another_function(hops: PipelineProject) -> None:
    """`target` is one of the changes."""
    change = {"other": {"overrides": {"hop": {"target": "hops.py:any_name"}}}}
    hops.pipeline(hop("texts"), variants=change)
    hops.tests(case())
    rows = {row["variant"]: row["steps"]["hop"]["output"] for row in hops.run(variant=["all"]).rows}
    assert rows == {"baseline": ["hello", "hello"], "other": {"got": ["text"]}}


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"id": "hop", "type": "hop"}, "a hop step needs a target"),
        (hop("nobody"), "has no function 'nobody'; it has shout"),
        ({"id": "hop", "target": "nowhere.py:f"}, "there is no file"),
        ({"id": "hop", "target": "broken.py:f"}, "importing it raised ZeroDivisionError"),
        (hop("texts", template="x"), "template"),
    ],
)
def test_a_target_that_cannot_be_called_is_told_before_anything_runs(
    hops: PipelineProject, step: dict[str, Any], said: str
) -> None:
    """With the line of the step."""
    hops.write("broken.py", "1 / 0\n")
    hops.pipeline(step)
    with pytest.raises(InputError, match=said) as raised:
        assay.run(hops.spec())
    assert raised.value.problems[0].where.startswith("p.yaml:")
