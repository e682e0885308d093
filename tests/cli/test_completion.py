"""Shell completion: what each shell gets at a press of Tab, with the real shells where they are installed."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.commands import environment
from support.terminal import is_readable

# The modules that take long to import. Completion is called at every press of Tab.
HEAVY = {"aiohttp", "asyncio", "duckdb", "jinja2", "numpy", "rich", "yaml", "assay.runner.api", "assay.runner.runner"}
NEWER, OLDER = "2026-02-02T10-00-00-task-bbbb", "2026-01-01T10-00-00-task-aaaa"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with two runs, and a command `assay` for shells."""
    for name in (OLDER, NEWER):
        run = tmp_path / "here" / "results" / "assay" / name
        run.mkdir(parents=True)
        (run / "run.json").write_text("{}")
    (tmp_path / "here" / "replies.jsonl").write_text("")
    program = tmp_path / "bin" / "assay"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m assay "$@"\n')
    program.chmod(0o755)
    return tmp_path / "here"


def shell_environment(folder: Path, **more: str) -> dict[str, str]:
    path = f"{folder.parent / 'bin'}:{os.environ['PATH']}"
    return environment() | {"PATH": path, "HOME": str(folder.parent), "TERM": "dumb"} | more


def completions(folder: Path, shell: str, line: str) -> list[str]:
    """What `assay` answers to a shell's script for a line whose last word is being typed."""
    words = line.split(" ")
    variables = {
        "_ASSAY_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    if shell == "fish":
        variables["COMP_CWORD"] = words[-1]
    done = subprocess.run(
        [folder.parent / "bin" / "assay"],
        capture_output=True,
        text=True,
        cwd=folder,
        env=shell_environment(folder, **variables),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("assay sh", ["plain,show"]),
        ("assay memory t", ["plain,test", "plain,try"]),
        ("assay task --max-ca", ["plain,--max-calls"]),
        ("assay show ", [f"plain,{NEWER}", f"plain,{OLDER}"]),
        ("assay show 2026-01", [f"plain,{OLDER}"]),
        ("assay show res", ["dir,res"]),
        ("assay rescore 2026-02", [f"plain,{NEWER}"]),
        (f"assay compare {OLDER} 2026-02", [f"plain,{NEWER}"]),
        ("assay task x.yaml --reuse 2026-02", [f"plain,{NEWER}"]),
        ("assay runs res", ["dir,res"]),
        (
            "assay task --model op",
            [
                *("plain,openai/", "plain,openai-completions/", "plain,openai-responses/"),
                "plain,openrouter/",
            ],
        ),
        ("assay task --model script/re", ["plain,script/replies.jsonl", "plain,script/results/"]),
        ("assay memory eval --judge off", ["plain,offline"]),
        ("assay memory test --memory bm", ["plain,bm25"]),
        ("assay memory test --memory bm25,ora", ["plain,bm25,oracle"]),
        ("assay memory test --trigger s", ["plain,segments"]),
        ("assay hop f.py:f rows.jsonl --wrapper v", ["plain,view"]),
        ("assay check rows.jsonl --as hop", ["plain,hop"]),
        ("assay check rep", ["file,rep"]),
        ("assay task qu", ["file,qu"]),
        ("assay pipeline --testset te", ["file,te"]),
        ("assay task --concurrency 1", []),
        ("assay init p", ["plain,pipeline"]),
        ("assay completion f", ["plain,fish"]),
        ("assay nonsense x", []),
        ("assay task --testsets ", ["file,"]),
        ("assay task 'unclosed", ["file,unclosed"]),
    ],
)
def test_bash_gets_commands_options_values_files_and_runs(folder: Path, line: str, expected: list[str]) -> None:
    answers = completions(folder, "bash", line)
    if line.endswith(" op"):
        assert sorted(answers) == sorted(expected)
    else:
        assert [answer for answer in answers if answer] == expected


def test_zsh_and_fish_get_the_summary_of_a_command_too(folder: Path) -> None:
    kind, name, summary = completions(folder, "zsh", "assay sho")
    assert (kind, name) == ("plain", "show")
    assert summary.startswith("Show the report")
    (line,) = completions(folder, "fish", "assay sho")
    assert line.startswith("plain,show\tShow the report")


@pytest.mark.parametrize("variable", ["bash_complete", "bash_nonsense", "nonsense", ""])
def test_an_answer_to_a_broken_question_is_silent(folder: Path, variable: str) -> None:
    """COMP_WORDS is missing, or the instruction is unknown: nothing may appear on the command line."""
    done = subprocess.run(
        [folder.parent / "bin" / "assay", "show"],
        capture_output=True,
        text=True,
        env=shell_environment(folder, _ASSAY_COMPLETE=variable),
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "line", ["assay ", "assay show ", "assay task --model ", "assay compare ", "assay check --as "]
)
def test_completion_imports_nothing_that_runs(folder: Path, line: str) -> None:
    code = (
        "import sys\nfrom assay.cli.main import main\nsys.argv = ['assay']\nmain()\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    variables = {"_ASSAY_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=folder,
        env=shell_environment(folder, **variables),
        check=True,
    )
    assert done.stdout.strip()
    assert HEAVY.isdisjoint(done.stderr.split())


def completed_line(folder: Path, command: list[str], setup: str, line: str) -> str:
    """The words of a line after Tab in an interactive shell."""
    marker = folder / "line.txt"
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe(command[0], command, shell_environment(folder))
    try:
        # The terminal echoes what is typed, so the result goes through a file.
        keys = f"{setup}\n{line}\t\x01echo \x05 > {marker}.part; mv {marker}.part {marker}\n"
        os.write(terminal, keys.encode())
        deadline = time.monotonic() + 120
        printed = b""
        while not marker.exists() and time.monotonic() < deadline:
            if is_readable(terminal, 0.05):
                printed += os.read(terminal, 65536)
        assert marker.exists(), printed.decode(errors="replace")
        return marker.read_text().strip()
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


INTERACTIVE = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(assay completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'autoload -U compinit; compinit -u -D; eval "$(assay completion zsh)"'),
}


# bash is everywhere. The other shells are tried where they are installed; the tests above speak their protocols.
INSTALLED = {shell for shell in ("bash", "zsh", "fish") if shell == "bash" or shutil.which(shell)}


@pytest.mark.parametrize("shell", sorted(INSTALLED & INTERACTIVE.keys()))
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("assay comple", "assay completion"),
        ("assay show 2026-01", f"assay show {OLDER}"),
        ("assay task --max-cal", "assay task --max-calls"),
        ("assay check repl", "assay check replies.jsonl"),
    ],
)
def test_tab_completes_in_an_interactive_shell(folder: Path, shell: str, line: str, expected: str) -> None:
    command, setup = INTERACTIVE[shell]
    assert completed_line(folder, command, setup, line) == expected


def test_bash_adds_no_space_after_a_provider(folder: Path) -> None:
    command, setup = INTERACTIVE["bash"]
    assert completed_line(folder, command, setup, "assay task --model loc\tx") == "assay task --model local/x"


@pytest.mark.parametrize("shell", sorted(INSTALLED & {"fish"} or {"no fish"}))
def test_fish_completes_commands_and_runs(folder: Path, shell: str) -> None:
    if shell != "fish":
        return

    def lines(text: str) -> list[str]:
        script = f"assay completion fish | source; complete -C '{text}'"
        done = subprocess.run(
            ["fish", "--no-config", "-c", script],
            capture_output=True,
            text=True,
            cwd=folder,
            env=shell_environment(folder),
            check=True,
        )
        return [line.split("\t")[0] for line in done.stdout.splitlines()]

    assert lines("assay comple") == ["completion"]
    assert lines("assay show 2026-01") == [OLDER]
    assert lines("assay check repl") == ["replies.jsonl"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed(folder: Path, shell: str) -> None:
    """It ends with a line break and names the command that it completes."""
    done = subprocess.run(
        [sys.executable, "-m", "assay", "completion", shell],
        capture_output=True,
        text=True,
        env=shell_environment(folder),
        check=True,
    )
    assert done.stdout.endswith("\n")
    assert "_ASSAY_COMPLETE" in done.stdout
    assert done.stderr == ""


def test_names_of_schemas_are_completed(folder: Path) -> None:
    assert completions(folder, "bash", "assay schema ta") == ["plain,task"]
