"""`assay init` writes projects that pass their own check and run as their README says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from assay.cli.init import NEXT_COMMANDS, project_files

from support.commands import run_here, typed

KINDS = list(NEXT_COMMANDS)

# Stands in for the embedded model: answers with the last number of the prompt, or with the city.
MODEL = """
import json, re

def answer(prompt, params):
    text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    note = re.search(r"[A-Z][^\\n]*\\d+[^\\n]*\\.", text)
    note = note[0] if note else text
    if "city" in text:
        return "The parcel goes to " + re.search(r"goes to (\\w+)", note)[1]
    number = re.search(r"\\d+(?= (kg|loaves|metres|euros|km|chairs|hours|pupils))", note)
    number = int(number[0]) if number else 0
    return json.dumps({"status": "OK", "result": number}) if "JSON" in text else str(number)
"""


def readme_commands(folder: Path) -> list[list[str]]:
    """The words of every `assay ...` line in the code blocks of a project's README."""
    lines = []
    for block in re.findall(r"```\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["assay"]:
                lines.append(words)
    return lines


@pytest.fixture
def project(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A written project, in which the Python model above takes the place of the embedded model."""
    folder = tmp_path / "project"
    assert typed("init", request.param, str(folder)) == 0
    monkeypatch.chdir(folder)
    (tmp_path / "model.py").write_text(MODEL)
    for path in [folder / "README.md", folder / "settings.yaml"]:
        if path.exists():
            path.write_text(path.read_text().replace("local/smollm2", "python/../model.py:answer"))
    return folder


@pytest.mark.parametrize("project", KINDS, indirect=True)
def test_every_command_of_a_projects_readme_works(project: Path) -> None:
    """In the order of the README, as a newcomer types them."""
    commands = readme_commands(project)
    assert any(words[1] == "check" for words in commands)
    assert any(words[1] == "show" for words in commands)
    for words in commands:
        if words[1:3] == ["models", "pull"]:
            continue
        if ">" in words:  # the shell writes the output to a file
            words = words[: words.index(">")]  # noqa: PLW2901
        done = run_here(words[1:], project)
        # A pipeline exits with 1 if a check fails. The stand-in model passes all of them.
        assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
        assert "left out" not in done.stderr
    assert list(project.glob("results/**/run.json"))


@pytest.mark.parametrize("project", KINDS, indirect=True)
def test_every_file_of_a_project_is_sound(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`assay check` finds nothing to say, not even a warning or advice."""
    for path in sorted(project.iterdir()):
        if path.suffix not in (".yaml", ".json", ".jsonl") or path.name.endswith(".schema.json"):
            continue
        capsys.readouterr()
        flags = ["--pipeline", "pipeline.yaml"] if path.name.startswith("parcels_") else []
        assert typed("check", path.name, *flags) == 0
        (verdict,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith(f"{path.name}: ")]
        assert verdict.endswith(": fine")


@pytest.mark.parametrize("kind", KINDS)
def test_the_folder_is_named_after_the_kind_and_the_next_commands_are_printed(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert typed("init", kind) == 0
    written = {path.name for path in (tmp_path / kind).iterdir()}
    assert written == set(project_files(kind))
    assert "README.md" in written
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if line.startswith("wrote ")] == [
        f"wrote {kind}/{name}" for name in project_files(kind)
    ]
    assert printed[printed.index("Next:") + 1 :] == [f"  {line}" for line in [f"cd {kind}", *NEXT_COMMANDS[kind]]]
    shown = [shlex.join(words) for words in readme_commands(tmp_path / kind)]
    for line in NEXT_COMMANDS[kind]:
        assert shlex.join(shlex.split(line, comments=True)) in shown


def test_existing_files_are_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One file that exists is enough: a project of which half is another's would not run."""
    (tmp_path / "task.yaml").write_text("mine")
    assert typed("init", "task", str(tmp_path)) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"{tmp_path} already has task.yaml. Nothing was written.")
    assert [path.name for path in tmp_path.iterdir()] == ["task.yaml"]
    assert (tmp_path / "task.yaml").read_text() == "mine"


def test_a_project_is_written_beside_other_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert typed("init", "hop", str(tmp_path)) == 0
    assert (tmp_path / "function.py").is_file()


def test_a_folder_that_cannot_be_written_to_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert typed("init", "task", str(tmp_path / "file" / "below")) == 2
    assert capsys.readouterr().err.startswith("cannot write ")


def test_an_unknown_kind_lists_the_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("init", "tusk") == 2
    message = capsys.readouterr().err
    for kind in KINDS:
        assert kind in message
