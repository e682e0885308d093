"""Patterns that take for ever, each with its text, and the process in which assay runs such a pattern."""

from __future__ import annotations

from pathlib import Path

# A prompt loses the spaces at its ends, so long spaces stand between letters.
A, X, SPACE, WORD = "a" * 40, "x" * 40, "x" + " " * 60_000 + "x", "word" * 20_000
EXPLODING = [
    (r"(a+)+$", A + "!"),
    (r"(a*)*$", A + "!"),
    (r"(a+)*$", A + "!"),
    (r"(a|a)+$", A + "!"),
    (r"(?:a|aa)+$", A * 2 + "!"),
    (r"(a|a?)+$", A + "!"),
    (r"(a?a?)+$", A + "!"),
    (r"([a-z]+)+$", A + "!"),
    (r"([a-zA-Z0-9]+\s?)+$", A + "!"),
    (r"(\w+\s?)*$", A + "!"),
    (r"(\w|\w\w)+$", A * 2 + "!"),
    (r"(.*a){20}$", A + "!"),
    (r"(.+)+x", A),
    (r"(x+x+)+y", X),
    (r"(x*)*y", X),
    (r"(x+)*y", X),
    (r"((x+)+)+y", X),
    (r"(?:(?:x+)+)+y", X),
    (r"(?i)(X+)+Y", X),
    (r"(?s)(.+)*\n", X),
    (r"(x{1,20}){1,20}y", X),
    (r"(?P<word>x+)+(?P<end>y)", X),
    (r"(x+?)+?y", X),
    (r"(?=(x+)+y)x", X),
    (r"(x|xx|xxx)+y", X * 2),
    (r"^(([a-z])+.)+[A-Z]([a-z])+$", A + "1"),
    (r"^(\d+)+$", "1" * 40 + "a"),
    (r"(\d+,?)+;", "1" * 40),
    (r"^([0-9]+|[0-9]+[0-9]+)*$", "1" * 40 + "a"),
    (r"([漢字]+)+。", "漢字" * 20),
    (r"(\(?\w+\)?)+\.", "(" + A),
    (r"^(?:\s*\w+\s*)+:$", A + " " + A),
    (r"(<[^>]*>|<.*>)*;", "<a>" * 40),
    (r"(\".*\"|'.*'|[^'\"]+)*;", A + '"'),
    (r"\s+$", SPACE),
    (r"\s*\s*\s*;", SPACE),
    (r"a+b", "a" * 100_000),
    (r"(.*)(.*)(.*)(.*)(.*)(.*)=", "a" * 3_000),
    (r"\w*\w*\w*\w*\w*!", "a" * 3_000),
    (r"[a-z]+[a-z]+[a-z]+\d", WORD),
]
"""Forty patterns, each with a text on which it takes from many seconds to longer than the universe is old."""


def worker_of(process: int) -> bool:
    """Whether a process has started another for a slow pattern, so that one runs."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            command = (status.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == process and b"pattern_worker.py" in command:
            return True
    return False
