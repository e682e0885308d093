"""The child process that runs the code of a pipeline file, and JavaScript of a testset.

It is started as a script (`python worker.py PATHS LANGUAGE`) and imports only the standard library, so it starts
fast and the code sees none of assay's modules. A process for JavaScript also imports `javascript_engine.py`, which
lies beside this file. It reads requests and writes replies as JSON lines. Both pipes are moved to new descriptors
first: stdin, stdout and stderr of the code lead to /dev/null, so printed text cannot be mistaken for a reply.

`sandbox.py` imports the helpers for entry functions and messages from here, so both runners behave alike.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import io
import json
import os
import resource
import select
import signal
import stat
import sys
import threading
import types
from collections.abc import Callable, Collection, Iterable
from typing import Any, BinaryIO, NamedTuple

# Names of entry functions. The first that the code defines is called.
ENTRIES = ("aggregate", "transform", "process_data", "main", "execute")
# Characters of printed text in the message of code that raised.
MAX_PRINTED = 2_000
# Characters of the text of an exception.
_MAX_TEXT = 500
# A message of an error: texts, and long texts with the number of characters that assay keeps of them, negative for
# those at the end. This process cuts nothing, because it knows no secrets: nothing would recognise half of one.
Message = list[str | tuple[str, int]]
# Bytes of JSON. assay holds the result in memory and writes it to the journal.
MAX_RESULT = 100_000_000
# Entries in the cache of compiled code. A pipeline has a few pieces of code; a testset may carry many.
_MAX_COMPILED = 256
# How deep the search for an invalid value in a result goes. A list can contain itself.
_MAX_SEARCH_DEPTH = 20
_MODULE = "assay_code"
_compiled: dict[tuple[str, str], types.CodeType] = {}


class Parameter(NamedTuple):
    """A parameter of an entry function that can be passed by name."""

    name: str
    required: bool


class _RequestError(Exception):
    """Ends a request. The arguments are kind and message of the CodeError."""

    def __init__(self, kind: str, message: str | Message) -> None:
        super().__init__(kind, [message] if isinstance(message, str) else message)


class _Tail(io.RawIOBase):
    """A stream that keeps only the last characters written to it, at least `max_chars`."""

    def __init__(self, max_chars: int) -> None:
        self._max_bytes = 4 * max_chars  # a character has up to four bytes in UTF-8
        self._data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._data = (self._data + bytes(data[-self._max_bytes :]))[-self._max_bytes :]
        return len(data)

    def text(self) -> str:
        return self._data.decode("utf-8", "replace")


def select_inputs(
    parameters: Iterable[Parameter], inputs: Collection[str], *, takes_any_name: bool
) -> list[str] | None:
    """Return the names of the inputs to pass by name, or None to pass all inputs as one dictionary.

    Inputs are passed by name if every required parameter is the name of an input. `takes_any_name` means
    that the function has `**kwargs`. A function without parameters gets no inputs.
    """
    parameters = list(parameters)
    if not all(parameter.name in inputs for parameter in parameters if parameter.required):
        return None
    if takes_any_name:
        return list(inputs)
    names = [parameter.name for parameter in parameters if parameter.name in inputs]
    # Only optional parameters, and no input has the name of one: `def main(data=None)` wants the dictionary.
    return names if names or not parameters else None


def place(name: str, line: int | None, file: str, first_line: int) -> str:
    """Return how messages name a line of the code. `file` is the file whose lines it has from `first_line` on."""
    if not line:
        return name
    return f"{file}:{first_line + line - 1}" if file else f"{name}, line {line}"


def no_entry_message(name: str) -> str:
    """Return the message for code without an entry function."""
    return f"{name}: it defines no function to call; define one of {', '.join(ENTRIES)}"


def _call_entry(function: Callable[..., Any], entry: str, argument: Any) -> Any:
    if entry == "aggregate" or not isinstance(argument, dict):
        return function(argument)
    try:
        signature = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some callables written in C have no signature
        return function(argument)
    if any(each.kind in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL) for each in signature):
        return function(argument)
    takes_any_name = any(each.kind is each.VAR_KEYWORD for each in signature)
    parameters = [
        Parameter(each.name, each.default is each.empty) for each in signature if each.kind is not each.VAR_KEYWORD
    ]
    names = select_inputs(parameters, argument, takes_any_name=takes_any_name)
    return function(argument) if names is None else function(**{name: argument[name] for name in names})


def _run_code(request: dict[str, Any]) -> Any:
    """Execute the code in a fresh module and return the value of its entry function."""
    name, argument = request["name"], request["argument"]
    module = types.ModuleType(_MODULE)
    sys.modules[_MODULE] = module  # dataclasses and pickle look up the module of a class by name
    if request["path"]:
        module.__file__ = request["path"]  # code in a file of its own may read files beside it
    exec(_compile(request), module.__dict__)  # noqa: S102 - the user's own code is what runs here
    entry = next((each for each in ENTRIES if callable(getattr(module, each, None))), None)
    if entry is None:
        raise _RequestError("no_entry", no_entry_message(name))
    result = _call_entry(getattr(module, entry), entry, argument)
    if inspect.iscoroutine(result):
        # Imported late: most code is not async, and asyncio would slow down the start of the process.
        return importlib.import_module("asyncio").run(result)
    return result


def _place(request: dict[str, Any], line: int | None) -> str:
    return place(request["name"], line, request["file"], request["first_line"])


def _compile(request: dict[str, Any]) -> types.CodeType:
    """Return the compiled code. Each process compiles a source once."""
    source, name = request["source"], request["name"]
    compiled = _compiled.get((source, name))
    if compiled is None:
        if len(_compiled) > _MAX_COMPILED:
            _compiled.clear()
        try:
            # dont_inherit: the code must not inherit the __future__ imports of this file.
            compiled = compile(source, name, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            reason = error.msg if isinstance(error, SyntaxError) else str(error) or "nested too deep"
            where = _place(request, error.lineno if isinstance(error, SyntaxError) else None)
            raise _RequestError("syntax", f"{where}: it is not Python: {reason}") from None
        _compiled[source, name] = compiled
    return compiled


def _encode_result(result: Any, name: str) -> bytes:
    try:
        text = json.dumps(result, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        path = _find_invalid(result, "result", 0) or "result"
        raise _RequestError("bad_result", [f"{name}: {path} is not JSON: ", *_describe(error)]) from None
    _check_size(text, name)
    return text


def _check_size(text: bytes, name: str) -> None:
    if len(text) > MAX_RESULT:
        raise _RequestError("bad_result", f"{name}: the result has {len(text):,} bytes of JSON, at most {MAX_RESULT:,}")


def _find_invalid(value: Any, path: str, depth: int) -> str | None:
    """Return the path of the first value that JSON cannot represent, such as `result['a'][1]`."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        children: Any = ()
        if depth < _MAX_SEARCH_DEPTH and isinstance(value, dict):
            children = ((f"{path}[{key!r}]", child) for key, child in value.items())
        elif depth < _MAX_SEARCH_DEPTH and isinstance(value, (list, tuple)):
            children = ((f"{path}[{index}]", child) for index, child in enumerate(value))
        for child_path, child in children:
            invalid_path = _find_invalid(child, child_path, depth + 1)
            if invalid_path:
                return invalid_path
        return path
    return None


def _handle_request(request: dict[str, Any]) -> bytes:
    """Run the code of a request and return the reply: `{"result": ...}` or `{"kind": ..., "message": ...}`."""
    name = request["name"]
    tail = _Tail(MAX_PRINTED + request["margin"])
    sys.stdout = io.TextIOWrapper(tail, "utf-8", "replace", write_through=True)
    sys.stderr = io.TextIOWrapper(tail, "utf-8", "replace", write_through=True)
    try:
        return b'{"result":' + _encode_result(_run_code(request), name) + b"}"
    except _RequestError as error:
        kind, message = error.args
    except BaseException as error:  # noqa: BLE001 - user code may raise anything, SystemExit included
        kind = "memory" if isinstance(error, MemoryError) else "raised"
        message = [*_describe_place(error, request), *printed_note(tail.text())]
    return _failure(kind, message, request["margin"])


def _failure(kind: str, message: Message, margin: int) -> bytes:
    """Return the reply of an error. Of long texts it has `margin` characters more than assay keeps."""
    pieces: list[str | tuple[str, int]] = []
    for piece in message:
        if isinstance(piece, str):
            pieces.append(_writable(piece))
        else:
            text, most = piece
            pieces.append((_writable(text[: most + margin] if most >= 0 else text[most - margin :]), most))
    return json.dumps({"kind": kind, "message": pieces}).encode()


def _writable(text: str) -> str:
    # A text of the code may contain half of a surrogate pair, which assay could not decode.
    return text.encode("utf-8", "replace").decode()


def _handle_javascript(engine: Any, request: dict[str, Any]) -> bytes:
    """Run JavaScript and return the reply, as `_handle_request` does for Python."""
    source, name = request["source"], request["name"]
    try:
        text: bytes = engine.run(
            source,
            entries=ENTRIES,
            argument=request["argument"],
            seconds=request["seconds"],
            # JavaScript counts a character above U+FFFF twice.
            max_printed=2 * (MAX_PRINTED + request["margin"]),
        ).encode()
        _check_size(text, name)
    except _RequestError as error:
        kind, message = error.args
    except engine.JavaScriptError as error:
        kind = error.kind
        quote = quote_line(source, error.line) if error.line and kind == "raised" else []
        where = f"{_place(request, error.line)}: "
        message = [where, (error.text, _MAX_TEXT), error.hint, *quote, *printed_note(error.printed)]
    except Exception as error:  # noqa: BLE001 - a flaw of the package must not end the process without a word
        kind, message = "raised", [f"{name}: calling it raised ", *_describe(error)]
    else:
        return b'{"result":' + text + b"}"
    return _failure(kind, message, request["margin"])


def _close_doors() -> None:
    """Take from this process what JavaScript does not need, in case code breaks out of the engine.

    The process keeps its open descriptors, but can open neither files nor connections, and writes no core file.
    """
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def printed_note(text: str) -> Message:
    """Return the end of an error message: the text that the code printed, if any."""
    return ["\nit printed: ", (text, -MAX_PRINTED)] if text.strip() else []


def _describe_place(error: BaseException, request: dict[str, Any]) -> Message:
    """Return the last line of the code in the traceback, with the error. Names the library that raised it."""
    name = request["name"]
    frames: list[tuple[str, int | None]] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    code_lines = [line for filename, line in frames if filename == name and line]
    if not code_lines:
        return [f"{name}: calling it raised ", *_describe(error)]
    line = code_lines[-1]
    filename, raising_line = frames[-1]
    library = "" if filename == name else f" (in {os.path.basename(filename)}:{raising_line})"  # noqa: PTH119
    return [f"{_place(request, line)}: ", *_describe(error), library, *quote_line(request["source"], line)]


def quote_line(source: str, line: int) -> Message:
    """Return the given line of the source, indented on a line of its own."""
    lines = source.split("\n")
    return ["\n  ", (lines[line - 1].strip(), 200)] if line <= len(lines) else []


def _describe(error: BaseException) -> Message:
    """Return type and text of an exception on one line, such as `ValueError: bad date`."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - a user's exception class may have a broken __str__
        text = ""
    return [f"{type(error).__name__}: ", (text, _MAX_TEXT)] if text else [type(error).__name__]


class _Replies:
    """The pipe to assay: one line of JSON for each reply, and one for each file that the code opens."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        # Reentrant: a signal handler of the code may open a file while a line is written.
        self._lock = threading.RLock()

    def send(self, line: bytes) -> None:
        with self._lock:
            self._pipe.write(line + b"\n")
            self._pipe.flush()


class _OpenReports:
    """Tells assay which files the code opens, before it gets their content. assay keeps them with the run."""

    _LIBRARY = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120 - pathlib would slow down the start
    # Python reads modules and the lines of tracebacks by these. Modules have their own place in a run's identity.
    _SOURCE_READERS = ("<frozen importlib", _LIBRARY + "linecache.py")
    _CHANGES = ("os.rename", "os.remove")

    def __init__(self, replies: _Replies) -> None:
        self._replies = replies
        self._process = os.getpid()
        self._sent: set[tuple[str, int, int]] = set()
        sys.addaudithook(self._on_audit_event)

    def _on_audit_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        # A copy of the process must not write into the middle of a reply.
        if (event != "open" and event not in self._CHANGES) or os.getpid() != self._process:
            return
        if not self._is_opened_by_code():
            return
        changes = event in self._CHANGES or bool(
            isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        )
        for name in arguments[: 2 if event == "os.rename" else 1]:
            if not isinstance(name, (str, bytes, os.PathLike)):
                continue  # the number of an open file
            try:
                path = os.path.abspath(os.fsdecode(name))  # noqa: PTH100
                path.encode()  # the line is UTF-8
                status = None if changes else os.stat(path)  # noqa: PTH116
            except (OSError, ValueError):
                continue  # no such file, or a name that no file can have
            if status is not None and not stat.S_ISREG(status.st_mode):
                continue
            state = (path, status.st_size, status.st_mtime_ns) if status else (path, -1, -1)
            if state not in self._sent:
                self._replies.send(b'{"opened":' + json.dumps(state).encode() + b"}")
                self._sent.add(state)

    def _is_opened_by_code(self) -> bool:
        """Return False if Python itself opens a file, to import a module or to show a line of source."""
        frame: types.FrameType | None = sys._getframe(2)  # noqa: SLF001 - the only way to the caller's frame
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(self._SOURCE_READERS):
                return False
            if not file.startswith((self._LIBRARY, "<frozen ")):
                return file != __file__
            frame = frame.f_back
        return True


def _end_with_parent(pipe: int) -> None:
    """Wait until assay's end of the pipe is closed, then kill this process and every process it started.

    The pipe closes even when assay is killed. A thread is needed because the code may loop forever.
    """
    poll = select.poll()
    poll.register(pipe, 0)  # no flags: poll() returns on hang-up only, not on data
    poll.poll()
    os.killpg(0, signal.SIGKILL)


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Move the pipes for requests and replies to new descriptors and connect 0, 1 and 2 to /dev/null.

    `os.dup` returns descriptors that child processes do not inherit.
    """
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    return requests, replies


def main() -> None:
    """Handle requests until the pipe is closed. The arguments are a JSON list of folders, and the language.

    Imports look in these folders. The first is the pipeline's; it comes before everything on sys.path. It may be
    empty.
    """
    requests, reply_pipe = _take_pipes()
    replies = _Replies(reply_pipe)
    pipeline_folder, *folders = json.loads(sys.argv[1])
    if pipeline_folder:
        sys.path.insert(0, pipeline_folder)
    sys.path.extend(folder for folder in folders if folder not in sys.path)
    handle: Callable[[dict[str, Any]], bytes] = _handle_request
    is_javascript = sys.argv[2] == "javascript"
    if is_javascript:
        sys.path.append(os.path.dirname(__file__))  # noqa: PTH120 - pathlib would slow down the start
        engine = importlib.import_module("javascript_engine")
        handle = functools.partial(_handle_javascript, engine)
    sys.argv[1:] = []
    threading.Thread(target=_end_with_parent, args=(requests.fileno(),), daemon=True).start()
    if is_javascript:
        _close_doors()
    else:
        _OpenReports(replies)
    replies.send(b'{"ready":true}')
    worker_pid = os.getpid()
    for line in requests:
        reply = handle(json.loads(line))
        # The code may have called os.fork() and returned in the child too. Only the worker itself replies.
        if os.getpid() != worker_pid:
            break
        replies.send(reply)
    os._exit(0)  # a normal exit would wait for threads that the code has started


if __name__ == "__main__":
    main()
