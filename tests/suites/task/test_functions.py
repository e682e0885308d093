"""`!function`: Python in the folder of a task file, in every setting that allows it."""

from __future__ import annotations

import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import InputError, UsageError

from support.suite_files import problems_in
from support.task_project import FOUR, Fn, TaskProject, docs_of

# What is asked


@pytest.mark.parametrize("place", ["evaluated", "examples"])
def test_documents_that_differ_in_every_start_are_refused(lab: TaskProject, place: str) -> None:
    """An interrupted run stops if process_docs returns other documents."""
    lab.write("utils.py", "import os\n\ndef any(data):\n    return data.map(lambda d: {'x': os.urandom(9).hex()})\n")
    own = {"process_docs": Fn("utils.any")}
    shown = {"num_fewshot": 1, "fewshot_config": {"split": "test", **own}}
    lab.task(docs=FOUR, **(own if place == "evaluated" else shown))
    spec = lab.spec(max_calls=2, concurrency=1)
    assert assay.run(spec).exit_code == 3
    (calls,) = Path("out").glob("assay/*/calls.jsonl")
    before = calls.read_bytes()
    with pytest.raises(UsageError, match=r"process_docs: it returns different documents than when this run started"):
        lab.run()
    assert calls.read_bytes() == before


@pytest.mark.parametrize("key", ["custom_dataset", "samples"])
def test_random_data_is_the_same_in_every_start(lab: TaskProject, key: str) -> None:
    """`random` is seeded as in the harness, so the same command finds its run."""
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


def test_process_docs_makes_the_documents(lab: TaskProject) -> None:
    """Rows show what it made; a data set that shrinks has as many documents as are left."""
    lab.write(
        "utils.py",
        "def keep(data):\n"
        "    return data.filter(lambda d: d['q'] != '2').map(lambda d: {'q': d['q'] + '!', 'n': len(d['q'])})\n",
    )
    lab.task(docs=FOUR, process_docs=Fn("utils.keep"))
    result = lab.run()
    assert result.prompts() == ["1!", "3!", "4!"]
    assert result.rows()[0]["doc"] == {"q": "1!", "a": "1", "n": 1}
    assert result.file["n-samples"]["t"] == {"original": 3, "effective": 3}


def test_process_docs_may_return_a_list(lab: TaskProject) -> None:
    """Any iterable of documents."""
    lab.write("utils.py", "def keep(data):\n    return [{'q': d['q'] * 2, 'a': d['a'] * 2} for d in data]\n")
    lab.task(docs=FOUR, process_docs=Fn("utils.keep"))
    result = lab.run()
    assert (result.prompts(), result.results["t"]["exact_match,none"]) == (["11", "22", "33", "44"], 0.75)


def test_random_prompts_are_drawn_the_same_each_time(lab: TaskProject) -> None:
    """Rows show the prompts that were sent, and a new start sends the same; other seeds give others."""
    lab.write("utils.py", "import random\n\ndef text(d):\n    return f'{d[\"q\"]} {random.random()}'\n")
    lab.task(docs=FOUR, doc_to_text=Fn("utils.text"))
    result = lab.run()
    assert [[[prompt]] for prompt in result.prompts()] == result.column("resps")
    assert len({prompt.split()[1] for prompt in result.prompts()}) == len(FOUR)
    assert lab.run(output_dir="again").prompts() == result.prompts()
    assert lab.run(output_dir="other", seed=7).prompts() != result.prompts()


def test_random_examples_are_the_same_whichever_document_is_asked_first(lab: TaskProject) -> None:
    """A continued run uses the examples of its first start."""
    lab.write("utils.py", "import random\n\ndef text(d):\n    return f'{d[\"q\"]} {random.random()}'\n")
    shots = {"sampler": "first_n", "samples": [{"q": "example", "a": "x"}]}
    lab.task(docs=FOUR, doc_to_text=Fn("utils.text"), num_fewshot=1, fewshot_config=shots)
    assert assay.run(lab.spec(max_calls=2, concurrency=1)).exit_code == 3
    calls = (lab.run(concurrency=1).run.folder / "calls.jsonl").read_text().splitlines()
    sent = [json.loads(line)["request"]["prompt"] for line in calls if '"request"' in line]
    assert len(sent) == len(FOUR)
    assert len({prompt.partition("\n\n")[0] for prompt in sent}) == 1


def test_text_target_and_choice_may_be_functions(lab: TaskProject) -> None:
    """Each gets the document; its return value is used unchanged and never parsed as a list."""
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
    result = lab.run(model=model)
    assert result.column("acc") == [1.0, 1.0]
    assert result.column("target") == ["1", "0"]
    assert result.prompts() == ["Q x", "Q y"]


def test_a_function_is_looked_for_beside_the_file_that_names_it(lab: TaskProject) -> None:
    """An included file in another folder brings its own Python; dots are folders."""
    lab.write("base/deep/utils.py", "def text(doc):\n    return 'base ' + doc['q']\n")
    lab.write("utils.py", "def text(doc):\n    return 'wrong'\n")
    lab.task("other.yaml", FOUR, doc_to_text=None)
    lab.write("base/b.yaml", "doc_to_text: !function deep.utils.text\n")
    lab.write("t.yaml", "include: [other.yaml, base/b.yaml]\ntask: t\n")
    assert lab.run().prompts()[0] == "base 1"


def test_python_beside_a_task_may_import_its_neighbours(lab: TaskProject) -> None:
    """As if it had been started in its folder."""
    lab.write("tasks/neighbour_of_t.py", "MARK = 'marked '\n")
    lab.write(
        "tasks/utils.py",
        "from neighbour_of_t import MARK\n\ndef text(doc):\n    return MARK + doc['q']\n",
    )
    lab.task("tasks/t.yaml", FOUR, doc_to_text=Fn("utils.text"))
    assert lab.run("tasks/t.yaml").prompts()[0] == "marked 1"


def test_a_function_may_come_from_an_installed_module(lab: TaskProject) -> None:
    """Where no file of that name stands beside the task."""
    lab.task(docs=FOUR, doc_to_text=Fn("json.dumps"))
    assert lab.run().prompts()[0] == json.dumps(FOUR[0])


def test_custom_dataset_makes_the_splits(lab: TaskProject) -> None:
    """It gets metadata, --metadata and dataset_kwargs by name; dataset_path is not needed."""
    lab.write(
        "utils.py",
        "def make(**told):\n"
        "    words = [told['own'], told['given'], str(told['size'])]\n"
        "    return {'test': [{'q': word, 'a': word} for word in words], 'train': []}\n",
    )
    metadata = {"own": "o", "version": 1}
    lab.task(custom_dataset=Fn("utils.make"), dataset_path=None, dataset_kwargs={"size": 3}, metadata=metadata)
    result = lab.run(metadata={"given": "g"})
    assert result.prompts() == ["o", "g", "3"]
    assert result.file["configs"]["t"]["metadata"]["given"] == "g"


def test_examples_may_come_from_a_function(lab: TaskProject) -> None:
    """`fewshot_config.samples: !function` returns the list."""
    lab.write("utils.py", "def shots():\n    return [{'q': 'a', 'a': 'b'}, {'q': 'c', 'a': 'd'}]\n")
    fewshot = {"sampler": "first_n", "samples": Fn("utils.shots")}
    lab.task(docs=FOUR, num_fewshot=2, fewshot_config=fewshot)
    assert lab.run().prompts()[0] == "a b\n\nc d\n\n1"


# How it is scored


def test_process_results_may_return_other_metrics_than_declared(lab: TaskProject) -> None:
    """They are averaged; integers stay integers in rows, and the denominator counts documents with a value."""
    lab.write(
        "utils.py",
        "def grade(doc, results):\n"
        "    found = {'length': len(results[0]), 'right': float(results[0] == doc['a'])}\n"
        "    if doc['q'] != '4':\n        found['big'] = 10 ** 20\n"
        "    return found\n",
    )
    lab.task(docs=FOUR, process_results=Fn("utils.grade"), metric_list=[{"metric": "right"}], doc_to_target=None)
    result = lab.run()
    assert result.results["t"]["right,none"] == 0.75
    assert result.results["t"]["length,none"] == 1.0
    assert result.column("length") == [1, 1, 1, 1]
    assert [type(value) for value in result.column("length")] == [int] * 4
    assert result.column("right") == [1.0, 0.0, 1.0, 1.0]
    assert result.rows()[3]["metrics"] == ["length", "right"]
    assert (result.metric("big").denominator, result.metric("length").denominator) == (3, 4)
    assert result.column("big") == [10**20] * 3 + [None]


def test_whole_numbers_stay_whole_in_results(lab: TaskProject) -> None:
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


def test_process_results_of_likelihoods_gets_pairs(lab: TaskProject) -> None:
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
    result = lab.run(model=lab.likely({" a": (-1.0, True), " b": (-3.0, False)}))
    assert result.results["t"]["gap,none"] == 2.0
    assert result.rows()[0]["greedy"] == [True, False]
    assert result.results["t"]["greedy,none"] is True


def test_a_user_metric_is_called_as_in_the_harness(lab: TaskProject) -> None:
    """With references, predictions and its options; its name is the function's."""
    lab.write(
        "utils.py",
        "def close(references, predictions, within):\n"
        "    return abs(int(references[0]) - int(predictions[0])) <= within\n",
    )
    lab.task(docs=docs_of("1=2", "5=9"), metric_list=[{"metric": Fn("utils.close"), "within": 1}])
    result = lab.run()
    assert result.results["t"]["close,none"] == 0.5
    assert result.column("close") == [True, False]


def test_a_user_metric_that_returns_a_mapping_is_several_metrics(lab: TaskProject) -> None:
    """All of them use the aggregation of that metric."""
    lab.write(
        "utils.py",
        "def both(references, predictions):\n"
        "    same = float(references == predictions)\n"
        "    return {'same': same, 'length': len(predictions[0])}\n"
        "def total(values):\n    return sum(values)\n",
    )
    metric = {"metric": Fn("utils.both"), "aggregation": Fn("utils.total"), "higher_is_better": True}
    lab.task(docs=FOUR, metric_list=[metric])
    result = lab.run()
    assert (result.results["t"]["same,none"], result.results["t"]["length,none"]) == (3.0, 4)
    assert result.rows()[0]["metrics"] == ["same", "length"]
    assert result.file["higher_is_better"]["t"] == {"both": True, "same": True, "length": True}


@pytest.mark.parametrize("options", [{}, {"unused": 1}])
def test_a_user_metric_may_take_a_pair(lab: TaskProject, options: dict[str, Any]) -> None:
    """A function without references and predictions gets [target, answer], without options."""
    lab.write("utils.py", "def same(items):\n    return float(items[0] == items[1])\n")
    lab.task(docs=FOUR, metric_list=[{"metric": Fn("utils.same"), **options}])
    result = lab.run()
    assert result.results["t"]["same,none"] == 0.75


def test_a_user_metric_of_several_targets_is_right_if_one_is(lab: TaskProject) -> None:
    """It is called for each target; of a mapping, the metric's own name counts."""
    lab.write(
        "utils.py",
        "def same(references, predictions):\n    return float(references == predictions)\n"
        "def mapped(references, predictions):\n    return {'mapped': float(references == predictions)}\n",
    )
    metrics = [{"metric": Fn("utils.same")}, {"metric": Fn("utils.mapped")}]
    lab.task(docs=docs_of("1=x", "2=y"), doc_to_target="['1', '{{a}}']", metric_list=metrics)
    result = lab.run()
    assert (result.column("same"), result.column("mapped")) == ([1.0, 0.0], [1.0, 0.0])


def test_a_user_aggregation_gets_all_values_in_data_order(lab: TaskProject) -> None:
    """Values may be pairs or anything; there is no standard error."""
    lab.write(
        "utils.py",
        "def grade(doc, results):\n    return {'pair': (doc['q'], results[0])}\n"
        "def last(values):\n    return ''.join(question for question, _ in values)\n",
    )
    metric = {"metric": "pair", "aggregation": Fn("utils.last")}
    lab.task(docs=FOUR, process_results=Fn("utils.grade"), metric_list=[metric])
    result = lab.run()
    assert result.results["t"]["pair,none"] == "1234"
    assert result.results["t"]["pair_stderr,none"] == "N/A"


def test_a_custom_filter_gets_replies_and_documents(lab: TaskProject) -> None:
    """`custom` with filter_fn: lists of documents, one document at a time."""
    lab.write(
        "utils.py",
        "def mine(resps, docs):\n"
        "    return [[docs[0]['a'] if reply == '2' else reply for reply in each] for each in resps]\n",
    )
    chain = [{"function": "custom", "filter_fn": Fn("utils.mine")}, {"function": "take_first"}]
    lab.task(docs=FOUR, filter_list=[{"name": "mine", "filter": chain}])
    assert lab.run().results["t"]["exact_match,mine"] == 1.0


def test_a_filter_may_be_a_class(lab: TaskProject) -> None:
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


def test_results_contain_the_source_of_functions(lab: TaskProject) -> None:
    """Inside filter_list only the name, as in the harness."""
    lab.write("utils.py", "def text(doc):\n    return doc['q']\n\n\ndef mine(resps, docs):\n    return resps\n")
    chain = [{"function": "custom", "filter_fn": Fn("utils.mine")}, {"function": "take_first"}]
    lab.task(docs=FOUR, doc_to_text=Fn("utils.text"), filter_list=[{"name": "f", "filter": chain}])
    config = lab.run().file["configs"]["t"]
    assert config["doc_to_text"] == "def text(doc):\n    return doc['q']\n"
    assert config["filter_list"][0]["filter"][0]["filter_fn"] == "<function mine>"


# What can go wrong


# The results file


def test_results_show_functions_classes_and_partials_as_the_harness_prints_them(lab: TaskProject) -> None:
    """Without the addresses that the harness writes too, which differ in every run."""
    lab.write(
        "utils.py",
        "from functools import partial\n\n"
        "def text(doc, mark):\n    return doc['q'] + mark\n\n"
        "marked = partial(text, mark='!')\n\n"
        "def first(resps, docs):\n    return [each[0] for each in resps]\n\n"
        "class Own:\n    def apply(self, resps, docs):\n        return resps\n",
    )
    steps = [{"function": Fn("utils.Own")}, {"function": "custom", "filter_fn": Fn("utils.first")}]
    lab.task(docs=FOUR, doc_to_text=Fn("utils.marked"), filter_list=[{"name": "f", "filter": steps}])
    config = lab.run().file["configs"]["t"]
    assert config["doc_to_text"] == "functools.partial(<function text>, mark='!')"
    assert config["filter_list"][0]["filter"] == [
        {"function": f"<class '{lab.folder}/utils.Own'>"},
        {"function": "custom", "filter_fn": "<function first>"},
    ]


def test_metrics_are_in_the_order_of_the_task_file(lab: TaskProject) -> None:
    """In rows, in results and in the table, whoever computes them."""
    lab.write("utils.py", "def own(references, predictions):\n    return {'own_b': 1.0, 'own_a': 0.0}\n")
    metrics = [{"metric": Fn("utils.own"), "aggregation": "mean"}, {"metric": "exact_match"}]
    lab.task(docs=FOUR, metric_list=metrics)
    result = lab.run()
    names = ["own_b", "own_a", "exact_match"]
    assert result.rows()[0]["metrics"] == names
    assert [key.partition(",")[0] for key in result.results["t"] if key.endswith(",none")][::2] == names
    assert [metric.name for metric in result.entry().metrics] == names


# The package lm_eval

REGISTRY = """
_filters = {}

def register_filter(name):
    return lambda cls: _filters.setdefault(name, cls)

def get_filter(name):
    return _filters[name]
"""
UTILS = """
from lm_eval.api.registry import register_filter

@register_filter("own_words")
class Words:
    def __init__(self, last=False):
        self.at = -1 if last else 0

    def apply(self, resps, docs):
        return [[text.split()[self.at] for text in texts] for texts in resps]

def score(doc, results):
    return {"right": float(results[0] == doc["a"])}
"""
OWN_FILTER = {"function": "own_words", "last": True}


@pytest.fixture
def registering(lab: TaskProject) -> TaskProject:
    """A task with a filter that its Python registers by name."""
    lab.write("utils.py", UTILS)
    steps = [OWN_FILTER, {"function": "take_first"}]
    lab.task(
        docs=docs_of("x y=y", "x y=x"),
        process_results=Fn("utils.score"),
        metric_list=[{"metric": "right"}],
        filter_list=[{"name": "f", "filter": steps}],
    )
    return lab


def test_a_filter_that_the_tasks_python_registers_is_known_by_its_name(
    registering: TaskProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in acpbench. Checking the file imports nothing."""
    assert problems_in(registering.folder / "t.yaml") == []
    registering.write("site/lm_eval/__init__.py", "")
    registering.write("site/lm_eval/api/__init__.py", "")
    registering.write("site/lm_eval/api/registry.py", REGISTRY)
    monkeypatch.syspath_prepend(str(registering.folder / "site"))
    try:
        result = registering.run()
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "lm_eval"]:
            del sys.modules[name]
    assert result.column("filtered_resps") == [["y"], ["y"]]
    assert result.results["t"]["right,f"] == 0.5


@pytest.mark.parametrize(
    ("package", "advice"),
    [
        ("lm_eval", "Tasks of lm-evaluation-harness use its package: pip install 'lm_eval==0.4.13'"),
        ("no_such_package", "If 'no_such_package' is a package, install it into the environment of assay"),
    ],
)
def test_python_that_needs_a_missing_package_says_what_to_install(
    registering: TaskProject, package: str, advice: str
) -> None:
    if find_spec(package) is not None:
        pytest.skip(f"{package} is installed")
    registering.write("utils.py", UTILS.replace("lm_eval", package))
    with pytest.raises(InputError, match=f"No module named '{package}'.*{re.escape(advice)}"):
        registering.run()
