"""All problems of a pipeline file are reported at once, each with its line."""

from __future__ import annotations

import re

import pytest

import assay
from assay.core.errors import InputError
from assay.suites.pipeline.suite import PipelineSuite

from support.pipeline_project import PipelineProject, says
from support.suite_files import problems_of

WRONG = """\
id: ../up
nmae: misspelt
inputs: [text, {title: x}]
steps:
  - id: one
    template: "{{ text"
    input_maping: {a: text}
  - id: one
    template: again
  - id: two
    type: promt
    template: x
  - id: three
    template: "{{ text }}"
    input_mapping: {a: txt, b: "a..b"}
    depends_on: [thre, {a: b}]
    output_parser: {type: regex, pattern: "("}
  - id: four
    type: code
    code: |
      def transform(inputs)
          return 1
    timeout: -1
    retry: -1
  - id: five
    type: code_node
    language: javascipt
    code: function aggregate() {}
  - id: six
    strategy: stats
  - id: seven
    strategy: filter
    condition: item.score > and
  - id: eight
    strategy: group
    group_by: [a]
  - id: nine
    template: x
    batch_mode: "yes"
    batch_size: 0
  - id: ten
    type: code
  - id: eleven
    output_parser: xml
  - id: twelve
    template: x
    code_file: nowhere.py
  - just text
  - id: a
    template: "{{ b }}"
  - id: b
    template: "{{ c }}"
  - id: c
    template: "{{ a }}"
outputs:
  - key: nobody
  - {from: one}
  - {key: two, rules: [{kind: max_char, value: 3}]}
  - {key: three, lable: x}
variants:
  v1:
    overrides:
      oen: {template: x}
      one: {tmplate: x}
  v2: shorter
evaluation_target: on
"""

EXPECTED = {
    1: ["id: '../up' cannot be the name of the results folder"],
    2: ["nmae: there is no key named 'nmae'; did you mean 'name'"],
    3: ["inputs.1: an input is a name"],
    6: ["steps.0.template: the template does not compile"],
    7: ["there is no key named 'input_maping'; did you mean 'input_mapping'"],
    8: ["steps.1.id: there are two steps named 'one'"],
    11: ["there is no type of step named 'promt'; did you mean 'prompt'"],
    15: [
        "steps.3.input_mapping.a: there is no input or output named 'txt'; did you mean 'text'",
        "steps.3.input_mapping.b: 'a..b' is not a path",
    ],
    16: ["steps.3.depends_on: there is no step named 'thre'; did you mean 'three'", "named \"{'a': 'b'}\""],
    17: ["steps.3.output_parser: '(' is not a regular expression"],
    21: ["steps.4.code: it is not Python: expected ':'"],
    23: ["steps.4.timeout: expected seconds, more than 0, found -1"],
    24: ["steps.4.retry: expected a whole number from 0 on"],
    27: ["steps.5.language: there is no language of code named 'javascipt'; did you mean 'javascript'"],
    29: ["steps.6: the strategy `stats` needs `fields`"],
    33: ["steps.7.condition: column"],
    34: ["steps.8: group_by is a text, not ['a']"],
    37: ["steps.9: batch_size is a whole number from 1 on, not 0"],
    39: ["steps.9.batch_mode: expected true or false, found 'yes'"],
    41: ["steps.10: a code step needs code or code_file"],
    43: ["steps.11: a prompt step needs a template, or an agent and a flow"],
    44: ["steps.11.output_parser: there is no parser 'xml'"],
    46: ["steps.12.template: there is no key named 'template'"],
    47: ["steps.12.code_file: there is no file 'nowhere.py'"],
    48: ["steps.13: a step is a mapping with an id"],
    49: ["steps.14: steps wait for each other: a → b → c → a"],
    56: ["outputs.0: "],
    57: ["outputs.1: an output is a key, or {key, label, from}"],
    58: ["outputs.2.rules: [0].kind: there is no rule named 'max_char'"],
    59: ["there is no key named 'lable'; did you mean 'label'"],
    63: ["variants.v1.overrides.oen: there is no step named 'oen'; did you mean"],
    64: ["variants.v1.overrides.one.tmplate: there is no key named 'tmplate'; did you mean 'template'"],
    65: ["variants.v2: a variant is a mapping with overrides"],
    66: ["evaluation_target"],
}


def found_in(problems: list[str]) -> dict[int, list[str]]:
    """Messages by line."""
    result: dict[int, list[str]] = {}
    for problem in problems:
        match = re.match(r"p\.yaml:(\d+): (.*)", problem, re.DOTALL)
        assert match, problem
        result.setdefault(int(match[1]), []).append(match[2])
    return result


def assert_all_found(problems: list[str]) -> None:
    """Every expected message at its line, and nothing that is not expected."""
    result = found_in(problems)
    for line, messages in EXPECTED.items():
        for message in messages:
            assert any(message in one for one in result.get(line, [])), (line, message, result.get(line))
    assert set(result) == set(EXPECTED)


def test_a_run_is_refused_with_all_mistakes(lab: PipelineProject) -> None:
    """Before a file is written or a request sent."""
    lab.write("p.yaml", WRONG)
    with pytest.raises(InputError) as refused:
        assay.run(lab.spec())
    assert_all_found([str(problem) for problem in refused.value.problems])
    assert not (lab.folder / "out").exists()


def test_check_finds_the_same(lab: PipelineProject) -> None:
    """Without a model and without tests; each problem once, although every variant is checked."""
    lab.write("p.yaml", WRONG)
    problems = list(map(str, problems_of(PipelineSuite, lab.folder / "p.yaml")))
    assert_all_found([problem.replace(f"{lab.folder}/", "") for problem in problems])
    assert len(problems) == len(set(problems))


HIDDEN = """\
inputs:
  - {name: text, required: "no"}
steps:
  - id: one
    code_config: {code: "def main(inputs): return 1", id: 5, type: prompt, at: x}
    timeout: .nan
  - id: two
    code_file: bad.py
    timeout: .inf
  - id: three
    template: x
    at: 1
    code_name: y
baseline: {stepz: {}}
variants:
  all: {overrides: {}}
  baseline: {overrides: {}}
"""


def test_nothing_is_passed_over(lab: PipelineProject) -> None:
    """Keys that would be dropped or would take the place of others, names that mean something, bytes.

    Each is told once, however many variants run.
    """
    lab.write("p.yaml", HIDDEN)
    (lab.folder / "bad.py").write_bytes(b"# \xff")
    with pytest.raises(InputError) as refused:
        assay.run(lab.spec(variant=["baseline", "all"]))
    result = found_in(list(map(str, refused.value.problems)))
    expected = {
        2: ["required: expected true or false"],
        5: [f"there is no key named {key!r}" for key in ("id", "type", "at")],
        6: ["expected seconds"],
        8: ["bad.py cannot be read"],
        9: ["expected seconds"],
        12: ["there is no key 'at'"],
        13: ["there is no key 'code_name'"],
        14: ["there is no key named 'stepz'"],
        16: ["'all' means all variants"],
        17: ["'baseline' is defined by `baseline:`"],
    }
    assert result.keys() == expected.keys()
    for line, messages in expected.items():
        assert len(result[line]) == len(messages), result[line]
        for message, problem in zip(messages, result[line], strict=True):
            assert message in problem


def test_a_good_file_has_no_problems(lab: PipelineProject) -> None:
    """The smallest valid file."""
    lab.pipeline(says("one"))
    assert problems_of(PipelineSuite, lab.folder / "p.yaml") == []


def test_a_mistake_in_a_variant_that_does_not_run_stops_no_run(lab: PipelineProject) -> None:
    """`check` reads all variants, a run only the selected ones."""
    variants = {"broken": {"overrides": {"one": {"template": "{{ text"}}}}
    lab.pipeline(says("one"), variants=variants)
    assert lab.run().code == 0
    (problem,) = problems_of(PipelineSuite, lab.folder / "p.yaml")
    assert "does not compile" in problem.message
    with pytest.raises(InputError):
        lab.run(variant=["broken"])


def test_a_step_that_waits_for_itself_is_a_cycle(lab: PipelineProject) -> None:
    """The shortest cycle."""
    lab.pipeline(says("one", depends_on=["one"]))
    (problem,) = problems_of(PipelineSuite, lab.folder / "p.yaml")
    assert problem.message == "steps.0: steps wait for each other: one → one"


@pytest.mark.parametrize("text", ["", "[]", "steps: []", "steps: 3", "id: x", "steps: [", "a: &a [*a]"])
def test_a_file_that_is_no_pipeline_says_what_is_missing(lab: PipelineProject, text: str) -> None:
    """The message has the file's name; there is no traceback."""
    lab.write("p.yaml", text)
    with pytest.raises(InputError, match=r"p\.yaml"):
        assay.run(lab.spec())


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([says("a.b")], "'a.b' is not a valid id"),
        ([says("a/b")], "'a/b' is not a valid id"),
        ([says("a", output_key="b.c")], "'b.c' is not a valid output_key"),
        ([says("a", output_key=["b"])], "is not a valid output_key"),
        ([says("inputs")], "'inputs' is reserved for values of the test"),
        ([says("a", output_key="batch_items")], "'batch_items' is reserved for values of the test"),
        ([says("a", output_key="b"), says("b")], "another step has the id or output_key 'b'"),
        ([says("a", output_key="c"), says("b", output_key="c")], "another step has the id or output_key 'c'"),
    ],
)
def test_ids_and_output_keys_are_valid_and_unique(
    lab: PipelineProject, steps: list[dict[str, object]], why: str
) -> None:
    """Both can be sources."""
    lab.pipeline(*steps)
    problems = problems_of(PipelineSuite, lab.folder / "p.yaml")
    assert problems
    assert all(why in problem.message for problem in problems)


def test_an_unknown_evaluation_target_is_reported_with_other_mistakes(lab: PipelineProject) -> None:
    """Also without declared outputs."""
    lab.pipeline(says("one", "{{ text"), evaluation_target="oen")
    messages = [problem.message for problem in problems_of(PipelineSuite, lab.folder / "p.yaml")]
    assert messages[0] == "evaluation_target: there is no step named 'oen'; did you mean 'one'?"
    assert "does not compile" in messages[1]


def test_an_id_that_is_too_long_for_a_folder_is_refused_before_the_first_request(lab: PipelineProject) -> None:
    lab.pipeline(says("one"), id="p" * 256)
    with pytest.raises(InputError, match="the results folder has this name, which may have 255 bytes at most"):
        assay.run(lab.spec())
    lab.pipeline(says("one"), id="p" * 255)
    assert lab.run().code == 0


@pytest.mark.parametrize("name", ["assay", "a/b", "..", ".hidden", "a b", ""])
def test_an_id_that_is_no_folder_name_is_refused(lab: PipelineProject, name: str) -> None:
    """The id is the name of the results folder."""
    lab.pipeline(says("one"), id=name)
    if name:
        with pytest.raises(InputError, match="cannot be the name of the results folder"):
            assay.run(lab.spec())
    else:
        assert (lab.folder / "out" / "p").exists() is False
        assert lab.run().code == 0


def test_the_version_of_a_pipeline_is_read_and_has_no_effect(lab: PipelineProject) -> None:
    """Prompt Lab's files have it, as a number or as text. Another version continues the same run."""
    folders = set()
    for version in (1, "2.0", None):
        lab.pipeline(says("one"), version=version)
        folders.add(lab.run().run.folder)
    assert len(folders) == 1
