"""What assay answers to 200 mistakes: exit code and message, as in the golden files that a person has read.

A changed message is written anew with `ASSAY_WRITE_GOLDEN=1 pytest tests/cli/test_mistakes.py`, and then read.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from support.mistakes import BASE, MISTAKES, RUN_PIPELINE, RUN_TASK, Mistake, prepare
from support.pipeline_project import typed

GOLDEN = Path(__file__).parent.parent / "golden" / "mistakes"
# What differs from run to run, and what stands for it.
SAME = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-([a-z-]+)-[0-9a-f]{16}"), r"RUN-\1"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d|\d{8}_\d{6}|\d{6}_\d{4}"), "TIME"),
    (re.compile(r"\d+\.\d+( s\b|/s\b)"), r"0.0\1"),
    (re.compile(r"(?<![\d.])\d+\.\d{3,}(?= {2,}\S|$)", re.MULTILINE), "0.000"),
    (re.compile(r"(?<=\S) {2,}"), "  "),
    (re.compile("─+"), "─"),
    (re.compile(r"\[{40,}"), "[[[…"),
)


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which every mistake begins, with two finished runs."""
    folder = tmp_path_factory.mktemp("project")
    prepare(folder, BASE)
    return folder


def answer(mistake: Mistake, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The command, its exit code and what it printed, without what differs from day to day."""
    done = typed(capsys, *shlex.split(mistake.command))
    said = (done.out + done.err).replace(str(folder.resolve()), "FOLDER").replace(str(folder), "FOLDER")
    for pattern, text in SAME:
        said = pattern.sub(text, said)
    lines = "".join(f"  {line}".rstrip() + "\n" for line in said.splitlines())
    return f"{mistake.title}\n$ assay {mistake.command}\nexit {done.code}\n{lines}"


@pytest.mark.parametrize("group", MISTAKES)
def test_mistakes_get_the_answers_that_a_person_has_read(
    group: str,
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One golden file for each group of commands."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL_JUDGE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    base = tmp_path / "base"
    shutil.copytree(project, base)
    monkeypatch.chdir(base)
    for command in (RUN_TASK, RUN_PIPELINE):
        typed(capsys, *shlex.split(command))
    answers = []
    for number, mistake in enumerate(MISTAKES[group]):
        folder = tmp_path / str(number)
        shutil.copytree(base, folder)
        monkeypatch.chdir(folder)
        prepare(folder, mistake.files)
        answers.append(answer(mistake, folder, capsys))
    found = "\n".join(answers)
    file = GOLDEN / f"{group}.txt"
    if os.environ.get("ASSAY_WRITE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("group", MISTAKES)
def test_no_answer_is_a_traceback_and_none_claims_success(group: str) -> None:
    """The golden files themselves are held to the rule."""
    text = (GOLDEN / f"{group}.txt").read_text(encoding="utf-8")
    assert "Traceback (most recent call last)" not in text
    # `assay check` says 0 where a run would only warn.
    successes = [block for block in text.split("\n\n") if "\nexit 0\n" in block]
    assert all("$ assay check" in block and "warning" in block for block in successes)
