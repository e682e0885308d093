"""What running a piece of code needs and what can go wrong with it, whichever way it runs."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol

import msgspec

Kind = Literal["syntax", "no_entry", "raised", "timeout", "memory", "bad_result", "died"]
MAX_DEPTH = 100


class Code(NamedTuple):
    """A text of Python; `name` is what messages call it, such as `pipeline.yaml:12 code`."""

    source: str
    name: str


class CodeProblem(Exception):
    """Code that gave no result. The message says where in the code, and ends with what it printed."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class CodeRunner(Protocol):
    """One way to run code. The timeout counts from when the code starts, not while it waits its turn."""

    async def run(self, code: Code, argument: Any, timeout: float) -> Any:  # noqa: ASYNC109 - the runner stops it
        """The JSON value that the code's entry gives for `argument`; every other end is a CodeProblem."""
        ...

    async def close(self) -> None:
        """Ends every process; afterwards nothing runs."""
        ...


def decoded(text: bytes | str, code: Code) -> Any:
    """A result from its JSON; refuses what could not be written into a journal."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise CodeProblem("bad_result", f"{code.name}: the result is not JSON: {error}") from None
    if _deep(value):
        raise CodeProblem("bad_result", f"{code.name}: the result is nested deeper than {MAX_DEPTH}")
    return value


def _deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [inner for each in level if isinstance(each, (dict, list)) for inner in _inner(each)]
        if not level:
            return False
    return True


def _inner(value: dict[str, Any] | list[Any]) -> Any:
    return value.values() if isinstance(value, dict) else value
