"""Stands in for the programs `vllm`, `sglang` and `llama-server`: records how it was started, and answers over HTTP.

python stand_in.py FOLDER ... --port N ...

FOLDER/behaviour says in words what it does besides:
  unhealthy      /health answers 503 for ever
  no-health      there is no /health
  exit N         prints a reason and ends with this code
  hold N         the request of this number and all later ones get no answer
  die N          the request of this number ends the process
  occupied       the first start finds its port taken, by a process that it leaves behind and that answers 503
  stranger       the first start finds its port taken, and the second too, but by a process of FOLDER/stranger that
                 answers 200. It notices that only after it has been asked a few times
  worker         starts a process in a session of its own
  helper         starts a process in its own session
  stubborn       ignores SIGTERM, and so does its worker
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

VARIABLES = (
    "VLLM_API_KEY",
    "LLAMA_API_KEY",
    "ASSAY_SERVER_KEY",
    "VLLM_NO_USAGE_STATS",
    "DO_NOT_TRACK",
    "HF_HUB_OFFLINE",
)
WORKER = "import time; print(flush=True); time.sleep(600)"
OCCUPANT = """
import http.server, sys
class Ok(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(503); self.end_headers()
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Ok)
print(flush=True)
server.serve_forever()
"""


class StandIn(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder: Path
    behaviour: dict[str, int]
    key: str
    count = 0
    lock = threading.Lock()

    def do_GET(self) -> None:
        if self.path == "/health" and "no-health" in self.behaviour:
            self.answer(404, {"error": "no such path"})
        elif self.path == "/health":
            self.answer(503 if "unhealthy" in self.behaviour else 200, {})
        elif self.path == "/v1/models":
            self.answer(200, {"data": [{"id": "stand-in", "max_model_len": 64}]})
        elif self.path == "/tokenizer_info":
            self.answer(200, {"bos_token": "^"})
        else:
            self.answer(404, {"error": "no such path"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            return self.answer(200, {"tokens": [ord(char) for char in body["prompt"]]})
        with self.lock:
            StandIn.count += 1
            number = StandIn.count
            with (self.folder / "requests.jsonl").open("a") as file:
                file.write(json.dumps({"path": self.path, "pid": os.getpid(), "body": body}) + "\n")
        if self.headers["Authorization"] != f"Bearer {self.key}":
            return self.answer(401, {"error": "wrong key"})
        if number >= self.behaviour.get("die", 1 << 30):
            os._exit(7)
        if number >= self.behaviour.get("hold", 1 << 30):
            threading.Event().wait()
        return self.answer(200, self.complete(body))

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """A reply to messages or a prompt. Each character of an echoed prompt has the log-probability -0.5."""
        choice: dict[str, Any] = {"finish_reason": "stop", "text": "a text"}
        if "messages" in body:
            choice["message"] = {"role": "assistant", "content": "a message"}
        if body.get("echo"):
            (ids,) = body["prompt"]
            choice["logprobs"] = {
                "token_logprobs": [None, *[-0.5] * len(ids)],
                "top_logprobs": [None, *[{"x": -0.5}] * len(ids)],
            }
        return {"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}

    def answer(self, status: int, value: Any) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        print(format % args, flush=True)  # noqa: T201


def main(folder: Path, words: list[str]) -> None:
    text = (folder / "behaviour").read_text().split() if (folder / "behaviour").exists() else []
    numbers = [int(word) if word.isdecimal() else 0 for word in [*text[1:], ""]]
    behaviour = dict(zip(text, numbers, strict=False))
    port = int(words[words.index("--port") + 1])
    number = len(list(folder.glob("start-*.json")))
    start = {"argv": words, "pid": os.getpid(), "env": {name: os.environ.get(name) for name in VARIABLES}}
    (folder / f"start-{number}.tmp").write_text(json.dumps(start))
    (folder / f"start-{number}.tmp").rename(folder / f"start-{number}.json")
    print("loading \x1b[32mweights\x1b[0m 10%\rloading weights 90%", flush=True)  # noqa: T201
    if "exit" in behaviour:
        print("torch.OutOfMemoryError: the GPU is too small", file=sys.stderr, flush=True)  # noqa: T201
        sys.exit(behaviour["exit"])
    if "stubborn" in behaviour:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "worker" in behaviour:
        ignore = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " if "stubborn" in behaviour else ""
        leave_behind(folder / "worker", [sys.executable, "-S", "-c", ignore + WORKER])
    if "helper" in behaviour:
        leave_behind(folder / "helper", [sys.executable, "-S", "-c", WORKER], new_session=False)
    if "occupied" in behaviour and number == 0:
        leave_behind(folder / "occupant", [sys.executable, "-S", "-c", OCCUPANT, str(port)])
    if "stranger" in behaviour and number == 0:
        sys.exit("Address already in use")
    if "stranger" in behaviour and number == 1:
        # Another process, which the test started, takes the port. It says when it has been asked often enough.
        (folder / "port.tmp").write_text(str(port))
        (folder / "port.tmp").rename(folder / "port")
        while not (folder / "asked").exists():
            time.sleep(0.02)
    StandIn.folder, StandIn.behaviour = folder, behaviour
    StandIn.key = words[words.index("--api-key") + 1] if "--api-key" in words else os.environ["VLLM_API_KEY"]
    ThreadingHTTPServer.request_queue_size = 64
    ThreadingHTTPServer(("127.0.0.1", port), StandIn).serve_forever()


def leave_behind(record: Path, command: list[str], *, new_session: bool = True) -> None:
    """Start a process that outlives this one, and wait until it says that it runs."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=new_session)
    assert process.stdout
    process.stdout.readline()
    # By renaming, so that a test never reads an empty file.
    temporary = record.with_suffix(".tmp")
    temporary.write_text(str(process.pid))
    temporary.rename(record)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
