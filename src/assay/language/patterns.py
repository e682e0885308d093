"""Regular expressions from files of users: Python's `re` with a time limit.

    pattern = compile_pattern(r"#### (\\d+)")
    pattern.findall(reply)                               # as re.Pattern.findall
    value = await call_without_blocking(parse, reply)    # where an event loop runs: it goes on during a slow match

A pattern such as `(a+)+$` takes longer than anyone can wait for some texts, and `re` blocks everything else while it
matches. So a pattern gets 10 to 20 ms of CPU time in place. What takes longer runs again in another process, up to
a second of CPU time. After that the match raises `PatternStopped`. A result is always that of `re`.

In place, a timer of the process's CPU time interrupts the match: `re` looks for signals while it matches. This needs
the main thread and a SIGVTALRM that no other code uses. Without these all patterns run in the other process, except
those that cannot be slow. Long texts and long patterns run there in any case, because `re` does not look for signals
everywhere.
"""

from __future__ import annotations

import atexit
import os
import pickle
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import lru_cache, partial
from pathlib import Path
from threading import get_ident
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from assay.core.errors import AssayError, UsageError
from assay.core.threads import DaemonPool
from assay.files.excerpt import cut_end
from assay.language import pattern_worker

if TYPE_CHECKING:
    from subprocess import Popen

T = TypeVar("T")

VARIABLE = "ASSAY_PATTERN_SECONDS"
"""Environment variable with the CPU time that one match may take in the other process."""
_LIMIT_SECONDS = 1.0
"""Its default. While rows are read, a match blocks Ctrl-C for this time."""
_WALL_FACTOR = 5.0
"""Limit of the real time, in times of the CPU time, for a machine so busy that the process gets little CPU time."""
_LEAST_WALL_SECONDS = 5.0
"""A busy machine must not stop a quick match, however small the limit is."""
_TICK_SECONDS = 0.01
"""Interval of the timer. A match that sees two ticks is interrupted."""
_IDLE_TICKS = 20
"""The timer is switched off after this many ticks without a match."""
MAX_IN_PLACE = 10_000
"""Characters of a text that is searched in place. `re` looks for signals inside one attempt to match, and not between
the attempts at each position of the text. So `a+b` on 100,000 times "a" would block for half a second."""
_STOPPED_SECONDS = 100.0
"""A run stops after a pattern has spent this time on stopped matches. Otherwise 10,000 texts on which it explodes would
take 10,000 seconds. Each match gets its full time, so that scores do not depend on the order of cases."""
MIN_STOPS = 20
"""No run stops after fewer stopped texts, however long the limit is."""
_MAX_REMEMBERED = 10_000
"""Matches that are known to be too slow. The same match is not tried again."""
_MAX_IN_PLACE_PATTERN = 2_000
"""Characters of a pattern that is matched in place. `re` looks for no signals while it goes through alternatives."""
_MAX_HIGH = 16
"""Characters above U+FFFF of a pattern that is matched in place. A set finds all others in a table. These it compares
one after the other, and looks for no signals meanwhile."""
_QUICK_SECONDS = 0.01
"""A pattern whose last match in the other process took less is tried in place again."""
_MAX_QUOTE = 100

_MAIN_THREAD = threading.main_thread().ident
# Without repeats, a pattern tries at most two ways for each optional part and alternative.
_REPEATS = re.compile(r"[*+{]")
_HIGH = re.compile("[\U00010000-\U0010ffff]|" r"\\[UN]")
_MAX_CHOICES = 6


_ADVICE = (
    "Patterns with a repeat inside a repeat, as (a+)+, or with several repeats of the same characters, as .*.*, take "
    "very long on some texts: write each text in one way only, as a+"
)


class PatternStopped(AssayError):
    """A match took longer than its time limit. It has no result, neither a match nor "no match"."""

    def __init__(self, pattern: str, length: int, seconds: float, where: str = "") -> None:
        self.pattern, self.length, self.seconds, self.where = pattern, length, seconds, where
        super().__init__(
            f"{where + ': ' if where else ''}the pattern {_quote(pattern)} was stopped after {seconds:g} s, "
            f"on a text of {length:,} characters. {_ADVICE}"
        )

    def at(self, where: str) -> PatternStopped:
        """Return the same error with the place of the pattern: `tasks/sums.yaml:12 filter_list[0].filter[0]`."""
        return PatternStopped(self.pattern, self.length, self.seconds, where)


class PatternMatch(NamedTuple):
    """A match, with the methods of `re.Match` that assay uses. A match of the other process has no `re.Match`."""

    text: str
    spans: tuple[tuple[int, int], ...]
    names: dict[str, int]

    def group(self, group: int | str = 0) -> str | None:
        """Return the text of a group; None if it did not take part in the match. 0 is the whole match."""
        start, end = self.spans[self.names[group] if isinstance(group, str) else group]
        return None if start < 0 else self.text[start:end]

    def groups(self) -> tuple[str | None, ...]:
        """Return the texts of all groups."""
        return tuple(self.group(number) for number in range(1, len(self.spans)))

    def groupdict(self) -> dict[str, str | None]:
        """Return the texts of the named groups."""
        return {name: self.group(number) for name, number in self.names.items()}

    def span(self, group: int | str = 0) -> tuple[int, int]:
        """Return start and end of a group; (-1, -1) if it did not take part in the match."""
        return self.spans[self.names[group] if isinstance(group, str) else group]


class _Request(NamedTuple):
    """One call of a method of `re.Pattern`."""

    pattern: str
    flags: int
    method: str
    args: tuple[Any, ...]


class SlowPattern(BaseException):
    """Inside `call_without_blocking`: this match must run in the other process.

    A BaseException, so that `except Exception` misses it.
    """

    def __init__(self, pattern: Pattern, request: _Request, length: int) -> None:
        super().__init__()
        self.pattern, self.request, self.length = pattern, request, length


class _OverBudget(BaseException):
    """The timer interrupted a match in place."""


_Outcome = tuple[Any, Exception | None]
# The matches that `call_without_blocking` has got from the other process. None outside of it.
_outcomes: ContextVar[dict[_Request, _Outcome] | None] = ContextVar("outcomes", default=None)


class Pattern:
    """A compiled regular expression. Its methods return what those of `re.Pattern` return, or raise PatternStopped.

    A match is a `PatternMatch`. Outside of `call_without_blocking`, a slow match blocks its thread until it is done or
    stopped.
    """

    __slots__ = ("_is_harmless", "_is_large", "_is_slow", "regex")

    def __init__(self, regex: re.Pattern[str]) -> None:
        self.regex = regex
        source = regex.pattern
        choices = source.count("?") + source.count("|")
        self._is_large = len(source) > _MAX_IN_PLACE_PATTERN or len(_HIGH.findall(source)) > _MAX_HIGH
        self._is_harmless = not (self._is_large or _REPEATS.search(source)) and choices <= _MAX_CHOICES
        self._is_slow = self._is_large

    def findall(self, text: str) -> list[Any]:
        """Return all matches: texts, or tuples of texts if the pattern has several groups."""
        found: list[Any] = self._run("findall", self.regex.findall, text, (text,))
        return found

    def sub(self, repl: str | Callable[[PatternMatch], str], text: str, count: int = 0) -> str:
        """Return the text with every match replaced. A text `repl` may refer to groups, as in `re.sub`."""
        if isinstance(repl, str):
            replaced: str = self._run("sub", self.regex.sub, text, (repl, text, count))
            return replaced
        pieces, end = [], 0
        for number, match in enumerate(self.finditer(text)):
            if count and number == count:
                break
            pieces += [text[end : match.spans[0][0]], repl(match)]
            end = match.spans[0][1]
        return "".join([*pieces, text[end:]])

    def split(self, text: str, maxsplit: int = 0) -> list[str | Any]:
        """Return the pieces of the text between the matches, and the groups of the matches."""
        pieces: list[str | Any] = self._run("split", self.regex.split, text, (text, maxsplit))
        return pieces

    def search(self, text: str) -> PatternMatch | None:
        """Return the first match."""
        return self._match("search", text)

    def match(self, text: str) -> PatternMatch | None:
        """Return the match at the beginning of the text."""
        return self._match("match", text)

    def fullmatch(self, text: str) -> PatternMatch | None:
        """Return the match of the whole text."""
        return self._match("fullmatch", text)

    def finditer(self, text: str) -> list[PatternMatch]:
        """Return all matches. Unlike that of `re`, this is a list."""
        names = dict(self.regex.groupindex)
        call = partial(pattern_worker.run_method, self.regex, "finditer")
        return [PatternMatch(text, spans, names) for spans in self._run("finditer", call, text, (text,))]

    def _match(self, method: str, text: str) -> PatternMatch | None:
        call = partial(pattern_worker.run_method, self.regex, method)
        spans = self._run(method, call, text, (text,))
        return None if spans is None else PatternMatch(text, spans, dict(self.regex.groupindex))

    def _run(self, method: str, call: Callable[..., Any], text: str, args: tuple[Any, ...]) -> Any:
        """Return `call(*args)`, computed here or by the same method in the other process."""
        if self._is_harmless:
            return call(*args)
        if (
            len(text) <= MAX_IN_PLACE
            and not self._is_slow
            and get_ident() == _MAIN_THREAD
            and (_timer.is_on or _timer.start())
        ):
            _timer.matches += 1
            _timer.is_matching = True
            try:
                return call(*args)
            except _OverBudget:
                self._is_slow = True
            finally:
                _timer.is_matching = False
        request = _Request(self.regex.pattern, self.regex.flags, method, args)
        outcomes = _outcomes.get()
        if outcomes is None:
            value, error = self.match_in(_own_process, request, len(text))
        elif request in outcomes:
            value, error = outcomes[request]
        else:
            raise SlowPattern(self, request, len(text))
        if error is not None:
            raise error
        return value

    def match_in(self, process: _PatternProcess, request: _Request, length: int) -> _Outcome:
        """Run a match in the other process. Returns its value or its exception, such as PatternStopped."""
        limit = limit_seconds()
        key = hash(request)
        stopped_after = _stopped_after.get(key, 0.0)
        if stopped_after < limit:
            try:
                value, error, seconds = process.run(request, limit)
            except _Killed as killed:
                stopped_after = limit
                _stops[self] += 1
                # On a machine that is less busy, the match may have a result.
                if killed.is_by_cpu_time:
                    if len(_stopped_after) >= _MAX_REMEMBERED:
                        _stopped_after.clear()
                    _stopped_after[key] = limit
            else:
                self._is_slow = self._is_large or seconds > _QUICK_SECONDS
                return value, error
        return None, PatternStopped(self.regex.pattern, length, stopped_after)


_stops: Counter[Pattern] = Counter()
"""The number of texts of this run on which a pattern was stopped."""
_stopped_after: dict[int, float] = {}
"""The limits, by the hash of the request, at which matches were stopped. A stopped match has no result whenever it is
tried with the same limit, so what was matched before makes no difference."""


def forget_stops() -> None:
    """Count the stops of all patterns from zero. Each run begins so, whatever ran before it in this process."""
    _stops.clear()


def reason_to_stop() -> str:
    """Return why the run should stop: a pattern was stopped on so many texts that the rest would take too long."""
    if not _stops:
        return ""
    ((pattern, count),) = _stops.most_common(1)
    limit = limit_seconds()
    if count < max(MIN_STOPS, _STOPPED_SECONDS / limit):
        return ""
    quote = _quote(pattern.regex.pattern)
    return (
        f"the pattern {quote} was stopped on {count:,} texts, after {limit:g} s each. {_ADVICE}. "
        f"Mend it: the replies are saved. Or give each match less time, as with {VARIABLE}={limit / 20:g}. Or run the "
        "same command again: it continues with the next texts"
    )


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str, flags: int = 0) -> Pattern:
    """Return the compiled pattern. Raises UsageError if it is not a regular expression."""
    try:
        return Pattern(re.compile(pattern, flags))
    except (re.error, TypeError, OverflowError, RecursionError) as error:
        raise UsageError(f"{pattern!r} is not a regular expression: {error}") from None


def _quote(pattern: str) -> str:
    return repr(cut_end(pattern, _MAX_QUOTE))


def limit_seconds() -> float:
    """Return the CPU time that one match may take. Raises UsageError if the environment variable is no number."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return _LIMIT_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.001 <= seconds <= 3600:
        raise UsageError(f"{VARIABLE}={text!r}: expected seconds between 0.001 and 3600")
    return seconds


def call_if_quick(function: Callable[..., T], *args: Any) -> T | None:
    """Return the result of a function whose patterns may be slow; None if one is slow.

    The function is then called again with `call_without_blocking`. Most functions need no coroutine for it.
    """
    token = _outcomes.set({})
    try:
        return function(*args)
    except SlowPattern:
        return None
    finally:
        _outcomes.reset(token)


async def call_without_blocking(function: Callable[..., T], *args: Any) -> T:
    """Return the result of a function whose patterns may be slow. The event loop runs on during a slow match.

    After each slow match the function is called again from its beginning, and then finds the result of that match. So
    it must do the same each time, and have no effect but its result.
    """
    outcomes: dict[_Request, _Outcome] = {}
    while True:
        token = _outcomes.set(outcomes)
        try:
            return function(*args)
        except SlowPattern as error:
            slow = error
        finally:
            _outcomes.reset(token)
        ask = partial(slow.pattern.match_in, _process_of_loops, slow.request, slow.length)
        outcomes[slow.request] = await _threads.run(ask)


# The timer that interrupts a match in place.


class _Timer:
    """A timer that runs while patterns are used. Starting one for every match would take longer than most matches."""

    def __init__(self) -> None:
        self.is_on = False
        self.is_matching = False
        self.matches = 0
        self._last_match = 0
        self._idle_ticks = 0

    def start(self) -> bool:
        """Start the timer. Returns False if matches cannot be interrupted. Only the main thread may call it."""
        if not hasattr(signal, "setitimer"):
            return False
        if signal.getsignal(signal.SIGVTALRM) == signal.SIG_DFL:
            signal.signal(signal.SIGVTALRM, self._tick)
            # System calls of C libraries that do not expect signals continue.
            signal.siginterrupt(signal.SIGVTALRM, False)  # noqa: FBT003
            # Python resets the handler before it exits. A signal after that would kill the process.
            atexit.register(signal.setitimer, signal.ITIMER_VIRTUAL, 0)
        if signal.getsignal(signal.SIGVTALRM) != self._tick or signal.getitimer(signal.ITIMER_VIRTUAL)[0]:
            return False
        signal.setitimer(signal.ITIMER_VIRTUAL, _TICK_SECONDS, _TICK_SECONDS)
        self.is_on, self._idle_ticks = True, 0
        return True

    def reset_after_fork(self) -> None:
        """Start again in a forked process, which has no timer."""
        self.is_on = self.is_matching = False

    def _tick(self, _number: int, frame: FrameType | None) -> None:
        if self._last_match != self.matches:
            self._last_match, self._idle_ticks = self.matches, 0
        elif self.is_matching:
            # The garbage collector may run a `__del__` inside the match, which would swallow the exception. The match
            # is interrupted by a later tick then.
            if frame is not None and (frame.f_globals is globals() or frame.f_globals is vars(pattern_worker)):
                self.is_matching = False
                raise _OverBudget
        else:
            self._idle_ticks += 1
            if self._idle_ticks > _IDLE_TICKS:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
                self.is_on = False


_timer = _Timer()


# The other process.


class _Killed(Exception):
    """The process was killed by its timer of CPU time, or by that of real time."""

    def __init__(self, *, is_by_cpu_time: bool) -> None:
        super().__init__()
        self.is_by_cpu_time = is_by_cpu_time


class _PatternProcess:
    """The process of `pattern_worker.py`. It starts with the first match, and again after a match was stopped."""

    def __init__(self) -> None:
        self._process: Popen[bytes] | None = None
        self._lock = threading.Lock()

    def run(self, request: _Request, limit: float) -> tuple[Any, Exception | None, float]:
        """Return the value, the exception and the CPU seconds of a match. Raises _Killed if it took too long."""
        message = pickle.dumps(((limit, max(limit * _WALL_FACTOR, _LEAST_WALL_SECONDS)), *request))
        with self._lock:
            for _ in range(2):
                process = self._process = self._process or _start_process()
                assert process.stdin is not None
                assert process.stdout is not None
                try:
                    process.stdin.write(message)
                    process.stdin.flush()
                    reply: tuple[Any, Exception | None, float] = pickle.load(process.stdout)  # noqa: S301
                except (OSError, EOFError, pickle.UnpicklingError):
                    # A process that something else has killed is replaced once.
                    code = self._end()
                    if code in (-signal.SIGVTALRM, -signal.SIGALRM):
                        raise _Killed(is_by_cpu_time=code == -signal.SIGVTALRM) from None
                except BaseException:
                    # Ctrl-C: the reply to this request would be taken for the reply to the next one.
                    process.kill()
                    self._end()
                    raise
                else:
                    return reply
        raise OSError("the process that matches slow patterns was killed twice")

    def close(self) -> None:
        """End the process, if there is one."""
        process = self._process
        if process is not None:
            process.kill()
            self._end()

    def reset_after_fork(self) -> None:
        """Start again in a forked process: the pipes belong to its parent."""
        self._process, self._lock = None, threading.Lock()

    def _end(self) -> int:
        """Wait for a process that has closed its pipe, and return its exit code."""
        process, self._process = self._process, None
        assert process is not None
        with suppress(OSError), process:  # closing the pipe writes what the process did not read
            process.wait()
        return process.returncode


def _start_process() -> Popen[bytes]:
    from subprocess import DEVNULL, PIPE, Popen

    return Popen(  # noqa: S603 - our own program
        [sys.executable, "-I", "-S", str(Path(pattern_worker.__file__))],
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        # Ctrl-C in a terminal reaches all processes of a session. This one ends with its parent.
        start_new_session=True,
    )


# Two, because rows are read in the thread of the event loop: a match there must not wait for those of all cases.
_own_process = _PatternProcess()
_process_of_loops = _PatternProcess()
_threads = DaemonPool(1, "assay-patterns")
atexit.register(_own_process.close)
atexit.register(_process_of_loops.close)


def _reset_after_fork() -> None:
    for each in (_timer, _own_process, _process_of_loops):
        each.reset_after_fork()


os.register_at_fork(after_in_child=_reset_after_fork)
