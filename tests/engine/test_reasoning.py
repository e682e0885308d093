"""What a model thinks is kept apart from what it answers, in every suite."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import assay
from assay.core.types import Response
from assay.engine.reasoning import split_reasoning

from support.commands import typed

TALKS = Path(__file__).parents[2] / "examples" / "memory" / "talks.json"
# Knows all answers, and says what it thinks first.
MODEL = f"""
import json, pathlib
QUESTIONS = [qa for talk in json.loads(pathlib.Path({str(TALKS)!r}).read_text()) for qa in talk["qa"]]
def answer(prompt, params):
    text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    found = [qa for qa in QUESTIONS if qa["question"] in text]
    return "<think>\\nPerhaps Vienna, or eleven thousand euros?\\n</think>\\n\\n" + str(found[0].get("answer", "No information available"))
"""


@pytest.mark.parametrize(
    ("text", "answer", "reasoning"),
    [
        ("<think>2 and 2</think>4", "4", "2 and 2"),
        ("\n<think>\n2 and 2\n</think>\n\n4\n", "4\n", "2 and 2"),
        ("<think></think>\n\n4", "4", ""),
        ("<think>a</think>\n<think>b</think>4", "4", "a\nb"),
        ("<think>cut off in the mid", "", "cut off in the mid"),
        ("2 and 2\n</think>\n\n4", "4", "2 and 2"),
        ("only thoughts</think>", "", "only thoughts"),
        ('{"reason": "it has </think> in it"}', '{"reason": "it has </think> in it"}', ""),
        ("Write <think> before </think>\nand", "Write <think> before </think>\nand", ""),
        ("4", "4", ""),
        (" 4", " 4", ""),
    ],
)
def test_reasoning_is_taken_out_of_the_text(text: str, answer: str, reasoning: str) -> None:
    split = split_reasoning(Response(text))
    assert (split.text, split.reasoning) == (answer, reasoning)


def test_reasoning_that_came_apart_stays_and_a_reply_to_another_sdk_is_not_touched() -> None:
    both = split_reasoning(Response("<think>b</think>4", reasoning="a"))
    assert (both.text, both.reasoning) == ("4", "a\nb")
    whole = Response("<think>b</think>4", data={"choices": []})
    assert split_reasoning(whole) is whole


def test_answers_of_a_memory_test_are_scored_without_the_reasoning(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    words = ("--memory", "oracle", "--model", f"python/{tmp_path}/model.py:answer", "--quiet")
    assert typed("memory", "test", "--data", str(TALKS), *words, "--output-dir", str(tmp_path / "out")) == 0
    run = assay.load(str(tmp_path / "out"))
    f1 = run.metric("f1")
    assert f1.value == 1.0
    line = json.loads((run.folder / "calls.jsonl").read_text().splitlines()[1])
    assert line["response"]["reasoning"] == "Perhaps Vienna, or eleven thousand euros?"
