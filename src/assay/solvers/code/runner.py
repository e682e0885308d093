"""The interface of a code runner: `CodeRunner`, its input `Code` and its error `CodeError`."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol

import msgspec

Kind = Literal["syntax", "no_entry", "raised", "timeout", "memory", "bad_result", "died"]

# Results are stored as JSON, and JSON encoders recurse once per level. 100 levels is far below the depth at
# which they raise RecursionError.
MAX_DEPTH = 100


class Code(NamedTuple):
    """Python source. `name` identifies it in messages, for example `pipeline.yaml:12 code`."""

    source: str
    name: str


class CodeError(Exception):
    """The code returned no usable result.

    The message gives the line in the code. If the code raised an exception, the message ends with the
    last text that the code printed.
    """

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class CodeRunner(Protocol):
    """Runs code that is passed as text. The timeout starts with the code, not while a call waits for a worker."""

    async def run(self, code: Code, argument: Any, timeout: float) -> Any:  # noqa: ASYNC109 - the runner stops it
        """Call the code's entry function with `argument` and return its JSON value. Raises CodeError."""
        ...

    async def close(self) -> None:
        """Stop all worker processes."""
        ...


def decode_result(text: bytes | str, code: Code) -> Any:
    """Decode the JSON of a result. Raises CodeError if the journal could not store the value."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise CodeError("bad_result", f"{code.name}: the result is not JSON: {error}") from None
    if _too_deep(value):
        raise CodeError("bad_result", f"{code.name}: the result is nested deeper than {MAX_DEPTH}")
    return value


def _too_deep(value: Any) -> bool:
    # Level by level, without recursion: the value may be nested deeper than Python can recurse.
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        next_level: list[Any] = []
        for container in level:
            if isinstance(container, dict):
                next_level.extend(container.values())
            elif isinstance(container, list):
                next_level.extend(container)
        if not next_level:
            return False
        level = next_level
    return True
