"""Errors in code of a pipeline name the line of the file in which a person wrote it."""

from __future__ import annotations

import pytest

from assay.suites.pipeline.suite import PipelineSuite

from support.pipeline_project import PipelineProject
from support.suite_files import problems_of

PYTHON = "def main(inputs):\n    found = []\n    return found[3]\n"
JAVASCRIPT = "function main(x) {\n  const found = {}\n  return found.no.way\n}\n"
HEAD = "id: p\nsteps:\n  - id: one\n    type: code_node\n"


def block(source: str, indicator: str = "|", above: str = "") -> str:
    """Return the key `code` with the source as a block, whose first line is line 6 of the file."""
    lines = "".join(f"      {line}\n" for line in source.splitlines())
    return f"    code: {indicator}\n{above}{lines}"


@pytest.mark.parametrize(
    ("step", "place"),
    [
        (block(PYTHON), "p.yaml:8: IndexError"),
        (block(PYTHON, "|-"), "p.yaml:8: IndexError"),
        (block(PYTHON, "|  # the code"), "p.yaml:8: IndexError"),
        (block(PYTHON, above="\n\n"), "p.yaml:10: IndexError"),
        (block(JAVASCRIPT) + "    language: javascript\n", "p.yaml:8: TypeError"),
        ("    code: 'def main(inputs): return [][3]'\n", "p.yaml:5: IndexError"),
        ("    code:\n      'def main(inputs): return [][3]'\n", "p.yaml:6: IndexError"),
        # The lines of the code are not those of the file.
        ('    code: "def main(inputs):\\n  return [][3]"\n', "p.yaml:5, line 2: IndexError"),
        ("    code_file: nodes/topics.py\n", "nodes/topics.py:3: IndexError"),
        ("    code_file: nodes/topics.js\n", "nodes/topics.js:3: TypeError"),
    ],
)
def test_code_that_raises_names_the_line_of_the_file(lab: PipelineProject, step: str, place: str) -> None:
    lab.write("nodes/topics.py", PYTHON)
    lab.write("nodes/topics.js", JAVASCRIPT)
    lab.write("p.yaml", HEAD + step)
    assert place in lab.run().row["steps"]["one"]["error"]


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (block("x = 1\ny = = 2"), "p.yaml:7: steps.0.code: it is not Python: invalid syntax"),
        (
            block("let a = 1\nlet b = ;") + "    language: javascript\n",
            "p.yaml:7: steps.0.code: it is not JavaScript",
        ),
        ("    code: 'x = = 1'\n", "p.yaml:5: steps.0.code: it is not Python: invalid syntax"),
        ('    code: "x = 1\\ny = = 2"\n', "p.yaml:5: steps.0.code: line 2: it is not Python: invalid syntax"),
        ("    code_file: nodes/topics.py\n", "nodes/topics.py:2: it is not Python: invalid syntax"),
        ("    code_file: nodes/topics.js\n", "nodes/topics.js:2: it is not JavaScript"),
    ],
)
def test_a_syntax_error_names_the_line_of_the_file(lab: PipelineProject, step: str, problem: str) -> None:
    lab.write("nodes/topics.py", "x = 1\ny = = 2\n")
    lab.write("nodes/topics.js", "let a = 1\nlet b = ;\n")
    lab.write("p.yaml", HEAD + step)
    (found,) = problems_of(PipelineSuite, lab.folder / "p.yaml")
    assert str(found).removeprefix(f"{lab.folder}/").startswith(problem)


def test_code_of_a_variant_has_no_line_of_the_step_that_it_replaces(lab: PipelineProject) -> None:
    variant = "variants:\n  v:\n    overrides:\n      one: {code: \"def main(inputs):\\n  return {}['gone']\"}\n"
    lab.write("p.yaml", HEAD + block(PYTHON) + variant)
    row = lab.run(variant=["v"]).row
    assert row["steps"]["one"]["error"].startswith("p.yaml:5, line 2: KeyError: 'gone'")


def test_code_of_a_file_finds_files_beside_it_and_other_code_has_no_file(
    lab: PipelineProject, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`__file__` is the path of the code file, wherever the command is typed."""
    lab.write("pipelines/nodes/words.txt", "hello")
    reader = "import os\nHERE = os.path.dirname(__file__)\n"
    lab.write("pipelines/nodes/n.py", f"{reader}def main(): return open(HERE + '/words.txt').read()\n")
    inline = "    code: \"def main(): return '__file__' in globals()\"\n"
    other = HEAD.partition("steps:\n")[2].replace("one", "two")
    lab.write("pipelines/p.yaml", f"{HEAD}    code_file: nodes/n.py\n{other}{inline}")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    options = {"testset": [f"{lab.folder}/tests.jsonl"], "model": f"python/{lab.folder}/model.py:answer"}
    steps = lab.run(pipeline=f"{lab.folder}/pipelines/p.yaml", **options).row["steps"]
    assert (steps["one"]["output"], steps["two"]["output"]) == ("hello", False)
