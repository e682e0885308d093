"""Code that wants to end the process at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from assay.core.errors import InputError
from assay.usercode.modules import load_module
from assay.usercode.process_end import refuse_exits


def test_exits_are_refused_until_the_last_context_ends() -> None:
    before = os._exit, os.execv, os.execve
    with refuse_exits():
        with refuse_exits(), pytest.raises(SystemExit, match="os._exit would end the whole run"):
            os._exit(0)
        with pytest.raises(SystemExit, match="os.execve would end"):
            os.execlpe("true", "true", {})
    assert (os._exit, os.execv, os.execve) == before


def test_a_copy_of_the_process_ends_as_it_likes() -> None:
    with refuse_exits():
        copy = os.fork()
        if copy == 0:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]) == 7


def test_a_file_that_ends_the_process_on_import_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "leaves.py"
    path.write_text("import os\nos._exit(0)\n")
    with pytest.raises(InputError, match=r"importing it raised SystemExit: os\._exit would end"):
        load_module(path)
