"""`assay rerun`: what failed is asked again, with the run's own command and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import Assay
from servers.loopback import LoopbackServer, chat

RUN = re.compile(r"^run   (\S+)$", re.MULTILINE)


class Moody:
    """Answers sums; refuses some of them until it is told otherwise."""

    def __init__(self) -> None:
        self.refused = {"1", "4"}

    def __call__(self, body: dict[str, Any]) -> tuple[int, Any]:
        number = str(body["messages"][-1]["content"])[3]
        if number in self.refused:
            return 400, {"error": {"code": "content_filter", "message": "not this one"}}
        return 200, chat(str(2 * int(number)))


def asked(server: LoopbackServer) -> list[str]:
    """The number of each sum that the server was asked for, in the order of their size."""
    return sorted(str(body["messages"][-1]["content"])[3] for body in server.bodies)


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider of OpenAI wants a key."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody-in-particular")


def sums_at(server: LoopbackServer) -> list[str]:
    """The command of a run with the model of this server."""
    return ["task", "sums.yaml", "--model", "openai/m", "--base-url", server.url, "--output-dir", "out"]


@pytest.mark.usefixtures("key")
def test_only_the_refused_questions_are_asked_again_in_the_same_run(sums: Path, assay_in: Assay) -> None:
    """The other four have answers. A second time nothing is left to ask."""
    moody = Moody()
    with LoopbackServer(moody) as server:
        command = sums_at(server)
        first = assay_in(*command)
        assert first.returncode == 0, first.stderr
        assert asked(server) == list("012345")
        server.bodies.clear()
        moody.refused = {"4"}
        again = assay_in("rerun", "out", "--failed")
        assert asked(server) == ["1", "4"]
        assert "run again: 2 of 6 cases; only requests without a saved reply are sent" in again.stdout
        assert RUN.findall(again.stdout) == RUN.findall(first.stdout)
        moody.refused = set()
        server.bodies.clear()
        assay_in("rerun", "out", "--failed")
        assert asked(server) == ["4"]
        server.bodies.clear()
        nothing = assay_in("rerun", "out", "--failed")
        assert asked(server) == []
        assert "nothing failed: every case of" in nothing.stdout
        assert nothing.returncode == 0


@pytest.mark.usefixtures("key")
def test_without_failed_all_is_asked_again_in_a_new_run(sums: Path, assay_in: Assay, tmp_path_factory: Any) -> None:
    """Typed anywhere: the command runs in its own folder, and the new run stands beside the first one."""
    with LoopbackServer(lambda body: (200, chat("4"))) as server:
        command = sums_at(server)
        assert assay_in(*command).returncode == 0
        elsewhere = tmp_path_factory.mktemp("elsewhere")
        again = assay_in("rerun", str(sums / "out"), cwd=elsewhere)
        assert again.returncode == 0, again.stderr
        assert len(server.bodies) == 12
    assert f"in {sums}" in again.stdout
    assert len(os.listdir(sums / "out" / "assay")) == 2  # noqa: PTH208 - names are enough
    assert not list(elsewhere.iterdir())


def test_the_named_run_is_asked_and_not_a_newer_one_of_the_same_command(sums: Path, assay_in: Assay) -> None:
    """A second run was started with --fresh. It failed too, and stays as it is."""
    (sums / "model.py").write_text("def answer(prompt, params):\n    raise KeyError('text')\n")
    command = (
        "task",
        "sums.yaml",
        "--model",
        "python/model.py:answer",
        "--output-dir",
        "out",
        "--limit",
        "1",
    )
    first, second = (RUN.findall(assay_in(*command, "--fresh").stdout)[0] for _ in range(2))
    assert first != second
    before = (sums / second / "records.jsonl").read_bytes()
    again = assay_in("rerun", first, "--failed")
    assert RUN.findall(again.stdout) == [first]
    assert (sums / second / "records.jsonl").read_bytes() == before


FUNCTION = """\
async def hop_double(session, row):
    if row["n"] == 2:
        raise KeyError("two")
    status, said = await session.hop_get("Double it", {"n": row["n"]}, verifier=None)
    return status, {"said": said}
"""


@pytest.mark.usefixtures("key")
def test_a_mended_function_is_asked_only_what_it_had_not_asked(tmp_path: Path, assay_in: Assay) -> None:
    """Its code differs, so it is another run; replies to equal requests come from the first."""
    (tmp_path / "mine.py").write_text(FUNCTION)
    (tmp_path / "rows.jsonl").write_text("".join(f'{{"id": {n}, "tag": "t", "n": {n}}}\n' for n in range(4)))
    with LoopbackServer(lambda body: (200, chat('{"result": "ok"}'))) as server:
        command = ("hop", "mine.py:hop_double", "rows.jsonl", "--model", "openai/m", "--base-url", server.url)
        first = assay_in(*command, "--output-dir", "out")
        before = len(server.bodies)
        (tmp_path / "mine.py").write_text(FUNCTION.replace('raise KeyError("two")', "pass"))
        again = assay_in("rerun", "out", "--failed")
        assert again.returncode == 0, again.stdout + again.stderr
        assert len(server.bodies) == before + before // 3
    assert "the code of the function changed since" in again.stdout
    assert RUN.findall(again.stdout) != RUN.findall(first.stdout)


def test_a_run_that_no_command_made_is_refused_with_a_sentence(tmp_path: Path, assay_in: Assay) -> None:
    """It was made by Python: only its program can repeat it."""
    (tmp_path / "program.py").write_text(
        "import assay\n"
        "assay.evaluate([{'a': 'x', 'b': 'x'}], answer=lambda a: a, score='exact_match', target='b', output_dir='out')\n"
    )
    subprocess.run([sys.executable, "program.py"], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    done = assay_in("rerun", "out", "--failed")
    assert done.returncode == 2
    assert "What started it continues it" in done.stderr
