"""`make lab`: the laboratory for memories on the invented conversations, offline, ending in one report.

Three steps, each an ordinary command that is printed before it runs:

1. every memory that needs no further package, and the service of examples/memory-service, stores the three
   conversations. Searches after every 16 messages show how retrieval holds as evidence ages. Memories that call a model
   are built with a stand-in of ours on loopback, which copies from its prompts: their figures tell what building costs,
   not how good it is.
2. the embedded model answers the questions about one conversation from a few memories, and the offline judge judges.
3. `assay report` writes both runs to results/lab/report.html.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
DATA = "examples/memory/talks.json"
OUTPUT = Path("results/lab")
# Settings of one memory, simple memories, references, and the memories that call a model.
SEARCHED = [
    *("bm25,k=5", "bm25,k=10", "dense", "hybrid", "LTMemory", "STMemory", "FUMemory", "none", "oracle"),
    *("GAMemory", "MBMemory", "RFMemory", "SCMemory", "MTMemory", "MGMemory", "http"),
]
ANSWERED = ["none", "STMemory", "bm25", "hybrid", "oracle"]


def main() -> int:
    """Run the three steps. Returns the exit code of the first command that fails."""
    started = time.monotonic()
    model, url = start(ROOT / "tests" / "servers" / "memory_model.py")
    service, service_url = start(ROOT / "examples" / "memory-service" / "server.py", "--port", "0")
    try:
        code = assay(
            *("memory", "test", "--data", DATA, "--ask", "every:16", "--no-answer"),
            *("--memory", ",".join(SEARCHED), "--memory-args", f"url={service_url}"),
            *("--build-model", "openai/stand-in", "--base-url", url),
            *("--output-dir", str(OUTPUT / "searched")),
        )
    finally:
        for process in (model, service):
            process.terminate()
            process.wait()
    code = code or assay(
        *("memory", "test", "--data", DATA, "--task-id", "talk-02", "--ask", "at-end", "--top-k", "3"),
        *("--memory", ",".join(ANSWERED), "--model", "local/smollm2", "--judge", "offline"),
        *("--output-dir", str(OUTPUT / "answered")),
    )
    runs = [str(OUTPUT / name) for name in ("searched", "answered")]
    code = code or assay("report", *runs, "-o", str(OUTPUT / "report.html"))
    print(f"{(time.monotonic() - started) / 60:.1f} minutes")
    return code


def assay(*words: str) -> int:
    """Print a command of assay and run it."""
    print(f"\n$ assay {shlex.join(words)}", flush=True)
    return subprocess.run([sys.executable, "-m", "assay", *words], cwd=ROOT, check=False).returncode


def start(script: Path, *words: str) -> tuple[subprocess.Popen[str], str]:
    """Start a server on loopback. Returns it with its URL, which is the last word of its first line."""
    # The model serves until its standard input ends, so it cannot outlive this process.
    process = subprocess.Popen(
        [sys.executable, str(script), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().split()[-1]


if __name__ == "__main__":
    sys.exit(main())
