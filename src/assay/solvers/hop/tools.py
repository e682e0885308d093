"""The tools that a function offers to a model: what they are called and need, and how one is run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from assay.solvers.hop.wording import cut

_SHOWN = 600


class Tool(NamedTuple):
    """A function under the name the model knows it by."""

    name: str
    function: Callable[..., Any]
    signature: inspect.Signature | None

    def described(self) -> str:
        """One line: its name, its parameters, and what it says of itself."""
        about = cut(" ".join((inspect.getdoc(self.function) or "").split()), _SHOWN)
        return f"- {self.name}{self.signature or '(...)'}{': ' + about if about else ''}"

    def misfit(self, arguments: Mapping[str, Any]) -> str | None:
        """What is wrong with the names of the arguments."""
        if self.signature is None:
            return None
        try:
            self.signature.bind(**arguments)
        except TypeError as error:
            return f"{self.name}: {error}"
        return None


def offered(tools: Mapping[str, Callable[..., Any]] | Iterable[Callable[..., Any]]) -> dict[str, Tool]:
    """From functions, or functions by name. ValueError where there is none, or one name twice."""
    pairs = list(tools.items()) if isinstance(tools, Mapping) else [(_name(each), each) for each in tools]
    found = {str(name): Tool(str(name), function, _signature(function)) for name, function in pairs}
    if not found or len(found) < len(pairs):
        raise ValueError("hop_tool_use needs tools, each with a name of its own")
    return found


def problem_of(choice: Any, tools: Mapping[str, Tool]) -> str | None:
    """Why this choice could not be run, seen without running it."""
    if not isinstance(choice, dict) or not isinstance(choice.get("tool"), str):
        return 'the result is not {"tool": "<name>", "arguments": {...}}'
    tool, arguments = tools.get(choice["tool"]), choice.get("arguments", {})
    if tool is None:
        return f"there is no tool {choice['tool']!r}; there are: {', '.join(tools)}"
    if not isinstance(arguments, dict):
        return f"the arguments of {tool.name} are not a JSON object"
    return tool.misfit(arguments)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", None) or type(function).__name__


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """With the types that annotations name, where these can be looked up."""
    for by_name in (True, False):
        try:
            return inspect.signature(function, eval_str=by_name)
        except Exception:  # noqa: BLE001, S112 - an annotation is code of the user's and may raise anything
            continue
    return None
