"""assay's own regular expressions: none takes much longer for each character of a long text."""

from __future__ import annotations

import ast
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from re import _constants as constants  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import FrameType
from typing import Any, NamedTuple

import pytest

import assay
from assay.suites.hop.metainfo import MAX_LINE

SOURCE = Path(assay.__file__).parent
METHODS = ("search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split")
# A first look at a short text finds what may be slow. Only a long text decides: a linear pattern takes about 5 ms of
# CPU time for it, one that looks at each pair of characters takes seconds, and no load of the machine changes that.
SHORT, SUSPICIOUS_SECONDS = 1_000, 0.001
LONG, MOST_SECONDS = 16_000, 0.15
# Characters that repeats are filled with, if they match them, and texts that make a match fail at the end.
FILLERS = " a1-_.,:*`|#(=\n\u4e00"
ENDS = ("\x00", "\n\x00")
# Files whose texts have a bound, or are typed by the user: a line of a contract, of `.env`, an argument of a command,
# the name of a file, the place at the end of an error.
LONGEST = {
    **dict.fromkeys(
        [
            f"suites/hop/{name}.py"
            for name in ("markdown", "metainfo", "metainfo_blocks", "field_items", "field_types")
        ],
        MAX_LINE,
    ),
    "core/envfile.py": 2_000,
    "store/gate.py": 2_000,
    "core/error_counts.py": 4_000,
    "suites/hop/analysis.py": 4_000,
    "suites/task/dataset/source.py": 255,
}


class OwnPattern(NamedTuple):
    """A pattern in the source, with the methods that are called on it."""

    where: str
    regex: re.Pattern[str]
    methods: tuple[str, ...]


def own_patterns() -> Iterator[OwnPattern]:
    """Yield every literal that is passed to a function of `re`."""
    sources = {path: path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}
    everything = "\n".join(sources.values())
    for path, source in sources.items():
        tree = ast.parse(source)
        names = {
            id(node.value): target.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name)
        }
        constants_ = text_constants(tree)
        for node in ast.walk(tree):
            function = node.func if isinstance(node, ast.Call) else None
            if not (
                isinstance(node, ast.Call)
                and node.args
                and isinstance(function, ast.Attribute)
                and isinstance(function.value, ast.Name)
                and function.value.id == "re"
                and function.attr in (*METHODS, "compile")
            ):
                continue
            text = text_of(node.args[0], constants_)
            if text is None:
                continue
            flags = flags_of(node)
            where = f"{path.relative_to(SOURCE)}:{node.lineno}"
            methods: tuple[str, ...] = (function.attr,)
            if function.attr == "compile":
                name = names.get(id(node), "")
                users = source if name.startswith("_") else everything
                used = re.findall(rf"\b{name}\.({'|'.join(METHODS)})\b", users) if name else []
                methods = tuple(dict.fromkeys(used)) or ("search",)
            yield OwnPattern(where, re.compile(text, flags), methods)


def text_constants(tree: ast.Module) -> dict[str, str]:
    """Return the texts that a module assigns to names, for patterns that are put together."""
    texts: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name):
            text = text_of(node.value, texts)
            if text is not None:
                texts[target.id] = text
    return texts


def text_of(node: ast.expr, texts: dict[str, str]) -> str | None:
    """Return the text of an expression: a literal, a name of one, or several of them put together."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        return texts.get(node.id)
    parts: list[str | None] = []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [text_of(node.left, texts), text_of(node.right, texts)]
    elif isinstance(node, ast.JoinedStr):
        parts = [text_of(value, texts) for value in node.values]
    elif isinstance(node, ast.FormattedValue):
        parts = [text_of(node.value, texts)]
    known = [part for part in parts if part is not None]
    return "".join(known) if parts and len(known) == len(parts) else None


def flags_of(call: ast.Call) -> int:
    """Return the flags of a call of `re`."""
    written = [ast.unparse(node) for node in (*call.args[1:], *(keyword.value for keyword in call.keywords))]
    names = re.findall(r"\bre\.([A-Z]+)\b", " ".join(written))
    return sum(getattr(re, name) for name in dict.fromkeys(names))


def texts_against(regex: re.Pattern[str], size: int) -> Iterator[str]:
    """Yield texts with a long run for each repeat of a pattern, behind a text that leads to it, and with a bad end."""
    seen: set[str] = set()
    for lead, body in repeats(parser.parse(regex.pattern, regex.flags), ""):
        fillers = [sample(body)]
        single = [one for one in FILLERS if len(body) == 1 and matches(body, one, regex.flags)]
        for filler in dict.fromkeys([*fillers, *single]):
            if not filler:
                continue
            run = filler * (size // len(filler))
            # Leads that occur again and again start many attempts: `<a<a<a`.
            runs = [lead + run, run, (lead + filler) * (size // len(lead + filler))]
            for text in runs:
                for end in ENDS:
                    if text + end not in seen:
                        seen.add(text + end)
                        yield text + end


def matches(body: Any, one: str, flags: int) -> bool:
    """Return whether a part of a pattern matches a character."""
    try:
        compiled = re._compiler.compile(body, flags & ~re.VERBOSE)  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - a part may refer to groups that it does not have
        return False
    return compiled.fullmatch(one) is not None


def repeats(tree: Any, lead: str) -> Iterator[tuple[str, Any]]:
    """Yield the body of every repeat without a small limit, with a text that matches what stands before it."""
    for kind, value in tree:
        if kind in (constants.MAX_REPEAT, constants.MIN_REPEAT):
            _, most, body = value
            if most >= 100:
                yield lead, body
            yield from repeats(body, lead)
        elif kind is constants.SUBPATTERN:
            yield from repeats(value[-1], lead)
        elif kind is constants.BRANCH:
            for branch in value[1]:
                yield from repeats(branch, lead)
        elif kind in (constants.ASSERT, constants.ASSERT_NOT):
            yield from repeats(value[1], lead)
        lead += sample([(kind, value)])


def sample(tree: Any) -> str:
    """Return a short text that the parts of a pattern match."""
    text = ""
    for kind, value in tree:
        if kind is constants.LITERAL:
            text += chr(value)
        elif kind is constants.NOT_LITERAL:
            text += next(one for one in "ax" if ord(one) != value)
        elif kind is constants.ANY:
            text += "a"
        elif kind is constants.IN:
            compiled = re._compiler.compile(parser.SubPattern(parser.State(), [(kind, value)]), 0)  # type: ignore[attr-defined]
            text += next((one for one in "a1 " + FILLERS if compiled.match(one)), first_in(value))
        elif kind in (constants.MAX_REPEAT, constants.MIN_REPEAT):
            least, _, body = value
            text += sample(body) * max(least, 1)
        elif kind is constants.SUBPATTERN:
            text += sample(value[-1])
        elif kind is constants.BRANCH:
            text += sample(value[1][0])
    return text


def first_in(items: Any) -> str:
    """Return the first character of a set."""
    for kind, value in items:
        if kind is constants.LITERAL:
            return chr(value)
        if kind is constants.RANGE:
            return chr(value[0])
    return ""


class TooSlow(Exception):
    """Raised by the timer inside a match."""


def seconds_of(regex: re.Pattern[str], method: str, text: str) -> float:
    """Return the CPU time of one call. A match that does not end is interrupted."""
    call = getattr(regex, method)
    started = time.thread_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, 4 * MOST_SECONDS)
    try:
        if method in ("sub", "subn"):
            call("", text)
        elif method == "finditer":
            sum(1 for _ in call(text))
        else:
            call(text)
    except TooSlow:
        pass
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return time.thread_time() - started


@pytest.fixture
def timer() -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    yield
    signal.signal(signal.SIGVTALRM, before)


def slow_text(pattern: OwnPattern) -> str:
    """Return the method and the beginning of a text for which a pattern is slow; empty if there is none."""
    longest = LONGEST.get(pattern.where.partition(":")[0], LONG)
    for method in pattern.methods:
        texts = (texts_against(pattern.regex, size) for size in (SHORT, longest))
        for short, long in zip(*texts, strict=True):
            if seconds_of(pattern.regex, method, short) < SUSPICIOUS_SECONDS:
                continue
            taken = min(seconds_of(pattern.regex, method, long) for _ in range(2))
            if taken > MOST_SECONDS:
                return f"{method} of {short[:12]!r}… {short[-3:]!r}: {taken:.1f} s"
    return ""


def test_the_scan_finds_patterns_that_explode(timer: None) -> None:
    for text in (r"(a+)+$", r"\s+$", r"\s*x?\s*y", r"<!--.*?-->", r"(\w+\s?)*:", r"a.*b.*c$"):
        assert slow_text(OwnPattern("", re.compile(text), ("search",))), text
    for text in (r"\d+", r"[^:]*:", r"^\s*(\w+):", r"(?<!a)a+b"):
        assert not slow_text(OwnPattern("", re.compile(text), ("search",))), text


def test_own_patterns_take_time_in_proportion_to_the_text(timer: None) -> None:
    """For texts that are made against each of their repeats."""
    patterns = list(own_patterns())
    assert len(patterns) > 200
    slow = [
        f"{each.where} {each.regex.pattern!r}: {found}" for each in patterns if (found := slow_text(each))
    ]
    assert slow == []
