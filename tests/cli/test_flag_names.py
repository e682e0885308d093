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
def test_flags_of_memory_eval_that_were_renamed(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`task --samples` chooses documents: here it was concurrency, and --sample were ids."""
    assert typed("memory", "eval", old, "3") == 2
    assert f"{old.partition('=')[0]} is called {new} here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "flag", "own"),
    [
        ("eval", "--memory", "--baseline"),
        ("eval", "--data", "--dataset"),
        ("eval", "--task-id", "--sample-id"),
        ("test", "--baseline", "--memory"),
        ("test", "--sample-id", "--task-id"),
    ],
)
def test_each_command_of_memories_knows_the_flags_of_the_other(
    command: str, flag: str, own: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed("memory", command, flag, "bm25") == 2
    assert f"{flag} is called {own} here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("suite", "name"), [("hop", "workers"), ("memory-test", "conversations"), ("memory-eval", "open_cases")]
)
def test_open_cases_is_the_number_of_cases_that_run_at_once(suite: str, name: str) -> None:
    """Also where a document prints another name for it."""
    (field,) = [field for field in fields(find_options(suite)) if field.name == name]
    flags = field.extra.get("flags", [f"--{field.name.replace('_', '-')}"])
    assert "--open-cases" in flags
    assert field.mark == "how"


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("nan", "--limit nan: expected a number above 0"),
        ("inf", "--limit inf: expected a number of rows. Leave it out to run all of them"),
    ],
)
def test_a_limit_that_is_no_number_is_refused_as_such(
    limit: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed("task", "x.yaml", "--model", "openai/x", "--limit", limit) == 2
    assert capsys.readouterr().err == f"{message}\n"
