"""Patterns that take for ever are stopped in every place that takes a pattern from a file, with a reason.

test_exploding_commands.py has the same for real commands, with signals.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.language.patterns import MIN_STOPS, PatternStopped, compile_pattern
from assay.language.templates import Template, TemplateProblem
from assay.scoring.expectations import Matching, Rule, apply_rules, compare
from assay.scoring.filters import build_multi_choice_regex, build_regex
from assay.scoring.metrics import build_exact_match
from assay.suites.pipeline.steps.prompt_step import parser

from support.commands import run_here
from support.exploding import EXPLODING
from support.pipeline_project import PipelineProject, case, read_lines, says
from support.task_project import TaskProject


@pytest.fixture(autouse=True)
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop slow matches soon, as people may set it."""
    monkeypatch.setenv("ASSAY_PATTERN_SECONDS", "0.01")


def filter_regex(pattern: str, text: str) -> Any:
    """The filter `regex`."""
    return build_regex(regex_pattern=pattern)([text])


def filter_multi_choice(pattern: str, text: str) -> Any:
    """The pattern of the filter `multi_choice_regex`."""
    return build_multi_choice_regex(regex_pattern=pattern)([text], {"choices": ["one", "two"]})


def filter_ignored(pattern: str, text: str) -> Any:
    """The option `regexes_to_ignore` of the filter `multi_choice_regex`."""
    return build_multi_choice_regex(regexes_to_ignore=[pattern])([text], {"choices": ["one", "two"]})


def metric_ignored(pattern: str, text: str) -> Any:
    """The option `regexes_to_ignore` of the metric `exact_match`."""
    return build_exact_match(regexes_to_ignore=[pattern])("one", text)


def output_parser(pattern: str, text: str) -> Any:
    """The `output_parser` of a pipeline step."""
    return parser({"type": "regex", "pattern": pattern})(text)


def template(pattern: str, text: str) -> Any:
    """The filter `regex_replace` of a template."""
    try:
        return Template("{{ text | regex_replace(pattern, '-') }}").render({"text": text, "pattern": pattern})
    except TemplateProblem as problem:
        if str(problem).startswith("the template is refused: the pattern "):
            raise PatternStopped(pattern, len(text), 0.01) from None
        raise


def rule(pattern: str, text: str) -> Any:
    """The rule `regex_match` of a pipeline file."""
    (check,) = apply_rules([Rule("regex_match", pattern)], {"output": text})
    assert check.passed is not None or check.why.startswith("output: the pattern ")
    return stopped_if_none(check.passed, pattern, text)


def expectation(pattern: str, text: str) -> Any:
    """An expectation `regex:` of a testset."""
    (check,) = compare({"mood": f"regex:{pattern}"}, {"mood": text}, Matching())
    assert check.passed is not None or check.why.startswith("mood: the pattern ")
    return stopped_if_none(check.passed, pattern, text)


def stopped_if_none(passed: bool | None, pattern: str, text: str) -> bool:
    """A check whose pattern was stopped is neither passed nor failed."""
    if passed is None:
        raise PatternStopped(pattern, len(text), 0.01)
    return passed


PLACES = [
    filter_regex,
    filter_multi_choice,
    filter_ignored,
    metric_ignored,
    output_parser,
    template,
    rule,
    expectation,
]


@pytest.mark.parametrize("step", [pytest.param(4, id="ten"), pytest.param(1, id="forty")])
@pytest.mark.parametrize("place", PLACES)
def test_exploding_patterns_are_stopped(place: Callable[[str, str], Any], step: int) -> None:
    """CI tries every fourth pattern in each place, and all forty in the first one."""
    assert len(dict(EXPLODING)) == 40
    for pattern, text in EXPLODING if place is PLACES[0] else EXPLODING[::step]:
        with pytest.raises(PatternStopped):
            pytest.fail(f"{pattern} returned {place(pattern, text)}")


# Whole runs


MANY = [EXPLODING[number] for number in (0, 5, 15, 33, 35)]
"""Exponential and polynomial patterns, of which one has a long text."""


def test_a_task_scores_all_documents_but_those_on_which_its_filter_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lab = TaskProject(tmp_path)
    filters = [
        {
            "name": f"f{number}",
            "filter": [{"function": "regex", "regex_pattern": pattern}, {"function": "take_first"}],
        }
        for number, (pattern, _) in enumerate(MANY)
    ]
    docs = [{"q": "plain", "a": "[invalid]"}, *({"q": text.replace("\n", " "), "a": "x"} for _, text in MANY)]
    lab.task(docs=docs, filter_list=filters, metric_list=[{"metric": "exact_match"}])
    done = run_here(["task", "t.yaml", "--model", "python/model.py:echo", "--output-dir", "out"], tmp_path)
    scores = scores_of(tmp_path)
    for number in range(len(MANY)):
        by_document = {score["index"]: score for score in scores if score["part"] == f"f{number}"}
        reason = by_document[number + 1]["reason"]
        assert by_document[number + 1]["status"] == "invalid"
        assert reason.startswith(f"filter f{number}: t.yaml:")
        assert f"the pattern {MANY[number][0]!r} was stopped after 0.01 s, on a text of " in reason
        assert by_document[number + 1].get("value") is None
        assert by_document[0]["status"] == "scored"
    assert done.returncode == 0, done.stderr


def test_a_stopped_pattern_of_a_metric_makes_the_score_invalid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lab = TaskProject(tmp_path)
    pattern, text = EXPLODING[1]
    docs = [{"q": "plain", "a": "plain"}, {"q": text, "a": "x"}]
    lab.task(docs=docs, metric_list=[{"metric": "exact_match", "regexes_to_ignore": [pattern]}])
    run_here(["task", "t.yaml", "--model", "python/model.py:echo", "--output-dir", "out"], tmp_path)
    first, second = sorted(scores_of(tmp_path), key=lambda score: int(score["index"]))
    assert (first["status"], first["value"]) == ("scored", 1.0)
    assert second["status"] == "invalid"
    assert "metric_list" in second["reason"]
    assert "was stopped after" in second["reason"]


def test_a_stopped_pattern_of_a_template_fails_its_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lab = TaskProject(tmp_path)
    pattern, text = EXPLODING[2]
    docs = [{"q": "ab", "a": "b"}, {"q": text, "a": "x"}]
    lab.task(docs=docs, doc_to_text=f"{{{{ q | regex_replace('{pattern}|a', '') }}}}")
    run_here(["task", "t.yaml", "--model", "python/model.py:echo", "--output-dir", "out"], tmp_path)
    (end,) = [line for line in read_lines(one(tmp_path, "records.jsonl"))[1:] if line["index"] == 1]
    assert end["failure"]["message"].startswith("t.yaml:")
    assert "doc_to_text: the template is refused: the pattern '(a+)*$|a' was stopped after" in end["failure"]["message"]
    assert scores_of(tmp_path)[0]["value"] == 1.0


def test_a_pipeline_says_of_each_place_that_its_pattern_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expectations and rules are undecided. A step whose parser or template is stopped fails."""
    monkeypatch.chdir(tmp_path)
    lab = PipelineProject(tmp_path)
    pattern, text = EXPLODING[0]
    steps = {
        "plain": says("s"),
        "parser": says("s", output_parser={"type": "regex", "pattern": pattern}),
        "template": says("s", f"{{{{ text | regex_replace('{pattern}', '') }}}}"),
    }
    expected = {"inputs": {"text": text}, "expected_outputs": {"output": f"regex:{pattern}"}}
    ruled = {
        "inputs": {"text": text},
        "evaluation_config": {"rules": [{"kind": "regex_match", "pattern": pattern}]},
    }
    passing = {"inputs": {"text": "aaa"}, "expected_outputs": {"output": f"regex:{pattern}"}}
    tests = [case("expected", **expected), case("ruled", **ruled), case("passing", **passing)]
    tests.append(case("after", inputs={"text": "x"}, depends_on=["expected"]))
    lab.tests(*tests)
    lab.pipeline(steps["plain"])
    result = lab.run()
    assert result.verdicts == {
        "expected": "invalid",
        "ruled": "invalid",
        "passing": "passed",
        "after": "skipped",
    }
    reasons = {score["part"]: score["reason"] for score in scores_of(tmp_path)}
    assert reasons["expected"].startswith(f"tests.jsonl:1: output: the pattern {pattern!r} was stopped after 0.01 s")
    assert reasons["ruled"].startswith(f"tests.jsonl:2: output: the pattern {pattern!r} was stopped")
    for name in ("parser", "template"):
        lab.pipeline(steps[name])
        lab.tests(case(inputs={"text": text}, expected_outputs={"output": "x"}))
        failed = lab.run(output_dir=name)
        assert failed.verdicts == {"t": "errored"}
        assert "was stopped after 0.01 s" in json.dumps(failed.row)


def test_an_evaluation_scores_all_rows_but_those_whose_pattern_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import assay

    monkeypatch.chdir(tmp_path)
    pattern, text = EXPLODING[3]

    def say(row: dict[str, str]) -> str:
        return row["text"]

    run = assay.evaluate(
        [{"text": "one", "answer": "one"}, {"text": text, "answer": "two"}],
        answer=say,
        target="answer",
        score=assay.exact_match(regexes_to_ignore=[pattern]),
        version="1",
        output_dir="out",
    )
    first, second = scores_of(tmp_path)
    assert (first["status"], second["status"]) == ("scored", "invalid"), run
    assert second["reason"].startswith(f"the pattern {pattern!r} was stopped after 0.01 s")


def test_a_run_stops_after_many_stopped_texts_and_the_same_command_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stops before the run, as in a notebook, do not count. With a limit of 5 s, 20 texts are many."""
    import assay

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_PATTERN_SECONDS", "0.01")

    def say(row: dict[str, Any]) -> str:
        if row["text"] == "slow":
            monkeypatch.setenv("ASSAY_PATTERN_SECONDS", "5")
        return str(row["text"])

    def run() -> assay.Run:
        texts = ["m" * (40 + number) + "!" for number in range(MIN_STOPS)]
        return assay.evaluate(
            [{"text": text, "answer": "two"} for text in [*texts, "slow", "last"]],
            answer=say,
            target="answer",
            score=assay.exact_match(regexes_to_ignore=["(m+)+$"]),
            version="1",
            output_dir="out",
            concurrency=1,
        )

    with pytest.raises(PatternStopped):
        compile_pattern("(m+)+$").sub("", "m" * 39 + "!")
    first = run()
    assert (first.exit_code, len(scores_of(tmp_path))) == (3, MIN_STOPS + 1)
    assert "'(m+)+$' was stopped on 20 texts" in first.summary.exit_reason
    assert run().exit_code == 0
    assert [score["status"] for score in scores_of(tmp_path)] == ["invalid"] * MIN_STOPS + ["scored"] * 2


def one(folder: Path, name: str) -> Path:
    """The only file of this name in the run folders."""
    (found,) = folder.glob(f"*/assay/*/{name}")
    return found


def scores_of(folder: Path) -> list[dict[str, Any]]:
    """The scores in the journal, in data order."""
    lines = read_lines(one(folder, "scores.jsonl"))[1:]
    scores = [{"status": "scored", "reason": "", **line} for line in lines if line["type"] == "score"]
    return sorted(scores, key=lambda score: int(score["index"]))
