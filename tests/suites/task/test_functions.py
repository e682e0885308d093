"""`!function`: Python beside a task file, wherever it may stand, and what is said when it fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import InputError, UsageError

from support.commands import environment
from support.lab import Fn, Lab, docs_of

FOUR = docs_of("1=1", "2=0", "3=3", "4=4")


def asked(lab: Lab) -> bool:
    """Whether anything was asked, or any run begun."""
    return any((lab.folder / "out").glob("assay/*/calls.jsonl"))


def refused(lab: Lab, match: str, **changes: Any) -> None:
    """The task is refused with this message before anything is asked."""
    lab.task(docs=FOUR, **changes)
    with pytest.raises(InputError, match=match):
        lab.run()
    assert not asked(lab)


# What is asked


@pytest.mark.parametrize("place", ["evaluated", "examples"])
def test_documents_that_differ_in_every_start_are_refused(lab: Lab, place: str) -> None:
    """A run that was interrupted asks nothing more when process_docs gives something else."""
    lab.write(
        "utils.py", "import os\n\ndef any(data):\n    return data.map(lambda d: {'x': os.urandom(9).hex()})\n"
    )
    own = {"process_docs": Fn("utils.any")}
    shown = {"num_fewshot": 1, "fewshot_config": {"split": "test", **own}}
    lab.task(docs=FOUR, **(own if place == "evaluated" else shown))
    spec = lab.spec(max_calls=2, concurrency=1)
    assert assay.run(spec).exit_code == 3
    (calls,) = Path("out").glob("assay/*/calls.jsonl")
    before = calls.read_bytes()
    with pytest.raises(UsageError, match=r"process_docs: it gives other documents than when this run began"):
        lab.run()
    assert calls.read_bytes() == before


@pytest.mark.parametrize("key", ["custom_dataset", "samples"])
def test_data_made_by_chance_is_the_same_in_every_start(lab: Lab, key: str) -> None:
    """As the harness seeds `random` before it loads tasks; so the same command finds its run."""
    lab.write(
        "utils.py",
        "import random\n\n"
        "def rows():\n    return [{'q': str(random.random()), 'a': 'x'} for _ in range(3)]\n\n"
        "def sets(**_):\n    return {'test': rows()}\n",
    )
    shown = {"num_fewshot": 1, "fewshot_config": {"samples": Fn("utils.rows")}}
    made = {"custom_dataset": Fn("utils.sets"), "dataset_path": None, "dataset_kwargs": None}
    lab.task(docs=FOUR, **(made if key == "custom_dataset" else shown))
    first = lab.run()
    assert lab.run().run.folder == first.run.folder


def test_process_docs_makes_the_documents(lab: Lab) -> None:
    """Rows show what it made; a data set that shrinks has as many documents as are left."""
    lab.write(
        "utils.py",
        "def keep(data):\n"
        "    return data.filter(lambda d: d['q'] != '2').map(lambda d: {'q': d['q'] + '!', 'n': len(d['q'])})\n",
    )
    lab.task(docs=FOUR, process_docs=Fn("utils.keep"))
    found = lab.run()
    assert found.asked() == ["1!", "3!", "4!"]
    assert found.rows()[0]["doc"] == {"q": "1!", "a": "1", "n": 1}
    assert found.file["n-samples"]["t"] == {"original": 3, "effective": 3}


def test_process_docs_may_return_a_list(lab: Lab) -> None:
    """Any iterable of documents."""
    lab.write("utils.py", "def keep(data):\n    return [{'q': d['q'] * 2, 'a': d['a'] * 2} for d in data]\n")
    lab.task(docs=FOUR, process_docs=Fn("utils.keep"))
    found = lab.run()
    assert (found.asked(), found.results["t"]["exact_match,none"]) == (["11", "22", "33", "44"], 0.75)


def test_random_prompts_are_drawn_the_same_each_time(lab: Lab) -> None:
    """What rows show is what was asked, a new start asks the same; documents differ, and so do seeds."""
    lab.write("utils.py", "import random\n\ndef text(d):\n    return f'{d[\"q\"]} {random.random()}'\n")
    lab.task(docs=FOUR, doc_to_text=Fn("utils.text"))
    found = lab.run()
    assert [[[prompt]] for prompt in found.asked()] == found.column("resps")
    assert len({prompt.split()[1] for prompt in found.asked()}) == len(FOUR)
    assert lab.run(output_dir="again").asked() == found.asked()
    assert lab.run(output_dir="other", seed=7).asked() != found.asked()


def test_random_examples_are_the_same_whichever_document_is_asked_first(lab: Lab) -> None:
    """A run that was stopped goes on with the examples it began with."""
    lab.write("utils.py", "import random\n\ndef text(d):\n    return f'{d[\"q\"]} {random.random()}'\n")
    shots = {"sampler": "first_n", "samples": [{"q": "example", "a": "x"}]}
    lab.task(docs=FOUR, doc_to_text=Fn("utils.text"), num_fewshot=1, fewshot_config=shots)
    assert assay.run(lab.spec(max_calls=2, concurrency=1)).exit_code == 3
    calls = (lab.run(concurrency=1).run.folder / "calls.jsonl").read_text().splitlines()
    sent = [json.loads(line)["request"]["prompt"] for line in calls if '"request"' in line]
    assert len(sent) == len(FOUR)
    assert len({prompt.partition("\n\n")[0] for prompt in sent}) == 1


def test_text_target_and_choice_may_be_functions(lab: Lab) -> None:
    """Each is called with the document; what it returns is taken as it is, never read as a list."""
    lab.write(
        "utils.py",
        "def text(doc):\n    return f\"Q {doc['q']}\"\n"
        "def target(doc):\n    return int(doc['a'])\n"
        "def choice(doc):\n    return ['no', f\"yes {doc['q']}\"]\n",
    )
    changes: dict[str, Any] = {
        "output_type": "multiple_choice",
        "doc_to_text": Fn("utils.text"),
        "doc_to_target": Fn("utils.target"),
        "doc_to_choice": Fn("utils.choice"),
    }
    lab.task(docs=docs_of("x=1", "y=0"), **changes)
    model = lab.likely({" no": (-1.0, True), " yes x": (-0.5, False), " yes y": (-2.0, False)})
    found = lab.run(model=model)
    assert found.column("acc") == [1.0, 1.0]
    assert found.column("target") == ["1", "0"]
    assert found.asked() == ["Q x", "Q y"]


def test_a_function_is_looked_for_beside_the_file_that_names_it(lab: Lab) -> None:
    """An included file in another folder brings its own Python; dots are folders."""
    lab.write("base/deep/utils.py", "def text(doc):\n    return 'base ' + doc['q']\n")
    lab.write("utils.py", "def text(doc):\n    return 'wrong'\n")
    lab.task("other.yaml", FOUR, doc_to_text=None)
    lab.write("base/b.yaml", "doc_to_text: !function deep.utils.text\n")
    lab.write("t.yaml", "include: [other.yaml, base/b.yaml]\ntask: t\n")
    assert lab.run().asked()[0] == "base 1"


def test_python_beside_a_task_may_import_its_neighbours(lab: Lab) -> None:
    """As if it had been started in its folder."""
    lab.write("tasks/neighbour_of_t.py", "MARK = 'marked '\n")
    lab.write(
        "tasks/utils.py",
        "from neighbour_of_t import MARK\n\ndef text(doc):\n    return MARK + doc['q']\n",
    )
    lab.task("tasks/t.yaml", FOUR, doc_to_text=Fn("utils.text"))
    assert lab.run("tasks/t.yaml").asked()[0] == "marked 1"


def test_a_function_may_come_from_an_installed_module(lab: Lab) -> None:
    """Where no file of that name stands beside the task."""
    lab.task(docs=FOUR, doc_to_text=Fn("json.dumps"))
    assert lab.run().asked()[0] == json.dumps(FOUR[0])


def test_custom_dataset_makes_the_splits(lab: Lab) -> None:
    """It is told metadata, --metadata and dataset_kwargs by name; no dataset_path is needed."""
    lab.write(
        "utils.py",
        "def make(**told):\n"
        "    words = [told['own'], told['given'], str(told['size'])]\n"
        "    return {'test': [{'q': word, 'a': word} for word in words], 'train': []}\n",
    )
    metadata = {"own": "o", "version": 1}
    lab.task(
        custom_dataset=Fn("utils.make"), dataset_path=None, dataset_kwargs={"size": 3}, metadata=metadata
    )
    found = lab.run(metadata={"given": "g"})
    assert found.asked() == ["o", "g", "3"]
    assert found.file["configs"]["t"]["metadata"]["given"] == "g"


def test_examples_may_come_from_a_function(lab: Lab) -> None:
    """`fewshot_config.samples: !function` returns the list."""
    lab.write("utils.py", "def shots():\n    return [{'q': 'a', 'a': 'b'}, {'q': 'c', 'a': 'd'}]\n")
    fewshot = {"sampler": "first_n", "samples": Fn("utils.shots")}
    lab.task(docs=FOUR, num_fewshot=2, fewshot_config=fewshot)
    assert lab.run().asked()[0] == "a b\n\nc d\n\n1"


# How it is scored


def test_process_results_may_return_other_metrics_than_declared(lab: Lab) -> None:
    """Undeclared ones are averaged; whole numbers stay whole in rows, and denominators count who has a value."""
    lab.write(
        "utils.py",
        "def grade(doc, results):\n"
        "    found = {'length': len(results[0]), 'right': float(results[0] == doc['a'])}\n"
        "    if doc['q'] != '4':\n        found['big'] = 10 ** 20\n"
        "    return found\n",
    )
    lab.task(
        docs=FOUR, process_results=Fn("utils.grade"), metric_list=[{"metric": "right"}], doc_to_target=None
    )
    found = lab.run()
    assert found.results["t"]["right,none"] == 0.75
    assert found.results["t"]["length,none"] == 1.0
    assert found.column("length") == [1, 1, 1, 1]
    assert [type(value) for value in found.column("length")] == [int] * 4
    assert found.column("right") == [1.0, 0.0, 1.0, 1.0]
    assert found.rows()[3]["metrics"] == ["length", "right"]
    assert (found.metric("big")["n"], found.metric("length")["n"]) == (3, 4)
    assert found.column("big") == [10**20] * 3 + [None]


def test_whole_numbers_stay_whole_in_results(lab: Lab) -> None:
    """A median of whole numbers is one; so is what an own aggregation returns."""
    lab.write(
        "utils.py",
        "def grade(doc, results):\n    return {'m': int(doc['q']), 's': int(doc['q'])}\n"
        "def total(values):\n    return sum(values)\n",
    )
    metrics = [{"metric": "m", "aggregation": "median"}, {"metric": "s", "aggregation": Fn("utils.total")}]
    lab.task(docs=FOUR, process_results=Fn("utils.grade"), metric_list=metrics)
    text = lab.run(bootstrap_iters=0).run.files[0].read_text()
    assert '"m,none": 3,' in text
    assert '"s,none": 10,' in text


def test_process_results_of_likelihoods_gets_pairs(lab: Lab) -> None:
    """(logprob, greedy) for every choice, as tuples."""
    lab.write(
        "utils.py",
        "def grade(doc, results):\n"
        "    assert all(type(one) is tuple for one in results)\n"
        "    return {'gap': results[0][0] - results[1][0], 'greedy': [greedy for _, greedy in results]}\n"
        "def first(values):\n    return values[0][0]\n",
    )
    metrics = [{"metric": "gap"}, {"metric": "greedy", "aggregation": Fn("utils.first")}]
    changes: dict[str, Any] = {"output_type": "multiple_choice", "doc_to_choice": ["a", "b"]}
    lab.task(docs=docs_of("x=a"), process_results=Fn("utils.grade"), metric_list=metrics, **changes)
    found = lab.run(model=lab.likely({" a": (-1.0, True), " b": (-3.0, False)}))
    assert found.results["t"]["gap,none"] == 2.0
    assert found.rows()[0]["greedy"] == [True, False]
    assert found.results["t"]["greedy,none"] is True


def test_an_own_metric_is_called_as_the_harness_calls_it(lab: Lab) -> None:
    """With references and predictions, and its options; its name is the function's."""
    lab.write(
        "utils.py",
        "def close(references, predictions, within):\n"
        "    return abs(int(references[0]) - int(predictions[0])) <= within\n",
    )
    lab.task(docs=docs_of("1=2", "5=9"), metric_list=[{"metric": Fn("utils.close"), "within": 1}])
    found = lab.run()
    assert found.results["t"]["close,none"] == 0.5
    assert found.column("close") == [True, False]


def test_an_own_metric_that_returns_a_mapping_is_several_metrics(lab: Lab) -> None:
    """All of them are made one number by the aggregation of the metric that gave them."""
    lab.write(
        "utils.py",
        "def both(references, predictions):\n"
        "    same = float(references == predictions)\n"
        "    return {'same': same, 'length': len(predictions[0])}\n"
        "def total(values):\n    return sum(values)\n",
    )
    metric = {"metric": Fn("utils.both"), "aggregation": Fn("utils.total"), "higher_is_better": True}
    lab.task(docs=FOUR, metric_list=[metric])
    found = lab.run()
    assert (found.results["t"]["same,none"], found.results["t"]["length,none"]) == (3.0, 4)
    assert found.rows()[0]["metrics"] == ["same", "length"]
    assert found.file["higher_is_better"]["t"] == {"both": True, "same": True, "length": True}


@pytest.mark.parametrize("options", [{}, {"unused": 1}])
def test_an_own_metric_may_take_a_pair(lab: Lab, options: dict[str, Any]) -> None:
    """One that does not know references and predictions is called with [target, answer], without options."""
    lab.write("utils.py", "def same(items):\n    return float(items[0] == items[1])\n")
    lab.task(docs=FOUR, metric_list=[{"metric": Fn("utils.same"), **options}])
    found = lab.run()
    assert found.results["t"]["same,none"] == 0.75


def test_an_own_metric_of_several_targets_is_right_if_one_is(lab: Lab) -> None:
    """Called for each; a mapping is read under the metric's name."""
    lab.write(
        "utils.py",
        "def same(references, predictions):\n    return float(references == predictions)\n"
        "def mapped(references, predictions):\n    return {'mapped': float(references == predictions)}\n",
    )
    metrics = [{"metric": Fn("utils.same")}, {"metric": Fn("utils.mapped")}]
    lab.task(docs=docs_of("1=x", "2=y"), doc_to_target="['1', '{{a}}']", metric_list=metrics)
    found = lab.run()
    assert (found.column("same"), found.column("mapped")) == ([1.0, 0.0], [1.0, 0.0])


def test_an_own_aggregation_gets_all_values_in_data_order(lab: Lab) -> None:
    """Pairs or anything; it has no standard error."""
    lab.write(
        "utils.py",
        "def grade(doc, results):\n    return {'pair': (doc['q'], results[0])}\n"
        "def last(values):\n    return ''.join(question for question, _ in values)\n",
    )
    metric = {"metric": "pair", "aggregation": Fn("utils.last")}
    lab.task(docs=FOUR, process_results=Fn("utils.grade"), metric_list=[metric])
    found = lab.run()
    assert found.results["t"]["pair,none"] == "1234"
    assert found.results["t"]["pair_stderr,none"] == "N/A"


def test_a_custom_filter_gets_replies_and_documents(lab: Lab) -> None:
    """`custom` with filter_fn: lists of documents, one document at a time."""
    lab.write(
        "utils.py",
        "def mine(resps, docs):\n"
        "    return [[docs[0]['a'] if reply == '2' else reply for reply in each] for each in resps]\n",
    )
    chain = [{"function": "custom", "filter_fn": Fn("utils.mine")}, {"function": "take_first"}]
    lab.task(docs=FOUR, filter_list=[{"name": "mine", "filter": chain}])
    assert lab.run().results["t"]["exact_match,mine"] == 1.0


def test_a_filter_may_be_a_class(lab: Lab) -> None:
    """Made once with its options; `apply(resps, docs)` as in the harness."""
    lab.write(
        "utils.py",
        "class Add:\n"
        "    def __init__(self, mark):\n        self.mark = mark\n"
        "    def apply(self, resps, docs):\n        return [[r + self.mark for r in each] for each in resps]\n",
    )
    chain = [{"function": Fn("utils.Add"), "mark": "!"}, {"function": "take_first"}]
    lab.task(docs=docs_of("1=1!"), filter_list=[{"name": "add", "filter": chain}])
    assert lab.run().column("filtered_resps") == [["1!"]]


def test_code_shows_in_results(lab: Lab) -> None:
    """As source; inside filter_list by its name, as the harness writes it."""
    lab.write(
        "utils.py", "def text(doc):\n    return doc['q']\n\n\ndef mine(resps, docs):\n    return resps\n"
    )
    chain = [{"function": "custom", "filter_fn": Fn("utils.mine")}, {"function": "take_first"}]
    lab.task(docs=FOUR, doc_to_text=Fn("utils.text"), filter_list=[{"name": "f", "filter": chain}])
    config = lab.run().file["configs"]["t"]
    assert config["doc_to_text"] == "def text(doc):\n    return doc['q']\n"
    assert config["filter_list"][0]["filter"][0]["filter_fn"] == "<function mine>"


# What can go wrong

PLACES: dict[str, dict[str, Any]] = {
    "doc_to_text": {"doc_to_text": Fn("utils.broken")},
    "doc_to_target": {"doc_to_target": Fn("utils.broken")},
    "process_docs": {"process_docs": Fn("utils.broken")},
    "process_results": {"process_results": Fn("utils.broken")},
    "metric_list": {"metric_list": [{"metric": Fn("utils.broken")}]},
    "aggregation": {"metric_list": [{"metric": "exact_match", "aggregation": Fn("utils.broken")}]},
    "filter_list": {
        "filter_list": [
            {"name": "f", "filter": [{"function": "custom", "filter_fn": Fn("utils.broken")}]},
        ]
    },
    "samples": {"num_fewshot": 1, "fewshot_config": {"samples": Fn("utils.broken")}},
    "custom_dataset": {"custom_dataset": Fn("utils.broken")},
}


def renamed(value: Any) -> Any:
    """The same settings with a module that nobody has."""
    if isinstance(value, dict):
        return {key: renamed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [renamed(item) for item in value]
    return Fn("nowhere_at_all.broken") if isinstance(value, Fn) else value


@pytest.mark.parametrize("place", PLACES)
def test_a_module_that_is_missing_is_said_before_anything_is_asked(lab: Lab, place: str) -> None:
    """With the file that was looked for."""
    match = (
        r"t.yaml:\d+ [^ ]*: !function nowhere_at_all.broken: there is no file nowhere_at_all.py and no module"
    )
    refused(lab, match, **renamed(PLACES[place]))


@pytest.mark.parametrize("place", PLACES)
def test_a_function_that_is_missing_is_said_before_anything_is_asked(lab: Lab, place: str) -> None:
    """With the file that should have it."""
    lab.write("utils.py", "broken = 5\n")
    match = r"^t.yaml:\d+ [^ ]*: !function utils.broken: utils.py has no function 'broken'"
    refused(lab, match, **PLACES[place])


@pytest.mark.parametrize("place", PLACES)
def test_a_module_that_raises_is_said_before_anything_is_asked(lab: Lab, place: str) -> None:
    """With what it raised."""
    lab.write("utils.py", "raise KeyError('no luck')\n")
    refused(
        lab,
        r"^t.yaml:\d+ [^ ]*: !function utils.broken: .*importing it raised KeyError: 'no luck'",
        **PLACES[place],
    )


@pytest.mark.parametrize(
    "place", ["doc_to_text", "doc_to_target", "process_docs", "samples", "custom_dataset"]
)
def test_a_function_that_raises_at_once_is_said_before_anything_is_asked(lab: Lab, place: str) -> None:
    """What the first document shows is refused, with the key and what was raised."""
    lab.write("utils.py", "def broken(*given, **named):\n    raise KeyError('no luck')\n")
    refused(lab, rf"t.yaml:\d+ .*{place}.*KeyError: 'no luck'", **PLACES[place])


def test_a_function_needs_a_module(lab: Lab) -> None:
    """`!function name` alone says nothing about where."""
    refused(lab, r"t.yaml:\d doc_to_text: !function broken: expected module.name", doc_to_text=Fn("broken"))


def test_a_function_where_none_belongs_is_refused(lab: Lab) -> None:
    """Not called, not written as text."""
    refused(lab, r"t.yaml:\d+ repeats: !function utils.n cannot stand here", repeats=Fn("utils.n"))
    where = {"until": [Fn("utils.n")]}
    refused(lab, r"generation_kwargs.until.0: !function utils.n cannot stand", generation_kwargs=where)


def test_a_filter_class_without_apply_is_refused(lab: Lab) -> None:
    """Before anything is asked."""
    lab.write("utils.py", "class Bad:\n    pass\n")
    chain = [{"function": Fn("utils.Bad")}]
    refused(
        lab,
        r"filter_list.0.filter.0: !function utils.Bad: a filter has a method apply",
        filter_list=[{"name": "f", "filter": chain}],
    )


@pytest.mark.parametrize("place", ["doc_to_text", "doc_to_target"])
def test_a_document_on_which_code_raises_fails_alone(lab: Lab, place: str) -> None:
    """The others are asked and scored; the row says why, and where the document stands."""
    lab.write("utils.py", "def broken(doc):\n    return {'1': '1', '3': '3', '4': '4'}[doc['q']]\n")
    lab.task(docs=FOUR, **PLACES[place])
    found = lab.run()
    assert (found.run.exit_code, found.run.summary.infra_error) == (3, 1)
    assert found.metric("exact_match")["n"] == 3
    assert found.metric("exact_match")["left_out"] == {"infra_error": 1}
    error = found.rows()[1]["error"]
    assert "!function utils.broken raised KeyError: '2'" in error
    assert "t.jsonl:2" in error
    assert found.results["t"]["exact_match,none"] == 1.0


@pytest.mark.parametrize(
    "code",
    [
        {"process_results": Fn("utils.grade"), "metric_list": [{"metric": "m"}]},
        {"metric_list": [{"metric": Fn("utils.m")}]},
        {
            "filter_list": [{"name": "none", "filter": [{"function": "custom", "filter_fn": Fn("utils.f")}]}],
            "metric_list": [{"metric": Fn("utils.fine")}],
        },
    ],
)
def test_a_document_on_which_scoring_raises_loses_its_score_alone(lab: Lab, code: dict[str, Any]) -> None:
    """It was asked and is not asked again; its row names the error, and the mean is of the others."""
    lab.write(
        "utils.py",
        "def m(references, predictions):\n    return 1 / (int(predictions[0]) - 2)\n"
        "def grade(doc, results):\n    return {'m': m(None, results)}\n"
        "def fine(references, predictions):\n    return predictions[0]\n"
        "def f(resps, docs):\n    return [m(None, each) for each in resps]\n",
    )
    lab.task(docs=FOUR, **code)
    found = lab.run()
    name = "fine" if "filter_list" in code else "m"
    assert found.run.summary.ok == 4
    assert found.metric(name)["n"] == 3
    assert found.metric(name)["left_out"] == {"invalid": 1}
    assert "ZeroDivisionError: division by zero" in found.rows()[1]["error"]
    assert found.rows()[1]["resps"] == [["2"]]
    assert found.results["t"][f"{name},none"] == pytest.approx((-1 + 1 + 0.5) / 3)


def test_an_aggregation_that_raises_costs_its_number_alone(lab: Lab) -> None:
    """Everything was asked: the other numbers and the rows are written, and the error is named."""
    lab.write("utils.py", "def bad(values):\n    raise ValueError('no luck')\n")
    metrics = [{"metric": "exact_match"}, {"metric": "acc", "aggregation": Fn("utils.bad")}]
    lab.write("grade.py", "def grade(doc, results):\n    return {'exact_match': 1.0, 'acc': 1.0}\n")
    lab.task(docs=FOUR, process_results=Fn("grade.grade"), metric_list=metrics)
    found = lab.run()
    assert found.results["t"]["exact_match,none"] == 1.0
    assert found.results["t"]["acc,none"] is None
    assert found.metric("acc")["reason"] == "!function utils.bad raised ValueError: no luck"
    assert len(found.rows()) == 4


@pytest.mark.parametrize("aggregation", ["f1", "weighted_perplexity", "brier_score"])
def test_an_aggregation_of_ours_may_meet_values_it_cannot_take(lab: Lab, aggregation: str) -> None:
    """What `process_results` gives is known when everything was asked; the other numbers are written."""
    lab.write("grade.py", "def grade(doc, results):\n    return {'acc': 1.0, 'v': 1.0}\n")
    metrics = [{"metric": "acc"}, {"metric": "v", "aggregation": aggregation}]
    lab.task(docs=FOUR, process_results=Fn("grade.grade"), metric_list=metrics)
    found = lab.run()
    assert (found.results["t"]["acc,none"], found.results["t"]["v,none"]) == (1.0, None)
    assert found.metric("v")["reason"].startswith(f"{aggregation} raised TypeError: ")


def test_a_document_that_process_results_says_nothing_of_is_not_scored(lab: Lab) -> None:
    """It was answered well; it is left out all the same, and that is what stands beside the number."""
    lab.write("grade.py", "def grade(doc, results):\n    return {'v': 1.0} if doc['q'] < '2' else {}\n")
    lab.task(docs=FOUR, process_results=Fn("grade.grade"), metric_list=[{"metric": "v"}])
    found = lab.run().metric("v")
    assert (found["n"], found["left_out"]) == (1, {"not scored": 3})


def test_nanmean_leaves_out_what_is_no_number(lab: Lab) -> None:
    """Rows show NaN as the harness writes it; a mean refuses it."""
    lab.write(
        "grade.py",
        "def grade(doc, results):\n"
        "    value = float('nan') if doc['q'] == '2' else float(doc['q'])\n"
        "    return {'v': value, 'w': value}\n",
    )
    metrics = [{"metric": "v", "aggregation": "nanmean"}, {"metric": "w"}]
    lab.task(docs=FOUR, process_results=Fn("grade.grade"), metric_list=metrics)
    found = lab.run()
    assert found.results["t"]["v,none"] == pytest.approx(8 / 3)
    assert '"v": NaN' in found.run.files[1].read_text().splitlines()[1]
    assert found.metric("w")["left_out"] == {"invalid": 1}


def test_a_number_too_large_costs_one_score(lab: Lab) -> None:
    """Python's whole numbers have no end; floats and JSON have."""
    lab.write(
        "utils.py",
        "def m(references, predictions):\n    return 10 ** (400 if predictions == ['2'] else 30)\n",
    )
    lab.task(docs=FOUR, metric_list=[{"metric": Fn("utils.m")}])
    found = lab.run()
    assert found.metric("m")["left_out"] == {"invalid": 1}
    assert found.results["t"]["m,none"] == pytest.approx(1e30)


def test_a_metric_that_raises_a_type_error_is_named_with_its_own(lab: Lab) -> None:
    """The harness calls again in an older way; what that raises says nothing."""
    lab.write("utils.py", "def m(references, predictions):\n    return len(5)\n")
    lab.task(docs=FOUR, metric_list=[{"metric": Fn("utils.m")}])
    assert "object of type 'int' has no len()" in lab.run().rows()[0]["error"]


# What changed code means


def again(lab: Lab) -> dict[str, Any]:
    """`assay task` as a process of its own, so that changed Python is read anew: what the run says of itself."""
    command = [sys.executable, "-m", "assay", "task", "t.yaml", "--model", "python/model.py:echo"]
    done = subprocess.run(
        [*command, "--output-dir", "out", "--quiet"],
        cwd=lab.folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    folders = sorted(Path("out/assay").iterdir())
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in folders]
    return {"runs": len(folders), "last": summaries[-1]}


def test_changed_scoring_code_regrades_and_changed_asking_code_asks(lab: Lab) -> None:
    """What affects scores only is graded anew without a request; what affects prompts is another run."""
    lab.write("score.py", "def grade(doc, results):\n    return {'m': 1.0}\n")
    lab.write("ask.py", "def text(doc):\n    return doc['q']\n")
    lab.task(
        docs=FOUR,
        doc_to_text=Fn("ask.text"),
        process_results=Fn("score.grade"),
        metric_list=[{"metric": "m"}],
    )
    first = again(lab)
    assert first["last"]["results"]["t"]["metrics"][0]["value"] == 1.0
    lab.write("score.py", "def grade(doc, results):\n    return {'m': 0.5}\n")
    second = again(lab)
    assert second["runs"] == 1
    assert second["last"]["results"]["t"]["metrics"][0]["value"] == 0.5
    assert second["last"]["this_start"]["paid"] == 0
    lab.write("ask.py", "def text(doc):\n    return doc['q'] + '?'\n")
    assert again(lab)["runs"] == 2


@pytest.mark.parametrize(
    ("imported", "helper"),
    [
        ("from helper import said", "helper.py"),
        ("import helper as h\nsaid = h.said", "helper.py"),
        ("from pack.deep import said", "pack/deep.py"),
        ("from pack import said", "pack/deep.py"),
        (
            "try:\n    from ...pack import nothing\nexcept ImportError:\n    from pack import said",
            "pack/deep.py",
        ),
    ],
)
def test_a_changed_helper_is_changed_code(lab: Lab, imported: str, helper: str) -> None:
    """A file that imports another one does something else when that one changes."""
    lab.write("pack/__init__.py", "from .deep import said\n")
    lab.write("pack/deep.py", "said = '?'\n")
    lab.write("helper.py", "said = '?'\n")
    lab.write("ask.py", f"import json\n{imported}\n\ndef text(doc):\n    return doc['q'] + said\n")
    lab.task(docs=FOUR, doc_to_text=Fn("ask.text"))
    again(lab)
    lab.write("unrelated.py", "said = '!'\n")
    assert again(lab)["runs"] == 1
    lab.write(helper, "said = '!'\n")
    assert again(lab)["runs"] == 2
