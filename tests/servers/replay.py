"""Serves recorded requests: the n-th time a prompt is asked it gives the n-th recorded reply."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from servers.loopback import LoopbackServer


class ReplayServer(LoopbackServer):
    """A server over a `requests.jsonl`; the `skip` first replies to every prompt are left out."""

    def __init__(self, recorded: Path, skip: int = 0) -> None:
        super().__init__(self._answer)
        self._replies: dict[str, list[Any]] = defaultdict(list)
        self._counts: dict[str, int] = defaultdict(lambda: skip)
        for line in recorded.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            self._replies[_asked(entry["body"])].append(entry["out"])

    def _answer(self, body: dict[str, Any]) -> tuple[int, Any]:
        asked = _asked(body)
        count = self._counts[asked]
        self._counts[asked] += 1
        return 200, self._replies[asked][count]


def _asked(body: dict[str, Any]) -> str:
    return json.dumps(body.get("messages") or body["prompt"])
