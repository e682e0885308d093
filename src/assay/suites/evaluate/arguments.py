"""Chooses the arguments of a user's function by the names of its parameters.

    def answer(question, ctx): …       # the column `question`, and the context
    def answer(row): …                 # the whole row without gold
    def close(answer, target): …       # a scorer

A parameter with an unknown name raises UsageError before the first call. The message lists the possible names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from assay.core.errors import UsageError
from assay.core.function_identity import describe_callable, parameters_of

ROW, CONTEXT = "row", "ctx"
SCORER_NAMES = ("answer", "target", "row", "ctx", "records")
"""The parameter names that a scorer may have."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Arguments(NamedTuple):
    """The values that a function takes.

    `positional` lists names of values. `keywords` maps the names of parameters to names of values.
    """

    positional: tuple[str, ...] = ()
    keywords: Mapping[str, str] = {}
    rest: bool = False
    """True if a `**parameter` takes all columns that no other parameter takes."""

    def choose(
        self, values: Mapping[str, Any], columns: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional and the keyword arguments of one call.

        A name is looked up in `values`, then in `columns`. A column that the row lacks is None.
        """

        def value_of(name: str) -> Any:
            return values[name] if name in values else columns.get(name)

        keywords = {parameter: value_of(name) for parameter, name in self.keywords.items()}
        if self.rest:
            keywords |= {name: value for name, value in columns.items() if name not in keywords}
        return tuple(value_of(name) for name in self.positional), keywords

    def takes(self, name: str) -> bool:
        """Return whether the function takes this value."""
        return name in self.positional or name in self.keywords.values()


def subject_arguments(
    function: Callable[..., Any], columns: Sequence[str], gold: Collection[str], what: str
) -> Arguments:
    """Return the arguments of a function that is called for each row: columns by name, `row` and `ctx`.

    If the only parameter has another name, it gets the row. Raises UsageError for any other unknown parameter;
    `what` is the argument of `evaluate` that the message names, such as `answer=`.
    """
    parameters = parameters_of(function)
    if parameters is None:
        return Arguments((ROW,))
    name = describe_callable(function)
    for parameter in parameters:
        if parameter in gold:
            raise UsageError(
                f"{what} {name}() takes {parameter!r}, which is gold: scorers see it, the evaluated function does not"
            )
    required = [
        parameter
        for parameter in parameters.values()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        and parameter.name != CONTEXT
    ]
    given = {ROW: ROW, CONTEXT: CONTEXT} | {column: column for column in columns if column not in gold}
    if len(required) == 1 and required[0].name not in given:
        given[required[0].name] = ROW
    missing = [parameter.name for parameter in required if parameter.name not in given]
    if missing:
        usable = [column for column in columns if column not in gold]
        raise UsageError(
            f"{what} {name}() takes {', '.join(map(repr, missing))}, but the rows have no such column. "
            f"Columns it may take: {', '.join(usable) or 'none'}; `row` is the whole row, `ctx` the context"
        )
    return _arguments(parameters, given)


def scorer_arguments(function: Callable[..., Any], *, has_target: bool) -> Arguments:
    """Return the arguments of a scorer: any of answer, target, row, ctx and records."""
    parameters = parameters_of(function)
    name = describe_callable(function)
    if parameters is None:
        raise UsageError(
            f"{name} does not tell its parameters; wrap it: lambda answer, target: {name}(answer, target)"
        )
    for parameter in parameters.values():
        if parameter.name in SCORER_NAMES or parameter.default is not inspect.Parameter.empty:
            continue
        if parameter.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL):
            continue
        raise UsageError(
            f"the scorer {name}() takes {parameter.name!r}; a scorer takes any of {', '.join(SCORER_NAMES)} by name"
        )
    if "target" in parameters and not has_target:
        raise UsageError(
            f"the scorer {name}() takes `target`; name the column of right answers: target='COLUMN'"
        )
    return _arguments(parameters, {value: value for value in SCORER_NAMES})


def _arguments(parameters: Mapping[str, inspect.Parameter], given: Mapping[str, str]) -> Arguments:
    positional: list[str] = []
    keywords: dict[str, str] = {}
    rest = False
    for parameter in parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            rest = True
        elif parameter.name in given:
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                positional.append(given[parameter.name])
            else:
                keywords[parameter.name] = given[parameter.name]
    return Arguments(tuple(positional), keywords, rest)
