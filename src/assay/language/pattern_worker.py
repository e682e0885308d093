"""The process in which slow regular expressions run: `python pattern_worker.py`.

It reads pickled requests `(limits, pattern, flags, method, arguments)` from standard input and writes pickled replies
`(value, error, CPU seconds)` to standard output. It imports nothing of assay, so that it starts in 20 ms.

Python's `re` holds the interpreter's lock while it matches, so no thread of this process could end a match. The
kernel does it: a timer that runs out kills the process. This also ends a match whose parent was killed.
"""

from __future__ import annotations

import pickle
import re
import signal
import sys
import time
from typing import Any


def spans_of(match: re.Match[str] | None) -> tuple[tuple[int, int], ...] | None:
    """Return (start, end) of the match and of each of its groups. A group that did not take part has (-1, -1)."""
    return None if match is None else match.regs


def run_method(regex: re.Pattern[str], method: str, *args: Any) -> Any:
    """Call a method of the pattern. Matches are returned as spans, because a match object cannot be pickled."""
    if method == "finditer":
        return [spans_of(match) for match in regex.finditer(*args)]
    value = getattr(regex, method)(*args)
    return spans_of(value) if method in ("search", "match", "fullmatch") else value


def _outcome(regex: re.Pattern[str], method: str, args: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    try:
        return run_method(regex, method, *args), None
    except Exception as error:  # noqa: BLE001 - raised again in the parent, whatever it is
        return None, error


def main() -> None:
    """Handle requests until standard input is closed, which it is when the parent ends."""
    # A Python that is started by another may inherit that these are ignored. Then no timer would end it.
    for number in (signal.SIGVTALRM, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            (cpu_seconds, wall_seconds), pattern, flags, method, args = pickle.load(requests)  # noqa: S301 - of the parent
        except EOFError:
            return
        # Without limit, as in the parent: a long pattern takes longer to compile than to match.
        regex = re.compile(pattern, flags)
        # CPU time, so that a busy machine stops no pattern that an idle one lets through. The other timer is for a
        # process that gets no CPU at all.
        signal.setitimer(signal.ITIMER_VIRTUAL, cpu_seconds)
        signal.setitimer(signal.ITIMER_REAL, wall_seconds)
        started = time.process_time()
        outcome = _outcome(regex, method, args)
        seconds = time.process_time() - started
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        pickle.dump((*outcome, seconds), replies)
        replies.flush()


if __name__ == "__main__":
    main()
