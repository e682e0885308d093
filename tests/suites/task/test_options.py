"""Options of `assay task`: selected documents, requests and metrics."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from assay.core.errors import UsageError

from support.task_project import Fn, TaskProject, docs_of

FIVE = docs_of("0=0", "1=1", "2=0", "3=3", "4=0")


# Which documents


def test_selected_documents_keep_their_numbers(lab: TaskProject) -> None:
    """In data order, each once."""
    lab.task(docs=FIVE)
    result = lab.run(samples={"t": [3, 1, 3]})
    assert (result.column("doc_id"), result.prompts()) == ([1, 3], ["1", "3"])
    assert result.file["n-samples"]["t"] == {"original": 5, "effective": 2}
    assert result.results["t"]["exact_match,none"] == 1.0
    assert (result.run.info.total, result.run.summary.state) == (2, "finished")


def test_samples_skips_tasks_it_does_not_name(lab: TaskProject) -> None:
    """Only tasks in --samples run."""
    lab.task(docs=FIVE)
    lab.task("u.yaml", FIVE)
    result = lab.run("t.yaml", "u.yaml", samples={"u": [0]})
    assert list(result.results) == ["u"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": {"t": [5]}}, "--samples: t has no document 5; it has 5, from 0 on"),
        ({"samples": {"t": [-1]}}, "--samples: t has no document -1"),
        ({"samples": {"u": [0]}}, "--samples names 'u', which is not among the tasks"),
        ({"samples": {"t": [0]}, "limit": 2}, "--samples and --limit both select documents"),
    ],
)
def test_unknown_samples_are_refused(lab: TaskProject, options: dict[str, Any], message: str) -> None:
    """Before the first request."""
    lab.task(docs=FIVE)
    with pytest.raises(UsageError, match=message):
        lab.run(**options)
    assert not list((lab.folder / "out").glob("assay/*"))


@pytest.mark.parametrize("name", ["../own", "/own"])
def test_the_name_of_the_results_file_leads_nowhere_else(lab: TaskProject, name: str) -> None:
    """It stands in run.json, which may be somebody else's."""
    lab.task(docs=FIVE)
    with pytest.raises(UsageError, match="is no name of a file in the output folder"):
        lab.run(results_name=name)


@pytest.mark.parametrize(("limit", "count"), [(2, 2), (0.3, 2), (0.2, 1), (0.01, 1), (1.0, 1), (9, 5), (0.99, 5)])
def test_a_limit_below_one_is_a_share_rounded_up(lab: TaskProject, limit: float, count: int) -> None:
    """From one on it is a number of documents."""
    lab.task(docs=FIVE)
    result = lab.run(limit=limit)
    assert len(result.rows()) == count
    assert result.file["n-samples"]["t"] == {"original": 5, "effective": count}


def test_a_limit_counts_documents_after_process_docs(lab: TaskProject) -> None:
    """A share is one of those that are left."""
    lab.write("utils.py", "def half(data):\n    return data.select(range(2))\n")
    lab.task(docs=FIVE, process_docs=Fn("utils.half"))
    assert len(lab.run(limit=0.5).rows()) == 1


# How they are asked


def test_gen_kwargs_override_the_task_file(lab: TaskProject) -> None:
    """One by one; rows and configuration show the values that were used."""
    lab.task(docs=FIVE, generation_kwargs={"until": ["x"], "temperature": 0})
    result = lab.run(gen_kwargs={"temperature": 0.5, "top_p": 0.9}, limit=1)
    expected = {"until": ["x"], "temperature": 0.5, "top_p": 0.9}
    assert result.rows()[0]["arguments"]["gen_args_0"]["arg_1"] == expected
    assert result.file["configs"]["t"]["generation_kwargs"] == expected
    assert result.file["config"]["gen_kwargs"] == {"temperature": 0.5, "top_p": 0.9}


def test_gen_kwargs_have_no_effect_on_likelihoods(lab: TaskProject) -> None:
    """They generate no text."""
    lab.task(docs=docs_of("x=0"), output_type="multiple_choice", doc_to_choice=["a"])
    result = lab.run(gen_kwargs={"temperature": 0.5}, model=lab.likely({" a": (-1.0, True)}))
    assert "generation_kwargs" not in result.file["configs"]["t"]


def test_what_the_task_leaves_open_is_filled_in_as_by_the_harness(lab: TaskProject) -> None:
    """Without generation_kwargs; with them only `until` is."""
    lab.task(docs=FIVE, fewshot_delimiter="##")
    filled = {"temperature": 0.0, "do_sample": False, "max_gen_toks": 256, "until": ["##"]}
    assert lab.run(limit=1).rows()[0]["arguments"]["gen_args_0"]["arg_1"] == filled
    lab.task(docs=FIVE, generation_kwargs={"temperature": 1})
    some = {"temperature": 1.0, "until": ["\n\n"]}
    assert lab.run(limit=1).rows()[0]["arguments"]["gen_args_0"]["arg_1"] == some


def test_seeds_reach_the_code_that_orders_documents(lab: TaskProject) -> None:
    """The same seed, the same order; the first and second of the harness's four are random's and numpy's."""
    lab.write(
        "utils.py",
        "import random\nimport numpy\n\n"
        "def mixed(data):\n"
        "    docs = list(data)\n    random.shuffle(docs)\n"
        "    return [{**doc, 'n': int(numpy.random.randint(1000))} for doc in docs]\n",
    )
    lab.task(docs=FIVE, process_docs=Fn("utils.mixed"))

    def order(**options: Any) -> tuple[list[Any], list[Any]]:
        rows = lab.run(fresh=True, **options).rows()
        return [row["doc"]["q"] for row in rows], [row["doc"]["n"] for row in rows]

    first = order(seeds=[1, 2, 3, 4])
    assert order(seeds=[1, 2, 9, 9]) == first
    assert order(seeds=[5, 2, 3, 4])[0] != first[0]
    assert order(seeds=[1, 6, 3, 4])[1] != first[1]


def test_results_contain_the_seeds(lab: TaskProject) -> None:
    """One number sets all four; the default is the harness's 0, 1234, 1234, 1234."""
    lab.task(docs=FIVE)
    names = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")

    def seeds(**options: Any) -> list[Any]:
        config = lab.run(limit=1, **options).file["config"]
        return [config[name] for name in names]

    assert seeds() == [0, 1234, 1234, 1234]
    assert seeds(seed=7) == [7, 7, 7, 7]
    assert seeds(seeds=[1, None, 3, 4]) == [1, None, 3, 4]
    with pytest.raises(UsageError, match="--seed takes one number or four, not 3"):
        seeds(seeds=[1, 2, 3])


def test_results_contain_the_metadata(lab: TaskProject) -> None:
    """Merged over the task's own, with the file it came from."""
    lab.task(docs=FIVE, metadata={"version": 2.0, "kept": 1, "changed": 1})
    result = lab.run(metadata={"changed": 2}, limit=1)
    metadata = result.file["configs"]["t"]["metadata"]
    assert (metadata["kept"], metadata["changed"], metadata["config_source"]) == (1, 2, "t.yaml")
    assert result.file["versions"]["t"] == 2.0


def test_an_unsafe_task_needs_a_flag(lab: TaskProject) -> None:
    """The error names the task; with the flag it runs."""
    lab.task(docs=FIVE, unsafe_code=True)
    with pytest.raises(
        UsageError, match="the task t executes code that the model writes; pass --confirm-run-unsafe-code"
    ):
        lab.run()
    assert lab.run(confirm_run_unsafe_code=True).run.exit_code == 0


# What is computed


def test_predict_only_computes_no_metric(lab: TaskProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the metric's extra nor the task's code is needed; rows have `bypass`."""
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    lab.task(docs=FIVE, metric_list=[{"metric": "bleu"}, {"metric": "nobody"}])
    result = lab.run(predict_only=True, log_samples=False)
    assert (result.column("bypass"), result.rows()[0]["metrics"]) == ([None] * 5, ["bypass"])
    assert result.column("filtered_resps") == [["0"], ["1"], ["2"], ["3"], ["4"]]
    assert result.results["t"]["bypass,none"] == 999
    assert result.results["t"]["bypass_stderr,none"] == "N/A"
    assert result.file["higher_is_better"] == {"t": {"bypass": True}}
    keys = list(result.file["configs"]["t"])
    assert result.file["configs"]["t"]["process_results"] == "process_results"
    assert keys.index("process_results") == keys.index("doc_to_target") + 2, "after unsafe_code, as in the harness"


def test_predict_only_does_not_call_process_results(lab: TaskProject) -> None:
    """It is not even imported."""
    lab.task(docs=FIVE, process_results=Fn("nowhere_at_all.grade"), metric_list=[{"metric": "m"}])
    assert lab.run(predict_only=True).results["t"]["bypass,none"] == 999


def test_predict_only_writes_likelihoods(lab: TaskProject) -> None:
    """For multiple choice."""
    lab.task(docs=docs_of("x=0"), output_type="multiple_choice", doc_to_choice=["a", "b"])
    result = lab.run(predict_only=True, model=lab.likely({" a": (-1.0, True), " b": (-2.0, False)}))
    assert result.column("filtered_resps") == [[["-1.0", "True"], ["-2.0", "False"]]]
    assert "acc,none" not in result.results["t"]


def test_predictions_are_scored_later_without_requests(lab: TaskProject) -> None:
    """--predict-only does not affect replies."""
    lab.task(docs=FIVE)
    first = lab.run(predict_only=True)
    graded = lab.run()
    assert graded.run.folder == first.run.folder
    assert graded.run.summary.this_start["paid"] == 0
    assert graded.results["t"]["exact_match,none"] == 0.6


def test_bootstrap_iters_0_turns_standard_errors_off(lab: TaskProject) -> None:
    """Of means too."""
    lab.task(docs=FIVE, metric_list=[{"metric": "exact_match"}])
    result = lab.run(bootstrap_iters=0)
    assert result.results["t"]["exact_match_stderr,none"] == "N/A"
    assert result.file["config"]["bootstrap_iters"] == 0
    assert lab.run().results["t"]["exact_match_stderr,none"] == pytest.approx(0.244948974)


def test_bootstrap_iters_sets_the_number_of_draws(lab: TaskProject) -> None:
    """The standard error of a median depends on it."""
    lab.task(docs=FIVE, metric_list=[{"metric": "exact_match", "aggregation": "median"}])
    few = lab.run(bootstrap_iters=100).results["t"]["exact_match_stderr,none"]
    more = lab.run(bootstrap_iters=3000).results["t"]["exact_match_stderr,none"]
    assert few != more
    assert few == pytest.approx(more, abs=0.1)


def test_no_log_samples_writes_only_the_results_file(lab: TaskProject) -> None:
    """Without hashes of rows."""
    lab.task(docs=FIVE)
    result = lab.run(log_samples=False)
    assert len(result.run.files) == 1
    assert "task_hashes" not in result.file
    assert result.results["t"]["exact_match,none"] == 0.6


def test_a_command_without_a_task_gets_a_hint(lab: TaskProject) -> None:
    """The message shows the command."""
    import assay

    with pytest.raises(UsageError, match="no task given; use: assay task FILE.yaml --model PROVIDER/NAME"):
        assay.run(assay.spec("task", tasks=[], model="python/model.py:echo"))


@pytest.mark.parametrize(
    ("model", "args", "message"),
    [
        ("local-completions", {}, "--model local-completions needs the model's name"),
        (
            "python/model.py:echo",
            {"api_key": "x"},
            "--model-args api_key: API keys are read from the environment",
        ),
        ("python/model.py:echo", {"num_concurrent": "many"}, "--model-args"),
    ],
)
def test_invalid_model_args_are_refused(lab: TaskProject, model: str, args: dict[str, Any], message: str) -> None:
    """An API key is never written to a file."""
    lab.task()
    with pytest.raises(UsageError, match=message):
        lab.run(model=model, model_args=args)


def test_long_names_of_task_and_model_are_cut_in_names_of_files_only(lab: TaskProject) -> None:
    """A model is often a path. Before, all requests were paid, and then no file could be written."""
    folder = "/".join(letter * 120 for letter in "abc")
    (lab.folder / folder).mkdir(parents=True)
    (lab.folder / folder / "own.py").write_text((lab.folder / "model.py").read_text())
    name = "long" * 80
    lab.task(docs=FIVE, task=name)
    result = lab.run(model=f"python/{folder}/own.py:echo")
    assert result.run.exit_code == 0
    results, samples = result.run.files
    assert results.parent.name.startswith("a" * 120 + "__" + "b" * 120)
    assert len(results.parent.name.encode()) == 255
    assert samples.name.startswith("samples_longlong")
    assert list(result.results) == [name]
    assert result.file["model_name_sanitized"] == f"{folder.replace('/', '__')}__own.py__echo"
    assert result.run.files == lab.run(model=f"python/{folder}/own.py:echo").run.files


def test_a_model_name_with_nul_is_refused(lab: TaskProject) -> None:
    lab.task(docs=FIVE)
    with pytest.raises(UsageError, match="has the character NUL"):
        lab.run(model="script/x\0y")
