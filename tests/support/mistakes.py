"""What people mistype: commands, and the files that are wrong. `tests/golden/mistakes/` has what assay answers.

Every mistake starts in a folder of its own with a small task, pipeline, function and conversation that work, and a
finished run of the task (in `out`) and of the pipeline (in `pout`). `files` are written over it; None removes one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

Files = dict[str, str | bytes | None]

TASK = """\
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: sums.jsonl}}
test_split: test
doc_to_text: "Q: {{question}}\\nA:"
doc_to_target: "{{answer}}"
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
metadata: {version: 1.0}
"""
DOCS = '{"question": "1+1?", "answer": "2"}\n{"question": "2+2?", "answer": "4"}\n'
MODEL = """\
def answer(prompt, params):
    return "2"

def refuse(prompt, params):
    raise KeyError("text")

def leave(prompt, params):
    import sys
    sys.exit(0)

def silent(prompt, params):
    return None
"""
PIPELINE = """\
id: p
inputs: [word]
default_testset: tests.jsonl
steps:
  - {id: one, type: prompt, template: "Say {{ word }}"}
  - {id: two, type: prompt, template: "Again {{ one }}"}
"""
TESTS = """\
{"id": "a", "inputs": {"word": "x"}, "expected_outputs": {"output": "2"}}
{"id": "b", "inputs": {"word": "y"}, "expected_outputs": {"output": "3"}}
"""
FUNCTION = """\
async def hop_double(session, row):
    return "OK", {"twice": 2 * row["n"]}

def hop_broken(session, row):
    return "OK", {"twice": row["m"]}
"""
ROWS = '{"id": 1, "tag": "t", "n": 1, "expected_twice": 2}\n{"id": 2, "tag": "t", "n": 2, "expected_twice": 5}\n'
SETTINGS = """\
llms:
  small: {model: python/model.py:answer}
profiles:
  fast: {run: small}
"""
TALKS = json.dumps(
    [
        {
            "id": "talk",
            "sessions": [{"date": "2024-05-02", "messages": [{"speaker": "Ben", "text": "My dog is called Rufus."}]}],
            "questions": [
                {
                    "question": "What is Ben's dog called?",
                    "answer": "Rufus",
                    "evidence": ["D1:1"],
                    "category": "1",
                }
            ],
        }
    ]
)
SAMPLE = json.dumps(
    {
        "sample_id": "s",
        "sessions": [
            {
                "_v2_session_id": "S01",
                "dialogue": [{"role": "user", "content": "My dog is called Rufus.", "timestamp": "2024-02-05 09:15"}],
                "memory_points": [],
            }
        ],
        "qa": [],
    }
)
MEMORY = """\
class Broken:
    def reset(self):
        pass

    def add(self, messages):
        raise ValueError("no room")

    def search(self, query, k):
        return []

    def items(self):
        return []

    def end_session(self):
        pass

def make(context):
    return Broken()
"""
BASE: Files = {
    "sums.yaml": TASK,
    "sums.jsonl": DOCS,
    "model.py": MODEL,
    "p.yaml": PIPELINE,
    "tests.jsonl": TESTS,
    "mine.py": FUNCTION,
    "rows.jsonl": ROWS,
    "settings.yaml": SETTINGS,
    "talks.json": TALKS,
    "sample.json": SAMPLE,
    "memory.py": MEMORY,
}
RUN_TASK = "task sums.yaml --model python/model.py:answer --output-dir out"
RUN_PIPELINE = "pipeline p.yaml --model python/model.py:answer --output-dir pout"
SUMS = "task sums.yaml --model python/model.py:answer --output-dir new"
PIPE = "pipeline p.yaml --model python/model.py:answer --output-dir new"
HOP = "hop mine.py:hop_double rows.jsonl --output-dir new"
TEST = "memory test --dataset plain --data talks.json --memory bm25 --model python/model.py:answer --output-dir new"
EVAL = (
    "memory eval --dataset sample.json --baseline bm25 --model python/model.py:answer --judge offline --output-dir new"
)


class Mistake(NamedTuple):
    """A command in a folder with these files, and what is wrong with it."""

    title: str
    command: str
    files: Files


def wrong(title: str, command: str, **files: str | bytes | None) -> Mistake:
    """A mistake. Names of files are written with `__` for the dot: `sums__yaml`."""
    return Mistake(title, command, {name.replace("__", "."): content for name, content in files.items()})


def task(old: str, new: str) -> str:
    """The task with one text in place of another."""
    assert old in TASK
    return TASK.replace(old, new)


def pipe(old: str, new: str) -> str:
    """The pipeline with one text in place of another."""
    assert old in PIPELINE
    return PIPELINE.replace(old, new)


def filtered(filters: str) -> str:
    """The task with a chain of filters."""
    return TASK + f"filter_list:\n  - name: mine\n    filter: [{filters}]\n"


def prepare(folder: Path, files: Files) -> None:
    """Write files; None removes one."""
    for name, content in files.items():
        path = folder / name
        if content is None:
            path.unlink()
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content, encoding="utf-8")


MISTAKES: dict[str, list[Mistake]] = {
    "assay": [
        wrong("a mistyped command", "taks sums.yaml"),
        wrong("a mistyped second word", "memory tset --data talks.json"),
        wrong("an option that does not exist", "task sums.yaml --modle python/model.py:answer"),
        wrong("half a group", "judge calibrat --labels rows.jsonl"),
        wrong("an option without its value", "task sums.yaml --model"),
        wrong("a file in place of a command", "sums.yaml"),
    ],
    "task": [
        wrong("no task", "task --model python/model.py:answer"),
        wrong("no model", "task sums.yaml"),
        wrong("a task file that is not there", "task smus.yaml --model python/model.py:answer"),
        wrong("a task name that is not there", "task gsm8k --model python/model.py:answer"),
        wrong("an empty task file", SUMS, sums__yaml=""),
        wrong("a task file that is a list", SUMS, sums__yaml="- task: sums\n"),
        wrong("a tab in YAML", SUMS, sums__yaml=task("test_split: test", "more:\n\tx: 1")),
        wrong("a key twice", SUMS, sums__yaml=task("test_split: test", "test_split: test\ntest_split: dev")),
        wrong("a mistyped key", SUMS, sums__yaml=task("doc_to_text", "doc_to_txt")),
        wrong("a number where a text belongs", SUMS, sums__yaml=task('"Q: {{question}}\\nA:"', "17")),
        wrong("a column that no document has", SUMS, sums__yaml=task("{{question}}", "{{query}}")),
        wrong("a template that does not end", SUMS, sums__yaml=task("{{question}}", "{{question")),
        wrong("an unknown metric", SUMS, sums__yaml=task("metric: exact_match", "metric: exact_macth")),
        wrong("an unknown aggregation", SUMS, sums__yaml=task("aggregation: mean", "aggregation: maen")),
        wrong("an unknown output type", SUMS, sums__yaml=TASK + "output_type: generate_untill\n"),
        wrong("an unknown filter", SUMS, sums__yaml=filtered("{function: regexp}")),
        wrong(
            "a pattern that does not compile",
            SUMS,
            sums__yaml=filtered("{function: regex, regex_pattern: '('}"),
        ),
        wrong("a filter that takes no answer", SUMS, sums__yaml=filtered("{function: take_first_k, k: 0}")),
        wrong("a split that is not there", SUMS, sums__yaml=task("test_split: test", "test_split: tset")),
        wrong("a data file that is not there", SUMS, sums__yaml=task("sums.jsonl", "sum.jsonl")),
        wrong("an empty data file", SUMS, sums__jsonl=""),
        wrong("a data line that is cut", SUMS, sums__jsonl='{"question": "1+1?", "ans'),
        wrong("a data file in UTF-16", SUMS, sums__jsonl=DOCS.encode("utf-16")),
        wrong("a data file in Latin-1", SUMS, sums__jsonl='{"question": "é", "answer": "2"}'.encode("latin-1")),
        wrong("a task file in UTF-16", SUMS, sums__yaml=TASK.encode("utf-16")),
        wrong("a function that is not there", SUMS, sums__yaml=task('"{{answer}}"', "!function utils.target")),
        wrong(
            "a function that raises for every document",
            SUMS,
            sums__yaml=task('"{{answer}}"', "!function utils.target"),
            utils__py="def target(doc):\n    return doc['anwser']\n",
        ),
        wrong(
            "a metric of one's own that raises",
            SUMS,
            sums__yaml=task("metric: exact_match", "metric: !function utils.right"),
            utils__py="def right(references, predictions):\n    return references[0].value\n",
        ),
        wrong("a negative number of examples", f"{SUMS} --num-fewshot -1"),
        wrong("a number that is a word", f"{SUMS} --limit ten"),
        wrong("a limit of nothing", f"{SUMS} --limit 0"),
        wrong("no request at once", f"{SUMS} --concurrency 0"),
        wrong("a configuration with an unknown key", f"{SUMS} --config c.yaml", c__yaml="modle: x\n"),
        wrong("a configuration that is not there", f"{SUMS} --config c.yaml"),
        wrong("an output folder that is a file", SUMS.replace("--output-dir new", "--output-dir sums.jsonl")),
    ],
    "models": [
        wrong("a provider that is mistyped", "task sums.yaml --model opnai/gpt-4o"),
        wrong("a model without a provider", "task sums.yaml --model gpt-4o"),
        wrong("a file of a model that is not there", "task sums.yaml --model python/modle.py:answer"),
        wrong("a function of a model that is not there", "task sums.yaml --model python/model.py:anser"),
        wrong("a model whose file is broken", SUMS, model__py="def answer(prompt:\n"),
        wrong("a model that raises", SUMS.replace(":answer", ":refuse")),
        wrong("a model that leaves the program", SUMS.replace(":answer", ":leave")),
        wrong("a model that returns nothing", SUMS.replace(":answer", ":silent")),
        wrong(
            "no server there",
            "task sums.yaml --model openai/m --base-url http://127.0.0.1:9/v1 --max-retries 0 --concurrency 1",
        ),
        wrong("an address without a scheme", "task sums.yaml --model openai/m --base-url 127.0.0.1:9"),
        wrong(
            "a key in an address",
            "task sums.yaml --model openai/m --base-url http://127.0.0.1:9/v1?api_key=1",
        ),
        wrong("a parameter without a value", f"{SUMS} --gen-kwargs temperature"),
        wrong("a parameter that is mistyped", f"{SUMS} --gen-kwargs temprature=0"),
        wrong("a temperature that is a word", f"{SUMS} --gen-kwargs temperature=hot"),
        wrong("an argument that the provider does not have", f"{SUMS} --model-args revision=main"),
        wrong("replies that are not there", "task sums.yaml --model script/replies.jsonl"),
        wrong(
            "replies that are not JSON",
            "task sums.yaml --model script/replies.jsonl",
            replies__jsonl="hello\n",
        ),
        wrong("weights that are not there", "task sums.yaml --model local/smolm2"),
        wrong("a price table that is not there", f"{SUMS} --prices prices.yaml"),
        wrong("a limit of costs without a price", f"{SUMS} --max-cost 1"),
        wrong("workers without Ray", f"{SUMS} --workers 4"),
        wrong("an executor that is none", f"{SUMS} --executor rey"),
        wrong("parameters of a judge without a judge", f"{SUMS} --judge-kwargs temperature=0"),
        wrong("a run to reuse that is not there", f"{SUMS} --reuse gone"),
        wrong("weights to pull that nobody has", "models pull smolm2"),
        wrong("a file to pull that is no GGUF", "models pull model.py"),
    ],
    "pipeline": [
        wrong("no pipeline", "pipeline --model python/model.py:answer"),
        wrong("a pipeline that is not there", "pipeline pp.yaml --model python/model.py:answer"),
        wrong("an empty pipeline", PIPE, p__yaml=""),
        wrong("a step without an id", PIPE, p__yaml=pipe("id: two, ", "")),
        wrong("two steps of one id", PIPE, p__yaml=pipe("id: two", "id: one")),
        wrong("a mistyped type of step", PIPE, p__yaml=pipe("{id: two, type: prompt", "{id: two, type: promt")),
        wrong(
            "a mistyped key of a step",
            PIPE,
            p__yaml=pipe("{id: two, type: prompt, template", "{id: two, type: prompt, tempalte"),
        ),
        wrong("a name that no step makes", PIPE, p__yaml=pipe("{{ one }}", "{{ on }}")),
        wrong("steps that wait for each other", PIPE, p__yaml=pipe("Say {{ word }}", "Say {{ two }}")),
        wrong(
            "code that is not Python",
            PIPE,
            p__yaml=PIPELINE + "  - {id: c, type: code, code: 'def main(inputs: return 1'}\n",
        ),
        wrong(
            "code that raises",
            PIPE,
            p__yaml=PIPELINE + "  - {id: c, type: code, code: 'def main(inputs): return inputs[\"nothing\"]'}\n",
        ),
        wrong(
            "code in an unknown language",
            PIPE,
            p__yaml=PIPELINE + "  - {id: c, type: code, language: ruby, code: '1'}\n",
        ),
        wrong(
            "a pattern of a parser that does not compile",
            PIPE,
            p__yaml=pipe(
                'template: "Again {{ one }}"', 'template: "Again", output_parser: {type: regex, pattern: "("}'
            ),
        ),
        wrong("a variant that is not there", f"{PIPE} --variant shorter"),
        wrong("a testset that is not there", f"{PIPE} --testset test.jsonl"),
        wrong("an empty testset", PIPE, tests__jsonl=""),
        wrong("a testset that is not JSON", PIPE, tests__jsonl="hello\n"),
        wrong("a testset in UTF-16", PIPE, tests__jsonl=TESTS.encode("utf-16")),
        wrong("two tests of one id", PIPE, tests__jsonl=TESTS.replace('"b"', '"a"')),
        wrong(
            "a test without a required input",
            PIPE,
            tests__jsonl='{"id": "a", "inputs": {"wrd": "x"}, "expected_outputs": {"output": "2"}}\n',
        ),
        wrong("inputs that are a list", PIPE, tests__jsonl='{"id": "a", "inputs": ["x"]}\n'),
        wrong(
            "a tolerance below nothing",
            PIPE,
            tests__jsonl='{"id": "a", "inputs": {"word": "x"}, "expected_outputs": {"output": 2}, "evaluation_config": {"tolerance": -1}}\n',
        ),
        wrong(
            "a pattern of a test that does not compile",
            PIPE,
            tests__jsonl='{"id": "a", "inputs": {"word": "x"}, "expected_outputs": {"output": "regex:("}}\n',
        ),
        wrong(
            "a condition that is mistyped",
            PIPE,
            tests__jsonl='{"id": "a", "inputs": {"word": "x"}, "conditions": "wrd == 1", "expected_outputs": {"output": "2"}}\n',
        ),
        wrong(
            "a test that waits for itself",
            PIPE,
            tests__jsonl='{"id": "a", "inputs": {"word": "x"}, "depends_on": ["a"]}\n',
        ),
        wrong(
            "code in a testset without leave",
            PIPE,
            tests__jsonl='{"id": "a", "inputs": {"word": "x"}, "step_inputs": {"two": {"code": "1"}}}\n',
        ),
        wrong("no test has these tags", f"{PIPE} --include-tags critical"),
        wrong("no test has this id", f"{PIPE} --ids c"),
        wrong(
            "a judge that is not there",
            PIPE,
            tests__jsonl='{"id": "a", "inputs": {"word": "x"}, "expected_outputs": {"output": "judge: is it polite?"}}\n',
        ),
        wrong("votes, which a pipeline does not have", f"{PIPE} --judge python/model.py:answer --votes 3"),
        wrong("every test fails by the model", PIPE.replace(":answer", ":refuse")),
        wrong("watching and planning at once", f"{PIPE} --watch --dry-run"),
    ],
    "hop": [
        wrong("no function", "hop"),
        wrong("no rows", "hop mine.py:hop_double"),
        wrong("a function that is mistyped", "hop mine.py:hop_duble rows.jsonl"),
        wrong("a file that is not there", "hop mien.py:hop_double rows.jsonl"),
        wrong("a task that is not there", "hop Verify rows.jsonl"),
        wrong("two functions and no choice", "hop mine.py rows.jsonl"),
        wrong(
            "watching results",
            "hop --analyse done.jsonl --watch",
            done__jsonl='{"id": 1, "tag": "t", "n": 1, "hop_result": "1", "hop_stats": {"status": "OK"}}\n',
        ),
        wrong("code that is not Python", HOP, mine__py="def hop_double(session, row:\n"),
        wrong("code that raises when it is imported", HOP, mine__py="import nowhere_to_be_found\n"),
        wrong("a function that raises for every row", HOP.replace("double", "broken")),
        wrong(
            "a function with a parameter too many",
            HOP,
            mine__py="def hop_double(session, row, more):\n    return 1\n",
        ),
        wrong(
            "a missing await",
            HOP,
            mine__py="async def other(row):\n    return row\n\nasync def hop_double(session, row):\n    return other(row)\n",
        ),
        wrong("rows that are not there", "hop mine.py:hop_double row.jsonl"),
        wrong("no row in the file", HOP, rows__jsonl=""),
        wrong("rows that are not JSON", HOP, rows__jsonl="hello\n"),
        wrong("rows in UTF-16", HOP, rows__jsonl=ROWS.encode("utf-16")),
        wrong("rows in Latin-1", HOP, rows__jsonl='{"id": 1, "tag": "é", "n": 1}\n'.encode("latin-1")),
        wrong("one id for two rows", HOP, rows__jsonl=ROWS.replace('"id": 2', '"id": 1')),
        wrong("a profile that is mistyped", f"{HOP} --profiles fats"),
        wrong("settings that are not there", f"{HOP} --settings setings.yaml"),
        wrong("a profile of an unknown llm", HOP, settings__yaml=SETTINGS.replace("run: small", "run: smal")),
        wrong("a mistyped form of results", f"{HOP} --wrapper vew"),
        wrong("a contract with a mistyped key", HOP, contract__yaml="name: x\ninputz: {n: int}\n"),
        wrong("nothing to analyse", "hop --analyse nowhere"),
        wrong("no worker", f"{HOP} --workers 0"),
    ],
    "memory": [
        wrong("no data", "memory test --memory bm25 --model python/model.py:answer"),
        wrong("data that is not there", TEST.replace("talks.json", "talk.json")),
        wrong("data of another format", TEST.replace("--dataset plain", "--dataset locomo")),
        wrong("an unknown format", TEST.replace("--dataset plain", "--dataset plian")),
        wrong("data that is not JSON", TEST, talks__json="hello"),
        wrong("no conversation", TEST, talks__json="[]"),
        wrong("a question without its text", TEST, talks__json=TALKS.replace('"question": ', '"qestion": ')),
        wrong("no memory", TEST.replace("--memory bm25", "")),
        wrong("a memory in other letters", TEST.replace("bm25", "fumemory")),
        wrong("a memory that does not exist", TEST.replace("bm25", "BM52")),
        wrong("a memory's file that is not there", TEST.replace("bm25", "memmory.py:make")),
        wrong("a memory that raises", TEST.replace("bm25", "memory.py:make")),
        wrong("an option that no memory has", f"{TEST} --memory-args kk=3"),
        wrong("a conversation that is not there", f"{TEST} --task-id 0007"),
        wrong("a category that is not there", f"{TEST} --categories 9"),
        wrong("no question a segment", f"{TEST} --segments 0"),
        wrong("a trigger that is mistyped", f"{TEST} --trigger incremnt"),
        wrong(
            "a memory that needs a model, without one",
            "memory test --dataset plain --data talks.json --memory GAMemory --no-answer --output-dir new",
        ),
        wrong("a model that raises in every answer", TEST.replace(":answer", ":refuse")),
        wrong("an embedder that does not exist", f"{TEST} --embedder wordlama".replace("bm25", "dense")),
        wrong("a loader that is not there", TEST.replace("--dataset plain", "--dataset loader.py:load")),
        wrong(
            "a loader that returns nothing",
            TEST.replace("--dataset plain", "--dataset loader.py:load"),
            loader__py="def load(path):\n    return None\n",
        ),
        wrong(
            "a loader whose conversations share a number",
            TEST.replace("--dataset plain", "--dataset loader.py:load"),
            loader__py="""from assay.suites.memory.test.conversation import Conversation

def load(path):
    return [Conversation.of(0, name, [], []) for name in "ab"]
""",
        ),
        wrong("an embedder that is none", f"{TEST.replace('bm25', 'dense')} --embedder model.py:answer"),
        wrong(
            "a loader of samples with a wrong value",
            EVAL.replace("sample.json", "loader.py:load"),
            loader__py="""from assay.suites.memory.eval.sample import Sample, SampleSession, SampleTurn

def load():
    yield Sample("ada", "ada", (SampleSession("S1", (SampleTurn("user", 7),)),), ())
""",
        ),
        wrong(
            "a loader of samples that takes a path",
            EVAL.replace("sample.json", "loader.py:load"),
            loader__py="def load(path):\n    return []\n",
        ),
        wrong(
            "a user of HaluMem without a dialogue",
            EVAL,
            sample__json='{"uuid": "u", "persona_info": "", "sessions": [{"questions": [{"question": "?"}]}]}',
        ),
        wrong("samples that are not there", EVAL.replace("sample.json", "smaple.json")),
        wrong("a sample without sessions", EVAL, sample__json='{"sample_id": "s"}'),
        wrong("a sample that is not JSON", EVAL, sample__json="hello"),
        wrong("a judge that does not exist", EVAL.replace("--judge offline", "--judge ofline")),
        wrong("a memory of an evaluation that does not exist", EVAL.replace("bm25", "bm52")),
    ],
    "runs": [
        wrong("no run there", "show new"),
        wrong("a run that is not there", "show 2020-01-01"),
        wrong("a case that is not there", "show out 17"),
        wrong("a position that is not there", "show out --position 17"),
        wrong("a condition that is not SQL", "show out --where 'value <'"),
        wrong("a folder without runs", "runs nowhere"),
        wrong("a state that is mistyped", "runs --state finised"),
        wrong("a date that is none", "runs --since yestreday"),
        wrong("a run to compare that is not there", "compare out new"),
        wrong("runs that have nothing in common", "compare out pout"),
        wrong("one run with one subject", "compare out"),
        wrong("two kinds of output at once", "compare out pout --json --markdown"),
        wrong("no requirement", "gate out"),
        wrong("a requirement that is none", "gate out --require 'exact_match'"),
        wrong("a requirement on an unknown metric", "gate out --require 'exact_macth >= 0.5'"),
        wrong("a drop without a base", "gate out --max-drop 0.1"),
        wrong("a query that is not SQL", "sql 'selct 1' out"),
        wrong("a column that is not there", "sql 'select vlaue from scores' out"),
        wrong("a query that writes", "sql 'drop table scores' out"),
        wrong("a format of export that is not there", "export out --to lmeval"),
        wrong("a file to import that is not there", "import results.json"),
        wrong("a file to import that nobody knows", "import sums.jsonl"),
        wrong("a run to score again that is not there", "rescore new"),
        wrong(
            "another task for a run of another name",
            "rescore out --task other.yaml",
            other__yaml=task("task: sums", "task: other"),
        ),
        wrong("no shards to merge", "merge --output-dir merged"),
        wrong("shards that are not there", "merge shards --output-dir merged"),
        wrong("a whole run among the shards", "merge out --output-dir merged"),
        wrong(
            "a shard in the folder of the whole run",
            "task sums.yaml --model python/model.py:answer --shard 1/2 --output-dir out",
        ),
        wrong(
            "a shard counted from 0",
            "task sums.yaml --model python/model.py:answer --shard 0/16 --output-dir new",
        ),
        wrong(
            "a shard that is no fraction",
            "task sums.yaml --model python/model.py:answer --shard 3 --output-dir new",
        ),
        wrong("a run to repeat that is not there", "rerun new --failed"),
        wrong("a report without a run", "report"),
        wrong("a note on nothing", "note new 'hello'"),
        wrong("two cases of which one is not there", "diff out 0 17"),
        wrong("labels without a judge", "judge calibrate --labels rows.jsonl"),
        wrong("labels that are not there", "judge calibrate --judge offline --labels labels.json"),
        wrong("labels without a label", "judge calibrate --judge offline --labels rows.jsonl"),
        wrong("a plan without numbers", "power"),
        wrong("a chance above 1", "power --baseline 1.5 --effect 0.1"),
        wrong("a project of an unknown kind", "init taks"),
        wrong("a project over another one", "init task .", task__yaml="task: mine\n"),
        wrong("a schema that is not there", "schema tsk"),
        wrong("a shell that is not there", "completion tcsh"),
        wrong("a suite of one's own that is not there", "run quiz.py:Quiz"),
        wrong("a testset to convert that is not there", "convert test.jsonl --to v2"),
        wrong("a model for the doctor that does not exist", "doctor --model opnai/m"),
    ],
    "check": [
        wrong("a file that is not there", "check smus.yaml"),
        wrong("an empty object", "check x.json", x__json="{}"),
        wrong("a list of numbers", "check x.json", x__json="[1, 2]"),
        wrong("a text", "check notes.txt", notes__txt="buy milk\n"),
        wrong("a task with a mistyped key", "check sums.yaml", sums__yaml=task("doc_to_text", "doc_to_txt")),
        wrong(
            "a pipeline with a mistyped key",
            "check p.yaml",
            p__yaml=pipe('template: "Again', 'tempalte: "Again'),
        ),
        wrong(
            "a testset with a missing input",
            "check tests.jsonl --pipeline p.yaml",
            tests__jsonl='{"id": "a", "inputs": {"wrd": "x"}, "expected_outputs": {"output": "2"}}\n',
        ),
        wrong(
            "a testset with a mistyped key",
            "check tests.jsonl --pipeline p.yaml",
            tests__jsonl='{"id": "a", "inputs": {"word": "x"}, "expected_ouputs": {"output": "2"}}\n',
        ),
        wrong(
            "an expectation of nothing",
            "check tests.jsonl --pipeline p.yaml",
            tests__jsonl='{"id": "a", "inputs": {"word": "x"}, "expected_outputs": {"sentiment": "2"}}\n',
        ),
        wrong("two tests of one id", "check tests.jsonl", tests__jsonl=TESTS.replace('"b"', '"a"')),
        wrong("evidence that names no message", "check talks.json", talks__json=TALKS.replace("D1:1", "D9:1")),
        wrong("an unknown suite", "check sums.yaml --as tsk"),
        wrong("brackets without end", "check x.json", x__json="[" * 100_000),
        wrong(
            "an alias bomb",
            "check x.yaml",
            x__yaml="a: &a [x,x,x,x,x,x,x,x,x]\n"
            + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(9 * [f'*{chr(97 + n)}'])}]\n" for n in range(20)),
        ),
    ],
}
