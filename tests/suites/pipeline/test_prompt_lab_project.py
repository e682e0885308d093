"""`assay pipeline` with Prompt Lab's flags, on a project in Prompt Lab's layout."""

from __future__ import annotations

import csv
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from assay import load_testset
from assay.core.suite import files_of
from assay.suites.pipeline.options import PipelineOptions
from assay.suites.pipeline.suite import PipelineSuite

from support.pipeline_project import CommandResult, read_lines, typed
from support.suite_files import problems_of

PROJECT = Path(__file__).parents[3] / "examples" / "prompt-lab-project"
MODEL = ("--model", "script/replies/model.jsonl")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the example, as the working directory."""
    shutil.copytree(PROJECT, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def evaluated(capsys: pytest.CaptureFixture[str], line: str) -> CommandResult:
    """Run `assay pipeline …` as Prompt Lab's users type `python -m src eval …`."""
    return typed(capsys, "pipeline", *shlex.split(line), *MODEL)


def table(path: str) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def verdicts(name: str) -> list[tuple[str, Any, str]]:
    """Variant, id and verdict of the newest results."""
    return [(row["variant"], row["id"], row["result"]) for row in read_lines(Path("results") / name / "results.jsonl")]


def test_every_command_of_the_readme_runs(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pipelines with Python and JavaScript nodes and batches, both formats of testsets, an agent with two flows."""
    commands = re.findall(r"^assay pipeline (.*)$", (project / "README.md").read_text(), re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        done = typed(capsys, "pipeline", *shlex.split(command))
        assert done.code == 0, done.out + done.err
    for digest in ("review_digest", "review_digest_js"):
        assert verdicts(digest) == [("baseline", "three_reviews", "passed")]
    assert verdicts("mood_reader") == [(flow, line, "passed") for line in (1, 2, 3) for flow in ("mood_v1", "mood_v2")]


def test_a_pipeline_is_found_by_its_id(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the name of its file or the `id` in it; its default_testset is in data/pipelines/ID/testsets."""
    Path("pipelines/support_reply.yaml").rename("pipelines/first.yaml")
    for name in ("support_reply", "first", "pipelines/first.yaml"):
        done = evaluated(capsys, f"--pipeline {name}")
        assert done.code == 0, done.err
        assert [key for _, key, _ in verdicts("support_reply")] == ["flat_tyre", "sunday"]


def test_the_short_flags_of_eval_are_taken(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """-v, -i, -o and -r, with tags and a limit; a testset is found in the project's folders."""
    line = "--pipeline support_reply -v baseline -v careful -i requests_v1.jsonl -o out/table.csv -r"
    done = evaluated(capsys, f"{line} --include-tags praise,complaint --exclude-tags praise --limit 5")
    assert done.code == 0, done.err
    assert "--rules is ignored: the rules of outputs, tests and agents are always checked" in done.err
    assert verdicts("support_reply") == [("baseline", 1, "passed"), ("careful", 1, "passed")]
    assert [(row["id"], row["variant"]) for row in table("out/table.csv")] == [
        ("1", "baseline"),
        ("1", "careful"),
    ]


def test_the_table_has_the_columns_of_prompt_lab(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rules of agent.yaml are checked. What was not measured is empty, not 0."""
    path = Path("replies/model.jsonl")
    path.write_text(path.read_text().replace("On Sunday we open at nine.", "On Sunday: " + "nine, " * 30))
    Path("testsets/plain_v1.jsonl").write_text('{"id": "x", "message": "When do you open on Sunday?"}\n')
    done = evaluated(capsys, "--pipeline support_reply --outfile table.csv")
    assert done.code == 1
    good, wrong = table("table.csv")
    assert list(good) == [
        *("id", "variant", "overall_score", "must_have_pass", "execution_time", "judge_feedback"),
        *("rule_violations", "output__mood", "output__reply"),
    ]
    assert (good["overall_score"], good["must_have_pass"], good["rule_violations"]) == ("", "1", "")
    assert (wrong["must_have_pass"], wrong["rule_violations"]) == ("0", "short")
    assert wrong["output__mood"] == "calm"
    assert "120" in wrong["judge_feedback"]
    # Only a rule is checked here; a pipeline without rules would have no verdict.
    Path("agents/reply_writer/agent.yaml").unlink()
    assert evaluated(capsys, "--pipeline support_reply -i plain_v1.jsonl -o plain.csv").code in (0, 1)
    (row,) = table("plain.csv")
    assert row["must_have_pass"] == ""


def test_a_changed_rule_of_an_agent_is_scored_without_a_request(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rules belong to the scores, not to the requests."""
    assert evaluated(capsys, "--pipeline support_reply").code == 0
    agent = Path("agents/reply_writer/agent.yaml")
    agent.write_text(agent.read_text().replace("max_chars: 120", "max_chars: 30"))
    done = evaluated(capsys, "--pipeline support_reply")
    assert done.code == 1
    assert len(list(Path("results/assay").iterdir())) == 1


def test_a_finished_run_writes_a_table_that_is_asked_for_later(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a request; a deleted table is written again."""
    assert evaluated(capsys, "--pipeline support_reply").code == 0
    for _ in range(2):
        assert not Path("table.csv").exists()
        done = evaluated(capsys, "--pipeline support_reply -o table.csv")
        assert "wrote table.csv" in done.out
        assert len(table("table.csv")) == 2
        Path("table.csv").unlink()
    (run,) = Path("results/assay").iterdir()
    assert sum("request" in line for line in read_lines(run / "calls.jsonl")) == 4
    assert not Path("results/support_reply/table.csv").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "--pipeline suport_reply",
            "there is no pipeline named 'suport_reply'; did you mean 'support_reply'?",
        ),
        ("--agent mood_reder", "there is no agent named 'mood_reder'; did you mean 'mood_reader'?"),
        ("--agent mood_reader --flows mood_v3", "there is no flow named 'mood_v3'; did you mean"),
        ("--agent mood_reader --variants baseline", "an agent has flows instead of variants; pass --flows"),
        ("--agent mood_reader --pipeline support_reply", "pass one of them"),
        ("--pipeline support_reply --flows mood_v1", "--flows are those of an agent"),
        (
            "--pipeline support_reply --include-tags none",
            "no test case matches the selection: --include-tags none",
        ),
        ("--pipeline support_reply --infile none.jsonl", "there is no testset 'none.jsonl'"),
        ("--pipeline support_reply --outfile testsets", "--outfile testsets is a folder"),
        ("pipelines/support_reply.yaml --pipeline review_digest", "the pipeline is named twice, "),
        ("", "no pipeline given"),
    ],
)
def test_wrong_use_of_these_flags_is_exit_code_2(
    project: Path, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    """With a sentence, and before anything is written. A filter that selects nothing is wrong use."""
    done = evaluated(capsys, line)
    assert (done.code, message in done.err) == (2, True), done.err
    assert not Path("results").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--judge --model a/b", "--judge a/b --model a/b"),
        ("p.yaml --model=a/b -j", "p.yaml --model=a/b --judge a/b"),
        ("-j p.yaml --model a/b", "--judge a/b p.yaml --model a/b"),
        ("--judge c/d --model a/b", "--judge c/d --model a/b"),
        ("-j c/d --model a/b", "--judge c/d --model a/b"),
        ("--model a/b --judge offline", "--model a/b --judge offline"),
        ("--judge", "--judge"),
    ],
)
def test_a_judge_without_a_name_is_the_model_itself(words: str, expected: str) -> None:
    """Prompt Lab's --judge is a switch. The choice is told."""
    told: list[str] = []
    assert PipelineOptions.translate(words.split(), told.append) == expected.split()
    assert bool(told) == (expected.count("a/b") == 2)


def test_expectations_for_the_judge_agent_are_told_to_be_unused(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no judge agent here; rubrics stand in tests."""
    done = evaluated(capsys, "--pipeline support_reply --judge --limit 1")
    assert done.code == 0, done.err
    told = " ".join(done.err.split())
    assert told.count("not judged") == 1
    assert "expectations.must_have of" in told
    assert "agents/reply_writer/agent.yaml. assay has no judge agents; write what" in told
    assert "evaluation.judge_agent_id of" in told
    assert "not judged" not in evaluated(capsys, "--pipeline support_reply --limit 1").err


@pytest.mark.parametrize("judge", ["", "--judge script/replies/model.jsonl"])
def test_expectations_of_tests_for_the_judge_agent_are_told_to_be_unused(
    project: Path, capsys: pytest.CaptureFixture[str], judge: str
) -> None:
    """By a run and by a check, once for all tests. A key that a prompt reads is an input."""
    (project / "pipelines" / "p.yaml").write_text(
        "id: p\nsteps: [{id: one, template: '{{ message }} {{ nice_to_have }}'}]\n"
    )
    lines = [
        '{"id": 1, "message": "x", "must_have": ["a mood"], "nice_to_have": ["irony"], "expected_output": "angry"}',
        '{"id": 2, "inputs": {"message": "x"}, "expectations": {"must_have": ["a mood"]}, "nice_to_have": []}',
    ]
    (project / "testsets" / "judged_basic_v1.jsonl").write_text("\n".join(lines))
    expected = "not judged: must_have, expectations.must_have of 2 tests (the first: "
    done = evaluated(capsys, f"--pipeline p --infile testsets/judged_basic_v1.jsonl {judge}")
    told = " ".join(done.err.split())
    assert told.count(expected) == told.count("not judged") == 1, done.err
    done = typed(capsys, "check", "testsets/judged_basic_v1.jsonl", "--pipeline", "pipelines/p.yaml")
    assert " ".join((done.out + done.err).split()).count(expected) == 1, done.out
    done = typed(capsys, "check", "agents/mood_reader/agent.yaml", "pipelines/support_reply.yaml")
    assert (done.out + done.err).count("not judged") == 2, done.out


def test_both_formats_are_in_the_project() -> None:
    """With ids and without, v1 and v2, and settings of a step in a test."""
    without_ids = load_testset(PROJECT / "agents/mood_reader/testsets/default.jsonl")
    assert [case.id for case in without_ids] == [1, 2, 3]
    assert all("inputs" not in case.raw_data for case in load_testset(PROJECT / "testsets/requests_v1.jsonl"))
    second = load_testset(PROJECT / "data/pipelines/support_reply/testsets/requests.jsonl")
    assert second[1].get_step_input("reply", "model") == "careful-writer"


def test_agents_and_flows_are_checked(project: Path) -> None:
    """Every file of the project, and mistakes in it with their place."""
    for path in [*Path("agents").rglob("*.yaml"), Path("pipelines/support_reply.yaml")]:
        assert files_of(PipelineSuite).recognises(path).name == "SURE"
        assert problems_of(PipelineSuite, path) == []
    agent, prompts = Path("agents/mood_reader/agent.yaml"), Path("agents/mood_reader/prompts")
    agent.write_text(agent.read_text().replace("allowed_values", "allowed_value"))
    (prompts / "mood_v1.yaml").write_text("user_template: '{% if x %}'\noutput_parser: xml\n")
    (prompts / "mood_v2.yaml").unlink()
    problems = "\n".join(map(str, problems_of(PipelineSuite, agent)))
    line = 1 + agent.read_text()[: agent.read_text().index("rules:")].count("\n")
    assert f"{agent}:{line}: evaluation.rules[0].kind: there is no rule named 'allowed_value'" in problems
    assert f"{prompts}/mood_v1.yaml: output_parser: there is no parser 'xml'" in problems
    assert f"{prompts}/mood_v1.yaml: template: " in problems
    assert f"{prompts}/mood_v2.yaml: there is no such file" in problems


def test_a_wrong_rule_of_an_agent_stops_the_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At the line of agent.yaml."""
    agent = Path("agents/reply_writer/agent.yaml")
    agent.write_text(agent.read_text().replace("max_chars: 120", "max_chars: many"))
    done = evaluated(capsys, "--pipeline support_reply")
    assert done.code == 2
    assert re.search(r"agents/reply_writer/agent\.yaml:\d+: evaluation\.rules\[1\]\.max_chars: ", done.err)
