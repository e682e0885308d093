"""How a function under test is called, and what becomes of everything it may do."""

from __future__ import annotations

import asyncio
import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.usercode.errors import UserCodeError

from support.hop_case import HopCase, Telling, result

FIELDS = {"a": 1, "b": 2}


def called(folder: Path, function: Callable[..., Any], fields: dict[str, Any] | None = None) -> Any:
    return HopCase(folder, Telling(result("x"))).call(function, fields or FIELDS)[0].value


def kind(session: Any) -> str:
    return type(session).__name__


async def in_pair(session: Any, data: Any) -> Any:
    return [kind(session), data]


def sync_pair(session: Any, data: Any) -> Any:
    return [kind(session), data]


def other_names(s: Any, row: Any) -> Any:
    return [kind(s), row]


def half_known(a: Any, fields: Any) -> Any:
    return [kind(a), fields]


def whole_row(row: Any) -> Any:
    return row


async def whole_record(record: Any) -> Any:
    return record


def row_and_more(a: Any, input_data: Any, session: Any, style: str = "short") -> Any:
    return [a, input_data, kind(session)]


def pair_and_options(session: Any, row: Any, style: str = "short") -> Any:
    return [kind(session), row]


def by_name(a: int, b: int) -> Any:
    return [a, b]


async def by_name_later(b: int, a: int) -> Any:
    return [a, b]


def one_and_default(a: int, b: int = 5) -> Any:
    return [a, b]


def keywords(**fields: Any) -> Any:
    return sorted(fields)


def with_session(a: int, b: int, session: Any) -> Any:
    return [a, b, kind(session)]


async def only_keywords(*, session: Any, a: int, b: int) -> Any:
    return [a, b, kind(session)]


def session_and_fields(session: Any, a: int, b: int) -> Any:
    return [a, b, kind(session)]


def session_and_one(session: Any, a: int) -> Any:
    return [a, kind(session)]


def session_and_rest(session: Any, b: int, **rest: Any) -> Any:
    return [b, kind(session), rest]


def anything(*args: Any) -> Any:
    return len(args)


class Sync:
    def __call__(self, session: Any, row: Any) -> Any:
        return [kind(session), row]


class Unhashable(Sync):
    __hash__ = None  # type: ignore[assignment]


class Later:
    async def __call__(self, session: Any, row: Any) -> Any:
        return [kind(session), row]


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (in_pair, ["Session", FIELDS]),
        (sync_pair, ["SyncSession", FIELDS]),
        (other_names, ["SyncSession", FIELDS]),
        (half_known, ["SyncSession", FIELDS]),
        (pair_and_options, ["SyncSession", FIELDS]),
        (whole_row, FIELDS),
        (whole_record, FIELDS),
        (row_and_more, [1, FIELDS, "SyncSession"]),
        (by_name, [1, 2]),
        (by_name_later, [1, 2]),
        (one_and_default, [1, 2]),
        (keywords, ["a", "b"]),
        (with_session, [1, 2, "SyncSession"]),
        (only_keywords, [1, 2, "Session"]),
        (session_and_fields, [1, 2, "SyncSession"]),
        (session_and_one, [1, "SyncSession"]),
        (session_and_rest, [2, "SyncSession", {"a": 1}]),
        (anything, 2),
        (Sync(), ["SyncSession", FIELDS]),
        (Unhashable(), ["SyncSession", FIELDS]),
        (Later(), ["Session", FIELDS]),
        (functools.partial(in_pair), ["Session", FIELDS]),
        (functools.partial(Later()), ["Session", FIELDS]),
        (functools.partial(with_session, session=None), [1, 2, "SyncSession"]),
        (lambda session, row: [kind(session), row], ["SyncSession", FIELDS]),
    ],
    ids=lambda value: getattr(value, "__name__", None) or str(value)[:30],
)
def test_the_signature_says_how_it_is_called(tmp_path: Path, function: Any, told: Any) -> None:
    """`f(session, input)`, or the fields by name; async functions get the async session."""
    assert called(tmp_path, function) == told


def test_a_field_called_row_is_that_field(tmp_path: Path) -> None:
    assert called(tmp_path, whole_row, {"row": 7, "a": 1}) == 7


def test_one_default_is_used_where_a_field_is_missing(tmp_path: Path) -> None:
    """A parameter that can be left out does not make a pair."""
    assert called(tmp_path, one_and_default, {"a": 1}) == [1, 5]


def test_the_input_is_the_functions_own(tmp_path: Path) -> None:
    """What it does to its input does not reach the row."""
    fields = {"a": 1}

    def change(session: Any, row: dict[str, Any]) -> dict[str, Any]:
        row["b"] = 2
        return row

    assert called(tmp_path, change, fields) == {"a": 1, "b": 2}
    assert fields == {"a": 1}


def failed(folder: Path, function: Callable[..., Any]) -> UserCodeError:
    with pytest.raises(UserCodeError) as raised:
        HopCase(folder, Telling(result("x"))).call(function, FIELDS)
    return raised.value


def raises(session: Any, row: Any) -> Any:
    return {}[row["a"]]  # this line is named


async def raises_later(session: Any, row: Any) -> Any:
    await asyncio.sleep(0)
    raise ValueError("bad\ud800")  # this line is named


def stops_iterating(session: Any, row: Any) -> Any:
    return next(iter([]))  # this line is named


def parses(session: Any, row: Any) -> Any:
    return json.loads("{")  # this line is named


async def cancels_itself(session: Any, row: Any) -> Any:
    raise asyncio.CancelledError  # this line is named


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (raises, "[KeyError] 1"),
        (raises_later, "[ValueError] bad\\ud800"),
        (
            parses,
            "[JSONDecodeError] Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        ),
        (stops_iterating, "[StopIteration] "),
        (cancels_itself, "[CancelledError] "),
    ],
)
def test_an_exception_is_named_with_the_users_own_last_line(tmp_path: Path, function: Any, said: str) -> None:
    """Type, message, file, line and the line itself; none of our frames."""
    error = failed(tmp_path, function)
    assert (error.kind, error.message) == ("exception", said)
    assert error.type_name == said[1:].partition("]")[0]
    assert error.where.startswith("test_call_function.py:")
    assert error.where.endswith("# this line is named")
    assert str(error) == f"{said} ({error.where})"


def test_a_function_that_cancels_its_own_task_has_failed(tmp_path: Path) -> None:
    """It is not our own cancellation, which would end more than this row."""

    async def cancels(session: Any, row: Any) -> Any:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    assert failed(tmp_path, cancels).message == "[CancelledError] it cancelled its own task"


def test_a_wrong_call_is_the_functions_failure(tmp_path: Path) -> None:
    """A parameter that no field is for."""
    error = failed(tmp_path, lambda a, b, c: a)
    assert "missing 1 required positional argument: 'c'" in error.message
    assert "It is called with fields of the row by name" in error.message


def test_a_field_that_it_does_not_take_is_not_passed(tmp_path: Path) -> None:
    """Rows may have more columns than a function has parameters."""
    assert called(tmp_path, lambda a: {"got": a}) == {"got": 1}


def leaves(session: Any, row: Any) -> Any:
    sys.exit("bye")


async def leaves_later(session: Any, row: Any) -> Any:
    await asyncio.sleep(0)
    sys.exit("bye")


async def leaves_in_a_task(session: Any, row: Any) -> Any:
    await asyncio.gather(asyncio.sleep(0), leaves_later(session, row))


async def leaves_when_cancelled(session: Any, row: Any) -> Any:
    async def stubborn() -> None:
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            sys.exit("bye")

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    task.cancel()
    await task


def leaves_by_interrupt(session: Any, row: Any) -> Any:
    raise KeyboardInterrupt("bye")


async def interrupts_in_a_task(session: Any, row: Any) -> Any:
    async with asyncio.TaskGroup() as group:
        group.create_task(interrupts_later())


async def interrupts_later(*_: Any) -> Any:
    raise KeyboardInterrupt("bye")


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (leaves, "exit"),
        (leaves_later, "exit"),
        (leaves_in_a_task, "exit"),
        (leaves_when_cancelled, "exit"),
        (leaves_by_interrupt, "interrupt"),
        (interrupts_later, "interrupt"),
    ],
)
def test_no_function_ends_the_process(tmp_path: Path, function: Any, what: str) -> None:
    """Not in a thread, not in the loop, not in a task that it starts."""
    error = failed(tmp_path, function)
    assert error.kind == what
    assert "bye" in error.message


def test_a_task_group_wraps_what_its_task_did(tmp_path: Path) -> None:
    """That is what a task group does with every exception; the loop goes on."""
    error = failed(tmp_path, interrupts_in_a_task)
    assert (error.kind, error.type_name) == ("exception", "ExceptionGroup")


def test_tasks_of_others_are_not_touched(tmp_path: Path) -> None:
    """Only user code is guarded: what we start raises as before, and a task that never began warns nobody."""

    async def starts_and_drops(session: Any, row: Any) -> dict[str, bool]:
        task = asyncio.create_task(asyncio.sleep(1))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return {"cancelled": task.cancelled()}

    assert called(tmp_path, starts_and_drops) == {"cancelled": True}


@pytest.mark.parametrize("value", [float("nan"), b"x", {1}, "x" * 10_000_000, '{"a": ', None, object()])
def test_a_result_that_is_no_json_is_a_failure(tmp_path: Path, value: Any) -> None:
    """Sync and async alike; test_results.py has the rest."""

    async def later(session: Any, row: Any) -> Any:
        return value

    assert failed(tmp_path, lambda session, row: value).kind == "bad_result"
    (tmp_path / "b").mkdir()
    assert failed(tmp_path / "b", later).kind == "bad_result"


def test_a_sync_function_that_returns_a_coroutine_is_told_so(tmp_path: Path) -> None:
    """It was given the blocking session: it could not have worked."""

    def forgot(session: Any, row: Any) -> Any:
        return in_pair(session, row)

    assert "async def" in failed(tmp_path, forgot).message


def test_prints_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are the function's own."""

    def talk(session: Any, row: Any) -> dict[str, Any]:
        print("hello")  # noqa: T201
        return {}

    called(tmp_path, talk)
    assert capsys.readouterr().out == "hello\n"
