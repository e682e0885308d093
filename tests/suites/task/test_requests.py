"""Output types: the requests, the correct answer and the metrics of each."""

from __future__ import annotations

import math
from typing import Any

import pytest

from assay.core.errors import InputError, UsageError
from assay.store.cases import RunCases
from assay.suites.task.requests import wire_params

from support.task_project import Fn, TaskProject, TaskResult, docs_of

CHOICE: dict[str, Any] = {"output_type": "multiple_choice", "doc_to_choice": ["a", "b", "c"]}
TABLE = {" a": (-2.0, False), " b": (-1.0, True), " c": (-3.0, False)}
"""The model's choice is b."""


def chosen(lab: TaskProject, docs: list[dict[str, Any]], table: Any = None, **changes: Any) -> TaskResult:
    """A run of a multiple-choice task."""
    lab.task(docs=docs, **CHOICE | changes)
    return lab.run(model=lab.likely(table or TABLE))


# Labels


@pytest.mark.parametrize("right", ["b", 1, 1.0, True, "1"])
def test_a_label_is_a_number_or_the_text_of_a_choice(lab: TaskProject, right: Any) -> None:
    """Straight from a template; numbers of any type."""
    result = chosen(lab, [{"q": "x", "a": right}], doc_to_target="a" if right != "1" else "{{a}}")
    assert result.column("acc") == [1.0]
    assert result.column("target") == [str(right)]


def test_several_right_choices(lab: TaskProject) -> None:
    """A list of labels, as numbers or texts: one of them is enough."""
    docs = [{"q": "x", "a": [0, 1]}, {"q": "x", "a": [0, 2]}]
    assert chosen(lab, docs, doc_to_target="{{a}}").column("acc") == [1.0, 0.0]
    docs = [{"q": "x", "a": ["a", "b"]}, {"q": "x", "a": ["a", "c"]}]
    assert chosen(lab, docs, doc_to_target="{{a}}").column("acc") == [1.0, 0.0]
    assert chosen(lab, docs, doc_to_target="a").column("target") == ["['a', 'b']", "['a', 'c']"]


@pytest.mark.parametrize("wrong", [3, -1, "z", None, 0.5, [1, 7]])
def test_a_label_outside_the_choices_of_the_first_document_is_refused(lab: TaskProject, wrong: Any) -> None:
    """Before the first request, with the label and the choices."""
    with pytest.raises(InputError, match=r"t.yaml:\d+ doc_to_target: the label .* is outside the 3 choices"):
        chosen(lab, [{"q": "x", "a": wrong}], doc_to_target="a")
    assert not (lab.folder / "out").exists()


@pytest.mark.parametrize("wrong", ["9", "z", "-1"])
def test_a_later_label_outside_the_choices_fails_alone(lab: TaskProject, wrong: str) -> None:
    """The other documents are scored; this one is left out, not counted as wrong."""
    result = chosen(lab, docs_of("x=1", f"y={wrong}", "z=0"))
    assert (result.run.exit_code, result.metric("acc").denominator) == (2, 2)
    assert result.column("acc") == [1.0, None, 0.0]
    assert "is outside the 3 choices ['a', 'b', 'c']" in result.rows()[1]["error"]
    assert "t.jsonl:2" in result.rows()[1]["error"]


@pytest.mark.parametrize("value", ["float('nan')", "float('inf')", "None", "{}"])
def test_a_label_of_a_wrong_type_fails_alone(lab: TaskProject, value: str) -> None:
    """A function may return anything."""
    lab.write("utils.py", f"def label(doc):\n    return {value} if doc['a'] == 'odd' else 1\n")
    result = chosen(lab, docs_of("x=1", "y=odd"), doc_to_target=Fn("utils.label"))
    assert (result.column("acc"), result.run.summary.infra_error) == ([1.0, None], 1)


# Choices


@pytest.mark.parametrize(
    "choice",
    ["{{c}}", "c", {"x": "a", "y": "b", "z": "c"}, "['a', '{{c[1]}}', 'c']", "{{c | list}}"],
)
def test_choices_are_a_list_a_mapping_a_column_or_a_template(lab: TaskProject, choice: Any) -> None:
    """A template's text is read as a Python list."""
    result = chosen(lab, [{"q": "x", "a": "1", "c": ["a", "b", "c"]}], doc_to_choice=choice)
    message = [call["arg_1"] for call in result.rows()[0]["arguments"].values()]
    assert message == [" a", " b", " c"]


@pytest.mark.parametrize("choice", ["{{q}}", "q", "{{c[:0]}}", "{{ 5 }}", "[1, 2]"])
def test_choices_that_are_no_texts_are_refused(lab: TaskProject, choice: str) -> None:
    """The message has the key."""
    with pytest.raises(InputError, match="doc_to_choice|expected text"):
        chosen(lab, [{"q": "x", "a": "0", "c": ["a"]}], doc_to_choice=choice)


def test_multiple_choice_without_choices_is_refused(lab: TaskProject) -> None:
    """The message has the missing key."""
    with pytest.raises(InputError, match="t.yaml:1: multiple_choice needs the key 'doc_to_choice'"):
        chosen(lab, docs_of("x=1"), doc_to_choice=None)


def test_choices_are_asked_after_the_question_with_the_delimiter(lab: TaskProject) -> None:
    """Rows show prompt and continuation of each request."""
    result = chosen(
        lab,
        docs_of("x=1"),
        {"|a": (-1.0, True), "|b": (-2.0, False), "|c": (-3.0, False)},
        target_delimiter="|",
    )
    assert result.rows()[0]["arguments"]["gen_args_2"] == {"arg_0": "x", "arg_1": "|c"}
    assert result.rows()[0]["resps"][0] == [["-1.0", "True"]]


# Metrics of choices


def test_length_counts_letters_or_bytes(lab: TaskProject) -> None:
    """acc_norm divides by letters, acc_bytes by bytes: é is one letter of two bytes."""
    metrics = [{"metric": name} for name in ("acc", "acc_norm", "acc_bytes")]
    table = {" é": (-1.5, False), " ee": (-2.0, False), " zzzz": (-4.5, False)}
    result = chosen(lab, docs_of("x=0", "x=1"), table, doc_to_choice=["é", "ee", "zzzz"], metric_list=metrics)
    assert result.column("acc") == [1.0, 0.0]
    assert result.column("acc_norm") == [0.0, 1.0]
    assert result.column("acc_bytes") == [1.0, 0.0]


def test_a_choice_without_length_is_never_the_likeliest_by_length(lab: TaskProject) -> None:
    """There is no division by zero."""
    table = {" ": (-0.1, True), " b": (-1.0, False)}
    result = chosen(lab, docs_of("x=1"), table, doc_to_choice=["", "b"])
    assert (result.column("acc"), result.column("acc_norm")) == ([0.0], [1.0])


def test_of_equally_likely_choices_the_first_counts(lab: TaskProject) -> None:
    """As in the harness."""
    table = {" a": (-1.0, False), " b": (-1.0, False), " c": (-1.0, False)}
    assert chosen(lab, docs_of("x=0", "x=1"), table).column("acc") == [1.0, 0.0]


def test_mutual_information_asks_each_choice_alone_too(lab: TaskProject) -> None:
    """What a choice gains by the question decides; the requests without it come last."""
    table = {"x| a": (-2.0, False), "x| b": (-1.0, False), "| a": (-5.0, False), "| b": (-1.5, False)}
    metrics = [{"metric": "acc"}, {"metric": "acc_mutual_info"}]
    result = chosen(lab, docs_of("x=0"), table, doc_to_choice=["a", "b"], metric_list=metrics)
    asked = [tuple(call.values()) for call in result.rows()[0]["arguments"].values()]
    assert asked == [("x", " a"), ("x", " b"), ("", " a"), ("", " b")]
    assert (result.column("acc"), result.column("acc_mutual_info")) == ([0.0], [1.0])


def test_the_other_metrics_of_choices(lab: TaskProject) -> None:
    """Rows have what each needs: pairs, probabilities, likelihoods; exact_match asks what greedy decoding says."""
    names = ["f1", "mcc", "exact_match", "brier_score", "likelihood"]
    metrics = [{"metric": name} for name in names if name != "likelihood"]
    result = chosen(lab, docs_of("x=1", "x=0"), metric_list=metrics)
    first = result.rows()[0]
    assert (first["f1"], first["mcc"], first["exact_match"]) == ([1, 1], [1, 1], 1)
    weights = [math.exp(value) for value in (-2.0, -1.0, -3.0)]
    assert first["brier_score"][1] == pytest.approx([one / sum(weights) for one in weights])
    assert result.column("exact_match") == [1, 0]
    assert result.results["t"]["exact_match,none"] == 0.5


# Several inputs


def test_the_choices_may_be_in_the_questions(lab: TaskProject) -> None:
    """If doc_to_text is a number: each choice is a prompt, the target the continuation, the number the label."""
    lab.task(
        docs=[{"label": 1, "one": "Ann lost", "two": "Bob lost", "end": "the game."}],
        output_type="multiple_choice",
        doc_to_text="label",
        doc_to_choice="{{[one, two]}}",
        doc_to_target="{{end}}",
        metric_list=[{"metric": "acc"}],
    )
    result = lab.run(model=lab.likely({"Ann lost| the game.": (-3.0, False), "Bob lost| the game.": (-2.0, False)}))
    calls = [tuple(call.values()) for call in result.rows()[0]["arguments"].values()]
    assert calls == [("Ann lost", " the game."), ("Bob lost", " the game.")]
    assert (result.column("acc"), result.column("target")) == ([1.0], ["the game."])


def test_examples_with_choices_in_the_questions_show_the_correct_one(lab: TaskProject) -> None:
    """The choice of the label, then the target."""
    lab.task(
        docs=[{"label": "0", "one": "A", "two": "B", "end": "end."}],
        output_type="multiple_choice",
        doc_to_text="{{label}}",
        doc_to_choice="{{[one, two]}}",
        doc_to_target="{{end}}",
        num_fewshot=1,
        fewshot_config={"samples": [{"label": "1", "one": "C", "two": "D", "end": "fin."}]},
    )
    result = lab.run(model=lab.likely({" end.": (-1.0, True)}))
    assert result.prompts() == ["D fin.\n\nA"]
    assert result.prompts(request=1) == ["D fin.\n\nB"]


# Likelihoods of one text


def test_the_likelihood_of_the_target(lab: TaskProject) -> None:
    """One request; acc asks for greedy decoding, perplexity is of all documents."""
    lab.task(docs=docs_of("x=y", "v=w"), output_type="loglikelihood", doc_to_target=" {{a}}")
    result = lab.run(model=lab.likely({" y": (-1.0, True), " w": (-3.0, False)}))
    assert result.rows()[0]["arguments"] == {"gen_args_0": {"arg_0": "x", "arg_1": " y"}}
    assert (result.column("acc"), result.column("perplexity")) == ([1, 0], [-1.0, -3.0])
    assert result.results["t"]["perplexity,none"] == pytest.approx(math.exp(2.0))
    assert result.results["t"]["acc,none"] == 0.5


@pytest.mark.parametrize("output", ["loglikelihood", "loglikelihood_rolling"])
def test_a_target_that_is_no_text_is_refused(lab: TaskProject, output: str) -> None:
    """A number has no likelihood; in a later document only that document fails."""
    lab.task(docs=[{"q": "x", "a": 5}], output_type=output, doc_to_target="a")
    with pytest.raises(InputError, match=r"t.yaml:\d+ doc_to_target: expected text, found 5"):
        lab.run(model=lab.likely({}))
    lab.write("utils.py", "def target(doc):\n    return 5 if doc['q'] == 'y' else 'text'\n")
    lab.task(docs=docs_of("x=1", "y=1"), output_type=output, doc_to_target=Fn("utils.target"))
    result = lab.run(model=lab.likely({"text": (-1.0, True)}))
    assert (result.run.summary.ok, result.run.summary.infra_error) == (1, 1)


def test_the_likelihood_of_whole_texts(lab: TaskProject) -> None:
    """No prompt; per word and per byte, over all documents together."""
    lab.task(docs=docs_of("x=one two", "x=é"), output_type="loglikelihood_rolling", doc_to_text="")
    result = lab.run(model=lab.likely({"one two": (-6.0, False), "é": (-2.0, False)}))
    assert result.rows()[0]["arguments"] == {"gen_args_0": {"arg_0": "one two"}}
    assert result.rows()[0]["resps"] == [["-6.0"]]
    assert result.column("word_perplexity") == [[-6.0, 2], [-2.0, 1]]
    assert result.column("byte_perplexity") == [[-6.0, 7], [-2.0, 2]]
    results = result.results["t"]
    assert results["word_perplexity,none"] == pytest.approx(math.exp(8 / 3))
    assert results["byte_perplexity,none"] == pytest.approx(math.exp(8 / 9))
    assert results["bits_per_byte,none"] == pytest.approx(8 / 9 / math.log(2))
    assert results["word_perplexity_stderr,none"] == "N/A"


# Generated answers of tasks with choices


def test_a_generated_answer_is_compared_with_the_text_of_its_choice(lab: TaskProject) -> None:
    """The target's number means a choice; files show the number."""
    lab.task(docs=docs_of("b=1", "b=0"), doc_to_choice=["a", "b"])
    result = lab.run()
    assert (result.column("exact_match"), result.column("target")) == ([1.0, 0.0], ["1", "0"])


def test_a_question_of_digits_is_text(lab: TaskProject) -> None:
    """Only multiple_choice reads a number as a choice."""
    lab.task(docs=docs_of("1=0", "7=1"), doc_to_choice=["a", "b"])
    assert lab.run().prompts() == ["1", "7"]
    fewshot = {"sampler": "first_n", "samples": docs_of("5=1")}
    lab.task(docs=docs_of("1=0"), doc_to_choice=["a", "b"], num_fewshot=1, fewshot_config=fewshot)
    assert lab.run().prompts() == ["5 b\n\n1"]


def test_several_targets_of_a_generated_answer(lab: TaskProject) -> None:
    """A target that reads as a list is several; one of them is enough."""
    lab.task(docs=docs_of("b=b", "c=d"), doc_to_target="['a', '{{a}}']")
    result = lab.run()
    assert (result.column("exact_match"), result.column("target")[0]) == ([1.0, 0.0], "['a', 'b']")


def test_a_target_is_compared_in_the_type_of_the_answer(lab: TaskProject) -> None:
    """A column of numbers equals a generated number."""
    lab.task(docs=[{"q": "7", "a": 7}, {"q": "8", "a": 7}], doc_to_target="a")
    assert lab.run().column("exact_match") == [1.0, 0.0]


# Which metrics belong to what


@pytest.mark.parametrize(
    ("output", "names"),
    [
        ("generate_until", {"exact_match": True}),
        ("multiple_choice", {"acc": True, "acc_norm": True}),
        ("loglikelihood", {"perplexity": False, "acc": True}),
        (
            "loglikelihood_rolling",
            {"word_perplexity": False, "byte_perplexity": False, "bits_per_byte": False},
        ),
    ],
)
def test_without_metrics_each_output_type_has_its_own(lab: TaskProject, output: str, names: dict[str, bool]) -> None:
    """The harness's defaults, with the direction in which they are better."""
    choice = ["a"] if output == "multiple_choice" else None
    lab.task(docs=docs_of("x=a"), output_type=output, doc_to_choice=choice)
    table = {"a": (-1.0, True), " a": (-1.0, True)}
    model = "python/model.py:echo" if output == "generate_until" else lab.likely(table)
    result = lab.run(model=model)
    assert result.rows()[0]["metrics"] == list(names)
    assert result.file["higher_is_better"]["t"] == names


@pytest.mark.parametrize(
    ("output", "metric", "message"),
    [
        ("generate_until", "acc_norm", "'acc_norm' is computed from log-likelihoods"),
        ("generate_until", "perplexity", "'perplexity' is computed from log-likelihoods"),
        ("multiple_choice", "bleu", "no metric for multiple_choice named 'bleu'"),
        ("multiple_choice", "perplexity", "no metric for multiple_choice named 'perplexity'"),
        ("loglikelihood", "exact_match", "no metric for loglikelihood named 'exact_match'"),
        ("loglikelihood_rolling", "acc", "no metric for loglikelihood_rolling named 'acc'"),
        ("generate_until", "exact_mach", "no metric named 'exact_mach'; did you mean 'exact_match'"),
    ],
)
def test_a_metric_that_does_not_fit_the_output_type_is_refused(
    lab: TaskProject, output: str, metric: str, message: str
) -> None:
    """With the entry's place, before the first request."""
    choice = ["a"] if output == "multiple_choice" else None
    lab.task(docs=docs_of("x=a"), output_type=output, doc_to_choice=choice, metric_list=[{"metric": metric}])
    model = "python/model.py:echo" if output == "generate_until" else lab.likely({})
    with pytest.raises(InputError, match=rf"t.yaml:\d+ metric_list.0: .*{message}"):
        lab.run(model=model)


def test_a_user_metric_is_refused_for_likelihoods(lab: TaskProject) -> None:
    """Likelihoods are not answers; process_results gets them."""
    lab.write("utils.py", "def mine(references, predictions):\n    return 1.0\n")
    lab.task(docs=docs_of("x=1"), **CHOICE, metric_list=[{"metric": "acc"}, {"metric": Fn("utils.mine")}])
    with pytest.raises(
        InputError,
        match=r"metric_list.1: mine: a metric function works with generate_until only; multiple_choice",
    ):
        lab.run(model=lab.likely(TABLE))


def test_two_chains_of_one_name_are_refused(lab: TaskProject) -> None:
    """Their rows and numbers would be mixed."""
    chain = {"name": "x", "filter": [{"function": "take_first"}]}
    lab.task(filter_list=[chain, chain])
    with pytest.raises(InputError, match=r"t.yaml:\d+ filter_list.1.name: two chains are named 'x'"):
        lab.run()


def test_two_tasks_that_would_write_one_file_are_refused(lab: TaskProject) -> None:
    """Characters that file names cannot have are replaced, so two names may become equal."""
    lab.task("t.yaml", task="a/b")
    lab.task("u.yaml", task="a:b")
    with pytest.raises(UsageError, match="the tasks 'a/b' and 'a:b' would write to the same samples file"):
        lab.run("t.yaml", "u.yaml")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"metric": "exact_match", "aggregation": "perplexity"},
            "aggregation for exact_match named 'perplexity'",
        ),
        ({"metric": "exact_match", "aggregation": "mode"}, "no aggregation named 'mode'"),
        (
            {"metric": "exact_match", "ignore_cse": True},
            "no option named 'ignore_cse'; did you mean 'ignore_case'",
        ),
        ({"aggregation": "mean"}, "expected a mapping with the key 'metric'"),
        ("exact_match", "expected a mapping with the key 'metric'"),
        ({"metric": "exact_match", "regexes_to_ignore": ["("]}, "regex|pattern|unterminated|missing"),
    ],
)
def test_invalid_metric_entries_are_refused(lab: TaskProject, entry: Any, message: str) -> None:
    """All entries at once."""
    lab.task(docs=docs_of("x=a"), metric_list=[{"metric": "exact_match"}, entry, {"metric": "nobody"}])
    with pytest.raises(InputError, match=rf"t.yaml:\d+ metric_list.1: .*{message}") as caught:
        lab.run()
    assert "metric_list.2: there is no metric named 'nobody'" in str(caught.value)


def test_a_model_without_likelihoods_is_refused(lab: TaskProject) -> None:
    """Before the first request."""
    lab.task(docs=docs_of("x=1"), **CHOICE)
    with pytest.raises(UsageError, match="python/model.py:echo cannot do loglikelihood, which this run needs"):
        lab.run()


def test_a_chat_template_is_refused_for_likelihoods(lab: TaskProject) -> None:
    """The message names the task."""
    lab.task(docs=docs_of("x=1"), **CHOICE)
    with pytest.raises(UsageError, match="the task t needs likelihoods.*--apply-chat-template"):
        lab.run(model=lab.likely(TABLE), apply_chat_template=True)


def test_an_unknown_output_type_is_refused(lab: TaskProject) -> None:
    """With similar names."""
    lab.task(output_type="generate_util")
    with pytest.raises(InputError, match=r"t.yaml:\d+ output_type: .*did you mean 'generate_until'"):
        lab.run()


def test_scores_contain_the_target(lab: TaskProject) -> None:
    """With the first metric of each filter; not the text of loglikelihood_rolling."""
    lab.task("g.yaml", docs=[{"q": "1", "a": "['1', '2']"}])
    lab.task("c.yaml", docs=[{"q": "x", "a": "b"}], output_type="multiple_choice", doc_to_choice=["a", "b"])
    lab.task("r.yaml", docs=[{"q": "x", "a": "a"}], output_type="loglikelihood_rolling")
    model = lab.likely({" a": (-1.0, True), " b": (-2.0, False), "a": (-3.0, False)})
    kept = []
    for file, name in (("g.yaml", "python/model.py:echo"), ("c.yaml", model), ("r.yaml", model)):
        run = lab.run(file, model=name).run
        kept.append([score.expected for case in RunCases(run.folder) for score in case.scores])
    assert kept == [[["1", "2"]], ["b", None], [None, None, None]]


def test_do_sample_reaches_models_of_transformers_only() -> None:
    """An endpoint has no such parameter. There, as in the harness, the temperature alone decides."""
    generation = {"do_sample": False, "temperature": 0.7, "max_gen_toks": 9}
    params = {"max_tokens": 9, "temperature": 0.7}
    assert wire_params(generation, quirks=False, seed=1) == params
    assert wire_params(generation, quirks=False, seed=1, sends_do_sample=True) == {
        **params,
        "do_sample": False,
    }
