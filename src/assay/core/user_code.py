"""Runs the user's code: hop functions, memories, `python/` models, `!function`, loaders. Nothing else runs it.

A call returns a value or raises one `UserCodeError`. `sys.exit`, a `KeyboardInterrupt` that the code raises itself,
code that hangs and code that blocks the event loop fail one case only. Only `os._exit` and a crash in C end the
process; the same command then continues the run.

    from assay.core import user_code
    from assay.core.user_code import UserCodeError

    function = user_code.load_module(Path("hop.py")).hop
    try:
        # Sync code runs in a thread, async code in a task.
        value = await user_code.call(function, (session, row), timeout=30.0)
        # Short sync code (a metric, a filter, `doc_to_text`) runs in the current thread.
        value = user_code.call_here(metric, (answer, reference))
    except UserCodeError as error:
        # `error.message` is "[KeyError] 'gone'", `error.where` is "hop.py:7: raise KeyError('gone')".
        # The failure has the kind `user_code` and a traceback with the user's own frames only.
        raise CaseFailed(error.failure()) from None

`items_of` reads the items of a loader (`path/to/file.py:load`). The engine, which catches exceptions around a solver,
uses `is_failure` and `failure_of`.

These exceptions pass through `call` and `call_here` unchanged: errors that stop the run (StopRun, ModelRefused,
UsageError), failed model calls (ModelError), failed cases (CaseFailed), a real Ctrl-C, and the cancellation of the
caller.
"""

from __future__ import annotations

import asyncio
import asyncio.runners
import hashlib
import importlib
import importlib.util
import inspect
import linecache
import opcode
import os
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from contextvars import ContextVar, copy_context
from functools import cached_property, partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any, Literal, TypeVar, cast

from assay.core import forks
from assay.core.code import code_sha256
from assay.core.errors import (
    CaseFailed,
    InputError,
    ModelError,
    ModelRefused,
    Problem,
    StopRun,
    UsageError,
    similar_file,
)
from assay.core.patterns import SlowPattern
from assay.core.threads import DaemonPool, DetachedThreads
from assay.core.types import Failure
from assay.core.watchdog import Blocked, can_watch, watched

T = TypeVar("T")
Kind = Literal["exception", "exit", "interrupt", "timeout", "bad_result"]

USER_MODULE = "assay_user_"
"""Prefix of the names of the user's files in `sys.modules`."""

POOL = DaemonPool(1_000, "assay-user-code", replaces=True)
"""Threads for sync code. The pool is large because one function may wait for another one in the same pool."""

PASSED_THROUGH = (StopRun, ModelRefused, UsageError, ModelError, CaseFailed, SlowPattern)

_GRACE_SECONDS = 1.0
"""Time for an async function to clean up after its time limit. After that it is abandoned."""

_SLACK_SECONDS = 1.0
"""Added to the time limit before a blocking step is interrupted, because a busy machine may delay it."""

# Failures are written to the journal, one per case. These limits keep its lines short.
_MAX_MESSAGE = 2_000
_MAX_TRACEBACK = 6_000
# Python's cache of source lines forgets a file for a moment when it looks whether it has changed. Another thread that
# looks then finds no line. Reentrant, because a traceback asks exceptions for their texts, which may name their line.
_SOURCES = threading.RLock()
_MAX_FRAMES = 20

_BLOCKED = "it blocked all other rows until its time was over; without `async` it has a thread of its own"
_KINDS: dict[type[BaseException], Kind] = {SystemExit: "exit", KeyboardInterrupt: "interrupt"}


class UserCodeError(Exception):
    """User code raised an exception, took too long or returned an invalid value.

    `text` is the reason without the type of the exception. `str()` adds the type and the innermost line of the user's
    code: `[KeyError] 'gone' (hop.py:7: raise KeyError('gone'))`. `error` is the exception; it is None for a time
    limit and for an invalid value (`bad_result`).
    """

    def __init__(
        self, text: str, kind: Kind = "exception", *, type_name: str = "", error: BaseException | None = None
    ) -> None:
        super().__init__(text)
        self.text = text
        self.kind = kind
        self.type_name = type_name or (type(error).__name__ if error else "")
        self.error = error

    @classmethod
    def of(cls, error: BaseException) -> UserCodeError:
        """Return the UserCodeError for an exception of user code."""
        if isinstance(error, cls):
            return error
        if isinstance(error, Blocked):
            return cls(_BLOCKED, "timeout", type_name="TimeoutError", error=error)
        return cls(message_of(error), _KINDS.get(type(error), "exception"), error=error)

    @property
    def message(self) -> str:
        """`[KeyError] 'gone'`. Only the text for a time limit and for an invalid value."""
        return self.text if self.kind in ("timeout", "bad_result") else f"[{self.type_name}] {self.text}"

    @cached_property
    def where(self) -> str:
        """`file.py:12: the line` of the innermost frame in the user's own files; empty if there is none."""
        return last_line(self.error) if self.error else ""

    @cached_property
    def traceback(self) -> str:
        """The traceback with the user's own frames; empty if there is none."""
        return traceback_of(self.error) if self.error else ""

    def failure(self, message: str | None = None, where: str = "") -> Failure:
        """Return the Failure of the case, with the traceback. The default message is `str(self)`."""
        return Failure(
            "user_code", str(self) if message is None else message, where, traceback=self.traceback
        )

    def __str__(self) -> str:
        return f"{self.message} ({self.where})" if self.where else self.message


def signature_problem(function: Callable[..., Any], parameters: tuple[str, ...]) -> str:
    """Return why a function cannot be called with these positional parameters; an empty text if it can."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # not callable, or written in C without a signature
        return ""
    try:
        signature.bind(*parameters)
    except TypeError as error:
        return f"it is called as f({', '.join(parameters)}), but takes {signature}: {error}"
    return ""


async def call(
    function: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    timeout: float | None = None,  # noqa: ASYNC109 - an abandoned thread is not ended by a cancelled await
    pool: DaemonPool = POOL,
    own_task: bool = True,
    close: Callable[[], object] | None = None,
) -> Any:
    """Call a function and return its value. Raises UserCodeError if it raises or takes longer than `timeout`.

    A sync function runs in a thread of the pool. After its time limit the thread is abandoned. Waiting for a free
    thread counts as the function's time.

    An async function runs in a task of its own. So it can be abandoned if it ignores its cancellation, and interrupted
    if it blocks the loop. With `own_task=False` neither is possible, and a call costs 20 µs less.

    `close` is called when the call is over, before code that still runs is cancelled. After that, the session object
    that such code still has can refuse to work.
    """
    keywords = kwargs or {}
    if is_async(function):
        if own_task:
            return await _call_in_task(function, args, keywords, timeout, close)
        try:
            return await _call_in_loop(function, args, keywords, timeout)
        finally:
            if close is not None:
                close()
    context = copy_context()  # the thread gets the caller's context variables
    try:
        async with asyncio.timeout(timeout):
            value, error = await pool.run(partial(context.run, _outcome, function, args, keywords))
    except TimeoutError:
        raise _too_long(timeout) from None
    finally:
        if close is not None:
            close()
    if error is None:
        return value
    if isinstance(error, PASSED_THROUGH):
        raise error
    raise UserCodeError.of(error) from error


async def _call_in_loop(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    timeout: float | None,  # noqa: ASYNC109
) -> Any:
    """Run an async function in the caller's task."""
    _guard_tasks(asyncio.get_running_loop(), None)
    token = _step_seconds.set(0.0)
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            return await forks.WatchedSteps(function(*args, **kwargs))
    except PASSED_THROUGH:
        raise
    except BaseException as error:
        if limit.expired():
            raise _too_long(timeout) from None
        task = asyncio.current_task()
        cancelled = isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling()
        if cancelled or is_ctrl_c(error):
            raise
        raise UserCodeError.of(error) from error
    finally:
        _step_seconds.reset(token)


async def _call_in_task(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    timeout: float | None,  # noqa: ASYNC109
    close: Callable[[], object] | None,
) -> Any:
    """Run an async function in a task of its own."""
    loop = asyncio.get_running_loop()
    seconds = _guard_tasks(loop, timeout)
    # `over` is set by the end of the task or by the timer. This takes a third of the time of asyncio.wait.
    over = loop.create_future()
    task = loop.create_task(_Guarded(_run(function, args, kwargs, over, seconds), seconds))
    hide_task(task)
    timer = None if timeout is None else loop.call_later(timeout, _set, over)
    try:
        await over
        in_time = task.done()
    finally:
        if timer is not None:
            timer.cancel()
        if close is not None:
            close()
        if not task.done():
            # Retrieve the exception; otherwise asyncio logs "exception was never retrieved".
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            task.cancel()
            await asyncio.wait((task,), timeout=_GRACE_SECONDS)
        elif not task.cancelled():
            task.exception()  # retrieved here, because a cancelled caller does not ask for the result
    if not in_time:
        raise _too_long(timeout)
    if task.cancelled():  # only the function itself can reach this task
        raise UserCodeError("it cancelled its own task", type_name="CancelledError")
    try:
        return task.result()
    except _CtrlC as error:
        raise error.__cause__ or error from None
    except (*PASSED_THROUGH, UserCodeError):
        raise
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        raise UserCodeError.of(error) from error


def hide_task(task: asyncio.Task[Any] | None) -> None:
    """Hide a task of the run from `asyncio.all_tasks`. Code that cancels all tasks would end the run."""
    if task is not None:
        asyncio.tasks._unregister_task(task)  # noqa: SLF001 - documented in "Extending asyncio"


async def _run(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    over: asyncio.Future[None],
    seconds: float,
) -> Any:
    _step_seconds.set(seconds)
    try:
        return await function(*args, **kwargs)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise UserCodeError.of(error) from error  # the code raised it itself
    finally:
        _set(over)


def _set(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


def _too_long(timeout: float | None) -> UserCodeError:
    return UserCodeError(f"it took longer than {timeout:g} s", "timeout", type_name="TimeoutError")


def call_here(
    function: Callable[..., T], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
) -> T:
    """Call a sync function in this thread, without a time limit. Raises UserCodeError if it raises."""
    before = forks.count()
    try:
        return function(*args, **(kwargs or {}))
    except PASSED_THROUGH:
        raise
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        raise UserCodeError.of(error) from error
    finally:
        forks.leave_if_forked(before)


def _outcome(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, BaseException | None]:
    """Return the value and the exception; one of them is None.

    The exception is returned because a future cannot carry StopIteration, and SystemExit in a future ends the loop.
    """
    before = forks.count()
    try:
        return function(*args, **kwargs), None
    except BaseException as error:  # noqa: BLE001 - user code may raise anything
        return None, error
    finally:
        forks.leave_if_forked(before)


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether a call returns a coroutine, also for a partial or an object with an async `__call__`."""
    if inspect.iscoroutinefunction(function):
        return True
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - its kind is asked


def items_of(function: Callable[..., Any], args: tuple[Any, ...], item: type[T], name: str) -> Iterator[T]:
    """Yield the items of a user's loader. `name` is the loader's name for messages.

    Raises InputError if the loader raises, returns something that is not iterable, or yields another type.
    """
    try:
        items = call_here(function, args)
        if isinstance(items, (str, bytes, Mapping)) or not hasattr(items, "__iter__"):
            raise InputError(
                Problem(name, f"it returned {_described(items)}; return a list of {item.__name__} objects")
            )
        iterator = call_here(iter, (items,))
        end = object()
        for number in range(sys.maxsize):
            value = call_here(next, (iterator, end))
            if value is end:
                return
            if not isinstance(value, item):
                raise InputError(
                    Problem(name, f"item {number} is {_described(value)}, expected {item.__name__}")
                )
            yield value
    except UserCodeError as error:
        raise InputError(Problem(name, f"it raised {_raised(error)}")) from error


def _described(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _raised(error: UserCodeError) -> str:
    """`KeyError: 'gone' (loader.py:7: raise KeyError('gone'))`."""
    text = f"{error.type_name}: {error.text}"
    return f"{text} ({error.where})" if error.where else text


# What an exception means


def is_failure(error: BaseException) -> bool:
    """Return whether an exception fails only its case.

    A cancellation, a real Ctrl-C and the exceptions in PASSED_THROUGH do not: they concern more than the case.
    """
    if isinstance(error, (*PASSED_THROUGH, asyncio.CancelledError)):
        return False
    return isinstance(error, Exception) or not is_ctrl_c(error)


def failure_of(error: BaseException) -> Failure:
    """Return the Failure for an exception of user code: `KeyError: 'gone'`, with the traceback."""
    message = f"{type(error).__name__}: {message_of(error)}"
    return Failure("user_code", message, traceback=traceback_of(error))


def is_ctrl_c(error: BaseException) -> bool:
    """Return whether a KeyboardInterrupt comes from a signal, and not from a `raise` statement in user code.

    After a signal, Python raises it between two arbitrary instructions. So the innermost frame is not at a RAISE
    instruction, unless it is in asyncio's signal handler.
    """
    trace = error.__traceback__
    if not isinstance(error, KeyboardInterrupt) or trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    if code.co_filename == asyncio.runners.__file__:
        return True
    return code.co_code[trace.tb_lasti] != opcode.opmap["RAISE_VARARGS"]


def message_of(error: BaseException) -> str:
    """Return an exception's text; empty if its `__str__` raises. Lone surrogates are written as escapes."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a user's own __str__ may raise anything
        return ""
    return _writable(text[:_MAX_MESSAGE])


def _writable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


# Prefixes of files that are not the user's: assay, the standard library, Python's own importer.
_OTHER_CODE = (str(Path(__file__).parents[1]) + os.sep, str(Path(os.__file__).parent) + os.sep, "<frozen")


def _is_user_file(file: str) -> bool:
    return not file.startswith(_OTHER_CODE) and "site-packages" not in file


def last_line(error: BaseException) -> str:
    """Return `file.py:12: the line` of the innermost frame in the user's own files; empty if there is none."""
    innermost: TracebackType | None = None
    trace = error.__traceback__
    while trace is not None:
        if _is_user_file(trace.tb_frame.f_code.co_filename):
            innermost = trace
        trace = trace.tb_next
    if innermost is None:
        return ""
    file, number = innermost.tb_frame.f_code.co_filename, innermost.tb_lineno
    with _SOURCES:
        linecache.checkcache(file)  # the file may have been edited, or be another one of this name
        line = linecache.getline(file, number).strip()
    return f"{Path(file).name}:{number}: {line}" if line else f"{file}:{number}"


def definition_of(function: Callable[..., Any]) -> str:
    """Return ` (file.py:12)` for a function of the user, for messages about its result; empty for any other."""
    plain = inspect.unwrap(function.__func__ if inspect.ismethod(function) else function)
    if not inspect.isfunction(plain) or not _is_user_file(plain.__code__.co_filename):
        return ""
    return f" ({Path(plain.__code__.co_filename).name}:{plain.__code__.co_firstlineno})"


def traceback_of(error: BaseException) -> str:
    """Return the traceback as Python prints it, with the frames of the user's own files only.

    Causes and exception groups are included. It is empty if no frame is in the user's files, for example if the call
    had wrong arguments.
    """
    with _SOURCES:
        whole = traceback.TracebackException.from_exception(error, compact=True)
    if not _keep_user_frames(whole):
        return ""
    return _writable("".join(whole.format()).rstrip())[-_MAX_TRACEBACK:]


def _keep_user_frames(whole: traceback.TracebackException) -> bool:
    """Remove all other frames, also from causes. Returns whether a user's frame remains."""
    frames = [frame for frame in whole.stack if _is_user_file(frame.filename)]
    whole.stack = traceback.StackSummary.from_list(frames[-_MAX_FRAMES:])
    has_frames = bool(frames)
    for inner in (whole.__cause__, whole.__context__, *(whole.exceptions or ())):
        if inner is not None and _keep_user_frames(inner):
            has_frames = True
    return has_frames


# Tasks that user code starts


_step_seconds: ContextVar[float | None] = ContextVar("assay_user_code_step_seconds", default=None)
"""Set inside user code: the seconds for which one step of a coroutine may block the loop; 0 means no limit."""


def _guard_tasks(loop: asyncio.AbstractEventLoop, timeout: float | None) -> float:
    """Prepare the loop so that tasks of user code cannot end or block it, and its threads cannot delay the exit.

    By default, asyncio passes SystemExit of a task on to the caller of the loop, and waits for the threads of
    `asyncio.to_thread`. Returns the seconds for one step, 0 if steps cannot be interrupted.
    """
    factory: Any = loop.get_task_factory()
    if not isinstance(factory, _TaskFactory):
        factory = _TaskFactory(factory, can_watch=can_watch())
        loop.set_task_factory(cast("Any", factory))
        loop.set_default_executor(DetachedThreads())
    return timeout + _SLACK_SECONDS if timeout and factory.can_watch else 0.0


class _TaskFactory:
    """The loop's task factory. It guards the tasks that user code starts."""

    def __init__(self, previous: Any, *, can_watch: bool) -> None:
        self._previous = previous
        self.can_watch = can_watch

    def __call__(
        self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **kwargs: Any
    ) -> asyncio.Future[Any]:
        context = kwargs.get("context")
        seconds = _step_seconds.get() if context is None else context.get(_step_seconds)
        if seconds is not None and type(coro) is not _Guarded:
            coro = _Guarded(coro, seconds)
        if self._previous is None:
            return asyncio.Task(coro, loop=loop, **kwargs)
        task: asyncio.Future[Any] = self._previous(loop, coro, **kwargs)
        return task


class _CtrlC(Exception):
    """A real Ctrl-C inside a task of user code. A KeyboardInterrupt that leaves a task would end the event loop."""


class _Guarded(Coroutine[Any, Any, Any]):
    """Wraps a coroutine: limits the time of its steps, and turns SystemExit and the like into UserCodeError.

    It is an object with `send` and `throw`, not a coroutine that awaits the inner one. If a task is cancelled before
    its first step, such a coroutine would never start the inner one, and Python would warn "was never awaited".
    """

    def __init__(self, inner: Coroutine[Any, Any, Any], seconds: float) -> None:
        self._inner = inner
        self._seconds = seconds
        self._forks = forks.count()

    def send(self, value: Any) -> Any:
        try:
            return watched(self._seconds, self._inner.send, value)
        except (SystemExit, KeyboardInterrupt, Blocked) as error:
            if is_ctrl_c(error):
                raise _CtrlC from error
            raise UserCodeError.of(error) from error
        finally:
            forks.leave_if_forked(self._forks)

    def throw(self, *error: Any) -> Any:
        try:
            return watched(self._seconds, self._inner.throw, *error)
        except (SystemExit, KeyboardInterrupt, Blocked) as raised:
            if is_ctrl_c(raised):
                raise _CtrlC from raised
            raise UserCodeError.of(raised) from raised
        finally:
            forks.leave_if_forked(self._forks)

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Any:
        return self._inner.__await__()


# Files


_folders: set[str] = set()
"""Folders of user files that were added to `sys.path`, for imports inside functions."""


def load_module(path: Path) -> ModuleType:
    """Import a Python file by its path. A file that changed since its last import is imported as a new module.

    Two files in two folders may each import their own `helper.py`. If the file changes the working directory, it is
    changed back, because relative paths of the command line must stay valid.
    """
    if not path.is_file():
        raise UsageError(f"there is no file {str(path)!r}{similar_file(path)}")
    name = f"{USER_MODULE}{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    name += f"_{code_sha256(path.resolve())[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    loader = _SourceLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with chdir("."), _own_folder(path.resolve().parent):
            call_here(loader.exec_module, (module,))
    except UserCodeError as error:
        del sys.modules[name]
        raise InputError(Problem(str(path), f"importing it raised {_raised(error)}")) from error
    except BaseException:
        del sys.modules[name]
        raise
    return module


class _SourceLoader(SourceFileLoader):
    """Compiles a user's file each time, and neither reads nor writes bytecode.

    Python takes bytecode for current if the file has the same size and the same second of change. A file that was
    edited twice within a second would run as it was, under the identity of the new text.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


class _SourceFinder(MetaPathFinder):
    """Finds modules and packages that stand beside a user's file, for `_SourceLoader`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package = sys.modules.get(fullname.rpartition(".")[0])
        if path is not None and not (package and isinstance(package.__loader__, _SourceLoader)):
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is None or spec.origin is None or type(spec.loader) is not SourceFileLoader:
            return None
        if path is None:
            file = Path(spec.origin)
            folder = file.parent.parent if file.name == "__init__.py" else file.parent
            if str(folder) not in _folders:
                return None
        spec.loader = _SourceLoader(fullname, spec.origin)
        return spec


_finder = _SourceFinder()


@contextmanager
def _own_folder(folder: Path) -> Iterator[None]:
    """Context manager: inside, modules of the folder take precedence. Afterwards other files cannot import them."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
        _folders.add(str(folder))
    names = {path.stem for path in folder.glob("*.py")}
    hidden = {name: sys.modules.pop(name) for name in names & sys.modules.keys()}
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name not in before and _is_in(name, folder)]:
            del sys.modules[name]
        sys.modules.update(hidden)


def _is_in(name: str, folder: Path) -> bool:
    """Return whether a loaded module is a file or package of this folder."""
    top = folder / name.partition(".")[0]
    file = getattr(sys.modules[name], "__file__", None)
    return file is not None and (Path(file) == top.with_suffix(".py") or top in Path(file).parents)


def installed(name: str) -> ModuleType | None:
    """Import an installed module by name. None if it does not exist, or exists only in the folder of a user's file."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or (spec.origin and str(Path(spec.origin).parent) in _folders):
        return None
    with chdir("."):
        return importlib.import_module(name)
