"""Changes of code that start a new run."""

from __future__ import annotations

import pytest

from support.pipeline_project import PipelineProject, case

CODE = "from helper import VALUE\ndef main(inputs): return VALUE"


@pytest.mark.parametrize("step", [{"code": CODE}, {"code_file": "sub/code.py"}])
def test_a_changed_helper_of_the_code_starts_a_new_run(lab: PipelineProject, step: dict[str, str]) -> None:
    """However deep it is imported; other files in the pipeline's folder do not count."""
    lab.write("sub/code.py", CODE)
    lab.write("helper.py", "from deep.er import VALUE")
    lab.write("deep/er.py", "VALUE = 1")
    lab.pipeline({"id": "one", "type": "code", **step})
    lab.tests(case(expected_outputs={"one": 1}))
    first = lab.run(model="")
    lab.write("other.py", "VALUE = 2")
    assert lab.run(model="").run.folder == first.run.folder
    lab.write("deep/er.py", "VALUE = 22")
    second = lab.run(model="")
    assert second.run.folder != first.run.folder
    assert (first.run.exit_code, second.run.exit_code) == (0, 1)
