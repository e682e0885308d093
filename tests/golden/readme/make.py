"""Records the replies that the test of the READMEs uses, from the log of a run with the embedded model.

    python tests/golden/readme/make.py results/assay/RUN/calls.jsonl tests/golden/readme/task.jsonl

Run it again if a prompt of the tour changes. The lines have the form of `calls.jsonl`, which a `script` model reads,
with only the fields that it needs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(log: Path, output: Path) -> None:
    """Write the prompt and the reply of every call."""
    lines = []
    for line in log.read_text().splitlines():
        call = json.loads(line)
        if call["type"] != "call":
            continue
        row = {"hash": call["hash"]}
        # Only the first of equal calls has the request.
        if "request" in call:
            row["request"] = {
                key: call["request"][key] for key in ("prompt", "messages") if key in call["request"]
            }
        row["response"] = {key: call["response"][key] for key in ("text", "finish", "usage")}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    output.write_text("".join(lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
