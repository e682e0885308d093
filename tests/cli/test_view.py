"""`assay view`: prints its address, says why it cannot start, and ends on Ctrl-C."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

from support.commands import environment
from support.runs import run_of


def test_the_server_prints_its_address_answers_and_ends_with_code_0(tmp_path: Path) -> None:
    run_of(tmp_path / "assay" / "one", {"a": True})
    command = [sys.executable, "-m", "assay", "view", str(tmp_path), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        with urlopen(address) as page:
            assert b"/run/assay/one" in page.read()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
        assert process.returncode == 0
        assert "Ctrl-C" in said
    finally:
        process.kill()
        process.communicate()


def test_a_port_in_use_is_told_in_a_sentence(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        command = [sys.executable, "-m", "assay", "view", str(tmp_path), "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"port {port} is in use")
    assert "--port 0" in done.stderr


def test_another_host_than_loopback_gets_a_token_in_its_address(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "assay", "view", str(tmp_path), "--port", "0", "--host", "0.0.0.0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    try:
        assert process.stdout is not None
        assert "/?token=" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()
