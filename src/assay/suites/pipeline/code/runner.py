"""The interface of a code runner: `CodeRunner`, its input `Code` and its error `CodeError`.

`RunnerByLanguage` is a CodeRunner made of one for Python and one for JavaScript.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, Literal, NamedTuple, Protocol, get_args

import msgspec

from assay.core.errors import unknown
from assay.files.excerpt import cut_end, cut_start
from assay.files.read import is_deeper
from assay.suites.pipeline.code.worker import ENTRIES, Message, place
from assay.usercode.definitions import defined_names

Kind = Literal["syntax", "no_entry", "raised", "timeout", "memory", "bad_result", "died"]
KINDS: tuple[str, ...] = get_args(Kind)
Language = Literal["python", "javascript"]
LANGUAGES: tuple[str, ...] = get_args(Language)

# Results are stored as JSON, and JSON encoders recurse once per level. 100 levels is far below the depth at
# which they raise RecursionError.
MAX_DEPTH = 100
_HALF_CHARACTER = (
    "the result has half of a character, such as one half of an emoji. JavaScript's slice and substring cut between "
    "the halves; Array.from(text) has whole characters"
)
_WORD = re.compile(r"\w+")
# Names with which code can define a function whose name is not in its text.
_PYTHON_WAYS = frozenset({"exec", "eval", "globals", "locals", "vars", "setattr", "sys"})
_JAVASCRIPT_WAYS = frozenset({"module", "exports", "globalThis", "eval", "Function", "this"})


class Code(NamedTuple):
    """Source code. `name` identifies it in messages, for example `pipeline.yaml:12`."""

    source: str
    name: str
    language: Language = "python"
    file: str = ""
    """The file whose lines are the lines of the source, or "" if there is none."""
    first_line: int = 1
    """The line of `file` on which the source begins."""
    path: str = ""
    """The absolute path of a file that has nothing but this source: `__file__` of Python code. Else ""."""

    def place(self, line: int | None) -> str:
        """Return how messages name a line of the source: `pipeline.yaml:13`, else `the test's code, line 2`."""
        return place(self.name, line, self.file, self.first_line)


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


class RunnerByLanguage:
    """Passes code to the runner of its language."""

    def __init__(self, python: CodeRunner, javascript: CodeRunner) -> None:
        self._python = python
        self._javascript = javascript

    async def run(self, code: Code, argument: Any, timeout: float) -> Any:  # noqa: ASYNC109 - the runner stops it
        """Call the code's entry function with `argument` and return its JSON value. Raises CodeError."""
        runner = self._javascript if code.language == "javascript" else self._python
        return await runner.run(code, argument, timeout)

    async def close(self) -> None:
        """Stop the worker processes of both runners."""
        await asyncio.gather(self._python.close(), self._javascript.close())


def join_message(message: Message) -> str:
    """Return the message of an error as one text, without white space at its end. Its long texts are cut."""
    return "".join(
        piece if isinstance(piece, str) else (cut_end if piece[1] >= 0 else cut_start)(piece[0], abs(piece[1]))
        for piece in message
    ).rstrip()


def language_problem(value: object) -> str | None:
    """Return the message for a value that is not a language, else None. None means `python`, or that of the step."""
    if value is None or value in LANGUAGES:
        return None
    return unknown("language of code", str(value), list(LANGUAGES))


def entry_problem(code: Code) -> str:
    """Return the message for code that defines no function to call, else "". The code is read and not run.

    Code that could define a function in another way than by its name in the text gets no message.
    """
    if code.language == "javascript":
        words = set(_WORD.findall(code.source))
        may_define = words & {*ENTRIES, *_JAVASCRIPT_WAYS}
    else:
        import ast  # imported here because only `assay check` needs it

        try:
            tree = ast.parse(code.source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return ""  # said by the check of the syntax
        words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        may_define = defined_names(tree) & {*ENTRIES, "*"} or words & _PYTHON_WAYS
    return "" if may_define else f"it defines no function to call; define one of {', '.join(ENTRIES)}"


def decode_result(text: bytes | str, code: Code) -> Any:
    """Decode the JSON of a result. Raises CodeError if the journal could not store the value."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        why = _HALF_CHARACTER if _has_half_character(text) else f"the result is not JSON: {error}"
        raise CodeError("bad_result", f"{code.name}: {why}") from None
    if is_deeper(value, MAX_DEPTH):
        raise CodeError("bad_result", f"{code.name}: the result is nested deeper than {MAX_DEPTH}")
    return value


def _has_half_character(text: bytes | str) -> bool:
    """Return whether a text in the JSON has half of a surrogate pair: no file can store it."""
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        return False
    return False
