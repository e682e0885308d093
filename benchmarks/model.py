"""The model of the million: answers in process, and tells how much CPU was spent before its first call.

`BENCH_FIRST` names a file for that figure; `BENCH_KILL` is the call at which the process is killed, as by a
power cut, so that every run is cut at the same place.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

_calls = 0
_kill_at = int(os.environ.get("BENCH_KILL", "0"))


async def answer(prompt: str, _params: dict[str, Any]) -> str:
    """Right for four of five."""
    global _calls  # noqa: PLW0603 - the process's own count
    _calls += 1
    if _calls == 1:
        _note_first()
    if _calls == _kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(0)  # let the other open cases have their turn, as any real model does
    number = int(prompt[1 : prompt.index(":")])
    right = (number * 7919 + 13) % 1000
    return str(right if number % 5 else (right + 1) % 1000)


def _note_first() -> None:
    if "BENCH_FIRST" in os.environ:
        Path(os.environ["BENCH_FIRST"]).write_text(str(time.process_time()), encoding="utf-8")
