"""Documentation is true: commands it shows exist, and what exists is named in it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from assay.cli.main import COMMANDS, cli
from assay.core import registry
from assay.core.spec import RunSpec, fields

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands() -> list[str]:
    """Every line `assay ...` of every code block."""
    found = []
    for page in PAGES:
        for block in re.findall(r"```(?:\w*)\n(.*?)```", page.read_text(), re.DOTALL):
            found += [line.split("#")[0].strip() for line in block.splitlines() if line.startswith("assay ")]
    return found


@pytest.mark.parametrize("line", commands())
def test_shown_commands_can_be_typed(line: str) -> None:
    """The command line takes every command and flag that a page shows."""
    words = shlex.split(line)[1:]
    command = cli.get_command(click.Context(cli), words[0])
    assert command is not None
    settings = command.context_settings
    command.make_context(words[0], words[1:], resilient_parsing=False, **settings)


def test_there_are_commands_to_check() -> None:
    """The search for commands finds them."""
    assert len(commands()) >= 8


@pytest.mark.parametrize(("kind", "page"), [("model", "models"), ("metric", "tasks"), ("filter", "tasks")])
def test_every_plugin_is_named(kind: str, page: str) -> None:
    """A provider, metric or filter that no page names does not exist for its users."""
    text = (ROOT / "docs" / f"{page}.md").read_text()
    for name in registry.names(kind):
        assert f"`{name}`" in text, name


def test_every_link_leads_somewhere() -> None:
    """Links between pages point to files that are there."""
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} → {target}"


def test_every_command_and_option_is_explained() -> None:
    """Help texts exist, and the common options stand on the run command."""
    task = cli.get_command(click.Context(cli), "task")
    assert task is not None
    flags = {name for parameter in task.params for name in parameter.opts}
    for field in fields(RunSpec):
        if field.extra.get("cli", True):
            assert f"--{field.name.replace('_', '-')}" in flags
            assert field.help
    assert all(COMMANDS.values())


def test_every_example_is_sound() -> None:
    """Files in examples/ pass their own check."""
    from assay import api

    files = sorted((ROOT / "examples").rglob("*.yaml"))
    assert files
    for path in files:
        assert not [problem for problem in api.check(path) if problem.level == "error"], path
