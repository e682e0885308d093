"""The pages of docs/coming-from are run as they stand.

A page is read from top to bottom in an empty folder. A block with a file name before it is that file. A
```python block without a name is executed. A ```sh block holds commands that are executed; they exit with 0
unless a comment says `exit code N`. Blocks without a language are examples that only have to parse.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from assay.cli.main import cli

from conftest import Assay

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "coming-from").glob("*.md"))
GOLDEN = ROOT / "tests" / "golden" / "lm_eval"
BLOCK = re.compile(r"(?:`([\w./-]+\.(?:jsonl?|yaml|py|csv))`[^\n`]*:\n\n)?```(\w*)\n(.*?)```", re.DOTALL)


def run_python(code: str, folder: Path) -> None:
    """Execute code of a page in a folder. It is a file there: assay reads the source of functions."""
    (folder / "page_block.py").write_text(code)
    command = [sys.executable, "page_block.py"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def inline_commands() -> list[str]:
    """Every `assay …` that a page shows inside a line or a table."""
    texts = [BLOCK.sub("", page.read_text()) for page in PAGES]
    commands = {command for text in texts for command in re.findall(r"`(assay [^`\n]+)`", text)}
    return sorted(command for command in commands if "…" not in command)


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem != "lm-eval"], ids=lambda page: page.stem)
def test_a_page_runs_as_shown(page: Path, tmp_path: Path, assay_in: Assay) -> None:
    """Its files, its Python and its commands work together, in the order of the page."""
    for name, language, text in BLOCK.findall(page.read_text()):
        if name:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif language == "python":
            run_python(text, tmp_path)
        elif language == "sh":
            for line in text.splitlines():
                command, _, comment = line.partition("  #")
                result = assay_in(*shlex.split(command)[1:], cwd=tmp_path)
                expected = re.search(r"exit code (\d)", comment)
                assert result.returncode == (int(expected[1]) if expected else 0), result.stdout + result.stderr


@pytest.mark.parametrize(
    ("run", "tasks", "flags"),
    [
        ("a_completions", ["g_gsm_sc"], []),
        ("c_fewshot_chat", ["g_fs_random", "g_fs_prefix"], ["--apply-chat-template", "--limit", "5"]),
        ("d_mc", ["g_mc_mi", "g_wino"], []),
    ],
)
def test_replies_of_an_lm_eval_run_give_the_same_samples(
    run: str, tasks: list[str], flags: list[str], tmp_path: Path, assay_in: Assay
) -> None:
    """The page turns samples files of lm_eval into recorded replies: repeats, chat and likelihoods."""
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/coming-from/lm-eval.md").read_text(), re.DOTALL)
    for folder in ("tasks", "data"):
        shutil.copytree(GOLDEN / folder, tmp_path / folder)
    for task in tasks:
        (stored,) = (GOLDEN / "out" / run).rglob(f"samples_{task}_2*.jsonl")
        shutil.rmtree(tmp_path / "lm_eval_out", ignore_errors=True)
        (tmp_path / "lm_eval_out").mkdir()
        shutil.copy(stored, tmp_path / "lm_eval_out")
        run_python(code, tmp_path)
        arguments = [task, "--include-path", "tasks", "--model", "script/replies.jsonl", *flags]
        result = assay_in("task", *arguments, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        (written,) = (tmp_path / "results").rglob(f"samples_{task}_2*.jsonl")
        assert written.read_bytes() == stored.read_bytes()


@pytest.mark.parametrize("line", inline_commands())
def test_commands_inside_lines_can_be_typed(line: str) -> None:
    """The command line takes the commands of the tables too."""
    words = shlex.split(line)[1:]
    command = cli.get_command(click.Context(cli), words[0])
    assert command is not None
    if len(words) > 1:
        command.make_context(words[0], words[1:], resilient_parsing=False, **command.context_settings)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_in_the_index_and_short(page: Path) -> None:
    """The index links to it, and it can be read in a few minutes."""
    if page.stem != "README":
        assert f"({page.name})" in (page.parent / "README.md").read_text()
        assert 60 <= len(page.read_text().splitlines()) <= 120
