"""Runs a command with all its children and says what the tree used: `python process_tree.py REPORT LIMIT CPU COMMAND…`.

It is a small process of its own for two reasons. A child's peak memory starts at its parent's, and only a parent that
adopts orphans (PR_SET_CHILD_SUBREAPER) gets the CPU time of processes whose own parent did not wait for them.
SIGTERM kills the whole tree with SIGKILL; so does the limit. No process of the command outlives this one.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_SUBREAPER = 36


def main() -> None:
    """Run the command; write CPU seconds, peak memory, wall seconds, exit code and the reason of the end."""
    report, limit, cpu, *command = sys.argv[1:]
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    os.sched_setaffinity(0, {int(number) for number in cpu.split(",")})
    reason = "ended"

    def end(signum: int, _frame: object) -> None:
        nonlocal reason
        reason = "killed" if signum == signal.SIGTERM else "limit"
        child.kill()  # at once; finding the others takes a while
        _kill_descendants()

    started = time.time()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGALRM, end)
    signal.alarm(int(limit))
    code, ended, seconds, kibibytes = 0, 0.0, 0.0, 0
    while True:
        try:
            pid, status, usage = os.wait4(-1, 0)
        except ChildProcessError:
            break
        seconds += usage.ru_utime + usage.ru_stime
        kibibytes = max(kibibytes, usage.ru_maxrss)
        if pid == child.pid:
            code, ended = os.waitstatus_to_exitcode(status), time.time()
            _kill_descendants()
    signal.alarm(0)
    found = {"started": started, "wall": ended - started, "cpu": seconds, "memory": kibibytes * 1024 / 1e6}
    Path(report).write_text(json.dumps(found | {"code": code, "reason": reason}), encoding="utf-8")


def _kill_descendants() -> None:
    """Kill every process below this one, until none is left to start another."""
    while found := _descendants():
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def _descendants() -> list[int]:
    """The living processes below this one."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # The name in parentheses may hold spaces. After it come the state and the parent.
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it ended just now
        if state != "Z":
            parents[int(folder.name)] = int(parent)
    return [pid for pid in parents if _is_below(pid, parents)]


def _is_below(pid: int, parents: dict[int, int]) -> bool:
    own = os.getpid()
    while pid := parents.get(pid, 0):
        if pid == own:
            return True
    return False


if __name__ == "__main__":
    main()
