"""Patterns from files return what `re` returns, in place and in the other process, and are stopped if they are slow."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop

from assay.core.errors import UsageError
from assay.language.patterns import (
    MAX_IN_PLACE,
    MIN_STOPS,
    PatternStopped,
    call_without_blocking,
    compile_pattern,
    forget_stops,
    reason_to_stop,
)
from assay.scoring.json_text import read_reply
from assay.scoring.offline.memories import find_contradiction
from assay.suites.toolkit.json_reply import NoJsonError, find_json

from support.commands import environment

PAIRS = 10_000
_LETTERS = "aabbc1 2.\né漢ﬁ_-A"
_ATOMS = [
    *"abc1 A",
    r"\d",
    r"\w",
    r"\s",
    r"\W",
    ".",
    "[ab]",
    "[^a]",
    "[a-c1]",
    r"\.",
    r"\b",
    "é",
    "漢",
    "[^\\W_]",
]
_ENDS = ["", "", "", "?", "*", "+", "{1,3}", "*?", "+?", "??", "{2}"]
_FLAGS = [0, 0, 0, re.IGNORECASE, re.DOTALL, re.MULTILINE, re.ASCII, re.IGNORECASE | re.ASCII, re.VERBOSE]


@pytest.fixture(autouse=True)
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop slow matches soon, as people may set it."""
    monkeypatch.setenv("ASSAY_PATTERN_SECONDS", "0.02")


@pytest.fixture(scope="module")
def thread() -> Iterator[Callable[..., Any]]:
    """Call a function in a thread: there, all patterns that could be slow run in the other process."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda function, *args: pool.submit(function, *args).result()


def some_pattern(rng: random.Random) -> str:
    """A pattern of a few parts, whose repeats are not inside each other."""
    parts: list[str] = []
    for _ in range(rng.randint(1, 4)):
        part = rng.choice(_ATOMS)
        kind = rng.random()
        if kind < 0.15:
            part = f"({part}|{rng.choice(_ATOMS)})"
        elif kind < 0.3:
            part = f"({part}{rng.choice(_ATOMS)})"
        elif kind < 0.36:
            part = f"(?P<g{len(parts)}>{part})"
        elif kind < 0.42:
            parts.append(f"(?{rng.choice(['=', '!', '<=', '<!', ':', 'i:'])}{part})")
            continue
        parts.append(part + (rng.choice(_ENDS) if len(part) > 1 or rng.random() < 0.5 else ""))
    text = "".join(parts)
    if "(" in text and rng.random() < 0.1:
        text += r"\1"
    return rng.choice(["", "", "", "^", "|"]) + text + rng.choice(["", "", "$", r"\Z"])


def pairs(count: int) -> Iterator[tuple[str, int, str]]:
    """Patterns with flags and texts; the same each time."""
    rng = random.Random(17)
    while count:
        pattern, flags = some_pattern(rng), rng.choice(_FLAGS)
        try:
            re.compile(pattern, flags)
        except re.error:  # such as \1 without a group
            continue
        yield pattern, flags, "".join(rng.choices(_LETTERS, k=rng.randint(0, 24)))
        count -= 1


def spans(match: Any) -> Any:
    """What a match found, of `re` or of ours."""
    if match is None:
        return None
    return match.span(), match.group(), match.groups(), match.groupdict()


METHODS: dict[str, Callable[[Any, str], Any]] = {
    "findall": lambda pattern, text: pattern.findall(text),
    "sub": lambda pattern, text: pattern.sub(r"<\g<0>>", text),
    "sub twice": lambda pattern, text: pattern.sub("-", text, 2),
    "sub by function": lambda pattern, text: pattern.sub(lambda match: f"[{match.group()}]", text, 3),
    "search": lambda pattern, text: spans(pattern.search(text)),
    "match": lambda pattern, text: spans(pattern.match(text)),
    "fullmatch": lambda pattern, text: spans(pattern.fullmatch(text)),
    "split": lambda pattern, text: pattern.split(text),
    "split once": lambda pattern, text: pattern.split(text, 1),
    "finditer": lambda pattern, text: [spans(match) for match in pattern.finditer(text)],
}


def run_program(
    program: str, seconds: str = "0.2", before: Callable[[], object] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program with this limit for patterns. A match that is never stopped is a failure."""
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment() | {"ASSAY_PATTERN_SECONDS": seconds},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=before,
    )


def test_harmless_patterns_return_in_place_what_re_returns() -> None:
    """Every method, for 10,000 pairs of pattern and text."""
    for pattern, flags, text in pairs(PAIRS):
        ours, theirs = compile_pattern(pattern, flags), re.compile(pattern, flags)
        for name, call in METHODS.items():
            assert call(ours, text) == call(theirs, text), (name, pattern, flags, text)


def test_harmless_patterns_return_in_the_other_process_what_re_returns(
    thread: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One method for each of the 10,000 pairs, in turn."""
    monkeypatch.delenv("ASSAY_PATTERN_SECONDS")

    def compare() -> None:
        for number, (pattern, flags, text) in enumerate(pairs(PAIRS)):
            name, call = list(METHODS.items())[number % len(METHODS)]
            result = call(compile_pattern(pattern, flags), text)
            assert result == call(re.compile(pattern, flags), text), (name, pattern, flags, text)

    thread(compare)


def test_errors_of_re_are_raised_from_the_other_process_too(thread: Callable[..., Any]) -> None:
    pattern = compile_pattern("(a+)b")
    for call in (pattern.sub, lambda *args: thread(pattern.sub, *args)):
        with pytest.raises(re.error, match="invalid group reference 7"):
            call(r"\7", "aab")


def test_a_text_that_is_no_unicode_reaches_the_other_process(thread: Callable[..., Any]) -> None:
    assert thread(compile_pattern("a+(.)").findall, "xaa\ud800") == ["\ud800"]


def test_a_long_text_is_searched_without_blocking_for_long() -> None:
    """`re` cannot be interrupted on such texts, so they go to the other process at once."""
    with pytest.raises(PatternStopped, match="on a text of 1,000,000 characters"):
        compile_pattern("a+b").findall("a" * 1_000_000)
    text = "word 12, " * MAX_IN_PLACE
    assert compile_pattern(r"(\d+),").findall(text) == ["12"] * MAX_IN_PLACE


def test_a_stopped_pattern_is_tried_again_for_other_texts() -> None:
    pattern = compile_pattern("(c+)+$")
    for _ in range(3):
        with pytest.raises(PatternStopped, match=r"the pattern '\(c\+\)\+\$' was stopped after 0.02 s"):
            pattern.search("c" * 40 + "!")
        assert pattern.findall("ccc") == ["ccc"]


def test_a_match_gets_its_full_time_however_many_were_stopped_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the order of the cases would decide which of them have a result."""
    monkeypatch.setenv("ASSAY_PATTERN_SECONDS", "0.03")
    pattern = compile_pattern("(d+)+$")
    forget_stops()
    for number in range(MIN_STOPS + 5):
        with pytest.raises(PatternStopped, match=r"was stopped after 0\.03 s, on a text") as stopped:
            pattern.search("d" * (40 + number) + "!")
    assert str(stopped.value.at("t.yaml:1")) == f"t.yaml:1: {stopped.value}"
    assert pattern.findall("dd") == ["dd"]


def test_after_many_stops_there_is_a_reason_to_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the time for them allows: 20 with 5 s, 100 with 1 s."""
    pattern = compile_pattern("(e+)+$")
    forget_stops()
    for number in range(MIN_STOPS):
        assert reason_to_stop() == ""
        for _ in range(2):  # the same text counts once
            with pytest.raises(PatternStopped):
                pattern.search("e" * (40 + number) + "!")
    assert reason_to_stop() == ""
    monkeypatch.setenv("ASSAY_PATTERN_SECONDS", "5")
    assert "the pattern '(e+)+$' was stopped on 20 texts, after 5 s each" in reason_to_stop()
    assert "ASSAY_PATTERN_SECONDS=0.25" in reason_to_stop()
    forget_stops()
    assert reason_to_stop() == ""


def test_a_match_that_was_stopped_is_tried_again_only_with_more_time(
    thread: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stop kills the other process, so that one which goes on shows that there was no second try."""
    pattern, text = compile_pattern("(k+)+$"), "k" * 20 + "!"
    monkeypatch.setenv("ASSAY_PATTERN_SECONDS", "0.001")
    with pytest.raises(PatternStopped):
        thread(pattern.search, text)
    monkeypatch.setenv("ASSAY_PATTERN_SECONDS", "60")
    assert thread(pattern.findall, "kk") == ["kk"]
    before = workers_of(os.getpid())
    monkeypatch.setenv("ASSAY_PATTERN_SECONDS", "0.001")
    for _ in range(3):
        with pytest.raises(PatternStopped, match=r"was stopped after 0\.001 s, on a text of 21 characters"):
            thread(pattern.search, text)
    assert workers_of(os.getpid()) == before
    monkeypatch.setenv("ASSAY_PATTERN_SECONDS", "60")
    assert thread(pattern.search, text) is None


RARE = [chr(number) for number in range(0x10000, 0x1A000, 2)]
COMMON = [chr(number) for number in range(0x4E00, 0x8000)]
DEAF = {
    "set": ("[" + "".join(RARE) + "]", "\U0010ffff", RARE[7]),
    "escaped set": ("[" + "".join(f"\\U{ord(rare):08x}" for rare in RARE) + "]", "\U0010ffff", RARE[7]),
    "repeated set": ("[" + "".join(RARE) + "]+x", "\U0010ffff", RARE[7] + "x"),
    "alternatives": ("7(?:" + "|".join(f"{common}x+" for common in COMMON) + ")", "7", f"7{COMMON[7]}x"),
}
"""Patterns, a character on which each is slow, and a match. `re` compares rare characters and alternatives one after the
other, and hears no signal meanwhile."""


@pytest.mark.parametrize("name", DEAF)
def test_a_pattern_that_hears_no_signals_is_matched_in_the_other_process(name: str) -> None:
    """It would block this one: nearly none of the CPU time of `re` is spent here."""
    source, character, match = DEAF[name]
    text = character * MAX_IN_PLACE
    pattern, begun = compile_pattern(source), time.process_time()
    with pytest.raises(PatternStopped):
        pattern.findall(text)
    assert pattern.findall(f"a{match}") == [match]
    here, begun = time.process_time() - begun, time.process_time()
    pattern.regex.findall(text)
    assert here < (time.process_time() - begun) / 3


def test_a_long_text_is_matched_in_the_other_process() -> None:
    """`re` would hear no signal for some seconds. A text of a fifteenth of its length takes much less of its CPU time."""
    pattern = compile_pattern("r+s")
    begun = time.process_time()
    with pytest.raises(PatternStopped):
        pattern.findall("r" * 30 * MAX_IN_PLACE)
    here, begun = time.process_time() - begun, time.process_time()
    pattern.regex.findall("r" * 2 * MAX_IN_PLACE)
    assert here < time.process_time() - begun


def cpu_seconds_of_workers() -> dict[int, float]:
    """The CPU time of the processes that match slow patterns for this one."""
    found = {}
    for worker in workers_of(os.getpid()):
        with suppress(OSError):  # it has ended meanwhile
            fields = Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()
            found[worker] = int(fields[11]) / os.sysconf("SC_CLK_TCK")
    return found


def worker_in_a_match(before: dict[int, float]) -> int:
    """Wait until one of these processes computes, and return its number. `before` is their CPU time before the match."""
    while True:
        for worker, seconds in cpu_seconds_of_workers().items():
            if seconds > before.get(worker, 0.0) + 0.1:
                return worker
        time.sleep(0.01)


def test_a_match_whose_process_is_killed_once_gets_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the kernel, when memory is short. A new process tries again."""
    monkeypatch.setenv("ASSAY_PATTERN_SECONDS", "60")
    pattern, before = compile_pattern("(n+)+$"), cpu_seconds_of_workers()
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(pattern.findall, "n" * 24 + "!")
        os.kill(worker_in_a_match(before), signal.SIGKILL)
        assert result.result() == []


def test_a_process_that_gets_no_cpu_time_is_given_up_and_its_match_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit of the real time ends it. On a machine that is less busy, the same match may have a result."""
    monkeypatch.setenv("ASSAY_PATTERN_SECONDS", "1")
    pattern, text, before = compile_pattern("(o+)+$"), "o" * 40 + "!", cpu_seconds_of_workers()
    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(pattern.findall, text)
        worker = worker_in_a_match(before)
        os.kill(worker, signal.SIGSTOP)
        time.sleep(5)  # the least limit of the real time
        os.kill(worker, signal.SIGCONT)
        with pytest.raises(PatternStopped, match="was stopped after 1 s"):
            stopped.result()
        monkeypatch.setenv("ASSAY_PATTERN_SECONDS", "0.01")
        with pytest.raises(PatternStopped, match=r"was stopped after 0\.01 s"):
            pool.submit(pattern.findall, text).result()


def test_after_ctrl_c_during_a_match_the_next_one_gets_its_own_result() -> None:
    """The process of the match that was left is ended. Its reply would be taken for that of the next match."""
    program = """if True:
        from assay.language.patterns import MAX_IN_PLACE, compile_pattern
        try:
            compile_pattern("(a+)+$").findall("a" * 40 + "!")
        except KeyboardInterrupt:
            print(len(compile_pattern("b+").findall("ab" * MAX_IN_PLACE)))
    """
    limited = environment() | {"ASSAY_PATTERN_SECONDS": "120"}
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, env=limited, stdout=subprocess.PIPE, text=True) as process:
        try:
            while not workers_of(process.pid):
                assert process.poll() is None
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert out == f"{MAX_IN_PLACE}\n"


def test_a_match_is_interrupted_although_garbage_is_collected_inside_it() -> None:
    """A `__del__` swallows exceptions. It must not swallow the one that interrupts the match."""
    program = """if True:
        import gc, time
        from assay.language.patterns import PatternStopped, compile_pattern

        class Slow:
            def __init__(self):
                self.me = self
            def __del__(self):
                until = time.process_time() + 0.1
                while time.process_time() < until:
                    pass

        pattern = compile_pattern("(a)(b)|(c+)+$")
        pattern.findall("ab")
        gc.disable()
        Slow()
        gc.set_threshold(5)
        gc.enable()
        try:
            # The tuples of the first matches start the collection. The rest would take for ever.
            pattern.findall("ab" * 50 + "c" * 60 + "!")
        except PatternStopped:
            print("stopped", gc.get_stats()[0]["collections"] > 0)
    """
    done = run_program(program)
    assert (done.stdout, done.stderr) == ("stopped True\n", "")


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_the_event_loop_runs_while_a_slow_pattern_does(
    new_loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The match is ended by what the loop does meanwhile: nothing else would end it in an hour."""
    monkeypatch.setenv("ASSAY_PATTERN_SECONDS", "3600")
    pattern = compile_pattern("(e+)+$")

    async def main() -> None:
        assert await call_without_blocking(pattern.findall, "e" * 60) == ["e" * 60]
        slow = asyncio.create_task(call_without_blocking(pattern.findall, "e" * 60 + "!"))
        # A process that something else has killed is started again once.
        while not slow.done():
            for worker in workers_of(os.getpid()):
                os.kill(worker, signal.SIGKILL)
            await asyncio.sleep(0.01)
        with pytest.raises(OSError, match="was killed twice"):
            await slow

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def test_a_function_with_several_slow_matches_gets_all_of_them() -> None:
    """It is called again after each of them, in the thread of the loop."""
    pattern, threads = compile_pattern("(f+)+$"), set()

    def values(texts: list[str]) -> list[Any]:
        threads.add(threading.current_thread())
        found: list[Any] = []
        for text in texts:
            try:
                found.append(pattern.findall(text))
            except PatternStopped as error:
                found.append(error.length)
        return found

    texts = ["f" * 40 + "!", "ff", "f" * 50 + "!", "x" * (MAX_IN_PLACE + 1)]
    assert asyncio.run(call_without_blocking(values, texts)) == [41, ["ff"], 51, []]
    assert threads == {threading.main_thread()}


def test_many_cases_with_slow_and_quick_texts_all_get_their_own_result() -> None:
    """Interrupted matches of one case never end those of another."""
    pattern = compile_pattern(r"(g+)+$|(\d+)")

    async def case(number: int) -> bool:
        if number % 25 == 0:
            with pytest.raises(PatternStopped):
                await call_without_blocking(pattern.findall, "g" * 40 + "!")
        found = await call_without_blocking(lambda: [pattern.findall(f"{number} of {size}") for size in range(20)])
        return found == [[("", str(number)), ("", str(size))] for size in range(20)]

    async def main() -> list[bool]:
        return list(await asyncio.gather(*(case(number) for number in range(200))))

    assert all(asyncio.run(main()))


def test_a_taken_signal_sends_patterns_to_the_other_process() -> None:
    """A program that uses SIGVTALRM itself keeps it."""
    program = """if True:
        import signal, os
        heard = []
        signal.signal(signal.SIGVTALRM, lambda *_: heard.append(1))
        from assay.language.patterns import PatternStopped, compile_pattern
        assert compile_pattern("(a+)b").findall("aab") == ["aa"]
        try:
            compile_pattern("(a+)+$").findall("a" * 40 + "!")
        except PatternStopped as error:
            print(error)
        os.kill(os.getpid(), signal.SIGVTALRM)
        assert heard == [1]
    """
    done = run_program(program)
    assert done.returncode == 0, done.stderr
    assert "was stopped after" in done.stdout


def test_a_forked_process_has_a_timer_and_a_process_of_its_own() -> None:
    """The timer is not inherited. A stop in the copy would kill the process of its parent."""
    program = """if True:
        import os
        from pathlib import Path
        from assay.language.patterns import PatternStopped, compile_pattern

        def stopped(letter):
            try:
                compile_pattern(f"({letter}+)+$").findall(letter * 40 + "!")
            except PatternStopped:
                return compile_pattern(f"({letter}+)+$").findall(letter) == [letter]

        def workers():
            children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
            # One that was killed has no command any more.
            return [child for child in children if Path(f"/proc/{child}/cmdline").read_bytes()]

        assert stopped("a")
        before = workers()
        assert len(before) == 1
        child = os.fork()
        if child == 0:
            os._exit(0 if stopped("a") and stopped("b") else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert workers() == before
        assert stopped("c")
    """
    done = run_program(program)
    assert (done.returncode, done.stderr) == (0, "")


def ignore_timers() -> None:
    for number in (signal.SIGVTALRM, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)


def test_a_program_that_was_started_with_ignored_timers_stops_its_patterns() -> None:
    """Ignored signals are inherited by every process that a process starts."""
    program = """if True:
        from assay.language.patterns import PatternStopped, compile_pattern
        try:
            compile_pattern("(a+)+$").findall("a" * 40 + "!")
        except PatternStopped as error:
            print(error)
    """
    done = run_program(program, before=ignore_timers)
    assert done.stderr == ""
    assert "was stopped after 0.2 s" in done.stdout


def test_ctrl_c_in_a_terminal_does_not_reach_the_other_process(thread: Callable[..., Any]) -> None:
    """It is sent to all processes of a session. The run decides whether the match goes on."""
    assert thread(compile_pattern("(q+)+$").findall, "q") == ["q"]
    workers = workers_of(os.getpid())
    assert workers
    assert [os.getsid(worker) for worker in workers] == workers


def test_the_other_process_ends_after_its_parent_is_killed() -> None:
    """Kill -9 during a match: the kernel's timer ends the worker."""
    program = """if True:
        from assay.language.patterns import compile_pattern
        compile_pattern("(a+)+$").findall("a" * 40 + "!")
    """
    limited = environment() | {"ASSAY_PATTERN_SECONDS": "0.5"}
    with subprocess.Popen([sys.executable, "-c", program], env=limited) as process:
        try:
            while not (workers := workers_of(process.pid)):
                assert process.poll() is None
                time.sleep(0.01)
        finally:
            process.kill()
    while is_worker(workers[0]):
        time.sleep(0.01)


def test_a_wrong_limit_is_refused_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_PATTERN_SECONDS", "soon")
    with pytest.raises(UsageError, match="ASSAY_PATTERN_SECONDS='soon': expected seconds between"):
        compile_pattern("(h+)+$").findall("h" * 40 + "!")


def test_own_patterns_read_hostile_texts_in_one_pass() -> None:
    """Each of these took hours when a pattern of assay began again at every character."""
    with pytest.raises(NoJsonError):
        find_json("```" + "\n" * 300_000)
    with pytest.raises(ValueError, match="the reply ends in the middle"):
        read_reply("{" + '"\\' * 300_000)
    assert not find_contradiction("Ann has a dog.", "." * 100_000 + "x")


def is_worker(process: int) -> bool:
    """Whether this is a process that matches slow patterns."""
    try:
        return b"pattern_worker.py" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def workers_of(process: int) -> list[int]:
    """The processes that match slow patterns for a process."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == process and is_worker(int(status.parent.name)):
            found.append(int(status.parent.name))
    return found
