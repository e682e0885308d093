"""`assay check` says what a file is, refuses what it does not know, finds what a run would trip over, runs no code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from assay.cli.main import main

from conftest import Assay
from support.commands import environment
from support.small_files import small_task

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
FLOW = """\
id: flow
inputs: [text, {name: lang, required: false}]
steps:
- {id: s, template: "{{ text }} {{ lang }}"}
outputs: [{key: answer, from: s}]
"""
TASK = small_task("t", "rows.jsonl", prompt="{{q}}", target="{{a}}")
ROWS = '{"q": "1", "a": "2"}\n{"q": "2", "a": "3"}\n'


class Told(NamedTuple):
    """The exit code and the JSON document of one check."""

    code: int
    files: list[dict[str, Any]]

    @property
    def problems(self) -> list[str]:
        """Level, place and message of every problem, without the folder."""
        return [
            f"{each['level']} {Path(each['where']).name}: {each['message']}"
            for file in self.files
            for each in file["problems"]
        ]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def typed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Type `assay check` and return its exit code and what it prints."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main(["check", *words])
    return int(str(left.value.code or 0)), capsys.readouterr().out


def told(capsys: pytest.CaptureFixture[str], *words: str) -> Told:
    code, out = typed(capsys, *words, "--json")
    return Told(code, json.loads(out))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", "{}"),
        ("a.json", "[1, 2]"),
        ("a.json", '{"name": "x", "version": 1}'),
        ("a.jsonl", "[1, 2]\n"),
        ("a.jsonl", "{}\n"),
        ("a.txt", "hello\n"),
        ("a.md", "# hello\n"),
        ("a.yaml", "x: 1\n"),
    ],
)
def test_a_file_that_is_not_recognised_is_an_error_that_names_the_formats(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    (here / name).write_text(text)
    code, out = typed(capsys, name)
    assert code == 1
    assert "cannot tell what this file is" in out
    assert "Expected: task files, pipelines" in out
    assert "--as, one of: task, pipeline, hop" in out
    assert "fine" not in out


def test_a_misspelled_key_of_a_yaml_file_is_guessed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "a.yaml").write_text("stpes: []\n")
    assert "'stpes'; did you mean 'steps'?" in typed(capsys, "a.yaml")[1]


SESSION = {"dialogue": [{"role": "user", "content": "Hi"}], "session_id": "s1", "memory_points": []}
FILES: dict[str, tuple[str, Any, str, str]] = {
    # name of the test: (file, content, kind, contents)
    "task": ("t.yaml", TASK, "task of lm-evaluation-harness (task)", "1 task, 2 documents"),
    "rows": ("rows.jsonl", ROWS, "rows of data (task)", "2 documents"),
    "table": ("rows.csv", "q,a\n1,2\n", "rows of data (task)", "1 document"),
    "pipeline": ("flow.yaml", FLOW, "pipeline", "1 step, 1 variant"),
    "v2": ("a_b.jsonl", {"id": 1, "inputs": {"text": "x"}}, "testset v2 (pipeline)", "1 test"),
    "v1": ("a_b.jsonl", {"id": 1, "expected_output": "x"}, "testset v1 (pipeline)", "1 test"),
    "flow": ("p.yaml", "user_template: hi {x}\n", "flow of Prompt Lab (pipeline)", ""),
    "agent": ("agent.yaml", "id: x\nflows: []\n", "agent of Prompt Lab (pipeline)", "0 flows"),
    "contract": ("contract.yaml", "name: x\ninputs: {n: int}\n", "contract (hop)", ""),
    "settings": (
        "settings.yaml",
        "llms: {one: {model: m}}\nprofiles: {a: {run: one}}\n",
        "settings (hop)",
        "",
    ),
    "hop rows": ("x.jsonl", {"id": 1, "tag": "t", "n": 1}, "rows of a batch (hop)", "1 row"),
    "flat results": (
        "x.jsonl",
        {"id": 1, "tag": "t", "n": 1, "hop_result": "{}"},
        "results of a batch, flat form (hop)",
        "1 row",
    ),
    "View results": (
        "x.jsonl",
        {"input": {"id": 1, "tag": "t", "n": 1}, "result": "{}"},
        "results of a batch, View's form (hop)",
        "1 row",
    ),
    "log": ("x.jsonl", {"type": "run_start", "run_id": "r"}, "log of an observer (hop)", "1 line"),
    "plain talk": (
        "x.json",
        {
            "id": "a",
            "sessions": [{"messages": [{"role": "u", "content": "Hi"}]}],
            "questions": [{"question": "Q?", "answer": "A", "evidence": "D1:1"}],
        },
        "conversations with questions, format plain (memory test)",
        "1 conversation, 1 question",
    ),
    "LongMemEval": (
        "x.json",
        [
            {
                "question_id": "q",
                "question_type": "t",
                "question": "Q?",
                "answer": "A",
                "haystack_session_ids": ["s"],
                "haystack_dates": ["d"],
                "haystack_sessions": [[{"role": "user", "content": "Hi", "has_answer": True}]],
                "answer_session_ids": ["s"],
            }
        ],
        "conversations with questions, format longmemeval (memory test)",
        "1 conversation, 1 question",
    ),
    "samples": (
        "x.json",
        {"sample_id": "a", "sessions": [SESSION], "memory_points": [], "qa_checkpoints": []},
        "samples (memory eval)",
        "1 sample, 1 session, 0 questions",
    ),
    "labels in a document": (
        "votes.json",
        (
            '{"accuracy": 1, "results": {"one": [{"question": "q", "golden_answer": "a", "generated_answer": "a", '
            '"llm_judgments": {"first": true}}]}}'
        ),
        "labels (judge calibrate)",
        "1 labelled row",
    ),
    "labels": (
        "x.jsonl",
        {"question": "Q?", "reference": "A", "response": "B", "label": "wrong"},
        "labels (judge calibrate)",
        "1 labelled row",
    ),
    "labels of several kinds": (
        "x.jsonl",
        (
            '{"kind": "update", "new": "a", "old": [], "memories": [], "label": "both"}\n'
            '{"kind": "interference", "content": "a", "memories": [], "label": "rejected"}\n'
        ),
        "labels (judge calibrate)",
        "1 update row, 1 interference row",
    ),
    "prices": (
        "x.yaml",
        "as_of: 2026-01-31\nmodels: {openai/a: {input: 1, output: 2}}\n",
        "price table (--prices)",
        "1 model",
    ),
    "replies": ("x.jsonl", {"prompt": "a", "text": "b"}, "recorded replies (--model script/FILE)", "1 line"),
    "pipeline results": (
        "x.jsonl",
        {"set": "s", "id": "a", "variant": "baseline", "result": "passed", "steps": {}, "checks": []},
        "results in the format pipeline (import)",
        "",
    ),
}


@pytest.mark.parametrize("key", FILES)
def test_a_check_says_as_what_it_checked_a_file_and_what_is_in_it(
    here: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    name, content, kind, contents = FILES[key]
    (here / "rows.jsonl").write_text(ROWS)
    (here / name).write_text(content if isinstance(content, str) else json.dumps(content))
    (file,) = told(capsys, name).files
    assert (file["kind"], file["contents"] if contents else "") == (kind, contents)
    if key == "plain talk":
        assert typed(capsys, name) == (0, f"{name}: {kind}: {contents}: fine\n")


def test_results_of_other_programs_are_read_to_their_last_case(capsys: pytest.CaptureFixture[str]) -> None:
    folder = GOLDEN / "lm_eval" / "out" / "a_completions" / "org__Fake-1.0"
    files = [*sorted(folder.glob("*.json*")), GOLDEN / "inspect" / "plain.eval"]
    kinds = [(file["kind"], file["contents"]) for file in told(capsys, *map(str, files)).files]
    lm_eval = ("results in the format lm-eval (import)", "20 cases, 1 subject")
    assert kinds == [lm_eval, lm_eval, ("results in the format inspect (import)", "5 cases, 1 subject")]


def test_a_testset_is_checked_for_the_pipeline_beside_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What would stop or falsify a run is an error with the nearest name."""
    (here / "flow.yaml").write_text(FLOW)
    cases = [
        {"id": "a", "inputs": {"text": "x"}, "expected_outputs": {"anser": "y"}},
        {"id": "b", "input": {"text": "x"}, "expected_outputs": {"answer": "y"}},
        {"id": "c", "text": "x", "expected_ouput": "y"},
        {"id": "d", "inputs": {"text": "x"}, "batch_items": [{"q": 1}], "expected_aggregation": 1},
        {"id": "e", "inputs": {"text": "x"}, "conditions": "lnag == 'en'"},
        {"id": "f", "inputs": {"text": "x", "lagn": "en"}},
        {"id": "g", "inputs": {"text": "x"}, "conditions": "lang == 'en' and variant", "expected_answer": 1},
        {"id": "h", "step_inputs": {"s": {"text": "x"}}, "parameters": {"lang": ["de", "en"]}},
        {"id": "i", "inputs": {"text": "x"}, "author": "me"},
    ]
    (here / "a_b.jsonl").write_text("\n".join(map(json.dumps, cases)))
    check = told(capsys, "a_b.jsonl")
    assert check.code == 1
    assert check.problems == [
        "error a_b.jsonl:1 $.expected_outputs.anser: the pipeline has no output 'anser'; did you mean 'answer'?",
        "error a_b.jsonl:2: the input 'text' is missing; the pipeline requires it",
        "error a_b.jsonl:2 $.input: is no input of the pipeline; did you mean 'inputs'?",
        "error a_b.jsonl:3 $.expected_ouput: the pipeline has no output 'ouput'; did you mean 'output'?",
        "error a_b.jsonl:4 $.batch_items: no step of the pipeline reads them: none has batch_mode, and none aggregates",
        "error a_b.jsonl:5 $.conditions: the name 'lnag' has no value in this test; did you mean 'lang'?",
        "error a_b.jsonl:6 $.inputs.lagn: is no input of the pipeline; did you mean 'lang'?",
        "warning a_b.jsonl:9 $.author: is no input of the pipeline; it has lang, text",
    ]
    assert check.files[0]["notes"] == ["checked for the pipeline flow.yaml; for another one: --pipeline FILE"]


def test_a_testset_without_a_pipeline_gets_warnings(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A text under `input` is an ordinary input of a v1 test."""
    cases = [
        {"id": "a", "inputs": {"text": "x"}, "conditions": "txet == 'x'"},
        {"id": "b", "input": {"text": "x"}},
        {"id": "c", "input": "x", "expected_ouput": "y"},
    ]
    (here / "a_b.jsonl").write_text("\n".join(map(json.dumps, cases)))
    check = told(capsys, "a_b.jsonl")
    assert check.code == 0
    assert check.problems == [
        "warning a_b.jsonl:1 $.conditions: the name 'txet' has no value in this test; did you mean 'text'?",
        "warning a_b.jsonl:2 $.input: is read as an input; did you mean 'inputs'?",
        "warning a_b.jsonl:3 $.expected_ouput: is read as the expectation of an output 'ouput'; did you mean 'expected_output'?",
    ]


def test_a_testset_of_a_pipeline_without_declared_inputs_gets_warnings(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such a pipeline takes any input. A key that is nearly one of the format is a mistake all the same."""
    (here / "flow.yaml").write_text("id: flow\nsteps:\n- {id: s, template: '{{ text }}'}\n")
    cases = [
        {"id": "a", "inputs": {"text": "x"}, "input": {"text": "x"}},
        {"id": "b", "inputs": {"text": "x"}, "step_inputs": {"t": {"text": "y"}}},
        {"id": "c", "inputs": {"text": "x"}, "intermediate_expectations": {"u": "y"}},
    ]
    (here / "a_b.jsonl").write_text("\n".join(map(json.dumps, cases)))
    check = told(capsys, "a_b.jsonl")
    assert check.code == 0
    assert check.problems == [
        "warning a_b.jsonl:1 $.input: is read as an input; did you mean 'inputs'?",
        "warning a_b.jsonl:2 $.step_inputs.t: the pipeline has no step 't'; it has s",
        "warning a_b.jsonl:3 $.intermediate_expectations.u: the pipeline has no step 'u'; it has s",
    ]


def test_duplicate_ids_of_a_v1_testset_are_found_wherever_it_lies(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing in the file tells it from rows of data; the pipeline that names it, or --as, does."""
    (here / "cases.jsonl").write_text('{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}\n')
    check = told(capsys, "cases.jsonl")
    assert check.problems == ["warning cases.jsonl:2: the id 'a' is that of cases.jsonl:1 too"]
    assert "--as pipeline checks them as a testset" in check.files[0]["notes"][0]
    duplicate = "error cases.jsonl:2 $.id: duplicate id 'a', first used on line 1"
    assert duplicate in told(capsys, "cases.jsonl", "--as", "pipeline").problems
    (here / "flow.yaml").write_text(FLOW + "default_testset: cases.jsonl\n")
    check = told(capsys, "cases.jsonl")
    assert (check.code, check.files[0]["kind"]) == (1, "testset v1 (pipeline)")
    assert duplicate in check.problems


def test_evidence_that_names_nothing_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = {"messages": [{"speaker": "ann", "text": "Hello."}]}
    asked = {"question": "Who?", "answer": "ann"}
    questions = [asked, asked | {"evidence": "there"}, asked | {"evidence": ["D1:1", "D9:1"]}]
    talk = {"id": "one", "sessions": [session], "questions": questions}
    (here / "t.json").write_text(json.dumps([talk]))
    check = told(capsys, "t.json")
    assert check.code == 0
    assert [problem.partition(" one, ")[2].partition(";")[0] for problem in check.problems] == [
        "question 3: evidence: there is no message D9:1",
        "question 1: evidence: is missing, so only --ask at-end or both asks it",
        "question 2: evidence: names no message, so only --ask at-end or both asks it",
    ]
    (here / "t.json").write_text(json.dumps([talk | {"questions": questions[:2]}]))
    check = told(capsys, "t.json")
    assert check.code == 0
    assert check.problems == ["warning t.json: no question has usable evidence; ask them with --ask at-end"]
    (here / "t.json").write_text(json.dumps([talk | {"questions": []}]))
    check = told(capsys, "t.json")
    assert check.code == 1
    assert check.problems[-1].endswith("there is no question, so a run would measure nothing")


CODE = "from pathlib import Path\nPath('ran').touch()\ndef text(doc): return doc['q']\nAGGREGATIONS = ['mean']\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.yaml", TASK.replace('"{{q}}"', "!function code.text")),
        ("t.yaml", TASK + "process_docs: !function code.text\n"),
        ("t.yaml", TASK + "metric_list: [{metric: code.py:text}]\n"),
        ("t.yaml", TASK + "filter_list: [{name: f, filter: [{function: code.py:text}]}]\n"),
        ("flow.yaml", "steps: [{id: s, type: hop, target: code.py:text}]\n"),
    ],
)
def test_code_runs_only_with_run_code(here: Path, capsys: pytest.CaptureFixture[str], name: str, text: str) -> None:
    (here / "rows.jsonl").write_text(ROWS)
    (here / "code.py").write_text(CODE)
    (here / name).write_text(text)
    code, out = typed(capsys, name)
    assert (code, (here / "ran").exists()) == (0, False), out
    assert "Python of this file was not run; --run-code runs it" in out
    _, out = typed(capsys, name, "--run-code")
    assert (here / "ran").exists()
    assert "was not run" not in out


def test_the_check_of_a_testset_runs_no_code_of_its_pipeline(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It reads the pipeline to know its inputs and outputs."""
    (here / "code.py").write_text(CODE)
    (here / "flow.yaml").write_text(
        "id: flow\ninputs: [text]\nsteps: [{id: s, type: hop, target: code.py:text}]\n"
        "outputs: [{key: answer, from: s}]\n"
    )
    cases = [{"id": "a", "inputs": {"text": "x"}, "expected_outputs": {"anser": "y"}}]
    (here / "a_b.jsonl").write_text("\n".join(map(json.dumps, cases)))
    assert told(capsys, "a_b.jsonl").problems == [
        "error a_b.jsonl:1 $.expected_outputs.anser: the pipeline has no output 'anser'; did you mean 'answer'?"
    ]
    assert not (here / "ran").exists()


@pytest.mark.parametrize("code", ["", "process_docs: !function code.text\n"])
def test_the_check_of_a_task_loads_no_data_set_of_the_hub(here: Path, code: str) -> None:
    """A package `datasets` of our own says whether it was imported. The real one is no dependency."""
    (here / "packages" / "datasets").mkdir(parents=True)
    (here / "packages" / "datasets" / "__init__.py").write_text("open('imported', 'w')\n")
    (here / "code.py").write_text(CODE)
    text = TASK.replace("dataset_path: json", "dataset_path: someone/something")
    text = text.replace("dataset_kwargs: {data_files: {test: rows.jsonl}}\n", "")
    (here / "t.yaml").write_text(text + code)
    paths = f"{environment()['PYTHONPATH']}{os.pathsep}{here / 'packages'}"
    words = [sys.executable, "-m", "assay", "check", "t.yaml"]
    done = subprocess.run(words, env=environment() | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "the data set 'someone/something' was not loaded; --run-code loads it" in done.stdout
    assert not (here / "imported").exists()
    words.append("--run-code")
    subprocess.run(words, env=environment() | {"PYTHONPATH": paths}, capture_output=True, check=False)
    assert (here / "imported").exists()


@pytest.mark.parametrize(
    "text",
    [
        "metric_list: [{metric: code.py:txet}]\n",
        "filter_list: [{name: f, filter: [{function: code.py:txet}]}]\n",
    ],
)
def test_a_metric_or_filter_that_its_file_lacks_is_found_without_importing(
    here: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (here / "rows.jsonl").write_text(ROWS)
    (here / "code.py").write_text(CODE)
    (here / "t.yaml").write_text(TASK + text)
    check = told(capsys, "t.yaml")
    assert check.code == 1
    assert check.problems == ["error t.yaml: code.py has no function 'txet'; did you mean 'text'?"]
    assert not (here / "ran").exists()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def txet(doc): ...\n", "has no function 'text'; did you mean 'txet'?"),
        ("def text(:\n", "code.py:1: not Python: "),
        ("x = " + "-" * 100_000 + "1\n", "not Python"),
    ],
)
def test_a_function_that_cannot_be_imported_is_found_without_importing(
    here: Path, capsys: pytest.CaptureFixture[str], code: str, message: str
) -> None:
    (here / "rows.jsonl").write_text(ROWS)
    (here / "code.py").write_text(code)
    (here / "t.yaml").write_text(TASK.replace('"{{q}}"', "!function code.text"))
    (here / "flow.yaml").write_text("steps: [{id: s, type: hop, target: code.py:text}]\n")
    check = told(capsys, "t.yaml", "flow.yaml")
    assert check.code == 1
    assert [message in problem for problem in check.problems] == [True, True]


@pytest.mark.parametrize("name", ["lib/code.text", "../code.text", "code..text"])
def test_a_function_path_that_a_run_refuses_is_found(here: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """The file exists, and `!function` takes the name of a module, not a path."""
    (here / "rows.jsonl").write_text(ROWS)
    for place in (here / "lib", here.parent):
        place.mkdir(exist_ok=True)
        (place / "code.py").write_text("def text(doc): ...\n")
    (here / "t.yaml").write_text(TASK.replace('"{{q}}"', f"!function {name}"))
    check = told(capsys, "t.yaml")
    assert check.code == 1
    assert [f"!function {name}: a path is not allowed" in problem for problem in check.problems] == [True]


def test_a_folder_is_checked_file_by_file_with_a_sum(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Task files are one check; files that assay does not read are named, and are no fault."""
    (here / "tasks").mkdir()
    (here / "tasks" / "t.yaml").write_text(TASK)
    (here / "tasks" / "part.yaml").write_text("output_type: generate_until\n")
    (here / "tasks" / "rows.jsonl").write_text(ROWS)
    (here / "testsets").mkdir()
    (here / "testsets" / "a_b.jsonl").write_text('{"id": 1, "inputs": {"text": "x"}}\n{"id": 1}\n')
    (here / "flow.yaml").write_text(FLOW)
    (here / "package.json").write_text('{"name": "x"}')
    (here / "broken.json").write_text('{"name": ')
    (here / "README.md").write_text("# x\n")
    (here / "Double" / "Hoplet").mkdir(parents=True)
    (here / "Double" / "Hoplet" / "Hop.py").write_text("def hop(n): ...\n")
    check = told(capsys, ".")
    assert check.code == 1
    assert [(file["path"], file["kind"]) for file in check.files] == [
        (".", "folder of tasks (task)"),
        ("Double", "task folder (hop)"),
        ("broken.json", ""),
        ("flow.yaml", "pipeline"),
        ("tasks/rows.jsonl", "rows of data (task)"),
        ("testsets/a_b.jsonl", "testset v1 and v2 (pipeline)"),
        (".", "folder"),
    ]
    assert check.files[-1]["contents"] == "6 checked, 4 without errors; 3 errors, 0 warnings"
    assert "package.json" in check.files[-1]["notes"][0]
    assert typed(capsys, ".")[1].splitlines()[-1].strip() == "1 other file not checked"


def test_a_folder_without_anything_to_check_is_an_error(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "empty").mkdir()
    (here / "empty" / "a.txt").write_text("x")
    code, out = typed(capsys, "empty")
    assert code == 1
    assert "nothing to check is in this folder" in out


def test_a_contract_in_prose_is_told_with_its_task_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "V" / "Hoplet").mkdir(parents=True)
    (here / "V" / "Hoplet" / "Hop.py").write_text("def hop(n): ...\n")
    (here / "V" / "Hoplet" / "metainfo.md").write_text("# V\n\nIt verifies.\n")
    assert told(capsys, "V").problems == ["warning metainfo.md: the file has no contract, only prose"]


def test_a_named_pipe_in_a_folder_of_tasks_does_not_hang_the_check(sums: Path, assay_in: Assay) -> None:
    """The task beside it is checked all the same."""
    os.mkfifo(sums / "pipe.yaml")
    done = assay_in("check", ".")
    assert "1 tasks and 0 groups, 1 of 1 files are fine" in done.stdout


def test_a_testset_in_the_data_folder_of_prompt_lab_is_checked_for_its_pipeline(sums: Path, assay_in: Assay) -> None:
    """A run finds it there, so the check knows the inputs that it lacks."""
    (sums / "pipelines").mkdir()
    (sums / "pipelines" / "p.yaml").write_text(
        "id: p\ninputs: [word]\ndefault_testset: a.jsonl\nsteps: [{id: one, template: '{{ word }}'}]\n"
    )
    folder = sums / "data" / "pipelines" / "p" / "testsets"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_text('{"id": "a", "inputs": {"wrd": "x"}}\n')
    done = assay_in("check", "data/pipelines/p/testsets/a.jsonl")
    assert done.returncode == 1
    assert "the input 'word' is missing" in done.stdout
