"""The commands in the format's description work as printed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from servers.judging import JudgingServer
from support.commands import environment
from support.judged_samples import JudgedSamples, reply, stage_one, stage_two
from support.memory_samples import sample

PRINTED = "eval_framework.cli --dataset data --baseline FUMemory --output-dir results/FU"


def typed(folder: Path, url: str, model: str, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command with the two environment variables of the format's description."""
    variables = environment() | {"OPENAI_MODEL": model, "OPENAI_BASE_URL": url}
    words = [sys.executable, "-m", *command.split()]
    return subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True, timeout=60, check=False)


def test_the_commands_of_the_document(tmp_path: Path) -> None:
    """OPENAI_MODEL answers and judges. With --eval-only another model judges at another endpoint and answers nothing."""
    with JudgingServer(other=reply) as server, JudgingServer() as elsewhere:
        judged_samples = JudgedSamples(tmp_path, server, sample("s1", 2))
        first = typed(tmp_path, server.url, "one", PRINTED)
        assert first.returncode == 0, first.stderr
        assert set(judged_samples.calls()) == {"one"}
        out = tmp_path / "results" / "FU"
        files, records = stage_one(out), stage_two(out)
        assert (len(files), len(records)) == (2, 3)
        calls = judged_samples.calls()
        second = typed(tmp_path, elsewhere.url, "two", f"{PRINTED} --eval-only")
        assert second.returncode == 0, second.stderr
        assert judged_samples.calls() == calls
        assert [body["model"] for body in elsewhere.bodies] == ["two"] * len(server.questions)
        assert stage_one(out) == files
        assert "openai/two" in second.stdout
