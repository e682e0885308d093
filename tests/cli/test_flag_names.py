"""One flag has one meaning in every command; a flag that was renamed is refused with its new name."""

from __future__ import annotations

import pytest

from assay.core.spec import fields
from assay.suites import find_options

from support.commands import typed


@pytest.mark.parametrize(
    ("old", "new"),
    [("--samples", "--open-cases"), ("--sample", "--sample-id"), ("--samples=3", "--open-cases")],
)
def test_flags_of_memory_eval_that_were_renamed(
    old: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`task --samples` chooses documents: here it was concurrency, and --sample were ids."""
    assert typed("memory", "eval", old, "3") == 2
    assert f"{old.partition('=')[0]} is called {new} now" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("suite", "name"), [("hop", "workers"), ("memory-test", "conversations"), ("memory-eval", "open_cases")]
)
def test_open_cases_is_the_number_of_cases_that_run_at_once(suite: str, name: str) -> None:
    """Also where a document prints another name for it."""
    (field,) = [field for field in fields(find_options(suite)) if field.name == name]
    flags = field.extra.get("flags", [f"--{field.name.replace('_', '-')}"])
    assert "--open-cases" in flags
    assert field.mark == "how"
