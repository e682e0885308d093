"""Real commands over files whose patterns take for ever: each pattern is stopped, and signals are heard meanwhile.

CI plays a few patterns in each place and a few signals, `make test-long` plays all of them.
"""

from __future__ import annotations

import inspect
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.commands import TIMEOUT, Job, Started, environment
from support.exploding import EXPLODING, A, worker_of
from support.pipeline_project import PipelineProject, case, read_lines, says
from support.task_project import TaskProject, as_yaml

Pairs = Sequence[tuple[str, str]]
Commands = list[list[str]]
FEW: Pairs = [EXPLODING[number] for number in (0, 29, 33, 35)]
"""Exponential and polynomial patterns; one is Chinese, one has quotes in it, one has a long text."""
LIMIT = "0.01"
PLAIN = {"q": "plain", "a": "plain", "choices": ["one", "two"]}
MODEL = f"""
import asyncio
import os
from pathlib import Path

{inspect.getsource(worker_of)}

async def answer(prompt, params):
    '''Repeats the prompt. To `wait` it answers when a slow pattern of another case runs.'''
    text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    text = text.removeprefix("say ")
    if text == "wait":
        await meanwhile()
    return text


async def judge(prompt, params):
    '''Waits in the same way if the prompt has an answer with `patience`.'''
    if "patience" in str(prompt):
        await meanwhile()
    return '{{"label": "wrong", "reason": "x"}}'


async def meanwhile():
    while not worker_of(os.getpid()):
        await asyncio.sleep(0.01)
    Path(__file__).with_name("heard").touch()
"""
RUN = ["--model", "python/model.py:answer", "--output-dir", "out"]


def replaced(pattern: str, name: str) -> str:
    """A template with the pattern in it. Strings of Jinja are written as those of JSON."""
    return f"{{{{ {name} | regex_replace({json.dumps(pattern)}, '-') }}}}"


# Places. Each function writes the files for all pairs, and returns the commands that read them.


def write_tasks(folder: Path, pairs: Pairs, settings: Callable[[str], dict[str, Any]]) -> Commands:
    """A task for each pattern, with a document on which it explodes, and one command for all of them."""
    lab = TaskProject(folder)
    for number, (pattern, text) in enumerate(pairs):
        docs = [PLAIN, {"q": text, "a": "x", "choices": ["one", "two"]}]
        lab.task(f"t{number}.yaml", docs=docs, **settings(pattern))
    lab.write("model.py", MODEL)
    return [["task", *(f"t{number}.yaml" for number in range(len(pairs))), *RUN]]


def filters(**step: Any) -> dict[str, Any]:
    return {"filter_list": [{"name": "f", "filter": [step, {"function": "take_first"}]}]}


def filter_of_a_task(folder: Path, pairs: Pairs) -> Commands:
    return write_tasks(folder, pairs, lambda pattern: filters(function="regex", regex_pattern=pattern))


def choices_of_a_task(folder: Path, pairs: Pairs) -> Commands:
    settings = {"function": "multi_choice_regex"}
    return write_tasks(folder, pairs, lambda pattern: filters(**settings, regex_pattern=pattern))


def ignored_by_a_filter(folder: Path, pairs: Pairs) -> Commands:
    settings = {"function": "multi_choice_regex"}
    return write_tasks(folder, pairs, lambda pattern: filters(**settings, regexes_to_ignore=[pattern]))


def ignored_by_a_metric(folder: Path, pairs: Pairs) -> Commands:
    def settings(pattern: str) -> dict[str, Any]:
        return {"metric_list": [{"metric": "exact_match", "regexes_to_ignore": [pattern]}]}

    return write_tasks(folder, pairs, settings)


def prompt_of_a_task(folder: Path, pairs: Pairs) -> Commands:
    return write_tasks(folder, pairs, lambda pattern: {"doc_to_text": replaced(pattern, "q")})


def target_of_a_task(folder: Path, pairs: Pairs) -> Commands:
    return write_tasks(folder, pairs, lambda pattern: {"doc_to_target": replaced(pattern, "q")})


def write_variants(folder: Path, pairs: Pairs, override: Callable[[str], dict[str, Any]]) -> Commands:
    """A pipeline with a variant for each pattern. Each test is for one variant only."""
    lab = PipelineProject(folder)
    variants = {f"v{n}": {"overrides": {"s": override(pattern)}} for n, (pattern, _) in enumerate(pairs)}
    lab.pipeline(says("s"), variants=variants)
    tests = [
        case(n, inputs={"text": text}, conditions=f"variant == 'v{n}'", expected_outputs={"output": "x"})
        for n, (_, text) in enumerate(pairs)
    ]
    lab.tests(*tests, case("plain", expected_outputs={"output": "hello"}, conditions="variant == 'baseline'"))
    lab.write("model.py", MODEL)
    names = ",".join(["baseline", *variants])
    return [["pipeline", "p.yaml", "--testset", "tests.jsonl", "--variants", names, *RUN]]


def parser_of_a_step(folder: Path, pairs: Pairs) -> Commands:
    def override(pattern: str) -> dict[str, Any]:
        return {"output_parser": {"type": "regex", "pattern": pattern}}

    return write_variants(folder, pairs, override)


def template_of_a_step(folder: Path, pairs: Pairs) -> Commands:
    return write_variants(folder, pairs, lambda pattern: {"template": replaced(pattern, "text")})


def system_of_a_step(folder: Path, pairs: Pairs) -> Commands:
    return write_variants(folder, pairs, lambda pattern: {"system": replaced(pattern, "text")})


def write_tests(folder: Path, pairs: Pairs, fields: Callable[[str], dict[str, Any]]) -> Commands:
    """A testset with a test for each pattern."""
    lab = PipelineProject(folder)
    lab.pipeline(says("s"), outputs=[{"key": "output", "from": "s"}])
    tests = [case(n, inputs={"text": text}, **fields(pattern)) for n, (pattern, text) in enumerate(pairs)]
    lab.tests(*tests, case("plain", expected_outputs={"output": "hello"}))
    lab.write("model.py", MODEL)
    return [["pipeline", "p.yaml", "--testset", "tests.jsonl", *RUN]]


def expectation_of_a_test(folder: Path, pairs: Pairs) -> Commands:
    return write_tests(folder, pairs, lambda pattern: {"expected_outputs": {"output": f"regex:{pattern}"}})


def expectation_of_a_step(folder: Path, pairs: Pairs) -> Commands:
    def fields(pattern: str) -> dict[str, Any]:
        return {
            "intermediate_expectations": {"s": f"regex:{pattern}"},
            "evaluation_config": {"evaluate_intermediate": True},
        }

    return write_tests(folder, pairs, fields)


def rule_of_a_test(folder: Path, pairs: Pairs) -> Commands:
    def fields(pattern: str) -> dict[str, Any]:
        return {"evaluation_config": {"rules": [{"kind": "regex_match", "pattern": pattern}]}}

    return write_tests(folder, pairs, fields)


def write_pipelines(folder: Path, pairs: Pairs, write: Callable[[PipelineProject, str, str], str]) -> Commands:
    """A pipeline for each pattern, with a command of its own: what a whole pipeline has applies to all of its tests."""
    lab = PipelineProject(folder)
    commands = []
    for number, (pattern, text) in enumerate(pairs):
        pipeline = write(lab, f"p{number}", pattern)
        testset = lab.tests(
            case(number, inputs={"text": text}, expected_outputs={"output": "x"}),
            case("plain", expected_outputs={"output": "hello"}),
            name=f"tests{number}.jsonl",
        )
        commands.append(["pipeline", pipeline, "--testset", testset, *RUN[:-1], f"out{number}"])
    lab.write("model.py", MODEL)
    return commands


def rule_of_an_output(folder: Path, pairs: Pairs) -> Commands:
    def write(lab: PipelineProject, name: str, pattern: str) -> str:
        rule = {"kind": "regex_match", "pattern": f"{pattern}|hello"}
        outputs = [{"key": "output", "from": "s", "rules": [rule]}]
        return lab.pipeline(says("s"), name=f"{name}.yaml", outputs=outputs)

    return write_pipelines(folder, pairs, write)


def flow_of_an_agent(folder: Path, pairs: Pairs) -> Commands:
    """As Prompt Lab has it: the rule stands in agent.yaml, the parser in the flow."""

    def write(lab: PipelineProject, name: str, pattern: str) -> str:
        rule = {"id": "r", "kind": "regex_match", "pattern": f"{pattern}|hello"}
        agent = {"id": name, "flows": [{"name": "v1"}], "evaluation": {"rules": [rule]}}
        lab.write(f"agents/{name}/agent.yaml", as_yaml(agent))
        lab.write(f"agents/{name}/prompts/v1.yaml", as_yaml({"user_template": "{text}"}))
        step = {"id": "s", "agent": name, "flow": "v1"}
        return lab.pipeline(step, name=f"{name}.yaml", inputs=["text"])

    return write_pipelines(folder, pairs, write)


PLACES = [
    filter_of_a_task,
    choices_of_a_task,
    ignored_by_a_filter,
    ignored_by_a_metric,
    prompt_of_a_task,
    target_of_a_task,
    parser_of_a_step,
    template_of_a_step,
    system_of_a_step,
    expectation_of_a_test,
    expectation_of_a_step,
    rule_of_a_test,
    rule_of_an_output,
    flow_of_an_agent,
]
BOTH = [pytest.param(FEW, id="few"), pytest.param(EXPLODING, id="forty")]


@pytest.mark.parametrize("pairs", BOTH)
@pytest.mark.parametrize("place", PLACES)
def test_a_command_stops_every_pattern_that_explodes(
    tmp_path: Path, place: Callable[[Path, Pairs], Commands], pairs: Pairs
) -> None:
    """Each has a reason in the journal. The documents and tests without such a text are scored."""
    commands = place(tmp_path, pairs)
    for command in commands:
        done = assay_here(tmp_path, "-m", "assay", *command)
        assert "Traceback" not in done.stderr
        # 2 is for documents without a prompt or a target: they cannot be asked.
        assert (done.returncode == 2) == (place in (prompt_of_a_task, target_of_a_task)), done.stderr
    reasons = "\n".join(said_of_cases(tmp_path))
    for pattern, _ in pairs:
        assert f"{pattern!r}"[1:-1] in reasons
    assert reasons.count("was stopped after 0.01 s, on a text of") >= len(pairs)
    plain = len(pairs) if commands[0][0] == "task" or len(commands) > 1 else 1
    assert sum(score.get("value") is not None for score in scores_of(tmp_path)) >= plain


EVALUATE = """
import json
import os
from pathlib import Path

import assay
import model

def run(name, **options):
    return assay.evaluate(target="a", version="1", output_dir=f"out/{name}", **options)

for number, (pattern, text) in enumerate(json.loads(Path("pairs.json").read_text())):
    rows = [{"q": "plain", "a": "plain", "pattern": pattern}, {"q": text, "a": "x", "pattern": pattern}]
    run(f"score{number}", rows=rows, answer=lambda q: q, score=assay.exact_match(regexes_to_ignore=[pattern]))
    prompt = "{{ q | regex_replace(pattern, '-') }}"
    run(f"prompt{number}", rows=rows, model="python/model.py:answer", prompt=prompt, score="exact_match")
"""


@pytest.mark.parametrize("pairs", BOTH)
def test_a_program_that_evaluates_stops_every_pattern_that_explodes(tmp_path: Path, pairs: Pairs) -> None:
    """In a scorer, and in a prompt whose pattern comes with the rows."""
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "pairs.json").write_text(json.dumps(list(pairs)))
    (tmp_path / "program.py").write_text(EVALUATE)
    done = assay_here(tmp_path, "program.py")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    for place in ("score", "prompt"):
        for number, (pattern, _) in enumerate(pairs):
            (reason,) = said_of_cases(tmp_path / "out" / f"{place}{number}")
            assert f"the pattern {pattern!r} was stopped after 0.01 s, on a text of" in reason


# Signals

ROWS = 60
TEXTS = ["wait", *(f"{A}! {number}" for number in range(ROWS))]
"""The first text is answered while the pattern `(a+)+$` explodes on another one."""
PATTERN = "(a+)+$"


def task_job(folder: Path, **changes: Any) -> list[str]:
    lab = TaskProject(folder)
    lab.task(docs=[{"q": text, "a": "x"} for text in TEXTS], **changes)
    lab.write("model.py", MODEL)
    return ["-m", "assay", "task", "t.yaml", *RUN]


def filter_job(folder: Path) -> list[str]:
    return task_job(folder, **filters(function="regex", regex_pattern=PATTERN))


def judge_job(folder: Path) -> list[str]:
    """The answers are there and scored. Only the judge is left, which reads the filtered ones."""
    settings = filters(function="regex", regex_pattern=PATTERN)
    lab = TaskProject(folder)
    lab.task(docs=[{"q": text, "a": "x"} for text in ("patience", *TEXTS[1:])], **settings)
    lab.write("model.py", MODEL)
    command = ["-m", "assay", "task", "t.yaml", *RUN]
    assert assay_here(folder, *command).returncode == 0
    return [*command, "--judge", "python/model.py:judge"]


def metric_job(folder: Path) -> list[str]:
    return task_job(folder, metric_list=[{"metric": "exact_match", "regexes_to_ignore": [PATTERN]}])


def prompt_job(folder: Path) -> list[str]:
    """Prompts of tasks are made while rows are read, in the event loop."""
    return task_job(folder, doc_to_text=replaced(PATTERN, "q"))


def pipeline_job(folder: Path, step: dict[str, Any], **fields: Any) -> list[str]:
    lab = PipelineProject(folder)
    lab.pipeline(step)
    lab.tests(*(case(number, inputs={"text": text}, **fields) for number, text in enumerate(TEXTS)))
    lab.write("model.py", MODEL)
    return ["-m", "assay", "pipeline", "p.yaml", "--testset", "tests.jsonl", *RUN]


def expectation_job(folder: Path) -> list[str]:
    return pipeline_job(folder, says("s"), expected_outputs={"output": f"regex:{PATTERN}"})


def rule_job(folder: Path) -> list[str]:
    rules = [{"kind": "regex_match", "pattern": PATTERN}]
    return pipeline_job(folder, says("s"), evaluation_config={"rules": rules})


def parser_job(folder: Path) -> list[str]:
    return pipeline_job(folder, says("s", output_parser={"type": "regex", "pattern": PATTERN}))


def template_job(folder: Path) -> list[str]:
    return pipeline_job(folder, says("s", replaced(PATTERN, "text")))


def dependency_job(folder: Path) -> list[str]:
    """Whether the first test has passed is decided before the second one may run, and before it is scored."""
    command = pipeline_job(folder, says("s"))
    expected = {"output": f"regex:{PATTERN}"}
    tests = [case("first", inputs={"text": TEXTS[1]}, expected_outputs=expected)]
    tests += [
        case("second", inputs={"text": "x"}, depends_on=["first"]),
        case("third", inputs={"text": "wait"}),
    ]
    (folder / "tests.jsonl").write_text("".join(json.dumps(test) + "\n" for test in tests))
    return command


def program(folder: Path, arguments: str) -> list[str]:
    (folder / "model.py").write_text(MODEL)
    (folder / "texts.json").write_text(json.dumps(TEXTS))
    (folder / "program.py").write_text(
        "import json\nfrom pathlib import Path\nimport assay\nimport model\n\n"
        "async def say(q):\n    return await model.answer(q, {})\n\n"
        "rows = [{'q': text, 'a': 'x'} for text in json.loads(Path('texts.json').read_text())]\n"
        f"assay.evaluate(rows, {arguments}, target='a', version='1', output_dir='out')\n"
    )
    return ["program.py"]


def evaluate_score_job(folder: Path) -> list[str]:
    return program(folder, f"answer=say, score=assay.exact_match(regexes_to_ignore=[{PATTERN!r}])")


def evaluate_prompt_job(folder: Path) -> list[str]:
    prompt = replaced(PATTERN, "q")
    return program(folder, f"model='python/model.py:answer', prompt={prompt!r}, score='exact_match'")


JOBS = [
    filter_job,
    judge_job,
    metric_job,
    prompt_job,
    expectation_job,
    rule_job,
    parser_job,
    template_job,
    dependency_job,
    evaluate_score_job,
    evaluate_prompt_job,
]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("write", JOBS)
def test_a_signal_ends_a_run_whose_pattern_explodes(
    tmp_path: Path,
    write: Callable[[Path], list[str]],
    number: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another case goes on meanwhile, and the run ends before all rows are done, though a match may take minutes.

    Only while rows are read the match blocks everything else, up to its limit.
    """
    in_loop = write is prompt_job
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_PATTERN_SECONDS", "1" if in_loop else "120")
    job = Job(write(tmp_path), tmp_path / "out")
    scored_before = job.count("scores")
    with job.started() as started:
        assert started.wait_for((lambda: worker_of(started.process.pid)) if in_loop else (tmp_path / "heard").exists)
        finished = end_by(started, number)
    # A program of the user ends by the KeyboardInterrupt that `evaluate` raises, as Python ends by it.
    expected = {-signal.SIGINT} if job.command[1] == "program.py" else {130}
    # SIGTERM before the first case: nothing is there to be stopped kindly.
    assert finished in expected | ({-signal.SIGTERM} if in_loop else set())
    assert job.count("scores") - scored_before < len(TEXTS)


def end_by(started: Started, number: signal.Signals) -> int:
    """Send the signal twice: the first lets open cases finish, the second does not. Returns the exit code."""
    started.process.send_signal(number)
    time.sleep(1)  # two equal signals at once are one, also on a busy machine
    started.process.send_signal(number)
    return started.end().code


def assay_here(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, as a process with a small limit for patterns."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment() | {"ASSAY_PATTERN_SECONDS": LIMIT},
        capture_output=True,
        text=True,
        timeout=4 * TIMEOUT,
        check=False,
    )


def said_of_cases(folder: Path) -> list[str]:
    """The texts about stopped patterns in all journals below a folder: reasons of scores, messages of failures."""
    lines = [line for path in folder.rglob("*s.jsonl") if "assay" in path.parts for line in read_lines(path)]
    return [text for line in lines for text in texts_in(line) if "was stopped after" in text]


def texts_in(value: Any) -> Iterator[str]:
    """Yield all texts of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts_in(item)


def scores_of(folder: Path) -> list[dict[str, Any]]:
    """The scores in all journals below a folder."""
    lines = [line for path in folder.rglob("scores.jsonl") for line in read_lines(path)[1:]]
    return [line for line in lines if line["type"] == "score"]
