"""The process in which the user's own code runs. It is started as a file and imports nothing of ours.

Requests and replies are JSON lines on copies of its first pipes. What the code itself knows as stdin,
stdout and stderr leads nowhere, so no print can be taken for a reply.
"""

from __future__ import annotations

import importlib
import inspect
import io
import json
import os
import select
import signal
import sys
import threading
import types
from collections.abc import Callable, Collection, Iterable
from typing import Any, BinaryIO, NamedTuple

ENTRIES = ("aggregate", "transform", "process_data", "main", "execute")
MAX_PRINTED = 2_000
MAX_RESULT = 100_000_000
_MODULE = "assay_code"
_compiled: dict[tuple[str, str], types.CodeType] = {}


class Parameter(NamedTuple):
    """A parameter that can be given by name."""

    name: str
    needed: bool


class _Problem(Exception):
    """Ends one request: kind and message."""


class _Tail(io.RawIOBase):
    """A stream that forgets all but its end."""

    def __init__(self) -> None:
        self.kept = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.kept = (self.kept + bytes(data[-4 * MAX_PRINTED :]))[-4 * MAX_PRINTED :]
        return len(data)

    def text(self) -> str:
        return self.kept.decode("utf-8", "replace")[-MAX_PRINTED:]


def by_name(parameters: Iterable[Parameter], inputs: Collection[str], *, rest: bool) -> list[str] | None:
    """The inputs that a function takes by name; None: it takes all of them as one dictionary.

    By name it is if everything the function needs is the name of an input. `rest` says that it takes any
    other name too (`**inputs`). A function without parameters gets nothing.
    """
    parameters = list(parameters)
    if not all(parameter.name in inputs for parameter in parameters if parameter.needed):
        return None
    if rest:
        return list(inputs)
    given = [parameter.name for parameter in parameters if parameter.name in inputs]
    return given if given or not parameters else None


def no_entry(name: str) -> str:
    """The message for code that defines none of the functions we look for."""
    return f"{name}: it defines no function to call; define one of {', '.join(ENTRIES)}"


def _call(function: Callable[..., Any], entry: str, argument: Any) -> Any:
    if entry == "aggregate" or not isinstance(argument, dict):
        return function(argument)
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return function(argument)
    if any(each.kind in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL) for each in found):
        return function(argument)
    rest = any(each.kind is each.VAR_KEYWORD for each in found)
    named = [each for each in found if each.kind is not each.VAR_KEYWORD]
    parameters = [Parameter(each.name, each.default is each.empty) for each in named]
    names = by_name(parameters, argument, rest=rest)
    return function(argument) if names is None else function(**{name: argument[name] for name in names})


def _result(source: str, name: str, argument: Any) -> Any:
    module = types.ModuleType(_MODULE)
    sys.modules[_MODULE] = module  # dataclasses and pickle look their module up
    exec(_code(source, name), module.__dict__)  # noqa: S102 - the user's own code is what runs here
    entry = next((each for each in ENTRIES if callable(getattr(module, each, None))), None)
    if entry is None:
        raise _Problem("no_entry", no_entry(name))
    result = _call(getattr(module, entry), entry, argument)
    return importlib.import_module("asyncio").run(result) if inspect.iscoroutine(result) else result


def _code(source: str, name: str) -> types.CodeType:
    """Compiled once, run in a fresh module on every call."""
    found = _compiled.get((source, name))
    if found is None:
        if len(_compiled) > 256:
            _compiled.clear()
        try:
            found = compile(source, name, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None)
            what = error.msg if isinstance(error, SyntaxError) else str(error) or "nested too deep"
            where = f"{name}, line {line}" if line else name
            raise _Problem("syntax", f"{where}: it is not Python: {what}") from None
        _compiled[source, name] = found
    return found


def _encoded(result: Any, name: str) -> bytes:
    try:
        text = json.dumps(result, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        where = _fault(result, "result", 0)
        raise _Problem("bad_result", f"{name}: {where or 'result'} is not JSON: {_line(error)}") from None
    if len(text) > MAX_RESULT:
        raise _Problem(
            "bad_result", f"{name}: the result has {len(text):,} bytes of JSON, at most {MAX_RESULT:,}"
        )
    return text


def _fault(value: Any, path: str, depth: int) -> str | None:
    """The path of the first value that JSON cannot hold."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        pairs: Any = ()
        if isinstance(value, dict):
            pairs = ((f"{path}[{key!r}]", inner) for key, inner in value.items())
        elif isinstance(value, (list, tuple)):
            pairs = ((f"{path}[{at}]", inner) for at, inner in enumerate(value))
        found = (_fault(inner, where, depth + 1) for where, inner in pairs) if depth < 20 else iter(())
        return next(filter(None, found), path)
    return None


def _answer(request: dict[str, Any]) -> bytes:
    source, name = request["source"], request["name"]
    tail = _Tail()
    sys.stdout = io.TextIOWrapper(tail, "utf-8", "replace", write_through=True)
    sys.stderr = io.TextIOWrapper(tail, "utf-8", "replace", write_through=True)
    try:
        return b'{"result":' + _encoded(_result(source, name, request["argument"]), name) + b"}"
    except _Problem as problem:
        kind, message = problem.args
    except BaseException as error:  # noqa: BLE001 - whatever the user's code raises, sys.exit too
        kind = "memory" if isinstance(error, MemoryError) else "raised"
        message = _raised(error, source, name) + printed(tail.text())
    return json.dumps({"kind": kind, "message": message}).encode()


def printed(text: str) -> str:
    """What is added to the message of code that raised."""
    return f"\nit printed: {text.rstrip()}" if text.strip() else ""


def _raised(error: BaseException, source: str, name: str) -> str:
    """Where in the code it was raised, or where the code was when something it called raised it."""
    lines = [(frame.filename, frame.lineno) for frame in _frames(error.__traceback__)]
    own = [line for filename, line in lines if filename == name and line]
    if not own:
        return f"{name}: calling it raised {_line(error)}"
    deepest, at = lines[-1]
    inside = "" if deepest == name else f" (in {os.path.basename(deepest)}:{at})"  # noqa: PTH119
    return f"{name}, line {own[-1]}: {_line(error)}{inside}{quoted(source, own[-1])}"


class _Frame(NamedTuple):
    filename: str
    lineno: int | None


def _frames(trace: types.TracebackType | None) -> Iterable[_Frame]:
    while trace is not None:
        yield _Frame(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next


def quoted(source: str, line: int) -> str:
    """The line itself, below its number."""
    lines = source.split("\n")
    return f"\n  {lines[line - 1].strip()[:200]}" if line <= len(lines) else ""


def _line(error: BaseException) -> str:
    """`ValueError: what it says`, on one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - the user's own __str__
        text = ""
    return f"{type(error).__name__}: {text[:500]}" if text else type(error).__name__


def _end_with_parent(pipe: int) -> None:
    """The parent's end of the pipe is closed when the parent ends, however it ends."""
    waiting = select.poll()
    waiting.register(pipe, 0)  # 0: its end only, not its data
    waiting.poll()
    os.killpg(0, signal.SIGKILL)  # this process, and those that the code started


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Our pipes on descriptors of their own, that no program started from here inherits."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    return requests, replies


def main() -> None:
    """Answers requests until the pipe ends. Its argument lists folders to import from; the first wins."""
    requests, replies = _take_pipes()
    first, *others = json.loads(sys.argv[1])
    sys.path[:0] = [first] if first else []
    sys.path.extend(folder for folder in others if folder not in sys.path)
    sys.argv[1:] = []
    threading.Thread(target=_end_with_parent, args=(requests.fileno(),), daemon=True).start()
    replies.write(b'{"ready":true}\n')
    replies.flush()
    own = os.getpid()
    for line in requests:
        answer = _answer(json.loads(line))
        if os.getpid() != own:
            break  # a fork that the code made and left running: its parent answers
        replies.write(answer + b"\n")
        replies.flush()
    os._exit(0)  # threads that the code left behind do not count


if __name__ == "__main__":
    main()
