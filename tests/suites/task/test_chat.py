"""Chat: prompts as messages, as they are sent and as the samples file shows them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from assay.core.errors import UsageError

from servers.loopback import LoopbackServer, chat
from support.task_project import TaskProject, TaskResult, docs_of

SHOTS: dict[str, Any] = {
    "num_fewshot": 2,
    "fewshot_config": {"sampler": "first_n", "samples": docs_of("one=1", "two=2")},
}


def messages(*turns: str) -> list[dict[str, str]]:
    """`role: text` for each."""
    return [dict(zip(("role", "content"), turn.split(": ", 1), strict=True)) for turn in turns]


def talked(lab: TaskProject, *, options: dict[str, Any] | None = None, **changes: Any) -> TaskResult:
    """A run in chat form."""
    lab.task(docs=docs_of("q=q"), **changes)
    return lab.run(**{"apply_chat_template": True, **(options or {})})


def test_each_example_is_two_turns(lab: TaskProject) -> None:
    """The default; delimiters have no place between messages."""
    (asked,) = talked(lab, **SHOTS).prompts()
    assert asked == messages("user: one", "assistant: 1", "user: two", "assistant: 2", "user: q")


def test_all_in_one_message(lab: TaskProject) -> None:
    """`fewshot_as_multiturn: false`: one user message with the delimiters."""
    (asked,) = talked(lab, options={"fewshot_as_multiturn": False}, **SHOTS).prompts()
    assert asked == messages("user: one 1\n\ntwo 2\n\nq")


@pytest.mark.parametrize("multiturn", [None, False])
@pytest.mark.parametrize(
    ("system", "description", "expected"),
    [
        ("Be brief.", "Add.", "Be brief.\n\nAdd."),
        ("Be brief. ", "Add.", "Be brief. Add."),
        ("Be brief.", "\nAdd {{q}}.", "Be brief.\nAdd q."),
        ("Be brief.", "", "Be brief."),
        (None, "Add {{q}}.", "Add q."),
    ],
)
def test_instruction_and_description_are_the_system_message(
    lab: TaskProject, multiturn: bool | None, system: str | None, description: str, expected: str
) -> None:
    """Joined by fewshot_delimiter unless there is white space; the description is a template."""
    options = {"system_instruction": system, "fewshot_as_multiturn": multiturn}
    (asked,) = talked(lab, options=options, description=description).prompts()
    assert asked == [{"role": "system", "content": expected}, {"role": "user", "content": "q"}]


def test_instruction_and_description_before_a_text(lab: TaskProject) -> None:
    """Without a chat template they are the start of the prompt."""
    lab.task(docs=docs_of("q=q"), description="Add.\n", **SHOTS)
    assert lab.run(system_instruction="Be brief.").prompts() == ["Be brief.\n\nAdd.\none 1\n\ntwo 2\n\nq"]


@pytest.mark.parametrize("multiturn", [None, False])
def test_a_prefix_is_what_the_assistant_begins_with(lab: TaskProject, multiturn: bool | None) -> None:
    """The last message is the assistant's, in both forms."""
    options = {"fewshot_as_multiturn": multiturn}
    (asked,) = talked(lab, options=options, gen_prefix="So:", **SHOTS).prompts()
    assert asked[-1] == {"role": "assistant", "content": "So:"}
    before = ["user: one", "assistant: So: 1", "user: two", "assistant: So: 2", "user: q"]
    one = ["user: one So: 1\n\ntwo So: 2\n\nq"]
    assert asked[:-1] == messages(*(one if multiturn is False else before))


def test_the_samples_file_shows_the_messages_that_are_sent(lab: TaskProject) -> None:
    """Rows have them as JSON in a list; the hash covers that JSON."""
    with LoopbackServer(lambda body: (200, chat("q"))) as server:
        options = {"model": "openai/m", "base_url": server.url}
        result = talked(lab, options=options, **SHOTS)
    (row,) = result.rows()
    (text,) = row["arguments"]["gen_args_0"]["arg_0"]
    assert json.loads(text) == server.bodies[0]["messages"]
    assert row["prompt_hash"] == hashlib.sha256(text.encode()).hexdigest()
    assert result.results["t"]["exact_match,none"] == 1.0


def test_messages_are_written_without_escapes(lab: TaskProject) -> None:
    """Letters of all languages are kept."""
    lab.task(docs=docs_of("né=né"))
    (row,) = lab.run(apply_chat_template=True).rows()
    assert row["arguments"]["gen_args_0"]["arg_0"] == ['[{"role": "user", "content": "né"}]']


def test_results_contain_the_chat_settings(lab: TaskProject) -> None:
    """Template, turns, instruction and its hash."""
    file = talked(lab, options={"system_instruction": "Be brief."}).file
    assert (file["fewshot_as_multiturn"], file["chat_template"]) == (True, "")
    assert file["system_instruction"] == "Be brief."
    assert file["system_instruction_sha"] == hashlib.sha256(b"Be brief.").hexdigest()
    plain = lab.run().file
    assert (plain["fewshot_as_multiturn"], plain["chat_template"]) == (None, None)
    assert (plain["system_instruction"], plain["system_instruction_sha"]) == (None, None)


def test_turns_without_a_chat_template_are_refused(lab: TaskProject) -> None:
    """There are no turns in a text."""
    lab.task()
    with pytest.raises(UsageError, match="--fewshot-as-multiturn needs --apply-chat-template"):
        lab.run(fewshot_as_multiturn=True)
