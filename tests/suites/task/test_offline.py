"""The embedded model needs no network: the examples run with only the loopback interface."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples" / "task"
# Whatever Python code tries to reach beyond loopback ends the process, also where there is no namespace.
GUARDED = """
import os, sys
def guard(event, args):
    if event == "socket.connect" and isinstance(args[1], tuple) and args[1][0] not in ("127.0.0.1", "::1"):
        os.write(2, f"tried to reach {args[1]}".encode())
        os._exit(99)
    if event == "socket.getaddrinfo" and args[0] not in ("127.0.0.1", "localhost", None):
        os.write(2, f"tried to look up {args[0]}".encode())
        os._exit(99)
sys.addaudithook(guard)
from assay.cli.main import main
main(sys.argv[1:])
"""


def namespace() -> list[str]:
    """How to run a command in a network of its own, where this machine allows it."""
    command = ["unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up; exec "$0" "$@"']
    try:
        done = subprocess.run([*command, "true"], capture_output=True, timeout=10, check=False)
    except FileNotFoundError:
        return []
    return command if done.returncode == 0 else []


@pytest.mark.usefixtures("weights")
@pytest.mark.parametrize(("task", "limit"), [("multiple_choice", 24), ("quickstart", 4)])
def test_examples_run_on_loopback_alone(task: str, limit: int, tmp_path: Path) -> None:
    """By likelihoods and by generation: every document is answered and scored."""
    options = ["--model", "local/smollm2", "--limit", str(limit), "--output-path", str(tmp_path), "--quiet"]
    command = [sys.executable, "-c", GUARDED, "task", str(EXAMPLES / f"{task}.yaml"), *options]
    env = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI")}
    done = subprocess.run([*namespace(), *command], capture_output=True, text=True, timeout=120, env=env, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    (results,) = (tmp_path / "smollm2").glob("results_*.json")
    result = json.loads(results.read_text())["results"][task]
    assert result["sample_len"] == limit
    if task == "multiple_choice":
        assert result["acc,none"] > 0.5  # chance is a quarter
