"""Help is quick: it imports the options of the named suite and nothing that runs one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from assay.cli.main import COMMANDS
from assay.suites import BUILT_IN

from support.commands import environment

# What takes long to import, and is used only when something runs.
HEAVY = (
    "aiohttp",
    "asyncio",
    "duckdb",
    "jinja2",
    "numpy",
    "rich",
    "ssl",
    "yaml",
    "assay.runner.api",
    "assay.runner.runner",
)
CODE = """
import sys
from assay.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as left:
    assert not left.code, left.code
print(*sorted(sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize("name", [name for name, about in BUILT_IN.items() if about.command])
def test_help_imports_nothing_that_runs(name: str) -> None:
    """A tenth of a second more for each of them would be felt at every `--help`."""
    words = [*BUILT_IN[name].command.split(), "--help"]
    command = [sys.executable, "-c", CODE, *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    assert "Common options:" in done.stdout
    modules = set(done.stderr.split())
    assert modules.isdisjoint(HEAVY)
    suites = {module.split(".")[2] for module in modules if module.startswith("assay.suites.")}
    assert suites == {BUILT_IN[name].options.split(".")[2]}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_of_other_commands_imports_nothing_that_runs(name: str) -> None:
    command = [sys.executable, "-c", CODE, name, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    assert done.stdout.startswith(f"Usage: assay {name}")
    assert set(done.stderr.split()).isdisjoint(HEAVY)


def test_the_list_of_commands_imports_no_suite() -> None:
    command = [sys.executable, "-c", CODE, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    modules = set(done.stderr.split())
    assert modules.isdisjoint(HEAVY)
    assert not [module for module in modules if module.startswith("assay.suites.")]


def test_a_run_imports_no_other_suite_and_no_xml_before_its_first_request() -> None:
    """A tenth of the time until the first request was spent on modules that most runs never use."""
    code = "import sys, assay.runner.api, assay.suites.task.suite; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    unused = {"assay.runner.evaluate", "assay.suites.evaluate", "assay.cli.printer", "http.client", "xml.sax"}
    assert unused.isdisjoint(done.stdout.split())
