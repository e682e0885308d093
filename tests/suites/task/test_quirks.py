"""`--lm-eval-quirks`: every quirk has an effect only with the flag, and the results file counts it."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.errors import InputError

from servers.loopback import LoopbackServer, chat
from support.task_project import TaskProject, TaskResult, docs_of

TWO = docs_of("1=1", "2=2")


def named(result: TaskResult) -> dict[str, int]:
    """What the results file says made a difference, and in how many documents."""
    return dict(result.file.get("lm_eval_quirks", {}))


@pytest.mark.parametrize("quirks", [False, True])
def test_one_seed_for_all_repeats(lab: TaskProject, quirks: bool) -> None:
    """Without the flag the n-th repeat has its own; one repeat is no difference."""
    lab.task(docs=TWO, repeats=3, metric_list=[{"metric": "exact_match"}])
    with LoopbackServer(lambda body: (200, chat("1"))) as server:
        result = lab.run(model="openai/m", base_url=server.url, lm_eval_quirks=quirks)
    seeds = {body["seed"] for body in server.bodies}
    assert seeds == ({1234} if quirks else {1234, 1235, 1236})
    assert named(result) == ({"same_seed": 2} if quirks else {})
    lab.task(docs=TWO)
    assert named(lab.run(lm_eval_quirks=quirks)) == {}


@pytest.mark.parametrize(
    ("quirks", "generation", "args", "seed"),
    [
        (False, {}, {}, 44),
        (True, {}, {}, 1234),
        (True, {}, {"seed": 7}, 7),
        (True, {"seed": 3}, {"seed": 7}, 3),
    ],
)
def test_the_seed_of_requests_is_an_argument_of_the_harness_s_model(
    lab: TaskProject, quirks: bool, generation: dict[str, Any], args: dict[str, Any], seed: int
) -> None:
    """Its --seed draws examples and reaches no request."""
    lab.task(docs=TWO, generation_kwargs={"until": [";"], **generation})
    with LoopbackServer(lambda body: (200, chat("1"))) as server:
        values: dict[str, Any] = {"seed": 44, "seeds": [11, 22, 33, 44], "model_args": args}
        lab.run(model="openai/m", base_url=server.url, lm_eval_quirks=quirks, **values)
    assert {body["seed"] for body in server.bodies} == {seed}


@pytest.mark.parametrize(
    ("model", "args", "source"),
    [
        ("local-chat-completions", {"model": "m"}, "local-chat-completions"),
        ("openai/m", {}, "openai"),
    ],
)
def test_results_name_the_class_of_the_model_as_it_was_typed(
    lab: TaskProject, model: str, args: dict[str, Any], source: str
) -> None:
    lab.task(docs=TWO)
    with LoopbackServer(lambda body: (200, chat("1"))) as server:
        file = lab.run(model=model, base_url=server.url, model_args=args).file
    assert (file["config"]["model"], file["model_source"], file["model_name"]) == (source, source, "m")


@pytest.mark.parametrize(("quirks", "sent"), [(False, 4), (True, 6)])
def test_more_than_four_stops_reach_a_text_endpoint(lab: TaskProject, quirks: bool, sent: int) -> None:
    """A chat endpoint gets four of them from both."""
    stops = ["a", "b", "c", "d", "e", "f"]
    lab.task(docs=TWO, generation_kwargs={"until": stops})
    completion = {"choices": [{"index": 0, "text": "1", "finish_reason": "stop"}]}
    with LoopbackServer(lambda body: (200, completion)) as server:
        lab.run(model="openai-completions/m", base_url=server.url, lm_eval_quirks=quirks)
    assert [body["stop"] for body in server.bodies if "stop" in body] == [stops[:sent]] * 2


@pytest.mark.parametrize("quirks", [False, True])
def test_replies_are_not_cut_at_stops(lab: TaskProject, quirks: bool) -> None:
    """Without the flag they are cut."""
    lab.task(docs=docs_of("1;rest=1", "2=2"), generation_kwargs={"until": [";"]})
    result = lab.run(lm_eval_quirks=quirks)
    assert result.column("resps") == [[["1;rest" if quirks else "1"]], [["2"]]]
    assert result.column("exact_match") == [0.0 if quirks else 1.0, 1.0]
    assert named(result) == ({"until": 1} if quirks else {})


@pytest.mark.parametrize("quirks", [False, True])
def test_max_new_tokens_is_sent_under_its_own_name(lab: TaskProject, quirks: bool) -> None:
    """Without the flag it is the token limit; with the flag it is sent beside the default limit."""
    lab.task(docs=TWO, generation_kwargs={"max_new_tokens": 7, "until": []})
    with LoopbackServer(lambda body: (200, chat("1"))) as server:
        result = lab.run(model="openai/m", base_url=server.url, lm_eval_quirks=quirks)
    body = server.bodies[0]
    assert (body["max_tokens"], body.get("max_new_tokens")) == ((256, 7) if quirks else (7, None))
    assert named(result) == ({"max_new_tokens": 2} if quirks else {})


@pytest.mark.parametrize("quirks", [False, True])
def test_letters_lost_in_lower_case(lab: TaskProject, quirks: bool) -> None:
    """İ grows in lower case, and the harness cuts the text to its old length."""
    metric = {"metric": "exact_match", "ignore_case": True}
    lab.task(docs=docs_of("İx=İy", "A=a"), metric_list=[metric])
    result = lab.run(lm_eval_quirks=quirks)
    assert result.column("exact_match") == [1.0 if quirks else 0.0, 1.0]
    assert named(result) == ({"lowercase": 1} if quirks else {})


CHOICE: dict[str, Any] = {"output_type": "multiple_choice", "doc_to_choice": ["a", "b"]}
TABLE = {" a": (-1.0, True), " b": (-2.0, False)}


def test_a_label_outside_the_choices_counts_as_wrong(lab: TaskProject) -> None:
    """Numbers and texts; without the flag it is refused, or that document fails alone."""
    lab.task(docs=docs_of("x=7", "x=z", "x=0"), **CHOICE)
    model = lab.likely(TABLE)
    result = lab.run(model=model, lm_eval_quirks=True)
    assert result.column("acc") == [0.0, 0.0, 1.0]
    assert result.metric("acc").denominator == 3
    assert named(result) == {"label": 2}
    with pytest.raises(InputError, match="outside the 2 choices"):
        lab.run(model=model)


def test_a_list_with_a_label_outside_counts_by_the_others(lab: TaskProject) -> None:
    """One correct choice is enough; the label outside is counted."""
    lab.task(docs=[{"q": "x", "a": [0, 9]}], **CHOICE | {"doc_to_target": "a"})
    result = lab.run(model=lab.likely(TABLE), lm_eval_quirks=True)
    assert (result.column("acc"), named(result)) == ([1.0], {"label": 1})


def test_num_fewshot_0_in_the_file_wins(lab: TaskProject) -> None:
    """Over the option; counted if it makes a difference."""
    fewshot = {"sampler": "first_n", "samples": docs_of("s=t")}
    lab.task(docs=TWO, num_fewshot=0, fewshot_config=fewshot)
    result = lab.run(num_fewshot=1, lm_eval_quirks=True)
    assert (result.prompts()[0], named(result)) == ("1", {"num_fewshot": 2})
    assert lab.run(num_fewshot=1).prompts()[0] == "s t\n\n1"
    assert named(lab.run(num_fewshot=0, lm_eval_quirks=True)) == {}
    assert named(lab.run(lm_eval_quirks=True)) == {}


def test_quirks_are_counted_without_samples_files_too(lab: TaskProject) -> None:
    """And when a finished run is scored again."""
    lab.task(docs=docs_of("1;rest=1", "2=2"), generation_kwargs={"until": [";"]})
    assert named(lab.run(lm_eval_quirks=True, log_samples=False)) == {"until": 1}
    lab.task(docs=docs_of("1;rest=1", "2=2"), generation_kwargs={"until": [";"]}, doc_to_target="x")
    assert named(lab.run(lm_eval_quirks=True, log_samples=False)) == {"until": 1}


def test_files_are_named_as_the_harness_names_them(lab: TaskProject) -> None:
    """Results without a task, times with microseconds."""
    lab.task(docs=TWO)
    quirky = lab.run(lm_eval_quirks=True).run.files
    assert quirky[0].match("results_20??-??-??T??-??-??.??????.json")
    assert quirky[1].match("samples_t_20??-??-??T??-??-??.??????.jsonl")
    assert lab.run().run.files[0].match("results_t_20??-??-??T??-??-??.json")


def test_a_run_without_quirks_counts_none(lab: TaskProject) -> None:
    """The key is missing."""
    lab.task(docs=TWO)
    assert "lm_eval_quirks" not in lab.run().file
    assert "lm_eval_quirks" not in lab.run(lm_eval_quirks=True).file
