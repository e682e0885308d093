"""`assay check` and failed runs give the nearest name for a misspelled one, with its file and line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.cli.main import main

from support.small_files import small_task

TASK = small_task("t", "rows.jsonl", prompt="{{q}}", target="{{a}}")
FLOW = """\
id: flow
inputs: [text]
steps:
- {id: s, template: "{{ text }}"}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Type a command and return its exit code, its output and its messages."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main(list(words))
    printed = capsys.readouterr()
    return int(str(left.value.code or 0)), printed.out, printed.err


def problems(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """Level, place and message of every problem that `assay check` finds."""
    _, out, _ = run(capsys, "check", *words, "--json")
    return [
        f"{each['level']} {each['where']}: {each['message']}" for file in json.loads(out) for each in file["problems"]
    ]


def test_an_agent_with_names_of_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("agents/mood/prompts/mood_v1.yaml", "user_template: hi {text}\nsystem_promt: x\n")
    write("agents/mood/testsets/default.jsonl", '{"id": 1, "inputs": {"text": "x"}}\n')
    write(
        "agents/mood/agent.yaml",
        "id: mood\nowner: me\nflows: [{name: mood_v1, fil: x}]\nbaseline_flow: mood_v7\nbasline_flow: mood_v1\n"
        "default_testset: defalt.jsonl\nextra_testsets: [default.jsonl, other.jsonl]\nevaluation:\n  rule: []\n"
        "expectations:\n  must_hav: []\n",
    )
    file = "agents/mood/agent.yaml"
    assert problems(capsys, file) == [
        f"warning {file}:5: basline_flow: is not read; did you mean 'baseline_flow'?",
        f"warning {file}:11: expectations.must_hav: is not read; did you mean 'must_have'?",
        f"warning {file}:9: evaluation.rule: is not read; did you mean 'rules'?",
        f"warning {file}:3: flows.0.fil: is not read; did you mean 'file'?",
        f"error {file}:4: baseline_flow: there is no flow named 'mood_v7'; did you mean 'mood_v1'?",
        f"warning {file}:6: default_testset: there is no testset 'defalt.jsonl'; did you mean 'default.jsonl'?",
        f"warning {file}:7: extra_testsets.1: there is no testset 'other.jsonl'",
        "warning agents/mood/prompts/mood_v1.yaml:2: system_promt: is not read; did you mean 'system_prompt'?",
    ]


def test_a_flow_that_no_run_could_use(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A template that does not compile, and a parser that does not exist."""
    file = "agents/mood/prompts/v1.yaml"
    write("agents/mood/agent.yaml", "id: mood\nflows: [{name: v1}]\n")
    write(file, "user_template: '{% for %}'\nsystem_prompt: '{% if %}'\noutput_parser: {type: jsn}\n")
    for checked in (file, "agents/mood/agent.yaml"):
        template, system, parser = problems(capsys, checked)
        assert template.startswith(f"error {file}: template: ")
        assert system.startswith(f"error {file}: system: ")
        assert parser.startswith(f"error {file}: output_parser: ")


def test_a_pipeline_whose_default_testset_does_not_exist(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("testsets/words.jsonl", '{"id": 1, "inputs": {"text": "x"}}\n')
    write("flow.yaml", FLOW + "default_testset: wrods.jsonl\n")
    message = "there is no testset 'wrods.jsonl'; did you mean 'words.jsonl'?"
    assert problems(capsys, "flow.yaml") == [f"warning flow.yaml:5: default_testset: {message}"]
    write("r.jsonl", '{"text": "yes"}\n')
    code, _, err = run(capsys, "pipeline", "--pipeline", "flow.yaml", "--model", "script/r.jsonl")
    assert code == 2
    assert message in err
    write("flow.yaml", FLOW + "default_testset: words.jsonl\n")
    assert problems(capsys, "flow.yaml") == []


def test_a_template_variable_that_nothing_provides(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Values come from inputs, outputs of steps, defaults and mappings. A failed step names the nearest one too."""
    write("agents/mood/prompts/v1.yaml", "defaults: {tone: x}\nuser_template: |\n  {tone} of\n  {mesage}\n")
    write("tests.jsonl", '{"id": 1, "inputs": {"message": "x"}}\n')
    write("r.jsonl", '{"text": "yes"}\n')
    write(
        "p.yaml",
        """\
inputs: [message]
default_testset: tests.jsonl
steps:
- {id: mood, agent: mood, flow: v1}
- id: reply
  template: |
    {{ mood }} {{ message }} {{ inputs.message }}
    {% for x in [1] %}{{ x }}{{ mod }}{% endfor %}
- {id: last, template: "{{ answer }} {{ mood }}", input_mapping: {answer: reply}}
- {id: each, batch_mode: true, template: "{{ field }} {{ item }} {{ rply }}"}
variants:
  short:
    overrides:
      reply: {template: "{{ colour }}"}
""",
    )
    mapping = "it is the output of a step; add it to the step's input_mapping"
    assert problems(capsys, "p.yaml") == [
        "warning agents/mood/prompts/v1.yaml:4: no input and no step provides 'mesage'; did you mean 'message'?",
        "warning p.yaml:8: no input and no step provides 'mod'; did you mean 'mood'?",
        "warning p.yaml:9: no input and no step provides 'mood'; " + mapping,
        "warning p.yaml:10: no input and no step provides 'rply'; did you mean 'reply'?",
        "warning p.yaml:14: no input and no step provides 'colour'; the inputs are message",
    ]
    write("p.yaml", "default_testset: tests.jsonl\nsteps:\n- {id: mood, agent: mood, flow: v1}\n")
    assert problems(capsys, "p.yaml") == []
    _, out, err = run(capsys, "pipeline", "--pipeline", "p.yaml", "--model", "script/r.jsonl")
    assert "no input of the test and no step has this name; did you mean 'message'?" in out + err


def test_a_misspelled_key_of_a_metric_is_compared_with_all_keys_of_metrics(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("rows.jsonl", '{"q": "1", "a": "2"}\n')
    write("t.yaml", TASK + "metric_list: [{metric: exact_match, agregation: mean}]\n")
    (problem,) = problems(capsys, "t.yaml")
    assert "there is no option named 'agregation'; did you mean 'aggregation'?" in problem


def test_misspelled_names_in_a_testset(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {"tolerence": 0.1, "rules": [{"id": "a", "kind": "alowed_values", "values": ["x"]}]}
    write("tests.jsonl", json.dumps({"id": 1, "inputs": {"text": "x"}, "evaluation_config": config}))
    text = "\n".join(problems(capsys, "tests.jsonl"))
    assert "unknown setting, ignored; did you mean 'tolerance'?" in text
    assert "there is no rule named 'alowed_values'; did you mean 'allowed_values'?" in text


def test_a_misspelled_input_of_a_row(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("T/Hoplet/Hop.py", "def hop_t(subject): return {}\n")
    write("T/Hoplet/contract.yaml", "name: T\ninputs: {subject: str}\n")
    write("T/TestCases/rows.jsonl", '{"id": 1, "tag": "t", "sbject": "x"}\n')
    (problem,) = problems(capsys, "T/TestCases/rows.jsonl")
    assert "the contract requires this input, but the row lacks it; is 'sbject' meant?" in problem


def test_a_name_that_a_python_file_lacks(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message lists what the file has."""
    write("model.py", "async def answer(prompt, params): return 'x'\n\ndef other(): ...\n")
    write("p.yaml", FLOW)
    write("tests.jsonl", '{"id": 1, "inputs": {"text": "x"}}\n')
    words = ("pipeline", "--pipeline", "p.yaml", "--testset", "tests.jsonl")
    code, _, err = run(capsys, *words, "--model", "python/model.py:nosuch")
    assert code == 2
    assert "model.py has no 'nosuch'; it has answer, other" in err


def test_an_export_to_standard_output_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "export", "results", "--to", "csv", "--output", "-")
    assert code == 2
    assert "--output -: an export is written to files; name a file or a folder" in err


def test_a_metric_that_returns_no_number_is_named_with_its_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("rows.jsonl", '{"q": "1", "a": "2"}\n')
    write("mine.py", "\n\ndef own(references, predictions): return float('nan')\n")
    write("t.yaml", TASK + "metric_list: [{metric: !function mine.own, aggregation: mean}]\n")
    write("r.jsonl", '{"text": "yes"}\n')
    words = ("--model", "script/r.jsonl", "--output-dir", "out", "--confirm-run-unsafe-code")
    _, out, err = run(capsys, "task", "t.yaml", *words)
    assert "the metric (mine.py:3) returned nan, expected a number" in out + err


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def helper(n): ...\n", 'has no function with "hop" in its name; it has helper'),
        ("x = 1\n", 'has no function with "hop" in its name'),
        ("def hop_t(n): ...\n", ""),
        ("def T(n): ...\n", ""),
    ],
)
def test_a_task_of_hop_without_its_function(
    here: Path, capsys: pytest.CaptureFixture[str], code: str, message: str
) -> None:
    write("T/Hoplet/Hop.py", f"raise SystemExit('imported')\n{code}")
    write("T/Hoplet/contract.yaml", "name: T\ninputs: {n: int}\n")
    text = "\n".join(problems(capsys, "T"))
    assert message in text
    assert bool(message) == ("error T/Hoplet/Hop.py: has no" in text)
    write("T/Hoplet/contract.yaml", "name: T\ninputs: {n: int}\nfunction: hlper\n")
    text = "\n".join(problems(capsys, "T"))
    assert "error T/Hoplet/Hop.py: has no function 'hlper'" in text
    assert ("did you mean 'helper'?" in text) == ("helper" in code)


def test_a_condition_with_a_misspelled_input(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The name after `inputs.` is checked too, and a run without tests names the condition and its line."""
    write("p.yaml", "inputs: [language]\nsteps:\n- {id: s, template: '{{ language }}'}\n")
    records = [{"id": n, "inputs": {"language": 1}, "conditions": "inputs.lnguage == 1"} for n in (1, 2)]
    write("tests.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    found = problems(capsys, "tests.jsonl", "--pipeline", "p.yaml")
    message = "the name 'lnguage' has no value in this test; did you mean 'language'?"
    assert [each for each in found if message in each and each.startswith("error tests.jsonl:1")]
    write("r.jsonl", '{"text": "yes"}\n')
    words = ("--pipeline", "p.yaml", "--testset", "tests.jsonl", "--model", "script/r.jsonl")
    code, out, err = run(capsys, "pipeline", *words)
    assert code == 1
    skipped = "2 skipped; the first: tests.jsonl:1: its condition is not met: inputs.lnguage == 1"
    assert skipped in " ".join((out + err).split())


def test_a_document_without_a_field_that_the_template_prints(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("rows.jsonl", '{"q": "1", "a": "2"}\n{"a": "2"}\n{"q": "3", "a": "4"}\n')
    write("t.yaml", TASK)
    message = "the document has no 'q', which the template prints as 'None'"
    assert [each for each in problems(capsys, "t.yaml") if message in each] == [f"warning rows.jsonl:2: {message}"]


def test_a_misspelled_parameter_of_generation(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("rows.jsonl", '{"q": "1", "a": "2"}\n')
    write("t.yaml", TASK + "generation_kwargs:\n  untill: [x]\n  mirostat: 2\n")
    (problem,) = problems(capsys, "t.yaml")
    assert problem.startswith("warning t.yaml:9")
    assert "did you mean 'until'?" in problem
