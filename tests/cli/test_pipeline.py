"""`assay pipeline` as people type it, and what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.pipeline_project import COMMAND, PipelineProject, case, says, typed


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PipelineProject:
    """An empty folder that is the working directory, with a model in it that follows orders."""
    monkeypatch.chdir(tmp_path)
    return PipelineProject(tmp_path)


def words(text: str) -> list[list[str]]:
    """The lines of a table by their words."""
    return [line.split() for line in text.splitlines()]


def test_the_report_has_rates_steps_and_the_worst_tests(
    lab: PipelineProject, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pass rate with its denominator by tag, time and tokens by step, the first wrong step with its difference."""
    lab.pipeline(says("one"), says("two", '{"mood": "{{ one }}"}', output_parser="json"))
    lab.tests(
        case("good", tags=["a"], expected_outputs={"output": {"mood": "hello"}}),
        case("bad", tags=["a", "b"], expected_outputs={"output": {"mood": "gloomy", "more": 1}}),
        case("free"),
    )
    done = typed(capsys, *COMMAND)
    assert done.code == 1
    shown = words(done.out)
    assert ["baseline", "0.500", "(0.09–0.91)", "1/2,", "1", "not", "evaluated", "1", "1", "1"] in shown
    assert ["#a", "0.500", "(0.09–0.91)", "1/2", "1", "1"] in shown
    assert any(line[:5] == ["two", "3", "0", "0", "1"] and line[-3:] == ["3", "9", "6"] for line in shown)
    assert "baseline: failed tests (1)" in done.out
    assert "✗ tests/bad failed at step two, 2 of 2 checks failed" in done.out
    assert '- "gloomy"' in done.out
    assert '+ "hello"' in done.out
    for name in ("results.jsonl", "results.csv", "junit.xml", "summary.json"):
        assert f"wrote out/p/{name}" in done.out
        assert (Path("out/p") / name).is_file()


def test_a_missing_value_is_shown_as_nothing(lab: PipelineProject, capsys: pytest.CaptureFixture[str]) -> None:
    """It is not null: that would be a value."""
    lab.pipeline(says("one", "{}", output_parser="json"), outputs=[{"key": "mood", "from": "one.mood"}])
    lab.tests(case(expected_outputs={"mood": None}))
    done = typed(capsys, *COMMAND)
    assert done.code == 1
    assert "- null" in done.out
    assert "+ (nothing)" in done.out


def test_failed_items_are_told(lab: PipelineProject, capsys: pytest.CaptureFixture[str]) -> None:
    """The step is fine, some of its items are not."""
    lab.pipeline(says("each", "{{ n }}", batch_mode=True, output_parser="number"))
    lab.tests(case(batch_items=[{"n": 1}, {"n": "x"}, {"n": 3}]))
    assert "each: 1 of 3 items failed" in typed(capsys, *COMMAND).out


def test_the_same_command_shows_the_result_and_asks_nothing(
    lab: PipelineProject, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the same exit code."""
    lab.pipeline(says("one"))
    lab.tests(case(expected_outputs={"one": "bye"}))
    first, again = typed(capsys, *COMMAND), typed(capsys, *COMMAND)
    assert (first.code, again.code) == (1, 1)
    assert "no requests sent" in again.out
    assert first.out.split("\n\n")[0] == again.out.split("\n\n")[0]


def test_tests_that_are_not_evaluated_are_reported(lab: PipelineProject, capsys: pytest.CaptureFixture[str]) -> None:
    """Before it runs, with how many tests that is about and what to do."""
    lab.pipeline(says("one"))
    lab.tests(case(1, intermediate_expectations={"one": "x"}), case(2, expected="A greeting."))
    said = typed(capsys, *COMMAND).err
    assert "intermediate_expectations of 1 test; set evaluate_intermediate: true" in said
    assert "not evaluated: the reference text `expected` of 1 test; pass --judge" in said


def test_rescoring_shows_the_suites_own_report(
    lab: PipelineProject, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a judge must be asked, it says which command does so: to rescore again would stop again."""
    lab.pipeline(says("one"))
    lab.tests(case(expected_outputs={"one": "bye"}))
    judge = ("--judge", lab.script({"text": '{"reason": "it does", "passed": true}'}))
    monkeypatch.setattr("sys.argv", ["assay", *COMMAND, *judge])
    typed(capsys, *COMMAND, *judge)
    lab.tests(case(expected_outputs={"one": "hello"}))
    monkeypatch.setattr("sys.argv", ["assay", "rescore", "out"])
    done = typed(capsys, "rescore", "out")
    assert done.code == 0
    assert ["baseline", "1.000", "(0.21–1.00)", "1/1", "1"] in words(done.out)
    lab.tests(case(expected_outputs={"one": "judge:It greets."}))
    stopped = typed(capsys, "rescore", "out")
    assert stopped.code == 3
    assert "Repeat the run's original command" in stopped.err
    assert "Continue with: assay pipeline p.yaml" in stopped.err


def test_quiet_says_only_why_the_exit_code_is_not_0(lab: PipelineProject, capsys: pytest.CaptureFixture[str]) -> None:
    lab.pipeline(says("one"))
    lab.tests(case(expected_outputs={"one": "bye"}))
    assert typed(capsys, *COMMAND, "--quiet") == (1, "", "1 failed of 1 test. Exit code 1\n")
    lab.tests(case(expected_outputs={"one": "hello"}))
    assert typed(capsys, *COMMAND, "--quiet") == (0, "", "")


def test_replies_do_not_command_the_screen(lab: PipelineProject, capsys: pytest.CaptureFixture[str]) -> None:
    """Escape sequences of a model are shown, not obeyed."""
    lab.pipeline(says("one"))
    lab.tests(
        case(
            "i\u001b[2Jd",
            tags=["t\u001b[2J"],
            inputs={"text": "\u001b[31mred"},
            expected_outputs={"one": "x"},
        )
    )
    done = typed(capsys, *COMMAND)
    assert done.code == 1
    for shown in ("tests/i�[2Jd", "#t�[2J", '+ "\\u001b[31mred"'):
        assert shown in done.out


def test_a_testset_does_not_command_the_screen(lab: PipelineProject, capsys: pytest.CaptureFixture[str]) -> None:
    """Not where a case is shown, where a file is checked, nor in what is said beside the results."""
    lab.pipeline(says("one"))
    lab.tests(
        case("a\u009b2J", inputs={"text": "x"}),
        case("b", inputs={"text": "x"}, conditions="text == '\u009b2J'"),
        case("c", inputs={"text": "x"}, step_inputs={"no\u009b2J": {}}),
    )
    said = [typed(capsys, *COMMAND), typed(capsys, "check", "tests.jsonl", "--pipeline", "p.yaml")]
    said += [typed(capsys, "show", "out", at) for at in "012"]
    lab.tests(case("d", step_inputs={"no\u009b2J": 3}))
    said += [typed(capsys, "check", "tests.jsonl"), typed(capsys, *COMMAND)]
    for done in said:
        assert "\u009b" not in done.out + done.err
    for shown in ("no�2J", "a�2J", "'�2J'"):
        assert any(shown in done.out + done.err for done in said)


def test_a_test_is_shown_by_the_name_that_the_report_has(
    lab: PipelineProject, capsys: pytest.CaptureFixture[str]
) -> None:
    """`set/id`; of several variants each is named."""
    lab.pipeline(says("one"), variants={"v": {"overrides": {"one": {"system": "Be kind."}}}})
    lab.tests(case("x/1", inputs={"text": "a"}), case("2", inputs={"text": "b"}))
    typed(capsys, *COMMAND)
    assert "case 0 " in typed(capsys, "show", "out", "tests/x/1").out
    assert "case 1 " in typed(capsys, "show", "out", "tests/2").out
    typed(capsys, *COMMAND[:-1], "both", "--variant", "all")
    said = typed(capsys, "show", "both", "tests/2")
    assert said.code == 2
    assert re.search(r"@2 \(tests/\w+, baseline\), @3 \(tests/\w+, v\)", said.err)


def test_the_default_testset_stands_beside_the_pipeline(
    lab: PipelineProject, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or in `testsets/`; without one it has to be named."""
    model = ("--model", "python/model.py:answer", "--output-dir", "out")
    lab.pipeline(says("one"), default_testset="mine.jsonl", name="flows/p.yaml")
    assert "there is no testset 'mine.jsonl'" in typed(capsys, "pipeline", "flows/p.yaml", *model).err
    lab.tests(case("beside"), name="flows/testsets/mine.jsonl")
    assert typed(capsys, "pipeline", "flows/p.yaml", *model).code == 0
    lab.pipeline(says("one"))
    done = typed(capsys, "pipeline", "p.yaml", *model)
    assert (done.code, "has no default_testset; pass --testset" in done.err) == (2, True)


def test_all_problems_are_reported_in_one_message(lab: PipelineProject, capsys: pytest.CaptureFixture[str]) -> None:
    """No pipeline, a file that is not there, a file with mistakes: exit 2 and no traceback."""
    lab.pipeline({"id": "one", "template": "{{ x", "tpye": "prompt"})
    for arguments, why in (
        (("pipeline",), "no pipeline given"),
        (("pipeline", "none.yaml", *COMMAND[2:]), "none.yaml"),
        (COMMAND, "p.yaml:5: steps.0.tpye: there is no key named 'tpye'; did you mean 'type'?"),
    ):
        done = typed(capsys, *arguments)
        assert done.code == 2
        assert why in done.err
        assert "Traceback" not in done.err
    assert not Path("out").exists()


def test_a_dry_run_says_what_would_be_asked(lab: PipelineProject, capsys: pytest.CaptureFixture[str]) -> None:
    """By step and model, a batch by its items; what runs over an earlier output is not known before."""
    made = {"items": "each"}
    lab.pipeline(
        says("one", params={"max_tokens": 7}),
        says("each", "{{ n }}", batch_mode=True),
        says("again", "{{ item }}", batch_mode=True, input_mapping=made, model="openai/other"),
    )
    lab.tests(
        case("a", batch_items=[{"n": 1}, {"n": 2}], expected_outputs={"again": ["judge:x", "judge:y"]}),
        case("b", batch_items=[{"n": 3}]),
    )
    done = typed(capsys, *COMMAND, "--dry-run", "--judge", lab.script({"text": "{}"}))
    assert done.code == 0, done.err
    shown = words(done.out)
    model = "python/model.py:answer"
    assert ["tests", "2"] in shown
    assert any(line[:4] == ["step", "one", model, "2"] and line[-1] == "14" for line in shown)
    assert any(line[:4] == ["step", "each", model, "3"] for line in shown)
    assert ["step", "again", "openai/other", "unknown", "unknown", "unknown"] in shown
    assert any(line[:3] == ["judge", "script/replies.jsonl", "2"] for line in shown)
    assert "Dry run: no requests sent, no files written." in done.out
    assert not Path("out").exists()
