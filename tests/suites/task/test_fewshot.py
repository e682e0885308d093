"""Few-shot examples: their source, their selection and their format."""

from __future__ import annotations

import random
from typing import Any

import pytest

from assay.core.errors import InputError

from support.task_project import Fn, TaskProject, TaskResult, docs_of

DOCS = docs_of("e1=1", "e2=2", "e3=3", "e4=4", "e5=5")
OTHERS = docs_of("o1=1", "o2=2", "o3=3", "o4=4")


def files(**splits: str) -> dict[str, Any]:
    """Splits by file."""
    return {"data_files": {split: f"{name}.jsonl" for split, name in splits.items()}}


def shown(result: TaskResult) -> list[list[str]]:
    """The questions of the examples of each document."""
    return [[shot.split(" ")[0] for shot in asked.split("\n\n")[:-1]] for asked in result.prompts()]


def leaks(result: TaskResult) -> int:
    """How many documents stand among their own examples."""
    questions = [row["doc"]["q"] for row in result.rows()]
    return sum(question in shots for question, shots in zip(questions, shown(result), strict=True))


SAME: dict[str, dict[str, Any]] = {
    "a split that is the evaluated one": {"fewshot_split": "test"},
    "a split in fewshot_config": {"fewshot_config": {"split": "test"}},
    "no split, a test split only": {},
    "no split, a validation split only": {
        "test_split": None,
        "validation_split": "test",
    },
    "the validation split, which is evaluated": {
        "test_split": None,
        "validation_split": "test",
        "fewshot_split": "test",
    },
    "another split of the same file": {
        "dataset_kwargs": files(test="t", train="t"),
        "training_split": "train",
    },
}
LEAKS_IN_THE_HARNESS = {
    "no split, a test split only",
    "the validation split, which is evaluated",
    "another split of the same file",
}


@pytest.mark.parametrize("sampler", ["first_n", "default"])
@pytest.mark.parametrize("case", SAME)
def test_a_document_is_never_among_its_own_examples(lab: TaskProject, case: str, sampler: str) -> None:
    """However the split is named or found; every document has as many examples as were asked for."""
    changes = SAME[case]
    fewshot = {**changes.get("fewshot_config", {}), "sampler": sampler}
    lab.task(docs=DOCS, num_fewshot=3, **{**changes, "fewshot_config": fewshot})
    result = lab.run()
    assert leaks(result) == 0
    assert {len(shots) for shots in shown(result)} == {3}


@pytest.mark.parametrize("sampler", ["first_n", "default"])
@pytest.mark.parametrize("case", SAME)
def test_with_quirks_a_document_may_be_among_its_own_examples(lab: TaskProject, case: str, sampler: str) -> None:
    """The harness compares two settings; where they differ the document leaks, and the leak is counted."""
    changes = SAME[case]
    fewshot = {**changes.get("fewshot_config", {}), "sampler": sampler}
    lab.task(docs=DOCS, num_fewshot=4, **{**changes, "fewshot_config": fewshot})
    result = lab.run(lm_eval_quirks=True)
    assert bool(leaks(result)) == (case in LEAKS_IN_THE_HARNESS)
    assert result.file.get("lm_eval_quirks", {}).get("fewshot_leak", 0) == leaks(result)


def test_first_n_shows_the_same_examples_to_all_documents(lab: TaskProject) -> None:
    """In the order of the file."""
    lab.data("o.jsonl", OTHERS)
    changes: dict[str, Any] = {
        "dataset_kwargs": files(test="t", train="o"),
        "fewshot_config": {"sampler": "first_n"},
    }
    lab.task(docs=DOCS, num_fewshot=2, training_split="train", **changes)
    assert shown(lab.run()) == [["o1", "o2"]] * 5


def test_training_comes_before_validation_and_test(lab: TaskProject) -> None:
    """Without a split of their own, examples are those of the first of the three that is set."""
    lab.data("o.jsonl", OTHERS)
    lab.data("v.jsonl", docs_of("v1=1"))
    kwargs = files(test="t", validation="v", train="o")
    changes: dict[str, Any] = {
        "dataset_kwargs": kwargs,
        "fewshot_config": {"sampler": "first_n"},
        "num_fewshot": 1,
    }
    lab.task(docs=DOCS, validation_split="validation", training_split="train", **changes)
    assert shown(lab.run())[0] == ["o1"]
    lab.task(docs=DOCS, validation_split="validation", **changes)
    assert shown(lab.run())[0] == ["v1"]


def test_random_examples_are_one_stream_over_the_documents(lab: TaskProject) -> None:
    """Random(1234).sample for each document, as in the harness; a limit does not change the examples."""
    lab.data("o.jsonl", OTHERS)
    lab.task(docs=DOCS, num_fewshot=2, training_split="train", dataset_kwargs=files(test="t", train="o"))
    stream = random.Random(1234)
    expected = [[doc["q"] for doc in stream.sample(OTHERS, 2)] for _ in DOCS]
    assert shown(lab.run()) == expected
    assert shown(lab.run(limit=2)) == expected[:2]


def test_the_evaluated_document_is_drawn_and_dropped(lab: TaskProject) -> None:
    """As in the harness: one more example is drawn, and the document itself is dropped."""
    lab.task(docs=DOCS, num_fewshot=2, fewshot_split="test")
    stream = random.Random(1234)
    expected = [[other["q"] for other in stream.sample(DOCS, 3) if other != doc][:2] for doc in DOCS]
    assert shown(lab.run()) == expected


def test_another_seed_draws_other_examples(lab: TaskProject) -> None:
    """The fourth of the harness's seeds is for the examples."""
    lab.data("o.jsonl", OTHERS)
    lab.task(docs=DOCS, num_fewshot=3, training_split="train", dataset_kwargs=files(test="t", train="o"))
    stream = random.Random(7)
    expected = [[doc["q"] for doc in stream.sample(OTHERS, 3)] for _ in DOCS]
    assert shown(lab.run(seeds=[0, 1, 2, 7])) == expected
    assert shown(lab.run(seed=7)) == expected


def test_fewshot_indices_choose_the_pool(lab: TaskProject) -> None:
    """In their order. The harness ignores the setting; --lm-eval-quirks does too, and counts it."""
    lab.data("o.jsonl", OTHERS)
    fewshot = {"sampler": "first_n", "fewshot_indices": [3, 1]}
    changes: dict[str, Any] = {"dataset_kwargs": files(test="t", train="o"), "fewshot_config": fewshot}
    lab.task(docs=DOCS, num_fewshot=2, training_split="train", **changes)
    assert shown(lab.run())[0] == ["o4", "o2"]
    quirky = lab.run(lm_eval_quirks=True)
    assert shown(quirky)[0] == ["o1", "o2"]
    assert quirky.file["lm_eval_quirks"] == {"fewshot_indices": 5}


def test_unknown_fewshot_indices_are_refused(lab: TaskProject) -> None:
    """Before the first request."""
    fewshot = {"samples": OTHERS, "fewshot_indices": [0, 9]}
    lab.task(docs=DOCS, num_fewshot=1, fewshot_config=fewshot)
    with pytest.raises(InputError, match=r"t.yaml:\d+ fewshot_config.* has 9, there are 4 examples"):
        lab.run()


@pytest.mark.parametrize("sampler", ["first_n", "default"])
def test_too_few_examples_are_refused(lab: TaskProject, sampler: str) -> None:
    """The document itself does not count as an example."""
    lab.task(docs=DOCS[:3], num_fewshot=3, fewshot_split="test", fewshot_config={"sampler": sampler})
    few = "3 examples are needed, there are 2 others" if sampler == "first_n" else "4 examples .* there are 3"
    with pytest.raises(InputError, match=rf"t.yaml:\d+ fewshot_config.*: {few}"):
        lab.run()
    lab.task(docs=DOCS, num_fewshot=5, fewshot_config={"sampler": sampler, "samples": OTHERS})
    with pytest.raises(InputError, match="5 examples are needed, there are 4"):
        lab.run()


@pytest.mark.parametrize("sampler", ["first_n", "default"])
def test_equal_documents_are_not_examples_of_each_other(lab: TaskProject, sampler: str) -> None:
    """If too few others remain, only these documents fail."""
    docs = [DOCS[0], DOCS[1], DOCS[2], DOCS[2]]
    fewshot = {"sampler": sampler}
    lab.task(docs=docs, num_fewshot=2, fewshot_split="test", fewshot_config=fewshot)
    assert leaks(lab.run()) == 0
    lab.task(docs=docs, num_fewshot=3, fewshot_split="test", fewshot_config=fewshot)
    result = lab.run()
    assert (result.run.summary.ok, result.run.summary.infra_error) == (2, 2)
    assert "3 examples are needed, there are 2" in result.rows()[2]["error"]


def test_an_unknown_sampler_is_refused_if_there_are_examples(lab: TaskProject) -> None:
    """Without examples the setting has no effect."""
    lab.task(docs=DOCS, num_fewshot=1, fewshot_config={"sampler": "best"})
    with pytest.raises(InputError, match=r"t.yaml:\d+ fewshot_config.sampler: there is no sampler 'best'"):
        lab.run()
    lab.task(docs=DOCS, num_fewshot=0, fewshot_config={"sampler": "best"})
    assert lab.run().prompts()[0] == "e1"


def test_fewshot_config_overrides_the_format_of_examples(lab: TaskProject) -> None:
    """Text, target, delimiters and prefix; the question itself has the task's settings."""
    fewshot = {
        "sampler": "first_n",
        "samples": [{"q": "s", "a": "t", "u": "v"}],
        "doc_to_text": "shot {{u}}",
        "doc_to_target": "{{a}}!",
        "target_delimiter": " = ",
        "fewshot_delimiter": " ## ",
    }
    lab.task(docs=DOCS, num_fewshot=1, description="D: ", fewshot_config=fewshot)
    assert lab.run().prompts()[0] == "D: shot v = t! ## e1"


def test_examples_inherit_the_delimiters_of_the_task(lab: TaskProject) -> None:
    """If fewshot_config does not set them."""
    fewshot = {"sampler": "first_n", "samples": OTHERS}
    lab.task(docs=DOCS, num_fewshot=2, fewshot_config=fewshot, target_delimiter=":", fewshot_delimiter=";")
    assert lab.run().prompts()[0] == "o1:1;o2:2;e1"


def test_gen_prefix_comes_before_every_answer(lab: TaskProject) -> None:
    """One space between the prefix and an example's answer; examples may have their own prefix."""
    fewshot: dict[str, Any] = {"sampler": "first_n", "samples": OTHERS}
    lab.task(docs=DOCS, num_fewshot=1, gen_prefix="Answer:", fewshot_config=fewshot)
    assert lab.run().prompts()[0] == "o1 Answer: 1\n\ne1 Answer:"
    lab.task(docs=DOCS, num_fewshot=1, gen_prefix="Answer:", fewshot_config=fewshot | {"gen_prefix": "{{q}}>"})
    assert lab.run().prompts()[0] == "o1 o1> 1\n\ne1 Answer:"


def test_an_examples_label_is_shown_as_its_choice(lab: TaskProject) -> None:
    """By number or as text; the first of several correct answers is shown."""
    samples = [{"q": "n", "a": "1"}, {"q": "l", "a": "['b', 'a']"}]
    changes: dict[str, Any] = {"output_type": "multiple_choice", "doc_to_choice": ["a", "b"]}
    fewshot = {"sampler": "first_n", "samples": samples}
    lab.task(docs=docs_of("x=0"), num_fewshot=2, fewshot_config=fewshot, **changes)
    result = lab.run(model=lab.likely({" a": (-1.0, True), " b": (-2.0, True)}))
    assert result.prompts() == ["n b\n\nl b\n\nx"]


def test_examples_may_have_choices_of_their_own(lab: TaskProject) -> None:
    """The examples show full texts, the question letters."""
    fewshot = {"sampler": "first_n", "samples": [{"q": "s", "a": "1"}], "doc_to_choice": ["alpha", "beta"]}
    changes: dict[str, Any] = {
        "output_type": "multiple_choice",
        "doc_to_choice": ["a", "b"],
        "fewshot_config": fewshot,
    }
    lab.task(docs=docs_of("x=0"), num_fewshot=1, **changes)
    result = lab.run(model=lab.likely({" a": (-1.0, True), " b": (-2.0, True)}))
    assert result.prompts() == ["s beta\n\nx"]


@pytest.mark.parametrize(
    ("written", "given", "ours", "theirs"),
    [(None, 2, 2, 2), (1, 2, 2, 2), (2, 0, 0, 0), (0, 2, 2, 0), (1, None, 1, 1), (None, None, 0, 0)],
)
def test_num_fewshot_overrides_the_task_file(
    lab: TaskProject, written: int | None, given: int | None, ours: int, theirs: int
) -> None:
    """Also a 0 in the file, which the harness does not allow."""
    fewshot = {"sampler": "first_n", "samples": OTHERS}
    lab.task(docs=DOCS, num_fewshot=written, fewshot_config=fewshot)
    result = lab.run(num_fewshot=given)
    assert ({len(shots) for shots in shown(result)}, result.file["n-shot"]["t"]) == ({ours}, ours)
    assert lab.run(num_fewshot=given, lm_eval_quirks=True).file["n-shot"]["t"] == theirs


def test_a_missing_split_for_examples_is_an_error_before_the_first_request(lab: TaskProject) -> None:
    """A custom_dataset may have no split for examples."""
    lab.task(docs=DOCS, num_fewshot=1, fewshot_split="shots")
    with pytest.raises(InputError, match="there is no split 'shots'; there are test"):
        lab.run()


def test_examples_are_processed_like_the_documents(lab: TaskProject) -> None:
    """`process_docs` is applied to the pool as well; fewshot_config may have its own."""
    lab.write(
        "utils.py",
        "def loud(data):\n    return data.map(lambda d: {'q': d['q'].upper()})\n"
        "def mine(data):\n    return data.map(lambda d: {'q': d['q'] + '~'})\n",
    )
    lab.data("o.jsonl", OTHERS)
    kwargs = files(test="t", train="o")
    fewshot: dict[str, Any] = {"sampler": "first_n"}
    changes: dict[str, Any] = {"dataset_kwargs": kwargs, "process_docs": Fn("utils.loud"), "num_fewshot": 1}
    lab.task(docs=DOCS, training_split="train", fewshot_config=fewshot, **changes)
    assert lab.run().prompts()[0] == "O1 1\n\nE1"
    lab.task(
        docs=DOCS,
        fewshot_split="train",
        fewshot_config=fewshot | {"process_docs": Fn("utils.mine")},
        **changes,
    )
    assert lab.run().prompts()[0] == "o1~ 1\n\nE1"


def test_an_example_that_cannot_be_written_is_the_documents_failure(lab: TaskProject) -> None:
    """Refused where the first document shows it."""
    fewshot = {"sampler": "first_n", "samples": [{"q": "only"}]}
    lab.task(docs=DOCS, num_fewshot=1, fewshot_config=fewshot)
    with pytest.raises(InputError, match=r"t.yaml:\d+ doc_to_target: .*'a' is"):
        lab.run()
