"""JavaScript in pipeline files runs like Python there; in testsets only with --allow-code; always in an engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import InputError
from assay.suites.pipeline.suite import PipelineSuite

from support.commands import environment
from support.pipeline_project import PipelineProject, case, computes, read_lines, says
from support.suite_files import problems_of

PIPELINE = r"""
id: reviews
inputs: [reviews, limit]
steps:
  - id: clean
    type: code_node
    language: javascript
    code: |
      // Prompt Lab's form: one function that gets all inputs.
      module.exports = function (inputs) {
        console.log("cleaning", inputs.reviews.length);
        return inputs.reviews.map(text => ({ text: text.trim().replace(/\s+/g, " ") }));
      };
    input_mapping: {reviews: reviews}
    output_key: cleaned
  - id: rate
    type: prompt
    batch_mode: true
    template: "say {{ text }}"
    input_mapping: {items: cleaned}
  - id: words
    type: code
    batch_mode: true
    with_item: true
    code_config:
      language: javascript
      code: |
        async function transform({ text }) {
          return { words: (await Promise.resolve(text)).split(" ").length };
        }
      timeout: 20
    input_mapping: {items: cleaned}
  - id: totals
    type: batch_aggregator
    aggregation_strategy: custom
    code_file: lib/totals.js
    input_mapping: {items: words}
  - id: short
    type: code
    code: |
      def transform(totals, limit):
          return totals["words"] < limit
    input_mapping: {totals: totals, limit: limit}
outputs: [totals, short]
"""
TOTALS = """
const sum = (items, pick) => items.reduce((total, item) => total + pick(item), 0);

function aggregate(items) {
  return { count: items.length, words: sum(items, item => item.words) };
}
"""


def javascript(step: str, code: str, **more: Any) -> dict[str, Any]:
    """Return a code step in JavaScript."""
    return {"id": step, "type": "code_node", "language": "javascript", "code": code, **more}


def test_a_pipeline_of_javascript_and_python_runs_without_a_flag(lab: PipelineProject) -> None:
    """With a batch step and an aggregation in JavaScript, by the command that people type."""
    lab.write("p.yaml", PIPELINE)
    lab.write("lib/totals.js", TOTALS)
    inputs = {"reviews": [" good  food ", "slow", "very good service"], "limit": 10}
    lab.tests(case(inputs=inputs, expected_outputs={"totals": {"count": 3, "words": 6}, "short": True}))
    words = ("pipeline", "p.yaml", "--testset", "tests.jsonl", "--model", "python/model.py:answer")
    command = [sys.executable, "-m", "assay", *words]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = read_lines(lab.folder / "results/reviews/results.jsonl")
    assert row["result"] == "passed", row["steps"]["rate"]
    assert row["steps"]["clean"]["output"][0] == {"text": "good food"}
    assert row["steps"]["words"]["output"][2] == {"text": "very good service", "words": 3}


def test_a_failure_names_file_line_and_what_the_code_printed(lab: PipelineProject) -> None:
    lab.pipeline(javascript("one", "function main(x) {\n  console.log('got', x.text)\n  return x.no.way\n}"))
    row = lab.run().row
    assert row["steps"]["one"]["error"] == (
        "p.yaml:6, line 3: TypeError: cannot read property 'way' of undefined\n  return x.no.way\nit printed: got hello"
    )


def test_one_test_with_endless_code_does_not_hold_up_the_others(lab: PipelineProject) -> None:
    code = "module.exports = ({text}) => { while (text === 'stay') {} return text }"
    lab.pipeline(javascript("one", code, timeout=1))
    lab.tests(
        *(case(f"t{n}", expected_outputs={"one": "hello"}) for n in range(8)),
        case("stays", inputs={"text": "stay"}, expected_outputs={"one": "stay"}),
    )
    result = lab.run()
    assert result.verdicts == {"stays": "errored"} | {f"t{n}": "passed" for n in range(8)}
    (error,) = [row["steps"]["one"]["error"] for row in result.rows if row["id"] == "stays"]
    assert error.endswith("it ran longer than 1 s and was stopped")


def test_check_and_run_find_wrong_javascript_before_the_first_call(lab: PipelineProject) -> None:
    lab.pipeline(
        says("one"),
        javascript("two", "let a = 1\nlet b = ;", env_vars={"A": "1"}),
        {"id": "three", "type": "code", "language": "typescript", "code": "x"},
    )
    problems = [
        str(problem).replace(f"{lab.folder}/", "") for problem in problems_of(PipelineSuite, lab.folder / "p.yaml")
    ]
    assert problems == [
        "p.yaml:12: steps.1.env_vars: they are not passed on; JavaScript has no environment",
        "p.yaml:9: steps.1.code: line 2: it is not JavaScript: unexpected token in expression: ';'",
        "p.yaml:16: steps.2.language: there is no language of code named 'typescript'; known: python, javascript",
    ]
    with pytest.raises(InputError, match="it is not JavaScript"):
        lab.run()
    assert not Path("out").exists() or not list(Path("out").rglob("calls.jsonl"))


def test_check_executes_nothing(lab: PipelineProject) -> None:
    lab.pipeline(javascript("one", "while (true) {}\nmodule.exports = x => x"))
    assert problems_of(PipelineSuite, lab.folder / "p.yaml") == []


def test_a_variant_may_be_written_in_the_other_language(lab: PipelineProject) -> None:
    """A file .js is JavaScript. A `language` of the step or the variant counts more."""
    lab.write("fast.js", "module.exports = ({text}) => text.toUpperCase()")
    lab.pipeline(
        computes("one", "inputs['text'].upper()"),
        variants={"js": {"overrides": {"one": {"code_file": "fast.js"}}}},
    )
    lab.tests(case(expected_outputs={"one": "HELLO"}))
    result = lab.run(variant=["all"])
    assert [(row["variant"], row["result"]) for row in result.rows] == [
        ("baseline", "passed"),
        ("js", "passed"),
    ]
    lab.pipeline(
        computes("one", "1", language="python"),
        variants={"js": {"overrides": {"one": {"code": "exports.main = () => 2", "language": "javascript"}}}},
    )
    assert [row["steps"]["one"]["output"] for row in lab.run(variant=["all"]).rows] == [1, 2]


def test_changed_javascript_starts_a_new_run(lab: PipelineProject) -> None:
    """The same code continues the finished run. JavaScript is not searched for Python's imports."""
    lab.write("helper.py", "x = 1")
    lab.write("one.js", "module.exports = () => 1")
    lab.pipeline({"id": "one", "code_file": "one.js"})
    first = lab.run()
    assert lab.run().run.folder == first.run.folder
    lab.write("one.js", "module.exports = () => 2")
    second = lab.run()
    assert (first.output("one"), second.output("one")) == (1, 2)
    assert second.run.folder != first.run.folder
    lab.pipeline(javascript("one", "import helper"))
    with pytest.raises(InputError, match="import and export are not supported"):
        lab.run()


def with_code(code: str, step: str = "one", **more: Any) -> dict[str, Any]:
    return case(step_inputs={step: {"code": code, **more}})


def test_javascript_of_a_testset_is_refused_without_the_flag(lab: PipelineProject) -> None:
    lab.pipeline(computes("one", "1"))
    lab.tests(with_code("module.exports = () => 2", language="javascript"))
    with pytest.raises(InputError, match=r"step_inputs\.one\.code is code; code in a testset needs --allow-code"):
        lab.run()


def test_javascript_of_a_testset_runs_with_the_flag(lab: PipelineProject) -> None:
    """In the language that the test names, else in that of the step, also if the step has no code itself."""
    lab.pipeline(
        computes("one", "1"),
        javascript("two", "module.exports = () => 2"),
        {"id": "three", "strategy": "custom", "language": "javascript", "input_mapping": {"items": "items"}},
    )
    lab.tests(
        case(
            inputs={"items": [1, 2], "text": "hello"},
            step_inputs={
                "one": {"code": "exports.main = x => x.text + 1", "language": "javascript"},
                "two": {"code": "const transform = x => x.text + 2"},
                "three": {"aggregation_code": "function aggregate(items) { return items.length + 3 }"},
            },
        )
    )
    row = lab.run(allow_code=True).row
    assert [row["steps"][step]["output"] for step in ("one", "two", "three")] == ["hello1", "hello2", 5]


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        (
            "const fs = require('fs')",
            "raised",
            "the test's code, line 1: ReferenceError: require is not defined",
        ),
        ("module.exports = () => { while (1) {} }", "timeout", "ran longer than 1 s and was stopped"),
        ("module.exports = () => 'x'.repeat(2 ** 29)", "memory", "it needs more than 256 MB of memory"),
        ("let a = ;", "syntax", "the test's code, line 1: it is not JavaScript"),
        ("def transform(inputs): return 1", "syntax", "the test's code, line 1: it is not JavaScript"),
        ("module.exports = () => Infinity", "bad_result", "result is Infinity, which JSON cannot hold"),
    ],
)
def test_hostile_javascript_of_a_testset_fails_only_its_step(
    lab: PipelineProject, code: str, kind: str, message: str
) -> None:
    lab.pipeline(javascript("one", "module.exports = () => 1", timeout=1))
    lab.tests(with_code(code) | {"id": "hostile"}, case("good", expected_outputs={"one": 1}))
    result = lab.run(allow_code=True)
    rows = {row["id"]: row for row in result.rows}
    assert rows["good"]["result"] == "passed"
    assert rows["hostile"]["steps"]["one"]["kind"] == kind
    assert message in rows["hostile"]["steps"]["one"]["error"]


def test_an_unknown_language_in_a_testset_is_refused(lab: PipelineProject) -> None:
    """Without code, `language` is an ordinary input of the step."""
    lab.pipeline(computes("one", "inputs['language']"))
    lab.tests(with_code("x", language="javascirpt"))
    with pytest.raises(InputError, match=r"tests\.jsonl:1 .*did you mean 'javascript'"):
        lab.run(allow_code=True)
    lab.tests(case(step_inputs={"one": {"language": "fr"}}))
    assert lab.run().output("one") == "fr"
